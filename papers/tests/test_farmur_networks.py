"""FARMUR's table: its numbers, the verdicts both ways, what is missing, and studies that can be planned."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.core.progress import silent
from fairmargin.runner.trainer import make_method
from fairmargin.study.study_file import make_study
from fairmargin_papers.farmur import networks as farmur_networks
from fairmargin_papers.farmur.claims import Given, accuracy_rows, change_rows, find_given, given_rows, weight_files
from fairmargin_papers.farmur.cost import cost_ratios, cost_row
from fairmargin_papers.farmur.estimators import estimator_rows, seen
from fairmargin_papers.farmur.figures import trainings_table
from fairmargin_papers.farmur.measures import measured, paired_change, trio
from fairmargin_papers.farmur.networks import PART
from fairmargin_papers.farmur.paper import CLAIMS as PRINTED
from fairmargin_papers.farmur.studies import ADVERSARIAL, FAIR, METHODS, NATURAL, TABLE, settings
from fairmargin_papers.shared.claims import lettered
from fairmargin_papers.shared.paper import SCALES, Assignment, NotPossibleHereError
from tests.oracles import overall_robustness, robustness_variance

CLAIMS = {claim.number: claim for claim in PRINTED}
SIZE = 200
GROUPS = Partition.by("class", np.repeat(["a", "b", "c", "d"], SIZE))
SETTINGS = {setting.row: setting for setting in settings("laptop")}


def distances(means, seed):
    """Distances whose groups have about these means."""
    values = np.random.default_rng(seed).gamma(100, 1 / 100, 4 * SIZE) * np.repeat(means, SIZE)
    return Distances(values, np.ones(4 * SIZE, dtype=bool), "upper", "l2")


def three(row, natural, adversarial, fair):
    """A setting's networks with these means by group, three seeds."""
    means = dict(zip(METHODS, (natural, adversarial, fair), strict=True))
    found = {
        method: [distances(means[method], 7 * seed + place) for seed in range(3)]
        for place, method in enumerate(METHODS)
    }
    return trio(SETTINGS[row], GROUPS, found)


AS_PRINTED = three("lenet", [0.5, 0.65, 0.85, 1.0], [1.6, 1.9, 2.1, 2.4], [1.9, 1.95, 2.0, 2.05])
CONTRARY = three("cifar10", [1.0, 1.3, 1.6, 1.9], [0.6, 0.6, 0.62, 1.4], [0.1, 0.2, 0.9, 1.9])


def by_name(found):
    return {row.name: row for row in lettered(found)}


def changes(*trios):
    return by_name(change_rows(CLAIMS, trios, {}))


def test_the_variance_is_freed_of_what_sampling_adds():
    exact = distances([1.0, 1.0, 1.0, 1.0], 1)
    plain = robustness_variance(exact, GROUPS)
    assert 0 <= measured(exact, GROUPS).variance < plain
    apart = distances([1.0, 2.0, 3.0, 4.0], 1)
    found = measured(apart, GROUPS)
    assert found.variance == pytest.approx(robustness_variance(apart, GROUPS), rel=0.01)
    assert found.robustness == pytest.approx(overall_robustness(apart, GROUPS))
    assert found.relative == pytest.approx(found.variance / found.robustness**2)


def test_a_network_that_answers_one_thing_has_no_robustness_and_decides_nothing():
    constant = Distances(np.where(np.arange(4 * SIZE) < SIZE, np.inf, 0.0), np.arange(4 * SIZE) < SIZE, "upper", "l2")
    assert math.isnan(measured(constant, GROUPS).robustness)
    some = {method: [constant] * 3 for method in METHODS}
    for row in changes(trio(SETTINGS["lenet"], GROUPS, some)).values():
        assert row.verdict == "undecided"
        assert row.interval is None
        assert "one answer" in row.ours


def test_rows_hold_where_networks_do_as_printed():
    found = changes(AS_PRINTED)
    assert {name: row.verdict for name, row in found.items()} == dict.fromkeys("12345", "holds")
    assert [row.printed for row in found.values()] == [
        "0.79 → 1.26",
        "0.014 → 0.019 (1.36×)",
        "not printed; from its table 0.0224 → 0.012 (0.53×)",
        "none in the text; from its table −52.6%",
        "−1.6%",
    ]


