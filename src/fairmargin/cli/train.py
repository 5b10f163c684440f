"""`fairmargin train`: a fairer, more robust network by one command."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairmargin.cli import subject_options as of
from fairmargin.cli.console import command_line, errors, print_json, shown
from fairmargin.cli.options import Confidence, Engine, Json, Quiet
from fairmargin.cli.training_console import show_epoch, show_training, training_progress

if TYPE_CHECKING:
    from fairmargin.studies.training_run import FinishedTraining
    from fairmargin.studies.training_study import TrainingStudy
    from fairmargin.training.history import Epoch

_NETWORK, _METHOD, _STEPS = "What to train", "Method", "Steps"
_LOOKING, _AUDITING = "Validation", "Auditing epochs"
DIVERGED = 1
INTERRUPTED = 130


def train(
    out: Annotated[Path, typer.Option(help="Folder of the training. Interrupted and run again, it goes on from here.")],
    arch: Annotated[
        str, typer.Option(help="A network's name; see `fairmargin list architectures`.", rich_help_panel=_NETWORK)
    ] = "",
    model: Annotated[
        str,
        typer.Option(
            help="A network of your own instead: path/to/file.py:make or package.module:make.", rich_help_panel=_NETWORK
        ),
    ] = "",
    weights: Annotated[
        str, typer.Option(help="Weights to begin with: .safetensors, .pt, .pth.", rich_help_panel=_NETWORK)
    ] = "",
    mean: Annotated[
        str,
        typer.Option(
            help="Normalise the network's inputs: 0.485,0.456,0.406, or one number. Radii stay in pixels.",
            rich_help_panel=_NETWORK,
        ),
    ] = "",
    std: Annotated[str, typer.Option(help="Likewise.", rich_help_panel=_NETWORK)] = "",
    trust_model: Annotated[
        bool,
        typer.Option(
            "--trust-model",
            help="Read --weights that can run code: only if you made them yourself.",
            rich_help_panel=_NETWORK,
        ),
    ] = False,
    data: Annotated[
        str,
        typer.Option(
            help="A dataset's name (`fairmargin data`), a file .npz, .csv, .parquet, or a folder or zip of images.",
            rich_help_panel="Data",
        ),
    ] = "",
    root: of.Root = "",
    split: Annotated[
        str, typer.Option(help="all, train or test of a named dataset; train if left out.", rich_help_panel="Data")
    ] = "",
    group: Annotated[
        str, typer.Option(help="Column whose values are the groups; the class if left out.", rich_help_panel="Data")
    ] = "",
    cross: Annotated[
        str, typer.Option(help="Columns whose intersections are the groups: race,sex.", rich_help_panel="Data")
    ] = "",
    label: of.Label = "",
    features: of.Features = "",
    scale: of.Scale = "",
    bounds: of.Bounds = "",
    task: of.TaskName = "",
    size: of.Size = 0,
    labels: of.Labels = "",
    image_column: of.ImageColumn = "",
    class_names: of.ClassNames = "",
    per_group: Annotated[
        int,
        typer.Option(help="At most so many samples of each group, for a quick try; 0: all.", rich_help_panel="Data"),
    ] = 0,
    method: Annotated[
        str, typer.Option(help="A method's name; see `fairmargin list methods`.", rich_help_panel=_METHOD)
    ] = "erm",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="field=value of the method, as in weight=0.5 or radius=4/255; may be repeated.",
            rich_help_panel=_METHOD,
        ),
    ] = None,
    settings_of: Annotated[
        str,
        typer.Option(
            help="Epochs, rate, batch and schedule of a paper: nanda, tran, tran-faces, ma or mousavi. Options given "
            "beside it win.",
            rich_help_panel=_STEPS,
        ),
    ] = "",
    epochs: Annotated[int | None, typer.Option(help="How often each sample is seen.", rich_help_panel=_STEPS)] = None,
    rate: Annotated[float | None, typer.Option(help="The learning rate; 0.01.", rich_help_panel=_STEPS)] = None,
    optimizer: Annotated[str | None, typer.Option(help="sgd or adam; sgd.", rich_help_panel=_STEPS)] = None,
    momentum: Annotated[float | None, typer.Option(help="Of sgd; 0.9.", rich_help_panel=_STEPS)] = None,
    weight_decay: Annotated[
        float | None, typer.Option(help="Pull of the weights to 0; 0.", rich_help_panel=_STEPS)
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Samples of a step; 128.", rich_help_panel=_STEPS)] = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            help="How the rate changes: constant, cosine, or steps:0.5,0.75, a tenth after each of these shares of the "
            "epochs.",
            rich_help_panel=_STEPS,
        ),
    ] = None,
    augmentation: Annotated[
        str, typer.Option(help="Of images: none, flip, crop_flip.", rich_help_panel=_STEPS)
    ] = "none",
    average: Annotated[
        float,
        typer.Option(help="Keep a moving average of the weights, as in 0.999; 0: none.", rich_help_panel=_STEPS),
    ] = 0.0,
    validation: Annotated[
        str,
        typer.Option(
            help="Kept apart and looked at between epochs: a share of each class, a split, a file, or 0 for none.",
            rich_help_panel=_LOOKING,
        ),
    ] = "0.1",
    watch: Annotated[
        str,
        typer.Option(
            help="The attack on validation data, NAME or NAME:key=value,…; pgd:steps=10 in the method's norm.",
            rich_help_panel=_LOOKING,
        ),
    ] = "",
    watch_radius: Annotated[
        str,
        typer.Option(
            help="Its radius, as in 4/255; the method's own if left out. 0: no attack.", rich_help_panel=_LOOKING
        ),
    ] = "",
    watch_samples: Annotated[
        int, typer.Option(help="Validation samples of each group, at most.", rich_help_panel=_LOOKING)
    ] = 200,
    patience: Annotated[
        int,
        typer.Option(
            help="Stop after so many epochs in which the worst group did not become better; 0: never.",
            rich_help_panel=_LOOKING,
        ),
    ] = 0,
    keep_every: Annotated[
        int,
        typer.Option(
            help="Keep the weights of every so many epochs, besides the first, middle, last and best.",
            rich_help_panel=_LOOKING,
        ),
    ] = 0,
    audit_epochs: Annotated[
        str,
        typer.Option(
            help="Audit the network as it was at these epochs: first,middle,last,best, or numbers.",
            rich_help_panel=_AUDITING,
        ),
    ] = "",
    audit_on: Annotated[
        str,
        typer.Option(
            help="On what: a split, a file, or validation; the split test if left out.", rich_help_panel=_AUDITING
        ),
    ] = "",
    audit_per_group: Annotated[
        int, typer.Option(help="At most so many samples of each group; 0: all.", rich_help_panel=_AUDITING)
    ] = 0,
    estimator: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME or NAME:key=value,…; may be repeated. plumb if left out. See `fairmargin list estimators`.",
            rich_help_panel=_AUDITING,
        ),
    ] = None,
    confidence: Confidence = 0.95,
    resamples: Annotated[int, typer.Option(help="Resamples of the bootstrap.", rich_help_panel=_AUDITING)] = 2_000,
    engine: Engine = "serial",
    device: Annotated[str, typer.Option(help="cpu, cuda, …; a GPU if there is one.")] = "",
    log: Annotated[list[str] | None, typer.Option(help="Also log to tensorboard or mlflow; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same weights.")] = 0,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Trains a network by a method that makes it robust, fair, or both, and keeps everything needed to go on.

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

    [dim]# a try in seconds, without files[/]
    fairmargin train --data digits --arch small_cnn --method madry --set radius=0.1 --optimizer adam --epochs 10
    --out run

    [dim]# then[/]
    fairmargin audit --model arch:small_cnn --weights run/model.safetensors --data digits --split test --out audit
    """
    from fairmargin.studies.paper_settings import Wishes, descent, settings_sentence
    from fairmargin.studies.training_study import EpochQuestion, TrainingStudy, make_method, make_subject, watching
    from fairmargin.training.plan import TrainingPlan

    chosen = make_method(method, set_ or [])
    wishes = Wishes(epochs, rate, optimizer, momentum, weight_decay, batch, schedule)
    steps = descent(wishes, settings_of)
    attack, radius = watching(chosen, watch, watch_radius)
    subject = make_subject(
        arch,
        {
            "model": model,
            "weights": weights,
            "mean": of.numbers_in(mean, "--mean"),
            "std": of.numbers_in(std, "--std"),
            "trust_model": trust_model,
            "device": device,
            "data": data,
            "root": root,
            "split": split,
            "task": task,
            "size": size,
            "labels": labels,
            "image_column": image_column,
            "class_names": of.names_in(class_names),
            "per_group": per_group,
            "label": label,
            "features": of.names_in(features),
            "scale": scale,
            "bounds": of.bounds_in(bounds),
            "group": (group,) if group else (),
            "cross": (of.crossed_in(cross),) if cross else (),
        },
    )
    with of.named_as_options(TrainingPlan.__dataclass_fields__):
        plan = TrainingPlan(
            rate=steps.rate,
            optimizer=steps.optimizer,
            momentum=steps.momentum,
            weight_decay=steps.weight_decay,
            batch=steps.batch,
            schedule=steps.schedule,
            augmentation=augmentation,
            average=average,
            watch=attack,
            watch_radius=radius,
            watch_samples=watch_samples,
            patience=patience,
            keep_every=keep_every,
            seed=seed,
        )
    asked = EpochQuestion(
        of.names_in(audit_epochs), audit_on, tuple(estimator or ()), audit_per_group, confidence, resamples
    )
    study = TrainingStudy(subject, chosen, steps.epochs, plan, validation, asked, tuple(log or ()))
    settings = settings_sentence(wishes, settings_of) if settings_of else ""
    with of.named_as_options([*TrainingPlan.__dataclass_fields__, "confidence", "resamples"]):
        carry_out(study, out, engine, settings, json_=json_, quiet=quiet)


