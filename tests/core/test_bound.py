import operator
from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.bound import Bound

EXACT, UPPER, LOWER, NEITHER = Bound.EXACT, Bound.UPPER, Bound.LOWER, Bound.NEITHER
every = pytest.mark.parametrize("a", Bound)
every_pair = pytest.mark.parametrize(("a", "b"), list(product(Bound, repeat=2)))
law = settings(max_examples=100, deadline=None, derandomize=True)


@every
def test_negation_is_an_involution(a: Bound) -> None:
    assert operator.neg(-a) is a


def test_negation_swaps_upper_and_lower_only() -> None:
    assert [-a for a in (EXACT, UPPER, LOWER, NEITHER)] == [EXACT, LOWER, UPPER, NEITHER]


@every_pair
def test_addition_is_commutative(a: Bound, b: Bound) -> None:
    assert a + b is b + a


@pytest.mark.parametrize(("a", "b", "c"), list(product(Bound, repeat=3)))
def test_addition_is_associative_so_that_a_mean_has_one_direction(a: Bound, b: Bound, c: Bound) -> None:
    assert (a + b) + c is a + (b + c)


@every
def test_exact_is_neutral_for_sums(a: Bound) -> None:
    assert a + EXACT is a
    assert EXACT + a is a
    assert a - EXACT is a


@every
def test_exact_is_neutral_as_a_divisor(a: Bound) -> None:
    assert a / EXACT is a
    assert EXACT / a is -a


@every
def test_the_sum_of_equal_bounds_keeps_the_direction(a: Bound) -> None:
    assert a + a is a


@every
def test_neither_is_absorbing(a: Bound) -> None:
    assert {a + NEITHER, a - NEITHER, NEITHER - a, a / NEITHER, NEITHER / a} == {NEITHER}


def test_the_sum_of_opposite_bounds_is_neither() -> None:
    assert UPPER + LOWER is NEITHER


def test_the_difference_of_two_upper_bounds_is_neither() -> None:
    assert UPPER - UPPER is NEITHER
    assert LOWER - LOWER is NEITHER


def test_the_difference_of_an_upper_and_a_lower_bound_is_a_bound() -> None:
    assert UPPER - LOWER is UPPER
    assert LOWER - UPPER is LOWER


def test_quotients_of_positives_follow_the_rules() -> None:
    assert UPPER / LOWER is UPPER
    assert LOWER / UPPER is LOWER
    assert UPPER / UPPER is NEITHER
    assert LOWER / LOWER is NEITHER


@every
def test_only_an_exact_spread_has_a_direction(a: Bound) -> None:
    assert a.of_spread() is (EXACT if a is EXACT else NEITHER)


@every
def test_a_bound_is_parsed_from_its_value(a: Bound) -> None:
    assert Bound(a.value) is a


def test_every_bound_has_a_different_description() -> None:
    assert len({a.words for a in Bound}) == len(Bound)


# With numbers: whatever the algebra promises must hold for the truth. -------------------------------------------------


def estimate(truth: float, error: float, bound: Bound) -> float:
    """Return a positive estimate whose error has the direction of `bound`."""
    return {EXACT: truth, UPPER: truth * (1 + error), LOWER: truth / (1 + error)}[bound]


def holds(promise: Bound, estimated: float, truth: float) -> bool:
    slack = 1e-9 * (abs(estimated) + abs(truth) + 1)
    return {
        EXACT: abs(estimated - truth) <= slack,
        UPPER: estimated >= truth - slack,
        LOWER: estimated <= truth + slack,
        NEITHER: True,
    }[promise]


positive = st.floats(1e-3, 1e3)
errors = st.floats(0, 10)
directed = st.sampled_from([EXACT, UPPER, LOWER])


@law
@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.truediv])
@given(positive, positive, errors, errors, directed, directed)
def test_the_direction_holds_for_sums_differences_and_quotients(
    operation: Callable, x: float, y: float, error_x: float, error_y: float, a: Bound, b: Bound
) -> None:
    estimated = operation(estimate(x, error_x, a), estimate(y, error_y, b))
    assert holds(operation(a, b), estimated, operation(x, y))


@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.truediv])
def test_neither_is_returned_only_if_errors_of_both_signs_are_possible(operation: Callable) -> None:
    for a, b in product((EXACT, UPPER, LOWER), repeat=2):
        off = {
            round(operation(estimate(2, ex, a), estimate(3, ey, b)) - operation(2, 3), 9) > 0
            for ex, ey in ((0.0, 0.5), (0.5, 0.0))
            if operation(estimate(2, ex, a), estimate(3, ey, b)) != operation(2, 3)
        }
        assert (operation(a, b) is NEITHER) == (off == {True, False})


@law
@given(st.lists(st.tuples(positive, errors), min_size=1, max_size=6), directed, st.floats(1e-3, 1e3))
def test_means_and_caps_keep_the_direction(pairs: list[tuple[float, float]], bound: Bound, cap: float) -> None:
    truth = sum(min(x, cap) for x, _ in pairs) / len(pairs)
    estimated = sum(min(estimate(x, error, bound), cap) for x, error in pairs) / len(pairs)
    assert holds(bound, estimated, truth)


@law
@given(positive, positive, errors, errors)
def test_a_lower_and_an_upper_bound_bracket_sigma(own: float, rest: float, error_own: float, error_rest: float) -> None:
    low = estimate(own, error_own, LOWER) / estimate(rest, error_rest, UPPER) - 1
    high = estimate(own, error_own, UPPER) / estimate(rest, error_rest, LOWER) - 1
    assert low <= own / rest - 1 + 1e-9 * own / rest
    assert high >= own / rest - 1 - 1e-9 * own / rest
