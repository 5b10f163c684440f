"""Progress of commands in a terminal: bars that disappear when done, or lines in the log of a long run."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fairmargin.cli.console import errors, shown
from fairmargin.core.progress import SAID, silent

if TYPE_CHECKING:
    from fairmargin.core.progress import Progress as Callback

_A_MINUTE = 60.0
_TRAINING = "training"


@contextmanager
def progress(quiet: bool) -> "Iterator[Callback]":
    """Show a progress bar on standard error that disappears when done, or lines in a log; nothing if quiet."""
    if quiet or not errors.is_terminal:
        yield silent if quiet else lines_in_a_log()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True) as bars:
        known: dict[str, object] = {}

        def report(what: str, done: int, total: int) -> None:
            if total == SAID:
                bars.console.print(shown(what), soft_wrap=True)
                return
            if what not in known:
                known[what] = bars.add_task(shown(what), total=total)
            bars.update(known[what], completed=done, total=total)  # type: ignore[arg-type]

        yield report


def lines_in_a_log(clock: Callable[[], float] = time.monotonic) -> "Callback":
    """Print at most one line per minute where no bar can be drawn, so that logs show that a long run goes on.

    Sentences that are shown once are printed at once.
    """
    last = clock()

    def report(what: str, done: int, total: int) -> None:
        nonlocal last
        if total == SAID:
            errors.print(shown(what), soft_wrap=True)
        elif clock() - last >= _A_MINUTE:
            last = clock()
            errors.print(f"{shown(what)}: {done:,} of {total:,} ({done / max(total, 1):.0%})", soft_wrap=True)

    return report


@dataclass(frozen=True, slots=True)
class Listeners:
    """Callbacks for loading and measuring, and for the steps of a training."""

    progress: "Callback"
    on_step: "Callback"


@contextmanager
def measuring_progress(quiet: bool) -> Iterator[Listeners]:
    """Show the bars of `progress` for a run that measures."""
    with progress(quiet) as report:
        yield Listeners(report, report)


@contextmanager
def training_progress(quiet: bool) -> Iterator[Listeners]:
    """Show bars on standard error that disappear when done, one per training, whose text changes; or lines in a log."""
    if quiet or not errors.is_terminal:
        report = silent if quiet else lines_in_a_log()
        yield Listeners(report, report)
        return
    # The time left is estimated from the last minutes, since validation is slower than the steps of an epoch.
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True, speed_estimate_period=120) as bars:
        known: dict[str, object] = {}

        def update(name: str, what: str, done: int, total: int) -> None:
            # Shares instead of counts: between epochs a training counts epochs, and a new total would reset the speed.
            share = done / total if total else 1.0
            if name not in known:
                known[name] = bars.add_task(shown(what), total=1.0)
            visible = name == _TRAINING or share < 1
            bars.update(known[name], description=shown(what), completed=share, visible=visible)  # type: ignore[arg-type]

        yield Listeners(
            lambda what, done, total: update(what, what, done, total),
            lambda what, done, total: update(_TRAINING, what, done, total),
        )
