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
from fairmargin.study.gate import gate
from tests.inference.builders import exact, groups_of

RANDOM_AUDITS = 200
QUICK = AuditSettings(resamples=200)


def random_case(seed):
    """Return a data set of random shape: groups, sizes, tails, accuracies, effects, clusters and controls all vary."""
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
    chosen = AuditSettings(seed=seed, resamples=200, cluster=cluster, control=control, confidence=confidence)
    return exact(values), groups_of(*sizes), chosen


def is_significant(row):
    return row.verdict in (LESS_ROBUST, MORE_ROBUST)


def excludes_zero(estimate):
    return estimate.low > 0 or estimate.high < 0


def disagreements(result, alpha):
    found = []
    for row in result:
        significant = is_significant(row)
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


@pytest.mark.parametrize(("first", "audits"), [(0, RANDOM_AUDITS), pytest.param(10_000, 2_000, marks=pytest.mark.slow)])
def test_verdict_p_and_interval_agree_in_random_audits(first, audits):
    significant = 0
    for seed in range(first, first + audits):
        distances, partition, chosen = random_case(seed)
        result = audit(distances, partition, chosen)
        assert disagreements(result, chosen.alpha) == [], f"seed {seed}"
        significant += sum(map(is_significant, result))
    assert significant > audits / 10


def test_verdict_p_and_interval_agree_for_robust_accuracy():
    significant = 0
    for seed in range(60):
        distances, partition, chosen = random_case(seed)
        robust = distances.values > 0.7
        for row in accuracy_under_attack(
            distances.correct, robust, partition, chosen, attack="a", norm="l2", radius=0.7
        ):
            significant += is_significant(row)
            assert is_significant(row) == (row.p_adjusted < chosen.alpha), f"seed {seed}, {row.group}"
            if not np.isnan(row.gap_to_rest.low):
                assert is_significant(row) == excludes_zero(row.gap_to_rest), f"seed {seed}, {row.group}"
    assert significant > 5


def test_population_limits_of_a_bracket_exclude_zero_exactly_where_it_speaks_of_the_population():
    certain = 0
    for seed in range(30):
        distances, partition, chosen = random_case(seed)
        nearer = distances.values * np.random.default_rng(seed).uniform(0.8, 1.0)
        lower = Distances(nearer, distances.correct, "lower", "l2")
        upper = Distances(distances.values * 1.02, distances.correct, "upper", "l2")
        found = bracket(lower, upper, partition, chosen)
        for row in found:
            speaks = row.verdict in (CERTAINLY_LESS, CERTAINLY_MORE)
            certain += speaks
            for limits in (row.sigma, row.gap) if row.sigma.is_known else ():
                excludes = limits.population_low > 0 or limits.population_high < 0
                assert excludes == speaks, f"seed {seed}, {found.finding(row)}"
                assert limits.population_low <= limits.low <= limits.high <= limits.population_high
    assert certain > 5


def test_a_gate_and_the_finding_use_the_interval_for_all_groups_at_once():
    """One of eight groups would be significant if it were the only one."""
    partition = groups_of(*[60] * 8)
    values = np.random.default_rng(5).lognormal(0, 0.8, 480) * np.where(partition.membership == 0, 0.76, 1.0)
    result = audit(exact(values), partition)
    row = result["g0"]
    assert row.verdict == "no significant difference"
    assert row.sigma.low < row.sigma_alone.low < row.sigma_alone.high < -0.05 < 0 <= row.sigma.high
    assert gate(result.records(), "sigma_high < -0.05").matching == []
    assert [row["group"] for row in gate(result.records(), "sigma_alone_high < -0.05").matching] == ["g0"]
    interval = f"{signed_percent(row.sigma.low)} to {signed_percent(row.sigma.high)}"
    assert f"interval for all groups at once {interval}" in result.finding(row)


@pytest.mark.parametrize("up_to", [0.1, 0.03, 1e-3, 8 / 255])
def test_an_audit_of_distances_that_all_reach_the_cap_is_read_back(up_to):
    rng = np.random.default_rng(5)
    for sizes in ([200, 150, 60], [31, 150, 77], [40, 41, 43]):
        values = 0.1 + rng.exponential(1, sum(sizes))
        result = audit(exact(values), groups_of(*sizes), AuditSettings(up_to=up_to, resamples=200))
        assert AuditResult.from_json(result.to_json()).to_json() == result.to_json()
        assert [row.sigma.value for row in result] == [0.0] * 3


@pytest.mark.parametrize("unit", [1e-12, 1e-8, 1e8])
def test_the_unit_of_distances_does_not_change_what_is_significant(unit):
    values = np.random.default_rng(6).lognormal(0, 0.5, 300) * np.repeat([0.6, 1, 1.1], 100) * unit
    result = audit(exact(values), groups_of(100, 100, 100), QUICK)
    assert disagreements(result, 0.05) == []
    assert AuditResult.from_json(result.to_json())["g0"].verdict == LESS_ROBUST


def test_a_group_that_is_always_wrong_is_less_robust_in_every_column():
    values = np.random.default_rng(7).lognormal(0, 0.5, 300)
    values[:60] = 0
    result = audit(exact(values), groups_of(60, 80, 80, 80), QUICK)
    assert result["g0"].verdict == LESS_ROBUST
    assert [row["group"] for row in gate(result.records(), "sigma_high < 0").matching] == ["g0"]
    assert "−100 % to below 0" in result.finding(result["g0"])


