"""Sections: what a result shows, as data. The console prints them and the report draws them."""

from dataclasses import dataclass, field

LESS, MORE = "less", "more"
"""Marks of a row whose group is significantly worse or better off; console and report choose the colour."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of formatted texts.

    Parameters
    ----------
    columns
        Headings.
    rows
        One text per column in each row.
    texts
        Headings of columns that hold text, which is aligned to the left and may be wrapped; the others hold numbers.
    marks
        One mark per row, `LESS`, `MORE` or "".
    hidden
        Headings of columns that the console leaves out for lack of room; the report and CSV files show them.
    caption
        What the numbers are, in one line.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A curve of a figure."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    mark: str = ""
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves over a radius, one per group."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Range:
    """A value with its interval; the value may be missing."""

    label: str
    value: float
    low: float
    high: float
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Values with intervals, one row per group, beside a reference line."""

    title: str
    x_label: str
    ranges: tuple[Range, ...]
    reference: float | None = None
    percent: bool = False
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """Stacked shares of each group."""

    title: str
    labels: tuple[str, ...]
    parts: tuple[str, ...]
    shares: tuple[tuple[float, ...], ...]
    caption: str = ""


Figure = Curves | Intervals | Bars


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page and of the console's output.

    Parameters
    ----------
    title
        Heading.
    answer
        What was found, in one sentence; empty if `sentences` say it.
    sentences
        What was found about groups, most important first.
    cautions
        What qualifies the answer, one sentence each.
    tables, figures
        The numbers.
    explanations
        How to read them.
    details
        Further sections, folded on the page and left out on the console.
    """

    title: str
    answer: str = ""
    sentences: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    explanations: tuple[str, ...] = ()
    details: tuple["Section", ...] = field(default=())
