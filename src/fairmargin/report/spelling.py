"""How names and numbers are spelled in a report. Plain text: whoever shows it escapes it."""

import math
import unicodedata
from collections.abc import Sequence

_NAMES_AT_MOST = 5
_JOINERS = "\u200c\u200d"  # invisible, but part of Persian words and of emoji


def plain(name: str) -> str:
    """A name on one line without invisible control characters, which could reorder the text around it.

    >>> plain("two\\nlines\\u202e")
    'two lines'
    """
    kept = (c if c in _JOINERS or unicodedata.category(c) not in ("Cc", "Cf", "Cs") else " " for c in name)
    return " ".join("".join(kept).split()) or "(no name)"


def shorten(text: str, width: int) -> str:
    """`text` with its middle left out if it is longer than `width`: long names often differ at the end.

    >>> shorten("race=Other & sex=F & age=old", 15)
    'race=Ot…age=old'
    """
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail].rstrip()}…{text[len(text) - tail :].lstrip()}"


def quoted(name: str) -> str:
    """A name as it stands in a sentence.

    >>> quoted("8")
    '“8”'
    """
    return f"“{shorten(plain(name), 60)}”"


def listed(items: Sequence[str], at_most: int = _NAMES_AT_MOST) -> str:
    """A list as one says it.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], at_most=2)
    ('a, b and c', 'a, b and 1 more')
    """
    shown = list(items[:at_most])
    if len(items) > at_most:
        shown.append(f"{len(items) - at_most} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def percent(share: float) -> str:
    """A share in percent with two digits that matter.

    >>> percent(0.313), percent(0.0312), percent(-0.0001), percent(1.0)
    ('31 %', '3.1 %', '−0.01 %', '100 %')
    """
    if not math.isfinite(share):
        return number(share)
    hundred = abs(share) * 100
    digits = 0 if hundred >= 9.95 or hundred == 0 else 1 if hundred >= 0.095 else 2
    return f"{_sign(share)}{hundred:.{digits}f} %"


def number(value: float) -> str:
    """A number with three digits that matter, and a real minus sign.

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


def p_value(p: float) -> str:
    """How a p-value stands in a sentence.

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


def _sign(value: float) -> str:
    return "−" if value < 0 else ""