def carry_out(study: "TrainingStudy", out: Path, engine: str, settings: str = "", *, json_: bool, quiet: bool) -> None:
    """Trains, and shows what came of it; `settings` is what was taken from a paper, in a sentence."""
    from fairmargin.engine.catalog import parse_engine
    from fairmargin.studies.training_run import audit_arguments, run_training

    if settings and not (quiet or json_):
        errors.print(shown(settings), soft_wrap=True)

    def on_epoch(epoch: "Epoch") -> None:
        if not (quiet or json_):
            show_epoch(epoch, study.epochs)

    try:
        with training_progress(quiet or json_) as listeners:
            finished = run_training(
                study,
                out,
                parse_engine(engine),
                command=command_line(),
                progress=listeners.tell,
                on_step=listeners.on_step,
                on_epoch=on_epoch,
            )
    except KeyboardInterrupt:
        errors.print("\nStopped. Whole epochs are kept: the same command goes on from here.")
        raise typer.Exit(INTERRUPTED) from None
    command = audit_arguments(study, out, finished.classes) if finished.result.history else []
    if json_:
        print_json(as_json(finished, command) | {"settings": settings})
    elif not quiet:
        show_training(finished, f"{study.plan.watch} at radius {study.plan.watch_radius:.4g}", out, command)
    if finished.diverged:
        if quiet or json_:
            errors.print(shown(finished.result.stopped), soft_wrap=True)
        raise typer.Exit(DIVERGED)


def as_json(finished: "FinishedTraining", command: list[str]) -> dict[str, Any]:
    """A training as plain values."""
    from fairmargin.core.codec import encode

    result, audits = finished.result, finished.audits
    found = {
        "run": str(result.folder),
        "weights": str(finished.weights),
        "trained_now": finished.trained_now,
        "best_epoch": result.best_epoch,
        "stopped": result.stopped,
        "diverged": finished.diverged,
        "history": encode(result.history),
        "audit_command": command,
        "notes": list(finished.notes),
        "audits": [],
        "agreement": [],
    }
    if audits is None:
        return found
    rows = [{"epoch": each.epoch, "words": each.words, "estimator": each.estimator} for each in audits.audits]
    tables = [each.result.to_dict() for each in audits.audits]
    for table in tables:
        for group in table["groups"]:
            del group["curve"]
    found["audits"] = [row | {"result": table} for row, table in zip(rows, tables, strict=True)]
    return found | {"agreement": encode(audits.agreements)}
