"""Numbers next to a wanted one, against all numbers that the rules allow."""

import numpy as np
import pytest

from fairmargin.core.column import TableColumn
from fairmargin.distances.on_tables.values import beyond, limits, within


def random_column(rng):
    """Return a column of numbers with random rules, in double precision."""
    return TableColumn(
        "a",
        "number",
        step=float(rng.choice([0, 1, 0.1, 0.25, 5])),
        low=float(rng.choice([-np.inf, -20, 0, 3])),
        high=float(rng.choice([np.inf, 20, 40.5])),
        direction=rng.choice(["up", "down", "both"]),
        allowed=np.round(rng.uniform(-30, 40, 12), 1) if rng.random() < 0.3 else None,
        gap=float(rng.choice([0, 0, 4.2, 7])),
    )


def every_allowed(column, before, wanted):
    """Return the numbers that the rules allow, all that matter next to the wanted one."""
    if column.allowed is not None:
        some = np.append(column.allowed, before)
    elif column.step:
        some = before + column.step * np.arange(-800, 801)
        some = np.where(np.round(before, 6) == before, np.round(some, 6), some)
    else:
        ends = [each for each in (column.low, column.high) if np.isfinite(each)]
        some = np.array([before, wanted, 0.0, column.gap, -column.gap, *ends])
    return some[column.allows(np.full(len(some), before), some)]


@pytest.mark.parametrize("seed", range(200))
def test_the_nearest_allowed_numbers_on_both_sides_are_found(seed):
    rng = np.random.default_rng(seed)
    column = random_column(rng)
    before, wanted = np.round(rng.uniform(-30, 45, 8), 1), np.round(rng.uniform(-30, 45, 8), 2)
    farther, nearer = beyond(column, before, wanted), within(column, before, wanted)
    for own, goal, far, near in zip(before, wanted, farther, nearer, strict=True):
        some, toward = every_allowed(column, own, goal), np.sign(goal - own)
        ahead, needed = toward * (some - own), toward * (goal - own)
        past = some[ahead >= needed - 1e-9]
        np.testing.assert_allclose(far, past[np.abs(past - own).argmin()] if len(past) else np.nan, atol=1e-9)
        short = some[(ahead >= 0) & (ahead <= needed + 1e-9)]
        np.testing.assert_allclose(near, short[np.abs(short - own).argmax()] if len(short) else own, atol=1e-9)


def test_a_column_in_single_precision_moves_by_its_steps_to_numbers_of_that_precision():
    column = TableColumn("a", "number", step=0.1, low=0, high=9, single=True)
    before = np.array([3.3, 5.7], dtype=np.float32).astype(float)
    found = beyond(column, before, before + np.array([0.25, -0.25]))
    np.testing.assert_allclose(found, [3.6, 5.4], rtol=2e-7)
    np.testing.assert_array_equal(found, found.astype(np.float32))
    assert column.allows(before, found).all()
    assert not column.allows(before, before + 0.05).any()


def test_missing_and_immutable_values_do_not_move():
    column, still = TableColumn("a", "number", low=0, high=9), TableColumn("b", "number", immutable=True)
    before, wanted = np.array([np.nan, 2.0]), np.array([5.0, np.nan])
    for found in (beyond(column, before, wanted), within(column, before, wanted)):
        np.testing.assert_array_equal(found, before)
    np.testing.assert_array_equal(limits(column, before), [[np.nan, 0.0], [np.nan, 9.0]])
    np.testing.assert_array_equal(limits(still, before), [before, before])
