"""AdvERM before and after: what is compared, the verdicts both ways, and studies that can be planned."""

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
from fairmargin_papers.nanda2020 import networks as adverm_networks
from fairmargin_papers.nanda2020.gaps import Change, gap_of
from fairmargin_papers.nanda2020.networks import PART, narrowed, pictures, rows
from fairmargin_papers.nanda2020.paper import CLAIMS as PRINTED
from fairmargin_papers.nanda2020.studies import PLAIN, Setting, Target, settings
from fairmargin_papers.shared.claims import by_all, lettered
from fairmargin_papers.shared.paper import SCALES, Assignment, NotPossibleHereError

CLAIMS = {claim.number: claim for claim in PRINTED}
RADIUS = 1.2
GROUPS = Partition.by("class", ["truck"] * 40 + ["cat"] * 40 + ["ship"] * 40)


def distances(own, rest, seed):
    """Distances around given means, the first group's apart."""
    values = np.random.default_rng(seed).gamma(4, 1 / 4, 120) * np.where(np.arange(120) < 40, own, rest)
    return Distances(values, np.ones(120, dtype=bool), "upper", "l2")


def change(after, *, faces=False, role="truck", plain=2.0):
    setting = Setting("f", "CIFAR-10, small_cnn", faces, "class", RADIUS, (), {}, {}, "small_cnn", "plumb")
    before = tuple(distances(plain, 1.0, seed) for seed in range(3))
    later = tuple(distances(after, 1.0, seed + 10) for seed in range(3))
    gaps = (tuple(gap_of(each, GROUPS, "truck", RADIUS) for each in some) for some in (before, later))
    return Change(setting, Target(role, "truck", 0.1), *gaps, before, later, GROUPS)


def with_numbers(before, after):
    """A change whose (relative area, difference of shares at τ) are given for each seed."""
    made = change(1.0)
    gaps = [
        tuple(replace(gap, relative=area, bias=share) for gap, (area, share) in zip(made.before, numbers, strict=True))
        for numbers in (before, after)
    ]
    return replace(made, before=gaps[0], after=gaps[1])


def test_the_area_between_the_curves_is_that_of_two_step_functions():
    # By hand: I_P falls at 1 and 3, I_rest at 2 and 4; they differ by a half between 1 and 2, and between 3 and 4.
    found = Distances([1.0, 3.0, 2.0, 4.0], [True] * 4, "exact", "l2")
    gap = gap_of(found, Partition.by("g", ["a", "a", "b", "b"]), "a", 0.3)
    assert gap.between == pytest.approx(1.0)
    assert gap.relative == pytest.approx(1 / 3)
    assert gap.sigma == pytest.approx(2 / 3 - 1)


def test_curves_that_cross_have_a_gap_although_their_areas_are_the_same():
    found = Distances([1.0, 3.0, 2.0, 2.0], [True] * 4, "exact", "l2")
    gap = gap_of(found, Partition.by("g", ["a", "a", "b", "b"]), "a", 0.3)
    assert gap.sigma == pytest.approx(0.0)
    assert gap.between == pytest.approx(1.0)


def test_the_bias_at_the_radius_counts_correct_samples_only():
    # Beyond 0.3: one of two correct in "a", the only correct one in "b".
    found = Distances([0.2, 1.0, 0.0, 1.0], [True, True, False, True], "exact", "l2")
    gap = gap_of(found, Partition.by("g", ["a", "a", "b", "b"]), "a", 0.3)
    assert gap.bias == pytest.approx(0.5)


def test_the_relative_gap_does_not_shrink_when_all_distances_do():
    whole = distances(2.0, 1.0, 0)
    half = Distances(whole.values / 2, whole.correct, "upper", "l2")
    large, small = (gap_of(each, GROUPS, "truck", 0.3) for each in (whole, half))
    assert small.between == pytest.approx(large.between / 2)
    assert small.relative == pytest.approx(large.relative)


