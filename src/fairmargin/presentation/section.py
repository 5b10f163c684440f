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
    """A value of a table as formatted text."""

    text: str  # the value; "undefined" where there is none
    interval: str = ""  # its interval, or a second number that belongs to it
    note: str = ""  # other text, such as the reason why it is undefined; the console leaves it out
    mark: Mark = ""  # what the note means for the group, which chooses its colour


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Texts are aligned to the left and may be wrapped, numbers to the right; a verdict is coloured by the row's mark. A
    console without space for all columns leaves out hidden ones, the last first; the report shows every column.
    """

    name: str
    detail: str = ""  # second line of the heading, such as a unit
    kind: Literal["text", "number", "verdict"] = "number"
    hidden: bool = False
    interval: str = ""  # heading of the intervals, which the console shows in a column; empty if only the report does


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of formatted texts; the first column names the row."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]  # one cell per column in each row
    marks: tuple[Mark, ...] = ()  # of the verdict of each row; empty if there are no verdicts
    caption: str = ""  # how to read the numbers
    label: str = ""  # what the table is about, for screen readers


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a figure. Of many groups, only the least and the most robust have a colour and the others are grey."""

    label: str
    x: tuple[float, ...]  # corners of a step function, or points that are joined
    y: tuple[float, ...]
    place: int = -1  # position of the group in its partition, which chooses the colour; -1 for all samples together
    band: float = math.nan  # half-width of the band around the line; NaN if none is drawn
    low: tuple[float, ...] = ()  # ends of an interval at every point; empty if there are none
    high: tuple[float, ...] = ()
    alone: tuple[float, ...] = ()  # other values at the same points, drawn as a dotted line; empty if there are none
    colour: Literal["own", "least", "most", "grey"] = "own"


@dataclass(frozen=True, slots=True)
class Curves:
    """Step functions over a radius, in the order of the legend."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    end: float  # of the axis
    cap: float = math.inf  # the radius at which distances were capped
    caption: str = ""
    alt: str = ""  # description for readers who do not see the figure


@dataclass(frozen=True, slots=True)
class Courses:
    """Values of every group at named points, such as budgets."""

    title: str
    x_label: str
    y_label: str
    ticks: tuple[str, ...]  # names of the points
    lines: tuple[Line, ...]
    chosen: int  # position of the point that counts
    chosen_label: str
    caption: str = ""
    alt: str = ""


@dataclass(frozen=True, slots=True)
class Range:
    """A value with its interval, or limits between which an unknown value lies."""

    label: str
    value: float  # NaN if it is not known, or undefined
    low: float  # ends of the interval; NaN where there is none
    high: float
    outer_low: float = math.nan  # ends of a wider interval, drawn thinner; NaN if there is none
    outer_high: float = math.nan
    mark: Mark = ""  # mark and verdict choose colour and shape
    verdict: str = ""
    text: str = ""  # shown under the pointer
    reason: str = ""  # why there is nothing to draw


@dataclass(frozen=True, slots=True)
class Intervals:
    """Values with intervals, one row per group from top to bottom."""

    title: str
    x_label: str
    ranges: tuple[Range, ...]
    reference: float = 0.0  # where a line is drawn; NaN for none
    strip: float = 0.0  # half-width of a grey strip around the reference; 0 for none
    widest: float = math.inf  # the axis ends here; wider intervals run out of the figure
    percent: bool = True  # whether the axis is in percent
    caption: str = ""
    alt: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """Shares of each group that add up to 1, one row per group."""

    title: str
    x_label: str
    labels: tuple[str, ...]
    parts: tuple[str, ...]
    shares: tuple[tuple[float, ...], ...]  # shares[group][part]
    caption: str = ""
    alt: str = ""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Shares of every row and column as colours that diverge from 0."""

    title: str
    label: str  # what the values are, beside the scale of colours
    rows: tuple[str, ...]  # names from top to bottom
    columns: tuple[tuple[str, str], ...]  # name and second line of each column
    values: tuple[tuple[float, ...], ...]  # values[row][column]; NaN where it is undefined
    texts: tuple[tuple[str, ...], ...]  # texts[row][column], shown under the pointer
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
    """A part of the page and of the console's output. The console prints neither figures nor further sections."""

    title: str
    about: str = ""  # what was measured, how, and of how many samples; stands below the heading
    answer: str = ""  # what was found, in one sentence
    sentences: tuple[str, ...] = ()  # what else was found of all groups together
    findings: tuple[str, ...] = ()  # one sentence per group; folded on the page
    unit: str = "group"  # what each finding is about
    cautions: tuple[str, ...] = ()  # what a reader must know before relying on the answer
    notes: tuple[str, ...] = ()  # conditions under which the numbers hold
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    further: tuple["Section", ...] = ()  # sections that the page folds
    explanations: tuple[Explanation, ...] = ()  # how to read all this
    method: str = ""  # how intervals and p-values were computed
