import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.undefined import Undefined, reason_of
from fairmargin.inference.agreement import sign_agreement

law = settings(max_examples=60, deadline=None, derandomize=True)
numbers = st.one_of(st.floats(-2, 2), st.just(0.0), st.just(math.nan))
pairs_of_sigma = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=12)


def agreement(pairs):
    return sign_agreement({str(i): a for i, (a, _) in enumerate(pairs)}, {str(i): b for i, (_, b) in enumerate(pairs)})


def test_agreement_by_hand():
    found = sign_agreement({"a": -0.2, "b": 0.1, "c": 0.3, "d": 0.5}, {"d": 0.6, "a": -0.1, "b": -0.1, "c": 0.2})
    assert found.share == 0.75
    assert found.chance == pytest.approx(1 / 4 * 2 / 4 + 3 / 4 * 2 / 4)
    assert found.mean_difference == pytest.approx((-0.1 + 0.2 + 0.1 - 0.1) / 4)
    assert found.variance_of_difference == pytest.approx(np.var([-0.1, 0.2, 0.1, -0.1]))
    assert (found.groups, found.undefined) == (4, 0)


def test_agreement_on_signs_that_are_all_alike_is_what_chance_gives():
    found = agreement([(0.2, 0.3), (0.1, 0.4)])
    assert found.share == found.chance == 1.0


def test_zero_is_a_sign_of_its_own():
    assert agreement([(0.0, 0.0), (0.0, 0.1)]).share == 0.5


@law
@given(pairs_of_sigma)
def test_undefined_groups_are_counted_and_left_out(pairs):
    defined = [(a, b) for a, b in pairs if not math.isnan(a) and not math.isnan(b)]
    found = agreement(pairs)
    assert (found.groups, found.undefined) == (len(defined), len(pairs) - len(defined))
    if defined:
        assert found.share == pytest.approx(np.mean([np.sign(a) == np.sign(b) for a, b in defined]))
        assert 0 <= found.chance <= 1 + 1e-12
        assert replace(found, undefined=0) == agreement(defined)


def test_no_common_group_is_undefined_with_the_reason():
    found = agreement([(math.nan, 1.0), (1.0, Undefined("no rest"))])
    for value in (found.share, found.chance, found.mean_difference, found.variance_of_difference):
        assert reason_of(value) == "no group has both values"
    assert (found.groups, found.undefined) == (0, 2)
