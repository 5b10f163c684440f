"""Closed-form limits of skewed statistics: agreement of limits and p-values, and coverage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fairmargin.core.arrays import Floats
from fairmargin.inference import hall
from fairmargin.inference.hall import Studentised

law = settings(max_examples=300, deadline=None, derandomize=True)
small = st.floats(-0.8, 0.8)


def one(value: float, error: float, bias: float, skewness: float, freedom: float) -> Studentised:
    return Studentised(*(np.array([part]) for part in (value, error, bias, skewness, freedom)))


@law
@given(st.floats(-5, 5), st.floats(0.01, 2), small, small, st.floats(2, 500), st.floats(1e-4, 0.5))
def test_limits_exclude_zero_exactly_where_p_is_below_the_level(
    value: float, error: float, bias: float, skewness: float, freedom: float, alpha: float
) -> None:
    studentised = one(value, error, bias, skewness, freedom)
    limits, p = studentised.limits(alpha), float(studentised.p()[0])
    if abs(p - alpha) > 1e-9:
        assert bool(limits.low[0] > 0 or limits.high[0] < 0) == (p < alpha)


@law
@given(st.floats(-5, 5), st.floats(0.01, 2), small, small, st.floats(2, 500), st.floats(1e-4, 0.5))
def test_limits_are_never_inside_students(
    value: float, error: float, bias: float, skewness: float, freedom: float, alpha: float
) -> None:
    limits = one(value, error, bias, skewness, freedom).limits(alpha)
    reach = float(stats.t.isf(alpha / 2, freedom)) * error
    assert limits.low[0] <= value - reach + 1e-9
    assert limits.high[0] >= value + reach - 1e-9


def test_limits_widen_as_the_level_rises() -> None:
    studentised = one(1.0, 0.5, -0.2, -0.6, 20.0)
    reaches = [studentised.limits(alpha).high[0] - studentised.limits(alpha).low[0] for alpha in (0.5, 0.05, 0.001)]
    assert reaches == sorted(reaches)


def test_without_bias_and_skewness_the_limits_and_p_are_students() -> None:
    studentised = one(0.7, 0.3, 0.0, 0.0, 12.0)
    expected = stats.t.interval(0.95, 12, loc=0.7, scale=0.3)
    assert (studentised.limits(0.05).low[0], studentised.limits(0.05).high[0]) == pytest.approx(expected)
    assert studentised.p()[0] == pytest.approx(2 * stats.t.sf(0.7 / 0.3, 12))


def test_an_estimate_without_error_is_certain_and_an_unknown_error_gives_nothing() -> None:
    certain = one(0.5, 0.0, np.nan, np.nan, 10.0)
    assert (certain.limits(0.05).low[0], certain.limits(0.05).high[0], certain.p()[0]) == (0.5, 0.5, 0.0)
    assert one(0.0, 0.0, np.nan, np.nan, 10.0).p()[0] == 1.0
    unknown = one(0.5, np.nan, 0.0, 0.0, 10.0)
    assert np.isnan([unknown.limits(0.05).low[0], unknown.limits(0.05).high[0], unknown.p()[0]]).all()


def test_the_cubic_is_the_one_that_hall_printed_for_a_mean() -> None:
    skewness, t = 0.3, np.array([1.7])  # the skewness of the data over √n
    mean = hall.mean(np.array([0.0]), np.array([1.0]), np.array([skewness]), np.array([np.inf]))
    printed = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6  # Hall 1992, Equation 2.1
    assert mean._transformed(t) == pytest.approx(printed)


@pytest.mark.parametrize(
    ("name", "draw", "truth"),
    [
        ("log-normal", lambda rng, shape: rng.lognormal(0, 1, shape), np.exp(0.5)),
        ("Pareto", lambda rng, shape: rng.pareto(3, shape) + 1, 1.5),
        ("60 % zeros", lambda rng, shape: rng.gamma(2, 1, shape) * (rng.random(shape) < 0.4), 0.8),
    ],
)
def test_the_log_ratio_of_unequally_large_skewed_groups_is_covered(name, draw, truth) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(11)
    small_side, large_side = (_moments(draw(rng, (4_000, n))) for n in (60, 400))
    (m1, e1, t1, f1), (m2, e2, t2, f2) = small_side, large_side
    freedom = (e1 + e2) ** 2 / (e1**2 / f1 + e2**2 / f2)
    limits = hall.log_ratio(np.log(m1 / m2), e1, e2, np.zeros_like(e1), t1 - t2, freedom).limits(0.05)
    covered = np.mean((limits.low <= 0) & (limits.high >= 0))
    assert covered >= 0.93, f"{name}: {covered:.1%} of 4,000"


def _moments(values: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Mean, squared relative error, third relative cumulant and degrees of freedom of each row."""
    n, mean = values.shape[1], values.mean(axis=1)
    away = values - mean[:, None]
    second = away.var(axis=1, ddof=1)
    spread = (away**4).mean(axis=1) / second**2 / n - (n - 3) / (n * (n - 1))
    third = (away**3).sum(axis=1) / n**3 / mean**3
    return mean, second / n / mean**2, third, np.clip(2 / spread, 2, n - 1)
