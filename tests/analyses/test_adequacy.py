"""Whether a gap has settled is told from distances at several budgets alone, without any model."""

import json
import math

import numpy as np
import pytest

from fairmargin.analyses.adequacy import NOT_SETTLED, NOTHING, SETTLED, UNDECIDED, Adequacy, Evidence, settle
from fairmargin.analyses.alarms import SIGNS, alarms_of, consequence
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError
from fairmargin.inference.estimate import TOO_FEW
from fairmargin.inference.shares import binomial_interval
from tests.oracles import sigma

NAMES = ("50 steps", "100 steps", "200 steps")
SEX = Partition.by("sex", ["F"] * 40 + ["M"] * 60)


def distances(values, bound="upper", correct=None):
    values = np.asarray(values, dtype=float)
    return Distances(values, values > 0 if correct is None else correct, bound, "l2")


def base(seed=0):
    return np.random.default_rng(seed).gamma(4, 0.25, 100)


def evidence(*values, audited=1, **others):
    runs = tuple(map(distances, values))
    return Evidence(
        runs, NAMES[: len(runs)] if len(runs) <= 3 else tuple(map(str, range(len(runs)))), audited, **others
    )


def shrunk(values, factor, group="F"):
    """Return the distances with those of one group multiplied."""
    members = SEX.membership == SEX.labels.index(group)
    return np.where(members, values * factor, values)


# Verdicts


def test_a_gap_that_no_budget_moves_has_settled_also_if_all_distances_fall_alike():
    found = settle(evidence(base(), base(), base()), SEX)
    assert found.verdict == SETTLED
    assert [row.verdict for row in found] == [SETTLED, SETTLED]
    assert found["F"].sigma_change.value == 0
    alike = settle(evidence(base(), base(), 0.5 * base()), SEX)
    assert alike.verdict == SETTLED
    assert alike["F"].mean_change.value == pytest.approx(-0.5)
    named = settle(Evidence((distances(base()),) * 2, ("budget 1", "budget 2"), 0), SEX)
    assert named.headline.startswith("Settled: budgets of up to budget 2 moved no group’s gap")
    start = "F: settled; the best of all budgets up to 200 steps, instead of 100 steps,"
    assert found.finding(found["F"]).startswith(start)
    assert found.alarmed == ()


def test_a_gap_that_more_budget_moves_beyond_the_tolerance_has_not_settled():
    found = settle(evidence(base(), base(), shrunk(base(), 0.8)), SEX)
    row = found["F"]
    assert (found.verdict, row.verdict) == (NOT_SETTLED, NOT_SETTLED)
    assert row.sigma_change.high < -0.02
    assert row.sigmas[2] == pytest.approx((1 + row.sigmas[1]) * 0.8 - 1)
    assert row.sigma_change.value == pytest.approx(row.sigmas[2] - row.sigmas[1])
    assert "the distances are not yet those of the model but of the attack" in found.finding(row)
    assert "budgets of up to 200 steps still moved the gap of “F” and “M”" in found.headline
    assert "Measure with more steps of this attack, or with a stronger attack." in found.headline


def test_a_change_whose_interval_holds_the_tolerance_is_undecided():
    values, later = base(), base()
    later[:3] *= 0.2  # three of forty: a few points, and nobody knows how many
    found = settle(evidence(values, values, later), SEX)
    low, high = found["F"].sigma_change.low, found["F"].sigma_change.high
    assert low < -0.02 < high
    assert found["F"].verdict == UNDECIDED
    assert "cannot tell" in " ".join(found.sentences())
    assert settle(evidence(values, values, later), SEX, tolerance=0.5).verdict == SETTLED


def test_the_best_of_all_budgets_is_compared_with_the_audited_one():
    farther_below = settle(evidence(shrunk(base(), 3.0), base(), base()), SEX)
    assert farther_below.verdict == SETTLED
    assert settle(evidence(shrunk(base(), 3.0), base(), base(), audited=0), SEX).verdict == NOT_SETTLED
    nearer_below = settle(evidence(shrunk(base(), 0.7), base(), base()), SEX)["F"]
    assert (nearer_below.verdict, nearer_below.last_change.value) == (NOT_SETTLED, 0)
    farther_above = settle(evidence(base(), base(), shrunk(base(), 1.5)), SEX)["F"]
    assert farther_above.verdict == SETTLED
    assert farther_above.means_alone[2] == pytest.approx(1.5 * farther_above.means_alone[1])
    assert farther_above.means[2].value == pytest.approx(farther_above.means_alone[1])
    assert farther_above.sigmas_alone[2] > farther_above.sigmas[2]


