import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr
from scipy.stats import binom, norm

import fairmargin as fm
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.inference.shares import binomial_interval
from fairmargin.models.linear import LinearClassifier
from fairmargin_papers.theory.gaussian_classes import GaussianClasses
from fairmargin_papers.theory.generalisation import asymptotically_bounded, chance_beyond, mean_coin_gap
from fairmargin_papers.theory.statement import Statement
from tests.oracles import accuracy_variance

law = settings(max_examples=100, deadline=None, derandomize=True)
means = st.floats(0.05, 3.0)
stds = st.floats(0.1, 5.0)
dims = st.sampled_from([1, 2, 3, 10, 100, 1_000, 1_000_000])
priors = st.floats(0.02, 0.98) | st.just(0.5)
radii = st.floats(0.0, 3.0) | st.just(0.0)
few = settings(law, max_examples=50)  # of laws that look at a whole grid of radii
Parameters = tuple[float, float, float, float, int, float]
parameters = st.tuples(means, means, stds, stds, dims, priors)
balanced = GaussianClasses(1.0, 1.0, 1.0, 2.0, dim=10)  # the published counter-example


# --- an answer of our own making: no closed form, only the two distribution functions of ⟨1, x⟩ -----------------------


def ends(given: Parameters, radius: float) -> tuple[float, float, float, float]:
    """Mean and standard deviation of ⟨1, x⟩ for either class, after the adversary."""
    mean_plus, mean_minus, std_plus, std_minus, dim, _ = given
    return (
        dim * (mean_plus - radius),
        math.sqrt(dim) * std_plus,
        -dim * (mean_minus - radius),
        math.sqrt(dim) * std_minus,
    )


def log_error(given: Parameters, bias: float | np.ndarray, radius: float) -> np.ndarray:
    m_plus, s_plus, m_minus, s_minus = ends(given, radius)
    below, above = log_ndtr((-bias - m_plus) / s_plus), log_ndtr((bias + m_minus) / s_minus)
    return np.logaddexp(math.log(given[5]) + below, math.log1p(-given[5]) + above)


def density_difference(given: Parameters, radius: float) -> Callable[[float], float]:
    m_plus, s_plus, m_minus, s_minus = ends(given, radius)
    odds = math.log(given[5]) - math.log1p(-given[5])
    return lambda b: odds + norm.logpdf(-b, m_plus, s_plus) - norm.logpdf(-b, m_minus, s_minus)


def by_search(given: Parameters, radius: float) -> float:
    """The best b by a fine grid and a bisection of the derivative; ±inf where a constant is best."""
    m_plus, s_plus, m_minus, s_minus = ends(given, radius)
    reach = 10 * max(s_plus, s_minus)
    grid = np.linspace(-max(m_plus, m_minus) - reach, -min(m_plus, m_minus) + reach, 10_001)
    errors = log_error(given, grid, radius)
    best = int(errors.argmin())
    always_plus, always_minus = math.log1p(-given[5]), math.log(given[5])
    if errors[best] > min(always_plus, always_minus) - 1e-12 or not 0 < best < len(grid) - 1:
        return math.inf if always_plus <= always_minus else -math.inf
    slope = density_difference(given, radius)
    return float(brentq(slope, grid[best - 1], grid[best + 1], xtol=1e-300, rtol=1e-15))


def classes_of(given: Parameters) -> GaussianClasses:
    return GaussianClasses(*given)


# --- the best bias ----------------------------------------------------------------------------------------------------


@law
@given(parameters, radii)
def test_no_bias_makes_fewer_errors_than_the_trained_one(given: Parameters, radius: float) -> None:
    bias = classes_of(given).bias(radius)
    least, searched = log_error(given, bias, radius), log_error(given, by_search(given, radius), radius)
    assert least <= searched + 1e-9 * max(1.0, abs(searched))
    assert math.exp(least) == pytest.approx(classes_of(given).risk(radius, radius), rel=1e-7, abs=1e-12)