def test_samples_that_nothing_reached_are_capped_and_do_not_make_the_gap_infinite():
    found = Distances([1.0, math.inf, 2.0, 1.0], [True] * 4, "upper", "l2", tried=[1.0, 1.5, 2.0, 1.0])
    gap = gap_of(found, Partition.by("g", ["a", "a", "b", "b"]), "a", 0.3)
    assert gap.between == pytest.approx(0.0)  # beyond 1.5 nothing is known of everyone


def test_a_network_that_answers_one_thing_has_no_gap_and_decides_nothing():
    constant = Distances(np.where(np.arange(120) < 40, np.inf, 0.0), np.arange(120) < 40, "upper", "l2")
    gap = gap_of(constant, GROUPS, "truck", 0.3)
    assert math.isnan(gap.relative)
    assert gap.accuracy == pytest.approx(1 / 3)
    sound = change(1.0)
    collapsed = replace(sound, after=(gap, *sound.after[1:]))
    found = {row.name: row for row in rows(CLAIMS, [collapsed], {True: "no faces"})}
    assert found["1"].verdict == "undecided"
    assert "1 of 6 networks give one answer" in found["1"].ours
    assert found["6"].verdict == "undecided"


@pytest.mark.parametrize(
    ("plain", "after", "verdict"), [(2.0, 1.0, "holds"), (1.0, 2.0, "does not hold"), (2.0, 2.0, "undecided")]
)
def test_a_gap_is_narrower_wider_or_undecided(plain, after, verdict):
    found = change(after, plain=plain)
    assert narrowed(found) == verdict
    (row,) = [row for row in rows(CLAIMS, [found], {True: ""}) if row.number == 1]
    assert row.verdict == verdict
    assert row.interval == found.ratio("relative").interval


NARROW, SAME, WIDE = (0.25, 0.26, 0.24), (0.40, 0.45, 0.44), (0.80, 0.82, 0.81)
FEWER, MORE = (0.03, 0.031, 0.029), (0.12, 0.13, 0.118)


@pytest.mark.parametrize(
    ("areas", "shares", "verdict"),
    [
        (NARROW, FEWER, "holds"),
        (NARROW, MORE, "does not hold"),  # the area narrows, but at τ the groups differ more than before
        (NARROW, (0.06, 0.09, 0.05), "undecided"),
        (SAME, FEWER, "undecided"),
        (WIDE, FEWER, "does not hold"),
        (WIDE, (0.06, 0.09, 0.05), "does not hold"),
    ],
)
def test_a_gap_narrows_only_if_it_does_at_the_radius_and_over_the_curves(areas, shares, verdict):
    before = list(zip((0.41, 0.42, 0.43), (0.06, 0.065, 0.062), strict=True))
    found = with_numbers(before, list(zip(areas, shares, strict=True)))
    assert narrowed(found) == verdict
    (row,) = [row for row in rows(CLAIMS, [found], {True: ""}) if row.number == 1]
    assert row.verdict == verdict
    assert f"at τ = 1.2 the shares differ by 6.2 → {100 * np.mean(shares):.1f} points (" in row.ours


@pytest.mark.parametrize(
    ("after", "verdict"),
    [((0.802, 0.811, 0.823), "holds"), ((0.70, 0.71, 0.69), "does not hold"), ((0.75, 0.82, 0.85), "undecided")],
)
def test_accuracy_has_a_price_or_not(after, verdict):
    sound = change(1.0)
    before, later = (
        tuple(replace(gap, accuracy=share) for gap, share in zip(sound.before, shares, strict=True))
        for shares in ((0.80, 0.81, 0.82), after)
    )
    (row,) = [row for row in rows(CLAIMS, [replace(sound, before=before, after=later)], {True: ""}) if row.number == 3]
    assert row.verdict == verdict


def test_data_that_are_missing_leave_only_their_own_rows_untested():
    found = {row.name: row for row in lettered(rows(CLAIMS, [change(1.0), change(2.0)], {True: "no UTKFace here"}))}
    assert {row.number for row in found.values()} == PART.numbers
    assert [found[name].verdict for name in ("2", "4")] == ["not tested", "not tested"]
    assert found["2"].remark == "no UTKFace here"
    assert found["1a"].verdict == "holds"
    assert found["1b"].verdict == "undecided"
    assert found["6"].verdict == "undecided"


