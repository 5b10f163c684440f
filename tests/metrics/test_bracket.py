"""A bracket encloses the truth, says certain only where the bounds decide, and refuses what does not belong there."""

import math

import numpy as np
import pytest

from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError
from fairmargin.metrics.bracket import bracket
from fairmargin.metrics.bracketed import (
    CERTAINLY_LESS,
    CERTAINLY_LESS_HERE,
    CERTAINLY_MORE,
    NOT_CERTAIN,
    Bracket,
)
from fairmargin.metrics.plan import AuditPlan
from fairmargin.metrics.results import NOT_COMPARABLE, TOO_FEW

QUICK = AuditPlan(resamples=300)


def bounds(truth, loose=0.2, seed=0, subject="model"):
    rng = np.random.default_rng(seed)
    correct = truth > 0
    lower = truth * rng.uniform(1 - loose, 1, len(truth))
    upper = truth * rng.uniform(1, 1 + loose, len(truth))
    return (
        Distances(lower, correct, Bound.LOWER, Norm.L2, subject),
        Distances(upper, correct, Bound.UPPER, Norm.L2, subject),
    )


def two_groups(weak=1.0, strong=2.0, size=150, seed=1):
    rng = np.random.default_rng(seed)
    truth = np.concatenate([rng.gamma(4, weak, size), rng.gamma(4, strong, size)])
    truth[rng.random(2 * size) < 0.1] = 0.0
    return truth, Partition.by("sex", ["F"] * size + ["M"] * size)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("loose", [0.0, 0.1, 0.9])
def test_the_limits_for_these_samples_contain_the_truth(seed, loose):
    truth, groups = two_groups(seed=seed)
    found = bracket(*bounds(truth, loose, seed), groups, QUICK)
    for i, row in enumerate(found):
        own, rest = truth[groups.membership == i].mean(), truth[groups.membership != i].mean()
        assert row.robustness.low <= own * (1 + 1e-12)
        assert own <= row.robustness.high * (1 + 1e-12)
        assert row.gap.low <= own - rest + 1e-12
        assert own - rest <= row.gap.high + 1e-12
        assert row.sigma.low <= own / rest - 1 + 1e-12
        assert own / rest - 1 <= row.sigma.high + 1e-12
        assert row.sigma.population_low < row.sigma.low
        assert row.sigma.high < row.sigma.population_high
    means = [truth[mask].mean() for _, mask in groups]
    assert found.variance[0] - 1e-12 <= np.var(means) <= found.variance[1] + 1e-12


def test_sigma_is_bracketed_by_the_quotients_of_opposite_bounds():
    truth, groups = two_groups()
    lower, upper = bounds(truth)
    row = bracket(lower, upper, groups, QUICK)["F"]
    own = groups.membership == 0
    assert row.sigma.low == pytest.approx(lower.values[own].mean() / upper.values[~own].mean() - 1)
    assert row.sigma.high == pytest.approx(upper.values[own].mean() / lower.values[~own].mean() - 1)


def test_a_gap_that_no_distances_between_the_bounds_could_turn_is_certain():
    truth, groups = two_groups(weak=1.0, strong=2.0)
    found = bracket(*bounds(truth, 0.1), groups, QUICK)
    assert (found["F"].verdict, found["M"].verdict) == (CERTAINLY_LESS, CERTAINLY_MORE)
    assert "whatever the attack" in found["F"].finding


def test_loose_bounds_make_nothing_certain_however_large_the_gap():
    truth, groups = two_groups(weak=1.0, strong=2.0)
    found = bracket(*bounds(truth, 0.95), groups, QUICK)
    assert {row.verdict for row in found} == {NOT_CERTAIN}


def test_a_gap_of_these_samples_alone_is_not_said_of_the_population():
    truth, groups = two_groups(weak=1.0, strong=1.0, size=40, seed=3)
    means = [truth[mask].mean() for _, mask in groups]
    exact = Distances(truth, truth > 0, Bound.EXACT, Norm.L2)
    found = bracket(exact, exact, groups, QUICK)
    assert found.share_closed == 1
    assert means[0] < means[1]  # by chance alone
    assert found["F"].verdict == CERTAINLY_LESS_HERE


def test_the_population_is_missed_seldom_even_with_exact_distances():
    hits, rounds = 0, 50
    rng = np.random.default_rng(0)
    groups = Partition.by("sex", ["F"] * 60 + ["M"] * 60)
    for _ in range(rounds):
        truth = np.concatenate([rng.gamma(2, 1.0, 60), rng.gamma(2, 2.0, 60)])
        exact = Distances(truth, truth > 0, Bound.EXACT, Norm.L2)
        sigma = bracket(exact, exact, groups, AuditPlan(resamples=200))["F"].sigma
        hits += sigma.population_low <= -0.5 <= sigma.population_high
    assert 0.88 <= hits / rounds <= 1 - 1e-9


def test_bounds_of_different_subjects_never_combine():
    truth, groups = two_groups()
    lower, _ = bounds(truth, subject="smoothed(0.25)")
    _, upper = bounds(truth)
    with pytest.raises(InputError, match=r"smoothed\(0.25\).*model"):
        bracket(lower, upper, groups)


