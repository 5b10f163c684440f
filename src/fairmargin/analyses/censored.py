"""What results say of searches that failed at different depths, and of σ that no assumption on depths is needed for."""

import math
from collections.abc import Iterable

from fairmargin.analyses.cells import bracketed
from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST, Estimate
from fairmargin.presentation.formatting import listed, quoted, signed_percent
from fairmargin.presentation.section import Cell, Column

CENSORING = (
    "Searches failed at different depths. Means are areas below Kaplan–Meier curves, which count a failed search as "
    "far as it looked. They assume that, inside a group, the depth of a search does not depend on the distance."
)
UNKNOWN_DEPTH = "Searches whose depth is not known are assumed to have looked as far as the cap."
WITHOUT_ASSUMPTION = "The column “σ at any depth” shows what σ can be without this assumption."
BY_INFLUENCE = "Means: Kaplan and Meier's method; what follows uses each sample's influence on them. "
BAND = "Hall and Wellner's band, everywhere as wide as at the cap"
ANY_DEPTH = Column("σ at any depth", "of failed searches", hidden=True)


def assumptions(*, is_censored: bool, bounds_differ: bool) -> str:
    """Return what is assumed of the searches that failed before the cap; empty if there are none."""
    if is_censored:
        return f"{CENSORING} {WITHOUT_ASSUMPTION}"
    return f"{UNKNOWN_DEPTH} {WITHOUT_ASSUMPTION}" if bounds_differ else ""


def depends_on_depth(rows: Iterable[tuple[str, str, Estimate | None]], *, is_censored: bool) -> str:
    """Name the groups whose verdict needs an assumption on depths, given name, verdict and bounds of σ of each.

    `is_censored` says whether searches failed at a known depth before the cap.
    """
    judged = [(group, bounds) for group, verdict, bounds in rows if verdict in (LESS_ROBUST, MORE_ROBUST)]
    undecided = [quoted(group) for group, sigma in judged if sigma and not (sigma.low > 0 or sigma.high < 0)]
    if not undecided:
        return ""
    what = "that searches of unknown depth looked as far as the cap: if they did not"
    how = "Give the depth (`tried`) to need no assumption."
    if is_censored:
        what = (
            "that the depth of a failed search does not depend on the distance: if failed searches are counted from "
            "their depth up to the cap"
        )
        how = "Search farther to need no assumption."
    return (
        f"The verdict on {listed(undecided)} rests on the assumption {what}, σ can have either sign "
        f"(column “σ at any depth”). {how}"
    )


def depth_cell(sigma: Estimate | None) -> Cell:
    """Return the bounds of σ that hold at any depth of the searches as a cell."""
    if sigma is None:
        return Cell("")
    if math.isnan(sigma.low):
        return Cell("undefined", note=sigma.reason)
    return Cell(bracketed(sigma.low, sigma.high, signed_percent))