def test_a_group_with_a_few_samples_outside_it_is_not_judged_either_and_the_side_is_said():
    few = Partition.by("sex", ["F"] * 92 + ["M"] * 8)
    found = settle(evidence(base(), base(), base()), few)
    assert [row.verdict for row in found] == [TOO_FEW, TOO_FEW]
    assert found.finding(found["F"]) == "F: too few samples (8 outside the group; 10 are needed to tell)."
    assert found.finding(found["M"]) == "M: too few samples (8 of the group; 10 are needed to tell)."
    assert found.headline == "Too few samples: every group, or all that is outside it, has fewer than 10."
    enough = Partition.by("sex", ["F"] * 90 + ["M"] * 10)
    assert settle(evidence(base(), base(), base()), enough).verdict == SETTLED
    three = settle(evidence(base(), base(), base()), Partition.by("race", ["A"] * 46 + ["B"] * 46 + ["C"] * 8))
    assert [row.verdict for row in three] == [SETTLED, SETTLED, TOO_FEW]
    assert three.verdict == SETTLED
    tiny = Evidence(tuple(distances([1.0, 2.0]) for _ in range(2)), ("a", "b"), 0)
    both = settle(tiny, Partition.by("g", ["A", "B"]))
    assert both.verdict == TOO_FEW
    assert "1 of the group and 1 outside it" in both.finding(both["A"])


def test_without_a_rest_that_is_sometimes_right_there_is_no_gap_that_could_settle_and_no_advice():
    only = settle(evidence(base(), base(), 0.9 * base()), Partition.by("all", ["A"] * 100), sizes=[500])
    assert only.verdict == UNDECIDED
    why = "“A” is the only group, so that there is no gap between groups that could settle"
    assert only.headline == f"Undecided: {why}."
    assert only.finding(only["A"]) == (
        "A: undecided; there is no other group, so that it has no gap that could settle. The best of all budgets up to "
        "200 steps, instead of 100 steps, moved its mean distance by −10 %."
    )
    values = np.where(SEX.membership == 0, base(), 0.0)
    wrong = settle(evidence(values, values), SEX, sizes=[400, 600])
    assert wrong["F"].verdict == UNDECIDED
    assert "every sample of the rest is misclassified, so that it has no gap" in wrong.finding(wrong["F"])
    assert "Look at more" not in " ".join(wrong.sentences())
    assert settle(evidence(np.zeros(100), np.zeros(100)), SEX).alarmed == ()


# Advice


def undecided(sizes=None, **looks):
    values, later = base(), base()
    later[:3] *= 0.2
    return settle(evidence(values, values, later, **looks), SEX, sizes=sizes)


def test_more_samples_are_advised_by_their_option_and_only_where_there_are_more():
    more = undecided(sizes=[400, 600])
    assert more.verdict == UNDECIDED
    assert (
        "Look at more samples (--adequacy-samples, or per_group of fm.adequacy), or measure with more steps of "
        "this attack, or with a stronger attack."
    ) in more.headline
    every = undecided()
    assert every.verdict == UNDECIDED
    assert "--adequacy-samples" not in every.headline
    assert "Measure with more steps of this attack" in every.headline


def test_more_steps_are_not_advised_where_the_model_has_no_gradient():
    blind = distances(np.where(SEX.membership == 0, math.inf, 1.0), "neither", np.ones(100, bool))
    for found in (
        undecided(sizes=[400, 600], slopes=blind),
        settle(evidence(base(), base(), shrunk(base(), 0.8), slopes=blind), SEX),
    ):
        assert found.verdict in (UNDECIDED, NOT_SETTLED)
        assert "easure with more steps" not in " ".join(found.sentences())
        assert "ndo what hides the gradients, or measure with an attack that needs none" in " ".join(found.sentences())


def test_distances_that_no_attack_found_have_nothing_to_settle():
    for bound, said in (("exact", "exact"), ("neither", "proxy"), ("lower", "certified")):
        runs = tuple(distances(base(), bound) for _ in range(2))
        found = settle(Evidence(runs, ("a", "b"), 0), SEX)
        assert (found.verdict, found.groups) == (NOTHING, ())
        assert said in " ".join(found.sentences())


# Numbers


def test_sigma_weighs_the_rest_by_the_sizes_of_its_groups_as_an_audit_of_all_samples_does():
    rng = np.random.default_rng(1)
    membership = np.repeat([0, 1, 2], [400, 100, 40])
    values = rng.gamma(4, 0.25, 540) * np.array([1.0, 0.5, 2.0])[membership]
    everyone = Partition("race", ["A", "B", "C"], membership)
    chosen = np.concatenate([np.arange(400), np.arange(400, 500), np.arange(500, 540)])
    found = settle(
        Evidence(tuple(distances(values[chosen]) for _ in range(2)), ("a", "b"), 0),
        everyone.take(chosen),
        sizes=everyone.sizes,
    )
    for label, value in sigma(distances(values), everyone).items():
        assert found[label].sigmas[0] == pytest.approx(value)
    some = np.concatenate([np.arange(40), np.arange(400, 440), np.arange(500, 540)])
    mean = {g: values[some][everyone.membership[some] == i].mean() for i, g in enumerate("ABC")}
    sampled = settle(
        Evidence(tuple(distances(values[some]) for _ in range(2)), ("a", "b"), 0),
        everyone.take(some),
        sizes=everyone.sizes,
    )
    assert sampled["A"].sigmas[0] == pytest.approx(mean["A"] / ((100 * mean["B"] + 40 * mean["C"]) / 140) - 1)


