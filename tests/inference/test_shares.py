import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fairmargin.inference.shares import binomial_interval, effective_size, kolmogorov_band

law = settings(max_examples=60, deadline=None, derandomize=True)


@law
@given(st.integers(1, 500), st.data(), st.floats(0.5, 0.999))
def test_the_interval_of_a_share_is_scipys_exact_one(size, data, confidence):
    hits = data.draw(st.sampled_from([0, size]) | st.integers(0, size))
    expected = stats.binomtest(hits, size).proportion_ci(confidence, method="exact")
    assert binomial_interval(hits, size, confidence) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.99])
@pytest.mark.parametrize("size", [5, 30, 200])
def test_the_interval_of_a_share_covers_at_least_as_often_as_it_says(share, size):
    hits = np.arange(size + 1)
    limits = np.array([binomial_interval(h, size, 0.95) for h in hits])
    inside = (limits[:, 0] <= share) & (share <= limits[:, 1])
    assert stats.binom.pmf(hits, size, share)[inside].sum() >= 0.95


@law
@given(st.floats(0, 50), st.floats(0.01, 0.99))
def test_the_interval_of_a_fractional_count_contains_its_share_and_widens_with_fewer_samples(more, share):
    size = 3 + more
    low, high = binomial_interval(share * size, size, 0.95)
    assert 0 <= low <= share <= high <= 1
    wider_low, wider_high = binomial_interval(share * size / 2, size / 2, 0.95)
    assert wider_low <= low
    assert high <= wider_high


@pytest.mark.parametrize("size", [5, 40])
def test_the_band_holds_the_whole_true_curve_as_often_as_it_says(size):
    draws = np.sort(np.random.default_rng(0).random((4_000, size)), axis=1)
    steps = np.arange(size + 1) / size
    farthest = np.maximum(np.abs(steps[1:] - draws), np.abs(draws - steps[:-1])).max(axis=1)
    covered = (farthest <= kolmogorov_band(size, 0.95)).mean()
    assert abs(covered - 0.95) < 3 * math.sqrt(0.95 * 0.05 / 4_000)


def test_the_band_is_conservative_where_many_samples_lie_at_zero():
    size, atom = 40, 0.5
    uniform = np.random.default_rng(1).random((2_000, size))
    values = np.sort(np.maximum(uniform - atom, 0.0), axis=1)
    at = np.linspace(0, 1 - atom, 200)
    empirical = (values[:, :, None] > at).mean(axis=1)
    farthest = np.abs(empirical - (1 - atom - at)).max(axis=1)
    assert (farthest <= kolmogorov_band(size, 0.95)).mean() > 0.95


def test_a_fraction_of_a_sample_does_not_make_the_band_narrower():
    assert kolmogorov_band(10.9, 0.95) == kolmogorov_band(10, 0.95)
    assert 0.9 < kolmogorov_band(1.9, 0.95) == kolmogorov_band(0.5, 0.95) <= 1.0


@law
@given(st.lists(st.integers(1, 50), min_size=1, max_size=30))
def test_the_effective_size_is_that_of_a_mean_over_copies(sizes):
    samples = np.array(sizes, dtype=float)
    weights = samples / samples.sum()  # a mean over copies is Σ w x, with variance Σ w² σ²
    assert effective_size(samples) == pytest.approx(1 / (weights**2).sum())
    assert effective_size(samples) <= len(sizes) + 1e-9
