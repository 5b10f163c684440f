"""Claims of a paper, the rows in which they are answered, and the rules by which results become verdicts."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from string import ascii_lowercase
from typing import Literal, Protocol

from fairmargin.errors import InputError

Testable = Literal["closely", "direction", "not here"]
Verdict = Literal["holds", "does not hold", "undecided", "not tested"]
Side = Literal["above", "below"]
Interval = tuple[float, float]


class Limits(Protocol):
    """An estimate with an interval, for instance an `Estimate` of an audit or a mean over seeds."""

    @property
    def low(self) -> float:
        """Lower limit."""

    @property
    def high(self) -> float:
        """Upper limit."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict, the interval by which it was reached, and for agreements the share expected by chance."""

    verdict: Verdict
    interval: Interval | None = None
    chance: float | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of a paper, and the result found here.

    A claim starts as the paper prints it, not tested; `found` returns a row with a result.

    Parameters
    ----------
    paper
        Short name of the paper in the catalog.
    number
        Number of the claim within the paper.
    text
        The claim in one sentence.
    printed
        What the paper prints; empty if it prints no number.
    testable
        "closely", in "direction" only (with smaller networks or data), or "not here".
    ours
        The result.
    interval
        Interval of the result, if it is an estimate.
    verdict
        "holds", "does not hold", "undecided" or "not tested".
    remark
        Conditions of the result, or the reason why there is none.
    letter
        Tells apart several rows of one claim.
    chance
        For agreements: the share expected by chance.

    >>> blank = Claim("nanda", 2, "One class's curve falls faster.", "", "closely")
    >>> row = blank.found("σ = −0.4", "holds")
    >>> row.verdict, row.name
    ('holds', '2')
    """

    paper: str
    number: int
    text: str
    printed: str
    testable: Testable
    ours: str = ""
    interval: Interval | None = None
    verdict: Verdict = "not tested"
    remark: str = ""
    letter: str = ""
    chance: float | None = None

    def __post_init__(self) -> None:
        if self.interval is not None:
            _limits(self.interval)
        if self.chance is not None and not 0 <= self.chance <= 1:
            raise InputError(f"`chance` of a claim is a share between 0 and 1; given {self.chance!r}.")

    @property
    def name(self) -> str:
        """Number of the claim, with a letter if it has several rows, such as "4b"."""
        return f"{self.number}{self.letter}"

    def found(
        self, ours: str, decision: Decision | Verdict, *, remark: str = "", text: str = "", printed: str | None = None
    ) -> "Claim":
        """Return the row with the result; `text` and `printed` replace those of the claim if given."""
        decided = decision if isinstance(decision, Decision) else Decision(decision)
        return replace(
            self,
            ours=ours,
            verdict=decided.verdict,
            interval=decided.interval,
            chance=decided.chance,
            remark=remark.strip(),
            text=text or self.text,
            printed=self.printed if printed is None else printed,
        )

    def untested(self, reason: str, *, text: str = "", printed: str | None = None) -> "Claim":
        """Return the row of a claim that was not tested, with the reason."""
        return self.found("", "not tested", remark=reason, text=text, printed=printed)


def numbered(paper: str, *claims: tuple[Testable, str, str], first: int = 1) -> tuple[Claim, ...]:
    """Return claims with consecutive numbers, each given by how it can be tested, its text, and what is printed.

    >>> [claim.name for claim in numbered("p", ("closely", "It holds.", "Theorem 1"), ("direction", "It falls.", ""))]
    ['1', '2']
    """
    return tuple(Claim(paper, i, text, printed, testable) for i, (testable, text, printed) in enumerate(claims, first))


def lettered(rows: Iterable[Claim]) -> tuple[Claim, ...]:
    """Sort rows by claim, and add letters to those of claims with several rows, unless they have one.

    >>> blank = [Claim("tran", number, "", "", "closely") for number in (9, 10, 9)]
    >>> [row.name for row in lettered(blank)]
    ['9a', '9b', '10']
    """
    ordered = sorted(rows, key=lambda row: (row.number, row.letter))
    several, seen = Counter(row.number for row in ordered), Counter[int]()
    found = []
    for row in ordered:
        letter = row.letter or (ascii_lowercase[seen[row.number]] if several[row.number] > 1 else "")
        seen[row.number] += 1
        found.append(replace(row, letter=letter))
    return tuple(found)


def directed(estimate: Limits | None, side: Side, than: float = 0.0) -> Decision:
    """Decide whether a number lies above, or below, another; an undefined one is undecided and has no interval."""
    interval = interval_of(estimate)
    return Decision("undecided") if interval is None else Decision(by_direction(interval, side, than), interval)


def near(estimate: Limits, printed: float, tolerance: float) -> Decision:
    """Decide whether a number is the printed one, see `by_number`; an undefined one is undecided."""
    interval = interval_of(estimate)
    return Decision("undecided") if interval is None else Decision(by_number(interval, printed, tolerance), interval)


def agreed(share: Limits, chance: float) -> Decision:
    """Decide whether the share of agreement of two results is larger than expected by chance.

    >>> from fairmargin_papers.shared.trained import SeedMean
    >>> agreed(SeedMean(0.9, 0.85, 0.97), chance=0.5).verdict, agreed(SeedMean(0.7, 0.45, 0.97), chance=0.5).verdict
    ('holds', 'undecided')
    """
    return replace(directed(share, "above", chance), chance=chance)


def interval_of(estimate: Limits | None) -> Interval | None:
    """Return the limits of an estimate; None if there is none, or if it is undefined (NaN)."""
    if estimate is None or math.isnan(estimate.low) or math.isnan(estimate.high):
        return None
    return float(estimate.low), float(estimate.high)


def by_direction(interval: Interval, side: Side, than: float = 0.0) -> Verdict:
    """Decide whether a number lies above, or below, another: only if the whole interval lies on one side.

    >>> by_direction((0.1, 0.3), "above"), by_direction((0.1, 0.3), "below"), by_direction((-0.1, 0.3), "above")
    ('holds', 'does not hold', 'undecided')
    """
    if side not in ("above", "below"):
        raise InputError(f"A claim lies 'above' or 'below' a number; given {side!r}.")
    low, high = _limits(interval)
    if math.isnan(low) or math.isnan(high) or low <= than <= high:
        return "undecided"
    return "holds" if (low > than) == (side == "above") else "does not hold"


def by_number(interval: Interval, printed: float, tolerance: float) -> Verdict:
    """Decide whether a number is the printed one, up to a tolerance that is fixed in advance.

    It is if the whole interval lies within the tolerance, and is not if the whole interval lies outside. An interval
    that merely contains the printed number decides nothing, because a wide one contains every number.

    >>> by_number((0.39, 0.42), 0.40, 0.05), by_number((0.2, 0.3), 0.40, 0.05), by_number((0.0, 1.0), 0.40, 0.05)
    ('holds', 'does not hold', 'undecided')
    """
    low, high = _limits(interval)
    if printed - tolerance <= low and high <= printed + tolerance:
        return "holds"
    return "does not hold" if high < printed - tolerance or low > printed + tolerance else "undecided"


def by_settings(holding: int, of: int) -> Verdict:
    """Decide whether a theorem holds in all of many settings; one counter-example refutes it.

    >>> by_settings(500, 500), by_settings(499, 500), by_settings(0, 0)
    ('holds', 'does not hold', 'undecided')
    """
    if not 0 <= holding <= of:
        raise InputError(f"A statement holds in between 0 and all {of} settings; given {holding}.")
    return "undecided" if of == 0 else "holds" if holding == of else "does not hold"


def by_all(verdicts: Sequence[Verdict]) -> Verdict:
    """Decide a claim about several cases: all must hold, and one that does not hold refutes it.

    >>> by_all(["holds", "holds"]), by_all(["holds", "undecided"]), by_all(["undecided", "does not hold"])
    ('holds', 'undecided', 'does not hold')
    """
    if "does not hold" in verdicts:
        return "does not hold"
    return "holds" if verdicts and all(verdict == "holds" for verdict in verdicts) else "undecided"


def _limits(interval: Interval) -> Interval:
    low, high = interval
    if low > high:
        raise InputError(f"The lower limit of an interval must not exceed the upper one; given {low!r} and {high!r}.")
    return low, high
