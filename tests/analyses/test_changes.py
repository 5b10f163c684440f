"""Nearest changes of groups in words."""

import math

import numpy as np

from fairmargin.analyses.changes import Change, nearest_changes, samples_to_look_at, unfinished, words_of
from fairmargin.core.column import TableColumn
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition

COLUMNS = (
    TableColumn("age", "number", unit=10, label="years"),
    TableColumn("gain", "number", unit=1000, label="$"),
    TableColumn("job", "category", categories=("cook", "nurse")),
)


def words(before, after):
    return [change.words for change in words_of(COLUMNS, before, after)]


def test_changes_are_described_the_most_expensive_first():
    assert words([30, 0, 0], [33, 9400, 1]) == ["gain +$9,400", "job cook → nurse", "age +3 years"]
    assert words([30, 0, math.nan], [29, 0, math.nan]) == ["age −1 years"]
    assert words([30, 0, 2], [30, 0, 1]) == ["job an unknown value → nurse"]
    assert words([30, 0, 0], [math.nan] * 3) == []


def changes_of(distances):
    return {i: (Change("gain", f"gain +${i}"),) for i in range(len(distances))}


def test_the_median_sample_is_the_middle_of_the_correct_ones_by_distance():
    values = np.array([3.0, 0.0, 1.0, 2.0, 9.0, 4.0])
    found = Distances(values, values > 0, "exact", "l1")
    groups = Partition.by("sex", ["F", "F", "F", "F", "M", "M"])
    result = nearest_changes(found, groups, changes_of(found))
    assert [(row.group, row.distance, row.changes[0].words) for row in result] == [
        ("F", 2.0, "gain +$3"),
        ("M", 4.0, "gain +$5"),
    ]
    assert [row.looked_at for row in result] == [3, 2]
    assert result["F"].columns[0].share == 1.0
    assert result.finding(result["F"]) == "F: the median sample gets another answer with gain +$3 (distance 2)."


def test_no_single_sample_is_named_unless_asked_for():
    values = np.arange(1.0, 101.0)
    found = Distances(values, values > 0, "exact", "l1")
    groups = Partition.by("sex", ["F", "M"] * 50)
    without = nearest_changes(found, groups, changes_of(found))
    assert all(row.examples == () for row in without)
    assert len(without.section().tables) == 1
    two = nearest_changes(found, groups, changes_of(found), examples=2)
    assert [example.row for example in two["F"].examples] == [25, 75]
    assert len(two.section().tables) == 2
    assert len(samples_to_look_at(found, groups)) == 52  # 25 of each group, and its median sample


def test_a_group_without_a_change_says_why():
    found = Distances(
        [np.inf, np.inf, 1.0, 0.0], [True, True, True, False], "exact", "l1", tried=[np.inf, np.inf, 1, 0]
    )
    result = nearest_changes(found, Partition.by("g", ["a", "a", "a", "b"]), changes_of(found), exact=True)
    assert result["a"].changes == ()
    assert result["a"].unreachable == 2
    assert "for the median sample no allowed change" in result.finding(result["a"])
    assert "no sample of the group is classified correctly" in result.finding(result["b"])
    assert "For 2 samples it is proven that no allowed change leads to another answer." in result.sentences()


def test_samples_whose_exact_search_ended_early_are_counted():
    found = Distances([2.0, 3.0, np.inf], [True] * 3, "upper", "l1", tried=[1.5, 3.0, 0.5])
    assert unfinished(found).tolist() == [True, False, True]
    result = nearest_changes(found, Partition.by("g", ["a"] * 3), changes_of(found), exact=True)
    assert (result["a"].unfinished, result["a"].unreachable) == (2, 0)
    assert nearest_changes(found, Partition.by("g", ["a"] * 3), changes_of(found))["a"].unfinished == 0
