import datetime
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.partition import MISSING, Partition
from fairmargin.errors import InputError

law = settings(max_examples=60, deadline=None, derandomize=True)
words = st.text("abcxyz", min_size=1, max_size=2)
columns = st.lists(words, min_size=1, max_size=30)


def spelled(partition: Partition) -> list[str]:
    """Return the name of each sample's group."""
    return [partition.labels[i] for i in partition.membership]


# Every sample in exactly one group. ----------------------------------------------------------------------------------


@law
@given(columns)
def test_every_sample_is_in_exactly_one_group(column: list[str]) -> None:
    partition = Partition.by("x", column)
    assert sum(mask.astype(int) for _, mask in partition).tolist() == [1] * len(column)
    assert spelled(partition) == column
    assert partition.sizes.sum() == len(partition) == len(column)
    assert (partition.sizes > 0).all()


@law
@given(columns, st.randoms(use_true_random=False))
def test_the_order_of_the_samples_does_not_change_the_labels(column: list[str], random: object) -> None:
    shuffled = list(column)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert Partition.by("x", shuffled).labels == Partition.by("x", column).labels


def test_iteration_gives_labels_with_masks_in_the_order_of_the_labels() -> None:
    pairs = [(label, mask.tolist()) for label, mask in Partition.by("sex", ["M", "F", "M"])]
    assert pairs == [("F", [False, True, False]), ("M", [True, False, True])]


# How values become labels. -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "missing", [None, np.nan, float("nan"), np.float32("nan"), pd.NA, pd.NaT, "", "   "], ids=lambda v: f"{v!r}"
)
def test_missing_values_are_the_group_missing(missing: object) -> None:
    partition = Partition.by("x", ["b", missing, "a", missing])
    assert partition.labels == ("a", "b", MISSING)
    assert partition.membership.tolist() == [1, 2, 0, 2]


def test_all_kinds_of_missing_are_one_group_and_come_last() -> None:
    partition = Partition.by("x", ["zzz", None, float("nan"), float("nan"), pd.NA, pd.NaT, ""])
    assert partition.labels == ("zzz", MISSING)
    assert partition.sizes.tolist() == [1, 6]


def test_a_column_without_any_value_is_one_group() -> None:
    assert Partition.by("x", [None, None]).labels == (MISSING,)


@pytest.mark.parametrize(
    ("column", "labels"),
    [
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
        ([b"b", b"a"], ("a", "b")),
        ([np.bytes_(b"b"), np.str_("a")], ("a", "b")),
        (["Łódź", "東京"], ("Łódź", "東京")),
        ([float("inf"), 3], ("3", "inf")),
        ([datetime.date(2021, 1, 2), datetime.date(2020, 1, 2)], ("2020-01-02", "2021-01-02")),
        (pd.Series([1, None, 2], dtype="Int64"), ("1", "2", MISSING)),
        (pd.Series(["a", None], dtype="string"), ("a", MISSING)),
        (pd.Series([True, None], dtype="boolean"), ("True", MISSING)),
        (pd.Series(pd.to_datetime(["2020-01-01", None])), ("2020-01-01 00:00:00", MISSING)),
        (pd.Index(["q", "p"]), ("p", "q")),
    ],
    ids=lambda v: re.sub(r"\s+", " ", repr(v))[:40],
)
def test_labels_are_the_expected_texts_of_the_values(column: object, labels: tuple[str, ...]) -> None:
    assert Partition.by("x", column).labels == labels


def test_two_comes_before_ten() -> None:
    assert Partition.by("age", [10, 2, 33, 1]).labels == ("1", "2", "10", "33")
    assert Partition.by("age", ["10", "2", "33", "1"]).labels == ("1", "2", "10", "33")


def test_numbers_come_before_words() -> None:
    assert Partition.by("x", ["b", "10", "a", "9", None]).labels == ("9", "10", "a", "b", MISSING)


def test_pandas_categories_keep_their_order_and_unused_ones_are_dropped() -> None:
    column = pd.Categorical(["old", "young", "old", None], categories=["young", "middle", "old"])
    for given_as in (column, pd.Series(column), pd.Series(column, index=[5, 6, 7, 8])):
        partition = Partition.by("age", given_as)
        assert partition.labels == ("young", "old", MISSING)
        assert spelled(partition) == ["old", "young", "old", MISSING]


