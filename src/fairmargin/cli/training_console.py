"""What a person sees of a training: a bar while it runs, a line for each epoch, a table at its end."""

import math
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fairmargin.cli.console import errors, lines_in_a_log, output, plain_table, shown, sigma_texts, silent
from fairmargin.cli.subject_options import counted

if TYPE_CHECKING:
    from fairmargin.core.progress import Progress as Tell
    from fairmargin.inference.estimate import Estimate
    from fairmargin.studies.epoch_audits import EpochAgreement, EpochAudits
    from fairmargin.studies.training_run import FinishedTraining
    from fairmargin.training.history import Epoch

_TRAINING = "training"


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who is told of loading and measuring, and who of the steps of a training."""

    tell: "Tell"
    on_step: "Tell"


@contextmanager
def training_progress(quiet: bool) -> Iterator[Listeners]:
    """Bars on standard error that disappear when done, one for the whole training, whose words change; or lines in a
    log."""
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
    """One line of a finished epoch, on standard error."""
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


def show_training(finished: "FinishedTraining", watched: str, out: Path, command: list[str]) -> None:
    """The last and the best epoch, where the weights are, and how to audit them."""
    result = finished.result
    if result.history:
        _show_table(finished, watched)
    for note in finished.notes:
        output.print(f"[yellow]Note:[/] {shown(note)}")
    if result.stopped:
        output.print(f"[yellow]{shown(result.stopped)}[/]")
    already = len(result.history) - finished.trained_now
    if already:
        now = counted(finished.trained_now, "was", "were")
        output.print(f"{counted(already, 'epoch was', 'epochs were')} there already; {now} trained now.")
    if not result.history:  # the weights are those it began with: there is nothing to audit
        output.print(f"Nothing was learned; the weights it began with: {shown(str(finished.weights))}", soft_wrap=True)
        return
    output.print(f"Weights: {shown(str(finished.weights))}", soft_wrap=True)
    if result.best_epoch:
        output.print(f"The best epoch's: {shown(str(out / 'best.safetensors'))}", soft_wrap=True)
    if finished.audits is not None:
        output.print()
        show_epoch_audits(finished.audits)
        output.print(f"Audits: {shown(str(out / 'audits.csv'))}", soft_wrap=True)
    output.print(f"Audit them: [bold]{shown(shlex.join(command))}[/]", soft_wrap=True)


def _show_table(finished: "FinishedTraining", watched: str) -> None:
    history, best = finished.result.history, finished.result.best_epoch
    chosen = {history[-1].epoch: "last"}
    if best:
        chosen[best] = "best and last" if best in chosen else "best"
    validated, attacked = not math.isnan(history[-1].natural), not math.isnan(history[-1].robust)
    heads = ["epoch", "loss", "training", "its worst group"]
    heads += ["validation", "worst group"] if validated else []
    heads += ["attacked", "worst group attacked"] if attacked else []
    title = f"Accuracy, on validation data attacked by {watched}" if attacked else "Accuracy"
    table = plain_table(title, left=("epoch",))(*heads)
    for number, name in sorted(chosen.items()):
        epoch = history[number - 1]
        shares = (epoch.accuracy, epoch.worst_accuracy, epoch.natural, epoch.worst_natural, epoch.robust)
        cells = (f"{number} ({name})", f"{epoch.loss:.4f}", *(f"{s:.1%}" for s in (*shares, epoch.worst_robust)))
        table.add_row(*cells[: len(heads)])
    output.print(table)


def show_epoch_audits(found: "EpochAudits") -> None:
    """σ of every group at every epoch, and whether the epochs agree."""
    from fairmargin.inference.estimate import TOO_FEW

    for estimator in dict.fromkeys(each.estimator for each in found.audits):
        audits = [each for each in found.audits if each.estimator == estimator]
        result = audits[0].result
        title = (
            f"σ by {result.partition} at each epoch, on {found.on}: {result.overall.size:,} samples, {result.norm}, "
        )
        title += f"{result.bound.words}, {estimator}"
        table = plain_table(title, left=("group",), wrap=("group",))(
            "group", *(f"epoch {each.title}" for each in audits)
        )
        for row in result:
            table.add_row(shown(row.group), *(_with_interval(each.result[row.group].sigma) for each in audits))
        output.print(table)
        few = [row.group for row in result if row.verdict == TOO_FEW]
        if few:
            output.print(f"[yellow]Too few samples for a verdict:[/] {shown(', '.join(few))}. Read their σ with care.")
        for each in found.agreements:
            if each.estimator == estimator:
                output.print(shown(agreement_sentence(each)))
    for note in found.notes:
        output.print(f"[yellow]Note:[/] {shown(note)}")


def agreement_sentence(found: "EpochAgreement") -> str:
    """How far two epochs agree, beside what chance would do."""
    signs = found.found
    if not signs.groups:
        return f"Epochs {found.earlier} and {found.later}: no group has a σ at both."
    return (
        f"Epochs {found.earlier} and {found.later} agree on the sign of σ for {round(signs.share * signs.groups)} of "
        f"{signs.groups} groups; by chance {signs.chance * signs.groups:.1f} would."
    )


def _with_interval(sigma: "Estimate") -> str:
    value, interval = sigma_texts(sigma)
    return (value if interval == "–" else f"{value} ({interval})").replace("-", "−")
