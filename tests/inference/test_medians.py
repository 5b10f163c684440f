"""The contrast of medians: its limits are order statistics, and it is undefined where a side has no median above 0."""

import math

import numpy as np
import pytest
from scipy import stats

from fairmargin.analyses.audit import audit
from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.design import Design
from fairmargin.inference.estimate import Estimate
from fairmargin.inference.medians import median_contrasts
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.sizes import sizes_of
from tests.inference.builders import exact, groups_of

ALPHA = 0.05


def contrasts(
    distances: Distances,
    groups: Partition,
    cluster: Ints | None = None,
    control: Partition | None = None,
    weights: Floats | None = None,
) -> tuple[Estimate, ...]:
    count = len(groups.labels)
    return median_contrasts(
        distances,
        groups,
        control,
        Design(cluster, weights),
        alpha=np.full(count, ALPHA),
        reasons=[""] * count,
    )


def lognormals(*sizes: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).lognormal(0, 1, sum(sizes))


def limits(estimate: Estimate) -> list[float]:
    return [estimate.value, estimate.low, estimate.high]


@pytest.mark.parametrize("size", [20, 35, 100, 501])
def test_beside_a_constant_rest_the_limits_are_order_statistics_with_the_binomial_coverage(size: int) -> None:
    own = np.sort(lognormals(size))
    found = contrasts(exact(np.append(own, np.ones(400))), groups_of(size, 400))[0]
    assert found.value + 1 == pytest.approx(np.median(own))
    low, high = (int(np.flatnonzero(np.isclose(own, end + 1))[0]) for end in (found.low, found.high))
    assert low + high == size - 1
    beyond = 2 * stats.binom.cdf(low, size, 0.5)  # probability that the interval does not contain the true median
    fewer = 2 * stats.binom.cdf(low - 1, size, 0.5)
    assert fewer < ALPHA
    assert beyond < 1.6 * ALPHA


def test_for_smooth_distributions_the_limits_are_those_of_mover() -> None:
    sizes = (3_000, 5_000)
    values = lognormals(*sizes)
    found = contrasts(exact(values), groups_of(*sizes))[0]
    logs, ends = [], []
    for side in (values[: sizes[0]], values[sizes[0] :]):
        ranks = stats.binom.ppf([ALPHA / 2, 1 - ALPHA / 2], len(side), 0.5).astype(int)
        logs.append(math.log(np.median(side)))
        ends.append(np.log(np.sort(side)[ranks]))
    middle, (own, rest) = logs[0] - logs[1], ends
    low = middle - math.hypot(logs[0] - own[0], rest[1] - logs[1])
    high = middle + math.hypot(own[1] - logs[0], logs[1] - rest[0])
    assert [math.log1p(each) for each in limits(found)] == pytest.approx([middle, low, high], abs=0.1 * (high - low))


def test_two_groups_mirror_each_other_and_the_unit_does_not_matter() -> None:
    values = lognormals(60, 90)
    a, b = contrasts(exact(values), groups_of(60, 90))
    for one, other in ((a.value, b.value), (a.low, b.high), (a.high, b.low)):
        assert (1 + one) * (1 + other) == pytest.approx(1)
    assert limits(contrasts(exact(1e6 * values), groups_of(60, 90))[0]) == pytest.approx(limits(a))


def test_neither_far_samples_nor_a_cap_change_the_contrast() -> None:
    values = lognormals(200, 200)
    plain = contrasts(exact(values), groups_of(200, 200))[0]
    far = values.copy()
    far[values.argmax()] = 1e9
    assert limits(contrasts(exact(far), groups_of(200, 200))[0]) == limits(plain)
    capped = audit(exact(values), groups_of(200, 200), AuditSettings(resamples=200, up_to=0.1))["g0"]
    assert limits(capped.sigma_median) == limits(plain)


def test_samples_that_occur_in_copies_count_once() -> None:
    values, person = lognormals(50, 80), np.arange(130)
    once = contrasts(exact(values), groups_of(50, 80))
    twice = contrasts(exact(np.repeat(values, 2)), groups_of(100, 160), cluster=np.repeat(person, 2))
    assert [limits(each) for each in twice] == [limits(each) for each in once]


def test_a_sample_of_weight_3_counts_as_three_and_the_interval_is_that_of_the_effective_number() -> None:
    values, times = lognormals(90, 300), np.random.default_rng(1).integers(1, 4, 390)
    weighted = contrasts(exact(values), groups_of(90, 300), weights=times.astype(float))[0]
    copies, person = np.repeat(values, times), np.repeat(np.arange(390), times)
    groups = Partition("g", ["a", "b"], (person >= 90).astype(int))
    assert limits(weighted) == limits(contrasts(exact(copies), groups, cluster=person)[0])


def test_weights_undo_a_sample_that_has_too_many_far_distances() -> None:
    values = lognormals(4_000, 4_000)
    far = values > 1
    kept = np.flatnonzero(~far | (np.arange(8_000) % 4 == 0) | (np.arange(8_000) >= 4_000))  # far ones of g0 are rare
    weights = np.where(far & (np.arange(8_000) < 4_000), 4.0, 1.0)[kept]
    groups = groups_of(4_000, 4_000).take(kept)
    corrected = contrasts(exact(values[kept]), groups, weights=weights)[0]
    biased = contrasts(exact(values[kept]), groups)[0]
    assert biased.high < -0.3
    assert corrected.low < 0 < corrected.high < 0.15


