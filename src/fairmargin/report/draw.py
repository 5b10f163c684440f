"""Draw the data of figures with plotly, all in one style."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from fairmargin.core.arrays import Floats
from fairmargin.presentation.formatting import fixed, plain, shorten
from fairmargin.presentation.section import (
    BAD,
    GOOD,
    LESS,
    MISSING,
    MORE,
    SAME,
    UNSURE,
    Bars,
    Courses,
    Curves,
    Figure,
    Intervals,
    Line,
    Mark,
    Matrix,
    Range,
)

_FAINT = "#E6E6E6"
_INK = "#222222"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_LABEL_WIDTH = 22
# Okabe and Ito's colours, which colour-blind people can distinguish; their yellow is too pale for a line on white.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_DASHES = ("solid", "dash")  # the second round of colours is dashed
GREY = "#BBBBBB"
_LEAST, _MOST = "#D55E00", "#0072B2"  # of many groups only these two have a colour

MARKS: dict[Mark, tuple[str, str]] = {
    LESS: ("#D55E00", "triangle-down"),
    MORE: ("#0072B2", "triangle-up"),
    SAME: ("#666666", "circle"),
    UNSURE: ("#999999", "circle-open"),
    MISSING: ("#999999", "x-thin-open"),
    GOOD: ("#0072B2", "square"),
    BAD: ("#D55E00", "cross"),
    "": ("#444444", "diamond"),
}
"""Colour and shape of every mark."""
_PARTS = ("#999999", "#D55E00", "#56B4E9")
_ROW_HEIGHT = 30

# From orange over white to blue, which colour-blind people can distinguish; verdicts have the same two colours.
_DIVERGING = ((0.0, "#BF5000"), (0.25, "#F2C6A5"), (0.5, "#FFFFFF"), (0.75, "#A9CCE6"), (1.0, "#0A639C"))
_UNDEFINED = "#EDEDED"
_STRONGEST, _FAINTEST = 1.0, 0.25  # the colours of a matrix end at its largest value, but between these two
_MANY_COLUMNS = 14  # more columns leave no room for numbers
_COLUMN_WIDTH = 22  # longer names are shortened
_MANY_ROWS, _LOW_ROW_HEIGHT = 30, 17


def draw(figure: Figure) -> go.Figure:
    """Return the data of a figure as a plotly figure."""
    match figure:
        case Curves():
            return _curves(figure)
        case Courses():
            return _courses(figure)
        case Intervals():
            return _intervals(figure)
        case Bars():
            return _bars(figure)
        case Matrix():
            return _matrix(figure)
        case _:
            assert_never(figure)


def _styles(lines: Sequence[Line]) -> dict[int, tuple[str, str]]:
    """Return colour and dash of every bright line: a group keeps its own under every estimator."""
    styles = {}
    for line in lines:
        if line.place >= 0 and line.colour == "own":
            styles[line.place] = (_COLOURS[line.place % len(_COLOURS)], _DASHES[line.place // len(_COLOURS) % 2])
        elif line.colour != "grey" and line.place >= 0:
            styles[line.place] = (_LEAST if line.colour == "least" else _MOST, "solid")
    return styles


# Curves --------------------------------------------------------------------------------------------------------------


def _curves(given: Curves) -> go.Figure:
    figure, styles, labels = go.Figure(), _styles(given.lines), _labels(given.lines)
    for line in given.lines:
        if not np.isnan(line.band):
            figure.add_trace(_band(line, given.end, labels[line.place], styles[line.place][0], 0.8 / (4 + len(styles))))
    greys = [line for line in given.lines if line.place >= 0 and line.colour == "grey"]
    for line in given.lines:
        if line.place < 0:
            figure.add_trace(_step(line, escape(line.label), "#555555", "dot", 1.5, rank=2000))
    for i, line in enumerate(greys):
        trace = _step(line, labels[line.place], GREY, "solid", 1.0, rank=1500)
        trace.legendgroup, trace.showlegend, trace.opacity = "other groups", i == 0, 0.8
        trace.name = f"{len(greys)} other groups"
        figure.add_trace(trace)
    for line in given.lines:
        if line.place in styles:
            figure.add_trace(_step(line, labels[line.place], *styles[line.place], 2.0))
    if np.isfinite(given.cap) and given.cap <= given.end:
        figure.add_vline(given.cap, line={"color": "#888888", "width": 1, "dash": "dash"})
        _note(figure, "cap", given.cap, xanchor="right", xshift=-3)
    _lay_out(figure, height=440)
    figure.update_layout(legend={"traceorder": "normal", "itemwidth": 30, "valign": "top"})
    figure.update_xaxes(title_text=given.x_label, range=[0, given.end], rangemode="nonnegative")
    figure.update_yaxes(title_text=given.y_label, range=[0, 1.01], tickformat=".0%", dtick=0.2)
    return figure


def _labels(lines: Sequence[Line]) -> dict[int, str]:
    """Return one label per group by its place, escaped; its size is not shortened away."""
    groups = sorted((line for line in lines if line.place >= 0), key=lambda line: line.place)
    names = [line.label.rpartition(" (n = ") for line in groups]
    short = _distinct([name or label for name, _, label in names])
    sizes = [f" (n = {size}" if name else "" for name, _, size in names]
    return {line.place: f"{text}{size}" for line, text, size in zip(groups, short, sizes, strict=True)}


def _step(line: Line, label: str, colour: str, dash: str, width: float, rank: int = 1000) -> go.Scatter:
    return go.Scatter(
        x=_compact(np.array(line.x)),
        y=np.array(line.y, dtype=np.float32),
        name=label,
        legendgroup=label,
        legendrank=rank,
        mode="lines",
        line={"shape": "hv", "color": colour, "dash": dash, "width": width},
        hovertemplate=f"{label}<br>τ = %{{x:.3~g}}: %{{y:.1%}}<extra></extra>",
    )


def _compact(radii: Floats) -> npt.NDArray[np.floating]:
    """Return radii in half the bytes, unless they are too large or too small for numbers of 32 bits."""
    fits = 1e-30 < radii.max() < 1e30
    return radii.astype(np.float32) if fits else radii.astype(np.float64)


def _band(line: Line, end: float, label: str, colour: str, opacity: float) -> go.Scatter:
    radii, heights = np.array(line.x), np.array(line.y)
    if radii[-1] < end:
        radii = np.append(radii, end)
    else:
        heights = heights[:-1]
    across, up = np.repeat(radii, 2)[1:-1], np.repeat(heights, 2)  # the corners of the steps
    outline = np.concatenate([np.minimum(up + line.band, 1.0), np.maximum(up - line.band, 0.0)[::-1]])
    red, green, blue = (int(colour[i:j], 16) for i, j in pairwise((1, 3, 5, 7)))
    return go.Scatter(
        x=_compact(np.concatenate([across, across[::-1]])),
        y=outline.astype(np.float32),
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=f"rgba({red}, {green}, {blue}, {opacity:.3f})",
        legendgroup=label,
        showlegend=False,
        hoverinfo="skip",
    )


# Courses -------------------------------------------------------------------------------------------------------------


def _courses(given: Courses) -> go.Figure:
    figure, styles, labels = go.Figure(), _styles(given.lines), _labels(given.lines)
    names = [escape(name) for name in given.ticks]
    grey = sum(line.place not in styles for line in given.lines)
    first = True
    for line in sorted(given.lines, key=lambda line: line.place in styles):
        colour, dash = styles.get(line.place, (GREY, "solid"))
        label, bright = labels[line.place], line.place in styles
        name = label if bright else f"{grey} other groups"
        if line.alone:
            figure.add_trace(_dotted(line, names, name, label, colour))
        figure.add_trace(_course(line, names, name, label, colour, dash))
        figure.data[-1].showlegend = bright or first
        first = first and bright
    _lay_out(figure, height=360)
    figure.add_vline(given.chosen, line={"color": "#888888", "width": 1, "dash": "dash"}, layer="below")
    _note(figure, given.chosen_label, given.chosen, xanchor="left", xshift=3)
    figure.update_layout(legend={"traceorder": "normal", "itemwidth": 30, "valign": "top"})
    places = {"tickmode": "array", "tickvals": list(range(len(names))), "ticktext": names}
    figure.update_xaxes(title_text=given.x_label, **places)
    figure.update_yaxes(title_text=given.y_label, rangemode="tozero")
    return figure


def _course(line: Line, names: Sequence[str], name: str, label: str, colour: str, dash: str) -> go.Scatter:
    value, low, high = (np.array(part) for part in (line.y, line.low, line.high))
    error = None
    if line.low:
        ends = {"array": high - value, "arrayminus": value - low}
        error = {"type": "data", "symmetric": False, "thickness": 1.2, "width": 4, "color": colour, **ends}
    return go.Scatter(
        x=list(line.x),
        y=value,
        name=name,
        legendgroup=name,
        mode="lines+markers",
        line={"color": colour, "dash": dash, "width": 2 if colour != GREY else 1},
        marker={"color": colour, "size": 6 if colour != GREY else 3},
        error_y=error,
        customdata=list(names),
        hovertemplate=f"{label}<br>%{{customdata}}: %{{y:.4~g}}<extra></extra>",
    )


def _dotted(line: Line, names: Sequence[str], name: str, label: str, colour: str) -> go.Scatter:
    return go.Scatter(
        x=list(line.x),
        y=list(line.alone),
        legendgroup=name,
        showlegend=False,
        mode="lines",
        line={"color": colour, "dash": "dot", "width": 1},
        customdata=list(names),
        hovertemplate=f"{label}, this budget alone<br>%{{customdata}}: %{{y:.4~g}}<extra></extra>",
    )


# Intervals -----------------------------------------------------------------------------------------------------------


def _intervals(given: Intervals) -> go.Figure:
    figure, rows = go.Figure(), given.ranges
    verdicts = {each.verdict: each.mark for each in rows}
    for verdict in sorted(verdicts, key=lambda name: list(MARKS).index(verdicts[name])):
        members = [(i, each) for i, each in enumerate(rows) if each.verdict == verdict and np.isfinite(each.value)]
        if members:
            figure.add_trace(_points(members, escape(verdict), *MARKS[verdicts[verdict]]))
    for i, each in enumerate(rows):
        if np.isnan(each.value) and not np.isnan(each.low):
            _add_limits(figure, i, each, given.widest)
        elif not np.isfinite(each.value):
            _say_why(figure, i, each.reason)
    _lay_out(figure, height=(130 if len(figure.data) and figure.data[0].name else 100) + _ROW_HEIGHT * len(rows))
    if given.strip:
        strip = {"fillcolor": _FAINT, "opacity": 0.6, "line_width": 0, "layer": "below"}
        figure.add_vrect(given.reference - given.strip, given.reference + given.strip, **strip)
    if np.isfinite(given.reference):
        figure.add_vline(given.reference, line={"color": "#444444", "width": 1}, layer="below")
    if any(np.isfinite(each.value) for each in rows):
        figure.update_layout(legend={"orientation": "h", "y": 1.0, "yref": "container", "yanchor": "top", "x": 0})
        figure.update_layout(margin={"t": 44, "b": 56}, showlegend=True)
    else:
        figure.update_layout(showlegend=False)
    figure.update_xaxes(title_text=escape(given.x_label), range=_view(given), gridcolor=_FAINT, showgrid=True, nticks=8)
    figure.update_xaxes(tickformat=".0%" if given.percent else "~g")
    _name_rows(figure, _distinct([each.label for each in rows]))
    return figure


def _points(members: Sequence[tuple[int, Range]], verdict: str, colour: str, symbol: str) -> go.Scatter:
    value = np.array([each.value for _, each in members])
    low, high = _ends([each for _, each in members])
    return go.Scatter(
        x=value,
        y=[place for place, _ in members],
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
        customdata=[escape(each.text) for _, each in members],
        hovertemplate=f"%{{customdata}}<br>{verdict}<extra></extra>",
    )


def _add_limits(figure: go.Figure, place: int, each: Range, widest: float) -> None:
    """Add limits of an unknown value: a thick bar, and a thin one for the outer limits."""
    colour = MARKS[each.mark][0] if each.mark in (LESS, MORE) else MARKS[SAME][0]
    for low, high, width in ((each.outer_low, each.outer_high, 2), (each.low, each.high, 10)):
        figure.add_trace(
            go.Scatter(
                x=[max(low, -1.0), min(high, 2 * widest)],
                y=[place, place],
                mode="lines",
                line={"width": width, "color": colour},
                hovertext=escape(each.text),
                hoverinfo="text",
            )
        )


def _ends(rows: Sequence[Range]) -> tuple[Floats, Floats]:
    """Return the finite ends of the intervals; the value itself where an end does not exist."""
    value, low, high = (np.array([getattr(each, name) for each in rows]) for name in ("value", "low", "high"))
    return np.where(np.isfinite(low), low, value), np.where(np.isfinite(high), high, value)


def _view(given: Intervals) -> list[float]:
    """Return where the axis begins and ends."""
    if np.isfinite(given.widest):
        return [-min(1.0, 1.1 * given.widest), given.widest]
    defined = [each for each in given.ranges if np.isfinite(each.value)]
    low, high = _ends(defined) if defined else (np.zeros(1), np.zeros(1))
    middle = given.reference if np.isfinite(given.reference) else float(low.min())
    least, most = min(float(low.min()), middle), max(float(high.max()), middle)
    room = 0.06 * (most - least) or 0.1
    return [least - room, most + room]


def _say_why(figure: go.Figure, row: int, reason: str) -> None:
    figure.add_annotation(
        text=escape(shorten(reason, 52)),
        hovertext=escape(reason),
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


# Bars ----------------------------------------------------------------------------------------------------------------


def _bars(given: Bars) -> go.Figure:
    figure, labels = go.Figure(), _distinct(given.labels)
    for i, part in enumerate(given.parts):
        figure.add_trace(
            go.Bar(
                x=[shares[i] for shares in given.shares],
                y=list(range(len(labels))),
                orientation="h",
                name=escape(part),
                marker={"color": _PARTS[i % len(_PARTS)]},
                customdata=labels,
                hovertemplate=f"%{{customdata}}<br>{escape(part)}: %{{x:.1%}}<extra></extra>",
            )
        )
    _lay_out(figure, height=130 + _ROW_HEIGHT * len(labels))
    figure.update_layout(barmode="stack", bargap=0.35)
    figure.update_layout(
        showlegend=True,
        legend={
            "orientation": "h",
            "y": 1.0,
            "yref": "container",
            "yanchor": "top",
            "x": 0,
            "traceorder": "normal",
        },
        margin={"t": 44, "b": 56},
    )
    figure.update_xaxes(title_text=escape(given.x_label), range=[0, 1.005], tickformat=".0%", dtick=0.2)
    _name_rows(figure, labels)
    return figure


# Matrix --------------------------------------------------------------------------------------------------------------


def _matrix(given: Matrix) -> go.Figure:
    values = np.array(given.values)
    finite = np.abs(values[np.isfinite(values)])
    limit = float(np.clip(finite.max() if finite.size else _STRONGEST, _FAINTEST, _STRONGEST))
    many = len(given.columns) > _MANY_COLUMNS
    ends = [part * limit for part in (-1, -0.5, 0, 0.5, 1)]
    scale = {"title": {"text": escape(given.label)}, "tickvals": ends, "ticktext": [_percent(end) for end in ends]}
    figure = go.Figure(
        go.Heatmap(
            z=np.where(np.isfinite(values), np.clip(values, -limit, limit), np.nan),
            text=[[_percent(value) for value in row] for row in values],
            texttemplate="" if many else "%{text}",
            hovertext=[[escape(text) for text in row] for row in given.texts],
            hoverinfo="text",
            colorscale=_DIVERGING,
            zmin=-limit,
            zmax=limit,
            xgap=2,
            ygap=2,
            # A length in pixels: beside few rows a share of the height would have no room for its labels.
            colorbar=scale
            | {"thickness": 12, "outlinewidth": 0, "lenmode": "pixels", "len": 150, "y": 1, "yanchor": "top"},
        )
    )
    height = _ROW_HEIGHT if len(given.rows) <= _MANY_ROWS else _LOW_ROW_HEIGHT
    _lay_out(figure, height=(170 if many else 100) + max(height * len(given.rows), 110))
    figure.update_layout(plot_bgcolor=_UNDEFINED)
    between = " · " if many else "<br>"
    names = [between.join(escape(shorten(part, _COLUMN_WIDTH)) for part in column if part) for column in given.columns]
    # On a narrow screen labels turn instead of overlapping.
    angles = {"tickangle": -60} if many else {"autotickangles": [0, -60]}
    figure.update_xaxes(tickmode="array", tickvals=list(range(len(names))), ticktext=names, **angles)
    figure.update_xaxes(showgrid=False, ticks="", showline=False)
    _name_rows(figure, _distinct(given.rows))
    figure.update_yaxes(range=[len(given.rows) - 0.5, -0.5], tickfont={"size": 13 if height == _ROW_HEIGHT else 10})
    return figure


def _percent(value: float) -> str:
    return f"{fixed(100 * value, 0, signed=True)} %" if np.isfinite(value) else ""


# What several figures share ------------------------------------------------------------------------------------------


def _name_rows(figure: go.Figure, labels: Sequence[str]) -> None:
    figure.update_yaxes(
        tickmode="array",
        tickvals=list(range(len(labels))),
        ticktext=list(labels),
        range=[len(labels) - 0.4, -0.6],
        ticksuffix="  ",
        showgrid=False,
        ticks="",
        showline=False,
    )


def _note(figure: go.Figure, text: str, x: float, *, xanchor: str, xshift: int) -> None:
    place: dict[str, Any] = {"x": x, "y": 1.0, "yref": "paper", "xanchor": xanchor, "yanchor": "top", "xshift": xshift}
    figure.add_annotation(text=escape(text), **place, showarrow=False, font={"size": 11, "color": "#666666"})


def _lay_out(figure: go.Figure, height: int) -> None:
    """Apply the style of all figures."""
    axis: dict[str, Any] = {
        "showline": True,
        "linecolor": "#999999",
        "linewidth": 1,
        "ticks": "outside",
        "tickcolor": "#999999",
        "ticklen": 4,
        "gridcolor": _FAINT,
        "zeroline": False,
        "title": {"standoff": 10, "font": {"size": 13}},
        "automargin": True,
    }
    figure.update_layout(
        template=go.layout.Template(),
        height=height,
        autosize=True,
        font={"family": _FONT, "size": 13, "color": _INK},
        paper_bgcolor="white",
        plot_bgcolor="white",
        margin={"l": 64, "r": 16, "t": 16, "b": 56},
        hovermode="closest",
        hoverlabel={"font": {"family": _FONT, "size": 13}, "align": "left"},
        dragmode="zoom",
        xaxis=axis,
        yaxis=axis,
    )


def _distinct(groups: Sequence[str]) -> list[str]:
    """Return escaped names; shortened ones that have become equal are numbered."""
    seen: dict[str, int] = {}
    labels = []
    for group in groups:
        text = escape(shorten(plain(group), _LABEL_WIDTH))
        seen[text] = seen.get(text, 0) + 1
        labels.append(text if seen[text] == 1 else f"{text} [{seen[text]}]")
    return labels


def escape(text: str) -> str:
    """Escape a text for plotly, so that no tag, entity or template in a name takes effect.

    >>> escape("<i>%{x}</i> & co")
    '&lt;i&gt;%&#123;x}&lt;/i&gt; &amp; co'
    """
    shown = plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([%$])\{", r"\1&#123;", shown)
