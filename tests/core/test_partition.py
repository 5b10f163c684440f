import datetime
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.partition import MISSING, Partition

law = settings(max_examples=60, deadline=None, derandomize=True)
words = st.text("abcxyz", min_size=1, max_size=2)
columns = st.lists(words, min_size=1, max_size=30)


def spelled(partition):
    """Return the name of each sample's group."""
    return [partition.labels[i] for i in partition.membership]


@law
@given(columns, st.randoms(use_true_random=False))
def test_every_sample_is_in_exactly_one_group_and_labels_do_not_depend_on_the_order(column, random):
    partition = Partition.by("x", column)
    assert sum(mask.astype(int) for _, mask in partition).tolist() == [1] * len(column)
    assert spelled(partition) == column
    assert partition.sizes.sum() == len(partition) == len(column)
    assert (partition.sizes > 0).all()
    shuffled = list(column)
    random.shuffle(shuffled)
    assert Partition.by("x", shuffled).labels == partition.labels


@pytest.mark.parametrize("groups", [1, 3, 300, 70_000])  # codes of one, two and four bytes are sorted differently
def test_rows_are_those_of_the_masks_in_ascending_order(groups):
    codes = np.random.default_rng(0).permutation(np.arange(groups + 500) % groups)
    rows = Partition("x", [str(i) for i in range(groups)], codes).rows()
    assert len(rows) == groups
    assert np.array_equal(np.sort(np.concatenate(rows)), np.arange(len(codes)))
    for group in range(0, groups, 1 + groups // 7):
        assert rows[group].tolist() == np.flatnonzero(codes == group).tolist()


def test_iteration_gives_labels_with_masks_in_the_order_of_the_labels():
    pairs = [(label, mask.tolist()) for label, mask in Partition.by("sex", ["M", "F", "M"])]
    assert pairs == [("F", [False, True, False]), ("M", [True, False, True])]


# How values become labels. -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "missing", [None, np.nan, float("nan"), np.float32("nan"), pd.NA, pd.NaT, "", "   "], ids=lambda v: f"{v!r}"
)
def test_missing_values_are_the_group_missing_which_comes_last(missing):
    partition = Partition.by("x", ["zz", missing, "a", None, float("nan")])
    assert partition.labels == ("a", "zz", MISSING)
    assert partition.membership.tolist() == [1, 2, 0, 2, 2]


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        ([None, None], (MISSING,)),
        ([True, False, True], ("False", "True")),
        (np.array([True, False]), ("False", "True")),
        ([np.True_, np.False_], ("False", "True")),
        ([3, 1], ("1", "3")),
        ([np.int64(3), np.uint8(1)], ("1", "3")),
        ([1.0, 2.0, 2.5], ("1", "2", "2.5")),
        ([np.float32(1.0), np.float64(0.5)], ("0.5", "1")),
        (np.array([1.0, np.nan]), ("1", MISSING)),
        ([-0.0, 0.0], ("0",)),
        ([1, 1.0, "1", " 1 "], ("1",)),
        ([10, 2, 33, 1], ("1", "2", "10", "33")),
        (["10", "2", "33", "1"], ("1", "2", "10", "33")),
        (["b", "10", "a", "9", None], ("9", "10", "a", "b", MISSING)),
        (["2", "nan", "1", "b"], ("1", "2", "b", "nan")),
        (["b", "1", "nan", "2"], ("1", "2", "b", "nan")),
        ([b"b", b"a"], ("a", "b")),
        ([b"a", b"", b" a "], ("a", MISSING)),
        ([np.bytes_(b"b"), np.str_("a")], ("a", "b")),
        (["Łódź", "東京"], ("Łódź", "東京")),
        ([float("inf"), 3], ("3", "inf")),
        ([datetime.date(2021, 1, 2), datetime.date(2020, 1, 2)], ("2020-01-02", "2021-01-02")),
        (np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"), ("2020-01-01", MISSING)),
        (pd.Series([1, None, 2], dtype="Int64"), ("1", "2", MISSING)),
        (pd.Series(["a", None], dtype="string"), ("a", MISSING)),
        (pd.Series([True, None], dtype="boolean"), ("True", MISSING)),
        (pd.Series(pd.to_datetime(["2020-01-01", None])), ("2020-01-01 00:00:00", MISSING)),
        (pd.Index(["q", "p"]), ("p", "q")),
        (pd.Categorical(["a", "a "]), ("a",)),
        (pd.cut(pd.Series([70, 3, 30]), [0, 15, 60, 200], right=False), ("[0, 15)", "[15, 60)", "[60, 200)")),
    ],
    ids=lambda v: re.sub(r"\s+", " ", repr(v))[:40],
)
def test_labels_are_the_expected_texts_of_the_values_in_order(column, labels):
    assert Partition.by("x", column).labels == labels


