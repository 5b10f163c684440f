"""Groups from 1,000 units on are described by their sums: their resamples, and tests without permutations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.analyses.audit import audit
from fairmargin.core.partition import Partition
from fairmargin.inference import bootstrap, contrast
from fairmargin.inference.bootstrap import resampled_moments, three_values
from fairmargin.inference.contrast import FirstTests
from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST
from fairmargin.inference.hall import Studentised
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.units import LARGE, TOTAL, TOTAL2, are_large, common_mix
from tests.inference.builders import cells_of, exact, groups_of
from tests.inference.test_simultaneous import random_case

law = settings(max_examples=100, deadline=None, derandomize=True)
QUICK = AuditSettings(resamples=200)


# Resamples of a large cell. ------------------------------------------------------------------------------------------


@law
@given(
    st.lists(st.just(0.0) | st.floats(0.01, 100), min_size=4, max_size=60),
    st.sampled_from([1e-20, 1.0, 1e20]),
)
def test_three_values_have_the_moments_of_the_samples_and_lie_among_them(numbers, unit):
    samples = np.sort(numbers) * unit
    values, shares = three_values(samples)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1)
    assert samples[0] <= values.min()
    assert values.max() <= samples[-1]
    for power in range(1, 5):
        assert shares @ values**power == pytest.approx(np.mean(samples**power), rel=1e-6)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [([2.0] * 5, [2.0]), ([0.0, 0.0, 0.0, 1.0], [0.0, 1.0]), ([0.0, 1.0, 3.0, 3.0], [0.0, 1.0, 3.0])],
)
def test_samples_with_at_most_three_values_are_drawn_from_these(samples, expected):
    values, shares = three_values(np.array(samples))
    assert values == pytest.approx(expected, abs=1e-9)
    assert shares == pytest.approx([np.mean(np.array(samples) == value) for value in expected])


def population(name, size):
    rng = np.random.default_rng(1)
    tails = {"gamma": rng.gamma(2, 1, size), "log-normal": rng.lognormal(0, 1, size), "Pareto": rng.pareto(3, size)}
    return tails[name] if name in tails else tails["log-normal"] * (rng.random(size) < 0.05)


@pytest.mark.parametrize("name", ["gamma", "log-normal", "Pareto", "95 % zeros"])
def test_sums_drawn_without_the_samples_are_distributed_as_those_of_drawn_samples(name, monkeypatch):
    cells = cells_of(population(name, LARGE), groups_of(LARGE))

    def deviations(seed):
        (moments,) = resampled_moments(cells, 20_000, seed)
        total, total2 = moments[:, 0, 0, TOTAL], moments[:, 0, 0, TOTAL2]
        mean = total / LARGE
        error = np.sqrt((total2 / LARGE - mean**2) / (LARGE - 1))
        return (mean - cells.total.mean()) / error

    from_sums = deviations(1)
    monkeypatch.setattr(bootstrap, "LARGE", LARGE + 1)
    from_samples, again = deviations(2), deviations(3)
    for level in (0.005, 0.025, 0.5, 0.975, 0.995):
        quantile, other = np.quantile(from_samples, level), np.quantile(again, level)
        # Quantiles of 20,000 draws have errors, which two draws of the samples show.
        assert np.quantile(from_sums, level) == pytest.approx(quantile, abs=0.1 + 3 * abs(quantile - other))


# Tests without permutations. -----------------------------------------------------------------------------------------


def log_ratios(*pairs):
    """Return studentised log ratios with these values and errors."""
    value, error = np.array(pairs, dtype=float).T
    none = np.zeros_like(value)
    return Studentised(value, error, none, none, np.full_like(value, 50.0))


def test_permutations_are_needed_only_where_they_can_make_a_significant_p_insignificant():
    significant, not_significant, undefined, exactly_different = (1.0, 0.1), (0.01, 0.1), (-np.inf, np.nan), (1.0, 0.0)
    pairs = (significant, not_significant, undefined, exactly_different)
    nothing = np.full(4, 0.001)
    small, large = (FirstTests.of(log_ratios(*pairs), nothing, np.full(4, side), 0.05) for side in (False, True))
    assert small.undecided.tolist() == [True, False, True, True]
    assert large.undecided.tolist() == [False, False, True, True]
    assert np.isnan(small.p).tolist() == [False, False, True, False]
    held_back = FirstTests.of(log_ratios(significant), np.array([0.07]), np.array([False]), 0.05)
    assert (held_back.p.tolist(), held_back.undecided.tolist()) == ([0.07], [False])


def test_the_largest_of_all_tests_counts_and_groups_without_a_test_have_no_p():
    first = FirstTests(np.array([0.01, 0.2, np.nan, 0.01]), np.ones(4, dtype=bool))
    found = first.with_permutations(np.array([0.03, np.nan, 0.5, 0.02]), np.array([True, True, True, False]))
    assert found.tolist()[:3] == [0.03, 0.2, 0.5]
    assert np.isnan(found[3])


def test_a_group_is_large_if_both_sides_are_in_every_stratum_that_counts():
    sizes = (LARGE, LARGE - 1, 2 * LARGE)

    def of(control=None, hypotheses=3):
        moments = cells_of(np.ones(sum(sizes)), groups_of(*sizes), control).moments()
        return are_large(moments, common_mix(moments).mix, hypotheses).tolist()

    assert of() == [True, False, True]
    assert of(hypotheses=LARGE // 10 + 1) == [False, False, True]  # many hypotheses are decided far in the tail
    few = Partition.by("few", np.arange(sum(sizes)) % 3 == 0)
    assert of(few) == [False] * 3
    alone = cells_of(np.ones(LARGE), groups_of(LARGE)).moments()
    assert are_large(alone, common_mix(alone).mix, 1).tolist() == [False]


def significant(result):
    return [row.group for row in result if row.verdict in (LESS_ROBUST, MORE_ROBUST)]


def test_leaving_out_permutations_that_can_change_nothing_changes_no_verdict(monkeypatch):
    cases = [random_case(seed) for seed in range(300, 380)]
    some = [audit(*case) for case in cases]
    of = FirstTests.of

    def all_undecided(log_ratio, bootstrapped, large, alpha):
        return FirstTests(of(log_ratio, bootstrapped, large, alpha).p, np.ones_like(large))

    monkeypatch.setattr(contrast.FirstTests, "of", staticmethod(all_undecided))
    for result, case in zip(some, cases, strict=True):
        everything = audit(*case)
        assert significant(result) == significant(everything)
        for row, other in zip(result, everything, strict=True):
            both = (row.p < case[2].alpha, other.p < case[2].alpha)
            assert both[0] == both[1], "not even before the correction"


def test_large_groups_that_differ_hardly_or_completely_have_verdicts_and_p_values():
    rng, size = np.random.default_rng(2), 3 * LARGE
    for factor, expected in ((0.9, ["g0", "g1"]), (1.0, [])):
        values = np.append(factor * rng.gamma(2, 1, size), rng.gamma(2, 1, size))
        assert significant(audit(exact(values), groups_of(size, size), QUICK)) == expected
    for other, verdict in ((0.0, MORE_ROBUST), (1e-9, MORE_ROBUST)):
        far = audit(exact(np.append(np.full(LARGE, other), 5 + rng.random(LARGE))), groups_of(LARGE, LARGE), QUICK)
        assert far["g1"].verdict == verdict
        assert 1e-12 <= far["g1"].p < 0.002
