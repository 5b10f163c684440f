"""Data of the figures that several results share: robustness curves, and intervals of σ."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from fairmargin.analyses.cells import MARKS
from fairmargin.analyses.summary import ComparedGroup, by_sigma
from fairmargin.core.arrays import Floats
from fairmargin.core.curve import RobustnessCurve
from fairmargin.core.norm import Norm
from fairmargin.inference.estimate import (
    Estimate,
)
from fairmargin.presentation.formatting import (
    level_text,
    listed,
    number,
    plain,
    quoted,
    relative_limits,
    shorten,
    signed_percent,
)
from fairmargin.presentation.section import (
    Curves,
    Intervals,
    Line,
    Range,
)

MANY_GROUPS = 12  # of more, the least and the most robust stand out and the others are grey
WIDEST_BAND = 0.4  # a wider band would cover the figure and say nothing
MANY_BANDS = 5  # more of them would blend into one grey
Colour = Literal["own", "least", "most", "grey"]
_RESOLUTION = 190  # a curve is at most 1 wide and 1 high, so it keeps at most twice as many points


class GroupWithCurve(ComparedGroup):
    """Mixin without fields: a group with its robustness curve and the half-width of its confidence band."""

    __slots__ = ()

    size: int
    curve: RobustnessCurve
    band: float


def robustness_curves(
    rows: Sequence[GroupWithCurve], norm: Norm, up_to: float, *, everyone: bool = True, alt: str = ""
) -> Curves:
    """Return I_P(τ) of every group: the share still classified correctly when perturbed up to τ.

    The steps are exact up to half a percent of the axes. A band that would cover most of the figure is left out, and
    with more than five groups only the least and the most robust have one. `everyone` adds the curve of all samples,
    and `alt` describes the figure in a sentence.
    """
    end = _view_end(rows, up_to)
    judged = [row for row in by_sigma(rows) if row.sigma.is_defined] or rows
    colours = colours_of([row.group for row in rows], judged[0].group, judged[-1].group)
    banded = frozenset(name for name in _banded(rows, end) if colours[name] != "grey")
    lines = [
        Line(
            f"{row.group} (n = {row.size:,})",
            *_corners(row.curve, end),
            place=place,
            band=row.band if row.group in banded else math.nan,
            colour=colours[row.group],
        )
        for place, row in enumerate(rows)
    ]
    areas = {line.place: -row.curve.area(up_to=end) for line, row in zip(lines, rows, strict=True)}
    lines.sort(key=lambda line: areas[line.place])  # the legend reads as the curves lie
    if everyone and len(rows) > 1:
        pooled = RobustnessCurve.pooled([row.curve for row in rows])
        lines.append(Line("everyone", *_corners(pooled, end)))
    return Curves(
        title="Who withstands how much.",
        x_label=f"perturbation radius τ ({norm})",
        y_label="share still classified correctly",
        lines=tuple(lines),
        end=end,
        cap=up_to,
        caption=f"A curve that falls earlier belongs to a group that is easier to fool. {_bands(rows, banded)}",
        alt=alt,
    )


def colours_of(groups: Sequence[str], least: str, most: str) -> dict[str, Colour]:
    """Return which groups have a colour: all of them, or of many only the least and the most robust."""
    if len(groups) <= MANY_GROUPS:
        return dict.fromkeys(groups, "own")
    return {**dict.fromkeys(groups, "grey"), most: "most", least: "least"}


def thinned(curve: RobustnessCurve, end: float, resolution: int = _RESOLUTION) -> tuple[Floats, Floats]:
    """Return at most 2·resolution + 2 steps of a curve, nowhere in [0, end] off by more than 1/resolution in height.

    >>> radii, heights = thinned(RobustnessCurve(np.linspace(0, 1, 100_000)), end=1.0)
    >>> len(radii) < 400
    True
    """
    radii, heights = curve.steps()
    inside = radii <= end
    radii, heights = radii[inside], heights[inside]
    walked = radii / end + (1.0 - heights)  # both grow along the curve, to 1 at most
    keep = np.append(True, np.diff(np.floor(walked * resolution)) > 0)
    keep[-1] = True
    return radii[keep], heights[keep]


def sigma_intervals(
    rows: Sequence[ComparedGroup], confidence: float, *, strip: float = 0.0, alt: str = ""
) -> Intervals:
    """Return σ of every group with its interval, least robust first; `strip` is the half-width of a strip around 0."""
    level, widest = level_text(confidence), _axis_end([row.sigma for row in rows])
    cut = " Bars that reach the right edge go on." if math.isfinite(widest) else ""
    grey = "; the grey strip is as wide as the requested interval of a group alone" if strip else ""
    return Intervals(
        title="Closer or farther than the rest.",
        x_label="σ: mean distance relative to the rest",
        ranges=tuple(
            interval_range(row.group, row.sigma, row.verdict, f"σ = {_sigma_text(row.sigma)} ({level} interval)")
            for row in by_sigma(rows)
        ),
        strip=strip,
        widest=widest,
        caption=(
            "Left of zero: closer to the boundary than everyone else, on average. Bars are "
            f"{level} intervals that hold for all groups at once{grey}.{cut}"
        ),
        alt=alt,
    )


def _axis_end(sigmas: Sequence[Estimate]) -> float:
    """Return where the axis of σ ends, so that very wide intervals do not hide all others; infinite without any."""
    values = [sigma.value for sigma in sigmas if math.isfinite(sigma.value)]
    end = max(10.0, 1.1 * max(values, default=0.0))
    return end if any(sigma.high > end for sigma in sigmas) else math.inf


def interval_range(group: str, estimate: Estimate, verdict: str, text: str) -> Range:
    """Return a group's value with its interval and the text that a pointer over it shows."""
    return Range(
        label=group,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        mark=MARKS[verdict],
        verdict=verdict,
        text=f"{shorten(plain(group), 60)}: {text}",
        reason="" if math.isfinite(estimate.value) else _why_not(estimate),
    )


