"""Numbers as tables show them: in one column one number of decimals, so that they align."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fairmargin.metrics.results import Estimate, limit_text
from fairmargin.metrics.undefined import reason_of
from fairmargin.report import spelling

_DIGITS = "123456789"  # a number that shows none of them is shown as 0


@dataclass(frozen=True, slots=True)
class Cell:
    """A value as a table shows it: text, interval, the interval of the group alone, and why something is missing."""

    text: str
    interval: str = ""
    reason: str = ""
    alone: str = ""


def p_cell(p: float) -> Cell:
    """A p-value, or why there is none."""
    if math.isnan(p):
        return Cell("undefined", reason=reason_of(p))
    return Cell(spelling.p_value(p).removeprefix("p ").removeprefix("= "))


def decimals_of(estimates: Sequence[Estimate]) -> int:
    """How many decimals a column of these needs."""
    sizes = [abs(v) for e in estimates for v in (e.value, e.high) if math.isfinite(v) and v != 0]
    return min(max(2 - math.floor(math.log10(max(sizes) / 3)), 0), 8) if sizes else 2  # three or four digits


def length(estimate: Estimate, decimals: int, *, signed: bool = False) -> Cell:
    """A distance with its interval. A number that the decimals of its column would make 0 has decimals of its own."""

    def shown(value: float) -> str:
        text = fixed(value, decimals, signed=signed)
        if value == 0 or not math.isfinite(value) or any(digit in text for digit in _DIGITS):
            return text
        return f"{'+' if signed and value > 0 else ''}{spelling.number(value)}"

    return _cell(estimate, shown)


def share(estimate: Estimate, *, signed: bool, alone: Estimate | None = None) -> Cell:
    """A share in percent with its interval, and the interval of the group alone if there are two kinds."""

    def shown(given: Estimate) -> Cell:
        return _cell(given, lambda value: fixed(100 * value, 1, signed=signed))

    cell, own = shown(estimate), "" if alone is None else shown(alone).interval
    return Cell(f"{cell.text} %" if estimate.is_defined else cell.text, cell.interval, cell.reason, own)


def _cell(estimate: Estimate, show: Callable[[float], str]) -> Cell:
    if not estimate.is_defined:
        return Cell("undefined", reason=estimate.reason or reason_of(estimate.value))
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return Cell(show(estimate.value), reason=estimate.reason or "no interval")
    low, high = (limit_text(limit, show, abs(estimate.value)) for limit in (estimate.low, estimate.high))
    return Cell(show(estimate.value), f"[{low}, {high}]", estimate.reason)


def fixed(value: float, decimals: int, *, signed: bool) -> str:
    """A number with so many decimals and a real minus sign.

    >>> fixed(-0.25, 1, signed=True), fixed(3.0, 2, signed=True), fixed(0.0, 1, signed=True)
    ('−0.2', '+3.00', '0.0')
    """
    if math.isinf(value):
        return "−∞" if value < 0 else "∞"
    text = f"{abs(value):,.{decimals}f}"
    if not any(digit in text for digit in _DIGITS):
        return text
    return f"−{text}" if value < 0 else f"+{text}" if signed else text
