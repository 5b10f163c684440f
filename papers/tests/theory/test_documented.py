"""docs/theory.md shows every erratum by a number: here they are calculated again."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from fairmargin_papers.theory import GaussianClasses, GaussianPair
from fairmargin_papers.theory.generalisation import mean_coin_gap

PAGE = Path(__file__).parents[3] / "docs" / "theory.md"
PAIR = GaussianPair(0.0, 4.0, 1.5)
CLASSES = GaussianClasses(1.0, 1.0, 1.0, 2.0, 10, 0.5)


@pytest.fixture(scope="module")
def page() -> str:
    return " ".join(PAGE.read_text(encoding="utf-8").split())


def shown(value: float, decimals: int = 4) -> str:
    return f"{value:.{decimals}f}".replace("-", "−").replace("−inf", "−∞")


def test_the_table_of_thresholds_is_what_the_closed_forms_give(page):
    at = {"fair": PAIR.fair_threshold(), "natural": PAIR.natural_threshold(), "robust": PAIR.robust_threshold(0.5)}
    for name, threshold in at.items():
        plus, minus = PAIR.error_by_class(threshold)
        numbers = [threshold, plus, minus, PAIR.boundary_error(threshold, 0.5), PAIR.robust_error(threshold, 0.5)]
        row = " | ".join([name, *map(shown, [*numbers, PAIR.mean_distance(threshold)])])
        assert f"| {row} |" in page


def test_the_printed_penalty_counts_twice(page):
    assert PAIR.fair_threshold(0.1, reading="sum") == pytest.approx(PAIR.fair_threshold(), abs=1e-9)
    assert PAIR.fair_threshold(0.0999, reading="sum") > PAIR.fair_threshold() + 1e-6
    assert PAIR.fair_threshold(0.1999, reading="max") > PAIR.fair_threshold() + 1e-6
    half, printed = 0.5 / (2 * 2.5), 0.5 / 2.5
    assert f"(K−1)/(2(K+1)) = {shown(half)} for K = 1.5, not at the printed {shown(printed)}" in page
    assert f"still at {shown(PAIR.fair_threshold(0.1, reading='max'))}" in page


def test_figure_2_lies_outside_of_the_theorem(page):
    pair = GaussianPair(-1.0, 1.0, 10.0)
    assert pair.natural_threshold() > 1
    assert f"the natural threshold is {shown(pair.natural_threshold())}, beyond" in page
    assert f"gives {shown(pair.natural_threshold(inside=True))}" in page
    by_name = {statement.name: statement for statement in pair.statements(0.1)}
    assert not by_name["Theorem 1, order"].premise_holds
    assert not by_name["Theorem 1, order"].conclusion_holds


def test_one_class_may_always_win(page):
    pair = GaussianPair(0.0, 1.0, 2.0, 0.8)
    assert pair.natural_threshold() == -np.inf
    assert f"with error {shown(pair.natural_error(-np.inf))}" in page


def test_ramp_is_not_always_nearest(page):
    five = GaussianPair(-1.0, 1.0, 5.0)
    at = {loss: five.threshold_under(loss) for loss in ("zero_one", "ramp", "log", "exponential")}
    assert (
        f"{shown(at['zero_one'])} under 0/1, {shown(at['ramp'])} under ramp, {shown(at['log'])} under log and "
        f"{shown(at['exponential'])} under the exponential loss"
    ) in page
    best, ramp, log = (PAIR.threshold_under(loss) for loss in ("zero_one", "ramp", "log"))
    assert abs(ramp - best) > abs(log - best)
    assert f"ramp ({shown(ramp)}) is farther from 0/1 ({shown(best)}) than log is ({shown(log)})" in page


def test_theorem_5_5_fails_at_the_published_counter_example(page):
    natural, between, tested = (1e4 * CLASSES.vcra(radius, 0.4) for radius in (0.0, 0.15, 0.4))
    assert between < natural < tested
    said = f"VCRA is {shown(natural, 2)}·10⁻⁴ for natural training, {shown(between, 2)}·10⁻⁴ at ε_train = 0.15, and "
    assert f"{said}{shown(tested, 2)}·10⁻⁴ at 0.4" in page
    assert f"the best bias is {shown(CLASSES.bias(0.2))}" in page


def test_the_mended_theorem_needs_the_wider_class_to_be_the_negative_one(page):
    at, beyond = (1e4 * GaussianClasses(1.0, 1.0, 2.0, 1.0, 10, 0.7).vcra(radius, 0.4) for radius in (0.4, 0.5))
    assert beyond < at
    assert f"VCRA is {shown(at, 2)}·10⁻⁴ at ε_train = 0.4 and {shown(beyond, 2)}·10⁻⁴ at 0.5" in page


def test_the_printed_bias_lacks_factors_of_d(page):
    room, wide, kappa, d = 2 - 2 * 0.2, 3.0, CLASSES.log_ratio, 10  # σ₋² − σ₊² = 3
    printed = (-d * (0.8 * 4 + 0.8) + 2 * np.sqrt(room**2 + 2 * d * kappa * wide)) / wide

    def error(b: float) -> float:
        plus, minus = (-b - d * 0.8) / np.sqrt(d), (b - d * 0.8) / (2 * np.sqrt(d))
        return float(0.5 * norm.cdf(plus) + 0.5 * norm.cdf(minus))

    assert f"the printed one, {shown(printed)}, has a training error of {shown(error(printed))} where" in page
    assert f"where {shown(error(CLASSES.bias(0.2)))} is possible" in page


def test_at_equal_variances_the_larger_class_errs_less(page):
    more, less = (GaussianClasses(1.0, 1.0, 1.0, 1.0, 10, share) for share in (0.7, 0.3))
    plus, minus = more.class_errors(0.3, 0.4)
    assert f"the errors are {shown(plus)} and {shown(minus)} for a share of 0.7" in page
    assert less.class_errors(0.3, 0.4) == pytest.approx((minus, plus))
    trained, natural, without = (1e4 * v for v in (more.vcra(0.3, 0.4), more.vcra(0.0, 0.4), more.vca(0.0)))
    said = f"VCRA is {shown(trained, 2)}·10⁻⁴ for adversarial and {shown(natural, 2)}·10⁻⁴ for natural training"
    assert f"{said}, and VCA of natural training {shown(without)}·10⁻⁴" in page


def test_theorem_5_6_is_twice_too_large(page):
    classes = GaussianClasses(1.0, 1.0, 1.0, 1.0, 400, 0.501)  # nearly equal errors: ξ is known to many digits
    kappa, reach = classes.log_ratio, 2 - 2 * 0.1
    half = np.sqrt(400) * (2 - 2 * 0.97) / 2
    mended = np.exp(-(half**2)) * (kappa / reach) ** 2 / (2 * np.pi * 400)
    assert classes.vcra(0.1, 0.97) == pytest.approx(mended, rel=1e-4)
    printed = 2 * mended
    assert classes.vcra(0.1, 0.97) < 0.51 * printed
    assert f"VCRA is {1e9 * classes.vcra(0.1, 0.97):.3f}·10⁻⁹, and the formula gives {1e9 * printed:.3f}·10⁻⁹" in page


def test_at_equal_variances_and_shares_both_classes_err_alike():
    classes = GaussianClasses(1.0, 2.0, 1.5, 1.5, 3, 0.5)
    assert np.abs(classes.vcra(np.linspace(0, 1.2, 7), 0.4)).max() < 1e-25


def test_the_error_of_all_can_rise_on_the_way_to_its_least(page):
    classes = GaussianClasses(1.0, 1.0, 0.25, 1.0, 10, 0.5)
    natural, between, tested = (classes.risk(radius, 0.95) for radius in (0.0, 0.6, 0.95))
    assert tested < natural < between
    said = f"it is {shown(natural, 3)} for natural training, {shown(between, 3)} at ε_train = 0.6, and"
    assert f"{said} {shown(tested, 3)} at 0.95" in page
    assert classes.risk(0.95, 0.95) <= classes.risk(np.linspace(0, 1.2, 25), 0.95).min() + 1e-12


def test_coin_flips_have_no_variance_between_classes_but_a_gap(page):
    assert f"{shown(mean_coin_gap(100))} at n = 100, {shown(mean_coin_gap(10_000))} at n = 10,000" in page
    assert mean_coin_gap(100) / mean_coin_gap(10_000) == pytest.approx(10, rel=0.01)


def test_the_lines_of_python_run(capsys):
    (block,) = PAGE.read_text(encoding="utf-8").split("```python\n")[1:]
    exec(block.split("```")[0], {})
    assert "Theorem 1, order holds" in capsys.readouterr().out
