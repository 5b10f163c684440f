"""Figures of an audit, drawn with plotly: what users know as `fm.plot`."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go

from fairmargin.analyses.adequacy import Adequacy, GroupAdequacy
from fairmargin.analyses.audit import AuditResult, GroupResult
from fairmargin.analyses.precision import PrecisionResult
from fairmargin.analyses.summary import by_sigma
from fairmargin.core.arrays import Floats
from fairmargin.core.curve import RobustnessCurve
from fairmargin.errors import InputError
from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE, NOT_COMPARABLE, TOO_FEW, Estimate
from fairmargin.presentation.formatting import level_text, limit_text, number, percent, plain, shorten
from fairmargin.report.brackets import bracket_intervals as bracket_intervals  # noqa: PLC0414 - part of fm.plot
from fairmargin.report.drawing import FAINT, distinct, escape, lay_out
from fairmargin.report.words import Row

# Okabe and Ito's colours, which colour-blind people tell apart; their yellow is too pale for a line on white.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_DASHES = ("solid", "dash")  # the second round of colours is dashed
_GREY = "#BBBBBB"

_VERDICT_MARKS = {
    LESS_ROBUST: ("#D55E00", "triangle-down"),
    MORE_ROBUST: ("#0072B2", "triangle-up"),
    NO_DIFFERENCE: ("#666666", "circle"),
    TOO_FEW: ("#999999", "circle-open"),
    NOT_COMPARABLE: ("#999999", "x-thin-open"),
}

WIDEST_BAND = 0.4  # a wider band would cover the figure and say nothing
_MANY_GROUPS = 12
_MANY_BANDS = 5  # more of them would blend into one grey
_RESOLUTION = 190  # a curve is at most 1 wide and 1 high, so it keeps at most twice as many points
_ROW_HEIGHT = 30


def curves(result: AuditResult, *, everyone: bool = True) -> go.Figure:
    """I_P(τ) of every group: the share still classified correctly when perturbed up to τ, with confidence bands.

    The steps are exact up to half a percent of the axes, which no eye sees. A band that would cover most of the figure
    is left out, and with more than five groups only the least and the most robust have one. With more than twelve
    groups these stand out and the others are grey.

    Parameters
    ----------
    result
        What `audit` returned.
    everyone
        Whether to draw the curve of all samples together, as a dotted reference.
    """
    end = _view_end(result)
    labels = dict(zip((row.group for row in result), _labels(result), strict=True))
    styles = _styles(result)
    rows = sorted(result, key=lambda row: -row.curve.area(up_to=end))  # the legend reads as the curves lie
    if len(rows) > _MANY_GROUPS:
        rows.sort(key=lambda row: row.group in styles)  # highlighted curves are drawn last, on top
    figure = go.Figure()
    with_band = banded(result)
    for row in rows:
        if row.group in styles and row.group in with_band:
            figure.add_trace(_band(row, end, labels[row.group], styles[row.group][0], 0.8 / (4 + len(styles))))
    if everyone and len(rows) > 1:
        pooled = RobustnessCurve(np.concatenate([row.curve.values for row in rows]))
        figure.add_trace(_line(pooled, end, "everyone", "#555555", "dot", 1.5, rank=2000))
    greys = 0
    for row in rows:
        if row.group in styles:
            colour, dash = styles[row.group]
            figure.add_trace(_line(row.curve, end, labels[row.group], colour, dash, 2.0))
        else:
            figure.add_trace(_grey_line(row, end, labels[row.group], len(rows) - len(styles), first=greys == 0))
            greys += 1
    if np.isfinite(result.up_to) and result.up_to <= end:
        figure.add_vline(result.up_to, line={"color": "#888888", "width": 1, "dash": "dash"})
        note = {"text": "cap", "x": result.up_to, "y": 1.0, "yref": "paper", "xanchor": "right", "yanchor": "top"}
        figure.add_annotation(**note, showarrow=False, xshift=-3, font={"size": 11, "color": "#666666"})
    lay_out(figure, height=440)
    figure.update_layout(legend={"traceorder": "normal", "itemwidth": 30, "valign": "top"})
    figure.update_xaxes(title_text=f"perturbation radius τ ({result.norm})", range=[0, end], rangemode="nonnegative")
    figure.update_yaxes(title_text="share still classified correctly", range=[0, 1.01], tickformat=".0%", dtick=0.2)
    return figure


def banded(result: AuditResult) -> frozenset[str]:
    """The groups whose curve is drawn with its confidence band."""
    end = _view_end(result)
    rows = sorted(result, key=lambda row: row.curve.area(up_to=end))
    shown = rows if len(rows) <= _MANY_BANDS else [rows[0], rows[-1]]
    return frozenset(row.group for row in shown if row.band < WIDEST_BAND)


def sigma_intervals(result: AuditResult) -> go.Figure:
    """σ of every group with its interval, least robust first: left of zero is easier to fool than the rest.

    Colour and shape tell the verdict. Groups without a σ stand at the bottom with the reason.

    Parameters
    ----------
    result
        What `audit` returned.
    """
    return _intervals(by_sigma(result.groups), result.confidence)


def precise_intervals(result: PrecisionResult) -> go.Figure:
    """σ of every group with its interval, as `sigma_intervals` draws it, from an audit to a precision.

    The intervals hold for all groups at once. The grey strip around 0 is as wide as the interval of a group alone was
    asked to be.

    Parameters
    ----------
    result
        What `audit_to_precision` returned.
    """
    if not isinstance(result, PrecisionResult):
        kind = type(result).__name__
        raise InputError(f"`precise_intervals` draws what `audit_to_precision` returned; given a {kind}.")
    figure = _intervals(by_sigma(result.groups), result.confidence)
    strip = {"fillcolor": FAINT, "opacity": 0.6, "line_width": 0, "layer": "below"}
    figure.add_vrect(-result.precision, result.precision, **strip)
    figure.layout.shapes = figure.layout.shapes[::-1]  # the strip lies below the line at 0
    return figure


def _intervals(rows: Sequence[Row], confidence: float) -> go.Figure:
    short = dict(zip((row.group for row in rows), distinct([row.group for row in rows]), strict=True))
    place = {row.group: i for i, row in enumerate(rows)}
    figure = go.Figure()
    for verdict in _VERDICT_MARKS:
        members = [row for row in rows if row.verdict == verdict and np.isfinite(row.sigma.value)]
        if members:
            figure.add_trace(_points(members, verdict, place, confidence))
    for row in rows:
        if not np.isfinite(row.sigma.value):
            _say_undefined(figure, place[row.group], row.sigma)
    lay_out(figure, height=130 + _ROW_HEIGHT * len(rows))
    figure.add_vline(0, line={"color": "#444444", "width": 1}, layer="below")
    figure.update_layout(legend={"orientation": "h", "y": 1.0, "yref": "container", "yanchor": "top", "x": 0})
    figure.update_layout(margin={"t": 44, "b": 56})
    figure.update_xaxes(title_text="σ: mean distance relative to the rest", tickformat=".0%", range=_sigma_range(rows))
    figure.update_xaxes(gridcolor=FAINT, showgrid=True, nticks=8)
    figure.update_yaxes(
        tickmode="array",
        tickvals=list(place.values()),
        ticktext=[short[row.group] for row in rows],
        range=[len(rows) - 0.4, -0.6],
        showgrid=False,
        ticks="",
        showline=False,
    )
    return figure


def budgets(adequacy: Adequacy) -> go.Figure:
    """The mean distance of every group against the attack's budget: lines that go on falling have not settled.

    Solid: the best found up to each budget, with intervals where at most five groups are drawn. Dotted, where it
    differs: what each budget found alone.

    Parameters
    ----------
    adequacy
        What `adequacy` returned.
    """
    if not isinstance(adequacy, Adequacy):
        raise InputError(f"`budgets` draws what `adequacy` returned; given a {type(adequacy).__name__}.")
    if not adequacy.groups:
        raise InputError(f"There are no budgets to draw. {adequacy.headline}")
    rows = list(adequacy)
    labels = distinct([row.group for row in rows])
    bright = _bright(rows, adequacy.audited)
    figure = go.Figure()
    others = len(rows) - len(bright)
    first = True
    for row, label in sorted(zip(rows, labels, strict=True), key=lambda pair: pair[0].group in bright):
        colour, dash = bright.get(row.group, (_GREY, "solid"))
        shown = row.group in bright
        name = label if shown else f"{others} other groups"
        best = np.array([mean.value for mean in row.means])
        alone = np.array(row.means_alone)
        if shown and (alone > 1.001 * best).any():
            figure.add_trace(_dotted(adequacy.budgets, alone, name, label, colour))
        figure.add_trace(_rising(adequacy.budgets, row, name, label, colour, dash, bars=len(rows) <= _MANY_BANDS))
        figure.data[-1].showlegend = shown or first
        first = first and shown
    lay_out(figure, height=360)
    figure.add_vline(adequacy.audited, line={"color": "#888888", "width": 1, "dash": "dash"}, layer="below")
    note = {"text": "audited", "x": adequacy.audited, "y": 1.0, "yref": "paper", "xanchor": "left", "yanchor": "top"}
    figure.add_annotation(**note, showarrow=False, xshift=3, font={"size": 11, "color": "#666666"})
    figure.update_layout(legend={"traceorder": "normal", "itemwidth": 30, "valign": "top"})
    in_steps = all(name.endswith((" step", " steps")) for name in adequacy.budgets)
    ticks = [name.split(" step")[0] if in_steps else escape(name) for name in adequacy.budgets]
    places = {"tickmode": "array", "tickvals": list(range(len(ticks))), "ticktext": ticks}
    figure.update_xaxes(title_text=f"budget of the attack{' (steps)' if in_steps else ''}", type="category", **places)
    figure.update_yaxes(title_text=f"mean distance ({adequacy.norm})", rangemode="tozero")
    return figure


def thinned(curve: RobustnessCurve, end: float, resolution: int = _RESOLUTION) -> tuple[Floats, Floats]:
    """At most 2·resolution + 2 of a curve's steps, from which it differs nowhere in [0, end] by 1/resolution in height.

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


