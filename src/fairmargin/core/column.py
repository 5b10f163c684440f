"""Columns of tables: how a value may change, and what a change costs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Bools, Floats, read_only
from fairmargin.errors import InputError

Kind = Literal["number", "category", "boolean"]
Direction = Literal["up", "down", "both"]
Plausible = Literal["any", "observed", "zero_or_at_least"]

KINDS: tuple[Kind, ...] = ("number", "category", "boolean")
DIRECTIONS: tuple[Direction, ...] = ("up", "down", "both")
PLAUSIBLE: tuple[Plausible, ...] = ("any", "observed", "zero_or_at_least")
_CURRENCIES = "$€£¥₹"
_ON_GRID = 1e-9  # tolerance, in steps, within which a number counts as a multiple of the step, besides rounding
_ROUNDING, _ROUNDING_SINGLE = 2.0**-50, 2.0**-22  # of differences, relative to the numbers, in double, single precision


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A rule for one column of a table; what is left out is chosen from the data.

    Parameters
    ----------
    kind
        "number", "category" or "boolean"; by default what the data and the model say.
    unit
        Change of a number that costs 1; by default the standard deviation in the training data.
    label
        Unit in which changes are described, such as "$" or "years".
    low, high
        Range in which a number may move; by default the observed range.
    step
        A number changes by multiples of this; 0 for any change. By default the resolution of the column.
    direction
        Whether a number may only rise ("up"), only fall ("down"), or both.
    values
        Categories, or numbers, to which a value may change; by default those in the training data. Ordered categories
        are given in their order.
    ordered
        Whether categories have an order; then a switch costs `cost` for each place that it moves.
    cost
        Cost of a switch to another category; 1 by default.
    immutable
        Whether the value never changes. By default only the columns that define the groups are immutable.
    plausible
        Numbers to which a value may change: "any", only "observed" ones, or zero or at least the smallest observed
        number that is not zero ("zero_or_at_least").

    >>> Column(kind="number", unit=10, step=1, direction="up").unit
    10.0
    """

    kind: Kind | None = None
    unit: float | None = None
    label: str = ""
    low: float | None = None
    high: float | None = None
    step: float | None = None
    direction: Direction = "both"
    values: Sequence[Any] | None = None
    ordered: bool | None = None
    cost: float | None = None
    immutable: bool | None = None
    plausible: Plausible = "any"

    def __post_init__(self) -> None:
        for name, known in (("kind", (None, *KINDS)), ("direction", DIRECTIONS), ("plausible", PLAUSIBLE)):
            if getattr(self, name) not in known:
                allowed = ", ".join(repr(each) for each in known if each is not None)
                raise InputError(f"must be one of {allowed}", field=name, given=getattr(self, name), of="Column")
        for name in ("unit", "low", "high", "step", "cost"):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
                raise InputError("must be a number", field=name, given=value, of="Column")
            if math.isnan(value) or (math.isinf(value) and name not in ("low", "high")):
                raise InputError("must be a finite number", field=name, given=value, of="Column")
            object.__setattr__(self, name, float(value))
        if self.unit is not None and self.unit <= 0:
            raise InputError("must be positive", field="unit", given=self.unit, of="Column")
        for name in ("step", "cost"):
            if (value := getattr(self, name)) is not None and value < 0:
                raise InputError("must not be negative", field=name, given=value, of="Column")
        if self.cost == 0:
            raise InputError("must be positive: a switch that costs nothing has no distance", field="cost", of="Column")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise InputError(
                f"must not exceed `high`, which is {self.high:g}", field="low", given=self.low, of="Column"
            )
        for name in ("ordered", "immutable"):
            if not isinstance(getattr(self, name), bool | None):
                raise InputError("must be True or False", field=name, given=getattr(self, name), of="Column")
        if not isinstance(self.label, str):
            raise InputError("must be a text such as '$'", field="label", given=self.label, of="Column")
        if self.values is not None:
            if (
                isinstance(self.values, str)
                or not isinstance(self.values, Sequence | np.ndarray)
                or not len(self.values)
            ):
                raise InputError("must be a list of at least one value", field="values", given=self.values, of="Column")
            object.__setattr__(self, "values", tuple(np.asarray(self.values, dtype=object).tolist()))