def test_two_attacks_or_bounds_in_the_wrong_order_are_refused():
    truth, groups = two_groups()
    lower, upper = bounds(truth)
    for wrong in ((upper, upper), (upper, lower), (lower, lower)):
        with pytest.raises(InputError, match=r"lower bounds .* first and upper bounds"):
            bracket(*wrong, groups)


def test_a_certificate_beyond_an_attack_is_a_contradiction_and_says_where():
    truth, groups = two_groups()
    lower, upper = bounds(truth)
    first = int(np.flatnonzero(truth > 0)[0])
    wrong = lower.values.copy()
    wrong[first] = upper.values[first] * 1.1
    with pytest.raises(InputError, match=rf"contradict.*1 of 300.*sample {first}"):
        bracket(Distances(wrong, lower.correct, Bound.LOWER, Norm.L2), upper, groups)


def test_a_smoothed_models_bounds_may_cross_by_chance_and_then_count_widely():
    truth, groups = two_groups()
    lower, upper = bounds(truth, subject="smoothed(0.5)")
    first = int(np.flatnonzero(truth > 0)[0])
    wrong = lower.values.copy()
    wrong[first] = upper.values[first] * 1.1
    crossed = Distances(wrong, lower.correct, Bound.LOWER, Norm.L2, "smoothed(0.5)")
    found, plain = bracket(crossed, upper, groups, QUICK), bracket(lower, upper, groups, QUICK)
    assert found.crossed == 1
    assert found["F"].robustness.low < plain["F"].robustness.low
    assert found["F"].robustness.high > plain["F"].robustness.high


def test_where_an_attack_found_nothing_both_bounds_are_capped_alike():
    truth, groups = two_groups()
    lower, upper = bounds(truth)
    values = upper.values.copy()
    values[np.flatnonzero(truth > 0)[:3]] = np.inf
    unreached = Distances(values, upper.correct, Bound.UPPER, Norm.L2)
    found = bracket(lower, unreached, groups, QUICK)
    assert math.isfinite(found.up_to)
    assert "3 of 300" in found.cap_reason
    assert math.isfinite(found["F"].sigma.high)


def test_a_group_whose_rest_may_have_no_robustness_at_all_may_be_any_times_as_robust():
    truth, groups = two_groups()
    nothing = Distances(np.zeros(300), truth > 0, Bound.LOWER, Norm.L2)
    _, upper = bounds(truth)
    sigma = bracket(nothing, upper, groups, QUICK)["F"].sigma
    assert (sigma.low, sigma.high) == (-1.0, math.inf)


def test_small_groups_and_lonely_ones_get_no_verdict():
    truth, _ = two_groups()
    small = Partition.by("sex", ["F"] * 5 + ["M"] * 295)
    assert {row.verdict for row in bracket(*bounds(truth), small, QUICK)} == {TOO_FEW}
    alone = Partition.by("sex", ["F"] * 300)
    row = bracket(*bounds(truth), alone, QUICK)["F"]
    assert row.verdict == NOT_COMPARABLE
    assert not row.sigma.is_known
    assert row.robustness.is_known


def test_it_survives_being_written_down():
    truth, groups = two_groups()
    found = bracket(*bounds(truth), groups, QUICK)
    assert Bracket.from_json(found.to_json()) == found
    assert found.to_frame().shape[0] == 2
    for damaged in ("{}", "[]", '{"format": 9}', '{"format": 1, "groups": []}'):
        with pytest.raises(InputError, match="bracket"):
            Bracket.from_json(damaged)


def test_what_is_no_distance_no_partition_or_no_plan_is_refused_in_a_sentence():
    truth, partition = two_groups()
    lower, upper = bounds(truth)
    with pytest.raises(InputError, match="`lower` of `bracket` must be of kind Distances"):
        bracket(lower.values, upper, partition)
    with pytest.raises(InputError, match="`partition` must be a `Partition`; given 'sex'"):
        bracket(lower, upper, "sex")
    with pytest.raises(InputError, match="`plan` of `bracket` must be of kind AuditPlan"):
        bracket(lower, upper, partition, plan="careful")


def test_other_norms_are_not_blamed_on_smoothing():
    truth, partition = two_groups()
    lower, upper = bounds(truth)
    other = Distances(upper.values, upper.correct, Bound.UPPER, Norm.LINF)
    with pytest.raises(InputError, match="measure both in the same norm"):
        bracket(lower, other, partition)


def test_a_smoothed_models_findings_speak_of_false_certificates():
    truth, partition = two_groups()
    (plain, smoothed) = (bracket(*bounds(truth, subject=s), partition) for s in ("model", "smoothed(0.25)"))
    assert all("false certificates" in row.finding for row in smoothed)
    assert not any("false certificates" in row.finding for row in plain)


def test_equal_bounds_and_equal_groups_are_said_to_be_equal():
    values = np.tile([1.0, 2.0], 60)
    same = [Distances(values, np.ones(120, bool), bound, Norm.L2) for bound in (Bound.LOWER, Bound.UPPER)]
    found = bracket(*same, Partition.by("half", np.repeat(["a", "b"], 60)))
    assert "there is no difference in these samples" in found["a"].finding
