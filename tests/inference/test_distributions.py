"""Quantiles and tails are those of scipy.stats."""

import numpy as np
import pytest
from scipy import stats

from fairmargin.inference.distributions import (
    beta_quantile,
    binomial_quantile,
    hypergeometric_tails,
    kolmogorov_quantile,
    normal_quantile,
    student_quantile,
    student_tail,
)

FREEDOM = np.array([0.7, 1.0, 2.5, 30.0, 4_000.0, np.inf, np.nan])


@pytest.mark.parametrize("probability", [0.0, 1e-9, 0.025, 0.5, 0.975, 0.9999])
def test_quantiles_of_students_t_are_scipys_to_the_last_bit(probability):
    np.testing.assert_array_equal(student_quantile(probability, FREEDOM), stats.t.ppf(probability, FREEDOM))


@pytest.mark.parametrize("t", [0.0, 0.3, 2.0, 50.0, np.inf, np.nan])
def test_tails_of_students_t_are_scipys_to_the_last_bit(t):
    np.testing.assert_array_equal(student_tail(np.full(7, t), FREEDOM), stats.t.sf(t, FREEDOM))


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize(("hits", "size"), [(1, 2), (3, 10), (2.5, 7.25), (900, 1_000)])
def test_quantiles_of_beta_and_normal_are_scipys(hits, size, confidence):
    assert beta_quantile(confidence, hits, size - hits + 1) == stats.beta.ppf(confidence, hits, size - hits + 1)
    assert normal_quantile(confidence) == stats.norm.ppf(confidence)


@pytest.mark.parametrize("probability", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("share", [0.0, 1e-4, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("size", [1, 7, 100, 5_000])
def test_quantiles_of_counts_are_scipys(probability, share, size):
    assert binomial_quantile(probability, size, share) == stats.binom.ppf(probability, size, share)


@pytest.mark.parametrize(("population", "successes", "draws"), [(10, 4, 3), (50, 50, 20), (5_000, 700, 900), (9, 0, 4)])
def test_tails_of_draws_without_replacement_are_scipys(population, successes, draws):
    drawn = stats.hypergeom(population, successes, draws)
    for ones in range(max(0, draws + successes - population), min(draws, successes) + 1):
        expected = drawn.cdf(ones), drawn.sf(ones - 1)
        assert hypergeometric_tails(ones, population, successes, draws) == pytest.approx(expected, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("probability", [0.5, 0.75, 0.95, 0.999])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 10, 29])
def test_quantiles_of_kolmogorovs_statistic_for_few_samples_are_scipys(probability, size):
    assert kolmogorov_quantile(probability, size) == pytest.approx(stats.kstwo.ppf(probability, size), rel=1e-11)


@pytest.mark.parametrize("size", [30, 39, 140, 141, 1_000, 10_000])
def test_quantiles_of_kolmogorovs_statistic_for_many_samples_are_hardly_smaller_than_scipys(size):
    for probability, slack in ((0.5, 0.001), (0.9, 0.001), (0.95, 0.001), (0.999, 0.007)):
        ratio = kolmogorov_quantile(probability, size) / stats.kstwo.ppf(probability, size)
        assert 1 - 4e-4 < ratio < 1 + slack
