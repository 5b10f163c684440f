"""The nearest change of each group in words: what its median row would need to get another answer."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairmargin.analyses.cells import SAMPLES, decimals_for, group_cell, table_of
from fairmargin.analyses.table import GroupTable
from fairmargin.core.arrays import Bools, Ints
from fairmargin.core.codec import Format
from fairmargin.core.column import TableColumn
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.core.undefined import Undefined, reason_of
from fairmargin.presentation.formatting import fixed, listed, number, percent, plain, several
from fairmargin.presentation.section import Cell, Column, Explanation, Section, Table

LOOKED_AT = 25
"""Number of samples of a group whose nearest changes are counted by column, evenly spaced by distance."""
_SHOWN = 3  # columns that change most often
_MEANING = (
    "The median sample of a group is the one in the middle of its correctly classified samples, ordered by distance. "
    "Only its change is shown. Changes are not advice: they say what the model would decide of another row, not what a "
    "person can do, and not what would follow from it."
)


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one column."""

    column: str
    words: str  # "capital gain +$9,400", "occupation Sales → Exec-managerial"


@dataclass(frozen=True, slots=True)
class ColumnShare:
    """How often a column changes among the nearest changes of a group."""

    column: str
    share: float


@dataclass(frozen=True, slots=True)
class Example:
    """The nearest change of a single sample."""

    row: int  # number of the sample, from 1
    distance: float
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class GroupChanges:
    """The nearest changes of a group."""

    group: str
    size: int
    distance: float  # of the median sample; undefined if there is none
    changes: tuple[Change, ...]  # of the median sample; none if its distance is undefined
    looked_at: int  # number of samples whose nearest change was found to count columns
    columns: tuple[ColumnShare, ...]  # every column that changes in one of them, the most frequent first
    unreachable: int  # samples of which it is proven that no allowed change leads to another class
    unfinished: int  # samples whose exact distance was not found within the budget
    examples: tuple[Example, ...] = ()  # single samples, on request

    @property
    def most_often(self) -> str:
        """The columns that change most often, in words."""
        shown = [f"{plain(each.column)} {percent(each.share)}" for each in self.columns[:_SHOWN]]
        return ", ".join(shown) if shown else "–"


@dataclass(frozen=True, slots=True)
class NearestChanges(GroupTable[GroupChanges]):
    """The nearest changes of every group of a partition."""

    FORMAT: ClassVar[Format] = Format(1, "nearest changes", "Run the same command again")

    partition: str
    groups: tuple[GroupChanges, ...]
    norm: Norm

    @property
    def title(self) -> str:
        """What is listed, in half a sentence."""
        return f"Nearest changes by {plain(self.partition)}, {self.norm}"

    def finding(self, row: GroupChanges) -> str:
        """Return the nearest change of the median sample of a group as a sentence."""
        name = plain(row.group)
        if not row.changes:
            return f"{name}: no nearest change ({reason_of(row.distance) or 'none was found'})."
        words = listed([plain(each.words) for each in row.changes], 20)
        return f"{name}: the median sample gets another answer with {words} (distance {number(row.distance)})."

    def records(self) -> list[dict[str, Any]]:
        """Return one row per group; columns and examples are in the JSON."""
        return [
            {
                "partition": self.partition,
                "group": row.group,
                "size": row.size,
                "distance": row.distance,
                "change": "; ".join(each.words for each in row.changes),
                "most_often": row.most_often,
                "looked_at": row.looked_at,
                "unreachable": row.unreachable,
                "unfinished": row.unfinished,
                "finding": self.finding(row),
            }
            for row in self
        ]

    def section(self) -> Section:
        """Return the change of every group's median sample, and the columns that change most often."""
        decimals = decimals_for([row.distance for row in self])
        table = table_of(
            self.groups,
            [
                (
                    Column("distance", detail="median sample"),
                    [_distance(row.distance, decimals) for row in self],
                ),
                (
                    Column("nearest change", detail="median sample", kind="text"),
                    [Cell(", ".join(plain(each.words) for each in row.changes) or "–") for row in self],
                ),
                (
                    Column("changes most often", detail="share of samples", kind="text", hidden=True),
                    [Cell(row.most_often) for row in self],
                ),
                (SAMPLES, [Cell(f"{row.looked_at:,} of {row.size:,}") for row in self]),
            ],
            caption=f"Changed columns are counted in at most {LOOKED_AT} samples of each group, which are classified "
            "correctly and whose nearest change was found.",
            label=f"Nearest changes by {plain(self.partition)}",
        )
        unreachable = sum(row.unreachable for row in self)
        sentences = []
        if unreachable:
            what = several(unreachable, "sample")
            sentences.append(f"For {what} it is proven that no allowed change leads to another answer.")
        tables = (table, *filter(None, [self._examples(decimals)]))
        return Section(
            f"Nearest changes by {plain(self.partition)}",
            about=f"{self.norm} norm",
            sentences=tuple(sentences),
            findings=tuple(map(self.finding, self)),
            tables=tables,
            explanations=(Explanation("Nearest changes", _MEANING),),
        )

    def _examples(self, decimals: int) -> Table | None:
        """Return single samples with their changes, if any were asked for."""
        rows = [
            (
                group_cell(row.group),
                Cell(f"{each.row:,}"),
                _distance(each.distance, decimals),
                Cell(", ".join(plain(change.words) for change in each.changes)),
            )
            for row in self
            for each in row.examples
        ]
        if not rows:
            return None
        heads = (Column("group", kind="text"), Column("row"), Column("distance"), Column("nearest change", kind="text"))
        caption = "Single samples, by their number in the data: these are persons. Share this page with care."
        return Table(heads, tuple(rows), caption=caption, label="Single samples")


