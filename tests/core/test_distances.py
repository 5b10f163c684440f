import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest

from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances, concatenate
from fairmargin.core.norm import Norm

WHOLE = Distances(
    [1, 0, np.inf], [1, 0, 1], Bound.LOWER, Norm.L1, "smoothed(0.5)", [9, 8, 7], "smoothing:sigma=0.5", ["no", "maybe"]
)


@pytest.mark.parametrize("container", [list, tuple, np.array, pd.Series])
def test_any_sequence_of_numbers_and_names_of_bound_and_norm_are_accepted(container):
    distances = Distances(container([1, 0, 2]), container([1, 0, 1]), "upper", "L∞")
    assert distances.values.dtype == np.float64
    assert distances.correct.tolist() == [True, False, True]
    assert (distances.bound, distances.norm) == (Bound.UPPER, Norm.LINF)


def test_a_correct_sample_may_have_distance_zero_or_none():
    distances = Distances([0.0, np.inf], [True, True], "exact", "l2")
    assert distances.correct.all()
    assert distances.unreached.tolist() == [False, True]


def test_repr_counts_samples_correct_and_unreached():
    counts = "3 samples, 2 correct, 1 unreached"
    assert repr(WHOLE) == f"Distances({counts}, lower, L1, smoothed(0.5), keep=('maybe', 'no'))"
    assert repr(Distances([1.0], [True], "exact", "l2")) == "Distances(1 samples, 1 correct, 0 unreached, exact, L2)"


def test_distances_are_frozen_and_independent_of_the_callers_arrays():
    values, correct, tried = np.array([1.0, 2.0]), np.array([True, True]), np.array([3.0, 3.0])
    distances = Distances(values, correct, Bound.EXACT, Norm.L2, tried=tried)
    values[0], correct[0], tried[0] = -7.0, False, -1.0
    assert distances.values.tolist() == [1.0, 2.0]
    assert distances.correct.tolist() == [True, True]
    assert distances.tried.tolist() == [3.0, 3.0]
    with pytest.raises(FrozenInstanceError):
        distances.bound = Bound.UPPER
    for array in (distances.values, distances.correct, distances.tried):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize("which", [[2, 0], [False, False, True]])
def test_take_and_concatenate_keep_all_fields_of_the_samples(which):
    part = WHOLE.take(which)
    places = np.arange(3)[which]
    assert part.values.tolist() == WHOLE.values[places].tolist()
    assert part.correct.tolist() == WHOLE.correct[places].tolist()
    assert part.tried.tolist() == WHOLE.tried[places].tolist()
    both = concatenate([part, WHOLE])
    for found in (part, both):
        assert (found.bound, found.norm, found.subject) == (Bound.LOWER, Norm.L1, "smoothed(0.5)")
        assert (found.estimator, found.keep) == ("smoothing:sigma=0.5", ("maybe", "no"))
    assert both.tried.tolist() == [*part.tried, 9, 8, 7]


def test_distances_survive_pickling():
    again = pickle.loads(pickle.dumps(WHOLE))
    assert repr(again) == repr(WHOLE)
    assert again.values.tolist() == WHOLE.values.tolist()
    assert again.tried.tolist() == WHOLE.tried.tolist()
    assert again.estimator == WHOLE.estimator


def test_the_classes_to_keep_are_a_set_independent_of_order_and_type():
    def keep(labels):
        return Distances([1.0], [True], "exact", "l2", keep=labels).keep

    assert keep(None) == keep([]) == keep(()) == ()
    assert keep("no") == keep(["no", "no"]) == keep(np.array(["no"])) == ("no",)
    assert keep([2, 10, 1]) == keep({1, 2, 10}) == keep(np.array([10, 1, 2])) == (1, 2, 10)
    assert keep(["b", 3, "a", 0.5]) == keep([0.5, "a", "b", 3]) == (0.5, 3, "a", "b")
    assert type(keep(np.array([1]))[0]) is int
