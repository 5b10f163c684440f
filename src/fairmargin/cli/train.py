"""`fairmargin train`: train a network by a method that makes it fair, robust, or both."""

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairmargin.cli.console import counted, errors, output, print_json, show_record, shown
from fairmargin.cli.execution import carry_out, exit_if_failed, run_json, show_plan
from fairmargin.cli.options import Engine, Json, Out, Plan, Quiet, command
from fairmargin.cli.progress import training_progress
from fairmargin.study.options import AuditOptions, DataOptions, EpochOptions, GroupOptions, ModelOptions, TrainOptions
from fairmargin.study.study import RunOptions, Study

if TYPE_CHECKING:
    from fairmargin.analyses.training import TrainingCourse
    from fairmargin.study.record import RunRecord
    from fairmargin.training.loop.history import Epoch

# Options of the data that are not those of the audited data, or that `audit_arguments` sets in another way.
_OF_TRAINING_DATA = ("data", "root", "split", "task", "size", "class_names", "per_group", "by", "training_data")


@command
def train(
    out: Out,
    train: TrainOptions,
    model: ModelOptions,
    data: DataOptions,
    groups: GroupOptions,
    epochs: EpochOptions,
    audit: AuditOptions,
    general: RunOptions,
    engine: Engine = "serial",
    plan: Plan = False,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a network by a method that makes it robust, fair, or both, and keep everything needed to continue.

    Examples:

    [dim]# fair adversarial training; weight and radius are the method's fields[/]
    fairmargin train --data fashion-mnist --root data --arch lenet5 --method fat --set weight=0.5 --set radius=0.1
    --epochs 20 --out run

    [dim]# as in the paper, but shorter; is the bias there from the start?[/]
    fairmargin train --data cifar10 --root data --arch resnet18 --method fat --settings-of ma --epochs 30
    --augmentation crop_flip --audit-epochs first,middle,last --audit-per-group 200 --out run

    [dim]# your own network and images; groups are not the classes; stop when the worst group gets no better[/]
    fairmargin train --data faces/ --labels faces.csv --label age --group sex --size 64 --model net.py:make
    --method penalty --set weight=2 --epochs 50 --patience 5 --out run

    [dim]# how long would it take?[/]
    fairmargin train --data digits --arch small_cnn --method madry --set radius=0.1 --epochs 10 --out run --plan

    [dim]# a try in seconds, without files[/]
    fairmargin train --data digits --arch small_cnn --method madry --set radius=0.1 --optimizer adam --epochs 10
    --out run

    [dim]# then[/]
    fairmargin audit --model arch:small_cnn --weights run/model.safetensors --data digits --split test --out audit
    """
    asked = audit if audit != AuditOptions() or epochs.audit_epochs else None
    study = Study(data=data, model=model, groups=groups, train=train, epochs=epochs, audit=asked, **dict(general))
    if plan:
        show_plan(study, out, engine, json_=json_, quiet=quiet)
        return
    trained_now: list[Epoch] = []
    silently = quiet or json_

    def on_epoch(epoch: "Epoch") -> None:
        trained_now.append(epoch)
        if not silently:
            _show_epoch(epoch, train.epochs)

    if train.settings_sentence and not silently:
        errors.print(shown(train.settings_sentence), soft_wrap=True)
    record, measure = carry_out(study, out, engine, quiet=silently, bars=training_progress, on_epoch=on_epoch)
    ((_, course),) = record.of_kind("training")
    if json_:
        print_json(_as_json(run_json(out, record, measure), record, course, out) | {"trained_now": len(trained_now)})
    elif not quiet:
        _show(record, course, out, len(trained_now))
    exit_if_failed(record)


def _show_epoch(epoch: "Epoch", epochs: int) -> None:
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


def _show(record: "RunRecord", course: "TrainingCourse", out: Path, trained_now: int) -> None:
    """Print the sections, where the weights are, and how to audit them."""
    from fairmargin.training.loop.checkpoints import BEST, FINAL

    show_record(record)
    already = len(course.groups) - trained_now
    if already:
        now = counted(trained_now, "was", "were")
        output.print(f"{counted(already, 'epoch was', 'epochs were')} there already; {now} trained now.")
    if not course.groups:  # the weights are those it began with: there is nothing to audit
        output.print(f"Nothing was learned; the weights it began with: {shown(str(out / FINAL))}", soft_wrap=True)
        return
    output.print(f"Weights: {shown(str(out / FINAL))}", soft_wrap=True)
    if course.best:
        output.print(f"The best epoch's: {shown(str(out / BEST))}", soft_wrap=True)
    output.print(f"Report: {shown(str(out / 'report.html'))}", soft_wrap=True)
    audit = audit_arguments(record.study, out, course.classes)
    output.print(f"Audit them: [bold]{shown(shlex.join(audit))}[/]", soft_wrap=True)


def _as_json(content: dict[str, Any], record: "RunRecord", course: "TrainingCourse", out: Path) -> dict[str, Any]:
    """Return the plain values of a run that is a training."""
    from fairmargin.training.loop.checkpoints import FINAL

    assert record.study.train is not None
    (found,) = content.pop("training")
    return {
        "weights": str(out / FINAL),
        "best_epoch": int(course.best or 0),
        "stopped": course.stopped,
        "diverged": bool(record.failures),
        "history": [{"epoch": int(row.pop("group")), **row} for row in found["groups"]],
        "audit_command": audit_arguments(record.study, out, course.classes) if course.groups else [],
        "settings": record.study.train.settings_sentence,
        **content,
    }


def audit_arguments(study: Study, out: Path, classes: tuple[str, ...] = ()) -> list[str]:
    """Return the command that audits the trained network; where no test data are known, with a place for them."""
    from fairmargin.data.catalog import DATASETS
    from fairmargin.training.loop.checkpoints import FINAL

    model, data, groups = study.model, study.data, study.groups
    found = ["fairmargin", "audit", "--model", model.model, "--weights", str(out / FINAL)]
    found += _given("--mean", model.mean) + _given("--std", model.std)
    if data.data in DATASETS:
        found += ["--data", data.data, *_given("--root", data.root), "--split", "test", *_given("--task", data.task)]
    else:
        on = study.epochs.audit_on
        found += ["--data", on if on and on != "validation" else "TEST_DATA"]
        for name in DataOptions.model_fields:
            if name not in _OF_TRAINING_DATA:
                found += _given("--" + name.replace("_", "-"), getattr(data, name))
        # Always: the audited data may lack a class, and the outputs would be taken for others.
        found += _given("--class-names", data.class_names or classes)
    found += _given("--size", data.size)
    for name in groups.group or (() if groups.cross else ("class",)):
        found += ["--group", "class" if name == data.label else name]
    for crossed in groups.cross:
        found += ["--cross", ",".join(crossed)]
    return [*found, "--out", str(out / "audit")]


def _given(option: str, value: Any) -> list[str]:
    if not value:
        return []
    return [option, ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
