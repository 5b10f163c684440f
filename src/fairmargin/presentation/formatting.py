"""Format names, numbers, p-values and intervals, the same everywhere. Plain text: whoever shows it escapes it."""

import math
import unicodedata
from collections.abc import Callable, Sequence

from fairmargin.core.bound import Bound

JUST_BEYOND_ZERO = 1e-12  # a limit that the correction for the number of groups moved to the other side of 0
_NAMES_AT_MOST = 5
_MILLION = 1e6  # larger factors are not printed
_MANY_TIMES = 10.0  # relative differences above it are shown as factors
USELESS = 100.0  # a limit so many times as large as its estimate tells nothing; its digits are not shown
_JOINERS = "\u200c\u200d"  # invisible, but part of Persian words and of emoji


def plain(name: str) -> str:
    """Return a name on one line without invisible control characters, which could reorder the text around it.

    >>> plain("two\\nlines\\u202e")
    'two lines'
    """
    kept = (c if c in _JOINERS or unicodedata.category(c) not in ("Cc", "Cf", "Cs") else " " for c in name)
    return " ".join("".join(kept).split()) or "(no name)"


def shorten(text: str, width: int) -> str:
    """Leave out the middle of a text that is longer than `width`: long names often differ at the end.

    >>> shorten("race=Other & sex=F & age=old", 15)
    'race=Ot…age=old'
    """
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail].rstrip()}…{text[len(text) - tail :].lstrip()}"


def quoted(name: str) -> str:
    """Quote a name for a sentence.

    >>> quoted("8")
    '“8”'
    """
    return f"“{shorten(plain(name), 60)}”"


