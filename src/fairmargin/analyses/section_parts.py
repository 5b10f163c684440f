"""Parts of sections that several results share: cells of tables, data of figures, and explanations."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol, TypedDict

import numpy as np

from fairmargin.analyses.summary import Row, by_sigma
from fairmargin.core.arrays import Floats
from fairmargin.core.bound import Bound
from fairmargin.core.curve import RobustnessCurve
from fairmargin.core.norm import Norm
from fairmargin.core.undefined import reason_of
from fairmargin.errors import visible
from fairmargin.inference.estimate import (
    LESS_ROBUST,
    MORE_ROBUST,
    NO_DIFFERENCE,
    NOT_COMPARABLE,
    TOO_FEW,
    Estimate,
)
from fairmargin.presentation.formatting import (
    fixed,
    level_text,
    limit_text,
    listed,
    number,
    percent,
    plain,
    quoted,
    shorten,
    shows_digits,
    table_p,
)
from fairmargin.presentation.section import (
    LESS,
    MISSING,
    MORE,
    SAME,
    UNSURE,
    Cell,
    Column,
    Curves,
    Explanation,
    Intervals,
    Line,
    Mark,
    Range,
)

# Tables ---------------------------------------------------------------------------------------------------------------

MARKS: dict[str, Mark] = {
    LESS_ROBUST: LESS,
    MORE_ROBUST: MORE,
    NO_DIFFERENCE: SAME,
    TOO_FEW: UNSURE,
    NOT_COMPARABLE: MISSING,
}
GROUP = Column("group", kind="text")
VERDICT = Column("verdict", kind="verdict")
SAMPLES = Column("samples", hidden=True)


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
    """Return how many decimals a column of these needs: three or four digits."""
    return decimals_for([v for e in estimates for v in (e.value, e.high)])


def decimals_for(values: Sequence[float]) -> int:
    """Return how many decimals a column of these numbers needs: three or four digits."""
    sizes = [abs(v) for v in values if math.isfinite(v) and v != 0]
    return min(max(2 - math.floor(math.log10(max(sizes) / 3)), 0), 8) if sizes else 2


def length(estimate: Estimate, decimals: int, *, signed: bool = False) -> Cell:
    """Return a distance with its interval. A number that its column's decimals would make 0 has decimals of its own."""

    def shown(value: float) -> str:
        text = fixed(value, decimals, signed=signed)
        if value == 0 or not math.isfinite(value) or shows_digits(text):
            return text
        return f"{'+' if signed and value > 0 else ''}{number(value)}"

    return _cell(estimate, shown)


def share(estimate: Estimate, *, signed: bool, unit: str = " %", alone: Estimate | None = None) -> Cell:
    """Return a cell with a share in percent, or a change of one in points, and its interval.

    Parameters
    ----------
    estimate
        The share.
    signed
        Whether a positive one has a sign.
    unit
        What follows the value; intervals have none.
    alone
        The same with an interval of the group alone, which is noted if it differs.
    """

    def shown(given: Estimate) -> Cell:
        return _cell(given, lambda value: fixed(100 * value, 1, signed=signed))

    cell = shown(estimate)
    if not estimate.is_defined:
        return cell
    own = "" if alone is None else shown(alone).interval
    return Cell(f"{cell.text}{unit}", cell.interval, cell.note or (f"alone {own}" if own else ""))


def _cell(estimate: Estimate, show: Callable[[float], str]) -> Cell:
    if not estimate.is_defined:
        return Cell("undefined", note=estimate.reason or reason_of(estimate.value))
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return Cell(show(estimate.value), note=estimate.reason or "no interval")
    return Cell(
        show(estimate.value), bracketed(estimate.low, estimate.high, show, abs(estimate.value)), estimate.reason
    )


def bracketed(low: float, high: float, show: Callable[[float], str], size: float = 1.0) -> str:
    """Return an interval in brackets, as tables show it.

    >>> bracketed(-0.3, 0.1, lambda value: fixed(100 * value, 1, signed=True))
    '[−30.0, +10.0]'
    """
    if math.isnan(low) or math.isnan(high):
        return ""
    return f"[{limit_text(low, show, size)}, {limit_text(high, show, size)}]"


# Figures --------------------------------------------------------------------------------------------------------------

MANY_GROUPS = 12  # of more, the least and the most robust stand out and the others are grey
WIDEST_BAND = 0.4  # a wider band would cover the figure and say nothing
MANY_BANDS = 5  # more of them would blend into one grey
Colour = Literal["own", "least", "most", "grey"]
_RESOLUTION = 190  # a curve is at most 1 wide and 1 high, so it keeps at most twice as many points