# Curves --------------------------------------------------------------------------------------------------------------


def _view_end(result: AuditResult) -> float:
    """Where the axis of radii ends: every curve is below 1 % there, or flat because the rest is unreached."""
    ends = []
    for row in result:
        finite = row.curve.values[np.isfinite(row.curve.values)]
        if finite.size:
            ends.append(float(np.quantile(finite, 0.99)) if finite.size >= 100 else float(finite[-1]))
    end = min(max(ends, default=0.0), result.up_to) * 1.04
    return end if end > 0 else 1.0


def _styles(result: AuditResult) -> dict[str, tuple[str, str]]:
    """Colour and dash of every group that is highlighted; a group keeps its own under every estimator."""
    names = [row.group for row in result]
    if len(names) > _MANY_GROUPS:
        judged = [row for row in by_sigma(result.groups) if row.sigma.is_defined] or list(result)
        return {judged[0].group: ("#D55E00", "solid"), judged[-1].group: ("#0072B2", "solid")}
    return _coloured(names)


def _line(
    curve: RobustnessCurve, end: float, label: str, colour: str, dash: str, width: float, rank: int = 1000
) -> go.Scatter:
    radii, heights = thinned(curve, end)
    if heights[-1] > 0:  # unreached samples, or a tail beyond the view: the curve goes on
        radii, heights = np.append(radii, end), np.append(heights, heights[-1])
    return go.Scatter(
        x=radii.astype(np.float32),
        y=heights.astype(np.float32),
        name=label,
        legendgroup=label,
        legendrank=rank,
        mode="lines",
        line={"shape": "hv", "color": colour, "dash": dash, "width": width},
        hovertemplate=f"{label}<br>τ = %{{x:.3~g}}: %{{y:.1%}}<extra></extra>",
    )


