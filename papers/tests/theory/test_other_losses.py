"""Thresholds under other losses than the error, against integration and minimisation that are not ours."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit
from scipy.stats import norm

from fairmargin_papers.theory import GaussianPair
from fairmargin_papers.theory.losses import LOSSES

law = settings(max_examples=25, deadline=None, derandomize=True)

MARGIN_LOSSES = {
    "zero_one": lambda m: (m < 0).astype(float),
    "log": lambda m: np.logaddexp(0, -m),
    "exponential": lambda m: np.exp(-m),
    "ramp": lambda m: np.clip(1 - m, 0, 1),
}
gaps = st.floats(0.1, 8)
spreads = st.one_of(st.floats(0.3, 5), st.sampled_from([1 - 1e-7, 1.0, 1 + 1e-7]))
priors = st.one_of(st.just(0.5), st.floats(0.05, 0.95))
penalties = st.one_of(st.just(0.0), st.floats(0, 0.7))

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)


def mean_loss(loss, t, mean, std, sign):
    """E ℓ(sign·(X − t)) by composite Gauss–Legendre between the corners that losses have at margins 0 and 1."""
    reach = 12 * std + std**2 * (loss == "exponential")
    low, high = mean - reach, mean + reach
    cuts = np.unique(np.clip([low, *np.linspace(low, high, 25), t, t + sign, high], low, high))
    half, middle = np.diff(cuts) / 2, (cuts[1:] + cuts[:-1]) / 2
    x = middle[:, None] + half[:, None] * _NODES
    return float((half[:, None] * _WEIGHTS * MARGIN_LOSSES[loss](sign * (x - t)) * norm.pdf(x, mean, std)).sum())


def slopes(loss, t, gap, spread):
    """The derivatives of L₊ and −L₋ in t, each positive."""
    if loss == "ramp":
        u, weights = (_NODES + 1) / 2, _WEIGHTS / 2  # a difference of probabilities would vanish in the tails
        return (weights * norm.pdf(t + u, gap, spread)).sum(), (weights * norm.pdf(t - u)).sum()
    x, weights = np.polynomial.hermite_e.hermegauss(180)
    weights = weights / math.sqrt(2 * math.pi)
    if loss == "exponential":
        return (weights * np.exp(t - gap - spread * x)).sum(), (weights * np.exp(x - t)).sum()
    z = np.linspace(-12, 12, 4001)  # the trapezoid rule is spectral for analytic functions that vanish at the ends
    weights = norm.pdf(z) * (z[1] - z[0])
    return (weights * expit(t - gap - spread * z)).sum(), (weights * expit(z - t)).sum()


def objective(loss, t, gap, spread, prior, penalty, reading="sum"):
    plus, minus = mean_loss(loss, t, gap, spread, 1), mean_loss(loss, t, 0, 1, -1)
    mean = prior * plus + (1 - prior) * minus
    terms = [abs(plus - mean), abs(minus - mean)]
    return mean + penalty * (sum(terms) if reading == "sum" else max(terms))


@law
@given(gap=gaps, spread=spreads, t=st.floats(-10, 10), loss=st.sampled_from(list(LOSSES)))
def test_mean_losses_are_the_integrals(gap, spread, t, loss):
    found = GaussianPair(0.0, gap, spread).loss_by_class(loss, t)
    expected = (mean_loss(loss, t, gap, spread, 1), mean_loss(loss, t, 0, 1, -1))
    assert found == (pytest.approx(expected[0], rel=1e-9, abs=1e-13), pytest.approx(expected[1], rel=1e-9, abs=1e-13))


@law
@given(
    gap=gaps,
    spread=spreads,
    prior=priors,
    penalty=penalties,
    loss=st.sampled_from(list(LOSSES)),
    reading=st.sampled_from(["sum", "max"]),
)
@example(gap=0.5, spread=1.0, prior=0.5, penalty=0.0, loss="ramp", reading="sum")  # both constants are best
@example(gap=0.5, spread=1.5, prior=0.62, penalty=0.0, loss="ramp", reading="sum")  # a local minimum that is not global
@example(gap=1.0, spread=0.5, prior=0.2, penalty=0.05, loss="ramp", reading="max")
@example(gap=1.0, spread=2.0, prior=0.8, penalty=0.1, loss="ramp", reading="sum")
@example(gap=2.0, spread=3.0, prior=0.8, penalty=0.1, loss="log", reading="max")
@example(gap=2.0, spread=3.0, prior=0.2, penalty=0.1, loss="exponential", reading="max")
def test_no_threshold_has_a_smaller_loss_and_violation(gap, spread, prior, penalty, loss, reading):
    t = GaussianPair(0.0, gap, spread, prior).threshold_under(loss, penalty, reading=reading)
    arguments = (gap, spread, prior, penalty, reading)
    middle = t if math.isfinite(t) else gap / 2
    grid = np.concatenate([np.linspace(-6, gap + 6, 61), middle + np.array([-1e-1, -1e-3, 1e-3, 1e-1])])
    values = [objective(loss, float(x), *arguments) for x in grid]
    ends = [-60.0, gap + 60.0] if loss in ("zero_one", "ramp") else []
    values += [objective(loss, x, *arguments) for x in ends]
    least = min(values)
    start = float(grid[int(np.argmin(values[: len(grid)]))])
    bounds = (start - 0.25 - gap / 50, start + 0.25 + gap / 50)
    refined = minimize_scalar(lambda x: objective(loss, x, *arguments), bounds=bounds, method="bounded")
    least = min(least, refined.fun)
    ours = objective(loss, t if math.isfinite(t) else math.copysign(60.0, t) + gap * (t > 0), *arguments)
    assert ours <= least + 1e-11 * (1 + abs(least))


@law
@given(gap=gaps, spread=spreads, prior=priors, loss=st.sampled_from(["log", "exponential", "ramp"]))
def test_thresholds_are_right_to_nine_digits(gap, spread, prior, loss):
    t = GaussianPair(0.0, gap, spread, prior).threshold_under(loss)
    if not math.isfinite(t):
        return

    def slope(x):
        plus, minus = slopes(loss, x, gap, spread)
        return math.log(prior * plus) - math.log((1 - prior) * minus)

    steepness = (slope(t + 1e-4) - slope(t - 1e-4)) / 2e-4
    assert steepness > 0, "a maximum"
    tolerance = 1e-9 * (1 + abs(t)) + 1e-12 / steepness
    width = max(2 * tolerance, 1e-5)
    assert abs(brentq(slope, t - width, t + width, xtol=1e-15) - t) <= tolerance


@law
@given(gap=gaps, spread=spreads, loss=st.sampled_from(list(LOSSES)))
def test_fully_fair_means_equal_mean_losses(gap, spread, loss):
    pair = GaussianPair(0.0, gap, spread, 0.3)
    t = pair.threshold_under(loss, None)
    plus, minus = mean_loss(loss, t, gap, spread, 1), mean_loss(loss, t, 0, 1, -1)
    assert plus == pytest.approx(minus, rel=1e-8)
    assert pair.threshold_under(loss, 5.0) == pytest.approx(t, abs=1e-12)
    assert pair.threshold_under(loss, math.inf) == pytest.approx(t, abs=1e-12)


@pytest.mark.parametrize("loss", list(LOSSES))
def test_inside_keeps_the_best_threshold_of_the_interval(loss):
    for prior in (0.1, 0.5, 0.9):
        for penalty in (0.0, 0.1):
            t = GaussianPair(0.0, 1.0, 4.0, prior).threshold_under(loss, penalty, inside=True)
            values = [objective(loss, x, 1.0, 4.0, prior, penalty) for x in np.linspace(0, 1, 201)]
            assert 0 <= t <= 1
            assert objective(loss, t, 1.0, 4.0, prior, penalty) <= min(values) + 1e-12


@pytest.mark.parametrize("loss", list(LOSSES))
def test_zero_one_is_the_error_and_equal_bells_are_split_in_the_middle(loss):
    assert GaussianPair(-1.0, 3.0, 1.0).threshold_under(loss) == pytest.approx(1.0, abs=1e-12)
    assert GaussianPair(-1.0, 3.0, 1.0).threshold_under(loss, None) == pytest.approx(1.0, abs=1e-12)
    pair = GaussianPair(0.0, np.array([1.0, 4.0]), 2.0, 0.3)
    assert (pair.threshold_under("zero_one") == pair.natural_threshold()).all()
    assert (pair.threshold_under("zero_one", 0.1) == pair.fair_threshold(0.1)).all()


@pytest.mark.parametrize("spread", [1e-6, 1e-3, 1.0, 30.0, 1e6])
@pytest.mark.parametrize("gap", [1e-6, 1.0, 1e3, 9e5])
def test_extreme_parameters_still_give_equal_losses_in_logarithms(spread, gap):
    pair = GaussianPair(0.0, gap, spread)
    for loss in ("log", "exponential"):
        t = pair.threshold_under(loss)
        assert math.isfinite(t)
    # Far from either class the log-loss of the wrong side is an exponential, so that both agree there.
    if spread <= 1 and gap >= 1e3:
        assert pair.threshold_under("log") == pytest.approx(pair.threshold_under("exponential"), rel=1e-12)
        # and the ramp's threshold is that of the error at radius 1, the worst of those it averages
        assert pair.threshold_under("ramp") == pytest.approx(pair.robust_threshold(1.0), rel=1e-5)


def test_the_exponential_loss_of_balanced_classes_is_always_fair():
    pair = GaussianPair(-1.0, 1.0, np.array([2.0, 5.0, 10.0]))
    np.testing.assert_allclose(pair.threshold_under("exponential"), [-0.75, -6.0, -24.75])
    np.testing.assert_allclose(pair.threshold_under("exponential", None), [-0.75, -6.0, -24.75])


def test_the_ramp_is_the_mean_robust_error_over_radii_up_to_one():
    pair = GaussianPair(-1.0, 1.5, 2.0, 0.3)
    plus, minus = pair.loss_by_class("ramp", 0.4)
    radii, weights = (_NODES + 1) / 2, _WEIGHTS / 2
    assert 0.3 * plus + 0.7 * minus == pytest.approx((weights * pair.robust_error(0.4, radii)).sum(), abs=1e-14)


def test_infinite_thresholds_cost_what_they_should():
    pair = GaussianPair(0.0, 1.0, 2.0)
    assert pair.loss_by_class("ramp", math.inf) == (1, 0)
    assert pair.loss_by_class("ramp", -math.inf) == (0, 1)
    assert pair.loss_by_class("log", math.inf) == (math.inf, 0)
    assert pair.loss_by_class("log", -math.inf) == (0, math.inf)
    assert pair.loss_by_class("exponential", -math.inf) == (0, math.inf)


# The paper's Figure 8. -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [5.0, 10.0])
@pytest.mark.parametrize("penalty", [0.0, 0.1, None])
def test_in_the_paper_s_setting_the_ramp_is_nearest_to_the_error(spread, penalty):
    pair = GaussianPair(-1.0, 1.0, spread)
    best = pair.threshold_under("zero_one", penalty)
    away = {loss: abs(pair.threshold_under(loss, penalty) - best) for loss in ("ramp", "log", "exponential")}
    assert away["ramp"] < away["log"] < away["exponential"]
