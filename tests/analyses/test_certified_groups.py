"""What certificates guarantee of groups: counted and kept."""

import json

import numpy as np
import pytest

from fairmargin.analyses.certified import Certified, certify_groups, false_certificates
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError

RADII = (0.0, 0.25, 0.5)


def certified(names=("F", "M"), *, alpha=0.001, each=200):
    rng = np.random.default_rng(0)
    radii = np.concatenate([rng.uniform(0, 0.6 + 0.2 * i, each) for i in range(len(names))])
    radii[::10] = 0.0
    found = Distances(radii, radii > 0, Bound.LOWER, Norm.L2, "smoothed(0.25)" if alpha else "model")
    return certify_groups(found, Partition.by("sex", np.repeat(names, each)), RADII, alpha=alpha), radii.reshape(
        -1, each
    )


def test_all_groups_hold_together_and_the_best_certificates_are_given_up():
    found, radii = certified()
    for row, own in zip(found, radii, strict=True):
        false = false_certificates(200, 0.001, 0.975)  # half of the 5 % for each of two groups
        assert row.mean.false == false > false_certificates(200, 0.001, 0.5)
        assert row.mean.guaranteed == pytest.approx(np.sort(own)[: 200 - false].sum() / 200)
        for share in row.shares:
            hits = int(((own >= share.radius) & (own > 0)).sum())
            assert share.guaranteed == pytest.approx((hits - false) / 200)


def test_false_certificates_do_not_break_the_guarantee_more_often_than_allowed():
    rng, broken = np.random.default_rng(1), 0
    truth = np.full(300, 0.3)
    groups = Partition.by("group", np.repeat(["a", "b", "c"], 100))
    for _ in range(300):
        false = rng.random(300) < 0.02
        claimed = Distances(np.where(false, 0.8, truth), np.ones(300, dtype=bool), Bound.LOWER, Norm.L2, "smoothed(1)")
        found = certify_groups(claimed, groups, [0.5], alpha=0.02, confidence=0.8)
        broken += any(row.mean.guaranteed > 0.3 + 1e-9 or row.shares[0].guaranteed > 0 for row in found)
    assert 0 < broken <= 0.2 * 300 + 3 * np.sqrt(300 * 0.16)


def test_a_guarantee_comes_back_from_json_and_damage_is_said():
    found, _ = certified()
    assert Certified.from_json(found.to_json()) == found
    assert len(found.to_frame()) == 2 * len(RADII)
    for change in ({"groups": []}, {"radii": [0.0]}, {"norm": "l7"}, {"alpha": "many"}, {"format": 9}):
        with pytest.raises(InputError, match=r"damaged|format 9"):
            Certified.from_json(json.dumps(json.loads(found.to_json()) | change))
    with pytest.raises(InputError, match="no guarantee"):
        Certified.from_json("[]")
    with pytest.raises(InputError, match="no group 'X'"):
        found["X"]


def test_an_attack_guarantees_nothing():
    attack = Distances([1.0] * 4, [True] * 4, Bound.UPPER, Norm.L2)
    with pytest.raises(InputError, match="not certified"):
        certify_groups(attack, Partition.by("sex", list("FMFM")), RADII, alpha=0.001)


def test_the_sentences_name_the_least_and_count_the_false():
    found, _ = certified()
    assert found.headline.startswith("“F” is guaranteed a mean distance of 0.2")
    assert "At 95 % confidence, at most 1 is false in any group" in found.counting
    assert "at most 3 are false" in certified(alpha=0.005)[0].counting
    assert certified(alpha=0.0)[0].counting == "None of these certificates can be false."
    nothing = Distances([0.0] * 4, [False] * 4, Bound.LOWER, Norm.L2, "smoothed(1)")
    none = certify_groups(nothing, Partition.by("sex", list("FMFM")), RADII, alpha=0.001)
    assert none.headline == "For no group is any distance guaranteed."


def test_infinite_certified_distances_have_no_mean_and_are_refused():
    found = Distances([1.0, np.inf], [True, True], Bound.EXACT, Norm.L2)
    with pytest.raises(InputError, match="1 of 2 certified distances are infinite"):
        certify_groups(found, Partition.by("sex", ["F", "M"]), RADII, alpha=0.0)