def test_the_interval_of_a_change_covers_it():
    rng = np.random.default_rng(3)
    truth = 0.9 / 0.98 - 1  # both groups have mean 1 at first
    covered = 0
    for _ in range(300):
        before = rng.gamma(4, 0.25, 100)
        after = before * np.where(SEX.membership == 0, rng.choice([0.8, 1.0], 100), rng.choice([0.96, 1.0], 100))
        change = settle(evidence(before, before, after), SEX)["F"].sigma_change
        covered += change.low <= truth <= change.high
    assert 0.9 <= covered / 300 <= 0.99


def test_unreached_samples_are_averaged_up_to_the_largest_distance_found_or_the_cap():
    before, after = base(), base()
    before[:5] = math.inf
    found = settle(evidence(before, before, after), SEX)
    assert found.up_to == max(before[np.isfinite(before)].max(), after.max())
    assert found["F"].mean_change.value < 0
    assert settle(evidence(before, before, after), SEX, up_to=0.5).up_to == 0.5
    everything = np.full(100, math.inf)
    lost = settle(evidence(everything, everything), SEX)
    assert lost["F"].sigma_change.value == 0
    assert {alarm.kind for alarm in lost["F"].raised} == {"unreached"}


# Alarms


def test_every_alarm_counts_correct_samples_of_the_group_with_an_exact_interval():
    group = np.array([True] * 8 + [False] * 2)
    correct = np.array([True] * 7 + [False] + [True] * 2)
    audited = distances([1, 1, 1, 1, np.inf, 1, 1, 0, np.inf, 1], correct=correct)
    best = distances([1, 0.5, 1, 1, 1, 1, 1, 0, 1, 0.1], correct=correct)
    slopes = distances([1, np.inf, 1, 1, 1, 1, 1, 0, np.inf, 1], "neither", correct)
    noise = distances([np.inf, 0.995, 0.9, 0.5, 1, 2, np.inf, 0, 1, 0.1], correct=correct)
    unaided = distances([np.inf, 1, np.inf, 1, np.inf, 1, 1, 0, np.inf, np.inf], correct=correct)
    alarms = alarms_of(group, audited, best, 0.95, slopes=slopes, noise=noise, unaided=unaided)
    assert {alarm.kind: alarm.hits for alarm in alarms} == {
        "no gradient": 1, "noise is nearer": 3, "distances jump": 2, "unreached": 1, "found by a reference only": 2
    }  # fmt: skip
    assert {alarm.of for alarm in alarms} == {7}
    jump = alarms[2]
    assert (jump.share.low, jump.share.high) == binomial_interval(2, 7, 0.95)


def test_an_alarm_is_raised_above_its_threshold_only_and_says_what_follows():
    group, audited = np.ones(100, bool), distances(np.ones(100))
    for hits, raised in ((2, False), (3, True)):
        noise = distances(np.where(np.arange(100) < hits, 0.5, math.inf))
        (alarm,) = [a for a in alarms_of(group, audited, audited, 0.95, noise=noise) if a.kind == "noise is nearer"]
        assert alarm.raised is raised
    for kind in SIGNS:
        assert consequence(kind).startswith("So the distances of this group may be too large: ")
        assert consequence(kind, 2).startswith("So the distances of these groups may be too large: ")


@pytest.mark.parametrize(
    ("factor", "count", "raised"), [(0.89, 3, True), (0.89, 2, False), (0.91, 40, False), (2.0, 40, False)]
)
def test_another_attack_that_is_a_tenth_nearer_is_reported_above_a_twentieth_of_the_group(factor, count, raised):
    beside = base()
    beside[:count] *= factor
    found = settle(evidence(base(), base(), others=distances(beside)), SEX)
    assert found.verdict == SETTLED
    assert [alarm.kind for alarm in found["F"].raised] == (["another attack is nearer"] if raised else [])
    assert found["M"].raised == ()
    if raised:
        (sentence,) = found.alarm_sentences()
        assert sentence.startswith("Another attack is nearer")
        assert "“F”" in sentence
        assert "another attack audited beside this one found a misclassified input more than 10 % nearer" in str(found)
        assert sentence.endswith("so audit with that one or join both by +.")
    lost = np.where(np.arange(100) < 3, math.inf, base())
    for beside, nearer in ((base(), True), (lost, False)):
        kinds = {alarm.kind for alarm in settle(evidence(lost, lost, others=distances(beside)), SEX)["F"].raised}
        assert ("another attack is nearer" in kinds) is nearer


def test_a_row_without_a_number_for_every_budget_is_refused():
    content = settle(evidence(base(), base()), SEX).to_dict()
    content["groups"][0]["sigmas"].pop()
    with pytest.raises(InputError, match="every group has a number for each of 2 budgets"):
        Adequacy.from_json(json.dumps(content))