@pytest.mark.parametrize("strata", [1, 3])
@pytest.mark.parametrize("across", [True, False])
def test_effective_numbers_are_those_of_the_weights_of_clusters_in_the_means(strata: int, across: bool) -> None:
    rng = np.random.default_rng(3)
    group, stratum = rng.integers(0, 3, 500), rng.integers(0, strata, 500)
    person = rng.integers(0, 60, 500) * (1 if across else 100) + (0 if across else 10 * stratum + group)
    control = None if strata == 1 else Partition.by("stratum", stratum)
    found = sizes_of(Partition.by("g", group), control, Design(np.unique(person, return_inverse=True)[1], None))
    for g in range(3):
        for inside, effective in ((group == g, found.own_effective[g]), (group != g, found.rest_effective[g])):
            weight = np.zeros(500)
            for k in range(strata):
                here = inside & (stratum == k)
                weight[here] = (stratum == k).mean() / here.sum()
            of_person = np.array([weight[inside & (person == who)].sum() for who in np.unique(person)])
            assert effective == pytest.approx(1 / np.square(of_person).sum())


def test_with_a_control_the_medians_are_those_of_a_common_mix() -> None:
    rng = np.random.default_rng(5)
    group, stratum = np.repeat([0, 0, 1, 1], [100, 30, 40, 160]), np.repeat([0, 1, 0, 1], [100, 30, 40, 160])
    values = rng.lognormal(stratum * 2.0, 0.5) * np.where(group == 0, 0.8, 1.0)
    mixed, plain = (
        contrasts(exact(values), Partition.by("g", group), control=control)[0].value
        for control in (Partition.by("class", stratum), None)
    )
    medians = []
    for g in (0, 1):
        side = group == g
        weight = np.bincount(stratum)[stratum] / np.bincount(stratum[side])[stratum] * side
        order = np.argsort(values)
        medians.append(values[order][np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2)])
    assert mixed == pytest.approx(medians[0] / medians[1] - 1, rel=0.02)
    assert plain < -0.6 < mixed < 0


@pytest.mark.parametrize(
    ("values", "correct", "reason"),
    [
        ([0, 0, 1, 2] * 2 + [1, 2, 3] * 4, None, "at least half of group 'g0' is misclassified, so that its median"),
        ([1, 2, 3, 4] * 2 + [0, 0, 3] * 4, None, "at least half of the rest of group 'g0' is misclassified"),
        ([0, 0, 1, 2] * 2 + [1, 2, 3] * 4, True, "at least half of group 'g0' has the distance 0"),
        ([math.inf, 1, 2, math.inf] * 2 + [1, 2, 3] * 4, None, "no misclassified input was found for half of group"),
    ],
)
def test_a_side_without_a_median_above_0_is_named(values: list[float], correct: bool | None, reason: str) -> None:
    right = np.array(values) > 0 if correct is None else np.ones(len(values), dtype=bool)
    found = contrasts(Distances(values, right, "lower", "l2"), groups_of(8, 12))[0]
    assert math.isnan(found.value)
    assert found.reason.startswith(reason)


def test_too_few_samples_have_a_value_and_a_reason_instead_of_an_interval() -> None:
    found = contrasts(exact(lognormals(3, 3)), groups_of(3, 3))[0]
    assert math.isfinite(found.value)
    assert math.isnan(found.low)
    assert found.reason == "group 'g0' or its rest has too few distances above 0 for an interval of its median"
    alone = audit(exact(lognormals(40, 0)), groups_of(40), AuditSettings(resamples=200))["g0"]
    assert alone.sigma_median.reason == "there is no sample outside group 'g0'"


def test_failed_searches_beyond_the_limits_change_nothing_and_short_ones_are_counted_on_both_sides() -> None:
    sizes, values = (200, 300), lognormals(200, 300)
    complete = contrasts(exact(values), groups_of(*sizes))[0]
    unreached = np.where(values > 3, math.inf, values)
    deep = Distances(unreached, values > 0, "upper", "l2", tried=np.full(500, 3.0))
    assert limits(contrasts(deep, groups_of(*sizes))[0]) == limits(complete)
    few = np.where(np.arange(500) % 50 == 7, math.inf, values)  # searches that failed at once
    short = Distances(few, values > 0, "upper", "l2", tried=np.full(500, 1e-3))
    assert contrasts(short, groups_of(*sizes))[0].reason.startswith(
        "searches that found nothing ended below the median"
    )
    steps = 1.5 * np.ceil(values / 1.5)  # with ties the median does not depend on these samples, but its limits may
    few = np.where(np.arange(500) % 50 == 7, math.inf, steps)
    short = Distances(few, values > 0, "upper", "l2", tried=np.full(500, 1e-3))
    found, known = (contrasts(each, groups_of(*sizes))[0] for each in (short, exact(steps)))
    assert found.value == known.value
    assert found.low <= known.low <= known.high <= found.high
