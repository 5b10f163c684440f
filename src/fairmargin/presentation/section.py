"""Sections: what a result shows, as data. The console prints them and the report draws them."""

import math
from dataclasses import dataclass
from typing import Final, Literal

LESS: Final = "less"
MORE: Final = "more"
SAME: Final = "same"
UNSURE: Final = "unsure"
MISSING: Final = "missing"
GOOD: Final = "good"
BAD: Final = "bad"
Mark = Literal["less", "more", "same", "unsure", "missing", "good", "bad", ""]
"""What a verdict means for the group; console and report choose colour and shape by it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of a table as formatted text.

    Parameters
    ----------
    text
        The value; "undefined" where there is none.
    interval
        Its interval, or a second number that belongs to it.
    note
        What else belongs to it, such as the reason why it is undefined. The console leaves it out.
    mark
        What the note means for the group, which chooses its colour.
    """

    text: str
    interval: str = ""
    note: str = ""
    mark: Mark = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    name
        Heading.
    detail
        Second line of the heading, such as a unit.
    kind
        Texts are aligned to the left and may be wrapped, numbers to the right; a verdict is coloured by the row's mark.
    hidden
        Whether a console without room for all columns may leave it out; the last such column goes first. The report
        shows every column.
    interval
        Heading of the column in which the console shows the intervals of the cells; empty if only the report does.
    """

    name: str
    detail: str = ""
    kind: Literal["text", "number", "verdict"] = "number"
    hidden: bool = False
    interval: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of formatted texts; the first column names the row.

    Parameters
    ----------
    columns
        The columns.
    rows
        One cell per column in each row.
    marks
        The mark of each row's verdict; empty if there are no verdicts.
    caption
        How to read the numbers.
    label
        What the table is about, for screen readers.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    marks: tuple[Mark, ...] = ()
    caption: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a figure.

    Parameters
    ----------
    label
        Name of the group.
    x, y
        Corners of a step function, or points that are joined.
    place
        Position of the group in its partition, which chooses the colour; -1 for all samples together.
    band
        Half-width of the band around the line; NaN if none is drawn.
    low, high
        Ends of an interval at every point; empty if there are none.
    alone
        Other values at the same points, drawn as a dotted line; empty if there are none.
    colour
        Of many groups, only the least and the most robust have a colour and the others are grey.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    place: int = -1
    band: float = math.nan
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    alone: tuple[float, ...] = ()
    colour: Literal["own", "least", "most", "grey"] = "own"


@dataclass(frozen=True, slots=True)
class Curves:
    """Step functions over a radius, in the order of the legend.

    `end` is where the axis ends, and `cap` the radius at which distances were capped. `alt` describes the figure for
    readers who do not see it.
    """

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    end: float
    cap: float = math.inf
    caption: str = ""
    alt: str = ""


@dataclass(frozen=True, slots=True)
class Courses:
    """Values of every group at named points, such as budgets; `chosen` is the position of the one that counts."""

    title: str
    x_label: str
    y_label: str
    ticks: tuple[str, ...]
    lines: tuple[Line, ...]
    chosen: int
    chosen_label: str
    caption: str = ""
    alt: str = ""


@dataclass(frozen=True, slots=True)
class Range:
    """A value with its interval, or limits between which an unknown value lies.

    Parameters
    ----------
    label
        Name of the group.
    value
        NaN if it is not known, or undefined.
    low, high
        Ends of the interval; NaN where there is none.
    outer_low, outer_high
        Ends of a wider interval, drawn thinner; NaN if there is none.
    mark, verdict
        What is found, which chooses colour and shape.
    text
        What is shown when the mouse rests on it.
    reason
        Why there is nothing to draw.
    """

    label: str
    value: float
    low: float
    high: float
    outer_low: float = math.nan
    outer_high: float = math.nan
    mark: Mark = ""
    verdict: str = ""
    text: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Values with intervals, one row per group.

    Parameters
    ----------
    title, x_label, caption, alt
        As of `Curves`.
    ranges
        One per group, from top to bottom.
    reference
        Where a line is drawn; NaN for none.
    strip
        Half-width of a grey strip around the reference; 0 for none.
    widest
        The axis ends here; wider intervals run out of the figure.
    percent
        Whether the axis is in percent.
    """

    title: str
    x_label: str
    ranges: tuple[Range, ...]
    reference: float = 0.0
    strip: float = 0.0
    widest: float = math.inf
    percent: bool = True
    caption: str = ""
    alt: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """Shares of each group that add up to 1, one row per group: shares[group][part]."""

    title: str
    x_label: str
    labels: tuple[str, ...]
    parts: tuple[str, ...]
    shares: tuple[tuple[float, ...], ...]
    caption: str = ""
    alt: str = ""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Shares of every row and column as colours that diverge from 0.

    Parameters
    ----------
    title, caption, alt
        As of `Curves`.
    label
        What the values are, beside the scale of colours.
    rows
        Names of the rows, from top to bottom.
    columns
        Name and second line of each column.
    values
        values[row][column]; NaN where it is undefined.
    texts
        What is shown when the mouse rests on a value: texts[row][column].
    """

    title: str
    label: str
    rows: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    values: tuple[tuple[float, ...], ...]
    texts: tuple[tuple[str, ...], ...]
    caption: str = ""
    alt: str = ""


Figure = Curves | Courses | Intervals | Bars | Matrix


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a term means; the page shows each once, under the heading of its topic."""

    topic: str
    text: str
    term: str = ""
    mark: Mark = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page and of the console's output.

    Parameters
    ----------
    title
        Heading.
    about
        What was measured, how, and of how many samples; stands below the heading.
    answer
        What was found, in one sentence.
    sentences
        What else was found of all groups together.
    findings
        What was found of each group, one sentence each; folded on the page.
    cautions
        What a reader must know before relying on the answer.
    notes
        Conditions under which the numbers hold.
    tables, figures
        The numbers. The console prints tables only.
    further
        Sections that the page folds and the console leaves out.
    explanations
        How to read all this.
    method
        How intervals and p-values were made.
    """

    title: str
    about: str = ""
    answer: str = ""
    sentences: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    further: tuple["Section", ...] = ()
    explanations: tuple[Explanation, ...] = ()
    method: str = ""
