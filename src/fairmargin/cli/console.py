"""What a person sees in a terminal: tables on standard output, progress and errors on standard error."""

import json
import math
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fairmargin.errors import harmless_json, visible

if TYPE_CHECKING:
    from fairmargin.metrics.precision import PrecisionResult
    from fairmargin.metrics.results import AuditResult, Estimate
    from fairmargin.studies.measuring import Progress as Tell
    from fairmargin.studies.run_folder import StoredAdequacy, StoredAudit, StoredBracket, StoredCertificates


class _Output(Console):
    """A closed pipe (`| head`) ends the printing, not the command: its exit code still means what it says."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# Into a file or a pipe there is no edge to wrap at.
output = _Output(highlight=False, emoji=False, width=None if sys.stdout.isatty() else 140)
errors = Console(stderr=True, highlight=False, emoji=False)

_A_MINUTE = 60.0
_FEW = 3  # groups of which nothing is certain that get a sentence each
_COLOURS = {"less robust": "red", "more robust": "green"}


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


def show_audits(audits: "Sequence[StoredAudit]") -> None:
    """A table and the warnings of every audit."""
    for stored in audits:
        output.print(_table(stored.estimator, stored.result))
        if len(stored.result.groups) > 2:
            output.print(
                "[dim]Intervals and p hold for all groups at once; table.csv has each group's own interval.[/]"
            )
        notes = [stored.result.cap_reason + "." if stored.result.cap_reason else "", *stored.result.warnings]
        for note in filter(None, notes):
            output.print(f"[yellow]Note:[/] {shown(note)}")
        output.print()


def show_adequacies(adequacies: "Sequence[StoredAdequacy]") -> None:
    """Whether each attack was strong enough, and the alarms that were raised."""
    from fairmargin.report.strength import strength_alarms, strength_headline

    checked = [stored for stored in adequacies if stored.result.groups]
    for stored in checked:
        found = stored.result
        colour = "green" if found.verdict == "settled" and not found.alarmed else "yellow"
        what = f"Was {stored.estimator} strong enough by {found.partition}?"
        output.print(f"[bold]{shown(what)}[/] [{colour}]{shown(strength_headline(found))}[/]")
        for sentence in strength_alarms(found):
            output.print(f"[yellow]Alarm:[/] {shown(sentence)}")
    if checked:
        output.print()


def show_brackets(brackets: "Sequence[StoredBracket]") -> None:
    """Print what is certain, between a certificate and an attack."""
    from fairmargin.metrics.results import radius_of

    for stored in brackets:
        whose = "" if stored.result.subject == "model" else f" of the {stored.result.subject} model"
        radius = ", ".join(filter(None, ("", radius_of(stored.result.up_to))))
        output.print(f"[bold]{shown(f'By {stored.result.partition}{whose}, between {stored.between}{radius}:')}[/]")
        if stored.result.cap_reason:
            output.print(f"[yellow]Note:[/] {shown(stored.result.cap_reason)}.", soft_wrap=True)
        undecided = [row for row in stored.result if not row.is_certain and row.sigma.is_known]
        for row in stored.result:
            if row not in undecided or len(undecided) <= _FEW:
                output.print(f"[{'cyan' if row.is_certain else 'default'}]{shown(row.finding)}[/]", soft_wrap=True)
        if len(undecided) > _FEW:
            output.print(
                f"Not certain for {len(undecided)} of {len(stored.result.groups)} groups: between certificate and "
                "attack lies too much room. The report shows their limits."
            )
    if brackets:
        output.print()


def show_certificates(certificates: "Sequence[StoredCertificates]") -> None:
    """What is guaranteed although certificates may be false."""
    from fairmargin.report.guarantees import false_sentence

    for stored in certificates:
        found = stored.result
        radii = [f"≥ {radius:.3g}" for radius in found.radii]
        title = f"{found.partition}: guaranteed by {stored.estimator}, of the {found.subject} model, {found.norm}"
        table = plain_table(title, left=("group",), wrap=("group",))("group", "size", "mean radius", *radii)
        for row in found:
            shares = (f"{share.guaranteed:.1%}" for share in row.shares)
            table.add_row(shown(row.group), f"{row.mean.size:,}", f"{row.mean.guaranteed:.4g}", *shares)
        output.print(table)
        output.print(f"[dim]{shown(false_sentence(found))} That is counted in.[/]")
        output.print()


def show_precise(found: "PrecisionResult") -> None:
    """Every group to a precision, and what that saved."""
    whom = "the population" if found.target == "population" else found.target
    table = plain_table(
        f"{found.partition}: σ to ±{found.precision:g} for {whom}, {found.norm}, {found.bound.words}, "
        f"{found.reference}" + (f", distances capped at {found.up_to:.4g}" if math.isfinite(found.up_to) else ""),
        left=("group", "verdict"),
        wrap=("group", "verdict"),
    )(
        "group",
        "size",
        "distance",
        "σ",
        f"{found.confidence:.0%} interval",
        "p (Holm)",
        "verdict",
        "by the reference",
        "as precise as asked",
    )
    for row in found:
        style = _COLOURS.get(row.verdict, "")
        table.add_row(
            shown(row.group),
            f"{row.size:,}",
            f"{row.robustness.value:.4g}",
            *sigma_texts(row.sigma),
            p_text(row.p_adjusted),
            f"[{style}]{row.verdict}[/]" if style else row.verdict,
            f"{row.reference_samples:,}",
            "yes" if row.met else "no",
        )
    output.print(table)
    if len(found.groups) > 2:
        output.print(
            "[dim]Intervals and p hold for all groups at once; “as precise as asked” is about each group's own "
            "interval, which precision.csv has.[/]"
        )
    output.print(f"[bold]Cost:[/] {shown(found.saving)}")
    for note in found.notes:
        output.print(f"[yellow]Note:[/] {shown(note)}")
    output.print()


def _table(estimator: str, result: "AuditResult") -> Table:
    title = f"{result.partition}: {result.overall.size:,} samples, {result.norm}, {result.bound.words}, {estimator}"
    if math.isfinite(result.up_to):
        title += f", distances capped at {result.up_to:.4g}"
    if result.control:
        title += f", compared inside {result.control}"
    table = plain_table(title, left=("group", "verdict"), wrap=("group", "verdict"))(
        "group", "size", "accuracy", "distance", "σ", f"{result.confidence:.0%} interval", "p (Holm)", "verdict"
    )
    for row in sorted(result, key=lambda r: math.inf if math.isnan(r.sigma.value) else r.sigma.value):
        style = _COLOURS.get(row.verdict, "")
        table.add_row(
            shown(row.group),
            f"{row.size:,}",
            f"{row.accuracy.value:.1%}",
            f"{row.robustness.value:.4g}",
            *sigma_texts(row.sigma),
            p_text(row.p_adjusted),
            f"[{style}]{row.verdict}[/]" if style else row.verdict,
        )
    return table


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


def sigma_texts(estimate: "Estimate") -> tuple[str, str]:
    """σ and its interval, in percent."""
    from fairmargin.metrics.results import limit_text

    if not estimate.is_defined:
        return "undefined", "–"
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return percent_text(estimate.value), "–"
    low, high = (limit_text(limit, percent_text) for limit in (estimate.low, estimate.high))
    return percent_text(estimate.value), f"{low} to {high}"


def percent_text(value: float) -> str:
    """A share with its sign; a dash where it is undefined."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "−∞" if value < 0 else "∞"
    return f"{value:+.1%}".replace("-", "−")


def shown(text: str) -> str:
    """Prepare a text from data for printing: markup is shown as it is spelled, control characters as escapes."""
    safe = escape(visible(text))
    # An odd backslash at the end would escape the tag that follows.
    return safe + "\\" * ((len(safe) - len(safe.rstrip("\\"))) % 2)


def print_json(content: Any) -> None:
    """Print a result for programs. Control characters that JSON allows in texts are escaped, line breaks aside."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2)
    typer.echo(harmless_json(text))


def p_text(p: float) -> str:
    """A p-value as papers print it."""
    if math.isnan(p):
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def command_line() -> str:
    """The command that is running, as one could type it."""
    return shlex.join(["fairmargin", *sys.argv[1:]])