def _grey_line(row: GroupResult, end: float, label: str, others: int, *, first: bool) -> go.Scatter:
    trace = _line(row.curve, end, label, _GREY, "solid", 1.0, rank=1500)
    trace.legendgroup, trace.showlegend, trace.opacity = "other groups", first, 0.8
    trace.name = f"{others} other groups"
    return trace


def _band(row: GroupResult, end: float, label: str, colour: str, opacity: float) -> go.Scatter:
    radii, heights = thinned(row.curve, end, resolution=_RESOLUTION // 2)
    radii = np.append(radii, end)
    across, up = np.repeat(radii, 2)[1:-1], np.repeat(heights, 2)  # the corners of the steps
    outline = np.concatenate([np.minimum(up + row.band, 1.0), np.maximum(up - row.band, 0.0)[::-1]])
    red, green, blue = (int(colour[i:j], 16) for i, j in pairwise((1, 3, 5, 7)))
    return go.Scatter(
        x=np.concatenate([across, across[::-1]]).astype(np.float32),
        y=outline.astype(np.float32),
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=f"rgba({red}, {green}, {blue}, {opacity:.3f})",
        legendgroup=label,
        showlegend=False,
        hoverinfo="skip",
    )


# Intervals -----------------------------------------------------------------------------------------------------------


def _points(rows: Sequence[Row], verdict: str, place: dict[str, int], confidence: float) -> go.Scatter:
    colour, symbol = _VERDICT_MARKS[verdict]
    value = np.array([row.sigma.value for row in rows])
    low, high = _ends(rows)
    texts = [
        f"{escape(shorten(plain(row.group), 60))}<br>σ = {percent(row.sigma.value)}"
        f" [{limit_text(row.sigma.low, percent)}, {limit_text(row.sigma.high, percent)}]"
        for row in rows
    ]
    return go.Scatter(
        x=value,
        y=[place[row.group] for row in rows],
        mode="markers",
        name=verdict,
        marker={"color": colour, "symbol": symbol, "size": 10, "line": {"width": 1, "color": colour}},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": high - value,
            "arrayminus": value - low,
            "thickness": 1.6,
            "width": 4,
            "color": colour,
        },
        customdata=texts,
        hovertemplate=f"%{{customdata}} ({level_text(confidence)} interval)<br>{verdict}<extra></extra>",
    )


