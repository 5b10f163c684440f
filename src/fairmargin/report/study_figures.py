"""The figure of a study: σ of every group in every network, as colours that diverge from 0."""

import numpy as np
import plotly.graph_objects as go

from fairmargin.presentation.formatting import fixed
from fairmargin.report.drawing import distinct, escape, lay_out
from fairmargin.report.study_numbers import Board

# From Okabe and Ito's orange over white to their blue, which colour-blind people tell apart; the page's verdicts use
# the same two.
_SCALE = ((0.0, "#BF5000"), (0.25, "#F2C6A5"), (0.5, "#FFFFFF"), (0.75, "#A9CCE6"), (1.0, "#0A639C"))
_STRONGEST, _FAINTEST = 1.0, 0.25  # |σ| at which the colour ends: no further than ±100 %, no nearer than ±25 %
_ROW_HEIGHT, _LOW_ROW_HEIGHT = 28, 17
_MANY_GROUPS = 30
_MANY_COLUMNS = 14  # more of them leave no room for numbers
_NOWHERE = "#EDEDED"


def sigma_heat_map(board: Board) -> go.Figure:
    """Mean σ over seeds, groups × networks: orange lies closer to the boundary than the rest, blue farther.

    White is σ = 0. Colours end where the numbers do, between ±25 % and ±100 %; what is undefined stays grey.

    Parameters
    ----------
    board
        σ of every group and network.
    """
    values = np.array([[board.cells[group, column].mean for column in board.columns] for group in board.groups])
    finite = np.abs(values[np.isfinite(values)])
    limit = float(np.clip(finite.max() if finite.size else _STRONGEST, _FAINTEST, _STRONGEST))
    many = len(board.columns) > _MANY_COLUMNS
    text = [[_percent(value) for value in row] for row in values]
    names = [f"{escape(column.network)}<br>{escape(column.method)}" for column in board.columns]
    said = [[_said(board, group, name, j) for j, name in enumerate(names)] for group in board.groups]
    figure = go.Figure(
        go.Heatmap(
            z=np.where(np.isfinite(values), np.clip(values, -limit, limit), np.nan),
            text=text,
            texttemplate="" if many else "%{text}",
            hovertext=said,
            hoverinfo="text",
            colorscale=_SCALE,
            zmin=-limit,
            zmax=limit,
            xgap=2,
            ygap=2,
            colorbar={
                "title": {"text": "σ"},
                "tickvals": [part * limit for part in (-1, -0.5, 0, 0.5, 1)],
                "ticktext": [_percent(part * limit) for part in (-1, -0.5, 0, 0.5, 1)],
                "thickness": 12,
                "outlinewidth": 0,
            },
        )
    )
    row_height = _ROW_HEIGHT if len(board.groups) <= _MANY_GROUPS else _LOW_ROW_HEIGHT
    lay_out(figure, height=(170 if many else 100) + max(row_height * len(board.groups), 110))
    figure.update_layout(plot_bgcolor=_NOWHERE)
    plain_axis = {"tickmode": "array", "showgrid": False, "ticks": "", "showline": False}
    ticks = [f"{escape(c.network)} · {escape(c.method)}" for c in board.columns] if many else names
    # On a phone labels turn rather than overlap.
    angles = {"tickangle": -60} if many else {"autotickangles": [0, -60]}
    figure.update_xaxes(tickvals=list(range(len(names))), ticktext=ticks, **angles, **plain_axis)
    figure.update_yaxes(
        tickvals=list(range(len(board.groups))),
        ticktext=distinct(board.groups),
        range=[len(board.groups) - 0.5, -0.5],
        tickfont={"size": 13 if row_height == _ROW_HEIGHT else 10},
        **plain_axis,
    )
    return figure


def _percent(value: float) -> str:
    return f"{fixed(100 * value, 0, signed=True)} %" if np.isfinite(value) else ""


def _said(board: Board, group: str, name: str, position: int) -> str:
    cell = board.cells[group, board.columns[position]]
    spread = f" [{_percent(cell.low)}, {_percent(cell.high)}]" if np.isfinite(cell.low + cell.high) else ""
    number = f"σ = {_percent(cell.mean)}{spread}" if np.isfinite(cell.mean) else "σ is undefined"
    return f"<b>{escape(group)}</b><br>{name.replace('<br>', ', ')}<br>{number}"
