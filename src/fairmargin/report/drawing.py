"""What every figure shares: one style, and labels that cannot be mistaken for markup or for each other."""

import re
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from fairmargin.presentation.formatting import plain, shorten

FAINT = "#E6E6E6"
_INK = "#222222"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_LABEL_WIDTH = 22


def lay_out(figure: go.Figure, height: int) -> None:
    """Apply the style of all figures."""
    axis: dict[str, Any] = {
        "showline": True,
        "linecolor": "#999999",
        "linewidth": 1,
        "ticks": "outside",
        "tickcolor": "#999999",
        "ticklen": 4,
        "gridcolor": FAINT,
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


def distinct(groups: Sequence[str]) -> list[str]:
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
