import pickle
import re
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.errors import FairmarginError, InputError

law = settings(max_examples=60, deadline=None, derandomize=True)


def exact(values: object, correct: object = None, **more: object) -> Distances:
    hits = np.asarray(values) > 0 if correct is None else correct
    return Distances(values, hits, Bound.EXACT, Norm.L2, **more)  # type: ignore[arg-type]


def refuses(sentence: str, *arguments: object, **options: object) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        exact(*arguments, **options)


def test_empty_distances_are_refused() -> None:
    refuses("`values` is empty", [], [])


def test_nan_is_refused_with_the_count_and_the_first_index() -> None:
    refuses("`values` holds NaN in 2 of 4 samples (first at index 1)", [1, np.nan, 2, np.nan], [True] * 4)


def test_the_error_for_nan_suggests_inf() -> None:
    refuses("Write `inf` where no misclassified input was found", [np.nan], [True])


def test_a_negative_distance_is_refused_with_its_value_and_index() -> None:
    refuses("`values` holds negative distances, first -0.5 at index 2", [1, 2, -0.5, -3], [True] * 4)


def test_minus_infinity_is_a_negative_distance() -> None:
    refuses("first -inf at index 0", [-np.inf], [True])


def test_a_misclassified_sample_at_a_distance_is_refused_with_the_count_value_and_index() -> None:
    refuses(
        "2 misclassified samples have a distance above 0 (first 3 at index 1)",
        [0, 3, 1, 4],
        [False, False, True, False],
    )


def test_a_misclassified_sample_cannot_be_unreached() -> None:
    refuses("(first inf at index 1)", [1, np.inf], [True, False])


def test_lengths_that_differ_are_refused_with_both() -> None:
    refuses("`correct` has 2 entries but `values` has 3. Did you drop rows", [1, 2, 3], [True, True])
    refuses("`tried` has 1 entries but `values` has 2", [1, 2], [True, True], tried=[1.0])


@pytest.mark.parametrize("values", [["a"], [None, "x"], [{}], [[1], [2, 3]]])
def test_values_that_are_not_numbers_are_refused(values: list) -> None:
    refuses("`values` must hold numbers", values, [True])


@pytest.mark.parametrize("correct", [[2, 1], ["yes", "no"], [0.5, 1.0], [np.nan, 1.0], [None, True]])
def test_correctness_that_is_not_boolean_is_refused(correct: list) -> None:
    refuses("`correct` must hold True and False (or 1 and 0)", [1.0, 1.0], correct)


def test_more_than_one_dimension_is_refused_with_the_shape() -> None:
    refuses("`values` must be one-dimensional, with one entry per sample; its shape is (1, 2)", [[1, 2]], [True, True])
    refuses("`correct` must be one-dimensional, with one entry per sample; its shape is (1, 2)", [1, 2], [[True, True]])


def test_an_unknown_norm_is_refused() -> None:
    with pytest.raises(InputError, match="Unknown norm"):
        Distances([1.0], [True], Bound.EXACT, "l7")


def test_an_unknown_bound_is_refused() -> None:
    with pytest.raises(FairmarginError, match="upper"):
        Distances([1.0], [True], "sideways", Norm.L2)


def test_names_of_bound_and_norm_are_accepted() -> None:
    distances = Distances([1.0], [True], "upper", "L∞")
    assert distances.bound is Bound.UPPER
    assert distances.norm is Norm.LINF


@pytest.mark.parametrize("container", [list, tuple, np.array, pd.Series])
def test_any_sequence_of_numbers_is_accepted(container: type) -> None:
    distances = exact(container([1, 0, 2]), container([1, 0, 1]))
    assert distances.values.dtype == np.float64
    assert distances.correct.tolist() == [True, False, True]


def test_a_correct_sample_may_have_distance_zero() -> None:
    assert exact([0.0], [True]).correct.all()


def test_unreached_are_the_samples_without_a_finite_distance() -> None:
    assert exact([1, np.inf, 0]).unreached.tolist() == [False, True, False]


def test_repr_counts_samples_correct_and_unreached() -> None:
    distances = exact([1, np.inf, 0], subject="smoothed(0.25)")
    assert repr(distances) == "Distances(3 samples, 2 correct, 1 unreached, exact, L2, smoothed(0.25))"


def test_distances_are_frozen() -> None:
    distances = exact([1.0])
    with pytest.raises(FrozenInstanceError):
        distances.bound = Bound.UPPER  # type: ignore[misc]