@law
@given(parameters, radii)
def test_the_trained_bias_is_the_searched_one_to_nine_digits(given: Parameters, radius: float) -> None:
    searched = by_search(given, radius)
    constants = math.log(min(given[5], 1 - given[5]))
    assume(math.isinf(searched) or log_error(given, searched, radius) < constants - 1e-6)  # no tie
    bias = classes_of(given).bias(radius)
    if math.isinf(searched):
        # The search cannot see a minimum beyond its grid; there, errors are those of the constant.
        assert log_error(given, bias, radius) == pytest.approx(constants, abs=1e-6)
        return
    m_plus, s_plus, m_minus, s_minus = ends(given, radius)
    scale = s_plus + s_minus + abs(m_plus) + abs(m_minus)
    slope = density_difference(given, radius)
    step = 1e-6 * (s_plus + s_minus)
    steepness = abs(slope(searched + step) - slope(searched - step)) / (2 * step)
    rounding = 1e-15 * (m_plus - m_minus) ** 2 / min(s_plus, s_minus) ** 2 / steepness  # of the search itself
    assert bias == pytest.approx(searched, abs=1e-9 * scale + 4 * rounding)


@law
@given(parameters, st.floats(0.0, 1.5), st.floats(0.0, 1.5))
def test_errors_are_those_of_the_normal_distributions(given: Parameters, train: float, test: float) -> None:
    classes = classes_of(given)
    bias = classes.bias(train)
    m_plus, s_plus, m_minus, s_minus = ends(given, test)
    plus, minus = norm.cdf(-bias, m_plus, s_plus), norm.sf(-bias, m_minus, s_minus)
    # b is of the order of d, so that errors by way of it are right only to d·eps.
    assert classes.class_errors(train, test) == pytest.approx((plus, minus), abs=1e-9)
    assert classes.risk(train, test) == pytest.approx(given[5] * plus + (1 - given[5]) * minus, abs=1e-9)
    assert classes.vcra(train, test) == pytest.approx((plus - minus) ** 2 / 4, abs=1e-9)
    assert classes.vca(train) == classes.vcra(train, 0.0)


def exact_bias(given: Parameters, radius: float) -> float:
    """The stationary point as the corrected paper writes it, in 80 digits."""
    with mpmath.workdps(80):
        mean_plus, mean_minus, std_plus, std_minus, dim, prior = map(mpmath.mpf, given)
        radius = mpmath.mpf(radius)
        apart, square = mean_plus + mean_minus - 2 * radius, std_minus**2 - std_plus**2
        ratio = mpmath.log(prior * std_minus / ((1 - prior) * std_plus))
        if square == 0:
            return float(std_plus**2 * ratio / apart - dim * (mean_plus - mean_minus) / 2)
        middle = dim * ((mean_plus - radius) * std_minus**2 + (mean_minus - radius) * std_plus**2)
        root = mpmath.sqrt(1 + 2 * ratio * square / (dim * apart**2))
        return float((dim * std_plus * std_minus * apart * root - middle) / square)


@pytest.mark.parametrize("excess", [0.0, 1e-300, 1e-15, 1e-12, 1e-8, 1e-4, 0.3, -1e-15, -1e-9, -0.2])
@pytest.mark.parametrize("dim", [1, 10, 1_000_000])
@pytest.mark.parametrize("prior", [0.5, 0.5 + 1e-12, 0.6, 0.3])
def test_the_bias_keeps_its_digits_as_the_spreads_become_equal(excess: float, dim: int, prior: float) -> None:
    given = (1.0, 1.0, 1.0, 1.0 + excess, dim, prior)
    for radius in (0.0, 1e-300, 1e-9, 0.4):
        assert GaussianClasses(*given).bias(radius) == pytest.approx(exact_bias(given, radius), rel=1e-10, abs=1e-13)


@pytest.mark.parametrize(("std_minus", "prior"), [(1.5, 0.6), (1.0, 0.9), (1.0, 0.01), (1.0 + 1e-15, 0.01)])
def test_the_bias_keeps_its_digits_where_the_adversary_leaves_almost_nothing(std_minus: float, prior: float) -> None:
    # In the last case both classes end up 100,000 standard deviations on the same side: a minimum all the same.
    given = (1.0, 1.0, 1.0, std_minus, 1, prior)
    for left in (1e-3, 4.6e-5, 1e-6):
        radius = 1.0 - left / 2
        assert GaussianClasses(*given).bias(radius) == pytest.approx(exact_bias(given, radius), rel=1e-10)