@pytest.mark.parametrize(
    ("low", "high", "adjusted", "value", "expected"),
    [
        # Where Holm rejects, the interval ends just before 0.
        (-0.4, 0.1, 0.04, -0.2, (-0.4, -0.2 * JUST_BEYOND_ZERO)),
        (-0.1, 0.4, 0.04, 0.2, (0.2 * JUST_BEYOND_ZERO, 0.4)),
        (-0.1, 4.0, 0.04, 2.0, (JUST_BEYOND_ZERO, 4.0)),
        (-0.4, -0.1, 0.01, -0.2, (-0.4, -0.1)),
        # Where it does not, the interval reaches 0.
        (-0.4, -0.1, 0.2, -0.2, (-0.4, 0.0)),
        (0.1, 0.4, 0.2, 0.2, (0.0, 0.4)),
        (0.1, 0.4, np.nan, 0.2, (0.0, 0.4)),
    ],
)
def test_the_interval_excludes_zero_exactly_where_holm_rejects(low, high, adjusted, value, expected):
    given = Limits(np.array([low]), np.array([high]))
    numbers = np.array([value]), np.array([adjusted])
    found = simultaneous_limits(lambda _: given, *numbers, alpha=0.05, hypotheses=3, intervals=3)
    assert (float(found.low[0]), float(found.high[0])) == expected


def test_limits_are_at_the_level_of_the_tested_groups_and_of_all_groups_for_the_others():
    adjusted = np.array([1.0, np.nan, np.nan])
    found = simultaneous_limits(
        lambda alpha: Limits(np.full(3, -1 / alpha), np.full(3, 1 / alpha)),
        np.zeros(3),
        adjusted,
        alpha=0.06,
        hypotheses=2,
        intervals=3,
    )
    assert found.high == pytest.approx([1 / 0.03, 1 / 0.02, 1 / 0.02])
    assert found.low == pytest.approx(-found.high)


def test_intervals_for_all_groups_allow_for_groups_that_are_too_small_for_a_verdict():
    rng, partition = np.random.default_rng(8), groups_of(*[25] * 10)
    values = rng.gamma(2, 0.5, 250)
    for row in audit(exact(values), partition, QUICK):
        assert row.verdict == TOO_FEW
        assert row.sigma.high - row.sigma.low > 1.05 * (row.sigma_alone.high - row.sigma_alone.low)
    for row in compare(exact(values), exact(values * rng.gamma(4, 0.25, 250)), partition):
        assert row.verdict == TOO_FEW
        for together, alone in ((row.change, row.change_alone), (row.sigma_change, row.sigma_change_alone)):
            assert together.high - together.low > 1.05 * (alone.high - alone.low)


@pytest.mark.parametrize("limit", [-0.0002, -1e-9, -JUST_BEYOND_ZERO])
def test_a_limit_that_is_not_zero_is_never_printed_as_zero(limit):
    sigma = Estimate(-0.2, -0.4, limit, "neither")
    assert share(sigma, signed=True).interval == "[−40.0, below 0]"
    assert limit_text(-limit, "{:+.1%}".format) == "above 0"
    assert limit_text(0.0, "{:+.1%}".format) == "+0.0%"
    assert str(Estimate(-0.2, -0.4, -JUST_BEYOND_ZERO, "neither")) == "-0.2 [-0.4, below 0]"
    assert share(Estimate(0.2, -0.4, np.inf, "neither"), signed=True).interval == "[−40.0, ∞]"


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_lengths_are_shown_with_digits_whatever_their_unit(unit):
    for numbers in ((0.31, 0.0002, 451.5), (-2.0, -4.0, -0.0177), (-0.2, -0.4, -0.2 * JUST_BEYOND_ZERO)):
        estimate = Estimate(*(number * unit for number in numbers), "exact")
        cell = length(estimate, decimals_of([estimate]), signed=True)
        for text in (cell.text, *cell.interval.strip("[]").split(", ")):
            assert any(digit in text for digit in "123456789") or text == "below 0", cell
    far = Estimate(-0.2 * unit, -0.4 * unit, -0.1 * unit, "exact")
    assert str(far) == f"{far.value:.4g} [{far.low:.4g}, {far.high:.4g}]"


@pytest.mark.parametrize("seed", [3, 8, 12, 17])
def test_means_without_spread_lie_inside_their_intervals(seed):
    values = np.repeat(np.random.default_rng(seed).random(3), 40)
    result = audit(exact(values), groups_of(40, 40, 40), QUICK)
    overall = result.overall
    for found in (*(row.robustness for row in result), overall.robustness, overall.worst_robustness):
        assert found.low <= found.value <= found.high


def test_limits_too_large_for_a_float_are_infinite_without_a_warning():
    values = np.concatenate([[1.0, 1e3, 1e6], np.random.default_rng(8).gamma(2, 1.0, 60)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = audit(exact(values), groups_of(3, 60), QUICK)
    assert result["g0"].robustness.high == np.inf
    assert AuditResult.from_json(result.to_json()).to_json() == result.to_json()
