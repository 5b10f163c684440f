"""The theorems of Ma 2022, evaluated at given parameters: whether the printed premise and conclusion hold.

The paper's "positive constant K" is taken for dκ, κ = ln(ασ₋/((1−α)σ₊)): with it the printed formulas for equal
standard deviations are right. It need not be positive. All conclusions are checked on the closed forms, those about
growth on a grid of training radii. Of Appendix B, only the main text's description of Theorem B.6 was available.
"""

import math

import numpy as np

from fairmargin.core.arrays import Bools, Floats
from fairmargin_papers.theory.class_forms import ClassForms
from fairmargin_papers.theory.generalisation import asymptotically_bounded
from fairmargin_papers.theory.normal import log_mass_of_window
from fairmargin_papers.theory.statement import Statement

_GRID = 257  # training radii
_ROUNDING = 1e-9  # relative change that may be due to rounding
_ZERO = np.zeros(())


def class_statements(forms: ClassForms, train_radius: Floats, test_radius: Floats) -> tuple[Statement, ...]:
    """Return all theorems of the paper in their order; the radii are ε_train and ε_test.

    The adversarial ones assume ε_train ≤ ε_test, as the paper does in Section 5.2.
    """
    return (
        *_class_errors(forms, "5.2", _ZERO, _ZERO),
        *_class_errors(forms, "5.3", train_radius, test_radius),
        _growth(forms, train_radius, test_radius),
        _growth_mended(forms, train_radius, test_radius),
        _average(forms, train_radius, test_radius),
        _formula_of_variance(forms, train_radius, test_radius),
        _against_natural(forms, train_radius, test_radius),
        _against_natural_accuracy(forms, train_radius, test_radius),
        _generalisation(forms, train_radius, test_radius),
    )


def _class_errors(forms: ClassForms, theorem: str, train: Floats, test: Floats) -> tuple[Statement, Statement]:
    """Return Theorem 5.2 (natural) or 5.3 (adversarial): a formula, and an order at equal standard deviations."""
    separation, square = forms.separation(train), forms.std_minus**2 - forms.std_plus**2
    with np.errstate(invalid="ignore"):  # the root of a negative number: no such threshold
        true_root = forms.dim * np.sqrt(separation**2 + 2 * forms.log_ratio * square / forms.dim)
        printed_root = np.sqrt(separation**2 + 2 * forms.dim * forms.log_ratio * square)
    same = np.isclose(printed_root, true_root, rtol=1e-9, atol=0.0)
    plus, minus = forms.margins(train, test)
    order = "" if theorem == "5.2" else " and ε_train ≤ ε_test"
    threshold = "η*" if theorem == "5.2" else "γ*"
    return (
        Statement(
            f"Theorem {theorem}, σ₊ ≠ σ₋",
            f"σ₊ ≠ σ₋{order}",
            f"the printed {threshold} is the bias with the least training error",
            ~forms.equal_stds & (train <= test),
            same & (separation > 0) & np.isfinite(forms.bias(train)),
            f"Print lacks factors of d, so it is right for d = 1 only: {threshold} is "
            "[−d((μ₊−ε)σ₋² + (μ₋−ε)σ₊²) + d·σ₊σ₋·M·√(1 + 2κ(σ₋²−σ₊²)/(dM²))]/(σ₋²−σ₊²) with M = μ₊+μ₋−2ε, ε = ε_train. "
            "Even so it is a stationary point, and always predicting one class can be better.",
        ),
        Statement(
            f"Theorem {theorem}, σ₊ = σ₋",
            f"σ₊ = σ₋{order}",
            "R₊ < R₋",
            forms.equal_stds & (train <= test),
            plus > minus,  # the errors themselves may both be 0 to machine precision
            "Needs κ > 0, that is, a prior of + above ½; at ½ the classes err alike, below it the order is reversed. "
            "The printed formulas need K = dκ.",
        ),
    )


def _growth(forms: ClassForms, train: Floats, test: Floats) -> Statement:
    return Statement(
        "Theorem 5.5",
        "σ₋ ≥ σ₊ and ε_train ≤ ε_test",
        "VCRA does not fall as the training radius grows from 0 to ε_train",
        (forms.std_minus >= forms.std_plus) & (train <= test),
        _gap_grows(forms, _ZERO, train, test),
        "False in general: μ = 1, 1; σ = 1, 2; d = 10; α = ½; ε_test = 0.4 is not monotone.",
    )


def _growth_mended(forms: ClassForms, train: Floats, test: Floats) -> Statement:
    # For σ₋ ≥ σ₊ and κ ≥ 0, b grows with the training radius; it widens the gap once R₊ ≤ R₋, as from ε_test on.
    beyond = (forms.std_minus >= forms.std_plus) & (forms.log_ratio >= 0) & (test <= train)
    start = np.where(forms.equal_stds, 0.0, np.minimum(test, train))
    return Statement(
        "Theorem 5.5, mended",
        "σ₊ = σ₋; or σ₋ ≥ σ₊, κ ≥ 0 and ε_test ≤ ε_train",
        "VCRA does not fall as the training radius grows to ε_train, from 0 if σ₊ = σ₋ and else from ε_test",
        forms.equal_stds | beyond,
        _gap_grows(forms, start, train, test),
        "Not in the paper: what is left of Theorem 5.5.",
    )


