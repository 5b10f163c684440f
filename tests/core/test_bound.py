import operator
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.bound import Bound

EXACT, UPPER, LOWER, NEITHER = Bound.EXACT, Bound.UPPER, Bound.LOWER, Bound.NEITHER
every = pytest.mark.parametrize("a", Bound)
law = settings(max_examples=100, deadline=None, derandomize=True)


def test_negation_swaps_upper_and_lower_only():
    assert [-a for a in (EXACT, UPPER, LOWER, NEITHER)] == [EXACT, LOWER, UPPER, NEITHER]


@pytest.mark.parametrize(("a", "b", "c"), list(product(Bound, repeat=3)))
def test_addition_is_commutative_and_associative_so_that_a_mean_has_one_direction(a, b, c):
    assert a + b is b + a
    assert (a + b) + c is a + (b + c)


@every
def test_exact_is_neutral_and_neither_is_absorbing(a):
    assert a + EXACT is EXACT + a is a - EXACT is a / EXACT is a + a is a
    assert EXACT / a is -a
    assert {a + NEITHER, a - NEITHER, NEITHER - a, a / NEITHER, NEITHER / a} == {NEITHER}


def test_differences_and_quotients_of_equal_directions_are_neither_and_of_opposite_ones_a_bound():
    for operation in (operator.sub, operator.truediv):
        assert operation(UPPER, UPPER) is operation(LOWER, LOWER) is UPPER + LOWER is NEITHER
        assert (operation(UPPER, LOWER), operation(LOWER, UPPER)) == (UPPER, LOWER)


@every
def test_only_an_exact_spread_has_a_direction(a):
    assert a.of_spread() is (EXACT if a is EXACT else NEITHER)


def test_every_bound_has_a_different_description():
    assert len({a.words for a in Bound}) == len(Bound)


# With numbers: the direction that the algebra promises must hold for the true values. --------------------------------


def estimate(truth, error, bound):
    """Return a positive estimate whose error has the direction of `bound`."""
    return {EXACT: truth, UPPER: truth * (1 + error), LOWER: truth / (1 + error)}[bound]


def holds(promise, estimated, truth):
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
def test_the_direction_holds_for_sums_differences_and_quotients(operation, x, y, error_x, error_y, a, b):
    estimated = operation(estimate(x, error_x, a), estimate(y, error_y, b))
    assert holds(operation(a, b), estimated, operation(x, y))


@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.truediv])
def test_neither_is_returned_only_if_errors_of_both_signs_are_possible(operation):
    for a, b in product((EXACT, UPPER, LOWER), repeat=2):
        off = {
            round(operation(estimate(2, ex, a), estimate(3, ey, b)) - operation(2, 3), 9) > 0
            for ex, ey in ((0.0, 0.5), (0.5, 0.0))
            if operation(estimate(2, ex, a), estimate(3, ey, b)) != operation(2, 3)
        }
        assert (operation(a, b) is NEITHER) == (off == {True, False})


@law
@given(st.lists(st.tuples(positive, errors), min_size=1, max_size=6), directed, st.floats(1e-3, 1e3))
def test_means_and_caps_keep_the_direction(pairs, bound, cap):
    truth = sum(min(x, cap) for x, _ in pairs) / len(pairs)
    estimated = sum(min(estimate(x, error, bound), cap) for x, error in pairs) / len(pairs)
    assert holds(bound, estimated, truth)