def _ends(rows: Sequence[Row]) -> tuple[Floats, Floats]:
    """The finite ends of the intervals; the value itself where an end does not exist."""
    value = np.array([row.sigma.value for row in rows])
    low = np.array([row.sigma.low for row in rows])
    high = np.array([row.sigma.high for row in rows])
    return np.where(np.isfinite(low), low, value), np.where(np.isfinite(high), high, value)


def _sigma_range(rows: Sequence[Row]) -> list[float]:
    defined = [row for row in rows if np.isfinite(row.sigma.value)]
    low, high = _ends(defined) if defined else (np.zeros(1), np.zeros(1))
    least, most = min(float(low.min()), 0.0), max(float(high.max()), 0.0)
    room = 0.06 * (most - least) or 0.1
    return [least - room, most + room]


def _say_undefined(figure: go.Figure, row: int, sigma: Estimate) -> None:
    text = number(sigma.value) + (f": {shorten(plain(sigma.reason), 40)}" if sigma.reason else "")
    figure.add_annotation(
        text=escape(text),
        hovertext=escape(sigma.reason or text),
        x=0.01,
        xref="paper",
        xanchor="left",
        y=row,
        yref="y",
        yanchor="middle",
        showarrow=False,
        font={"size": 11, "color": "#666666"},
        bgcolor="white",
    )


# Budgets -------------------------------------------------------------------------------------------------------------


def _bright(rows: Sequence[GroupAdequacy], audited: int) -> dict[str, tuple[str, str]]:
    """Colour and dash, as among the curves; of many groups only the least and the most robust."""
    if len(rows) > _MANY_GROUPS:
        order = sorted(rows, key=lambda row: row.means_alone[audited])
        return {order[0].group: ("#D55E00", "solid"), order[-1].group: ("#0072B2", "solid")}
    return _coloured([row.group for row in rows])


def _rising(
    names: Sequence[str], row: GroupAdequacy, name: str, label: str, colour: str, dash: str, *, bars: bool
) -> go.Scatter:
    value, low, high = (np.array([getattr(mean, end) for mean in row.means]) for end in ("value", "low", "high"))
    error = {"type": "data", "symmetric": False, "array": high - value, "arrayminus": value - low, "thickness": 1.2}
    drawn = bars and bool(np.isfinite(low).all())
    return go.Scatter(
        x=list(names),
        y=value,
        name=name,
        legendgroup=name,
        mode="lines+markers",
        line={"color": colour, "dash": dash, "width": 2 if colour != _GREY else 1},
        marker={"color": colour, "size": 6 if colour != _GREY else 3},
        error_y={**error, "width": 4, "color": colour} if drawn else None,
        hovertemplate=f"{label}<br>%{{x}}: %{{y:.4~g}}<extra></extra>",
    )


def _dotted(names: Sequence[str], alone: Floats, name: str, label: str, colour: str) -> go.Scatter:
    return go.Scatter(
        x=list(names),
        y=alone,
        legendgroup=name,
        showlegend=False,
        mode="lines",
        line={"color": colour, "dash": "dot", "width": 1},
        hovertemplate=f"{label}, this budget alone<br>%{{x}}: %{{y:.4~g}}<extra></extra>",
    )


# What every figure shares --------------------------------------------------------------------------------------------


def _coloured(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """A colour and a dash for each of at most twelve groups, by its place."""
    return {name: (_COLOURS[i % len(_COLOURS)], _DASHES[i // len(_COLOURS)]) for i, name in enumerate(names)}


def _labels(result: AuditResult) -> list[str]:
    """One label a group, escaped."""
    labels = distinct([row.group for row in result])
    return [f"{text} (n = {row.size:,})" for text, row in zip(labels, result, strict=True)]
