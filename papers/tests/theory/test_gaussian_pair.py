"""The closed forms of two normal classes against brute force, against the paper, and against an audit of samples."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

from fairmargin.analyses.audit import audit
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.shares import binomial_interval
from fairmargin.models.linear import LinearClassifier
from fairmargin_papers.theory import GaussianPair, Statement

law = settings(max_examples=50, deadline=None, derandomize=True)

gaps = st.floats(0.05, 12)
spreads = st.one_of(
    st.floats(0.2, 8), st.sampled_from([1 - 1e-4, 1 - 1e-8, 1 - 1e-13, 1.0, 1 + 1e-13, 1 + 1e-8, 1 + 1e-4, 10.0])
)
wider = st.one_of(st.floats(1.001, 8), st.sampled_from([1 + 1e-9, 1 + 1e-5, 10.0]))
priors = st.one_of(st.just(0.5), st.floats(0.02, 0.98))
radii = st.one_of(st.just(0.0), st.floats(1e-12, 1e-6), st.floats(0, 4))


# Brute force that shares nothing with the implementation: a dense grid of the objective as scipy's distributions give
# it, refined by scipy's bounded minimisation, and both infinite thresholds.


def errors(t, gap, spread, radius=0.0):
    return norm.cdf(t + radius, gap, spread), norm.sf(t - radius, 0, 1)


def brute_force(objective, gap, spread, radius=0.0, ends=(-math.inf, math.inf)):
    """The least value of an objective(t), and a t that attains it."""
    reach = 9 * max(1, spread) + gap + radius
    grid = np.unique(
        np.concatenate(
            [
                np.linspace(-reach, gap + reach, 6001),
                np.linspace(-9 - radius, 9 + radius, 3001),
                np.linspace(gap - 9 * spread - radius, gap + 9 * spread + radius, 3001),
            ]
        )
    )
    grid = np.concatenate([[ends[0]], grid[(grid > ends[0]) & (grid < ends[1])], [ends[1]]])
    values = objective(grid)
    at = int(values.argmin())
    best = (float(values[at]), float(grid[at]))
    if 0 < at < len(grid) - 1:
        bracket = np.clip(grid[[at - 1, at + 1]], -1e3, 1e3)
        found = minimize_scalar(objective, bounds=tuple(bracket), method="bounded", options={"xatol": 1e-12})
        best = min(best, (float(found.fun), float(found.x)))
    return best


def assert_minimises(t, objective, gap, spread, radius=0.0, ends=(-math.inf, math.inf)):
    least, _ = brute_force(objective, gap, spread, radius, ends)
    assert ends[0] <= t <= ends[1]
    assert float(objective(np.array([t]))[0]) <= least + 1e-12


def assert_stationary(t, gap, spread, plus, minus, radius=0.0):
    """Within 1e-9 of the root of the derivative, which scipy's densities and root finder give.

    Rounding of the densities moves that root by what they cannot resolve: their spacing over the curvature.
    """

    def slope(x):
        first, second = norm.logpdf(x + radius, gap, spread), norm.logpdf(x - radius, 0, 1)
        return math.log(plus) + first - math.log(minus) - second

    curvature = (t - radius) - (t + radius - gap) / spread**2
    size = abs(norm.logpdf(t + radius, gap, spread)) + abs(norm.logpdf(t - radius)) + 1
    tolerance = 1e-9 * (1 + abs(t)) + 8 * np.spacing(size) / abs(curvature)
    assert curvature > 0, "a maximum"
    width = 2 * tolerance + 1e-3
    while slope(t - width) > 0 or slope(t + width) < 0:
        width /= 2
        assert width > tolerance, "no root of the derivative nearby"
    assert abs(brentq(slope, t - width, t + width, xtol=1e-14, rtol=1e-15) - t) <= tolerance


# Thresholds are true minimisers. -------------------------------------------------------------------------------------


@law
@given(gap=gaps, spread=spreads, prior=priors, radius=radii, inside=st.booleans())
@example(gap=2.0, spread=10.0, prior=0.5, radius=0.0, inside=False)
@example(gap=1.0, spread=2.0, prior=0.9, radius=0.0, inside=False)
@example(gap=2.0, spread=1.0, prior=0.5, radius=1.0, inside=False)
@example(gap=1.0, spread=0.5, prior=0.5, radius=3.0, inside=True)
def test_the_robust_threshold_has_the_smallest_robust_error_of_all(gap, spread, prior, radius, inside):
    def objective(t):
        plus, minus = errors(t, gap, spread, radius)
        return prior * plus + (1 - prior) * minus

    t = GaussianPair(0.0, gap, spread, prior).robust_threshold(radius, inside=inside)
    ends = (0.0, gap) if inside else (-math.inf, math.inf)
    assert_minimises(t, objective, gap, spread, radius, ends)
    if math.isfinite(t) and t not in ends and not (spread == 1 and gap == 2 * radius):
        assert_stationary(t, gap, spread, prior, 1 - prior, radius)


@law
@given(gap=gaps, spread=spreads, prior=priors, penalty=st.floats(0, 1.2), reading=st.sampled_from(["sum", "max"]))
@example(gap=2.0, spread=3.0, prior=0.5, penalty=0.25, reading="sum")
@example(gap=2.0, spread=3.0, prior=0.5, penalty=0.5, reading="max")
@example(gap=1.0, spread=2.0, prior=0.95, penalty=0.1, reading="sum")
def test_the_penalised_threshold_minimises_error_and_violation(gap, spread, prior, penalty, reading):
    def objective(t):
        plus, minus = errors(t, gap, spread)
        error = prior * plus + (1 - prior) * minus
        terms = [abs(plus - error), abs(minus - error)]
        return error + penalty * (sum(terms) if reading == "sum" else np.maximum(*terms))

    pair = GaussianPair(0.0, gap, spread, prior)
    for inside in (False, True):
        t = pair.fair_threshold(penalty, reading=reading, inside=inside)
        ends = (0.0, gap) if inside else (-math.inf, math.inf)
        assert_minimises(t, objective, gap, spread, ends=ends)
        weight = penalty if reading == "sum" else penalty * max(prior, 1 - prior)
        fair = pair.fair_threshold()
        if math.isfinite(t) and abs(t - fair) > 1e-9 and t not in ends:
            sign = 1 if t > fair else -1
            assert_stationary(t, gap, spread, prior + sign * weight, 1 - prior - sign * weight)


@law
@given(gap=gaps, spread=spreads, prior=priors)
def test_at_the_fair_threshold_both_classes_err_equally_often(gap, spread, prior):
    pair = GaussianPair(-1.0, gap - 1, spread, prior)
    plus, minus = pair.error_by_class(pair.fair_threshold())
    assert plus == pytest.approx(minus, rel=1e-9)
    assert pair.fair_threshold(math.inf) == pair.fair_threshold()


@law
@given(gap=gaps, spread=wider, radius=st.floats(0, 1))
def test_balanced_thresholds_are_the_printed_formulas(gap, spread, radius):
    pair, square = GaussianPair(-gap / 2, gap / 2, spread), spread**2 - 1
    radius *= gap / 2
    root = math.sqrt(2 * square * math.log(spread) + (gap - 2 * radius) ** 2)
    printed = -gap / 2 - (gap - (spread**2 + 1) * radius) / square + spread / square * root
    assert pair.robust_threshold(radius) == pytest.approx(printed, abs=1e-14 * (1 + gap) / square + 1e-9)
    assert pair.fair_threshold() == pytest.approx(-gap / 2 + gap / (spread + 1), abs=1e-12)


def test_equal_spreads_give_the_midpoint_and_its_neighbours_join_smoothly():
    spreads = np.array([1 - 1e-6, 1 - 1e-9, 1 - 1e-12, 1.0, 1 + 1e-12, 1 + 1e-9, 1 + 1e-6])
    found = GaussianPair(-1.0, 3.0, spreads).natural_threshold()
    # With D = 4: the midpoint 1, and to first order 1 + (K−1)·(1/D − D/4).
    np.testing.assert_allclose(found, 1 + (spreads - 1) * (1 / 4 - 4 / 4), rtol=0, atol=1e-11)
    assert GaussianPair(-1.0, 3.0, 1.0).natural_threshold() == 1.0
    assert GaussianPair(-1.0, 3.0, 1.0, 0.2).natural_threshold() == pytest.approx(1 + math.log(4) / 4, abs=1e-15)


def test_where_one_class_always_wins_the_threshold_is_infinite():
    assert GaussianPair(0.0, 1.0, 2.0, 0.9).natural_threshold() == -math.inf
    assert GaussianPair(0.0, 1.0, 0.5, 0.1).natural_threshold() == math.inf
    assert GaussianPair(0.0, 1.0, 2.0, 0.9).natural_threshold(inside=True) == 0.0
    assert GaussianPair(0.0, 1.0, 0.5, 0.1).natural_threshold(inside=True) == 1.0
    assert GaussianPair(0.0, 1.0, 1.0, 0.6).robust_threshold(2.0) == -math.inf
    assert GaussianPair(0.0, 1.0, 1.0, 0.4).robust_threshold(2.0) == math.inf


def test_where_every_threshold_is_as_good_the_middle_is_given():
    assert GaussianPair(0.0, 2.0, 1.0).robust_threshold(1.0) == 1.0


def test_thresholds_of_classes_that_lie_far_apart_do_not_fall_back_to_an_end():
    for spread in (0.5, 1.0, 2.0):
        pair = GaussianPair(0.0, 400.0, spread)
        assert pair.natural_error(pair.natural_threshold()) == 0  # below what a float holds
        fair, natural = pair.fair_threshold(), pair.natural_threshold()
        path = pair.fair_threshold(np.array([0.0, 0.01, 0.02]))
        assert abs(natural - fair) < 0.01 * 400
        assert path[0] == natural
        assert (np.diff(np.abs(path - fair)) < 0).all() or spread == 1


# The path in the penalty. --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [1.5, 3.0, 7.0])
@pytest.mark.parametrize(("reading", "factor"), [("sum", 0.5), ("max", 1.0)])
def test_the_penalty_saturates_at_the_printed_value_only_if_read_as_a_maximum(spread, reading, factor):
    pair = GaussianPair(-1.0, 1.0, spread)
    saturation = factor * (spread - 1) / (spread + 1)
    fair = pair.fair_threshold()
    assert pair.fair_threshold(saturation * 1.0001, reading=reading) == fair
    assert pair.fair_threshold(saturation * 0.9999, reading=reading) > fair + 1e-6


@law
@given(gap=gaps, spread=wider, prior=st.floats(0.05, 0.6), reading=st.sampled_from(["sum", "max"]))
def test_with_a_prior_the_penalty_saturates_where_the_weighted_densities_meet(gap, spread, prior, reading):
    pair = GaussianPair(0.0, gap, spread, prior)
    scale = 1 if reading == "sum" else max(prior, 1 - prior)
    saturation = (spread * (1 - prior) - prior) / (spread + 1) / scale
    if saturation > 1e-3 and math.isfinite(pair.natural_threshold()):
        assert pair.fair_threshold(saturation + 1e-6, reading=reading) == pair.fair_threshold()
        assert pair.fair_threshold(saturation - 1e-4, reading=reading) != pair.fair_threshold()


# Errors and distances. -----------------------------------------------------------------------------------------------


@law
@given(gap=gaps, spread=spreads, prior=priors, t=st.floats(-20, 20), radius=radii)
def test_robust_error_is_natural_plus_boundary_error_exactly(gap, spread, prior, t, radius):
    pair = GaussianPair(0.0, gap, spread, prior)
    plus, minus = errors(t, gap, spread)
    assert pair.error_by_class(t) == (pytest.approx(plus, rel=1e-9), pytest.approx(minus, rel=1e-9))
    assert pair.natural_error(t) == pytest.approx(prior * plus + (1 - prior) * minus, rel=1e-9)
    assert pair.robust_error(t, radius) == pair.natural_error(t) + pair.boundary_error(t, radius)
    plus, minus = errors(t, gap, spread, radius)
    assert pair.robust_error(t, radius) == pytest.approx(prior * plus + (1 - prior) * minus, rel=1e-9, abs=1e-300)


@law
@given(gap=gaps, spread=spreads, prior=priors, t=st.floats(-20, 20))
def test_the_mean_distance_is_the_integral_of_the_distance(gap, spread, prior, t):
    pair = GaussianPair(0.0, gap, spread, prior)
    z, weights = np.polynomial.legendre.leggauss(200)

    def mean(mean, std):  # |x − t| has a corner: integrate on either side of it
        total = 0.0
        for low, high in ((mean - 12 * std, t), (t, mean + 12 * std)):
            low, high = np.clip([low, high], mean - 12 * std, mean + 12 * std)
            x = (low + high) / 2 + (high - low) / 2 * z
            total += ((high - low) / 2 * weights * np.abs(x - t) * norm.pdf(x, mean, std)).sum()
        return total

    assert pair.mean_distance_by_class(t) == (
        pytest.approx(mean(gap, spread), rel=1e-9),
        pytest.approx(mean(0, 1), rel=1e-9),
    )
    assert pair.mean_distance(t) == pytest.approx(prior * mean(gap, spread) + (1 - prior) * mean(0, 1), rel=1e-9)


def test_infinite_thresholds_cost_the_class_that_is_never_predicted():
    pair = GaussianPair(0.0, 1.0, 2.0, 0.3)
    assert (pair.natural_error(math.inf), pair.natural_error(-math.inf)) == (0.3, 0.7)
    assert (pair.boundary_error(math.inf, 0.5), pair.mean_distance(-math.inf)) == (0, math.inf)


def test_densities_integrate_to_the_errors():
    pair, x = GaussianPair(-1.0, 1.0, 2.0), np.linspace(-15, 0.3, 20_001)
    plus, minus = pair.density_by_class(x)
    assert np.trapezoid(plus, x) == pytest.approx(pair.error_by_class(0.3)[0], abs=1e-6)
    assert np.trapezoid(minus, x) == pytest.approx(1 - pair.error_by_class(0.3)[1], abs=1e-6)


# Arrays. -------------------------------------------------------------------------------------------------------------


def test_arrays_give_what_each_number_gives_alone():
    high, spread = np.array([0.5, 1.0, 4.0])[:, None], np.array([0.5, 1.0, 1.5, 6.0])
    many = GaussianPair(0.0, high, spread, 0.4)
    for name, args in (
        ("natural_threshold", ()),
        ("robust_threshold", (0.3,)),
        ("fair_threshold", (0.1,)),
        ("mean_distance", (0.2,)),
        ("robust_error", (0.2, 0.1)),
        ("threshold_under", ("ramp", 0.1)),
    ):
        found = getattr(many, name)(*args)
        assert found.shape == (3, 4)
        for (i, j), value in np.ndenumerate(found):
            alone = getattr(GaussianPair(0.0, high[i, 0], spread[j], 0.4), name)(*args)
            assert type(alone) is float
            assert value == pytest.approx(alone, abs=1e-12)
    verdicts = many.statements(np.array([0.1, 0.2])[:, None, None])
    assert all(np.shape(s.conclusion_holds) == (2, 3, 4) == np.shape(s.premise_holds) for s in verdicts)


def test_parameters_cannot_be_changed_through_the_array_that_was_passed():
    spread = np.array([2.0, 3.0])
    pair = GaussianPair(0.0, 1.0, spread)
    spread[0] = -1
    assert pair.spread[0] == 2
    with pytest.raises(ValueError):
        pair.spread[0] = 1


# Statements. ---------------------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None, derandomize=True)
@given(gap=st.floats(0.2, 10), spread=wider, share=st.floats(0, 1))
@example(gap=2.0, spread=2.0, share=4e-16)  # a radius that vanishes beside the threshold
def test_no_statement_is_refuted_but_the_path_for_the_printed_sum(gap, spread, share):
    found = GaussianPair(-gap / 2, gap / 2, spread).statements(share * gap / 2)
    refuted = {s.name for s in found if s.verdict == "refuted"}
    assert refuted <= {"Theorem 3, path, the penalty as the printed sum"}
    if spread > 1.01:
        assert refuted


def test_statements_say_what_holds_at_the_parameters():
    found = {s.name: s for s in GaussianPair(-2.0, 2.0, 2.0).statements(0.5)}
    assert all(isinstance(s, Statement) for s in found.values())
    assert found["Theorem 1, order"].premise_holds is True
    assert found["Corollary 2"].premise_holds is True
    printed = found["Theorem 3, path, the penalty as the printed sum"]
    assert (printed.premise_holds, printed.conclusion_holds) == (True, False)
    assert found["Theorem 3, path, the penalty as the larger term"].verdict == "holds"
    assert found["Theorem 3, path, corrected: 2λ for λ"].verdict == "holds"
    assert len(found) == 14


def test_premises_end_where_they_are_printed_to_end():
    gap, radius = 4.0, 0.5
    premise = {}
    for spread in (min(math.exp((gap - 2 * radius) ** 2 / 2), gap / radius - 1) * s for s in (0.999, 1.001)):
        found = {s.name: s for s in GaussianPair(0.0, gap, spread).statements(radius)}
        premise[spread > 7] = found["Theorem 1, order"].premise_holds
    assert premise == {False: True, True: False}
    edge = (6 + math.sqrt(32)) / 2  # φ⁻¹(D/ε − 2)
    for spread, holds in ((edge - 1e-6, True), (edge + 1e-6, False)):
        found = {s.name: s for s in GaussianPair(0.0, gap, spread).statements(radius)}
        assert found["Corollary 2"].premise_holds is holds
        assert found["Corollary 2, wider premise"].premise_holds is True
    assert not any(s.premise_holds for s in GaussianPair(0.0, gap, 2.0, 0.4).statements(radius))
    assert not any(s.premise_holds for s in GaussianPair(0.0, gap, 0.8).statements(radius))


def test_conclusions_fail_where_they_should():
    narrow_plus = {s.name: s for s in GaussianPair(0.0, 4.0, 0.5).statements(0.5)}
    assert narrow_plus["Theorem 1, order"].conclusion_holds is False
    assert narrow_plus["Theorem 3, fall, sum"].conclusion_holds is False  # the threshold rises to the fair one
    uneven = {s.name: s for s in GaussianPair(0.0, 4.0, 2.0, 0.2).statements(0.5)}
    assert uneven["Theorem 2, minimum"].conclusion_holds is False  # the fair threshold is no longer the median


# An audit of samples agrees. -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drawn():
    pair = GaussianPair(-1.5, 1.5, 2.0, 0.4)
    return pair, *pair.sample(100_000, seed=5)


@pytest.mark.parametrize("which", ["natural", "fair", "robust"])
def test_an_audit_of_samples_agrees_with_the_closed_form_within_its_interval(drawn, which):
    pair, x, y = drawn
    radius = 0.4
    t = {"natural": pair.natural_threshold(), "fair": pair.fair_threshold(), "robust": pair.robust_threshold(radius)}[
        which
    ]
    model = LinearClassifier([[0.0], [1.0]], [0.0, -t], classes=(-1, 1))
    groups = Partition.by("class", y.tolist())

    # Eighteen intervals are looked at: at 0.999 all of them hold the truth in 98 of 100 such tests. No group is
    # compared with another, as permutations of so many samples take a minute.
    plan = AuditSettings(confidence=0.999, resamples=200, smallest_group=len(x))
    truth = audit(measure(model, x, y, ExactLinear(Norm.L2)), groups, plan)
    error = dict(zip(("1", "-1"), pair.error_by_class(t), strict=True))
    for row in truth.groups:
        assert row.accuracy.low <= 1 - error[row.group] <= row.accuracy.high
    everyone = np.concatenate([row.curve.values for row in truth.groups])
    low, high = binomial_interval(int((everyone <= radius).sum()), len(everyone), plan.confidence)
    assert low <= pair.robust_error(t, radius) <= high
    low, high = binomial_interval(int(((everyone <= radius) & (everyone > 0)).sum()), len(everyone), plan.confidence)
    assert low <= pair.boundary_error(t, radius) <= high

    predicted = np.array(model.classes)[model.predict(x)]
    to_boundary = audit(measure(model, x, predicted, ExactLinear(Norm.L2)), groups, plan)
    distance = dict(zip(("1", "-1"), pair.mean_distance_by_class(t), strict=True))
    for row in to_boundary.groups:
        assert row.robustness.low <= distance[row.group] <= row.robustness.high
        assert row.robustness.high - row.robustness.low < 8 * pair.spread / math.sqrt(row.size)


def test_samples_follow_the_prior_the_means_and_the_seed():
    pair = GaussianPair(-1.0, 2.0, 3.0, 0.3)
    x, y = pair.sample(50_000, seed=1)
    again, _ = pair.sample(50_000, seed=1)
    other, _ = pair.sample(50_000, seed=2)
    assert (x.shape, y.shape, set(y.tolist())) == ((50_000, 1), (50_000,), {-1, 1})
    assert (x == again).all()
    assert (x != other).any()
    assert (y == 1).mean() == pytest.approx(0.3, abs=0.01)
    assert (x[y == 1].mean(), x[y == 1].std()) == (pytest.approx(2, abs=0.1), pytest.approx(3, abs=0.1))
    assert (x[y == -1].mean(), x[y == -1].std()) == (pytest.approx(-1, abs=0.05), pytest.approx(1, abs=0.03))
