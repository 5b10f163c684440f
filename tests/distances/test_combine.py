from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairmargin as fm
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.catalog import build, describe, parse_estimator, spelled
from fairmargin.distances.combine import Tightest, tightest
from fairmargin.distances.measure import measure
from fairmargin.distances.searches.deepfool import DeepFool
from tests.perturbation.networks import cnn, test_digits


def of(values, bound="upper", norm="l2", subject="model", correct=None, tried=None):
    return Distances(values, [v > 0 for v in values] if correct is None else correct, bound, norm, subject, tried)


@given(st.lists(st.tuples(*[st.floats(1e-3, 1e3) | st.just(np.inf)] * 3), min_size=1, max_size=20))
def test_of_upper_bounds_the_least_and_of_lower_bounds_the_greatest(rows):
    runs = np.array(rows).T
    for bound, best in (("upper", runs.min(axis=0)), ("lower", runs.max(axis=0))):
        found = tightest(*(of(run, bound) for run in runs))
        np.testing.assert_array_equal(found.values, best)
        assert found.bound.value == bound
        assert found.norm is Norm.L2


def test_one_run_is_its_own_best_and_the_order_does_not_matter():
    a, b = of([1.0, 3.0, 0.0]), of([2.0, 2.0, 0.0])
    np.testing.assert_array_equal(tightest(a).values, a.values)
    np.testing.assert_array_equal(tightest(a, b).values, tightest(b, a).values)
    assert tightest(a, b).correct.tolist() == [True, True, False]


def test_the_tightest_names_its_estimators_in_one_order():
    a, b = replace(of([1.0]), estimator="ddn:steps=20"), replace(of([2.0]), estimator="deepfool")
    assert tightest(a, b).estimator == tightest(b, a).estimator == "ddn:steps=20+deepfool"
    assert tightest(a, of([2.0])).estimator == ""
    joined = [Tightest(*pair) for pair in ((DeepFool(), DeepFool(steps=9)), (DeepFool(steps=9), DeepFool()))]
    assert spelled(joined[0]) == spelled(joined[1]) != spelled(DeepFool())
    assert measure(([3.0, 4.0], -5.0), np.array([[0.0, 0.0]]), [0], joined[0]).estimator == spelled(joined[0])


def test_the_tightest_keeps_the_same_classes():
    a, b = replace(of([1.0]), keep=["a", "b"]), replace(of([2.0]), keep=["b", "a"])
    assert tightest(a, b).keep == ("a", "b")


def test_exact_distances_go_before_any_bound():
    exact = of([1.0, 2.0], "exact")
    for bound, values in (("upper", [1.5, 2.0]), ("lower", [0.5, 2.0])):
        for several in ((exact, of(values, bound)), (of(values, bound), exact)):
            found = tightest(*several)
            assert found.bound.value == "exact"
            assert found.values.tolist() == [1.0, 2.0]


def test_keeps_how_far_the_farthest_search_looked_where_none_found_anything():
    a = of([np.inf, np.inf, 1.0], tried=[3.0, np.nan, 7.0])
    b = of([np.inf, np.inf, np.inf], tried=[2.0, 5.0, 1.0])
    assert tightest(a, b).tried.tolist() == [3.0, 5.0, 0.0]
    assert tightest(a, of([np.inf, 2.0, 2.0])).tried.tolist() == [3.0, 0.0, 0.0]
    assert tightest(of([np.inf]), of([np.inf])).tried is None
    assert tightest(a, of([1.0, 1.0, 1.0])).tried is None


# Estimators joined


def test_several_estimators_as_one_give_the_best_of_each():
    module, (x, y) = cnn(), test_digits(30)
    few, published = DeepFool(rivals=1), DeepFool(published=True)
    found = measure(module, x, y, Tightest(few, published))
    parts = [measure(module, x, y, estimator) for estimator in (few, published)]
    np.testing.assert_array_equal(found.values, tightest(*parts).values)
    assert found.bound.value == "upper"
    assert fm.tightest is tightest
    assert fm.Tightest is Tightest


def test_it_is_a_frozen_value_in_the_norm_of_its_members():
    both, again = (Tightest(DeepFool("linf"), DeepFool("linf", steps=3)) for _ in range(2))
    assert both.norm is Norm.LINF
    assert (both, hash(both)) == (again, hash(again))
    with pytest.raises(AttributeError):
        both.estimators = ()


@pytest.mark.parametrize(
    "text", ["deepfool:norm=linf + deepfool:norm=linf,steps=1e+1", "deepfool+deepfool:published=yes"]
)
def test_a_sum_is_spelled_with_plus_and_read_back_from_its_description(text):
    read = parse_estimator(text)
    assert isinstance(read, Tightest)
    assert len(read.estimators) == 2
    plain = describe(read)
    assert all(type(value) is str for value in plain.values())
    assert build(plain.pop("name"), plain) == read