def test_rows_do_not_hold_where_networks_do_the_contrary():
    found = changes(CONTRARY)
    assert [found[name].verdict for name in "134"] == ["does not hold"] * 3
    assert found["5"].verdict == "holds"  # Rob(f) did not drop
    dropped = three("alexnet", [1.0, 1.1, 1.2, 1.3], [1.0, 1.1, 1.2, 1.3], [0.5, 0.6, 0.6, 0.7])
    rows = changes(dropped)
    assert rows["5"].verdict == "does not hold"
    assert "29.17 % is against natural" in rows["4"].remark


def test_the_printed_gains_of_the_text_stand_beside_those_of_the_table():
    found = changes(*(three(row, *[[1.0, 2.0, 3.0, 4.0]] * 3) for row in TABLE))
    assert found["4b"].printed == "−29.17 %; from its table −51.4%"
    assert found["4c"].printed == "−15.39 %; from its table −45.0%"
    assert found["4d"].printed == "−19.18 %"


def accurate(row, *shares):
    """A setting's networks with about these accuracies."""
    networks = {
        method: tuple(replace(AS_PRINTED.networks[method][0], accuracy=share + place * seed / 1e4) for seed in range(3))
        for place, (method, share) in enumerate(zip(METHODS, shares, strict=True))
    }
    return replace(AS_PRINTED, setting=SETTINGS[row], networks=networks)


def test_accuracies_are_compared_as_differences():
    found = by_name(accuracy_rows(CLAIMS, [accurate(row, 0.9, 0.9, 0.9) for row in TABLE]))
    assert set(found) == {"6a", "6b", "6c", "6d", "7a", "7b", "8a", "8b"}
    assert [found[name].verdict for name in ("6a", "6d", "7a", "8b")] == ["holds"] * 4
    assert found["7b"].verdict == found["8a"].verdict == "does not hold"
    assert "implausible" in found["7a"].remark
    assert by_name(accuracy_rows(CLAIMS, [accurate("lenet", 0.9, 0.8, 0.8)]))["6a"].verdict == "does not hold"


@pytest.mark.parametrize("of", ["robustness", "variance", "relative"])
def test_the_interval_of_two_networks_agrees_with_drawing_samples_anew(of):
    before, after = distances([1.0, 1.5, 2.0, 3.0], 3), distances([2.0, 2.0, 3.0, 6.0], 4)
    found = paired_change(before, after, GROUPS, of)
    random, drawn = np.random.default_rng(0), []
    for _ in range(400):
        which = np.concatenate([random.integers(0, SIZE, SIZE) + SIZE * group for group in range(4)])
        one, two = (measured(each.take(which), GROUPS) for each in (before, after))
        drawn.append(getattr(two, of) - getattr(one, of))
    assert found.high - found.low == pytest.approx(2 * 1.96 * np.std(drawn), rel=0.15)
    assert found.low < found.mean < found.high


@pytest.mark.parametrize("of", ["accuracy", "robustness", "variance", "relative"])
def test_seeds_that_agree_by_accident_do_not_hide_what_drawing_other_samples_would_change(of):
    means = dict(zip(METHODS, ([1.0, 1.5, 2.0, 3.0], [2.0, 2.0, 3.0, 6.0], [2.0, 2.0, 3.0, 5.0]), strict=True))
    found = {method: _three_alike(means[method], place) for place, method in enumerate(METHODS)}
    whole = trio(SETTINGS["cifar10"], GROUPS, found)
    random, drawn = np.random.default_rng(0), []
    for _ in range(300):
        which = np.concatenate([random.integers(0, SIZE, SIZE) + SIZE * group for group in range(4)])
        drawn.append(
            np.mean([
                getattr(measured(late.take(which), GROUPS), of) - getattr(measured(early.take(which), GROUPS), of)
                for early, late in zip(found["natural"], found["adversarial"], strict=True)
            ])
        )  # fmt: skip
    change = whole.change("natural", "adversarial", of)
    assert change.high - change.low == pytest.approx(2 * 1.96 * np.std(drawn), rel=0.2)
    share = whole.relative_change("natural", "adversarial", of)
    assert share.low < share.mean < share.high


