"""Random columns of tables, with the rules that a user could give for them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

TRAPS = ("nan", "None", "unknown value", "", " ", "a,b", "Männer", "1", "01", "True", "<5", "x [y]")
NUMBERS = ("int", "money", "huge", "small int", "decimal", "continuous", "tiny", "float32", "decimal32", "Int64")
CATEGORIES = ("text", "object", "category", "ordered", "numbers as categories", "category of numbers")
ODD_NAMES = ("age", "hours per week", "größe", "x_1", "capital-gain", "Sex", "sex", "job", "7", "class", "target", "y")


@dataclass
class Drawn:
    """A column of a table: its values in the training data and in the audited rows, and the user's rule.

    Parameters
    ----------
    name
        Name of the column.
    sort
        What kind of values it has, one of `NUMBERS`, `CATEGORIES`, "bool", "boolean", "constant" or "dummy".
    train, audit
        Its values in the training data and in the audited rows.
    as_category
        Whether the model reads it as a category.
    rule
        Arguments of `fm.Column`; None if the user says nothing.
    traits
        Of a column of zeros and ones: the category that it encodes together with others, its value, and whether the
        user gives a rule for the category.
    """

    name: str
    sort: str
    train: "pd.Series[Any]"
    audit: "pd.Series[Any]"
    as_category: bool
    rule: dict[str, Any] | None = None
    traits: dict[str, Any] = field(default_factory=dict)

    @property
    def is_category(self) -> bool:
        """Whether the user's table shows that it is a category or a boolean."""
        return self.as_category or self.sort in ("bool", "boolean")


def drawn_name(rng: np.random.Generator, taken: set[str]) -> str:
    """Return a name that is not taken."""
    while True:
        name = str(rng.choice(ODD_NAMES)) if rng.random() < 0.5 else f"c{rng.integers(100)}"
        if name not in taken:
            taken.add(name)
            return name