@pytest.mark.parametrize("std_plus", [1e-8, 1e-4, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("prior", [0.4, 0.6])
def test_the_bias_keeps_its_digits_where_one_class_is_far_wider(std_plus: float, prior: float) -> None:
    given = (1.3, 0.7, std_plus, 1.0, 7, prior)
    bias = GaussianClasses(*given).bias(0.1)
    assert bias == pytest.approx(exact_bias(given, 0.1), rel=1e-12)


@pytest.mark.parametrize("prior", [1e-300, 0.5, 1 - 1e-16])
@pytest.mark.parametrize("dim", [1, 10**15])
@pytest.mark.filterwarnings("error")
def test_extreme_parameters_give_numbers_and_no_warnings(prior: float, dim: int) -> None:
    stds = np.array([1e-8, 1.0, 1.0 + 2e-16, 1e20])
    classes = GaussianClasses(
        np.array([1e-300, 1.0, 1e6])[:, None], 1e-300, stds[:, None, None], stds[:, None, None, None], dim, prior
    )
    for train, test in ((0.0, 0.0), (1e-300, 1e-320), (0.3, 0.5), (5.0, 1.0)):
        results = [classes.bias(train), *classes.class_errors(train, test), *classes.mean_distances(train)]
        assert not any(np.isnan(result).any() for result in results)
        assert len(classes.statements(train, test)) == 11


def test_the_bias_of_many_dimensions_is_not_lost_among_the_means() -> None:
    # κσ²/M exactly, of the order of 1, between terms of the order of 1e12.
    assert GaussianClasses(1.0, 1.0, 1.0, 1.0, dim=10**12, prior=0.75).bias() == pytest.approx(
        math.log(3) / 2, rel=1e-13
    )


def test_where_one_class_always_wins_the_bias_is_infinite() -> None:
    assert GaussianClasses(0.1, 0.1, 1.0, 5.0, dim=1, prior=0.02).bias() == -math.inf  # no stationary point
    assert GaussianClasses(0.1, 0.1, 5.0, 1.0, dim=1, prior=0.98).bias() == math.inf
    rare = GaussianClasses(0.1, 0.1, 5.0, 1.0, dim=1, prior=0.98)
    assert rare.class_errors(0.0, 0.5) == (0.0, 1.0)
    assert rare.risk(0.0, 0.5) == pytest.approx(0.02)
    assert rare.mean_distances() == (math.inf, 0.0)


def test_a_local_minimum_that_a_constant_beats_is_not_returned() -> None:
    given = (0.3, 0.3, 1.0, 2.0, 1, 0.38)
    local = exact_bias(given, 0.0)
    nearby = minimize_scalar(lambda b: log_error(given, b, 0.0), bounds=(local - 0.1, local + 0.1), method="bounded")
    assert nearby.x == pytest.approx(local, abs=1e-4)  # it is a minimum, but
    assert math.exp(log_error(given, local, 0.0)) > 0.38  # always predicting − errs on 38 %
    assert GaussianClasses(*given).bias() == -math.inf


@pytest.mark.parametrize(("prior", "bias"), [(0.7, math.inf), (0.3, -math.inf), (0.5, math.inf)])
def test_beyond_half_the_distance_of_the_means_equal_classes_are_not_told_apart(prior: float, bias: float) -> None:
    classes = GaussianClasses(1.0, 0.5, 1.0, 1.0, dim=10, prior=prior)
    assert classes.bias(0.8) == bias
    assert classes.risk(0.8, 0.8) == pytest.approx(min(prior, 1 - prior))
    assert classes.vcra(0.8, 0.8) == 0.25


def test_where_every_bias_is_as_good_the_midpoint_is_taken() -> None:
    assert GaussianClasses(1.0, 0.5, 1.0, 1.0, dim=10).bias(0.75) == -2.5
    assert GaussianClasses(1.0, 0.5, 1.0, 1.0, dim=10, prior=0.6).bias(0.75) == math.inf


@law
@given(parameters, radii)
def test_swapping_the_classes_turns_the_bias_around(given: Parameters, radius: float) -> None:
    mean_plus, mean_minus, std_plus, std_minus, dim, prior = given
    swapped = GaussianClasses(mean_minus, mean_plus, std_minus, std_plus, dim, 1 - prior)
    assume(min(prior, 1 - prior) - classes_of(given).risk(radius, radius) > 1e-9)  # no tie of minimum and constant
    assert swapped.bias(radius) == pytest.approx(-classes_of(given).bias(radius), rel=1e-6, abs=1e-6)


# --- what follows from it ---------------------------------------------------------------------------------------------


def test_equal_spread_by_hand() -> None:
    classes = GaussianClasses(1.0, 0.5, 2.0, 2.0, dim=9, prior=0.7)
    train, test, log_ratio = 0.2, 0.3, math.log(7 / 3)
    centre, lead = 3 * (1.5 - 2 * test) / 4, log_ratio * 2 / (3 * (1.5 - 2 * train))
    assert classes.log_ratio == pytest.approx(log_ratio)
    assert classes.class_errors(train, test) == pytest.approx((norm.cdf(-centre - lead), norm.cdf(-centre + lead)))


@law
@given(means, means, stds, dims, st.floats(0.0, 0.99), st.floats(0.0, 3.0))
def test_a_balanced_pair_of_equal_spread_is_always_fair(
    mean_plus: float, mean_minus: float, std: float, dim: int, share: float, test: float
) -> None:
    classes = GaussianClasses(mean_plus, mean_minus, std, std, dim)
    assert classes.vcra(share * (mean_plus + mean_minus) / 2, test) == 0.0


def test_the_published_counter_example_is_not_monotone() -> None:
    given, radii = (1.0, 1.0, 1.0, 2.0, 10, 0.5), np.linspace(0, 0.4, 9)
    m_plus, s_plus, m_minus, s_minus = ends(given, 0.4)
    biases = np.array([by_search(given, radius) for radius in radii])
    searched = (norm.cdf(-biases, m_plus, s_plus) - norm.sf(-biases, m_minus, s_minus)) ** 2 / 4
    values = balanced.vcra(radii, 0.4)
    assert values == pytest.approx(searched, abs=1e-9)
    changes = np.sign(np.diff(values)).tolist()
    assert changes[:2] == [-1, -1]
    assert changes[-2:] == [1, 1]


@law
@given(parameters, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_no_training_radius_beats_the_one_of_the_test(given: Parameters, train: float, test: float) -> None:
    classes = classes_of(given)
    assert classes.risk(test, test) <= classes.risk(train, test) * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("prior", [0.2, 0.5, 0.7])
def test_mean_distances_are_the_area_below_the_robust_accuracy(prior: float) -> None:
    classes = GaussianClasses(0.4, 0.3, 1.0, 0.5, dim=4, prior=prior)
    for which, mean in enumerate(classes.mean_distances(0.1)):
        area = quad(lambda radius, which=which: 1 - classes.class_errors(0.1, radius)[which], 0, 12, epsabs=1e-11)[0]
        assert mean == pytest.approx(area, abs=1e-9)


def test_arrays_give_what_their_entries_give() -> None:
    stds, priors, tests = np.array([0.5, 1.0, 2.0]), np.array([[0.3], [0.5]]), np.array([[[0.0]], [[0.3]]])
    together = GaussianClasses(1.0, 0.5, 1.0, stds, 10, priors)
    vcra, (plus, minus) = together.vcra(0.2, tests), together.class_errors(0.2, tests)
    assert vcra.shape == plus.shape == minus.shape == (2, 2, 3)
    assert together.bias(0.2).shape == (2, 3)
    for (k, j, i), value in np.ndenumerate(vcra):
        alone = GaussianClasses(1.0, 0.5, 1.0, float(stds[i]), 10, float(priors[j, 0]))
        assert value == alone.vcra(0.2, float(tests[k, 0, 0]))
        assert together.bias(0.2)[j, i] == alone.bias(0.2)


def test_numbers_give_python_floats() -> None:
    results = [balanced.bias(0.1), *balanced.class_errors(0, 1), balanced.risk(0, 1), balanced.vcra(0, np.float32(1))]
    results += [balanced.vca(), balanced.log_ratio, *balanced.mean_distances()]
    assert {type(result) for result in results} == {float}
    assert type(balanced.dim) is int


# --- the statements ---------------------------------------------------------------------------------------------------


def said(classes: GaussianClasses, train: float, test: float) -> dict[str, Statement]:
    statements = {statement.name: statement for statement in classes.statements(train, test)}
    assert all(statement.remark for statement in statements.values())
    return statements


def verdicts(classes: GaussianClasses, train: float, test: float) -> dict[str, str]:
    return {name: statement.verdict for name, statement in said(classes, train, test).items()}


def test_every_theorem_is_judged_where_all_is_well() -> None:
    assert verdicts(GaussianClasses(1.0, 1.0, 1.0, 1.0, dim=10, prior=0.6), 0.1, 0.2) == {
        "Theorem 5.2, σ₊ ≠ σ₋": "premise fails",
        "Theorem 5.2, σ₊ = σ₋": "holds",
        "Theorem 5.3, σ₊ ≠ σ₋": "premise fails",
        "Theorem 5.3, σ₊ = σ₋": "holds",
        "Theorem 5.5": "holds",
        "Theorem 5.5, mended": "holds",
        "Section 5.3, average robustness": "holds",
        "Theorem 5.6": "refuted",
        "Theorem 5.7": "holds",
        "Theorem B.6": "holds",
        "Theorem 6.1": "refuted",
    }


NATURAL, ROBUST = "Theorem 5.2, σ₊ ≠ σ₋", "Theorem 5.3, σ₊ ≠ σ₋"
SAME = ("Theorem 5.2, σ₊ = σ₋", "Theorem 5.3, σ₊ = σ₋")
MENDED = "Theorem 5.5, mended"


@pytest.mark.parametrize(
    ("given", "train", "test", "names", "verdict"),
    [
        # At equal spread the order of the classes needs a larger prior, in any dimension.
        *(
            ((1.0, 1.0, 1.0, 1.0, dim, prior), 0.1, 0.2, SAME, verdict)
            for dim in (1, 1_000_000)
            for prior, verdict in ((0.6, "holds"), (0.5, "refuted"), (0.4, "refuted"))
        ),
        # The printed bias is right in one dimension only, and no minimum where always predicting one class is better.
        ((1.0, 1.0, 1.0, 1.2, 1, 0.6), 0.1, 0.2, (NATURAL, ROBUST), "holds"),
        ((1.0, 1.0, 1.0, 1.2, 2, 0.6), 0.1, 0.2, (NATURAL, ROBUST), "refuted"),
        ((1.0, 1.0, 1.0, 1.2, 100, 0.6), 0.1, 0.2, (NATURAL, ROBUST), "refuted"),
        ((0.3, 0.3, 1.0, 2.0, 1, 0.38), 0.0, 0.0, (NATURAL,), "refuted"),
        # The variance grows with the training radius beyond the test radius only.
        ((1.0, 1.0, 1.0, 2.0, 10), 0.4, 0.4, ("Theorem 5.5",), "refuted"),
        ((1.0, 1.0, 1.0, 2.0, 10), 0.9, 0.4, ("Theorem 5.5",), "premise fails"),
        ((1.0, 1.0, 1.0, 2.0, 10), 0.9, 0.4, (MENDED,), "holds"),
        ((1.0, 1.0, 1.0, 2.0, 10), 0.3, 0.4, (MENDED,), "premise fails"),
        ((1.0, 1.0, 1.0, 2.0, 10), 0.4, 0.4, ("Section 5.3, average robustness",), "holds"),
        # Theorem 5.6 fails if the means are swapped, and both sides are 0 at equal shares.
        ((1.0, 1.0, 1.0, 1.0, 10, 0.99), 1.2, 1.3, ("Theorem 5.6",), "refuted"),
        ((1.0, 1.0, 1.0, 1.0, 10), 0.1, 0.3, ("Theorem 5.6",), "holds"),
        # A training radius above the test radius is outside of these premises.
        *(
            ((1.0, 1.0, 1.0, 2.0, 10), 0.4, 0.3, (name,), "premise fails")
            for name in ("Theorem 5.5", "Theorem 5.7", "Section 5.3, average robustness")
        ),
    ],
)
def test_statements_hold_or_are_refuted_where_they_should(given, train, test, names, verdict) -> None:
    found = verdicts(GaussianClasses(*given), train, test)
    assert {found[name] for name in names} == {verdict}


@pytest.mark.parametrize(
    ("prior", "std_minus", "train", "test", "name"),
    [
        (0.2, 2.0, 0.5, 0.1, MENDED),  # the narrow class must not be the rare one
        (0.7, 1.0, 0.1, 3.0, "Theorem B.6"),  # a test that fools everyone leaves no difference
    ],
)
def test_premises_exclude_settings_in_which_the_conclusion_fails(prior, std_minus, train, test, name) -> None:
    found = said(GaussianClasses(1.0, 1.0, 1.0, std_minus, 10, prior), train, test)[name]
    assert (found.premise_holds, found.conclusion_holds) == (False, False)


def test_the_average_can_get_worse_on_the_way_to_the_test_radius() -> None:
    given = (1.0, 1.0, 0.25, 1.0, 10, 0.5)
    searched = [math.exp(log_error(given, by_search(given, radius), 0.95)) for radius in (0.0, 0.45, 0.95)]
    assert searched == pytest.approx(GaussianClasses(*given).risk(np.array([0.0, 0.45, 0.95]), 0.95), abs=1e-9)
    assert searched[1] > searched[0] + 0.05
    assert verdicts(GaussianClasses(*given), 0.95, 0.95)["Section 5.3, average robustness"] == "refuted"


def test_a_wide_choice_of_xi_makes_up_for_the_factor_of_two() -> None:
    classes = GaussianClasses(1.0, 1.0, 1.0, 1.0, 10, prior=0.99)
    assert verdicts(classes, 0.1, 0.3)["Theorem 5.6"] == "holds"
    lead = classes.log_ratio / (math.sqrt(10) * 1.8)
    centre = math.sqrt(10) * 1.4 / 2
    constant = 10 * classes.log_ratio

    def difference(xi: float) -> float:
        printed = math.exp(-(xi**2)) * (constant / 1.8) ** 2 / (math.pi * 1_000)
        return math.log(printed / classes.vcra(0.1, 0.3))

    assert centre - lead < brentq(difference, 0.0, 10.0) < centre + lead


@few
@given(means, means, stds, dims, priors, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_at_equal_spread_adversarial_training_is_never_fairer(
    mean_plus: float, mean_minus: float, std: float, dim: int, prior: float, one: float, other: float
) -> None:
    train, test = sorted((one * (mean_plus + mean_minus), other * (mean_plus + mean_minus)))
    found = said(GaussianClasses(mean_plus, mean_minus, std, std, dim, prior), train, test)
    growing = ("Theorem 5.5", "Theorem 5.5, mended", "Section 5.3, average robustness", "Theorem 5.7", "Theorem B.6")
    for name in growing:
        assert found[name].conclusion_holds, name


@pytest.mark.parametrize(
    ("train", "test", "prior", "std_minus", "premise"),
    [
        (0.3, 0.4, 0.7, 1.0, True),
        (0.3, 0.4, 0.7, 1.1, False),
        (0.3, 0.2, 0.7, 1.0, False),  # the test is the weaker one
        (0.74, 0.8, 0.7, 1.0, False),  # beyond 2/e = 0.7358
        (0.73, 0.8, 0.7, 1.0, True),
        (0.3, 0.93, 0.7, 1.0, True),  # 1 − e·κ³/(d·2) is 0.917 at d = 10 and 0.983 at d = 50
    ],
)
def test_the_printed_premise_of_theorem_5_7(
    train: float, test: float, prior: float, std_minus: float, premise: bool
) -> None:
    assert (
        said(GaussianClasses(1.0, 1.0, 1.0, std_minus, 50, prior), train, test)["Theorem 5.7"].premise_holds is premise
    )
    if test == 0.93:
        assert not said(GaussianClasses(1.0, 1.0, 1.0, 1.0, 10, prior), train, test)["Theorem 5.7"].premise_holds


@few
@given(parameters, radii, radii)
def test_what_is_left_of_the_growth_of_the_variance_is_never_refuted(
    given: Parameters, train: float, test: float
) -> None:
    assert verdicts(classes_of(given), train, test)["Theorem 5.5, mended"] != "refuted"


def test_statements_about_arrays_answer_one_by_one() -> None:
    priors, tests = np.array([0.4, 0.5, 0.6]), np.array([[0.2], [0.4]])
    many = said(GaussianClasses(1.0, 1.0, 1.0, 1.0, 10, priors), 0.2, tests)
    for name, statement in many.items():
        for (j, i), holds in np.ndenumerate(np.broadcast_to(statement.conclusion_holds, (2, 3))):
            alone = said(GaussianClasses(1.0, 1.0, 1.0, 1.0, 10, priors[i]), 0.2, tests[j, 0])[name]
            assert alone.conclusion_holds is bool(holds)
            assert alone.premise_holds is bool(np.broadcast_to(statement.premise_holds, (2, 3))[j, i])


# --- the bound on the generalisation gap ------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", [1, 2, 3, 10, 11, 1_000, 100_000])
def test_the_mean_gap_of_coin_flips_is_de_moivres(samples: int) -> None:
    assert mean_coin_gap(samples) == pytest.approx(math.comb(samples - 1, samples // 2) / 2**samples, rel=1e-9)


def test_the_mean_gap_of_coin_flips_outgrows_any_constant_over_n() -> None:
    samples = np.array([10**2, 10**4, 10**6])
    gaps = mean_coin_gap(samples)
    assert np.sqrt(2 * math.pi * samples) * gaps == pytest.approx(1, abs=0.01)
    assert (np.diff(samples * gaps) > 0).all()
    simulated = np.abs(np.random.default_rng(0).binomial(100, 0.5, 40_000) / 100 - 0.5).mean()
    assert gaps[0] == pytest.approx(simulated, abs=5e-4)


@pytest.mark.parametrize("constant", [0.0, 0.5, 1.0, 3.3, 60.0])
def test_the_printed_bound_fails_as_often_as_the_binomial_says(constant: float) -> None:
    heads = np.arange(101)
    beyond = heads / 100 + constant / 100 < 0.5
    assert chance_beyond(100, constant) == pytest.approx(binom.pmf(heads, 100, 0.5)[beyond].sum(), abs=1e-12)


def test_coin_flips_are_the_case_of_no_variance_between_the_classes() -> None:
    fair = GaussianClasses(1.0, 1.0, 1.0, 1.0, dim=10)
    assert fair.vcra(0.1, 1.0) == 0.0
    assert fair.class_errors(0.1, 1.0) == (0.5, 0.5)
    assert verdicts(fair, 0.1, 1.0)["Theorem 6.1"] == "refuted"


def test_the_bound_needs_a_sixth_of_the_variance_between_the_classes() -> None:
    levels = np.linspace(0.001, 0.499, 4_981)
    needed = (levels * norm.isf(levels) ** 2).max() * 0.2 * 0.8
    found = asymptotically_bounded(np.array([needed * 0.999, needed * 1.001]), np.array(0.2))
    assert found.tolist() == [False, True]


# --- theory against audit ---------------------------------------------------------------------------------------------


def audited(classes: GaussianClasses, train: float, test: float) -> fm.AuditResult:
    """An audit of 100,000 samples whose every interval, of 99 %, holds the closed form."""
    x, y = classes.sample(100_000, seed=7)
    model = LinearClassifier([[0.0] * 3, [1.0] * 3], [0.0, classes.bias(train)], classes=(-1, 1))
    distances = measure(model, x, y, ExactLinear(Norm.LINF))
    partition = Partition.by("class", y)
    result = fm.audit(distances, partition, fm.AuditSettings(confidence=0.99))
    natural, robust = classes.class_errors(train, 0.0), classes.class_errors(train, test)
    mean = classes.mean_distances(train)
    limits = []
    for i, name in enumerate(("1", "-1")):
        row = result[name]
        assert row.accuracy.low <= 1 - natural[i] <= row.accuracy.high
        assert row.accuracy.high - row.accuracy.low < 0.02
        assert row.robustness.low <= mean[i] <= row.robustness.high
        assert row.robustness.high - row.robustness.low < 0.03
        assert row.sigma.low <= mean[i] / mean[1 - i] - 1 <= row.sigma.high
        assert abs(row.curve.at(test) - (1 - robust[i])) <= row.band
        mine = y == int(name)
        limits.append(binomial_interval((distances.values[mine] <= test).sum(), mine.sum(), 0.99))
        assert limits[i][0] <= robust[i] <= limits[i][1]
    low, high = binomial_interval((distances.values <= test).sum(), len(y), 0.99)
    assert low <= classes.risk(train, test) <= high
    (low_plus, high_plus), (low_minus, high_minus) = limits
    assert high_plus < low_minus  # the gap is beyond doubt, so that the limits of its square are those of the ends
    assert (low_minus - high_plus) ** 2 / 4 <= classes.vcra(train, test) <= (high_minus - low_plus) ** 2 / 4
    assert accuracy_variance(distances.values > test, partition) == pytest.approx(classes.vcra(train, test), rel=0.05)
    return result


def test_an_audit_agrees_with_the_closed_forms_of_classes_whose_mean_distance_is_the_same() -> None:
    # The spread of − is chosen so; a permutation test that finds nothing is soon done. The errors differ all the same.
    classes = GaussianClasses(0.6, 1.0, 1.0, 2.0290527289163705, dim=3)
    plus, minus = classes.mean_distances(0.15)
    assert plus == pytest.approx(minus, abs=1e-12)
    result = audited(classes, train=0.15, test=0.25)
    assert result["1"].verdict == result["-1"].verdict == "no significant difference"


@pytest.mark.slow
def test_an_audit_agrees_with_the_closed_forms_of_classes_that_differ() -> None:
    result = audited(GaussianClasses(0.6, 0.5, 1.0, 1.6, dim=3, prior=0.6), train=0.15, test=0.25)
    assert result["-1"].verdict == "less robust"


def test_samples_have_the_classes_means_and_spreads_and_depend_on_the_seed_alone() -> None:
    classes = GaussianClasses(0.6, 0.5, 1.0, 1.6, dim=3, prior=0.4)
    x, y = classes.sample(40_000, seed=1)
    assert x.shape == (40_000, 3)
    assert set(y.tolist()) == {-1, 1}
    assert (y == 1).mean() == pytest.approx(0.4, abs=0.01)
    assert x[y == 1].mean(axis=0) == pytest.approx([0.6] * 3, abs=0.04)
    assert x[y == -1].mean(axis=0) == pytest.approx([-0.5] * 3, abs=0.05)
    assert np.cov(x[y == -1].T) == pytest.approx(1.6**2 * np.eye(3), abs=0.1)
    again, other = classes.sample(40_000, seed=1)[0], classes.sample(40_000, seed=2)[0]
    assert (again == x).all()
    assert (other != x).all()


def test_parameters_cannot_be_changed_afterwards() -> None:
    stds = np.array([1.0, 2.0])
    classes = GaussianClasses(1.0, 1.0, 1.0, stds, 10)
    before = classes.bias()
    stds[:] = 9.0
    assert (classes.bias() == before).all()
    with pytest.raises(ValueError, match="read-only"):
        classes.std_minus[0] = 3.0  # type: ignore[index]
