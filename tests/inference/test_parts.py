"""σ has two parts, accuracy and the mean distance of correct samples, and each has an interval."""

import math

import numpy as np
import pytest
from scipy import stats

from fairmargin.analyses.audit import AuditResult, audit
from fairmargin.core.arrays import Floats
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.settings import AuditSettings
from tests.inference.builders import exact, groups_of

QUICK = AuditSettings(resamples=200)


def distances_of(*groups: tuple[int, float, float], seed: int = 0) -> Floats:
    """Return gamma distances for groups given as size, accuracy and mean distance of correct samples."""
    rng = np.random.default_rng(seed)
    values = [rng.gamma(4, mean / 4, n) * (np.arange(n) < round(share * n)) for n, share, mean in groups]
    return np.concatenate(values)


def audited(*groups: tuple[int, float, float], settings: AuditSettings = QUICK) -> AuditResult:
    return audit(exact(distances_of(*groups)), groups_of(*(n for n, _, _ in groups)), settings)


@pytest.mark.parametrize("up_to", [math.inf, 0.9])
@pytest.mark.parametrize("design", ["single", "clusters", "weights", "both"])
def test_both_parts_multiply_to_sigma(up_to: float, design: str) -> None:
    groups = ((80, 0.6, 0.7), (90, 0.8, 1.0), (200, 0.95, 1.2))
    rng = np.random.default_rng(1)
    cluster = rng.integers(0, 200, 370) if design in ("clusters", "both") else None
    weight = rng.uniform(1, 2, 370) if design in ("weights", "both") else None
    settings = AuditSettings(resamples=200, up_to=up_to, cluster=cluster, sample_weight=weight)
    for row in audited(*groups, settings=settings):
        product = (1 + row.sigma_accuracy.value) * (1 + row.sigma_margin.value)
        assert product == pytest.approx(1 + row.sigma.value)
        for part in (row.sigma_accuracy, row.sigma_margin):
            assert -1 <= part.low < part.value < part.high


def test_parts_multiply_to_sigma_where_searches_failed_at_different_depths() -> None:
    values = distances_of((200, 0.8, 0.8), (300, 0.9, 1.0))
    depth = np.random.default_rng(2).uniform(0.2, 4, 500)
    unreached = np.where(values > depth, math.inf, values)
    result = audit(Distances(unreached, values > 0, "upper", "l2", tried=depth), groups_of(200, 300), QUICK)
    complete = audit(exact(values), groups_of(200, 300), AuditSettings(resamples=200, up_to=result.up_to))
    assert result.censoring
    for row in result:
        assert (1 + row.sigma_accuracy.value) * (1 + row.sigma_margin.value) == pytest.approx(1 + row.sigma.value)
        truth = complete[row.group].sigma_margin
        assert row.sigma_margin.low < truth.value < row.sigma_margin.high
        assert row.sigma_margin.high - row.sigma_margin.low > truth.high - truth.low


@pytest.mark.parametrize("hits", [0, 1, 20, 39, 40])
def test_beside_a_large_rest_the_accuracy_part_has_the_exact_binomial_limits(hits: int) -> None:
    row = audited((40, hits / 40, 1.0), (50_000, 0.8, 1.0))["g0"]
    expected = stats.binomtest(hits, 40).proportion_ci(0.95, method="exact")
    found = [0.8 * (1 + end) for end in (row.sigma_accuracy.low, row.sigma_accuracy.high)]
    assert found == pytest.approx([expected.low, expected.high], abs=0.01)


def test_the_margin_part_is_sigma_of_the_correct_samples_with_nearly_its_interval() -> None:
    values = distances_of((150, 0.5, 0.8), (300, 0.9, 1.0))
    row = audit(exact(values), groups_of(150, 300), QUICK)["g0"]
    correct = values > 0
    only = audit(exact(values[correct]), groups_of(150, 300).take(correct), QUICK)["g0"]
    assert row.sigma_margin.value == pytest.approx(only.sigma.value)
    ends = [(e.low, e.high) for e in (row.sigma_margin, only.sigma)]
    assert ends[0] == pytest.approx(ends[1], abs=0.02)


@pytest.mark.parametrize(
    ("groups", "accuracy", "margin"),
    [
        (((40, 0.0, 1.0), (60, 0.9, 1.0)), "", "no sample of group 'g0' is classified correctly"),
        (((40, 0.9, 1.0), (60, 0.0, 1.0)), *["no sample outside group 'g0' is classified correctly"] * 2),
        (((60, 0.4, 1.0), (60, 0.9, 1.0)), "", "group 'g0' or its rest has 24 correct samples; an interval needs 30"),
        (((60, 0.4, 1.0),), *["there is no sample outside group 'g0'"] * 2),
    ],
)
def test_a_part_that_is_undefined_or_has_no_interval_names_the_reason(
    groups: tuple[tuple[int, float, float], ...], accuracy: str, margin: str
) -> None:
    row = audited(*groups)["g0"]
    for part, reason in ((row.sigma_accuracy, accuracy), (row.sigma_margin, margin)):
        assert part.reason.startswith(reason)
        assert math.isnan(part.high) == bool(reason)


def test_correct_samples_with_a_certified_distance_of_0_count_in_the_margin_part() -> None:
    values = distances_of((100, 0.5, 1.0), (100, 1.0, 1.0))
    certified = Distances(values, np.ones(200, dtype=bool), "lower", "l2")
    row = audit(certified, groups_of(100, 100), QUICK)["g0"]
    assert row.sigma_accuracy.value == 0
    assert row.sigma_margin.value == pytest.approx(row.sigma.value)
    nothing = Distances(np.append(np.zeros(100), values[100:]), np.ones(200, dtype=bool), "lower", "l2")
    row = audit(nothing, groups_of(100, 100), QUICK)["g0"]
    assert row.sigma_margin.reason == "no correct sample of group 'g0' or its rest has a distance above 0"


def test_with_a_control_of_several_classes_parts_are_undefined() -> None:
    control = Partition.by("class", np.arange(200) % 2)
    row = audited((100, 0.8, 1.0), (100, 0.9, 1.0), settings=AuditSettings(resamples=200, control=control))["g0"]
    assert row.sigma_accuracy.reason == row.sigma_margin.reason == "σ has no parts at equal 'class'"


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (
            (200, 0.7, 0.8),
            (
                "It is misclassified more often (relative to the accuracy of the rest: −30 %, ",
                ", and the mean distance of",
            ),
        ),
        ((200, 0.7, 1.0), ("It is misclassified more often", "does not differ significantly (")),
        ((200, 0.5, 1.5), ("It is misclassified more often", "is larger (")),
        ((200, 1.0, 0.7), ("The mean distance of its correct samples is smaller", "accuracy does not differ sig")),
    ],
)
def test_the_finding_says_why_a_group_is_less_robust(group: tuple[int, float, float], words: tuple[str, str]) -> None:
    result = audited(group, (400, 1.0, 1.0))
    sentence = result.finding(result["g0"])
    assert all(each in sentence for each in words), sentence
    assert "correct samples" not in result.finding(result["g1"])
    shown = [each for each in result.section().sentences if each.startswith("“g0”: ")]
    assert [each.removeprefix("“g0”: ")[1:] in sentence for each in shown] == [True]


def test_where_neither_part_alone_is_significant_the_finding_says_so() -> None:
    result = audited((100, 0.96, 0.95), (2000, 0.985, 1.0))
    row = result["g0"]
    assert row.sigma.high < 0 <= min(row.sigma_accuracy.high, row.sigma_margin.high)
    assert "Neither part alone is significant: relative to the rest, its accuracy differs by" in result.finding(row)