def numbers(rng: np.random.Generator, name: str, sort: str, rows: int, audited: int, missing: bool) -> Drawn:
    """Return a column of numbers."""
    n = rows + audited
    values: Any
    kind: Any = np.float64
    if sort == "int":
        low = int(rng.integers(-60, 30))
        values = rng.integers(low, low + int(rng.integers(2, 60)), n)
        kind = rng.choice([np.int64, np.int64, np.int32, np.int16])
    elif sort == "small int":
        values, kind = rng.integers(0, rng.integers(2, 6), n), rng.choice([np.int64, np.int8, np.uint8])
    elif sort == "money":
        values = np.where(rng.random(n) < 0.6, 0, rng.integers(1, 90, n) * 100)
        kind = rng.choice([np.int64, np.float64])
    elif sort == "huge":
        values = rng.integers(-(10**6), 10**6, n) * int(rng.choice([1, 1000, 10**6]))
        kind = rng.choice([np.int64, np.float64])
    elif sort == "Int64":
        values, kind = rng.integers(-5, 20, n), "Int64"
    elif sort == "decimal":
        values = np.round(rng.normal(0, rng.choice([1, 30]), n), int(rng.integers(1, 3)))
    elif sort == "decimal32":
        values, kind = np.round(rng.normal(0, 3, n), int(rng.integers(0, 3))), np.float32
    elif sort == "float32":
        values, kind = rng.normal(0, 3, n), np.float32
    elif sort == "tiny":
        values = rng.normal(0, 1e-5, n)
    else:
        values = rng.normal(rng.normal() * 5, rng.choice([0.5, 50]), n)
    values = np.asarray(values)
    column = pd.Series(values, name=name).astype(kind)
    if not missing and rng.random() < 0.25:  # audited rows may lie outside of the observed range
        outside = column.iloc[rows:].astype(object) * 2 + (1 if sort != "tiny" else 0)
        if sort != "small int":
            column = pd.concat([column.iloc[:rows], outside.astype(kind)])
    if missing:
        gaps = rng.random(n) < 0.2
        gaps[: rows // 2] &= rng.random() < 0.8
        column = column.astype("Int64" if kind == "Int64" else np.float32 if kind == np.float32 else np.float64)
        column = column.mask(gaps)
    return _split(Drawn(name, sort, column, column, False), rows)


def booleans(rng: np.random.Generator, name: str, sort: str, rows: int, audited: int, missing: bool) -> Drawn:
    """Return a column of booleans."""
    column = pd.Series(rng.random(rows + audited) < rng.uniform(0.2, 0.8), name=name)
    if sort == "boolean":
        column = column.astype("boolean")
        if missing:
            column = column.mask(rng.random(len(column)) < 0.2)
    return _split(Drawn(name, sort, column, column, False), rows)


def categories(
    rng: np.random.Generator, name: str, sort: str, rows: int, audited: int, missing: bool, strict: bool
) -> Drawn:
    """Return a column of categories; for a strict model, without unseen categories and letters outside of ASCII."""
    n = rows + audited
    count = int(rng.choice([1, 2, 3, 4, 6, 12, 80], p=[0.04, 0.2, 0.25, 0.2, 0.16, 0.1, 0.05]))
    values: list[Any]
    if sort in ("numbers as categories", "category of numbers"):
        values = sorted(rng.choice(np.arange(-3, 200), count, replace=False).tolist())
    else:
        values = [f"v{i}" for i in range(count)]
        for place in range(count):
            if rng.random() < 0.15:
                trap = str(rng.choice(TRAPS))
                values[place] = "Manner" if strict and not trap.isascii() else trap
        values = list(dict.fromkeys(values))
    picked = np.array(values, dtype=object)[rng.integers(0, len(values), n)]
    new = not strict and sort not in ("ordered",) and rng.random() < 0.5
    if new:
        picked[rows] = 999 if sort in ("numbers as categories", "category of numbers") else "brand new"
    column: Any = pd.Series(picked, name=name, dtype=object)
    if missing:
        column = column.mask(rng.random(n) < 0.2)
        if sort == "object" and rng.random() < 0.5:
            column = column.where(column.notna(), None)
    if sort == "text":
        column = column.astype("str")
    elif sort in ("category", "ordered", "category of numbers"):
        order = [values[i] for i in rng.permutation(len(values))]
        if rng.random() < 0.3:
            order.append(-77 if sort == "category of numbers" else "unused")
        kind = pd.CategoricalDtype(order, ordered=sort == "ordered")
        both = [column.iloc[:rows].astype(kind), column.iloc[rows:]]
        wider = pd.CategoricalDtype([*order, picked[rows]], ordered=False) if new else kind
        audit = both[1].astype(wider).reset_index(drop=True)
        if rng.random() < 0.2 and sort != "ordered":  # as rows of a file do that was read alone
            audit = audit.cat.remove_unused_categories()
        return Drawn(name, sort, both[0].reset_index(drop=True), audit, True)
    elif sort == "numbers as categories":
        column = column.astype(np.float64 if missing else np.int64)
    return _split(Drawn(name, sort, column, column, True), rows)


def constant(rng: np.random.Generator, name: str, rows: int, audited: int) -> Drawn:
    """Return a column of numbers that are all the same in the training data."""
    column = pd.Series(np.full(rows + audited, rng.choice([0.0, 3.0, -2.5])), name=name)
    return _split(Drawn(name, "constant", column, column, False), rows)


def dummies(rng: np.random.Generator, group: str, rows: int, audited: int) -> list[Drawn]:
    """Return columns of zeros and ones that encode one category; the rule of the first is that of the category."""
    values = ["a", "b b", "c_c"][: int(rng.integers(2, 4))]
    rest = rng.random() < 0.4
    picked = rng.integers(0, len(values) + rest, rows + audited)
    kind = rng.choice([np.int64, np.float64, np.bool_, np.uint8])
    found = []
    for place, value in enumerate(values):
        column = pd.Series((picked == place).astype(kind), name=f"{group}_{value}")
        found.append(_split(Drawn(str(column.name), "dummy", column, column, False), rows))
        found[-1].traits = {"group": group, "value": value}
    if rng.random() < 0.6:
        rule: dict[str, Any] = {}
        if rng.random() < 0.5:
            rule["cost"] = float(rng.choice([0.5, 2.0]))
        if rng.random() < 0.3:
            rule["values"] = [str(each) for each in rng.permutation(values)[: int(rng.integers(1, len(values) + 1))]]
        found[0].rule = rule
    for each in found:
        each.traits["ruled"] = found[0].rule is not None
    return found


def draw_rule(rng: np.random.Generator, column: Drawn) -> dict[str, Any] | None:
    """Return a rule that a user could give for the column, or None."""
    if rng.random() < 0.45:
        return None
    if rng.random() < 0.15:
        return {"immutable": True}
    if column.sort in ("bool", "boolean"):
        return _rule_of_switch(rng)
    if column.as_category:
        return _rule_of_category(rng, column)
    present = column.train.dropna()
    distinct = sorted({float(value) for value in present})
    if column.sort in ("int", "small int", "money", "Int64") and len(distinct) <= 20 and rng.random() < 0.15:
        if len(distinct) == 2 and set(distinct) == {0.0, 1.0}:
            return {"kind": "boolean", **_rule_of_switch(rng)}
        return {"kind": "category", **_rule_of_switch(rng)}
    return _rule_of_number(rng, column, np.array(distinct))


def _rule_of_switch(rng: np.random.Generator) -> dict[str, Any]:
    return {"cost": float(rng.choice([0.3, 1.0, 2.5]))} if rng.random() < 0.6 else {}


def _rule_of_category(rng: np.random.Generator, column: Drawn) -> dict[str, Any]:
    rule = _rule_of_switch(rng)
    present = column.train.dropna().astype(object).unique().tolist()
    if rng.random() < 0.3:
        rule["kind"] = "category"
    if not present:
        return rule
    order = [present[i] for i in rng.permutation(len(present))]
    if column.sort == "ordered":
        if rng.random() < 0.3:
            rule["ordered"] = bool(rng.random() < 0.5)
    elif rng.random() < 0.25 and set(column.audit.dropna().astype(object)) <= set(present):
        return rule | {"ordered": True, "values": order}
    elif rng.random() < 0.4:
        rule["values"] = order[: int(rng.integers(1, len(order) + 1))]
    return rule


def _rule_of_number(rng: np.random.Generator, column: Drawn, distinct: Any) -> dict[str, Any]:
    rule: dict[str, Any] = {}
    if not len(distinct):
        return rule
    low, high = distinct[0], distinct[-1]
    spread = float(distinct.std()) or 1.0
    whole = pd.api.types.is_integer_dtype(column.train.dtype)
    if rng.random() < 0.4:
        rule["unit"] = float(spread * rng.choice([0.1, 1.0, 7.0]))
    if rng.random() < 0.3:
        rule["low"] = float(np.floor(rng.choice([low - spread, rng.choice(distinct), -np.inf])))
    if rng.random() < 0.3:
        rule["high"] = float(np.ceil(rng.choice([high + 2 * spread, rng.choice(distinct), np.inf])))
    if rule.get("low", -np.inf) > rule.get("high", np.inf):
        rule["low"], rule["high"] = rule["high"], rule["low"]
    if rule.get("low", low) > rule.get("high", high):
        rule.pop("low", None)
        rule.pop("high", None)
    if rng.random() < 0.3:
        rule["step"] = float(rng.choice([1.0, 2.0, 5.0] if whole else [0.0, 0.5, 0.1, 1.0, spread / 7]))
    if rng.random() < 0.3:
        rule["direction"] = str(rng.choice(["up", "down", "both"]))
    if rng.random() < 0.2:
        rule["plausible"] = str(rng.choice(["observed", "zero_or_at_least"]))
    elif rng.random() < 0.1:
        some = rng.choice(distinct, min(len(distinct), 4), replace=False)
        rule["values"] = [float(each) for each in some]
    if rng.random() < 0.2:
        rule["kind"] = "number"
    if rng.random() < 0.1:
        rule["immutable"] = False
    return rule


def _split(column: Drawn, rows: int) -> Drawn:
    whole = column.train
    column.train = whole.iloc[:rows].reset_index(drop=True)
    column.audit = whole.iloc[rows:].reset_index(drop=True)
    return column