def test_bins_of_pandas_cut_are_groups_in_order() -> None:
    ages = pd.cut(pd.Series([70, 3, 30]), [0, 15, 60, 200], right=False)
    assert Partition.by("age", ages).labels == ("[0, 15)", "[15, 60)", "[60, 200)")


def test_a_million_samples_are_grouped() -> None:
    column = np.random.default_rng(0).integers(0, 20, 1_000_000)
    partition = Partition.by("x", column)
    assert partition.sizes.tolist() == np.bincount(column).tolist()


def test_many_missing_samples_are_one_group() -> None:
    assert Partition.by("x", np.full(200_000, np.nan)).sizes.tolist() == [200_000]


def test_the_text_nan_does_not_change_the_order_of_the_labels() -> None:
    one, other = Partition.by("x", ["2", "nan", "1", "b"]), Partition.by("x", ["b", "1", "nan", "2"])
    assert one.labels == other.labels


def test_empty_bytes_are_missing_like_empty_text() -> None:
    assert Partition.by("x", [b"a", b"", b" a "]).labels == ("a", MISSING)


def test_categories_with_equal_texts_are_one_group() -> None:
    assert Partition.by("x", ["a", "a "]).labels == ("a",)
    assert Partition.by("x", pd.Categorical(["a", "a "])).labels == ("a",)


def test_numpy_dates_are_labelled_as_dates() -> None:
    labels = Partition.by("day", np.array(["2020-01-01", "NaT"], dtype="datetime64[ns]")).labels
    assert labels[0].startswith("2020-01-01")


# What is refused. ----------------------------------------------------------------------------------------------------


def test_a_continuous_column_is_refused_with_advice() -> None:
    income = np.random.default_rng(0).normal(size=500)
    with pytest.raises(InputError, match=r"Column 'income' has 500 distinct numbers and looks continuous.*pandas.cut"):
        Partition.by("income", income)


def test_a_continuous_column_is_refused_for_every_type_of_numbers() -> None:
    with pytest.raises(InputError, match="looks continuous"):
        Partition.by("income", list(np.random.default_rng(0).normal(size=500).astype(np.float32)))


def test_many_whole_numbers_are_not_continuous() -> None:
    assert len(Partition.by("class", np.arange(500)).labels) == 500
    assert len(Partition.by("class", np.arange(500.0)).labels) == 500


@pytest.mark.parametrize("column", [[["a"], ["b"]], [{"a": 1}], [np.zeros(2), np.zeros(2)], [{1}, {2}]])
def test_containers_are_refused_as_values(column: list) -> None:
    with pytest.raises(InputError, match="Column 'x' holds lists or other containers"):
        Partition.by("x", column)


@pytest.mark.parametrize(
    "column", ["word", b"bytes", 3, None, (v for v in "ab"), np.zeros((2, 2)), np.array(1), pd.DataFrame({"a": [1]})]
)
def test_a_value_that_is_not_a_column_is_refused(column: object) -> None:
    with pytest.raises(InputError, match="Partition 'x' needs a column with one value per sample"):
        Partition.by("x", column)


@pytest.mark.parametrize("column", [[], np.array([]), pd.Series([], dtype=object)])
def test_a_column_without_samples_is_refused(column: object) -> None:
    with pytest.raises(InputError, match="Partition 'x' has no samples"):
        Partition.by("x", column)


def test_a_group_without_a_sample_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="Group 'b' of partition 'x' has no sample"):
        Partition("x", ["a", "b", "c"], [0, 2])


def test_a_group_named_twice_is_refused() -> None:
    with pytest.raises(InputError, match="Partition 'x' names a group twice: a, a"):
        Partition("x", ["a", "a"], [0, 1])


@pytest.mark.parametrize("membership", [[0, 1, 2], [-1, 0, 1]])
def test_a_position_without_a_label_is_refused_with_the_range(membership: list[int]) -> None:
    with pytest.raises(InputError, match=r"must lie in 0\.\.1, one position per label; given"):
        Partition("x", ["a", "b"], membership)


@pytest.mark.parametrize("membership", [[0.0, 1.0], [True, False], ["a", "b"], [[0, 1]]])
def test_a_membership_that_is_not_a_position_is_refused(membership: list) -> None:
    with pytest.raises(InputError, match="must be one integer per sample"):
        Partition("x", ["a", "b"], membership)


# Crossing, merging, taking. ------------------------------------------------------------------------------------------

