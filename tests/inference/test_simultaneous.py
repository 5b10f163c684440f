"""Verdict, corrected p-value and printed interval are one statement and never disagree."""

import warnings

import numpy as np
import pytest

from fairmargin.analyses.audit import AuditResult, audit
from fairmargin.analyses.bracket import CERTAINLY_LESS, CERTAINLY_MORE, bracket
from fairmargin.analyses.cells import decimals_of, length, share
from fairmargin.analyses.comparison import compare
from fairmargin.analyses.robust_accuracy import accuracy_under_attack
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.bootstrap import Limits
from fairmargin.inference.contrast import simultaneous_limits
from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST, TOO_FEW, Estimate
from fairmargin.inference.settings import AuditSettings
from fairmargin.presentation.formatting import JUST_BEYOND_ZERO, limit_text, signed_percent
from fairmargin.presentation.section import Cell
from fairmargin.study.gate import gate

RANDOM_AUDITS = 200


def random_case(seed: int) -> tuple[Distances, Partition, AuditSettings]:
    """A data set of random shape: groups, sizes, tails, accuracies, effects, clusters and controls all vary."""
    rng = np.random.default_rng([seed, 91])
    groups = int(rng.choice([1, 2, 3, 5, 12]))
    sizes = rng.choice([5, 30, 35, 60, 150], groups)
    effects = np.exp(rng.choice([0.0, 0.1, 0.25, 0.5]) * rng.normal(size=groups))
    accuracy = rng.choice([0.0, 0.05, 0.5, 0.9, 1.0], groups, p=[0.05, 0.05, 0.2, 0.3, 0.4])
    membership = np.repeat(np.arange(groups), sizes)
    tail = float(rng.choice([0.3, 1.0, 1.5]))
    values = effects[membership] * rng.lognormal(0, tail, len(membership))
    values *= rng.random(len(membership)) < accuracy[membership]
    if rng.random() < 0.1:
        values = np.round(values)  # ties, and groups without any spread
    cluster = rng.integers(0, max(len(values) // 2, 1), len(values)) if rng.random() < 0.2 else None
    control = Partition.by("control", rng.integers(0, 3, len(values))) if rng.random() < 0.3 else None
    confidence = float(rng.choice([0.9, 0.95, 0.99]))
    plan = AuditSettings(seed=seed, resamples=200, cluster=cluster, control=control, confidence=confidence)
    partition = Partition("g", [f"g{i}" for i in range(groups)], membership)
    return Distances(values, values > 0, "exact", "l2"), partition, plan


def excludes_zero(estimate: Estimate) -> bool:
    return estimate.low > 0 or estimate.high < 0


def disagreements(result: AuditResult, alpha: float) -> list[str]:
    found = []
    for row in result:
        significant = row.verdict in (LESS_ROBUST, MORE_ROBUST)
        if significant != (row.p_adjusted < alpha):
            found.append(f"p {row.p_adjusted} and {row.verdict}")
        for estimate in (row.sigma, row.gap_to_rest):
            known = not np.isnan([estimate.value, estimate.low, estimate.high]).any()
            if known and excludes_zero(estimate) != significant:
                found.append(f"{estimate} and {row.verdict}")
            if known and not estimate.low <= estimate.value <= estimate.high:
                found.append(f"{estimate} does not contain its value")
            if known and significant and np.sign(estimate.value) != (-1 if row.verdict == LESS_ROBUST else 1):
                found.append(f"{estimate} has another sign than {row.verdict}")
        if significant and np.isfinite(row.sigma_alone.high) and not excludes_zero(row.sigma_alone):
            found.append(f"the group's own interval {row.sigma_alone} contains 0 but it is {row.verdict}")
    return found


def check_random_audits(first: int, audits: int) -> int:
    """Look for disagreements in random audits; return how many groups had a significant verdict."""
    significant = 0
    for seed in range(first, first + audits):
        distances, partition, plan = random_case(seed)
        result = audit(distances, partition, plan)
        assert disagreements(result, plan.alpha) == [], f"seed {seed}"
        significant += sum(row.verdict in (LESS_ROBUST, MORE_ROBUST) for row in result)
    return significant


def test_verdict_p_and_interval_agree_in_200_random_audits() -> None:
    assert check_random_audits(0, RANDOM_AUDITS) > RANDOM_AUDITS / 10


@pytest.mark.slow
def test_verdict_p_and_interval_agree_in_2000_random_audits() -> None:
    assert check_random_audits(10_000, 2_000) > 200


def test_verdict_p_and_interval_agree_for_robust_accuracy() -> None:
    significant = 0
    for seed in range(60):
        distances, partition, plan = random_case(seed)
        withstood = distances.values > 0.7
        found = accuracy_under_attack(distances.correct, withstood, partition, plan, attack="a", norm="l2", radius=0.7)
        for row in found:
            is_significant = row.verdict in (LESS_ROBUST, MORE_ROBUST)
            significant += is_significant
            assert is_significant == (row.p_adjusted < plan.alpha), f"seed {seed}, {row.group}"
            if not np.isnan(row.gap_to_rest.low):
                assert is_significant == excludes_zero(row.gap_to_rest), f"seed {seed}, {row.group}"
    assert significant > 5


def test_population_limits_of_a_bracket_exclude_zero_exactly_where_it_speaks_of_the_population() -> None:
    certain = 0
    for seed in range(30):
        distances, partition, plan = random_case(seed)
        rng = np.random.default_rng(seed)
        lower = Distances(distances.values * rng.uniform(0.8, 1.0), distances.correct, "lower", "l2")
        upper = Distances(distances.values * 1.02, distances.correct, "upper", "l2")
        found = bracket(lower, upper, partition, plan)
        for row in found:
            speaks = row.verdict in (CERTAINLY_LESS, CERTAINLY_MORE)
            certain += speaks
            for limits in (row.sigma, row.gap) if row.sigma.is_known else ():
                excludes = limits.population_low > 0 or limits.population_high < 0
                assert excludes == speaks, f"seed {seed}, {found.finding(row)}"
                assert limits.population_low <= limits.low <= limits.high <= limits.population_high
    assert certain > 5


def eight_groups() -> AuditResult:
    """Audit eight groups, one of which would be significant if it were the only one."""
    rng = np.random.default_rng(4)
    groups = np.repeat(np.arange(8), 40)
    values = rng.lognormal(0, 0.8, len(groups)) * np.where(groups == 0, 0.72, 1.0)
    return audit(Distances(values, values > 0, "exact", "l2"), Partition.by("g", groups))


def test_a_gate_does_not_fail_a_group_whose_verdict_is_no_significant_difference() -> None:
    result = eight_groups()
    row = result["0"]
    assert row.sigma_alone.high < -0.05
    assert row.verdict == "no significant difference"
    assert row.sigma.low < row.sigma_alone.low < row.sigma_alone.high < 0 <= row.sigma.high
    assert gate(result.records(), "sigma_high < -0.05").matching == []
    assert [row["group"] for row in gate(result.records(), "sigma_alone_high < -0.05").matching] == ["0"]


def test_the_finding_prints_the_interval_for_all_groups() -> None:
    result = eight_groups()
    limits = result["0"].sigma
    interval = f"{signed_percent(limits.low)} to {signed_percent(limits.high)}"
    assert f"interval for all groups at once {interval}" in result.finding(result["0"])


@pytest.mark.parametrize("up_to", [0.1, 0.03, 1e-3, 8 / 255])
def test_an_audit_of_distances_that_all_reach_the_cap_is_read_back(up_to: float) -> None:
    rng = np.random.default_rng(5)
    for sizes in ([200, 150, 60], [31, 150, 77], [40, 41, 43]):
        values = 0.1 + rng.exponential(1, sum(sizes))
        partition = Partition.by("g", np.repeat(np.arange(3), sizes))
        plan = AuditSettings(up_to=up_to, resamples=200)
        result = audit(Distances(values, values > 0, "upper", "l2"), partition, plan)
        assert AuditResult.from_json(result.to_json()).to_json() == result.to_json()
        assert [row.sigma.value for row in result] == [0.0] * 3


@pytest.mark.parametrize("unit", [1e-12, 1e-8, 1e8])
def test_the_unit_of_distances_does_not_change_what_is_significant(unit: float) -> None:
    values = np.random.default_rng(6).lognormal(0, 0.5, 300) * np.repeat([0.6, 1, 1.1], 100) * unit
    partition = Partition.by("g", np.repeat(np.arange(3), 100))
    result = audit(Distances(values, values > 0, "exact", "l2"), partition, AuditSettings(resamples=200))
    assert disagreements(result, 0.05) == []
    assert AuditResult.from_json(result.to_json())["0"].verdict == LESS_ROBUST


def test_a_group_that_is_always_wrong_is_less_robust_in_every_column() -> None:
    values = np.random.default_rng(7).lognormal(0, 0.5, 300)
    values[:60] = 0
    partition = Partition.by("g", np.repeat(np.arange(4), [60, 80, 80, 80]))
    result = audit(Distances(values, values > 0, "exact", "l2"), partition, AuditSettings(resamples=200))
    assert result["0"].verdict == LESS_ROBUST
    assert [row["group"] for row in gate(result.records(), "sigma_high < 0").matching] == ["0"]
    assert "−100 % to below 0" in result.finding(result["0"])


def limits(low: float, high: float, adjusted: float, value: float) -> tuple[float, float]:
    found = simultaneous_limits(
        lambda _: Limits(np.array([low]), np.array([high])),
        np.array([value]),
        np.array([adjusted]),
        alpha=0.05,
        hypotheses=3,
        intervals=3,
    )
    return float(found.low[0]), float(found.high[0])


def test_the_interval_of_a_group_that_holm_rejects_ends_just_beyond_zero_at_the_latest() -> None:
    assert limits(-0.4, 0.1, adjusted=0.04, value=-0.2) == (-0.4, -0.2 * JUST_BEYOND_ZERO)
    assert limits(-0.1, 0.4, adjusted=0.04, value=0.2) == (0.2 * JUST_BEYOND_ZERO, 0.4)
    assert limits(-0.1, 4.0, adjusted=0.04, value=2.0) == (JUST_BEYOND_ZERO, 4.0)
    assert limits(-0.4, -0.1, adjusted=0.01, value=-0.2) == (-0.4, -0.1)


def test_the_interval_of_a_group_that_is_not_rejected_reaches_zero() -> None:
    assert limits(-0.4, -0.1, adjusted=0.2, value=-0.2) == (-0.4, 0.0)
    assert limits(0.1, 0.4, adjusted=0.2, value=0.2) == (0.0, 0.4)
    assert limits(0.1, 0.4, adjusted=np.nan, value=0.2) == (0.0, 0.4)


def test_limits_are_asked_for_at_the_level_of_bonferroni() -> None:
    asked = []
    simultaneous_limits(
        lambda alpha: asked.append(alpha) or Limits(np.zeros(1), np.zeros(1)),  # type: ignore[func-returns-value]
        np.zeros(1),
        np.ones(1),
        alpha=0.06,
        hypotheses=3,
        intervals=3,
    )
    assert asked == [pytest.approx(0.02)]


def test_groups_without_a_test_are_asked_for_at_the_level_of_all_groups() -> None:
    adjusted = np.array([1.0, np.nan, np.nan])
    found = simultaneous_limits(
        lambda alpha: Limits(np.full(3, -1 / alpha), np.full(3, 1 / alpha)),
        np.zeros(3),
        adjusted,
        alpha=0.06,
        hypotheses=1,
        intervals=3,
    )
    assert found.high == pytest.approx([1 / 0.06, 1 / 0.02, 1 / 0.02])
    assert found.low == pytest.approx(-found.high)


def test_intervals_for_all_groups_allow_for_groups_that_are_too_small_for_a_verdict() -> None:
    rng = np.random.default_rng(8)
    values, partition = rng.gamma(2, 0.5, 250), Partition.by("g", np.repeat(np.arange(10), 25))
    distances = Distances(values, values > 0, "exact", "l2")
    for row in audit(distances, partition, AuditSettings(resamples=200)):
        assert row.verdict == TOO_FEW
        assert row.sigma.high - row.sigma.low > 1.05 * (row.sigma_alone.high - row.sigma_alone.low)
    after = Distances(values * rng.gamma(4, 0.25, 250), values > 0, "exact", "l2")
    for row in compare(distances, after, partition):
        assert row.verdict == TOO_FEW
        for together, alone in ((row.change, row.change_alone), (row.sigma_change, row.sigma_change_alone)):
            assert together.high - together.low > 1.05 * (alone.high - alone.low)


def test_a_limit_just_beyond_zero_is_printed_as_such() -> None:
    estimate = Estimate(-0.2, -0.4, -JUST_BEYOND_ZERO, "neither")  # type: ignore[arg-type]
    assert str(estimate) == "-0.2 [-0.4, below 0]"


@pytest.mark.parametrize("limit", [-0.0002, -1e-9])
def test_a_limit_that_is_not_zero_is_never_printed_as_zero(limit: float) -> None:
    sigma = Estimate(-0.2, -0.4, limit, "neither")  # type: ignore[arg-type]
    assert share(sigma, signed=True).text == "−20.0 %"
    assert share(sigma, signed=True).interval == "[−40.0, below 0]"
    assert limit_text(-limit, "{:+.1%}".format) == "above 0"
    assert limit_text(0.0, "{:+.1%}".format) == "+0.0%"


def test_an_unlimited_interval_is_not_printed_as_an_unknown_one() -> None:
    sigma = Estimate(0.2, -0.4, np.inf, "neither")  # type: ignore[arg-type]
    assert share(sigma, signed=True).interval == "[−40.0, ∞]"


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_lengths_are_shown_with_digits_whatever_their_unit(unit: float) -> None:
    def cell(value: float, low: float, high: float) -> Cell:
        estimate = Estimate(value * unit, low * unit, high * unit, "exact")  # type: ignore[arg-type]
        return length(estimate, decimals_of([estimate]), signed=True)

    for found in (cell(0.31, 0.0002, 451.5), cell(-2.0, -4.0, -0.0177)):
        for text in (found.text, *found.interval.strip("[]").split(", ")):
            assert any(digit in text for digit in "123456789"), found
    assert cell(-0.2, -0.4, -0.2 * JUST_BEYOND_ZERO).interval.endswith(", below 0]")
    far = Estimate(-0.2 * unit, -0.4 * unit, -0.1 * unit, "exact")  # type: ignore[arg-type]
    assert str(far) == f"{far.value:.4g} [{far.low:.4g}, {far.high:.4g}]"


@pytest.mark.parametrize("seed", [3, 8, 12, 17])
def test_means_without_spread_lie_inside_their_intervals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.repeat(rng.random(3), 40)
    partition = Partition.by("g", np.repeat(np.arange(3), 40))
    result = audit(Distances(values, values > 0, "exact", "l2"), partition, AuditSettings(resamples=200))
    overall = result.overall
    for found in (*(row.robustness for row in result), overall.robustness, overall.worst_robustness):
        assert found.low <= found.value <= found.high


def test_limits_too_large_for_a_float_are_infinite_without_a_warning() -> None:
    values = np.concatenate([[1.0, 1e3, 1e6], np.random.default_rng(8).gamma(2, 1.0, 60)])
    partition = Partition.by("g", np.repeat(["few", "many"], [3, 60]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = audit(Distances(values, values > 0, "exact", "l2"), partition, AuditSettings(resamples=200))
    assert result["few"].robustness.high == np.inf
    assert AuditResult.from_json(result.to_json()).to_json() == result.to_json()