def words_of(columns: Sequence[TableColumn], before: Any, after: Any) -> tuple[Change, ...]:
    """Return the changes between two coded rows, the most expensive first; none if the second is missing.

    >>> columns = [TableColumn("age", "number", unit=10), TableColumn("job", "category", categories=("cook", "nurse"))]
    >>> [change.words for change in words_of(columns, [30.0, 0.0], [33.0, 1.0])]
    ['job cook → nurse', 'age +3']
    """
    old, new = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    moved = [i for i in range(len(columns)) if old[i] != new[i] and not math.isnan(new[i])]
    costs = {i: float(columns[i].cost_of(old[i], new[i])) for i in moved}
    ordered = sorted(moved, key=lambda i: (-costs[i], i))
    return tuple(Change(columns[i].name, columns[i].described(float(old[i]), float(new[i]))) for i in ordered)


def samples_to_look_at(distances: Distances, partition: Partition, examples: int = 0) -> Ints:
    """Return the samples whose nearest changes `nearest_changes` describes, in ascending order."""
    chosen = [_chosen(distances, mask, examples) for _, mask in partition]
    return np.unique(np.concatenate([np.concatenate(each) for each in chosen])).astype(np.int64)


def nearest_changes(
    distances: Distances,
    partition: Partition,
    changes: Mapping[int, tuple[Change, ...]],
    *,
    exact: bool = False,
    examples: int = 0,
) -> NearestChanges:
    """Describe the nearest changes of every group.

    Parameters
    ----------
    distances, partition
        The distances and the groups.
    changes
        The nearest changes of some samples by their positions, at least of those of `samples_to_look_at`.
    exact
        Whether the estimator proves what it does not find, so that `tried` is a lower bound of every distance.
    examples
        Number of single samples of each group that are shown.
    """
    rows = []
    for label, mask in partition:
        median, looked, shown = _chosen(distances, mask, examples)
        found = [changes[i] for i in looked.tolist() if changes[i]]
        counts = Counter(each.column for row in found for each in row)
        tried = distances.tried if exact else None
        middle = int(median[0]) if len(median) else -1
        distance: float = Undefined(_why_none(distances, mask))
        if middle >= 0 and math.isfinite(distances.values[middle]) and changes[middle]:
            distance = float(distances.values[middle])
        rows.append(
            GroupChanges(
                group=label,
                size=int(mask.sum()),
                distance=distance,
                changes=changes[middle] if math.isfinite(distance) else (),
                looked_at=len(found),
                columns=tuple(ColumnShare(name, count / len(found)) for name, count in counts.most_common()),
                unreachable=0 if tried is None else int((mask & distances.unreached & np.isinf(tried)).sum()),
                unfinished=0 if tried is None else int((mask & unfinished(distances)).sum()),
                examples=tuple(
                    Example(i + 1, float(distances.values[i]), changes[i]) for i in shown.tolist() if changes[i]
                ),
            )
        )
    return NearestChanges(partition.name, tuple(rows), distances.norm)


def unfinished(distances: Distances) -> Bools:
    """Return the samples for which an exact estimator gave a bracket: `tried` lies below the value."""
    if distances.tried is None:
        return np.zeros(len(distances), dtype=np.bool_)
    return np.asarray(distances.correct & (distances.tried < distances.values))


def _chosen(distances: Distances, mask: Bools, examples: int) -> tuple[Ints, Ints, Ints]:
    """Return the median sample of a group, samples to count columns in, and samples to show."""
    own = np.flatnonzero(mask & distances.correct)
    ordered = own[np.argsort(distances.values[own], kind="stable")]
    finite = ordered[np.isfinite(distances.values[ordered])]
    return ordered[(len(ordered) - 1) // 2 :][:1], _spread(finite, LOOKED_AT), _spread(finite, examples)


def _spread(ordered: Ints, count: int) -> Ints:
    """Return at most `count` positions, evenly spaced."""
    if len(ordered) <= count:
        return ordered
    return ordered[((np.arange(count) + 0.5) * len(ordered) / max(count, 1)).astype(np.int64)]


def _why_none(distances: Distances, mask: Bools) -> str:
    correct = mask & distances.correct
    if not correct.any():
        return "no sample of the group is classified correctly"
    return "for the median sample no allowed change leads to another answer, or none was found"


def _distance(value: float, decimals: int) -> Cell:
    if math.isnan(value):
        return Cell("undefined", note=reason_of(value))
    return Cell(fixed(value, decimals, signed=False))
