"""Tran's claims about networks: verdicts on made-up numbers, and studies that can be planned at every scale."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.core.progress import silent
from fairmargin.core.radius import parse_radius
from fairmargin.study.study_file import make_study
from fairmargin_papers.shared.claims import lettered
from fairmargin_papers.shared.paper import SCALES, Assignment, NotPossibleHereError
from fairmargin_papers.tran import networks as tran_networks
from fairmargin_papers.tran import studies as tran_studies
from fairmargin_papers.tran.claims import sweep_numbers, sweep_rows
from fairmargin_papers.tran.figures import (
    along_weights_picture,
    boundary_errors_picture,
    group_loss_table,
    hardening_picture,
    pair_picture,
)
from fairmargin_papers.tran.hardening import Hardened, by_weight, hardening_rows
from fairmargin_papers.tran.networks import PART
from fairmargin_papers.tran.pair import CASES, NOISES, Pair, cases, pair_rows
from fairmargin_papers.tran.paper import CLAIMS as PRINTED
from fairmargin_papers.tran.studies import (
    CROSS_ENTROPY,
    GRIDS,
    GROUP_LOSS,
    RAMP,
    SWEEPS,
    following_sections,
    hardening_methods,
    penalised,
    starting_sections,
    sweep_methods,
)
from fairmargin_papers.tran.sweep import Curves, GroupNumbers, Sweep, collapsed

CLAIMS = {claim.number: claim for claim in PRINTED}
WEIGHTS = (0.0, 0.5, 1.0)
SEEDS = np.array([-0.001, 0.0, 0.001])[:, None]  # what three seeds differ by


def assigned(scale, folder):
    return Assignment(scale, folder, CLAIMS, silent)


def curves(*, natural=0.0, violation=0.0, margin=0.0, distance=0.0, boundary=0.0, base=0.3, gone=(), spread=0.01):
    """Curves that change by so much from λ = 0 to 1, along a line; all of them start at `base`."""

    def line(slope):
        return base + slope * np.array(WEIGHTS) + SEEDS * (1 + spread * np.array(WEIGHTS))

    lost = np.zeros((3, len(WEIGHTS)), dtype=np.bool_)
    lost[0, list(gone)] = True
    attacked = np.stack([line(boundary), 2 * line(boundary)], axis=2)
    return Curves(WEIGHTS, line(natural), line(violation), line(margin), line(distance), attacked, lost)


def column(of, at):
    return Curves(
        (0.0,),
        *(
            getattr(of, name)[:, [at]]
            for name in ("natural", "violation", "margin", "distance", "boundary", "collapsed")
        ),
    )


def swept(tmp_path, plain, ramp=None, group_loss=None):
    plan = SWEEPS["smoke"][0]
    losses = (CROSS_ENTROPY,) if ramp is None else (CROSS_ENTROPY, RAMP)
    subject = replace(plan.subject, weights=WEIGHTS, seeds=(0, 1, 2))
    plan = replace(plan, subject=subject, losses=losses)
    by_group = {penalised(CROSS_ENTROPY, weight): np.ones(2) for weight in WEIGHTS} | {GROUP_LOSS: np.ones(2)}
    found = {CROSS_ENTROPY: plain} | ({} if ramp is None else {RAMP: ramp})
    worst = column(plain, 0) if group_loss is None else group_loss
    return Sweep(plan, found, worst, GroupNumbers(("a", "b"), by_group, by_group), 10, 20, 5)


def verdicts(rows):
    return {row.name: row.verdict for row in lettered(rows)}


AS_PRINTED = {"natural": 0.2, "violation": -0.2, "margin": -0.2, "distance": -0.2, "boundary": 0.1}


@pytest.mark.parametrize(("sign", "verdict"), [(1, "holds"), (-1, "does not hold"), (0, "undecided")])
def test_every_claim_of_a_sweep_can_hold_and_fail(tmp_path, sign, verdict):
    plain = curves(**{name: sign * slope for name, slope in AS_PRINTED.items()})
    ramp = curves(spread=0.02) if sign else plain
    worst = replace(column(plain, 0), boundary=plain.boundary[:, [0]] + 0.05 * sign * (1 + SEEDS[:, :, None]))
    if not sign:  # the same on average, but not for every seed
        worst = replace(worst, boundary=worst.boundary + np.array([-0.01, 0.0, 0.01])[:, None, None])
    found = verdicts(sweep_rows(CLAIMS, swept(tmp_path, plain, ramp, worst)))
    assert set(found) == {"9", "10", "11a", "11b", "12a", "12b", "12c", "14a", "14b"}
    assert set(found.values()) == {verdict}


def test_a_change_is_told_from_the_first_to_the_last_penalty_in_points(tmp_path):
    rows = {row.name: row for row in lettered(sweep_rows(CLAIMS, swept(tmp_path, curves(**AS_PRINTED))))}
    assert rows["9"].interval == pytest.approx((20.0, 20.0), abs=0.01)
    assert "natural error 30.0 → 40.0 → 50.0 % at λ = 0, 0.5, 1" in rows["9"].ours
    assert "softmax margin 0.300 → 0.200 → 0.100" in rows["11a"].ours
    assert rows["11b"].printed == ""
    # λ = 1 at the second radius: twice 0.1.
    assert "at most +20.0 (λ = 1, ε = 0.1)" in rows["12a"].ours


def test_a_model_that_is_wrong_more_often_has_fewer_to_lose_and_the_rest_are_looked_at_too(tmp_path):
    plain = curves(natural=0.5, boundary=-0.1)  # right 70 → 20 %, flipped 30 → 20 %; twice at the second radius
    rows = {row.name: row for row in lettered(sweep_rows(CLAIMS, swept(tmp_path, plain)))}
    assert (rows["12a"].verdict, rows["12b"].verdict) == ("does not hold", "holds")
    assert "64.3 % flip at λ = 0" in rows["12b"].ours  # (30 % + 60 %) / 2 of 70 %
    assert rows["12b"].printed == ""


def test_a_figure_of_the_paper_is_named_only_for_data_that_it_shows(tmp_path):
    found = swept(tmp_path, curves(**AS_PRINTED), curves())
    for name, figures in (("utkface-race", "455"), ("cifar10", "4"), ("fashion-mnist", "")):
        subject = replace(found.plan.subject, name=name)
        rows = sweep_rows(CLAIMS, replace(found, plan=replace(found.plan, subject=subject)))
        printed = [next(row.printed for row in rows if row.number == number) for number in (9, 12, 14)]
        assert [text[text.find("Figure") + 7] for text in printed if "Figure" in text] == list(figures)


def test_a_penalty_at_which_a_network_collapsed_is_left_out_and_named(tmp_path):
    plain = curves(natural=0.2, gone=(2,))
    plain.natural[:, 2] = 0.0  # would turn the verdict round
    row = lettered(sweep_rows(CLAIMS, swept(tmp_path, plain)))[0]
    assert row.verdict == "holds"
    assert "at λ = 0, 0.5;" in row.ours
    assert row.remark == "Left out, collapsed: λ = 1 (1 of 3 seeds)."


@pytest.mark.parametrize("gone", [(0,), (1, 2), (0, 1, 2)])
def test_where_too_little_is_left_nothing_is_decided(tmp_path, gone):
    plain = curves(**AS_PRINTED, gone=gone)
    found = verdicts(sweep_rows(CLAIMS, swept(tmp_path, plain, curves(gone=(1, 2)))))
    assert {found[name] for name in ("12a", "12b", "14a", "14b")} == {"undecided"}
    if len(gone) > 1:
        assert {found[name] for name in ("9", "10", "11a", "11b")} == {"undecided"}


def test_one_answer_to_nearly_everything_is_a_collapse():
    classes, right = Partition.by("class", [0, 1] * 50), np.ones(100, dtype=bool)
    assert collapsed(np.array([1] * 96 + [0] * 4), right, classes)
    assert not collapsed(np.array([1] * 95 + [0] * 5), right, classes)


def test_a_network_that_is_right_hardly_more_often_than_by_chance_has_collapsed_too():
    """What is misclassified cannot be lost: its boundary error near 0 would pass for robustness."""
    classes, answers = Partition.by("class", [0] * 90 + [1] * 10), np.array([0, 1] * 50)
    for of_many, of_few, gone in ((0.5, 0.5, True), (0.9, 0.5, True), (0.9, 0.7, False)):  # 1.5 times guessing is 0.75
        right = np.concatenate([np.arange(90) < 90 * of_many, np.arange(10) < 10 * of_few])
        assert collapsed(answers, right, classes) == gone


def test_a_ramp_that_collapsed_is_named_where_it_is_left_out(tmp_path):
    rows = {row.name: row for row in lettered(sweep_rows(CLAIMS, swept(tmp_path, curves(), curves(gone=(2,)))))}
    assert rows["14a"].remark.endswith("Left out, collapsed: with ramp λ = 1 (1 of 3 seeds).")


def test_a_collapsed_network_is_crossed_out_and_does_not_squeeze_the_others(tmp_path):
    plain = curves(gone=(2,))
    plain.distance[0, 2] = 100.0  # of the seed that collapsed
    found = [swept(tmp_path, plain)]
    distance = along_weights_picture(found).axes[3]
    assert distance.get_ylim()[1] == pytest.approx(1.5 * plain.distance[1:].max())
    for axis in (distance, boundary_errors_picture(found).axes[0]):
        assert "_collapsed" in [line.get_label() for line in axis.lines]


def test_trainings_stand_side_by_side_in_a_table(tmp_path):
    table = group_loss_table([swept(tmp_path, curves(natural=0.2))])
    assert [row[1] for row in table.rows] == ["plain", "penalty λ = 1", "worst group’s loss"]
    assert all("±" in row[2] for row in table.rows)


def hardened(tmp_path, robust, natural, gone=()):
    """Two radii trained with, two λ; `robust` is by how much the robust error changes for each λ; `gone`, collapsed."""
    (plan,) = GRIDS["smoke"]
    plan = replace(plan, subject=replace(plan.subject, weights=(0.0, 1.0), seeds=(0, 1, 2)))
    seeds = np.array([-0.001, 0.0, 0.001])[:, None, None]
    steps = np.array([0.0, 1.0])[None, :, None]
    attacked = 0.5 + steps * np.array(robust)[None, None, :] * (1 + seeds)
    clean = 0.2 + steps * natural * np.ones((1, 1, 2)) * (1 + seeds)
    collapsed = np.zeros(clean.shape, dtype=bool)
    collapsed[0, 1, list(gone)] = True
    return Hardened(plan, clean, clean, np.stack([attacked, attacked], axis=3), collapsed, 10, 20)


@pytest.mark.parametrize(
    ("robust", "natural", "expected"),
    [
        ((-0.2, -0.1), 0.1, ["holds", "holds"]),
        ((-0.2, 0.1), 0.1, ["does not hold", "holds"]),  # for one λ it rises
        ((-0.2, -0.1), -0.1, ["holds", "does not hold"]),
        ((0.0, -0.1), 0.0, ["undecided", "undecided"]),
    ],
)
def test_robust_errors_must_fall_for_every_penalty(tmp_path, robust, natural, expected):
    found = hardened(tmp_path, robust, natural)
    assert [row.verdict for row in hardening_rows(CLAIMS, found)] == expected
    change = by_weight(found, found.robust.mean(axis=3))
    assert [round(each.mean, 6) for each in change.values()] == [100 * each for each in robust]


def test_a_penalty_at_which_a_hardened_network_collapsed_is_named_and_left_out(tmp_path):
    rows = hardening_rows(CLAIMS, hardened(tmp_path, (-0.2, 0.1), 0.1, gone=(1,)))
    assert [row.verdict for row in rows] == ["holds", "holds"]  # λ = 1, where errors rise, decides nothing
    assert all(row.remark.endswith("Left out, collapsed: λ = 1 (1 of 6 networks).") for row in rows)
    assert all("λ = 1" not in row.ours for row in rows)
    none = hardening_rows(CLAIMS, hardened(tmp_path, (-0.2, -0.1), 0.1, gone=(0, 1)))
    assert [(row.ours, row.verdict) for row in none] == [("networks collapsed", "undecided")] * 2


def shares(more):
    rows = np.array([[0.5, 0.2 + more, 0.2, 0.1 - more]] * 3)
    rows[:, 1] += [-0.001, 0.0, 0.001]
    return dict.fromkeys(NOISES, rows)


@pytest.mark.parametrize(("more", "verdict"), [(0.1, "holds"), (-0.1, "does not hold"), (0.0, "undecided")])
def test_the_pair_is_judged_by_how_often_either_model_flips_alone(more, verdict):
    rows = pair_rows(CLAIMS[16], Pair("faces", 1.0, "2/255", shares(more), None))
    assert [row.verdict for row in rows] == [verdict] * 3
    assert all(name in rows[0].ours for name in CASES)
    assert "was not found" in rows[0].remark


def test_the_four_cases_are_all_there_are():
    regular, fair = np.random.default_rng(0).random((2, 50)) < 0.4
    assert cases(regular, fair).sum() == pytest.approx(1.0)
    assert cases(regular, fair)[[1, 2]].tolist() == cases(fair, regular)[[2, 1]].tolist()


def test_pictures_are_drawn_without_an_example_and_without_ramp(tmp_path):
    plain = swept(tmp_path, curves(**AS_PRINTED, gone=(2,)))
    assert len(along_weights_picture([plain]).axes) == 4
    assert len(boundary_errors_picture([plain]).axes) == 2
    assert len(hardening_picture(hardened(tmp_path, (0.1, 0.2), 0.1)).axes) == 4
    assert len(pair_picture(Pair("faces", 1.0, "2/255", shares(0.1), None)).axes) == 4


@pytest.mark.parametrize("scale", SCALES)
def test_the_studies_of_every_scale_can_be_planned(scale):
    chosen, grids = SWEEPS[scale], GRIDS[scale]
    assert {number for plan in chosen for number in sweep_numbers(plan)} | {13} == PART.numbers
    both = [(p.subject, sweep_methods(p)) for p in chosen] + [(g.subject, hardening_methods(g)) for g in grids]
    for subject, methods in both:
        assert subject.weights[0] == 0
        assert all(one < other for one, other in pairwise(subject.weights))
        assert len(make_study(starting_sections(subject)).members) == len(subject.seeds)
        follows = make_study(following_sections(subject, methods, 1, "weights.safetensors")).members
        assert len(follows) == len(methods)
        for member in follows:
            assert member.model.weights == "weights.safetensors"
            assert [each.options.radius for each in member.measurements] == [tuple(map(parse_radius, subject.radii))]


def test_data_that_are_not_there_leave_their_own_rows_untested(tmp_path, monkeypatch):
    def missing(*_):
        raise NotPossibleHereError("no data here")

    monkeypatch.setattr(tran_studies, "run_grid", missing)
    found = tran_networks.run(assigned("laptop", tmp_path))
    assert {row.number for row in found.claims} == PART.numbers
    assert {(row.verdict, row.remark) for row in found.claims} == {("not tested", "no data here")}
    assert "UTKFace by race" in found.claims[0].text
    assert found.pictures == ()


def test_what_was_not_reached_counts_as_far_as_was_looked():
    from fairmargin_papers.tran.sweep import _values

    found = Distances([0.5, np.inf], [True, True], "upper", "l2", tried=[0.0, 3.0])
    assert _values(found).tolist() == [0.5, 3.0]


def test_one_seed_alone_decides_nothing(tmp_path):
    plain = curves(**AS_PRINTED)
    one = Curves(
        WEIGHTS,
        *(getattr(plain, n)[:1] for n in ("natural", "violation", "margin", "distance", "boundary", "collapsed")),
    )
    assert {row.verdict for row in sweep_rows(CLAIMS, swept(tmp_path, one))} == {"undecided"}