def _three_alike(means, number):
    """Three networks of one training that differ by next to nothing; a fifth of the samples is misclassified."""
    one, found = distances(means, number), []
    right = np.random.default_rng(number + 50).random(len(one)) < 0.8
    for seed in range(3):
        correct = right.copy()
        correct[np.flatnonzero(right)[: seed * number]] = False
        values = one.values * (1 + 1e-6 * seed * number)
        found.append(Distances(np.where(correct, values, 0.0), correct, "upper", "l2"))
    return found


def test_the_networks_of_others_give_three_rows_both_ways():
    weak, strong = distances([1.0, 1.3, 1.6, 2.0], 1), distances([3.0, 3.3, 3.6, 3.9], 2)
    found = by_name(given_rows(CLAIMS, Given(weak, strong, strong, GROUPS)))
    assert [found[name].verdict for name in "13"] == ["holds", "holds"]
    found = by_name(given_rows(CLAIMS, Given(strong, weak, weak, GROUPS)))
    assert [found[name].verdict for name in "13"] == ["does not hold", "does not hold"]
    missing = given_rows(CLAIMS, "they are not here")
    assert {(row.verdict, row.remark) for row in missing} == {("not tested", "they are not here")}


def test_weights_are_looked_for_beside_the_data(tmp_path):
    data, weights = tmp_path / "data", tmp_path / "weights"
    data.mkdir()
    with pytest.raises(NotPossibleHereError, match=r"no mnist-lenet5madry-clean\.pt"):
        weight_files(data)
    weights.mkdir()
    for name in ("clean", "adversarial"):
        (weights / f"mnist-lenet5madry-{name}.pt").write_bytes(b"")
    assert set(weight_files(data)) == {"clean", "adversarial"}
    with pytest.raises(NotPossibleHereError, match="give --root"):
        weight_files(None)
    with pytest.raises(NotPossibleHereError, match="smoke"):
        find_given(Assignment("smoke", tmp_path, CLAIMS, silent))


def views(scale):
    """Networks on which Eq. 8 says `scale` times the distance."""
    means, found = [1.0, 1.5, 2.0, 3.0], []
    for seed in range(3):
        for method in METHODS:
            base = distances(means, seed)
            looser = Distances(base.values * (1.02 + seed / 1e3), base.correct, "upper", "l2")
            eighth = Distances(base.values * (scale + seed / 1e4), base.correct, "neither", "l2")
            names = SETTINGS["lenet"].estimators
            by = dict(zip(names, (base, looser, looser, eighth), strict=True))
            found.append(seen(method, seed, by, GROUPS))
    return tuple(found)


def test_an_estimator_that_says_half_of_the_distance_says_a_quarter_of_the_variance():
    found = by_name(estimator_rows(CLAIMS[9], views(0.5), SETTINGS["lenet"]))
    assert [found[name].verdict for name in ("9b", "9d")] == ["holds", "does not hold"]
    assert "V_f 0.250 ± 0.000 times" in found["9d"].ours
    assert found["9e"].chance == pytest.approx(0.5)
    assert "for 100.0% of groups" in found["9e"].ours  # half of every distance leaves the order of groups
    assert by_name(estimator_rows(CLAIMS[9], views(1.0), SETTINGS["lenet"]))["9d"].verdict == "holds"


def test_estimators_of_a_collapsed_network_decide_nothing():
    constant = Distances(np.where(np.arange(4 * SIZE) < SIZE, np.inf, 0.0), np.arange(4 * SIZE) < SIZE, "upper", "l2")
    by = dict.fromkeys(SETTINGS["lenet"].estimators, constant)
    found = estimator_rows(CLAIMS[9], (*views(1.0), seen(FAIR, 2, by, GROUPS)), SETTINGS["lenet"])
    assert {row.verdict for row in found} == {"undecided"}
    assert {row.interval for row in found} == {None}


