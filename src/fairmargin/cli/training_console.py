"""Progress of trainings in a terminal: a bar while they run, and a line per epoch."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fairmargin.cli.console import errors, lines_in_a_log, shown, silent

if TYPE_CHECKING:
    from fairmargin.core.progress import Progress as Callback
    from fairmargin.training.loop.history import Epoch

_TRAINING = "training"


@dataclass(frozen=True, slots=True)
class Listeners:
    """Callbacks for loading and measuring, and for the steps of a training."""

    progress: "Callback"
    on_step: "Callback"


@contextmanager
def training_progress(quiet: bool) -> Iterator[Listeners]:
    """Show bars on standard error that disappear when done, one per training, whose words change; or lines in a log."""
    if quiet or not errors.is_terminal:
        tell = silent if quiet else lines_in_a_log()
        yield Listeners(tell, tell)
        return
    # The time left is that of the last minutes: an epoch's look at validation data is slower than its steps.
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True, speed_estimate_period=120) as bars:
        known: dict[str, object] = {}

        def update(name: str, what: str, done: int, total: int) -> None:
            # Shares, not counts: between epochs the training counts in epochs, and a new total forgets the speed.
            share = done / total if total else 1.0
            if name not in known:
                known[name] = bars.add_task(shown(what), total=1.0)
            visible = name == _TRAINING or share < 1
            bars.update(known[name], description=shown(what), completed=share, visible=visible)  # type: ignore[arg-type]

        yield Listeners(
            lambda what, done, total: update(what, what, done, total),
            lambda what, done, total: update(_TRAINING, what, done, total),
        )


def show_epoch(epoch: "Epoch", epochs: int) -> None:
    """Print one line about a finished epoch on standard error."""
    said = [
        f"epoch {epoch.epoch:>{len(str(epochs))}} of {epochs}",
        f"loss {epoch.loss:.4f}",
        f"accuracy {epoch.accuracy:.1%}",
        f"worst group {epoch.worst_accuracy:.1%} ({epoch.worst_group})",
    ]
    if not math.isnan(epoch.natural):
        said.append(f"validation {epoch.natural:.1%}, worst {epoch.worst_natural:.1%}")
    if not math.isnan(epoch.robust):
        said.append(f"attacked {epoch.robust:.1%}, worst {epoch.worst_robust:.1%}")
    errors.print(shown(", ".join(said) + f", {epoch.seconds:.1f} s"), soft_wrap=True)