def _average(forms: ClassForms, train: Floats, test: Floats) -> Statement:
    radii = _radii(_ZERO, train, forms, test)
    risk = forms.risk(radii, test)
    falls = (risk[1:] <= risk[:-1] * (1 + _ROUNDING)).all(axis=0)
    return Statement(
        "Section 5.3, average robustness",
        "ε_train ≤ ε_test",
        "the robust error of all, αR₊ + (1−α)R₋ at ε_test, does not rise as the training radius grows to ε_train",
        train <= test,
        np.asarray(falls),
        "True at equal standard deviations. In general it is least at ε_train = ε_test, but can rise on the way there: "
        "μ = 1, 1; σ = ¼, 1; d = 10; α = ½; ε_test = 0.95.",
    )


def _formula_of_variance(forms: ClassForms, train: Floats, test: Floats) -> Statement:
    separation = forms.separation(train)
    positive = np.where(separation > 0, separation, 1.0)
    centre = np.sqrt(forms.dim) * forms.separation(test) / (2 * forms.std_plus)
    with np.errstate(over="ignore"):  # clipped below
        lead = np.abs(forms.log_ratio) * forms.std_plus / (np.sqrt(forms.dim) * positive)
    centre, lead = np.broadcast_arrays(
        np.clip(centre, -1e100, 1e100), np.minimum(lead, 1e100)
    )  # so that squares do not overflow
    wide = np.where(lead > 0, lead, 1.0)
    # R₋ − R₊ is the mean of the density over [−a−u, −a+u], times 2u; the formula must meet the density somewhere there.
    mean = log_mass_of_window(-np.abs(centre) - wide, 2 * wide) - np.log(2 * wide) + 0.5 * math.log(2 * math.pi)
    attained = mean - 0.5 * math.log(2) >= -0.5 * np.square(np.abs(centre) + wide)
    return Statement(
        "Theorem 5.6",
        "σ₊ = σ₋ and ε_train ≤ ε_test",
        "VCRA = exp(−ξ²)(Kσ/M)²/(πd³) for some ξ between the arguments of Φ in Theorem 5.3, M = μ₊+μ₋−2ε_train",
        forms.equal_stds & (train <= test),
        (separation > 0) & (attained | (lead == 0)),
        "Twice too large: with K = dκ the mean value theorem gives exp(−ξ²)(κσ/M)²/(2πd). Where the two arguments lie "
        "far apart, some other ξ between them makes up for the 2. Needs ε_train < (μ₊+μ₋)/2.",
    )


def _against_natural(forms: ClassForms, train: Floats, test: Floats) -> Statement:
    return Statement(
        "Theorem 5.7",
        "σ₊ = σ₋, ε_train ≤ ε_test, ε_train < (μ₊+μ₋)/e and ε_test < (μ₊+μ₋)/2 − eK³σ³/(d⁴(μ₊+μ₋))",
        "VCRA(adversarially trained) ≥ VCRA(naturally trained)",
        _radii_of_5_7(forms, train, test),
        _not_below(forms, (train, test), (_ZERO, test)),
        "The conditions on the radii are not needed: it holds wherever σ₊ = σ₋. At κ = 0 both are 0, and the printed "
        "quotient is undefined.",
    )


def _against_natural_accuracy(forms: ClassForms, train: Floats, test: Floats) -> Statement:
    return Statement(
        "Theorem B.6",
        "as of Theorem 5.7",
        "VCRA(adversarially trained) ≥ VCA(naturally trained)",
        _radii_of_5_7(forms, train, test),
        _not_below(forms, (train, test), (_ZERO, _ZERO)),
        "Only its description in the main text was available (“similar to Theorem 5.7”). It holds wherever σ₊ = σ₋ and "
        "ε_test ≤ μ₊+μ₋; beyond that, a test so strong that it fools everyone leaves no difference.",
    )


def _generalisation(forms: ClassForms, train: Floats, test: Floats) -> Statement:
    between, risk = forms.gap(train, test) ** 2 / 4, forms.risk(train, test)
    return Statement(
        "Theorem 6.1",
        "independent samples and a bounded loss; here 1 if an attack at ε_test succeeds, else 0",
        "R ≤ R̂ + √(VCAR/(δn)) + C/n with probability 1 − δ, of this classifier, for every δ and all large n",
        np.ones(between.shape, dtype=np.bool_),
        asymptotically_bounded(between, risk),
        "False as printed: the variance within the classes is missing. Losses that are fair coin flips in every class "
        "have VCAR = 0, and a mean gap of about 1/√(2πn), not C/n (`mean_coin_gap`).",
    )


def _radii_of_5_7(forms: ClassForms, train: Floats, test: Floats) -> Bools:
    apart = forms.mean_plus + forms.mean_minus
    with np.errstate(over="ignore"):  # an infinite slack has the same effect as a very large one
        slack = math.e * (forms.log_ratio * forms.std_plus) ** 3 / (forms.dim * apart)
    return np.asarray(forms.equal_stds & (train <= test) & (train < apart / math.e) & (test < apart / 2 - slack))


def _gap_grows(forms: ClassForms, start: Floats, end: Floats, test: Floats) -> Bools:
    radii = _radii(start, end, forms, test)
    gap, (plus, minus) = forms.gap(radii, test), forms.errors(radii, test)
    rounding = _ROUNDING * np.maximum(plus, minus)
    return np.asarray((gap[1:] >= (gap - rounding)[:-1]).all(axis=0))


def _not_below(forms: ClassForms, one: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> Bools:
    rounding = _ROUNDING * np.maximum(*forms.errors(*other))
    return np.asarray(forms.gap(*one) >= forms.gap(*other) - rounding)


def _radii(start: Floats, end: Floats, forms: ClassForms, test: Floats) -> Floats:
    """Return training radii along a new first axis, followed by the common shape of all parameters."""
    shape = np.broadcast_shapes(start.shape, end.shape, test.shape, forms.shape)
    return np.linspace(np.broadcast_to(start, shape), np.broadcast_to(end, shape), _GRID)