RACE = Partition.by("race", ["Other", "White", "Other", "White", "Other"])
SEX = Partition.by("sex", ["F", "F", "M", "F", "F"])
OLD = Partition.by("old", [True, False, True, True, False])


def test_an_intersection_is_named_by_both_attributes() -> None:
    both = RACE & SEX
    assert both.name == "race & sex"
    assert both.labels == ("race=Other & sex=F", "race=Other & sex=M", "race=White & sex=F")
    assert both.sizes.tolist() == [2, 1, 2]


def test_only_intersections_that_occur_are_groups() -> None:
    assert "race=White & sex=M" not in (RACE & SEX).labels


def test_three_attributes_are_named_once_each_however_they_are_paired() -> None:
    left, right = (RACE & SEX) & OLD, RACE & (SEX & OLD)
    assert left.name == right.name == "race & sex & old"
    assert left.labels[0] == "race=Other & sex=F & old=False"
    assert spelled(left) == spelled(right)


@law
@given(st.lists(st.tuples(words, words), min_size=1, max_size=30))
def test_samples_share_a_group_of_the_intersection_exactly_if_they_do_in_both(pairs: list[tuple[str, str]]) -> None:
    left, right = (Partition.by(name, column) for name, column in zip("pq", zip(*pairs, strict=True), strict=True))
    assert spelled(left & right) == [f"p={a} & q={b}" for a, b in pairs]


def test_partitions_of_different_length_cannot_be_intersected() -> None:
    with pytest.raises(InputError, match="'race' has 5 samples but 'sex' has 2"):
        RACE & Partition.by("sex", ["F", "M"])


def test_the_error_of_an_intersection_names_both_partitions() -> None:
    with pytest.raises(InputError, match="but 'sex' has 2"):
        RACE & Partition.by("sex", ["F", "M"])


def test_a_partition_can_be_intersected_with_itself() -> None:
    assert (SEX & SEX).labels == ("sex=F & sex=F", "sex=M & sex=M")


def test_small_groups_are_merged_into_one_that_comes_last() -> None:
    partition = Partition.by("x", list("aaabbcddd")).merge(smaller_than=3)
    assert partition.labels == ("a", "d", "other")
    assert spelled(partition) == ["a"] * 3 + ["other"] * 3 + ["d"] * 3


def test_merging_joins_an_existing_group_of_that_name() -> None:
    partition = Partition.by("x", ["other"] * 3 + ["a"] * 3 + ["b"]).merge(smaller_than=2)
    assert dict(zip(partition.labels, partition.sizes.tolist(), strict=True)) == {"a": 3, "other": 4}


def test_merging_nothing_changes_nothing() -> None:
    merged = SEX.merge(smaller_than=1)
    assert (merged.labels, merged.membership.tolist()) == (SEX.labels, SEX.membership.tolist())


def test_merging_everything_leaves_one_group() -> None:
    assert SEX.merge(smaller_than=100, into="all").labels == ("all",)


def test_a_merged_intersection_can_be_intersected_again() -> None:
    assert ((RACE & SEX).merge(smaller_than=2) & OLD).labels[-1] == "other & old=True"


@law
@given(columns, st.data())
def test_taking_keeps_each_samples_group_and_drops_empty_ones(column: list[str], data: st.DataObject) -> None:
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(column), max_size=len(column))))
    mask[data.draw(st.integers(0, len(column) - 1))] = True
    taken = Partition.by("x", column).take(mask)
    expected = [value for value, kept in zip(column, mask, strict=True) if kept]
    assert spelled(taken) == expected
    assert set(taken.labels) == set(expected)


def test_taking_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="No sample of partition 'sex' was selected"):
        SEX.take(np.zeros(5, dtype=bool))


def test_taking_an_empty_list_is_refused() -> None:
    with pytest.raises(InputError, match="No sample of partition 'sex' was selected"):
        SEX.take([])


def test_a_partition_is_read_only_and_independent_of_the_callers_array() -> None:
    codes = np.array([0, 1])
    partition = Partition("x", ["a", "b"], codes)
    codes[0] = 1
    assert partition.membership.tolist() == [0, 1]
    with pytest.raises(ValueError, match="read-only"):
        partition.membership[0] = 1
    with pytest.raises(AttributeError):
        partition.labels = ()  # type: ignore[misc]


def test_repr_shows_at_most_six_groups() -> None:
    assert repr(SEX) == "Partition('sex', F: 4, M: 1)"
    assert repr(Partition.by("x", range(9))).count(": 1") == 6