def listed(items: Sequence[str], at_most: int = _NAMES_AT_MOST) -> str:
    """Join names into a list for a sentence.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], at_most=2)
    ('a, b and c', 'a, b and 1 more')
    """
    shown = list(items[:at_most])
    if len(items) > at_most:
        shown.append(f"{len(items) - at_most} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def several(number: int, noun: str) -> str:
    """Format a number with its noun.

    >>> several(1, "seed"), several(1200, "pair")
    ('1 seed', '1,200 pairs')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float, *, signed: bool = False) -> str:
    """Format a share in percent with two significant digits.

    >>> percent(0.313), percent(0.0312), percent(-0.0001), percent(1.0)
    ('31 %', '3.1 %', '−0.01 %', '100 %')
    >>> percent(0.313, signed=True), percent(-0.313, signed=True), percent(0.0, signed=True)
    ('+31 %', '−31 %', '0 %')
    """
    if not math.isfinite(share):
        return number(share)
    hundred = abs(share) * 100
    digits = 0 if hundred >= 9.95 or hundred == 0 else 1 if hundred >= 0.095 else 2
    return f"{_sign(share, signed=signed)}{hundred:.{digits}f} %"


def level_text(confidence: float) -> str:
    """Format a confidence level with all its digits.

    >>> level_text(0.95), level_text(0.995)
    ('95 %', '99.5 %')
    """
    return f"{100 * confidence:.6g} %"


def signed_percent(share: float) -> str:
    """Format a relative difference, such as σ, for a sentence: in percent with its sign, or as a factor if it is large.

    >>> signed_percent(-0.313), signed_percent(32.4)
    ('−31 %', '33.4 times')
    """
    return times(share) if is_factor(share) else percent(share, signed=True)


def is_factor(share: float) -> bool:
    """Return whether a relative difference is above +1,000 %, so that texts show it as a factor."""
    return _MANY_TIMES < share < math.inf


def times(share: float) -> str:
    """Format a relative difference as a factor.

    >>> times(904.2), times(5e14)
    ('905 times', 'more than 1,000,000 times')
    """
    return "more than 1,000,000 times" if share > _MILLION else f"{number(1 + share)} times"


def useless_above(share: float) -> float:
    """Return the relative difference above which the limit of a relative difference tells nothing.

    >>> useless_above(-0.3), useless_above(2.5)
    (99.0, 349.0)
    """
    return min(USELESS * max(1.0, 1 + share) - 1, _MILLION)


def relative_limits(share: float, low: float, high: float) -> str:
    """Format the interval of a relative difference, such as σ, for a sentence.

    >>> relative_limits(-0.2, -0.3, -0.1), relative_limits(-0.2, -0.9, 1e9)
    ('−30 % to −10 %', '−90 % to more than 100 times')
    """
    most = useless_above(share)
    return limits_text(low, high, lambda end: f"more than {times(most)}" if end > most else signed_percent(end))


def table_percent(share: float, *, signed: bool = True) -> str:
    """Format a share in percent for a table: one decimal, so that a column aligns; a dash where it is undefined.

    >>> table_percent(-0.265), table_percent(0.5, signed=False), table_percent(math.inf), table_percent(math.nan)
    ('−26.5 %', '50.0 %', '∞', '–')
    >>> table_percent(904.2)
    '×905'
    """
    shown = table_share(share, signed=signed)
    return f"{shown} %" if math.isfinite(share) and not is_factor(share) else shown


def table_share(share: float, *, signed: bool = True) -> str:
    """Format a share as `table_percent` does, without the unit; a difference above +1,000 % is a factor.

    >>> table_share(-0.265), table_share(904.2), table_share(5e14)
    ('−26.5', '×905', '> ×1,000,000')
    """
    if is_factor(share) and share > _MILLION:
        return "> ×1,000,000"
    return f"×{number(1 + share)}" if is_factor(share) else fixed(100 * share, 1, signed=signed)


def points(change: float, *, signed: bool = True) -> str:
    """Format a change of a share in percentage points.

    >>> points(-0.06), points(0.02, signed=False)
    ('−6.0', '2')
    """
    return fixed(100 * change, 1, signed=True) if signed else f"{abs(change) * 100:g}"


def number(value: float) -> str:
    """Format a number with three significant digits and a real minus sign.

    >>> number(-0.12345), number(float("inf")), number(float("nan")), number(1234.5)
    ('−0.123', '∞', 'undefined', '1,234')
    """
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return f"{_sign(value)}∞"
    size = abs(value)
    if size >= 1000:
        return f"{_sign(value)}{size:,.0f}" if size < 1e9 else f"{_sign(value)}{size:.2e}"
    return f"{_sign(value)}{size:.3g}"


def signed(value: float, digits: int = 4) -> str:
    """Format a difference with its sign and `digits` significant digits.

    >>> signed(-0.12345), signed(2.0, 3)
    ('−0.1235', '+2')
    """
    return f"{_sign(value, signed=True)}{abs(value):.{digits}g}"


def fixed(value: float, decimals: int, *, signed: bool) -> str:
    """Format a number with `decimals` decimals and a real minus sign; a dash for NaN.

    >>> fixed(-0.25, 1, signed=True), fixed(3.0, 2, signed=True), fixed(0.0, 1, signed=True)
    ('−0.2', '+3.00', '0.0')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "−∞" if value < 0 else "∞"
    text = f"{abs(value):,.{decimals}f}"
    if not shows_digits(text):
        return text
    return f"−{text}" if value < 0 else f"+{text}" if signed else text


def shows_digits(text: str) -> bool:
    """Return whether the text of a number differs from that of 0.

    >>> shows_digits("0.10"), shows_digits("−0.00 %")
    (True, False)
    """
    return any(digit in text for digit in "123456789")


def p_value(p: float) -> str:
    """Format a p-value for a sentence.

    >>> p_value(0.0001), p_value(0.0123), p_value(0.4), p_value(0.999), p_value(float("nan"))
    ('p < 0.001', 'p = 0.012', 'p = 0.40', 'p > 0.99', 'p undefined')
    """
    if math.isnan(p):
        return "p undefined"
    if p < 0.001:
        return "p < 0.001"
    if p > 0.99:
        return "p > 0.99"
    return f"p = {p:.3f}" if p < 0.0995 else f"p = {p:.2f}"


def table_p(p: float) -> str:
    """Format a p-value for a table; a dash where there is none.

    >>> table_p(0.0001), table_p(0.0123), table_p(float("nan"))
    ('< 0.001', '0.012', '–')
    """
    return "–" if math.isnan(p) else p_value(p).removeprefix("p ").removeprefix("= ")


def limit_text(limit: float, show: Callable[[float], str], size: float = 1.0) -> str:
    """Format a limit; one that would be rounded to 0, or lies just beyond it, is shown as below or above 0.

    `size` is the absolute value of the estimate; a limit counts as just beyond 0 if it is small compared with it.

    >>> limit_text(-JUST_BEYOND_ZERO, percent), limit_text(-0.3, percent)
    ('below 0', '−30 %')
    """
    text = show(limit)
    if limit == 0 or not math.isfinite(limit):
        return text
    if abs(limit) <= 10 * JUST_BEYOND_ZERO * size < math.inf or not shows_digits(text):
        return "below 0" if limit < 0 else "above 0"
    return text


def limits_text(low: float, high: float, show: Callable[[float], str], size: float = 1.0) -> str:
    """Format the ends of an interval for a sentence, or say that there is none.

    >>> limits_text(-0.3, -0.1, percent), limits_text(-0.3, math.nan, percent)
    ('−30 % to −10 %', 'no interval')
    """
    if math.isnan(low) or math.isnan(high):
        return "no interval"
    return f"{limit_text(low, show, size)} to {limit_text(high, show, size)}"


def radius_of(up_to: float) -> str:
    """Name the radius up to which statements about capped distances hold; empty if they were not capped.

    >>> radius_of(0.7), radius_of(math.inf)
    ('up to a radius of 0.7', '')
    """
    return f"up to a radius of {up_to:.4g}" if math.isfinite(up_to) else ""


def radius_words(up_to: float) -> str:
    """Name the radius at which distances were capped, and what that means."""
    return f"{radius_of(up_to)} (distances beyond it count as {up_to:.4g})"


def at_most(bound: Bound) -> str:
    """Return the words to put before a robust accuracy: "at most" for an attack, "at least" for a certificate."""
    return {Bound.UPPER: "at most ", Bound.LOWER: "at least ", Bound.NEITHER: "about "}.get(bound, "")


def _sign(value: float, *, signed: bool = False) -> str:
    return "−" if value < 0 else "+" if signed and value > 0 else ""
