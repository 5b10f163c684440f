"""Statements on groups from certificates of which a few may be false."""

import numpy as np
import pytest
from scipy import stats

from fairmargin.analyses.certified import certified_accuracy, certified_mean, false_certificates
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.errors import FairmarginError, InputError


def certified(values, bound=Bound.LOWER):
    values = np.asarray(values, dtype=float)
    return Distances(values, np.ones(len(values), bool), bound, Norm.L2, "smoothed(0.25)")


def groups(*sizes):
    return Partition.by("group", [f"g{i}" for i, size in enumerate(sizes) for _ in range(size)])


def test_so_many_certificates_are_false_at_most_and_one_less_would_be_too_few():
    for size, alpha, confidence in [(1, 0.001, 0.95), (100, 0.001, 0.95), (5_000, 0.01, 0.99), (30, 0.2, 0.5)]:
        most = false_certificates(size, alpha, confidence)
        assert stats.binom.cdf(most, size, alpha) >= confidence
        assert most == 0 or stats.binom.cdf(most - 1, size, alpha) < confidence
    assert false_certificates(1_000, 0.0, 0.95) == 0


def test_the_mean_is_lowered_by_the_largest_radius_for_each_false_certificate():
    radii = np.random.default_rng(0).uniform(0, 0.7, 300)
    found = certified_mean(certified(radii), groups(200, 100), alpha=0.001, confidence=0.95, largest=0.8)
    for label, own in (("g0", radii[:200]), ("g1", radii[200:])):
        most = stats.binom.ppf(0.95, len(own), 0.001)
        assert found[label].value == pytest.approx(own.mean())
        assert found[label].guaranteed == pytest.approx(own.mean() - 0.8 * most / len(own))
        assert (found[label].false, found[label].size) == (most, len(own))


def test_taking_off_the_largest_radii_themselves_is_never_looser():
    radii = np.random.default_rng(0).uniform(0, 0.7, 300)
    sharp = certified_mean(certified(radii), groups(300), alpha=0.01)["g0"]
    blunt = certified_mean(certified(radii), groups(300), alpha=0.01, largest=0.8)["g0"]
    assert sharp.guaranteed == pytest.approx((radii.sum() - np.sort(radii)[-sharp.false :].sum()) / 300)
    assert blunt.guaranteed < sharp.guaranteed < sharp.value


def test_bounds_that_never_fail_lose_nothing():
    proven = Distances([0.2, 0.4], [True, True], Bound.LOWER, Norm.L2)
    found = certified_mean(proven, groups(2), alpha=0.0)["g0"]
    assert found.guaranteed == found.value == pytest.approx(0.3)


def test_certificates_of_a_smoothed_model_may_be_false():
    with pytest.raises(InputError, match=r"Each certificate of smoothed\(0.25\) may be false"):
        certified_mean(certified([0.2, 0.4]), groups(2), alpha=0.0)


@pytest.mark.parametrize(
    ("given", "sentence"), [({"alpha": "x"}, "`alpha` must"), ({"alpha": 0.1, "confidence": "x"}, "`confidence` must")]
)
def test_words_where_numbers_belong_are_refused_in_a_sentence(given, sentence):
    with pytest.raises(InputError, match=sentence):
        certified_mean(certified([0.2, 0.4]), groups(2), **given)


def test_one_radius_where_several_are_meant_is_refused_in_a_sentence():
    with pytest.raises(InputError, match="`radii` must hold numbers"):
        certified_accuracy(certified([0.2, 0.4]), groups(2), 0.5, alpha=0.01)


def test_a_guarantee_is_never_below_0():
    assert certified_mean(certified([0.0, 0.01]), groups(2), alpha=0.4, largest=1.0)["g0"].guaranteed == 0


@pytest.mark.parametrize("largest", [None, 1.0])
def test_guarantees_hold_as_often_as_they_say_when_false_certificates_are_as_bad_as_can_be(largest):
    # Samples at the boundary whose certificate is 0, but with probability alpha as large as possible.
    rng, alpha, size, confidence = np.random.default_rng(3), 0.02, 60, 0.9
    kept = kept_shares = 0
    for _ in range(400):
        radii = certified(np.where(rng.random(size) < alpha, 1.0, 0.0))
        kept += (
            certified_mean(radii, groups(size), alpha=alpha, confidence=confidence, largest=largest)["g0"].guaranteed
            <= 1e-12
        )
        shares = certified_accuracy(radii, groups(size), [0.5, 1.0], alpha=alpha, confidence=confidence)["g0"]
        kept_shares += all(share.guaranteed == 0 for share in shares)
    assert kept >= 0.9 * 400 - 3 * np.sqrt(400 * 0.09)
    assert kept_shares == kept
    assert kept < 400  # they do fail now and then: the test has teeth


def test_certified_accuracy_is_the_share_at_least_so_far_and_counts_false_ones():
    found = certified_accuracy(certified([0.0, 0.5, 0.5, 1.0] * 25), groups(100), [0, 0.5, 0.6, 2], alpha=0.001)["g0"]
    assert [share.value for share in found] == [0.75, 0.75, 0.25, 0]
    assert [share.guaranteed for share in found] == [0.74, 0.74, 0.24, 0]
    assert [share.radius for share in found] == [0, 0.5, 0.6, 2]


def test_upper_bounds_and_neither_certify_nothing():
    for bound in (Bound.UPPER, Bound.NEITHER):
        with pytest.raises(InputError, match="only lower bounds"):
            certified_mean(certified([1.0], bound), groups(1), alpha=0.001)
        with pytest.raises(InputError, match="only lower bounds"):
            certified_accuracy(certified([1.0], bound), groups(1), [0.5], alpha=0.001)


def test_bad_settings_are_refused_with_a_sentence():
    radii = certified([0.5, 0.6])
    for settings, words in [
        ({"alpha": 0.5}, "`alpha`"),
        ({"alpha": -0.1}, "`alpha`"),
        ({"alpha": 0.1, "confidence": 1.0}, "`confidence`"),
        ({"alpha": 0.1, "largest": 0.55}, "`largest` must be the largest radius attainable; given 0.55"),
        ({"alpha": 0.1, "largest": float("nan")}, "`largest`"),
    ]:
        with pytest.raises(InputError, match=words):
            certified_mean(radii, groups(2), **settings)
    with pytest.raises(InputError, match="`radii`"):
        certified_accuracy(radii, groups(2), [-1.0], alpha=0.1)
    with pytest.raises(FairmarginError):
        certified_mean(radii, groups(3), alpha=0.1)
