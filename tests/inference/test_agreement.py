import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.undefined import Undefined, reason_of
from fairmargin.errors import InputError
from fairmargin.inference.measures import sign_agreement

law = settings(max_examples=60, deadline=None, derandomize=True)
numbers = st.one_of(st.floats(-2, 2), st.just(0.0), st.just(math.nan))
pairs_of_sigma = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=12)


def read(pairs: list[tuple[float, float]]) -> tuple[dict[str, float], dict[str, float]]:
    return {str(i): a for i, (a, _) in enumerate(pairs)}, {str(i): b for i, (_, b) in enumerate(pairs)}


def test_agreement_by_hand() -> None:
    found = sign_agreement({"a": -0.2, "b": 0.1, "c": 0.3, "d": 0.5}, {"a": -0.1, "b": -0.1, "c": 0.2, "d": 0.6})
    assert found.share == 0.75
    assert found.chance == pytest.approx(1 / 4 * 2 / 4 + 3 / 4 * 2 / 4)
    assert found.mean_difference == pytest.approx((-0.1 + 0.2 + 0.1 - 0.1) / 4)
    assert found.variance_of_difference == pytest.approx(np.var([-0.1, 0.2, 0.1, -0.1]))
    assert (found.groups, found.undefined) == (4, 0)


def test_an_estimator_agrees_with_itself() -> None:
    found = sign_agreement({"a": -0.2, "b": 0.1}, {"b": 0.1, "a": -0.2})
    assert (found.share, found.mean_difference, found.variance_of_difference) == (1.0, 0.0, 0.0)


def test_groups_are_matched_by_name_and_not_by_order() -> None:
    assert sign_agreement({"a": -1, "b": 1}, {"b": 1, "a": -1}).share == 1.0


def test_agreement_on_signs_that_are_all_alike_is_what_chance_gives() -> None:
    found = sign_agreement({"a": 0.2, "b": 0.1}, {"a": 0.3, "b": 0.4})
    assert found.share == found.chance == 1.0


def test_zero_is_a_sign_of_its_own() -> None:
    assert sign_agreement({"a": 0.0, "b": 0.0}, {"a": 0.0, "b": 0.1}).share == 0.5


@law
@given(pairs_of_sigma)
def test_undefined_groups_are_counted_and_left_out(pairs: list[tuple[float, float]]) -> None:
    defined = [(a, b) for a, b in pairs if not math.isnan(a) and not math.isnan(b)]
    found = sign_agreement(*read(pairs))
    assert (found.groups, found.undefined) == (len(defined), len(pairs) - len(defined))
    if defined:
        assert found.share == pytest.approx(np.mean([np.sign(a) == np.sign(b) for a, b in defined]))
        assert replace(found, undefined=0) == sign_agreement(*read(defined))


@law
@given(pairs_of_sigma)
def test_agreement_is_symmetric_but_for_the_sign_of_the_difference(pairs: list[tuple[float, float]]) -> None:
    one, other = sign_agreement(*read(pairs)), sign_agreement(*read([(b, a) for a, b in pairs]))
    assert other.share == pytest.approx(one.share, nan_ok=True)
    assert other.chance == pytest.approx(one.chance, nan_ok=True)
    assert other.mean_difference == pytest.approx(-one.mean_difference, nan_ok=True)
    assert other.variance_of_difference == pytest.approx(one.variance_of_difference, nan_ok=True)


@law
@given(pairs_of_sigma)
def test_share_and_chance_are_shares(pairs: list[tuple[float, float]]) -> None:
    found = sign_agreement(*read(pairs))
    if found.groups:
        assert 0 <= found.share <= 1
        assert 0 <= found.chance <= 1 + 1e-12


def test_no_common_group_is_undefined_with_the_reason() -> None:
    found = sign_agreement({"a": math.nan, "b": 1.0}, {"a": 1.0, "b": Undefined("no rest")})
    for value in (found.share, found.chance, found.mean_difference, found.variance_of_difference):
        assert reason_of(value) == "no group has both values"
    assert (found.groups, found.undefined) == (0, 2)


def test_sigmas_of_different_groups_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="only one of them has 'b', 'c'"):
        sign_agreement({"a": 1.0, "b": 1.0}, {"a": 1.0, "c": 1.0})
