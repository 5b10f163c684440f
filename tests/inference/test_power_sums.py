"""Sums of powers are exact, and those of parts merge to those of the whole to the last bit."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.inference import power_sums
from fairmargin.inference.power_sums import ORDER, PowerSums
from fairmargin.inference.units import make_cells
from tests.inference.builders import cells_of, groups_of

law = settings(max_examples=150, deadline=None, derandomize=True)
# Powers up to the fourth are finite; numbers near 0 have subnormal powers.
numbers = st.floats(-1e70, 1e70, allow_subnormal=True)


def powers_of(values):
    found = [values]
    while len(found) < ORDER:
        found.append(found[-1] * values)
    return found


@law
@given(st.lists(numbers, max_size=40))
def test_sums_are_those_of_rational_arithmetic_rounded_once(listed):
    values = np.array(listed, dtype=np.float64)
    expected = [float(sum((Fraction(x) for x in power.tolist()), Fraction(0))) for power in powers_of(values)]
    assert PowerSums.of(values).rounded().tolist() == [len(values), *expected]


@law
@given(st.lists(numbers, max_size=40), st.lists(st.integers(0, 40), max_size=5), st.randoms())
def test_parts_in_any_order_merge_to_the_whole(listed, cuts, random):
    values = np.array(listed, dtype=np.float64)
    shuffled = list(listed)
    random.shuffle(shuffled)
    parts = np.split(np.array(shuffled, dtype=np.float64), sorted(min(cut, len(values)) for cut in cuts))
    random.shuffle(parts)
    merged = PowerSums.of(parts[0])
    for part in parts[1:]:
        merged = merged.merged(PowerSums.of(part))
    assert merged == PowerSums.of(values)


def test_sums_of_more_values_than_are_summed_at_once_are_exact(monkeypatch):
    monkeypatch.setattr(power_sums, "_AT_ONCE", 1_000)
    values = np.random.default_rng(0).lognormal(0, 3, 12_345)
    expected = [math.fsum(power) for power in powers_of(values)]
    assert PowerSums.of(values).rounded().tolist() == [12_345, *expected]


def test_a_full_block_of_the_largest_mantissas_is_exact():
    values = np.full(power_sums._AT_ONCE, np.nextafter(2.0, 0.0))
    assert PowerSums.of(values).sums[0] == int(Fraction(np.nextafter(2.0, 0.0)) * 2**1074) * len(values)


def test_no_values_have_sums_of_zero():
    assert PowerSums.of(np.array([])).rounded().tolist() == [0, 0, 0, 0, 0]


def test_the_sums_of_an_audit_are_those_of_its_chunks_on_any_machine():
    rng = np.random.default_rng(1)
    values, group = rng.lognormal(0, 2, 30_000), rng.integers(0, 3, 30_000)
    partition = groups_of(*np.bincount(group))
    cells = cells_of(np.concatenate([values[group == g] for g in range(3)]), partition)
    assert cells.powers is not None
    for g in range(3):
        merged = PowerSums.of(np.array([]))
        for chunk in np.array_split(np.arange(30_000), 7)[::-1]:
            merged = merged.merged(PowerSums.of(values[chunk][group[chunk] == g]))
        assert cells.powers[g].tolist() == merged.rounded().tolist()
        assert cells.moments()[g, 0].tolist() == [merged.count] * 2 + merged.rounded()[[1, 2, 1]].tolist() + [
            merged.count
        ]


@pytest.mark.parametrize("weighted", [True, False])
def test_clusters_and_weights_have_no_such_sums(weighted):
    values, partition = np.arange(1.0, 9.0), groups_of(4, 4)
    cluster = None if weighted else np.repeat(np.arange(4), 2)
    cells = make_cells(values, partition, None, cluster, np.linspace(0.5, 1.5, 8) if weighted else None)
    assert cells is not None
    assert cells.powers is None
