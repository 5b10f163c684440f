"""What a paper claims, what was found here, and the rules by which the one becomes a verdict on the other."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from fairmargin.errors import InputError

Testable = Literal["closely", "direction", "not here"]
Verdict = Literal["holds", "does not hold", "undecided", "not tested"]
Side = Literal["above", "below"]
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of a paper beside what was found here.

    A claim starts as the paper prints it, not tested; `found` gives what a run made of it.

    Parameters
    ----------
    paper
        Its short name in the catalog.
    number
        Which of the paper's claims.
    text
        The claim in one sentence.
    printed
        What the paper prints, as it prints it; empty if it prints no number.
    testable
        "closely", in "direction" only (smaller networks or data), or "not here".
    ours
        What was found.
    interval
        Its limits, if it is an estimate.
    verdict
        "holds", "does not hold", "undecided" or "not tested".
    remark
        Under what conditions, or why not.
    letter
        Tells apart several answers to one claim.
    chance
        For agreements: how often two would agree by chance.

    >>> blank = Claim("nanda", 2, "One class's curve falls faster.", "", "closely")
    >>> row = blank.found("σ = −0.4", by_direction((-0.5, -0.3), "below"), interval=(-0.5, -0.3))
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
        self,
        ours: str,
        verdict: Verdict,
        *,
        interval: Interval | None = None,
        remark: str = "",
        letter: str = "",
        text: str = "",
        printed: str | None = None,
        chance: float | None = None,
    ) -> "Claim":
        """Return the row with the result; `text` and `printed` replace those of the claim if given."""
        return replace(
            self,
            ours=ours,
            verdict=verdict,
            interval=interval,
            remark=remark,
            letter=letter,
            text=text or self.text,
            printed=self.printed if printed is None else printed,
            chance=chance,
        )

    def untested(self, reason: str) -> "Claim":
        """Return the row of a claim that was not tested, with the reason."""
        return replace(self, ours="", interval=None, verdict="not tested", remark=reason, letter="", chance=None)


def by_direction(interval: Interval, side: Side, than: float = 0.0) -> Verdict:
    """Whether a number lies above, or below, another: decided only if the whole interval lies on one side.

    >>> by_direction((0.1, 0.3), "above"), by_direction((0.1, 0.3), "below"), by_direction((-0.1, 0.3), "above")
    ('holds', 'does not hold', 'undecided')
    """
    if side not in ("above", "below"):
        raise InputError(f"A claim lies 'above' or 'below' a number; given {side!r}.")
    low, high = _limits(interval)
    if math.isnan(low) or math.isnan(high):
        return "undecided"
    if low > than:
        return "holds" if side == "above" else "does not hold"
    if high < than:
        return "holds" if side == "below" else "does not hold"
    return "undecided"


def by_number(interval: Interval, printed: float, tolerance: float) -> Verdict:
    """Whether a number is the printed one, up to a tolerance that is fixed beforehand.

    It is if the whole interval lies within the tolerance, and is not if the whole interval lies outside of it. That the
    interval merely contains the printed number decides nothing: a wide one contains every number.

    >>> by_number((0.39, 0.42), 0.40, 0.05), by_number((0.2, 0.3), 0.40, 0.05), by_number((0.0, 1.0), 0.40, 0.05)
    ('holds', 'does not hold', 'undecided')
    """
    low, high = _limits(interval)
    if math.isnan(low) or math.isnan(high):
        return "undecided"
    if printed - tolerance <= low and high <= printed + tolerance:
        return "holds"
    return "does not hold" if high < printed - tolerance or low > printed + tolerance else "undecided"


def by_settings(holding: int, of: int) -> Verdict:
    """Whether a theorem survived being looked at in many settings: one counter-example is enough against it.

    >>> by_settings(500, 500), by_settings(499, 500), by_settings(0, 0)
    ('holds', 'does not hold', 'undecided')
    """
    if not 0 <= holding <= of:
        raise InputError(f"A statement holds in between 0 and all {of} settings; given {holding}.")
    return "undecided" if of == 0 else "holds" if holding == of else "does not hold"


def by_agreement(interval: Interval, chance: float) -> Verdict:
    """Whether two agree more often than they would by chance.

    >>> by_agreement((0.85, 0.97), chance=0.5), by_agreement((0.45, 0.97), chance=0.5)
    ('holds', 'undecided')
    """
    return by_direction(interval, "above", chance)


def by_all(verdicts: Sequence[Verdict]) -> Verdict:
    """Of a claim about every one of several cases: one against it decides, and all must hold.

    >>> by_all(["holds", "holds"]), by_all(["holds", "undecided"]), by_all(["undecided", "does not hold"])
    ('holds', 'undecided', 'does not hold')
    """
    if "does not hold" in verdicts:
        return "does not hold"
    return "holds" if verdicts and all(verdict == "holds" for verdict in verdicts) else "undecided"


def limits_of(estimate: Any) -> Interval:
    """Return the interval of an object with `low` and `high`, such as an `Estimate`."""
    return float(estimate.low), float(estimate.high)


def _limits(interval: Interval) -> Interval:
    low, high = interval
    if low > high:
        raise InputError(f"The lower limit of an interval must not exceed the upper one; given {low!r} and {high!r}.")
    return low, high
