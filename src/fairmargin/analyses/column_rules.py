"""How the rows of a table may change: the rule of every column, with all that was chosen from the data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fairmargin.analyses.cells import group_cell
from fairmargin.analyses.table import GroupTable
from fairmargin.core.codec import Format
from fairmargin.core.column import Direction, Kind, TableColumn
from fairmargin.presentation.formatting import listed, number, plain, several
from fairmargin.presentation.section import Cell, Column, Explanation, Section, Table

COLUMN = "column"
"""Name of the partition of the rules, whose groups are columns."""
_CATEGORIES = 50  # categories that a result lists
_FIXED = "does not change"
_MEANING = (
    "The distance between two rows is the norm of the costs of all changes. A number costs its change divided by the "
    "unit of its column, a category the cost of a switch. A row may only move to values that the rules of its columns "
    "allow, and a missing value stays missing. The row found is confirmed by the original model."
)


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """The rule of one column."""

    group: str  # the name of the column
    kind: Kind
    immutable: bool
    unit: float  # change of a number that costs 1
    low: float  # range in which a number may move
    high: float
    step: float  # a number changes by multiples of it; 0: by any amount
    direction: Direction
    gap: float  # a number may change to 0, or to a number of at least this size; 0: to all
    allowed: int  # number of values to which a number may change; 0: all
    categories: tuple[str, ...]  # to which a row may switch, at most 50
    choices: int  # number of categories to which a row may switch
    cost: float  # of a switch, or of one place if the categories are ordered
    ordered: bool
    label: str  # unit in words
    source: str  # how the rule came about

    @property
    def reason(self) -> str:
        """How the rule came about, in words; of a column that does not change, only why it does not."""
        if not self.immutable:
            return plain(self.source) if self.source else "a rule"
        known = ("defines groups", "constant", "not used by the model")
        return next((reason for reason in known if reason in self.source), "a rule")

    @property
    def price(self) -> str:
        """What costs 1, in words."""
        if self.kind == "number":
            return f"±{_with_label(self.unit, self.label)}"
        what = "each place" if self.ordered else "a switch"
        return what if self.cost == 1 else f"{what} costs {number(self.cost)}"

    @property
    def values(self) -> str:
        """The values to which a row may change, in words."""
        if self.kind != "number":
            return (
                "yes or no"
                if self.kind == "boolean"
                else f"{self.choices:,} categor{'y' if self.choices == 1 else 'ies'}"
            )
        parts = [f"{number(self.low)} to {number(self.high)}" if math.isfinite(self.low + self.high) else "any number"]
        parts += [f"in steps of {number(self.step)}"] if self.step else []
        parts += [{"up": "only up", "down": "only down"}[self.direction]] if self.direction != "both" else []
        parts += [f"0 or at least {number(self.gap)}"] if self.gap else []
        parts += [f"{several(self.allowed, 'value')} only"] if self.allowed else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class ColumnRules(GroupTable[ColumnRule]):
    """The rules of the columns of a table, one row per column."""

    FORMAT: ClassVar[Format] = Format(1, "columns", "Run the same command again")

    partition: str
    groups: tuple[ColumnRule, ...]

    @property
    def title(self) -> str:
        """What is listed, in half a sentence."""
        return f"How rows may change in {several(len(self.groups), 'column')}"

    def finding(self, row: ColumnRule) -> str:
        """Return the rule of a column as a sentence."""
        why = f" ({row.reason})"
        if row.immutable:
            return f"{plain(row.group)}: {_FIXED}{why}."
        price = f"{row.price} costs 1" if row.kind == "number" or row.cost == 1 else row.price
        return f"{plain(row.group)}: {price}; {row.values}{why}."

    def records(self) -> list[dict[str, Any]]:
        """Return one row per column."""
        names = [name for name in ColumnRule.__dataclass_fields__ if name not in ("group", "categories")]
        return [
            {
                "partition": self.partition,
                "group": row.group,
                **{name: getattr(row, name) for name in names},
                "categories": " | ".join(row.categories),
                "finding": self.finding(row),
            }
            for row in self
        ]

    def section(self) -> Section:
        """Return the rule of every column as a table."""
        fixed = [plain(row.group) for row in self if row.immutable]
        moving = len(self.groups) - len(fixed)
        answer = f"A row may change in {moving:,} of its {several(len(self.groups), 'column')}."
        sentences = [f"Columns that do not change: {listed(fixed, 20)}."] if fixed else []
        at_hand = any("data at hand" in row.source for row in self if not row.immutable)
        if at_hand:
            sentences.append(
                "Units, steps, ranges and categories that no rule gives were taken from the audited rows themselves. "
                "Another table is measured in the same units with columns.toml of the run folder (--columns), or if "
                "both name the training data (--training-data)."
            )
        table = Table(
            columns=(
                Column("column", kind="text"),
                Column("kind", kind="text"),
                Column("costs 1", kind="text"),
                Column("may become", kind="text"),
                Column("chosen from", kind="text", hidden=True),
            ),
            rows=tuple(
                (
                    group_cell(row.group),
                    Cell(row.kind),
                    Cell("–" if row.immutable else row.price),
                    Cell(_FIXED if row.immutable else row.values),
                    Cell(row.reason),
                )
                for row in self
            ),
            label="How the value of each column may change",
        )
        return Section(
            "How rows may change",
            answer=answer,
            sentences=tuple(sentences),
            findings=tuple(map(self.finding, self)),
            tables=(table,),
            unit=COLUMN,
            explanations=(Explanation("Distances between rows of a table", _MEANING),),
        )


def column_rules(columns: Sequence[TableColumn]) -> ColumnRules:
    """Return the rules of the columns of a table.

    >>> age = TableColumn("age", "number", unit=13.64, low=17, high=90, step=1, direction="up")
    >>> rules = column_rules([age, TableColumn("sex", "category", immutable=True, source="defines groups")])
    >>> rules.finding(rules["age"]), rules.finding(rules["sex"])
    ('age: ±13.6 costs 1; 17 to 90, in steps of 1, only up (a rule).', 'sex: does not change (defines groups).')
    """
    return ColumnRules(COLUMN, tuple(map(_rule, columns)))


def _rule(column: TableColumn) -> ColumnRule:
    names = [str(column.categories[place]) for place in column.reachable]
    return ColumnRule(
        group=column.name,
        kind=column.kind,
        immutable=column.immutable,
        unit=float(column.unit),
        low=float(column.low),
        high=float(column.high),
        step=float(column.step),
        direction=column.direction,
        gap=float(column.gap),
        allowed=0 if column.allowed is None else len(column.allowed),
        categories=tuple(names[:_CATEGORIES]),
        choices=len(names),
        cost=float(column.cost),
        ordered=column.ordered,
        label=column.label,
        source=column.source,
    )


def _with_label(value: float, label: str) -> str:
    """Return a number with its unit: $4,990 or 13.6 years."""
    text = plain(label) if label else ""
    return f"{text}{number(value)}" if text in ("$", "€", "£", "¥", "₹") else f"{number(value)} {text}".rstrip()
