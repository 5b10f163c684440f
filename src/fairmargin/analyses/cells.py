"""Cells of tables: estimates, p-values, names and counts as formatted text."""

import math
from collections.abc import Callable, Iterable, Sequence

from fairmargin.analyses.table import GroupRow
from fairmargin.core.undefined import reason_of
from fairmargin.errors import visible
from fairmargin.inference.estimate import (
    LESS_ROBUST,
    MORE_ROBUST,
    NO_DIFFERENCE,
    NO_VERDICT,
    NOT_COMPARABLE,
    TOO_FEW,
    Estimate,
)
from fairmargin.presentation.formatting import (
    USELESS,
    fixed,
    is_factor,
    limit_text,
    number,
    plain,
    shows_digits,
    table_p,
    table_share,
    useless_above,
)
from fairmargin.presentation.section import (
    LESS,
    MISSING,
    MORE,
    SAME,
    UNSURE,
    Cell,
    Column,
    Mark,
    Table,
)

MARKS: dict[str, Mark] = {
    LESS_ROBUST: LESS,
    MORE_ROBUST: MORE,
    NO_DIFFERENCE: SAME,
    TOO_FEW: UNSURE,
    NO_VERDICT: UNSURE,
    NOT_COMPARABLE: MISSING,
}
GROUP = Column("group", kind="text")
VERDICT = Column("verdict", kind="verdict")
SAMPLES = Column("samples", hidden=True)


def table_of(
    rows: Sequence[GroupRow],
    columns: Sequence[tuple[Column, Iterable[Cell]]],
    *,
    marks: Iterable[Mark] = (),
    caption: str = "",
    label: str = "",
) -> Table:
    """Return a table with one row per group: its name, then columns, each with the cells of all rows."""
    heads, cells = zip((GROUP, map(group_cell, (row.group for row in rows))), *columns, strict=True)
    return Table(heads, tuple(zip(*cells, strict=True)), tuple(marks), caption, label)


def group_cell(name: str) -> Cell:
    """Return a cell with the name of a group; control characters are shown as escapes."""
    return Cell(visible(name) if name.strip() else plain(name))


def count(number: int) -> Cell:
    """Return a cell with a number of samples."""
    return Cell(f"{number:,}")


def p_cell(p: float) -> Cell:
    """Return a cell with a p-value, or with the reason why there is none."""
    return Cell("undefined", note=reason_of(p)) if math.isnan(p) else Cell(table_p(p))


def decimals_of(estimates: Sequence[Estimate]) -> int:
    """Return the number of decimals with which a column of these estimates shows three or four digits."""
    values = [e.value for e in estimates if e.is_defined]
    largest = max(map(abs, values), default=0.0)
    return decimals_for([*values, *(e.high for e in estimates if abs(e.high) <= 10 * largest)] or [0.0])


def largest_of(estimates: Sequence[Estimate]) -> float:
    """Return the largest of some means, beside which `length` judges limits; infinite if there is none."""
    return max((e.value for e in estimates if e.value > 0), default=math.inf)


def decimals_for(values: Sequence[float]) -> int:
    """Return the number of decimals with which a column of these numbers shows three or four digits."""
    sizes = [abs(v) for v in values if math.isfinite(v) and v != 0]
    return min(max(2 - math.floor(math.log10(max(sizes) / 3)), 0), 8) if sizes else 2


def length(estimate: Estimate, decimals: int, *, signed: bool = False, scale: float = math.inf) -> Cell:
    """Return a distance with its interval. Numbers that `decimals` decimals would round to 0 are shown with more.

    Of limits beyond 100 times the `scale`, the size of the means, only that is shown.
    """
    most = USELESS * scale

    def shown(value: float) -> str:
        text = fixed(value, decimals, signed=signed)
        if value == 0 or not math.isfinite(value) or shows_digits(text):
            return text
        return f"{'+' if signed and value > 0 else ''}{number(value)}"

    def limit(value: float) -> str:
        if abs(value) <= most or math.isinf(value):
            return shown(value)
        return f"< −{number(most)}" if value < 0 else f"> {number(most)}"

    return _cell(estimate, shown, limit)


def share(estimate: Estimate, *, signed: bool, unit: str = " %", alone: Estimate | None = None) -> Cell:
    """Return a cell with a share in percent, or a change of one in points (`unit=""`), and its interval.

    `alone` is the same number with an interval of the group alone, which is noted if it differs.
    """

    def shown(given: Estimate) -> Cell:
        if unit:
            most = useless_above(given.value)
            return _cell(
                given,
                lambda value: table_share(value, signed=signed),
                lambda end: _share_limit(end, most, signed=signed),
            )
        return _cell(given, lambda value: fixed(100 * value, 1, signed=signed))

    cell = shown(estimate)
    if not estimate.is_defined:
        return cell
    own = "" if alone is None else shown(alone).interval
    text = cell.text if unit and is_factor(estimate.value) else f"{cell.text}{unit}"
    return Cell(text, cell.interval, cell.note or (f"alone {own}" if own else ""))


def _share_limit(value: float, most: float, *, signed: bool) -> str:
    """Return a limit of a share; one that tells nothing, or is just above −100 %, as above a round number."""
    if most < value < math.inf:
        return f"> ×{number(1 + most)}"
    text = table_share(value, signed=signed)
    return "> −100" if value > -1 and text == "−100.0" else text


def _cell(estimate: Estimate, show: Callable[[float], str], show_limit: Callable[[float], str] | None = None) -> Cell:
    if not estimate.is_defined:
        return Cell("undefined", note=estimate.reason or reason_of(estimate.value))
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return Cell(show(estimate.value), note=estimate.reason or "no interval")
    limits = bracketed(estimate.low, estimate.high, show_limit or show, abs(estimate.value))
    return Cell(show(estimate.value), limits, estimate.reason)


def bracketed(low: float, high: float, show: Callable[[float], str], size: float = 1.0) -> str:
    """Return an interval in brackets, as tables show it.

    >>> bracketed(-0.3, 0.1, lambda value: fixed(100 * value, 1, signed=True))
    '[−30.0, +10.0]'
    """
    if math.isnan(low) or math.isnan(high):
        return ""
    return f"[{limit_text(low, show, size)}, {limit_text(high, show, size)}]"
