"""What a page shows of certificates that may be false: what is left when the false ones are counted."""

from collections.abc import Sequence
from typing import Any

from fairmargin.analyses.certified import Certified, CertifiedGroup
from fairmargin.presentation import formatting
from fairmargin.presentation.formatting import fixed

READING = (
    "A certificate by smoothing says of one sample: nothing nearer than this radius changes the answer. It comes from "
    "many random trials, so that it may be false, though seldom. Of a whole group it can be said how many false ones "
    "there may be at most, and what remains true if all of these were the best ones. That is guaranteed, whatever an "
    "attacker tries; it speaks of the smoothed model, which answers by a vote under noise, and of these samples."
)


def blocks(certified: Sequence[tuple[Certified, str]]) -> dict[str, Any]:
    """What the template needs: one block a partition and estimator."""
    return {"reading": READING, "blocks": [_block(found, estimator) for found, estimator in certified]}


def guarantee_headline(found: Certified) -> str:
    """The group with the least guaranteed mean radius, in a sentence."""
    rows = sorted(found, key=lambda row: row.mean.guaranteed)
    least, most = rows[0], rows[-1]
    if most.mean.guaranteed == 0:
        return "For no group is any distance guaranteed."
    said = f"{formatting.quoted(least.group)} is guaranteed a mean distance of {_radius(least.mean.guaranteed)}"
    if len(rows) == 1:
        return f"{said}."
    return (
        f"{said}, the least of all groups; {formatting.quoted(most.group)} one of {_radius(most.mean.guaranteed)}, the "
        "most. "
        "Guarantees order nothing: who has less may be as far from the boundary."
    )


def false_sentence(found: Certified) -> str:
    """How many certificates may be false, in a sentence."""
    most = max(row.mean.false for row in found)
    if found.alpha == 0:
        return "None of these certificates can be false."
    allowed = f"Each certificate is false with a probability of at most {formatting.percent(found.alpha)}"
    level = formatting.percent(found.confidence)
    false = "none is" if most == 0 else f"at most {most:,} {'is' if most == 1 else 'are'}"
    return f"{allowed}. At {level} confidence, {false} false in any group."


def _block(found: Certified, estimator: str) -> dict[str, Any]:
    decimals = _decimals(found)
    return {
        "partition": formatting.plain(found.partition),
        "estimator": estimator,
        "subject": formatting.plain(found.subject),
        "norm": found.norm,
        "headline": guarantee_headline(found),
        "counting": false_sentence(found),
        "confidence": formatting.percent(found.confidence),
        "radii": [_radius(radius) for radius in found.radii],
        "rows": [_row(row, decimals) for row in found],
    }


def _row(row: CertifiedGroup, decimals: int) -> dict[str, Any]:
    return {
        "group": formatting.plain(row.group),
        "size": f"{row.mean.size:,}",
        "false": f"{row.mean.false:,}",
        "mean": tuple(fixed(value, decimals, signed=False) for value in (row.mean.value, row.mean.guaranteed)),
        "shares": [(_radius(each.radius), _percent(each.value), _percent(each.guaranteed)) for each in row.shares],
    }


def _decimals(found: Certified) -> int:
    return 3 if max(row.mean.value for row in found) < 10 else 1


def _radius(radius: float) -> str:
    return formatting.number(radius)


def _percent(share: float) -> str:
    return f"{fixed(100 * share, 1, signed=False)} %"