@dataclass(frozen=True, slots=True, eq=False)
class TableColumn:
    """A column of a table with all its rules. Rows are stored as numbers: a category by its place, missing as NaN.

    Parameters
    ----------
    name
        Name of the column.
    kind
        "number", "category" or "boolean"; booleans are stored as 0 and 1.
    unit
        Change of a number that costs 1.
    low, high
        Range in which a number may move. A value outside may stay, or move into it.
    step
        A number changes by multiples of this; 0 for any change.
    direction
        Whether a number may only rise, only fall, or both.
    allowed
        The sorted numbers to which a value may change; None for all.
    gap
        A number may change to 0 or to a number of at least this size; 0 for all numbers.
    categories
        The values of a category by their places; (False, True) for booleans; () for numbers.
    reachable
        Places of the categories to which a row may switch.
    cost
        Cost of a switch, or of one place if the categories are ordered.
    ordered
        Whether categories have an order.
    immutable
        Whether the value never changes.
    label
        Unit in which changes are described.
    single
        Whether the user's table holds the numbers in single precision; then a value moves to such numbers only.
    parts
        The columns of the user's table that encode this category, one for each category, if there are several.
    source
        How the rules came about, in words, for the columns of the report.
    """

    name: str
    kind: Kind
    unit: float = 1.0
    low: float = -math.inf
    high: float = math.inf
    step: float = 0.0
    direction: Direction = "both"
    allowed: Floats | None = None
    gap: float = 0.0
    categories: tuple[Any, ...] = ()
    reachable: tuple[int, ...] = ()
    cost: float = 1.0
    ordered: bool = False
    immutable: bool = False
    label: str = ""
    single: bool = False
    parts: tuple[str, ...] = ()
    source: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.allowed is not None:
            object.__setattr__(self, "allowed", read_only(np.unique(np.asarray(self.allowed, dtype=np.float64))))

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers; otherwise it holds places of categories."""
        return self.kind == "number"

    def switch_costs(self) -> Floats:
        """Return the cost of switching from each category to each category, as a square matrix."""
        places = np.arange(len(self.categories))
        apart = np.abs(places[:, None] - places[None, :])
        counted = apart if self.ordered else np.minimum(apart, 1)
        return np.asarray(self.cost * counted.astype(np.float64))

    def cost_of(self, before: npt.ArrayLike, after: npt.ArrayLike) -> Floats:
        """Return the cost of changes; 0 where both are missing."""
        old, new = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
        same = (old == new) | (np.isnan(old) & np.isnan(new))
        with np.errstate(invalid="ignore"):
            apart = np.abs(new - old)
        if self.is_number:
            return np.where(same, 0.0, apart / self.unit)
        return np.where(same, 0.0, self.cost * (apart if self.ordered else 1.0))

    def allows(self, before: npt.ArrayLike, after: npt.ArrayLike) -> Bools:
        """Return whether each change keeps all rules of the column. A value that stays is always allowed.

        >>> TableColumn("age", "number", low=17, high=90, step=1, direction="up").allows([30, 30, 30], [31, 29, 30.5])
        array([ True, False, False])
        """
        old, new = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
        same = (old == new) | (np.isnan(old) & np.isnan(new))
        if self.immutable:
            return np.asarray(same)
        if not self.is_number:
            return np.asarray(same | (np.isin(new, self.reachable) & ~np.isnan(old)))
        with np.errstate(invalid="ignore"):
            valid = (new >= self.low) & (new <= self.high)
            if self.direction != "both":
                valid &= (new > old) if self.direction == "up" else (new < old)
            if self.step:
                steps, size = (new - old) / self.step, np.maximum(np.abs(old), np.abs(new)) / self.step
                slack = _ON_GRID + (_ROUNDING_SINGLE if self.single else _ROUNDING) * size
                valid &= (np.abs(steps - np.rint(steps)) <= slack) & (np.rint(steps) != 0)
            if self.gap:
                valid &= (new == 0) | (np.abs(new) >= self.gap)
            if self.single:
                valid &= new == new.astype(np.float32)
        if self.allowed is not None:
            valid &= np.isin(new, self.allowed)
        return np.asarray(same | (valid & ~np.isnan(old)))

    def described(self, before: float, after: float) -> str:
        """Describe a change in words.

        >>> TableColumn("capital gain", "number", label="$").described(0.0, 9400.0)
        'capital gain +$9,400'
        >>> job = TableColumn("job", "category", categories=("cook", "nurse"))
        >>> job.described(0, 1), job.described(2, 1)
        ('job cook → nurse', 'job an unknown value → nurse')
        """
        if not self.is_number:
            return f"{self.name} {self._named(before)} → {self._named(after)}"
        sign, size = "+" if after > before else "−", _short(abs(after - before))
        if self.label and self.label in _CURRENCIES:
            return f"{self.name} {sign}{self.label}{size}"
        return f"{self.name} {sign}{size}{f' {self.label}' if self.label else ''}"

    def _named(self, place: float) -> str:
        """Return the category at a place; the place after the last one stands for all others."""
        if math.isnan(place):
            return "missing"
        return str(self.categories[int(place)]) if place < len(self.categories) else "an unknown value"

    def fingerprint(self) -> str:
        """Return a hash of everything that determines which changes are allowed and what they cost."""
        numbers = (self.unit, self.low, self.high, self.step, self.gap, self.cost)
        allowed = b"" if self.allowed is None else self.allowed.astype("<f8").tobytes()
        rest = (self.direction, self.categories, self.reachable, self.ordered, self.immutable, self.single, self.parts)
        return sha256(repr((self.name, self.kind, *map(float, numbers), *rest)).encode() + allowed).hexdigest()


def _short(number: float) -> str:
    """Return a number with separators, without a fraction if it has none."""
    return f"{number:,.0f}" if number == round(number) else f"{number:,.4g}"
