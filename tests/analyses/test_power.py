"""What an audit can see, told before it is made, and kept when it is made."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.analyses.audit import audit
from fairmargin.analyses.power import Setting, power
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.core.undefined import reason_of
from fairmargin.inference.settings import AuditSettings


def exact(values) -> Distances:
    values = np.asarray(values, dtype=float)
    return Distances(values, values > 0, Bound.EXACT, Norm.L2)


def groups(*sizes: int) -> Partition:
    return Partition("g", [f"g{i}" for i in range(len(sizes))], np.repeat(np.arange(len(sizes)), sizes))


def pilot(*sizes: int, seed: int = 0) -> Distances:
    return exact(np.random.default_rng(seed).gamma(2, 1, sum(sizes)))


# The promise


@pytest.mark.parametrize(
    ("sizes", "draws"),
    [((60, 120), 100), pytest.param((60, 150, 200), 400, marks=pytest.mark.slow)],
    ids=["two groups", "three groups"],
)
def test_an_audit_finds_the_detectable_drop_as_often_as_promised(sizes, draws):
    """Three standard errors are allowed for on each side: 12 % with a hundred audits."""
    shape, found = 2.0, 0
    variation, tests = 1 / math.sqrt(shape), 1 if len(sizes) == 2 else len(sizes)
    drop = Setting(variation, variation, sum(sizes[1:]), tests, chance=0.8).smallest_drop(sizes[0])
    partition = groups(*sizes)
    mean = np.where(partition.membership == 0, 1 + drop, 1.0)
    for seed in range(draws):
        values = np.random.default_rng([seed, 3]).gamma(shape, mean / shape)
        result = audit(exact(values), partition, AuditSettings(resamples=200, seed=seed))
        found += result["g0"].verdict == "less robust"
    assert found / draws == pytest.approx(0.8, abs=3 * math.sqrt(0.8 * 0.2 / draws))


def test_samples_needed_and_smallest_drop_are_inverse():
    setting = Setting(variation=0.8, rest_variation=0.7, rest_size=2_000, tests=4)
    for size in (50, 200, 1_000):
        needed = setting.samples_needed(setting.smallest_drop(size))
        assert needed == pytest.approx(size, abs=1)


def test_a_pilot_and_a_plan_with_the_same_numbers_agree():
    distances, partition = pilot(100, 900), groups(100, 900)
    own, rest = distances.values[:100], distances.values[100:]
    variation, rest_variation = (v.std(ddof=1) / v.mean() for v in (own, rest))
    planned = Setting(variation, rest_variation, 900)
    found = power(distances, partition, sigma=-0.2)["g0"]
    assert found.smallest_drop == pytest.approx(planned.smallest_drop(100), rel=1e-3)
    assert found.samples_needed == pytest.approx(planned.samples_needed(-0.2), abs=1)
    assert (found.size, found.rest_size) == (100, 900)


def test_a_drop_and_the_gain_that_undoes_it_are_equally_hard_to_see():
    for row in power(pilot(50, 80, 400), groups(50, 80, 400)):
        assert -1 < row.smallest_drop < 0 < row.smallest_gain
        assert (1 + row.smallest_drop) * (1 + row.smallest_gain) == pytest.approx(1)


# Laws of what helps

settings_of = st.fixed_dictionaries(
    {
        "variation": st.floats(0.1, 3),
        "rest_variation": st.floats(0.1, 3),
        "rest_size": st.integers(10, 10_000),
        "tests": st.integers(1, 20),
        "confidence": st.floats(0.5, 0.999),
        "chance": st.floats(0.5, 0.99),
    }
)


@pytest.mark.parametrize(
    ("name", "change", "helps"),
    [
        ("variation", 1.5, False),
        ("rest_variation", 1.5, False),
        ("rest_size", 2, True),
        ("tests", 2, False),
        ("confidence", 0.5, False),
        ("chance", 0.5, False),
    ],
)
@given(given_=settings_of, size=st.integers(2, 10_000))
@settings(max_examples=40, deadline=None)
def test_more_helps_or_harms_as_one_expects(name, change, helps, given_, size):
    value = given_[name]
    changed = 1 - (1 - value) * change if name in ("confidence", "chance") else value * change
    before, after = Setting(**given_), Setting(**given_ | {name: changed})
    if helps:
        assert after.smallest_drop(size) >= before.smallest_drop(size)
    else:
        assert after.smallest_drop(size) <= before.smallest_drop(size)
    needed, then = before.samples_needed(-0.5), after.samples_needed(-0.5)
    if not math.isnan(needed) and not math.isnan(then):
        assert then <= needed if helps else then >= needed


@given(given_=settings_of, size=st.integers(2, 5_000))
@settings(max_examples=40, deadline=None)
def test_more_samples_see_smaller_effects_and_larger_effects_need_fewer(given_, size):
    setting = Setting(**given_)
    assert setting.smallest_drop(2 * size) > setting.smallest_drop(size)
    large, small = setting.samples_needed(-0.6), setting.samples_needed(-0.3)
    if not math.isnan(small):
        assert large <= small


def test_clusters_of_copies_see_no_more_than_their_originals():
    values = np.random.default_rng(4).gamma(2, 1, 300)
    twice = np.repeat(np.arange(300), 2)
    alone = power(exact(values), groups(100, 200))["g0"]
    clustered = power(exact(values[twice]), groups(100, 200).take(twice), AuditSettings(cluster=twice))["g0"]
    assert clustered.smallest_drop == pytest.approx(alone.smallest_drop, rel=1e-6)
    assert clustered.samples_needed == pytest.approx(2 * alone.samples_needed)
    assert clustered.size == 200


def test_a_cap_is_kept():
    values = np.random.default_rng(5).gamma(2, 1, 300)
    capped = power(exact(np.minimum(values, 1.0)), groups(100, 200))["g0"]
    assert power(exact(values), groups(100, 200), AuditSettings(up_to=1.0))["g0"] == capped


def test_the_confidence_is_shared_between_the_groups_that_are_tested():
    one_of_four = Setting(0.8, 0.7, 2_000, tests=4, confidence=0.96)
    assert one_of_four.smallest_drop(100) == pytest.approx(Setting(0.8, 0.7, 2_000, confidence=0.99).smallest_drop(100))


@pytest.mark.parametrize(
    ("values", "sizes", "reason"),
    [
        (np.repeat([0.0, 1.0, 2.0], 50), (50, 100), "mean distance of 0"),
        (np.arange(101), (1, 100), "no spread"),
        (np.arange(100), (100,), "no sample outside"),
    ],
)
def test_what_does_not_exist_has_a_reason_instead_of_a_number(values, sizes, reason):
    found = power(exact(values), groups(*sizes))["g0"]
    assert math.isnan(found.smallest_gain)
    assert reason in reason_of(found.smallest_drop)


def test_a_rest_too_small_for_the_effect_is_said_to_be_so():
    reason = "the rest (20 samples) is too small to detect σ = −5.0 % at any size"
    assert reason_of(Setting(0.7, 0.7, rest_size=20).samples_needed(-0.05)) == reason
    assert reason_of(power(pilot(100, 20), groups(100, 20), sigma=-0.05)["g0"].samples_needed) == reason
