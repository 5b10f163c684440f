import numpy as np
import pytest
from fairlearn.metrics import MetricFrame
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError
from fairmargin.inference.measures import accuracy_by_group, error_split, parity_violation
from tests.oracles import accuracy_gap, error_split_by_group

law = settings(max_examples=60, deadline=None, derandomize=True)
outcomes = st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans()), min_size=1, max_size=40)

# Accuracy by hand: a 1/2, b 3/4, c 1; all together 6/8.
CORRECT = [True, False, True, True, True, False, True, True]
GROUPS = Partition.by("g", list("aabbbbcc"))


def read(triples: list[tuple[str, bool, bool]]) -> tuple[Partition, np.ndarray, np.ndarray]:
    groups, correct, kept = (np.array(column) for column in zip(*triples, strict=True))
    return Partition.by("g", groups), correct, correct & kept


@settings(max_examples=8, deadline=None, derandomize=True)
@given(outcomes)
def test_accuracy_by_group_is_fairlearns(triples: list[tuple[str, bool, bool]]) -> None:
    partition, correct, _ = read(triples)
    names = [partition.labels[i] for i in partition.membership]
    frame = MetricFrame(
        metrics=accuracy_score, y_true=np.ones(len(correct)), y_pred=correct.astype(float), sensitive_features=names
    )
    assert accuracy_by_group(correct, partition) == pytest.approx(frame.by_group.to_dict())
    assert accuracy_gap(correct, partition) == pytest.approx(frame.difference(method="between_groups"))


def test_accuracy_by_hand() -> None:
    assert accuracy_by_group(CORRECT, GROUPS) == {"a": 0.5, "b": 0.75, "c": 1.0}
    assert accuracy_gap(CORRECT, GROUPS) == 0.5


def test_accuracy_is_read_from_distances_too() -> None:
    distances = Distances(np.array(CORRECT) * 2.0, CORRECT, Bound.EXACT, Norm.L2)
    assert accuracy_by_group(distances, GROUPS) == accuracy_by_group(CORRECT, GROUPS)


def test_parity_violation_is_the_distance_of_each_groups_error_from_the_error_of_all() -> None:
    assert parity_violation(CORRECT, GROUPS) == {"a": 0.25, "b": 0.0, "c": 0.25}


@law
@given(outcomes)
def test_robust_error_is_natural_plus_boundary_error_exactly(triples: list[tuple[str, bool, bool]]) -> None:
    _, correct, robust = read(triples)
    split = error_split(correct, robust)
    n = len(correct)
    assert split.robust == split.natural + split.boundary
    assert round(split.natural * n) + round(split.boundary * n) == int((~robust).sum())
    assert split.natural == np.mean(~correct)
    assert split.boundary == np.mean(correct & ~robust)


def test_the_split_by_hand() -> None:
    robust = [True, False, True, False, False, False, True, True]
    split = error_split(CORRECT, robust)
    assert (split.natural, split.boundary, split.robust) == (0.25, 0.25, 0.5)


@law
@given(outcomes)
def test_the_split_of_everyone_is_the_weighted_mean_of_the_groups(triples: list[tuple[str, bool, bool]]) -> None:
    partition, correct, robust = read(triples)
    by_group, sizes = error_split_by_group(correct, robust, partition), partition.sizes
    mean = sum(n * by_group[g][1] for g, n in zip(partition.labels, sizes, strict=True)) / sizes.sum()
    assert error_split(correct, robust).boundary == pytest.approx(mean, abs=1e-12)


def test_a_misclassified_sample_that_withstands_the_attack_is_refused_with_its_index() -> None:
    sentence = r"2 samples are said to withstand the attack but are misclassified without it \(first at index 1\)"
    with pytest.raises(InputError, match=sentence):
        error_split([True, False, False], [True, True, True])


def test_no_samples_have_no_error() -> None:
    with pytest.raises(InputError, match="is empty"):
        error_split([], [])


@pytest.mark.parametrize("metric", [accuracy_by_group, parity_violation])
def test_groups_of_another_length_are_refused(metric: object) -> None:
    with pytest.raises(InputError, match="`partition` has 8 entries but `correct` has 2"):
        metric([True, False], GROUPS)  # type: ignore[operator]


def test_probabilities_are_no_booleans() -> None:
    with pytest.raises(InputError, match="must hold True and False"):
        accuracy_by_group([0.9] * 8, GROUPS)