def test_the_trend_needs_every_model():
    assert by_all([]) == "undecided"
    (row,) = [row for row in rows(CLAIMS, [change(1.0), change(1.1)], {True: ""}) if row.number == 6]
    assert row.verdict == "holds"
    assert "2 of 2" in row.ours
    one_wider = [change(1.0), change(2.0, plain=1.0)]
    (row,) = [row for row in rows(CLAIMS, one_wider, {True: ""}) if row.number == 6]
    assert row.verdict == "does not hold"


def test_pictures_show_every_change_and_nothing_if_there_is_none():
    assert pictures([]) == ()
    drawn = {picture.name: picture.figure for picture in pictures([change(1.0), change(1.5, faces=True, role="Black")])}
    assert set(drawn) == {"adverm-objects", "adverm-faces", "adverm-gaps"}
    assert len(drawn["adverm-objects"].axes) == 2


@pytest.mark.parametrize("scale", SCALES)
def test_the_studies_of_every_scale_can_be_planned(scale):
    chosen = settings(scale)
    assert {target.role for setting in chosen for target in setting.targets} == {"truck", "cat", "Black"}
    assert len({setting.folder for setting in chosen}) == len(chosen)
    for setting in chosen:
        members = make_study(setting.sections).members
        assert {member.method for member in members} == {PLAIN, *(target.method for target in setting.targets)}
        protected = {make_method(member.train).group for member in members if member.method != PLAIN}
        assert protected == {target.group for target in setting.targets}
        assert {member.groups.group for member in members} == {(setting.partition,)}


def test_without_any_data_every_claim_is_untested_with_the_reason(tmp_path, monkeypatch):
    def absent(_assignment, _sections):
        raise NotPossibleHereError("the data are not here")

    monkeypatch.setattr(adverm_networks, "run_grid", absent)
    found = PART.run(Assignment("laptop", tmp_path, CLAIMS, silent))
    assert {claim.number for claim in found.claims} == PART.numbers
    assert {claim.remark for claim in found.claims} == {"the data are not here"}
    assert found.pictures == ()


def test_a_gap_is_compared_as_a_quotient_of_networks_of_one_seed():
    found = change(1.0)
    quotients = [b.relative / a.relative for a, b in zip(found.before, found.after, strict=True)]
    assert found.ratio("relative").mean == pytest.approx(np.prod(quotients) ** (1 / 3))
    low, high = found.ratio("relative").interval
    assert low * high == pytest.approx(found.ratio("relative").mean ** 2)  # as far down as up, in factors


def test_a_trend_is_of_one_group_with_one_weight_in_several_networks():
    strong = replace(change(2.0), target=Target("truck", "truck", 1.0))
    (row,) = [
        row for row in rows(CLAIMS, [change(1.0), strong, change(1.0, role="cat")], {True: ""}) if row.number == 6
    ]
    assert row.ours == "truck, α = 0.1: narrower on average in 1 of 1 networks"


def test_a_pretrained_network_starts_with_the_weights_of_imagenet(tmp_path, monkeypatch):
    def start(architecture, shape, classes, path):
        return tmp_path / f"{architecture} {shape} {classes} {path.name}"

    def load(name, *, root, split, size):
        return SimpleNamespace(x=np.zeros((1, 3, size or 32, size or 32)), class_names=("a", "b"))

    monkeypatch.setattr(adverm_networks, "start_from_imagenet", start)
    monkeypatch.setattr(adverm_networks, "load", load)
    given = Assignment("paper", tmp_path, CLAIMS, silent)
    models = {setting.folder: adverm_networks._started(given, setting)["model"] for setting in settings("paper")}
    assert models["cifar10-deep_cnn"]["deep_cnn"]["weights"] == ""
    weights = f"{tmp_path}/vgg19_bn (3, 200, 200) 2 vgg19_bn.safetensors"
    assert models["utkface-vgg19_bn"] == {"vgg19_bn": {"model": "arch:vgg19_bn", "weights": weights}}
