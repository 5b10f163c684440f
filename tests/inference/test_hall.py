"""Closed-form limits of skewed statistics: agreement of limits and p-values, and coverage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fairmargin.inference import hall
from fairmargin.inference.hall import Studentised

law = settings(max_examples=300, deadline=None, derandomize=True)
small = st.floats(-0.8, 0.8)


def one(value, error, bias, skewness, freedom):
    return Studentised(*(np.array([part]) for part in (value, error, bias, skewness, freedom)))


@law
@given(st.floats(-5, 5), st.floats(0.01, 2), small, small, st.floats(2, 500), st.floats(1e-4, 0.5))
def test_limits_are_not_inside_students_and_exclude_zero_exactly_where_p_is_below_the_level(
    value, error, bias, skewness, freedom, alpha
):
    studentised = one(value, error, bias, skewness, freedom)
    limits, p = studentised.limits(alpha), float(studentised.p()[0])
    if abs(p - alpha) > 1e-9:
        assert bool(limits.low[0] > 0 or limits.high[0] < 0) == (p < alpha)
    reach = float(stats.t.isf(alpha / 2, freedom)) * error
    assert limits.low[0] <= value - reach + 1e-9
    assert limits.high[0] >= value + reach - 1e-9


def test_without_bias_and_skewness_the_limits_and_p_are_students():
    studentised = one(0.7, 0.3, 0.0, 0.0, 12.0)
    expected = stats.t.interval(0.95, 12, loc=0.7, scale=0.3)
    assert (studentised.limits(0.05).low[0], studentised.limits(0.05).high[0]) == pytest.approx(expected)
    assert studentised.p()[0] == pytest.approx(2 * stats.t.sf(0.7 / 0.3, 12))


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [(0.5, 0.0, (0.5, 0.5, 0.0)), (0.0, 0.0, (0.0, 0.0, 1.0)), (0.5, np.nan, (np.nan, np.nan, np.nan))],
)
def test_an_estimate_without_error_is_certain_and_an_unknown_error_gives_nothing(value, error, expected):
    found = one(value, error, np.nan, np.nan, 10.0)
    limits = found.limits(0.05)
    np.testing.assert_array_equal([limits.low[0], limits.high[0], found.p()[0]], expected)


def test_the_cubic_is_the_one_that_hall_printed_for_a_mean():
    skewness, t = 0.3, np.array([1.7])  # the skewness of the data over √n
    mean = hall.mean(np.array([0.0]), np.array([1.0]), np.array([skewness]), np.array([np.inf]))
    printed = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6  # Hall 1992, Equation 2.1
    assert mean._transformed(t) == pytest.approx(printed)


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, shape: rng.lognormal(0, 1, shape),
        lambda rng, shape: rng.pareto(3, shape) + 1,
        lambda rng, shape: rng.gamma(2, 1, shape) * (rng.random(shape) < 0.4),
    ],
    ids=["log-normal", "Pareto", "60 % zeros"],
)
def test_the_log_ratio_of_unequally_large_skewed_groups_is_covered(draw):
    rng = np.random.default_rng(11)
    (m1, e1, t1, f1), (m2, e2, t2, f2) = (_moments(draw(rng, (4_000, n))) for n in (60, 400))
    freedom = (e1 + e2) ** 2 / (e1**2 / f1 + e2**2 / f2)
    limits = hall.log_ratio(np.log(m1 / m2), e1, e2, np.zeros_like(e1), t1 - t2, freedom).limits(0.05)
    assert np.mean((limits.low <= 0) & (limits.high >= 0)) >= 0.93


def _moments(values):
    """Return mean, squared relative error, third relative cumulant and degrees of freedom of each row."""
    n, mean = values.shape[1], values.mean(axis=1)
    away = values - mean[:, None]
    second = away.var(axis=1, ddof=1)
    spread = (away**4).mean(axis=1) / second**2 / n - (n - 3) / (n * (n - 1))
    third = (away**3).sum(axis=1) / n**3 / mean**3
    return mean, second / n / mean**2, third, np.clip(2 / spread, 2, n - 1)
