"""Mean distance against cost, one panel a model, as SVG: both axes logarithmic, left of and below is better."""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

from distances.frontier import Cost
from distances.store import Point

_WIDTH, _HEIGHT, _PAD_LEFT, _PAD_RIGHT, _PAD_TOP, _PAD_BOTTOM = 460, 330, 62, 12, 34, 46
Scale = Callable[[float], float]
Entry = tuple[float, float, Point]  # cost, mean, whose

_OURS = "#0b5fa5"
_COLOURS = {"DDN": "#d9730d", "FMN": "#3a8f3a", "ALMA": "#8a4fb5", "PDGD": "#a0522d", "SDF": "#b5179e"}
_OTHER = "#8a8f98"
_TALLEST = 1.7  # times the lowest mean: what lies higher is left out of the picture


def picture(panels: Mapping[str, Sequence[Point]], cost: Cost, words: str) -> str:
    """An SVG of all panels, two in a row, with a legend."""
    rows = math.ceil(len(panels) / 2)
    width, height = 2 * _WIDTH, rows * _HEIGHT + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="system-ui, sans-serif" font-size="12" fill="#333">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for i, (title, found) in enumerate(panels.items()):
        moved = f"translate({i % 2 * _WIDTH} {i // 2 * _HEIGHT})"
        parts += [f'<g transform="{moved}">', *_panel(title, found, cost, words), "</g>"]
    parts += [*_legend(rows * _HEIGHT + 22), "</svg>"]
    return "\n".join(parts) + "\n"


def _panel(title: str, found: Sequence[Point], cost: Cost, words: str) -> list[str]:
    shown = [(spent, p.fact.mean, p) for p in found if (spent := cost(p)) is not None]
    if not shown:
        return [_text(_WIDTH / 2, _HEIGHT / 2, f"{title}: not measured yet", "middle")]
    lowest = min(mean for _, mean, _ in shown)
    shown = [entry for entry in shown if entry[1] <= lowest * _TALLEST]
    left, right = min(e[0] for e in shown) / 1.15, max(e[0] for e in shown) * 1.15
    bottom, top = lowest / 1.02, max(e[1] for e in shown) * 1.03
    x = _scale(left, right, _PAD_LEFT, _WIDTH - _PAD_RIGHT)
    y = _scale(bottom, top, _HEIGHT - _PAD_BOTTOM, _PAD_TOP)
    parts = [_text(_PAD_LEFT, 20, title, "start", ' font-weight="600" font-size="14"')]
    for value in _ticks(left, right):
        parts.append(_line(x(value), _PAD_TOP, x(value), _HEIGHT - _PAD_BOTTOM, "#eceef1"))
        parts.append(_text(x(value), _HEIGHT - _PAD_BOTTOM + 16, f"{value:g}", "middle"))
    for step in range(5):
        value = bottom * (top / bottom) ** (step / 4)
        parts.append(_line(_PAD_LEFT, y(value), _WIDTH - _PAD_RIGHT, y(value), "#eceef1"))
        parts.append(_text(_PAD_LEFT - 6, y(value) + 4, f"{value:.3g}", "end"))
    parts.append(_text((_PAD_LEFT + _WIDTH) / 2, _HEIGHT - 10, words, "middle"))
    middle = (_HEIGHT - _PAD_BOTTOM + _PAD_TOP) / 2
    parts.append(_text(14, middle, "mean distance", "middle", f' transform="rotate(-90 14 {middle})"'))
    families: dict[str, list[Entry]] = {}
    for entry in shown:
        families.setdefault(f"{entry[2].fact.library} {entry[2].fact.name}", []).append(entry)
    for entries in sorted(families.values(), key=lambda e: e[0][2].fact.ours):  # ours on top
        parts += _curve(sorted(entries, key=lambda e: e[0]), x, y)
    return parts


def _curve(entries: list[Entry], x: Scale, y: Scale) -> list[str]:
    fact = entries[0][2].fact
    colour, radius, stroke = (_OURS, 4.5, 2.5) if fact.ours else (_COLOURS.get(fact.name, _OTHER), 3, 1.2)
    dash = "" if fact.ours or fact.library == "adv-lib" else ' stroke-dasharray="3 3"'
    way = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b, _ in entries)
    parts = [f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="{stroke}"{dash}/>']
    for spent, mean, point in entries:
        told = f"{point.fact.key}: mean {mean:.4f} at {spent:.1f}, success {point.fact.success:.3f}"
        parts.append(
            f'<circle cx="{x(spent):.1f}" cy="{y(mean):.1f}" r="{radius}" fill="{colour}">'
            f"<title>{escape(told)}</title></circle>"
        )
    if len(entries) == 1:
        label = fact.name if fact.ours else f"{fact.library} {fact.name}"
        parts.append(
            _text(x(entries[0][0]) + 6, y(entries[0][1]) - 5, label, "start", f' fill="{colour}" font-size="10"')
        )
    return parts


def _legend(height: float) -> list[str]:
    parts, at = [], 40.0
    for name, colour in {"Fairmargin": _OURS, **_COLOURS, "others": _OTHER}.items():
        parts.append(f'<circle cx="{at}" cy="{height - 4}" r="5" fill="{colour}"/>')
        parts.append(_text(at + 10, height, name, "start"))
        at += 30 + 8 * len(name)
    parts.append(_text(at, height, "(lines: adv-lib; dashed: other libraries)", "start", ' fill="#666"'))
    return parts


def _scale(low: float, high: float, start: float, end: float) -> Scale:
    return lambda value: start + (math.log(value) - math.log(low)) / (math.log(high) - math.log(low)) * (end - start)


def _ticks(low: float, high: float) -> list[float]:
    return [m * 10.0**e for e in range(-1, 5) for m in (1, 2, 5) if low <= m * 10.0**e <= high]


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, words: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'
