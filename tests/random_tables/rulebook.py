"""The rules of columns, written again from the documentation of `fm.Column` in plain Python, to judge what is found."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from tests.random_tables.columns import Drawn

CLOSE = 1e-7  # tolerance, in steps


def is_missing(value: Any) -> bool:
    """Return whether a value of a table is missing."""
    return value is None or value is pd.NA or (isinstance(value, float | np.floating) and math.isnan(value))


@dataclass
class NumberRule:
    """How a number may change: what the user says, completed by the training data."""

    name: str
    unit: float
    low: float
    high: float
    step: float
    direction: str
    values: frozenset[float] | None
    gap: float
    fixed: bool
    single: bool
    whole: tuple[float, float] | None  # smallest and largest number of the column's type, if it holds whole numbers
    observed: tuple[float, ...]

    def cost(self, before: Any, after: Any) -> float:
        """Return the cost of a change."""
        return 0.0 if is_missing(before) and is_missing(after) else abs(float(after) - float(before)) / self.unit

    def broken(self, before: Any, after: Any) -> str:
        """Return which rule a change breaks; "" if it breaks none."""
        if is_missing(before) or is_missing(after):
            return "" if is_missing(before) and is_missing(after) else "missing values stay missing"
        old, new = float(before), float(after)
        if old == new:
            return ""
        checks = {
            "immutable": self.fixed,
            "low": new < self.low,
            "high": new > self.high,
            "direction": (self.direction == "up" and new < old) or (self.direction == "down" and new > old),
            "step": not self._on_grid(old, new),
            "values": self.values is not None and new not in self.values,
            "plausible": new != 0 and abs(new) < self.gap,
            "single precision": self.single and float(np.float32(new)) != new,
            "type": self.whole is not None and not self.whole[0] <= new <= self.whole[1],
        }
        return next((name for name, wrong in checks.items() if wrong), "")

    def _on_grid(self, old: float, new: float) -> bool:
        if not self.step:
            return True
        steps = (new - old) / self.step
        rounding = (2.0**-22 if self.single else 2.0**-50) * max(abs(old), abs(new)) / self.step
        return round(steps) != 0 and abs(steps - round(steps)) <= CLOSE + rounding

    def targets(self, before: Any, rng: np.random.Generator, most: int) -> list[float]:
        """Return valid values to which a number may change: all of them if they are few."""
        if is_missing(before) or self.fixed:
            return []
        old = float(before)
        far = 1e4 * max(self.unit, self.step) + 2 * abs(old)  # in place of a range without end
        low = old if self.direction == "up" else max(self.low, old - far)
        high = old if self.direction == "down" else min(self.high, old + far)
        tried: list[float]
        if self.values is not None:
            tried = sorted(self.values)
        elif self.step:
            tried = [self.stepped(old, k) for k in self._counts(old, low, high, rng, most)]
        else:
            tried = list(self.observed)
            tried += [np.nextafter(value, side) for value in self.observed[:most] for side in (-np.inf, np.inf)]
            tried += [low, high, *(old + rng.normal(size=6) * self.unit).tolist()]
        if self.single:
            tried = [float(np.float32(value)) for value in tried]
        found = [value for value in dict.fromkeys(map(float, tried)) if value != old and not self.broken(old, value)]
        return [found[i] for i in sorted(rng.choice(len(found), most, replace=False))] if len(found) > most else found

    def _counts(self, old: float, low: float, high: float, rng: np.random.Generator, most: int) -> list[int]:
        first, last = math.ceil((low - old) / self.step - CLOSE), math.floor((high - old) / self.step + CLOSE)
        if last <= first:
            return [] if last < first else [first]
        if last - first <= most:
            return list(range(first, last + 1))
        near = [round((value - old) / self.step) + k for value in self.observed for k in (-1, 0, 1)]
        counts = {*range(-6, 7), first, last, *near, *rng.integers(first, last + 1, 10).tolist()}
        return sorted(k for k in counts if first <= k <= last)

    def stepped(self, old: float, count: int) -> float:
        """Return a number some steps away, computed with the decimals as people write them."""
        start = str(np.float32(old)) if self.single else repr(float(old))
        return float(Decimal(start) + int(count) * Decimal(repr(float(self.step))))


@dataclass
class CategoryRule:
    """How a category or a boolean may change."""

    name: str
    order: tuple[Any, ...]
    allowed: tuple[Any, ...]
    price: float
    ordered: bool
    fixed: bool

    def cost(self, before: Any, after: Any) -> float:
        """Return the cost of a change."""
        if (is_missing(before) and is_missing(after)) or before == after:
            return 0.0
        return self.price * (abs(self.order.index(before) - self.order.index(after)) if self.ordered else 1)

    def broken(self, before: Any, after: Any) -> str:
        """Return which rule a change breaks; "" if it breaks none."""
        if is_missing(before) or is_missing(after):
            return "" if is_missing(before) and is_missing(after) else "missing values stay missing"
        if before == after:
            return ""
        if self.fixed:
            return "immutable"
        return "" if after in self.allowed else "values"

    def targets(self, before: Any, rng: np.random.Generator, most: int) -> list[Any]:
        """Return the categories to which a value may change."""
        found = [value for value in self.allowed if not self.broken(before, value) and value != before]
        return [found[i] for i in sorted(rng.choice(len(found), most, replace=False))] if len(found) > most else found


Rule = NumberRule | CategoryRule


def rulebook(columns: Iterable[Drawn]) -> dict[str, Rule]:
    """Return the rule of each column, or of each category that several columns encode."""
    found: dict[str, Rule] = {}
    groups: dict[str, list[Drawn]] = {}
    for column in columns:
        if column.sort == "dummy" and column.traits["ruled"]:
            groups.setdefault(column.traits["group"], []).append(column)
        else:
            found[column.name] = rule_of(column)
    for group, parts in groups.items():
        rule = parts[0].rule or {}
        values = tuple(part.traits["value"] for part in parts)
        zeros = bool((sum(part.train.astype(float) for part in parts) == 0).any())
        every = values + (("none",) if zeros else ())
        allowed = tuple(rule.get("values", every))
        found[group] = CategoryRule(group, every, allowed, rule.get("cost", 1.0), False, False)
    return found


def rule_of(column: Drawn) -> Rule:
    """Return the rule of a column."""
    rule, train = column.rule or {}, column.train
    kind = rule.get("kind")
    boolean = kind == "boolean" or (kind is None and pd.api.types.is_bool_dtype(train.dtype))
    if boolean or kind == "category" or column.as_category:
        return _category(column, rule, boolean)
    present = train.dropna().astype(np.float64)
    distinct = np.unique(present)
    unit = rule.get("unit", float(np.std(present)) if len(distinct) > 1 else 0.0)
    low, high = (distinct[0], distinct[-1]) if len(distinct) else (-math.inf, math.inf)
    values = rule.get("values")
    if values is None and rule.get("plausible") == "observed":
        values = distinct.tolist()
    nonzero = np.abs(distinct[distinct != 0])
    resolution = 0.0 if rule.get("values") is not None else _resolution(distinct, train.dtype == np.float32)
    step = rule.get("step", resolution)
    low, high = rule.get("low", low), rule.get("high", high)
    whole = None
    if isinstance(train.dtype, np.dtype) and train.dtype.kind in "iu" and step == round(step) != 0:
        held = np.iinfo(train.dtype)
        if held.min <= low and high <= held.max:  # otherwise the user asks for other numbers than the type holds
            whole = (float(held.min), float(held.max))
    return NumberRule(
        column.name,
        unit=unit or 1.0,
        low=low,
        high=high,
        step=step,
        direction=rule.get("direction", "both"),
        values=None if values is None else frozenset(map(float, values)),
        gap=float(nonzero.min()) if rule.get("plausible") == "zero_or_at_least" and len(nonzero) else 0.0,
        fixed=bool(rule.get("immutable")) or unit == 0,
        single=train.dtype == np.float32,
        whole=whole,
        observed=tuple(distinct.tolist()),
    )


def _resolution(distinct: Any, single: bool) -> float:
    """Return the largest of 1, 0.1, 0.01, … down to a millionth of which all numbers are multiples."""
    for decimals in range(7):
        texts = [f"{value:.{decimals}f}" for value in distinct]
        rounded = np.array([float(np.float32(text)) if single else float(text) for text in texts])
        if len(distinct) and (rounded == distinct).all():
            return float(f"1e-{decimals}")
    return 0.0


def _category(column: Drawn, rule: dict[str, Any], boolean: bool) -> CategoryRule:
    present = set(column.train.dropna().astype(object).tolist())
    dtype = column.train.dtype
    of_type = list(dtype.categories) if isinstance(dtype, pd.CategoricalDtype) else None
    ordered = rule.get("ordered", bool(getattr(dtype, "ordered", False)))
    if boolean:
        order: list[Any] = [False, True] if pd.api.types.is_bool_dtype(dtype) else [0, 1]
        present = set(order)
    elif rule.get("values") is not None:
        order = list(rule["values"])
    elif of_type is not None:
        order = of_type
    else:
        order = list(present)
    allowed = tuple(rule.get("values") or [value for value in order if value in present])
    return CategoryRule(
        column.name, tuple(order), allowed, rule.get("cost", 1.0), bool(ordered), bool(rule.get("immutable"))
    )
