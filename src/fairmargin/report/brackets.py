"""What a page shows of brackets: what is certain, whatever the attack and whatever the certificate."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import plotly.graph_objects as go

from fairmargin.analyses.bracket import (
    CERTAINLY_LESS,
    CERTAINLY_LESS_HERE,
    CERTAINLY_MORE,
    CERTAINLY_MORE_HERE,
    NOT_CERTAIN,
    Bracket,
    GroupBracket,
    Range,
)
from fairmargin.inference.estimate import NOT_COMPARABLE, TOO_FEW
from fairmargin.presentation import formatting
from fairmargin.presentation.formatting import limit_text, radius_of
from fairmargin.report.drawing import distinct, lay_out

READING = (
    "An attack shows how far a sample is at most from being fooled, a certificate how far at least. What lies between "
    "both is not known; what lies outside is ruled out, however strong the next attack may be. If the limits of a "
    "group’s σ exclude 0, it is certain which side is easier to fool in the very samples measured. For everyone they "
    "were drawn from, sampling error is added, and the verdict allows for there being several groups: it can stay "
    "cautious where one group’s limits, taken alone, exclude 0."
)
SYMBOLS = {
    CERTAINLY_LESS: "▼",
    CERTAINLY_MORE: "▲",
    CERTAINLY_LESS_HERE: "▽",
    CERTAINLY_MORE_HERE: "△",
    NOT_CERTAIN: "–",
    TOO_FEW: "?",
    NOT_COMPARABLE: "?",
}
_COLOURS = {CERTAINLY_LESS: "#D55E00", CERTAINLY_LESS_HERE: "#D55E00", CERTAINLY_MORE: "#0072B2"}
_COLOURS |= {CERTAINLY_MORE_HERE: "#0072B2"}
_ROW_HEIGHT = 30
_WIDEST = 3.0  # σ of more than this is drawn as an open end


def bracket_intervals(bracket: Bracket) -> go.Figure:
    """σ of every group between its bounds: thick for these samples, thin with sampling error for the population.

    Parameters
    ----------
    bracket
        What `bracket` returned.
    """
    rows = bracket.ordered()
    known = [row for row in rows if row.sigma.is_known]
    limits_of_all = [end for row in known for end in (row.sigma.population_low, row.sigma.population_high)]
    widest = min(_WIDEST, max((abs(end) for end in limits_of_all if math.isfinite(end)), default=1.0))
    figure = go.Figure()
    for place, row in enumerate(rows):
        if row.sigma.is_known:
            colour = _COLOURS.get(row.verdict, "#666666")
            limits = (row.sigma.population_low, row.sigma.population_high), (row.sigma.low, row.sigma.high)
            for (low, high), width in zip(limits, (2, 10), strict=True):
                figure.add_trace(
                    _bar(place, (max(low, -1.0), min(high, 2 * widest)), width, colour, bracket.finding(row))
                )
    lay_out(figure, height=100 + _ROW_HEIGHT * len(rows))
    figure.add_vline(0, line={"color": "#444444", "width": 1}, layer="below")
    figure.update_layout(showlegend=False)
    figure.update_xaxes(
        title_text=f"σ: mean distance {radius_of(bracket.up_to)} relative to the rest".replace("  ", " "),
        tickformat=".0%",
        range=[-min(1.0, 1.1 * widest), widest],
    )
    figure.update_yaxes(
        tickmode="array",
        tickvals=list(range(len(rows))),
        ticktext=distinct([row.group for row in rows]),
        range=[len(rows) - 0.4, -0.6],
        showgrid=False,
        ticks="",
        showline=False,
    )
    return figure


def _bar(place: int, ends: tuple[float, float], width: int, colour: str, words: str) -> go.Scatter:
    return go.Scatter(
        x=list(ends),
        y=[place, place],
        mode="lines",
        line={"width": width, "color": colour},
        hovertext=words,
        hoverinfo="text",
    )


def blocks(brackets: Sequence[tuple[Bracket, str]], embed: Callable[[Any], Any]) -> dict[str, Any]:
    """What the template needs: one block a bracket, each with the names of the estimators that it lies between."""
    return {"reading": READING, "blocks": [_block(bracket, between, embed) for bracket, between in brackets]}


def certainty(brackets: Sequence[Bracket]) -> str:
    """Say in one more sentence of the page's answer what is certain, of which model and up to which radius."""
    worst = [(row, bracket) for bracket in brackets for row in bracket if row.verdict == CERTAINLY_LESS]
    if not worst:
        return ""
    names = ", ".join(f"“{formatting.plain(row.group)}”{bracket.condition}" for row, bracket in worst)
    return f"Certain, whatever the attack: {names} {'is' if len(worst) == 1 else 'are'} easier to fool."


def _block(bracket: Bracket, between: str, embed: Callable[[Any], Any]) -> dict[str, Any]:
    headline = bracket.headline
    low, high = bracket.variance
    return {
        "partition": formatting.plain(bracket.partition),
        "between": between,
        "subject": "" if bracket.subject == "model" else bracket.subject,
        "headline": headline,
        "rows": [_row(row) for row in bracket.ordered()],
        "sentences": [bracket.finding(row) for row in bracket.ordered()],
        "confidence": formatting.level_text(bracket.confidence),
        "variance": f"{formatting.number(low)} and {formatting.number(high)}",
        "capped": bracket.cap_reason,
        "radius": radius_of(bracket.up_to),
        "up_to": formatting.number(bracket.up_to),
        "crossed": bracket.crossed,
        "figure": embed(bracket_intervals(bracket)),
        "alt": f"Each group’s σ between its bounds. {headline}",
    }


def _row(row: GroupBracket) -> dict[str, Any]:
    return {
        "group": formatting.plain(row.group),
        "size": f"{row.size:,}",
        "verdict": row.verdict,
        "symbol": SYMBOLS[row.verdict],
        "robustness": _lengths(row.robustness.low, row.robustness.high),
        "robustness_population": _lengths(row.robustness.population_low, row.robustness.population_high),
        "sigma": _shares(row.sigma, "low", "high"),
        "sigma_population": _shares(row.sigma, "population_low", "population_high"),
    }


def _lengths(low: float, high: float) -> str:
    return f"{formatting.number(low)} to {formatting.number(high) if math.isfinite(high) else 'any size'}"


def _shares(limits: Range, low: str, high: str) -> str:
    if not limits.is_known:
        return "undefined"
    return " to ".join(limit_text(getattr(limits, end), _limit) for end in (low, high))


def _limit(share: float) -> str:
    return "any size" if math.isinf(share) else formatting.table_percent(share)
