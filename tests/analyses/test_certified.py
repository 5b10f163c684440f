"""Statements on groups from certificates of which a few may be false."""

import numpy as np
import pytest
from scipy import stats

from fairmargin.analyses.certified import certified_accuracy, certified_mean, certify_groups, false_certificates
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition

RADII = (0.0, 0.25, 0.5)


def certified(values, subject="smoothed(0.25)"):
    values = np.asarray(values, dtype=float)
    return Distances(values, np.ones(len(values), bool), Bound.LOWER, Norm.L2, subject)


def groups(*sizes, names="abc"):
    return Partition("group", list(names[: len(sizes)]), np.repeat(np.arange(len(sizes)), sizes))


def two_groups(names=("F", "M"), alpha=0.001):
    """Return the guarantees of groups of 200 radii, of which the first has the smallest, and the radii."""
    rng = np.random.default_rng(0)
    radii = np.concatenate([rng.uniform(0, 0.6 + 0.2 * i, 200) for i in range(len(names))])
    radii[::10] = 0.0
    found = certify_groups(
        certified(radii, "smoothed(0.25)" if alpha else "model"),
        groups(*[200] * len(names), names=names),
        RADII,
        alpha=alpha,
    )
    return found, radii.reshape(-1, 200)


@pytest.mark.parametrize(
    ("size", "alpha", "confidence"), [(1, 0.001, 0.95), (100, 0.001, 0.95), (5_000, 0.01, 0.99), (30, 0.2, 0.5)]
)
def test_the_number_of_false_certificates_is_the_smallest_that_is_large_enough(size, alpha, confidence):
    most = false_certificates(size, alpha, confidence)
    assert stats.binom.cdf(most, size, alpha) >= confidence
    assert most == 0 or stats.binom.cdf(most - 1, size, alpha) < confidence
    assert false_certificates(size, 0.0, confidence) == 0


def test_the_mean_is_lowered_by_the_largest_radius_for_each_false_certificate():
    radii = np.random.default_rng(0).uniform(0, 0.7, 300)
    found = certified_mean(certified(radii), groups(200, 100), alpha=0.001, confidence=0.95, largest=0.8)
    for label, own in (("a", radii[:200]), ("b", radii[200:])):
        most = stats.binom.ppf(0.95, len(own), 0.001)
        assert found[label].value == pytest.approx(own.mean())
        assert found[label].guaranteed == pytest.approx(own.mean() - 0.8 * most / len(own))
        assert (found[label].false, found[label].size) == (most, len(own))


def test_taking_off_the_largest_radii_themselves_is_never_looser():
    radii = np.random.default_rng(0).uniform(0, 0.7, 300)
    sharp = certified_mean(certified(radii), groups(300), alpha=0.01)["a"]
    blunt = certified_mean(certified(radii), groups(300), alpha=0.01, largest=0.8)["a"]
    assert sharp.guaranteed == pytest.approx((radii.sum() - np.sort(radii)[-sharp.false :].sum()) / 300)
    assert blunt.guaranteed < sharp.guaranteed < sharp.value


def test_bounds_that_never_fail_lose_nothing_and_no_guarantee_is_below_0():
    proven = certified_mean(certified([0.2, 0.4], "model"), groups(2), alpha=0.0)["a"]
    assert proven.guaranteed == proven.value == pytest.approx(0.3)
    assert certified_mean(certified([0.0, 0.01]), groups(2), alpha=0.4, largest=1.0)["a"].guaranteed == 0


@pytest.mark.parametrize("largest", [None, 1.0])
def test_guarantees_hold_as_often_as_they_say_when_false_certificates_are_as_bad_as_can_be(largest):
    # Samples at the boundary whose certificate is 0, but with probability alpha as large as possible.
    rng, alpha, size, confidence = np.random.default_rng(3), 0.02, 60, 0.9
    kept = kept_shares = 0
    for _ in range(400):
        radii = certified(np.where(rng.random(size) < alpha, 1.0, 0.0))
        mean = certified_mean(radii, groups(size), alpha=alpha, confidence=confidence, largest=largest)["a"]
        kept += mean.guaranteed <= 1e-12
        shares = certified_accuracy(radii, groups(size), [0.5, 1.0], alpha=alpha, confidence=confidence)["a"]
        kept_shares += all(share.guaranteed == 0 for share in shares)
    assert 0.9 * 400 - 3 * np.sqrt(400 * 0.09) <= kept == kept_shares < 400


def test_certified_accuracy_is_the_share_at_least_so_far_and_counts_false_ones():
    found = certified_accuracy(certified([0.0, 0.5, 0.5, 1.0] * 25), groups(100), [0, 0.5, 0.6, 2], alpha=0.001)["a"]
    assert [share.value for share in found] == [0.75, 0.75, 0.25, 0]
    assert [share.guaranteed for share in found] == [0.74, 0.74, 0.24, 0]
    assert [share.radius for share in found] == [0, 0.5, 0.6, 2]


def test_all_groups_hold_together_and_the_best_certificates_are_given_up():
    found, radii = two_groups()
    for row, own in zip(found, radii, strict=True):
        false = false_certificates(200, 0.001, 0.975)  # half of the 5 % for each of two groups
        assert row.mean.false == false > false_certificates(200, 0.001, 0.5)
        assert row.mean.guaranteed == pytest.approx(np.sort(own)[: 200 - false].sum() / 200)
        for share in row.shares:
            hits = int(((own >= share.radius) & (own > 0)).sum())
            assert share.guaranteed == pytest.approx((hits - false) / 200)


def test_false_certificates_do_not_break_the_guarantee_of_any_group_more_often_than_allowed():
    rng, broken = np.random.default_rng(1), 0
    for _ in range(300):
        claimed = certified(np.where(rng.random(300) < 0.02, 0.8, 0.3), "smoothed(1)")  # the truth is 0.3
        found = certify_groups(claimed, groups(100, 100, 100), [0.5], alpha=0.02, confidence=0.8)
        broken += any(row.mean.guaranteed > 0.3 + 1e-9 or row.shares[0].guaranteed > 0 for row in found)
    assert 0 < broken <= 0.2 * 300 + 3 * np.sqrt(300 * 0.16)


def test_the_sentences_name_the_least_and_count_the_false():
    found, _ = two_groups()
    assert found.headline.startswith("“F” is guaranteed a mean distance of 0.2")
    assert "At 95 % confidence, at most 1 is false in any group" in found.counting
    assert "at most 3 are false" in two_groups(alpha=0.005)[0].counting
    assert two_groups(alpha=0.0)[0].counting == "None of these certificates can be false."
    none = certify_groups(certified(np.zeros(4)), groups(2, 2), RADII, alpha=0.001)
    assert none.headline == "For no group is any distance guaranteed."