@pytest.mark.parametrize(("ratios", "verdict"), [([1.4, 1.5, 1.6], "holds"), ([0.1, 0.2, 0.15], "does not hold")])
def test_finding_takes_longer_or_not(ratios, verdict):
    assert cost_row(CLAIMS[12], ratios, SETTINGS["utkface"], 400).verdict == verdict


def test_times_that_were_taken_once_are_not_taken_again(tmp_path):
    jobs = [SimpleNamespace(job=SimpleNamespace(key=key)) for key in "ab"]
    networks = tuple(SimpleNamespace(method=ADVERSARIAL, prepared=job) for job in jobs)
    grid = SimpleNamespace(folder=SimpleNamespace(path=tmp_path), networks=lambda: networks, samples={})
    assignment = Assignment("smoke", tmp_path, CLAIMS, silent)
    (tmp_path / "seconds.json").write_text(json.dumps({"of": ["a", "b", "10"], "ratios": [0.5, 0.25]}))
    assert cost_ratios(assignment, grid, 10) == [0.5, 0.25]
    with pytest.raises(AttributeError):  # for other samples they are taken again, which these networks cannot
        cost_ratios(assignment, grid, 11)


def test_the_table_has_a_row_for_every_training_with_the_printed_numbers():
    table = trainings_table([AS_PRINTED, CONTRARY])
    assert [row[1] for row in table.rows] == 2 * list(METHODS)
    natural = dict(zip(table.columns, table.rows[0], strict=True))
    assert natural["accuracy %"] == "100.0"
    assert natural["Rob(f)"].startswith("0.7")
    assert table.rows[0][3::2] == ("99.08", "0.79", "0.014", "0.0224")


def test_a_network_that_answers_one_thing_is_named_so_in_the_table():
    stuck = Distances(np.full(4 * SIZE, np.inf), np.ones(4 * SIZE, dtype=bool), "upper", "l2", tried=np.ones(4 * SIZE))
    found = {method: [stuck] * 3 for method in METHODS}
    assert trainings_table([trio(SETTINGS["lenet"], GROUPS, found)]).rows[0][4] == "one answer for all"


@pytest.mark.parametrize("scale", SCALES)
def test_the_studies_of_every_scale_can_be_planned(scale):
    chosen = settings(scale)
    assert tuple(setting.row for setting in chosen) == tuple(TABLE)
    for setting in chosen:
        members = make_study(setting.sections).members
        assert {member.method for member in members} == {NATURAL, ADVERSARIAL, FAIR}
        attacked = [make_method(member.train) for member in members if member.method != NATURAL]
        assert {(method.radius, method.beta) for method in attacked} == {(0.031, 6.0)}


def test_data_that_are_missing_leave_only_their_own_rows_untested():
    missing = {"cifar10": "no CIFAR here", "alexnet": "no AlexNet here"}
    there = [*change_rows(CLAIMS, [AS_PRINTED], missing), *accuracy_rows(CLAIMS, [AS_PRINTED])]
    found = by_name([*there, *farmur_networks.untested(CLAIMS, there, missing)])
    untested = {name: row.remark for name, row in found.items() if row.verdict == "not tested"}
    lines = {"b": "no AlexNet here", "c": "no CIFAR here"}  # in the order of the printed table
    expected = {f"{number}{letter}": reason for number in range(1, 6) for letter, reason in lines.items()}
    assert untested == expected | {"7": "no CIFAR here"}  # claim 6 was tested with MNIST's other network


def test_without_any_data_every_claim_is_untested_with_the_reason(tmp_path, monkeypatch):
    def absent(_assignment, _sections):
        raise NotPossibleHereError("the data are not here")

    monkeypatch.setattr(farmur_networks, "run_grid", absent)
    found = PART.run(Assignment("laptop", tmp_path, CLAIMS, silent))
    assert {claim.number for claim in found.claims} == PART.numbers
    assert {claim.verdict for claim in found.claims} == {"not tested"}
    assert found.pictures == ()