@pytest.mark.parametrize("name", ["values", "correct", "tried"])
def test_arrays_are_read_only(name: str) -> None:
    array = getattr(exact([1.0], tried=[2.0]), name)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 0


def test_the_callers_array_stays_writeable() -> None:
    values = np.array([1.0, 2.0])
    exact(values)
    values[0] = 5.0
    assert values[0] == 5.0


def test_distances_do_not_change_when_the_callers_array_does() -> None:
    values, correct, tried = np.array([1.0, 2.0]), np.array([True, True]), np.array([3.0, 3.0])
    distances = Distances(values, correct, Bound.EXACT, Norm.L2, tried=tried)
    values[0], correct[0], tried[0] = -7.0, False, -1.0
    assert distances.values.tolist() == [1.0, 2.0]
    assert distances.correct.tolist() == [True, True]
    assert distances.tried is not None
    assert distances.tried.tolist() == [3.0, 3.0]


def test_take_keeps_all_fields_of_the_selected_samples() -> None:
    whole = Distances(
        [1, 0, np.inf], [1, 0, 1], Bound.LOWER, Norm.L1, "smoothed(0.5)", [9, 8, 7], "smoothing:sigma=0.5"
    )
    part = whole.take([2, 0])
    assert part.values.tolist() == [np.inf, 1]
    assert part.correct.tolist() == [True, True]
    assert part.tried is not None
    assert part.tried.tolist() == [7, 9]
    assert (part.bound, part.norm, part.subject) == (Bound.LOWER, Norm.L1, "smoothed(0.5)")
    assert part.estimator == "smoothing:sigma=0.5"


@law
@given(st.lists(st.tuples(st.floats(0, 1e6), st.booleans()), min_size=1, max_size=20))
def test_taking_by_mask_and_by_index_is_the_same(pairs: list[tuple[float, bool]]) -> None:
    values, mask = (np.array(column) for column in zip(*pairs, strict=True))
    if not mask.any():
        mask[0] = True
    whole = exact(values)
    assert whole.take(mask).values.tolist() == whole.take(np.flatnonzero(mask)).values.tolist()


def test_taking_no_sample_is_refused() -> None:
    with pytest.raises(InputError, match="empty"):
        exact([1.0, 2.0]).take([False, False])


def test_taking_an_empty_list_of_samples_is_refused() -> None:
    with pytest.raises(InputError, match="empty"):
        exact([1.0, 2.0]).take([])


def test_an_estimator_is_a_text_and_unknown_if_not_given() -> None:
    assert exact([1.0]).estimator == ""
    with pytest.raises(InputError, match=r"`estimator` must be a text.*given 7"):
        exact([1.0], estimator=7)


def test_distances_survive_pickling() -> None:
    whole = Distances([1, 0, np.inf], [1, 0, 1], Bound.LOWER, Norm.L1, "smoothed(0.5)", [9, 8, 7], "mine")
    again = pickle.loads(pickle.dumps(whole))
    assert repr(again) == repr(whole)
    assert again.values.tolist() == whole.values.tolist()
    assert again.estimator == "mine"
    assert again.tried.tolist() == whole.tried.tolist()  # type: ignore[union-attr]


def test_a_negative_search_radius_is_refused() -> None:
    with pytest.raises(InputError, match="`tried` must not be negative; given -1 at index 1"):
        Distances([1.0, np.inf], [True, True], "upper", "l2", tried=[1.0, -1.0])


def test_the_classes_to_keep_are_a_set_independent_of_order_and_type():
    def keep(labels):
        return Distances([1.0], [True], "exact", "l2", keep=labels).keep

    assert keep(None) == keep([]) == keep(()) == ()
    assert keep("no") == keep(["no", "no"]) == keep(np.array(["no"])) == ("no",)
    assert keep([2, 10, 1]) == keep({1, 2, 10}) == keep(np.array([10, 1, 2])) == (1, 2, 10)
    assert keep(["b", 3, "a", 0.5]) == keep([0.5, "a", "b", 3]) == (0.5, 3, "a", "b")
    assert type(keep(np.array([1]))[0]) is int
    with pytest.raises(InputError, match="`keep` must hold labels of classes"):
        keep([["no"]])


def test_the_classes_to_keep_stay_with_a_selection_and_are_shown():
    found = Distances([1.0, 2.0], [True, True], "exact", "l2", keep=["no", "pending"])
    assert found.take([1]).keep == ("no", "pending")
    assert "keep=('no', 'pending')" in repr(found)
    assert "keep" not in repr(Distances([1.0], [True], "exact", "l2"))
