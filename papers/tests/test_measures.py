"""The measures without intervals that the papers print."""

import math

import numpy as np
import pytest
from fairlearn.metrics import MetricFrame
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin_papers.shared.measures import accuracy_by_group, boundary_error, parity_violation, sigma

law = settings(max_examples=50, deadline=None, derandomize=True)
lengths = st.just(0.0) | st.floats(0.01, 100) | st.integers(1, 4).map(float)
samples = st.lists(st.tuples(st.sampled_from("abc"), lengths), min_size=1, max_size=30)

# Three groups: a has 2 of 3 samples correct, b 1 of 2, c all of 1. Means over all samples are 2, 2 and 5; over correct
# samples 3, 4 and 5.
VALUES, GROUPS = np.array([2.0, 4.0, 0.0, 4.0, 0.0, 5.0]), Partition.by("g", list("aaabbc"))


def exact(values):
    return Distances(values, np.asarray(values) > 0, "exact", "l2")


def quotient(own, rest):
    return np.mean(own) / np.mean(rest) - 1 if len(own) and len(rest) and np.mean(rest) else math.nan


@pytest.mark.parametrize(
    ("over", "expected"),
    [
        ("all", {"a": 2 / 3 - 1, "b": 2 / (11 / 4) - 1, "c": 5 / 2 - 1}),
        ("correct", {"a": 3 / 4.5 - 1, "b": 4 / (11 / 3) - 1, "c": 5 / (10 / 3) - 1}),
    ],
)
def test_sigma_by_hand(over, expected):
    assert sigma(exact(VALUES), GROUPS, over) == pytest.approx(expected)


@law
@given(samples, st.sampled_from(["all", "correct"]))
def test_sigma_compares_the_mean_of_a_group_with_that_of_everyone_else(pairs, over):
    groups, values = zip(*pairs, strict=True)
    for label, value in sigma(exact(values), Partition.by("g", groups), over).items():
        counted = [(g, v) for g, v in pairs if over == "all" or v > 0]
        expected = quotient([v for g, v in counted if g == label], [v for g, v in counted if g != label])
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-9, nan_ok=True)


def test_a_dominating_group_does_not_wash_out_its_rest():
    assert sigma(exact([1e17, 1.0]), Partition.by("g", ["a", "b"]))["a"] == pytest.approx(1e17, rel=1e-6)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=40))
def test_accuracy_by_group_is_fairlearns_and_its_distance_from_the_accuracy_of_all_is_the_violation(pairs):
    groups, correct = (np.array(column) for column in zip(*pairs, strict=True))
    partition = Partition.by("g", groups)
    frame = MetricFrame(
        metrics=accuracy_score,
        y_true=np.ones(len(correct)),
        y_pred=correct.astype(float),
        sensitive_features=list(groups),
    )
    assert accuracy_by_group(correct, partition) == pytest.approx(frame.by_group.to_dict())
    expected = {label: abs(value - frame.overall) for label, value in frame.by_group.to_dict().items()}
    assert parity_violation(correct, partition) == pytest.approx(expected)


def test_the_boundary_error_is_the_share_that_only_the_attack_makes_wrong():
    correct = np.array([True, False, True, True, True, False, True, True])
    robust = np.array([True, False, True, False, False, False, True, True])
    assert boundary_error(correct, robust) == 0.25
