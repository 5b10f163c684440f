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


def _block(found: Certified, estimator: str) -> dict[str, Any]:
    decimals = _decimals(found)
    return {
        "partition": formatting.plain(found.partition),
        "estimator": estimator,
        "subject": formatting.plain(found.subject),
        "norm": found.norm,
        "headline": found.headline,
        "counting": found.counting,
        "confidence": formatting.level_text(found.confidence),
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