def _why_not(estimate: Estimate) -> str:
    return f"{number(estimate.value)}: {plain(estimate.reason)}" if estimate.reason else number(estimate.value)


def _sigma_text(sigma: Estimate) -> str:
    limits = relative_limits(sigma.value, sigma.low, sigma.high)
    return f"{signed_percent(sigma.value)}, {limits}"


def _corners(curve: RobustnessCurve, end: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    radii, heights = thinned(curve, end)
    if heights[-1] > 0:  # unreached samples, or a tail beyond the view: the curve goes on
        radii, heights = np.append(radii, end), np.append(heights, heights[-1])
    return tuple(radii.tolist()), tuple(heights.tolist())


def _view_end(rows: Sequence[GroupWithCurve], up_to: float) -> float:
    """Return where the axis of radii ends: every curve is below 1 % there, or flat because the rest is unreached."""
    ends = []
    for row in rows:
        finite = row.curve.values[np.isfinite(row.curve.values)]
        if finite.size:
            ends.append(float(np.quantile(finite, 0.99)) if finite.size >= 100 else float(finite[-1]))
    end = min(max(ends, default=0.0), up_to) * 1.04
    return end if end > 0 else 1.0


def _banded(rows: Sequence[GroupWithCurve], end: float) -> frozenset[str]:
    """Return the groups whose curve is drawn with its confidence band."""
    ordered = sorted(rows, key=lambda row: row.curve.area(up_to=end))
    shown = ordered if len(rows) <= MANY_BANDS else [ordered[0], ordered[-1]]
    return frozenset(row.group for row in shown if row.band < WIDEST_BAND)


def _bands(rows: Sequence[GroupWithCurve], banded: frozenset[str]) -> str:
    """Return what the caption says of the shaded bands."""
    if len(banded) == len(rows):
        return "Shaded: confidence bands."
    if not banded:
        return "Confidence bands are too wide to be drawn."
    return f"Shaded: confidence bands of {listed(sorted(map(quoted, banded)))}."
