"""Output in a terminal: tables on standard output, errors on standard error."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fairmargin.errors import harmless_json, visible

if TYPE_CHECKING:
    from fairmargin.presentation.section import Section
    from fairmargin.presentation.section import Table as SectionTable
    from fairmargin.study.record import RunRecord


class _Output(Console):
    """Console that stops printing if the pipe is closed (`| head`), without changing the exit code of the command."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# Files and pipes have no width at which lines must be wrapped.
output = _Output(highlight=False, emoji=False, width=None if sys.stdout.isatty() else 160)
errors = Console(stderr=True, highlight=False, emoji=False)

_MOST_ROWS = 20  # of a table; the report shows all
_WIDEST_TEXT = 30  # of a name or verdict on one line; longer ones are wrapped before a column is hidden
_COLOURS = {"less": "red", "more": "green", "bad": "red", "good": "green"}


def show_record(record: "RunRecord") -> None:
    """Print every section of a record, and its notes."""
    from fairmargin.report.sections import sections_of

    for section in sections_of(record):
        show_section(section)
    for note in record.notes:
        output.print(f"[yellow]Note:[/] {shown(note)}", soft_wrap=True)


def show_section(section: "Section") -> None:
    """Print a section: its tables, sentences and cautions."""
    heading = f"{section.title}: {section.about}" if section.about else section.title
    output.print(f"[bold]{shown(heading)}[/]", soft_wrap=True)
    for table in section.tables:
        output.print(_printed(table))
        if len(table.rows) > _MOST_ROWS:
            output.print(f"… and {len(table.rows) - _MOST_ROWS:,} more; the page and the files of the run have all.")
    for sentence in filter(None, (section.answer, *section.sentences, *_unjudged(section))):
        output.print(shown(sentence), soft_wrap=True)
    for note in (*section.notes, *section.cautions):
        output.print(f"[yellow]Note:[/] {shown(note)}", soft_wrap=True)
    output.print()


def _unjudged(section: "Section") -> list[str]:
    """Return the findings of groups without a verdict, since the tables of the console do not give the reason."""
    marks = section.tables[0].marks if section.tables else ()
    if len(marks) != len(section.findings):
        return []
    return [sentence for sentence, mark in zip(section.findings, marks, strict=True) if mark == "missing"][:_MOST_ROWS]


def _printed(given: "SectionTable") -> Table:
    """Return a table for the terminal, without the columns for which the terminal is too narrow.

    Intervals have columns of their own. Long names of groups and verdicts are wrapped, so that both are always shown.
    """
    columns = [column for i in _that_fit(given, output.width) for column in _columns_of(given, i)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        wraps = column.kind != "number"
        table.add_column(
            "\n".join(map(shown, column.heading)),
            justify="left" if wraps else "right",
            no_wrap=not wraps,
            overflow="fold",
            min_width=min(11, column.width) if wraps else None,
        )
    for number in range(min(len(given.rows), _MOST_ROWS)):
        colour = _COLOURS.get(given.marks[number] if given.marks else "", "")
        cells = [(shown(column.texts[number]), column.kind) for column in columns]
        table.add_row(*(f"[{colour}]{text}[/]" if colour and kind == "verdict" else text for text, kind in cells))
    return table


@dataclass(frozen=True, slots=True)
class _PrintedColumn:
    heading: tuple[str, ...]
    texts: tuple[str, ...]
    kind: str

    @property
    def width(self) -> int:
        return max(map(len, (*self.heading, *self.texts)), default=0)


def _columns_of(table: "SectionTable", i: int) -> list[_PrintedColumn]:
    """Return column number `i`, and one for its intervals if the console shows them."""
    column = table.columns[i]
    heading = (column.name, column.detail) if column.detail else (column.name,)
    columns = [_PrintedColumn(heading, tuple(row[i].text for row in table.rows), column.kind)]
    if column.interval and any(row[i].interval for row in table.rows):
        texts = tuple(row[i].interval or "–" for row in table.rows)
        columns.append(_PrintedColumn((column.interval,), texts, "number"))
    return columns


def _that_fit(table: "SectionTable", width: int) -> list[int]:
    """Return the positions of the columns that fit into the width; the last hideable columns are hidden first."""
    widths = [
        sum(min(each.width, _WIDEST_TEXT if each.kind != "number" else width) + 2 for each in _columns_of(table, i))
        for i in range(len(table.columns))
    ]
    places = list(range(len(table.columns)))
    for i in reversed(range(len(table.columns))):
        if sum(widths[place] for place in places) > width and table.columns[i].hidden:
            places.remove(i)
    return places


def counted(number: int, one: str, many: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "shard was", "shards were"), counted(1200, "shard was", "shards were")
    ('1 shard was', '1,200 shards were')
    """
    return f"{number:,} {one if number == 1 else many}"


def plain_table(title: str, *, left: Sequence[str], wrap: Sequence[str] = ()) -> Callable[..., Table]:
    """Return a table without vertical lines, numbers to the right; only columns in `wrap` break lines."""

    def with_columns(*names: str) -> Table:
        table = Table(
            title=shown(title),
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        for name in names:
            wraps = name in wrap
            table.add_column(
                name,
                justify="left" if name in left else "right",
                no_wrap=not wraps,
                overflow="fold",
                min_width=11 if name == "verdict" else None,
            )
        return table

    return with_columns


def shown(text: str) -> str:
    """Prepare a text from data for printing: markup is not interpreted, control characters are escaped."""
    safe = escape(visible(text))
    # An odd backslash at the end would escape the tag that follows.
    return safe + "\\" * ((len(safe) - len(safe.rstrip("\\"))) % 2)


def print_json(content: Any) -> None:
    """Print a result as JSON; control characters other than line breaks are escaped."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2)
    typer.echo(harmless_json(text))


def option_name(field: str) -> str:
    """Return a field as the command line spells it.

    >>> option_name("merge_below"), option_name("audit.up_to")
    ('--merge-below', '--up-to')
    """
    return "--" + field.rpartition(".")[2].replace("_", "-")