def test_pandas_categories_keep_their_order_and_unused_ones_are_dropped():
    column = pd.Categorical(["old", "young", "old", None], categories=["young", "middle", "old"])
    for given_as in (column, pd.Series(column), pd.Series(column, index=[5, 6, 7, 8])):
        partition = Partition.by("age", given_as)
        assert partition.labels == ("young", "old", MISSING)
        assert spelled(partition) == ["old", "young", "old", MISSING]


def test_many_samples_whole_numbers_and_missing_values_are_grouped():
    column = np.random.default_rng(0).integers(0, 20, 1_000_000)
    assert Partition.by("x", column).sizes.tolist() == np.bincount(column).tolist()
    assert Partition.by("x", np.full(200_000, np.nan)).sizes.tolist() == [200_000]
    assert len(Partition.by("class", np.arange(500.0)).labels) == 500


# Crossing, merging, taking. ------------------------------------------------------------------------------------------

RACE = Partition.by("race", ["Other", "White", "Other", "White", "Other"])
SEX = Partition.by("sex", ["F", "F", "M", "F", "F"])
OLD = Partition.by("old", [True, False, True, True, False])


def test_the_groups_of_an_intersection_are_those_that_occur_named_by_both_attributes():
    both = RACE & SEX
    assert both.name == "race & sex"
    assert both.labels == ("race=Other & sex=F", "race=Other & sex=M", "race=White & sex=F")
    assert both.sizes.tolist() == [2, 1, 2]
    assert (SEX & SEX).labels == ("sex=F & sex=F", "sex=M & sex=M")


def test_three_attributes_are_named_once_each_however_they_are_paired():
    left, right = (RACE & SEX) & OLD, RACE & (SEX & OLD)
    assert left.name == right.name == "race & sex & old"
    assert left.labels[0] == "race=Other & sex=F & old=False"
    assert spelled(left) == spelled(right)


@law
@given(st.lists(st.tuples(words, words), min_size=1, max_size=30))
def test_samples_share_a_group_of_the_intersection_exactly_if_they_do_in_both(pairs):
    left, right = (Partition.by(name, column) for name, column in zip("pq", zip(*pairs, strict=True), strict=True))
    assert spelled(left & right) == [f"p={a} & q={b}" for a, b in pairs]


def test_small_groups_are_merged_into_one_that_comes_last():
    partition = Partition.by("x", list("aaabbcddd")).merge(smaller_than=3)
    assert partition.labels == ("a", "d", "other")
    assert spelled(partition) == ["a"] * 3 + ["other"] * 3 + ["d"] * 3
    existing = Partition.by("x", ["other"] * 3 + ["a"] * 3 + ["b"]).merge(smaller_than=2)
    assert dict(zip(existing.labels, existing.sizes.tolist(), strict=True)) == {"a": 3, "other": 4}
    assert spelled(SEX.merge(smaller_than=1)) == spelled(SEX)
    assert SEX.merge(smaller_than=100, into="all").labels == ("all",)
    assert ((RACE & SEX).merge(smaller_than=2) & OLD).labels[-1] == "other & old=True"


@law
@given(columns, st.data())
def test_taking_keeps_each_samples_group_and_drops_empty_ones(column, data):
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(column), max_size=len(column))))
    mask[data.draw(st.integers(0, len(column) - 1))] = True
    taken = Partition.by("x", column).take(mask)
    expected = [value for value, kept in zip(column, mask, strict=True) if kept]
    assert spelled(taken) == expected
    assert set(taken.labels) == set(expected)


def test_a_partition_is_read_only_and_independent_of_the_callers_array():
    codes = np.array([0, 1])
    partition = Partition("x", ["a", "b"], codes)
    codes[0] = 1
    assert partition.membership.tolist() == [0, 1]
    with pytest.raises(ValueError, match="read-only"):
        partition.membership[0] = 1
    with pytest.raises(AttributeError):
        partition.labels = ()


def test_repr_shows_at_most_six_groups():
    assert repr(SEX) == "Partition('sex', F: 4, M: 1)"
    assert repr(Partition.by("x", range(9))).count(": 1") == 6