class CurveRow(Row, Protocol):
    """A group against its rest, with its curve."""

    @property
    def size(self) -> int:
        """How many samples it has."""

    @property
    def curve(self) -> RobustnessCurve:
        """The robustness curve of the group."""

    @property
    def band(self) -> float:
        """Half-width of the confidence band of the curve."""


class CurveResult(Protocol):
    """Groups with their curves."""

    @property
    def groups(self) -> Sequence[CurveRow]:
        """One row per group."""

    @property
    def norm(self) -> Norm:
        """The norm of the distances."""

    @property
    def up_to(self) -> float:
        """The radius at which distances were capped; `inf` if they were not."""


def robustness_curves(result: CurveResult, *, everyone: bool = True, alt: str = "") -> Curves:
    """Return I_P(τ) of every group: the share still classified correctly when perturbed up to τ.

    The steps are exact up to half a percent of the axes. A band that would cover most of the figure is left out, and
    with more than five groups only the least and the most robust have one.

    Parameters
    ----------
    result
        An audit.
    everyone
        Whether to add the curve of all samples together.
    alt
        What the figure shows, in a sentence.
    """
    rows, end = list(result.groups), _view_end(result)
    judged = [row for row in by_sigma(rows) if row.sigma.is_defined] or rows
    colours = colours_of([row.group for row in rows], judged[0].group, judged[-1].group)
    banded = frozenset(name for name in _banded(rows, end) if colours[name] != "grey")
    lines = [
        Line(
            label=f"{row.group} (n = {row.size:,})",
            **_corners(row.curve, end),
            place=place,
            band=row.band if row.group in banded else math.nan,
            colour=colours[row.group],
        )
        for place, row in enumerate(rows)
    ]
    areas = {line.place: -row.curve.area(up_to=end) for line, row in zip(lines, rows, strict=True)}
    lines.sort(key=lambda line: areas[line.place])  # the legend reads as the curves lie
    if everyone and len(rows) > 1:
        pooled = RobustnessCurve(np.concatenate([row.curve.values for row in rows]))
        lines.append(Line("everyone", **_corners(pooled, end)))
    return Curves(
        title="Who withstands how much.",
        x_label=f"perturbation radius τ ({result.norm})",
        y_label="share still classified correctly",
        lines=tuple(lines),
        end=end,
        cap=result.up_to,
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


def sigma_intervals(rows: Sequence[Row], confidence: float, *, strip: float = 0.0, alt: str = "") -> Intervals:
    """Return σ of every group with its interval, least robust first.

    Parameters
    ----------
    rows
        The groups.
    confidence
        Of the intervals, which hold for all groups at once.
    strip
        Half-width of a grey strip around 0.
    alt
        What the figure shows, in a sentence.
    """
    level = level_text(confidence)
    grey = "; the grey strip is as wide as the requested interval of a group alone" if strip else ""
    return Intervals(
        title="Closer or farther than the rest.",
        x_label="σ: mean distance relative to the rest",
        ranges=tuple(
            interval_range(row.group, row.sigma, row.verdict, f"σ = {_sigma_text(row.sigma)} ({level} interval)")
            for row in by_sigma(rows)
        ),
        strip=strip,
        caption=(
            "Left of zero: closer to the boundary than everyone else, on average. Bars are "
            f"{level} intervals that hold for all groups at once{grey}."
        ),
        alt=alt,
    )


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
    limits = bracketed(sigma.low, sigma.high, lambda value: percent(value, signed=True))
    return f"{percent(sigma.value, signed=True)} {limits}".strip()


class _Corners(TypedDict):
    x: tuple[float, ...]
    y: tuple[float, ...]


def _corners(curve: RobustnessCurve, end: float) -> _Corners:
    radii, heights = thinned(curve, end)
    if heights[-1] > 0:  # unreached samples, or a tail beyond the view: the curve goes on
        radii, heights = np.append(radii, end), np.append(heights, heights[-1])
    return {"x": tuple(radii.tolist()), "y": tuple(heights.tolist())}


def _view_end(result: CurveResult) -> float:
    """Return where the axis of radii ends: every curve is below 1 % there, or flat because the rest is unreached."""
    ends = []
    for row in result.groups:
        finite = row.curve.values[np.isfinite(row.curve.values)]
        if finite.size:
            ends.append(float(np.quantile(finite, 0.99)) if finite.size >= 100 else float(finite[-1]))
    end = min(max(ends, default=0.0), result.up_to) * 1.04
    return end if end > 0 else 1.0


def _banded(rows: Sequence[CurveRow], end: float) -> frozenset[str]:
    """Return the groups whose curve is drawn with its confidence band."""
    ordered = sorted(rows, key=lambda row: row.curve.area(up_to=end))
    shown = ordered if len(rows) <= MANY_BANDS else [ordered[0], ordered[-1]]
    return frozenset(row.group for row in shown if row.band < WIDEST_BAND)


def _bands(rows: Sequence[CurveRow], banded: frozenset[str]) -> str:
    """Return what the caption says of the shaded bands."""
    if len(banded) == len(rows):
        return "Shaded: confidence bands."
    if not banded:
        return "Confidence bands are too wide to be drawn."
    return f"Shaded: confidence bands of {listed(sorted(map(quoted, banded)))}."


# Explanations ---------------------------------------------------------------------------------------------------------

VERDICT_MEANINGS = {
    LESS_ROBUST: "The group lies closer to the boundary than the rest, by more than chance explains.",
    MORE_ROBUST: "The group lies farther from the boundary than the rest, by more than chance explains.",
    NO_DIFFERENCE: (
        "The difference could be chance. This is no proof of equality: the interval shows which differences remain "
        "possible."
    ),
    TOO_FEW: (
        "The group, or its rest, has fewer independent samples (people, where samples are clustered) than the audit "
        "asks for. An interval may be shown; nothing is claimed."
    ),
    NOT_COMPARABLE: (
        "There is no one to compare with: no sample outside the group, or, where groups are compared within the values "
        "of another attribute, one side is lacking there for more than a fifth of the samples. Or a search that ended "
        "early forces a cap on all distances that cuts more than a fifth of them."
    ),
}

BOUND_MEANINGS = {
    Bound.EXACT: (
        "Exact distances: the shortest perturbation that changes the answer was computed, not searched for. "
        "Differences between groups are differences of the model on these samples."
    ),
    Bound.UPPER: (
        "Upper bounds: an attack found a misclassified input at this distance, so the boundary is at most this far "
        "away, and perhaps nearer. A gap between two upper bounds orders nothing by itself: an attack that works less "
        "well on one group could pass for unfairness. Check with a second, stronger attack, or with a lower bound."
    ),
    Bound.LOWER: (
        "Lower bounds: it is certified that nothing within this distance changes the answer; the boundary may be much "
        "farther away. A gap between two lower bounds orders nothing by itself either: a certificate that is looser "
        "for one group could pass for unfairness. A lower and an upper bound together bracket the truth."
    ),
    Bound.NEITHER: (
        "A proxy: the number tends to follow the distance but may lie on either side of it. It serves to compare "
        "quickly, and proves nothing about how far the boundary is."
    ),
}

SIGMA_MEANING = (
    "σ compares a group’s mean distance with that of everyone else: σ = −30 % says that on average its samples lie "
    "30 % closer to the decision boundary than everyone else’s, so a smaller perturbation suffices to fool the model "
    "about them. σ = 0 is equality. Misclassified samples count with distance 0."
)

CURVE_READING = (
    "Each curve starts at the left with the share of a group’s samples that are classified correctly when nothing is "
    "disturbed. Going right, the allowed perturbation grows, and the curve falls as samples can be made to fail. A "
    "curve that falls earlier belongs to a group that is easier to fool; the area below a curve is the group’s mean "
    "distance. The shaded band is where the curve of the whole population plausibly lies."
)

VARIANCE_READING = (
    "V_f grows with the square of the distances: a model that is more robust for everyone has a larger V_f. To "
    "compare models, look at the relative one, V_f / Rob(f)²."
)

CURVES_TOPIC, SIGMA_TOPIC, VERDICTS_TOPIC, BOUNDS_TOPIC = (
    "The curves",
    "σ, the relative distance",
    "The verdicts",
    "What the bounds mean",
)
"""Topics of explanations on the page."""


def verdicts_explained(meanings: Mapping[str, str] = VERDICT_MEANINGS) -> tuple[Explanation, ...]:
    """Return what every verdict means."""
    return tuple(Explanation(VERDICTS_TOPIC, text, verdict, MARKS[verdict]) for verdict, text in meanings.items())


def bounds_explained(bounds: Iterable[Bound]) -> tuple[Explanation, ...]:
    """Return what these kinds of distances are."""
    return tuple(Explanation(BOUNDS_TOPIC, BOUND_MEANINGS[bound], bound.words) for bound in bounds)
