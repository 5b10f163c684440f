"""What a person sees in a terminal: tables on standard output, progress and errors on standard error."""

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fairmargin.errors import harmless_json, visible

if TYPE_CHECKING:
    from fairmargin.core.progress import Progress as Tell
    from fairmargin.presentation.section import Section
    from fairmargin.presentation.section import Table as SectionTable
    from fairmargin.study.record import RunRecord
    from fairmargin.study.study import Study


class _Output(Console):
    """A closed pipe (`| head`) ends the printing, not the command: its exit code still means what it says."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# Into a file or a pipe there is no edge to wrap at.
output = _Output(highlight=False, emoji=False, width=None if sys.stdout.isatty() else 160)
errors = Console(stderr=True, highlight=False, emoji=False)

FAILED = 1
"""Exit code of a run of which a part failed."""

_A_MINUTE = 60.0
_WIDEST_TEXT = 30  # of a name or verdict on one line; longer ones are wrapped before a column is hidden
_COLOURS = {"less": "red", "more": "green", "bad": "red", "good": "green"}


@contextmanager
def progress(quiet: bool) -> "Iterator[Tell]":
    """Show a progress bar on standard error that disappears when done, or lines in a log; nothing if quiet."""
    if quiet or not errors.is_terminal:
        yield silent if quiet else lines_in_a_log()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True) as bars:
        known: dict[str, object] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in known:
                known[what] = bars.add_task(shown(what), total=total)
            bars.update(known[what], completed=done, total=total)  # type: ignore[arg-type]

        yield report


def silent(what: str, done: int, total: int) -> None:
    """Ignore a report of progress."""


def lines_in_a_log(clock: Callable[[], float] = time.monotonic) -> "Tell":
    """Print at most one line per minute where no bar can be drawn, so that logs show that a long run goes on."""
    last = clock()

    def report(what: str, done: int, total: int) -> None:
        nonlocal last
        if clock() - last >= _A_MINUTE:
            last = clock()
            errors.print(f"{shown(what)}: {done:,} of {total:,} ({done / max(total, 1):.0%})", soft_wrap=True)

    return report


def show_run(study: "Study", out: Path, engine: str, *, json_: bool, quiet: bool) -> None:
    """Carry out a study into a folder, write its report, and show what was found; exit with 1 if something failed."""
    record, counts = carry_out(study, out, engine, quiet=quiet or json_)
    if json_:
        print_json(run_json(out, record, counts))
    for failure in record.failures:
        errors.print(f"[bold red]Failed:[/] {shown(failure)}", soft_wrap=True)
    if record.failures:
        raise typer.Exit(FAILED)


def run_json(out: Path, record: "RunRecord", counts: Mapping[str, int]) -> dict[str, Any]:
    """Return a run as plain values: where it is, how many shards it measured, and all results."""
    from fairmargin.study.export import as_json
    from fairmargin.study.run_folder import RunFolder

    return {"run": str(out), "report": str(RunFolder(out).report), **counts, **as_json(record)}


def carry_out(study: "Study", out: Path, engine: str, *, quiet: bool) -> tuple["RunRecord", dict[str, int]]:
    """Carry out a study into a folder, write its report, and show it unless quiet.

    Return the record, and how many shards were measured and how many were there before.
    """
    from fairmargin.engine.catalog import parse_engine
    from fairmargin.report.page import write_report
    from fairmargin.runner.run import run
    from fairmargin.study.run_folder import RESULTS_TABLE, RunFolder

    folder = RunFolder(out)
    with progress(quiet) as told:
        record, measure = run(study, folder, parse_engine(engine), command=command_line(), progress=told)
        write_report(folder.report, record)
    if not quiet:
        show_record(record)
        if measure.earlier == "replaced":
            output.print(f"Results of an earlier run in {shown(str(out))} were replaced.", soft_wrap=True)
        if measure.earlier == "completed":
            output.print(f"Adequacy was added to the audit in {shown(str(out))}.", soft_wrap=True)
        if measure.trained:
            output.print(f"{counted(measure.trained, 'network was', 'networks were')} trained now.")
        if measure.reused:
            there, now = counted(measure.reused, "shard was", "shards were"), counted(measure.measured, "was", "were")
            output.print(f"{there} there already; {now} measured now.")
        if study.grid is not None:
            output.print(f"Table: {shown(str(out / RESULTS_TABLE))}", soft_wrap=True)
        output.print(f"Report: {shown(str(folder.report))}", soft_wrap=True)
    return record, {"measured_shards": measure.measured, "reused_shards": measure.reused}


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
    for sentence in filter(None, (section.answer, *section.sentences, *_unjudged(section))):
        output.print(shown(sentence), soft_wrap=True)
    for note in (*section.notes, *section.cautions):
        output.print(f"[yellow]Note:[/] {shown(note)}", soft_wrap=True)
    output.print()


def _unjudged(section: "Section") -> list[str]:
    """Return the findings of groups without a verdict: tables of the console do not give the reason."""
    marks = section.tables[0].marks if section.tables else ()
    if len(marks) != len(section.findings):
        return []
    return [sentence for sentence, mark in zip(section.findings, marks, strict=True) if mark == "missing"]


def _printed(given: "SectionTable") -> Table:
    """Return a table for the terminal, without the columns for which it has no room.

    Intervals stand in columns of their own. The group and the verdict break lines, so that both are always there.
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
    for number in range(len(given.rows)):
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
    """Return the places of the columns for which there is room; of those that may be hidden the last go first."""
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
    """Prepare a text from data for printing: markup is shown as it is spelled, control characters as escapes."""
    safe = escape(visible(text))
    # An odd backslash at the end would escape the tag that follows.
    return safe + "\\" * ((len(safe) - len(safe.rstrip("\\"))) % 2)


def print_json(content: Any) -> None:
    """Print a result for programs. Control characters that JSON allows in texts are escaped, line breaks aside."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2)
    typer.echo(harmless_json(text))


def command_line() -> str:
    """Return the command that is running, as one could type it."""
    return shlex.join(["fairmargin", *sys.argv[1:]])
