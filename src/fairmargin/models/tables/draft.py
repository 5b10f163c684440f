"""A draft of rules for the columns of a table, for editing."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fairmargin.core.column import Column, TableColumn
from fairmargin.models.tables.schema import coding_of
from fairmargin.study.rules_file import fields_of, table_text, toml_value

_SENSITIVE = frozenset((
    "sex", "gender", "race", "racial", "ethnic", "ethnicity", "religion", "religious", "nationality", "native",
    "citizen", "citizenship", "foreign", "foreigner", "immigrant", "immigration", "age", "birth", "birthday", "dob",
    "marital", "relationship", "disability", "disabled",
    "handicap", "pregnant", "pregnancy", "orientation", "caste", "skin", "veteran",
))  # fmt: skip
"""Words in the names of columns that say what a person is, or what the law protects."""
_RISING = frozenset(("age", "tenure", "seniority"))
"""Words in the names of numbers that only time changes."""
_LISTED = 40  # categories that a draft lists
_KEYS, _KEY_SHARE = 100, 0.2  # above both, a column of texts looks like a name or a key
_HEAD = """\
# How the rows of {name} may change, for `fairmargin audit --columns FILE`. A draft: edit it.
#
# The distance between two rows is the norm of the costs of all changes. A number costs |change| / unit, a category or
# boolean the cost of a switch. A line that is left out is chosen from the data. The keys of a column are:
#   kind       "number", "category" or "boolean"
#   unit       change of a number that costs 1; here the standard deviation
#   label      unit in words, such as "$" or "years"
#   low, high  range in which a number may move; here the observed range
#   step       a number changes by multiples of it; 0 for any change
#   direction  "up", "down" or "both"
#   values     numbers or categories to which a value may change; ordered categories in their order
#   plausible  "any", "observed", or "zero_or_at_least": zero, or at least the smallest observed number
#   ordered    true if categories have an order; then a switch costs `cost` for each place
#   cost       cost of a switch
#   immutable  true if the value never changes
"""


def looks_sensitive(name: str) -> bool:
    """Return whether the name of a column says that it describes what a person is.

    >>> [looks_sensitive(name) for name in ("marital-status", "ageGroup", "Sex", "mileage", "usage")]
    [True, True, True, False, False]
    """
    return not _SENSITIVE.isdisjoint(_words(name))


def draft(table: pd.DataFrame, name: str = "the table", columns: Sequence[TableColumn] | None = None) -> str:
    """Return a TOML text of rules for every column of a table, with comments.

    Guarantee: read back, it says the same as no rules at all, except that columns that look sensitive do not move, that
    numbers which only time changes do not fall, and that columns of zeros and ones that encode a category are one
    column.

    Parameters
    ----------
    table
        The rows, without the label.
    name
        Name of the table, for the heading.
    columns
        The columns that a model takes, with their rules; by default those of the table.
    """
    parts = [_HEAD.format(name=name.replace("\n", " "))]
    if columns is None:
        dates = [each for each in table if _holds_dates(table[each])]
        kept = table.drop(columns=dates)
        columns = coding_of(kept, _encoded(kept), names=tuple(kept.columns)).columns if len(kept.columns) else ()
        parts += [f"# {toml_value(each)} holds dates or durations, which no rule can move.\n" for each in dates]
    parts += [_drafted(each, table) + "\n" for each in columns]
    return "\n".join(parts)


def _drafted(column: TableColumn, table: pd.DataFrame) -> str:
    """Return the TOML table of one column."""
    sensitive, rising = looks_sensitive(column.name), not _RISING.isdisjoint(_words(column.name))
    constant = column.is_number and column.immutable
    proposed = replace(
        column,
        immutable=column.immutable or sensitive,
        direction="up" if column.is_number and rising else column.direction,
    )
    fields = fields_of(proposed)
    comments = dict(_comments(proposed))
    if not proposed.immutable:
        del fields["immutable"]
    elif column.immutable:
        comments["immutable"] = "constant" if constant else column.source
    else:
        comments["immutable"] = "looks sensitive: remove this line if it may change"
    return table_text(column.name, fields, comments, list(_remarks(column, table)))


def _comments(column: TableColumn) -> Iterator[tuple[str, str]]:
    if column.is_number:
        if column.direction == "up":
            yield "direction", "only time changes it"
        return
    known = [column.categories[place] for place in column.reachable]
    if column.kind == "category" and not column.ordered:
        listed = ", ".join(toml_value(each) for each in known[:_LISTED])
        more = f" … {len(known) - _LISTED:,} more" if len(known) > _LISTED else ""
        yield "values", f"values = [{listed}{more}]"


def _remarks(column: TableColumn, table: pd.DataFrame) -> Iterator[str]:
    if column.parts:
        yield f"encoded by the columns {', '.join(column.parts[:10])}{', …' if len(column.parts) > 10 else ''}"
    elif column.name in table:
        missing = float(table[column.name].isna().mean())
        if missing:
            yield f"missing in {100 * missing:.3g} % of the rows, and stays missing"
        if column.kind == "category" and len(column.categories) > max(_KEYS, _KEY_SHARE * len(table)):
            yield f"{len(column.categories):,} different texts: looks like a name or a key, not like a category"


def _encoded(table: pd.DataFrame) -> Mapping[str, Column]:
    """Return a rule for each category that columns of zeros and ones encode, such as "job_cook" and "job_nurse"."""
    known = [str(name) for name in table]
    flags = [name for name in known if _holds_flags(table[name])]
    prefixes: dict[str, list[str]] = {}
    for name in flags:
        for mark in re.finditer("[=_]", name):
            if mark.start():
                prefixes.setdefault(name[: mark.start()], []).append(name)
    rules: dict[str, Column] = {}
    taken: set[str] = set()
    for head, names in sorted(prefixes.items(), key=lambda item: (-len(item[1]), -len(item[0]))):
        every = [name for name in known if name.startswith((f"{head}_", f"{head}="))]
        if head in known or len(names) < 2 or every != names or not taken.isdisjoint(names):
            continue
        if (table[names].to_numpy(dtype=np.float64).sum(axis=1) == 1).all():
            rules[head] = Column(kind="category")
            taken.update(names)
    return rules


def _holds_flags(column: "pd.Series[Any]") -> bool:
    """Return whether a column holds zeros and ones only."""
    numbers = pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)
    return numbers and bool(column.isin((0, 1)).all())


def _holds_dates(column: "pd.Series[Any]") -> bool:
    return bool(
        pd.api.types.is_datetime64_any_dtype(column)
        or pd.api.types.is_timedelta64_dtype(column)
        or isinstance(column.dtype, pd.PeriodDtype)
    )


def _words(name: str) -> frozenset[str]:
    """Return the words in the name of a column, in lower case."""
    return frozenset(word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name))
