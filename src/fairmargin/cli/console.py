"""What a person sees in a terminal: tables on standard output, progress and errors on standard error."""

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fairmargin.errors import visible

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
output = _Output(highlight=False, emoji=False, width=None if sys.stdout.isatty() else 140)
errors = Console(stderr=True, highlight=False, emoji=False)

_A_MINUTE = 60.0
_WIDE = 100  # columns of a terminal from which on tables are shown in full
# Control characters from DEL on, separators of lines, direction marks and halves of surrogate pairs.
_UNSAFE_IN_JSON = "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
_COLOURS = {"less": "red", "more": "green"}


@contextmanager
def progress(quiet: bool) -> "Iterator[Tell]":
    """A progress bar on standard error that disappears when done, or lines in a log; nothing at all when quiet."""
    if quiet or not errors.is_terminal:
        yield silent if quiet else lines_in_a_log()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True) as bars:
        known: dict[str, object] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in known:
                known[what] = bars.add_task(shown(what), total=total)
            bars.update(known[what], completed=done, total=total)  # type: ignore[arg-type]

        yield tell


def silent(what: str, done: int, total: int) -> None:
    """Told of progress, and says nothing."""


def lines_in_a_log(clock: Callable[[], float] = time.monotonic) -> "Tell":
    """Where no bar can be drawn: a line a minute at most, so that the log of a long run shows that it lives."""
    last = clock()

    def tell(what: str, done: int, total: int) -> None:
        nonlocal last
        if clock() - last >= _A_MINUTE:
            last = clock()
            errors.print(f"{shown(what)}: {done:,} of {total:,} ({done / max(total, 1):.0%})", soft_wrap=True)

    return tell


def show_run(study: "Study", out: Path, engine: str, *, json_: bool, quiet: bool) -> "RunRecord":
    """Carry out a study into a folder, write its report, and show what was found."""
    from fairmargin.engine.catalog import parse_engine
    from fairmargin.report.page import write_report
    from fairmargin.runner.run import run
    from fairmargin.study.run_folder import RunFolder

    folder = RunFolder(out)
    with progress(quiet or json_) as told:
        record, measure = run(study, folder, parse_engine(engine), command=command_line(), progress=told)
        write_report(folder.report, record)
    if json_:
        counts = {"measured_shards": measure.measured, "reused_shards": measure.reused}
        print_json({"run": str(out), "report": str(folder.report), **counts, **as_json(record)})
    elif not quiet:
        show_record(record)
        if measure.reused:
            there, now = counted(measure.reused, "shard was", "shards were"), counted(measure.measured, "was", "were")
            output.print(f"{there} there already; {now} measured now.")
        output.print(f"Report: {shown(str(folder.report))}", soft_wrap=True)
    return record


def show_record(record: "RunRecord") -> None:
    """Print every section of a record, and its notes."""
    from fairmargin.report.sections import sections_of

    for section in sections_of(record):
        show_section(section)
    for note in record.notes:
        output.print(f"[yellow]Note:[/] {shown(note)}", soft_wrap=True)


def show_section(section: "Section") -> None:
    """Print a section: its tables, sentences and cautions."""
    for table in section.tables:
        output.print(_printed(table, section.title))
        if table.caption:
            output.print(f"[dim]{shown(table.caption)}[/]", soft_wrap=True)
    if not section.tables:
        output.print(f"[bold]{shown(section.title)}[/]", soft_wrap=True)
    for sentence in filter(None, (section.answer, *section.sentences)):
        output.print(shown(sentence), soft_wrap=True)
    for caution in section.cautions:
        output.print(f"[yellow]Note:[/] {shown(caution)}", soft_wrap=True)
    output.print()


def _printed(given: "SectionTable", title: str) -> Table:
    """Return a table for the terminal, without the columns for which a narrow one has no room."""
    narrow = output.width < _WIDE
    columns = [i for i, name in enumerate(given.columns) if not (narrow and name in given.hidden)]
    names = [given.columns[i] for i in columns]
    table = plain_table(title, left=given.texts, wrap=given.texts)(*names)
    for number, row in enumerate(given.rows):
        style = _COLOURS.get(given.marks[number] if given.marks else "", "")
        cells = [shown(row[i]) for i in columns]
        if style and "verdict" in names:
            at = names.index("verdict")
            cells[at] = f"[{style}]{cells[at]}[/]"
        table.add_row(*cells)
    return table


_KEYS = {"audit": "audits", "bracket": "brackets", "certified": "certificates"}


def as_json(record: "RunRecord") -> dict[str, Any]:
    """Return a record as plain values: results by kind, without the curves, which the run folder holds."""
    from fairmargin.analyses.catalog import RESULTS
    from fairmargin.core.codec import encode

    found: dict[str, Any] = {_KEYS.get(kind, kind): [] for kind in RESULTS}
    for stored in record.results:
        content: dict[str, Any] = encode(record.result(stored))
        for row in content.get("groups", ()):
            row.pop("curve", None)
            row.pop("distances", None)
        about = stored.about.model_dump(exclude_defaults=True)
        found[_KEYS.get(stored.kind, stored.kind)].append({**about, **content})
    return {**{key: each for key, each in found.items() if each}, "notes": list(record.notes)}


def counted(number: int, one: str, many: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "shard was", "shards were"), counted(1200, "shard was", "shards were")
    ('1 shard was', '1,200 shards were')
    """
    return f"{number:,} {one if number == 1 else many}"


def plain_table(title: str, *, left: Sequence[str], wrap: Sequence[str] = ()) -> Callable[..., Table]:
    """A table without vertical lines, numbers to the right; only columns in `wrap` break lines."""

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
    typer.echo(re.sub(_UNSAFE_IN_JSON, lambda found: f"\\u{ord(found[0]):04x}", text))


def command_line() -> str:
    """The command that is running, as one could type it."""
    return shlex.join(["fairmargin", *sys.argv[1:]])
