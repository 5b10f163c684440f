"""`fairmargin audit`: measure, compare, report."""

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairmargin.cli.console import (
    command_line,
    output,
    progress,
    show_adequacies,
    show_audits,
    show_brackets,
    show_precise,
    shown,
)
from fairmargin.cli.options import Confidence, Engine, Json, Quiet
from fairmargin.errors import InputError

if TYPE_CHECKING:
    from fairmargin.studies.run_folder import StoredAdequacy, StoredAudit, StoredBracket
    from fairmargin.studies.study import Study
    from fairmargin.studies.workflow import Finished


def audit(
    out: Annotated[
        Path, typer.Option(help="Folder of the run. Interrupted and run again, an audit goes on from here.")
    ],
    model: Annotated[
        str,
        typer.Option(
            help="A file (.npz with weight and bias, .skops, .joblib, .pkl, .pt, .pt2), an import path "
            "(package.module:name or path/to/file.py:name), or arch:NAME with --weights. See `fairmargin list "
            "architectures`.",
            rich_help_panel="What to audit",
        ),
    ] = "",
    weights: Annotated[
        str,
        typer.Option(
            help="Weights of a torch network: .safetensors, or a checkpoint of tensors (.pt, .pth, .th, .ckpt).",
            rich_help_panel="What to audit",
        ),
    ] = "",
    mean: Annotated[
        str,
        typer.Option(
            help="What the network's inputs are normalised with: 0.485,0.456,0.406, or one number. Distances stay in "
            "pixels.",
            rich_help_panel="What to audit",
        ),
    ] = "",
    std: Annotated[str, typer.Option(help="Likewise.", rich_help_panel="What to audit")] = "",
    data: Annotated[
        str,
        typer.Option(
            help="A dataset's name (`fairmargin data`), a file .npz, .csv, .parquet, or a folder or zip of images.",
            rich_help_panel="What to audit",
        ),
    ] = "",
    distances: Annotated[
        str,
        typer.Option(
            help="A table of distances measured elsewhere (.csv, .parquet, .npz).", rich_help_panel="What to audit"
        ),
    ] = "",
    trust_model: Annotated[
        bool,
        typer.Option(
            "--trust-model",
            help="Read model files that can run code (.joblib, .pkl, .pt2, whole torch modules): only if you made them "
            "yourself.",
            rich_help_panel="What to audit",
        ),
    ] = False,
    label: Annotated[str, typer.Option(help="The label column of a table.", rich_help_panel="Data")] = "",
    features: Annotated[
        str,
        typer.Option(
            help="Feature columns of a table, with commas; all but label and group columns if left out.",
            rich_help_panel="Data",
        ),
    ] = "",
    scale: Annotated[
        str,
        typer.Option(
            help="Length of a step: std (of each feature; the default of tables) or none.", rich_help_panel="Data"
        ),
    ] = "",
    bounds: Annotated[
        str, typer.Option(help="Where inputs may lie: low,high, for instance 0,1.", rich_help_panel="Data")
    ] = "",
    split: Annotated[str, typer.Option(help="all, train or test, for named datasets.", rich_help_panel="Data")] = "all",
    root: Annotated[
        str, typer.Option(help="Folder or archive of a named dataset's files.", rich_help_panel="Data")
    ] = "",
    task: Annotated[
        str, typer.Option(help="What is predicted, for datasets with several tasks.", rich_help_panel="Data")
    ] = "",
    size: Annotated[
        int, typer.Option(help="Resize images to this width and height; 0: as they are.", rich_help_panel="Data")
    ] = 0,
    labels: Annotated[
        str,
        typer.Option(
            help="Table (.csv, .parquet) of the labels and attributes of a folder of images; without it, subfolders "
            "are the classes.",
            rich_help_panel="Data",
        ),
    ] = "",
    image_column: Annotated[
        str, typer.Option(help="Column of --labels with the file names; 'file' if left out.", rich_help_panel="Data")
    ] = "",
    class_names: Annotated[
        str,
        typer.Option(
            help="The classes in the order of a network's outputs, with commas, where labels are names; sorted if left "
            "out.",
            rich_help_panel="Data",
        ),
    ] = "",
    per_group: Annotated[
        int,
        typer.Option(
            help="At most so many samples of each value of the first --group; 0: all.", rich_help_panel="Data"
        ),
    ] = 0,
    training_data: Annotated[
        str,
        typer.Option(
            help="What the model was trained on (a file, or NAME:SPLIT), to warn of audited samples among it.",
            rich_help_panel="Data",
        ),
    ] = "",
    distance_column: Annotated[
        str, typer.Option(help="Column of --distances with the distance.", rich_help_panel="Data")
    ] = "",
    correct_column: Annotated[
        str, typer.Option(help="Column of --distances that says whether the sample is correct.", rich_help_panel="Data")
    ] = "",
    bound: Annotated[
        str,
        typer.Option(
            help="What --distances are: exact, upper (attacks), lower (certificates), neither.", rich_help_panel="Data"
        ),
    ] = "",
    norm: Annotated[str, typer.Option(help="The norm of --distances: l1, l2, linf.", rich_help_panel="Data")] = "",
    estimator: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME or NAME:key=value,…, as in plumb:norm=linf; may be repeated. See `fairmargin list estimators`.",
            rich_help_panel="Measuring",
        ),
    ] = None,
    adequacy: Annotated[
        bool,
        typer.Option(
            "--adequacy/--no-adequacy",
            help="Also check whether attacks were strong enough: some samples of each group at a quarter to four times "
            "the steps, with alarms for masked gradients. Can be added to a finished run.",
            rich_help_panel="Measuring",
        ),
    ] = False,
    adequacy_samples: Annotated[
        int,
        typer.Option(
            help="How many samples of each group --adequacy looks at, at most; 10 or more.",
            rich_help_panel="Measuring",
        ),
    ] = 64,
    precision: Annotated[
        float,
        typer.Option(
            help="Measure no more samples than it takes to know every group's σ to ± this, as in 0.03: a cheap "
            "estimator on many, --estimator on few. Prints what that saved.",
            rich_help_panel="Measuring",
        ),
    ] = 0.0,
    target: Annotated[
        str,
        typer.Option(
            help="What --precision is about: population (the samples were drawn from it) or samples (these alone).",
            rich_help_panel="Measuring",
        ),
    ] = "",
    tile: Annotated[
        int,
        typer.Option(
            help="Samples that a network is given at once; 0: 64. Fewer where memory is short.",
            rich_help_panel="Measuring",
        ),
    ] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, …; a GPU if there is one.", rich_help_panel="Measuring")] = "",
    accelerate: Annotated[
        bool,
        typer.Option(
            help="Search with a faster copy of the network, chosen by a short trial; found inputs are always confirmed "
            "by the network itself.",
            rich_help_panel="Measuring",
        ),
    ] = True,
    engine: Engine = "serial",
    group: Annotated[
        list[str] | None,
        typer.Option(
            help="Column whose values are the groups; may be repeated. The class if left out.",
            rich_help_panel="Comparing",
        ),
    ] = None,
    cross: Annotated[
        list[str] | None,
        typer.Option(help="Columns to intersect: race,sex; may be repeated.", rich_help_panel="Comparing"),
    ] = None,
    merge_below: Annotated[
        int, typer.Option(help="Merge groups smaller than this into 'other'.", rich_help_panel="Comparing")
    ] = 0,
    control: Annotated[
        str,
        typer.Option(
            help="Compare groups inside the values of this column, usually the class.", rich_help_panel="Comparing"
        ),
    ] = "",
    cluster: Annotated[
        str,
        typer.Option(
            help="Column with an id per person, where samples are not independent.", rich_help_panel="Comparing"
        ),
    ] = "",
    confidence: Confidence = 0.95,
    up_to: Annotated[float, typer.Option(help="Average min(distance, up_to).", rich_help_panel="Comparing")] = math.inf,
    smallest_group: Annotated[
        int, typer.Option(help="Fewer independent samples than this give no verdict.", rich_help_panel="Comparing")
    ] = 30,
    resamples: Annotated[int, typer.Option(help="Resamples of the bootstrap.", rich_help_panel="Comparing")] = 2_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    title: Annotated[str, typer.Option(help="Title of the report.")] = "",
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measures how far every sample lies from the decision boundary, compares groups, and writes a report.

    Examples:

    [dim]# a scikit-learn model as weights, and a table[/]
    fairmargin audit --model model.npz --data people.csv --label hired --group sex --cross race,sex --out run

    [dim]# distances that you already have[/]
    fairmargin audit --distances table.parquet --bound upper --norm l2 --group sex --out run

    [dim]# a PyTorch network by its name and weights, on CIFAR-10, 200 images of each class[/]
    fairmargin audit --model arch:resnet20 --weights resnet20.th --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
    --data cifar10 --root data --split test --per-group 200 --estimator plumb:norm=linf --out run

    [dim]# only as many images as it takes to know each class's σ to ± 3 points[/]
    fairmargin audit --model arch:resnet20 --weights resnet20.th --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
    --data cifar10 --root data --split test --precision 0.03 --out run

    [dim]# your own network and images[/]
    fairmargin audit --model net.py:make --weights net.safetensors --data faces/ --labels faces.csv --label age
    --group sex --size 64 --out run

    [dim]# any scikit-learn object, from your own code; groups compared within each class[/]
    fairmargin audit --model train.py:model --data people.csv --label hired --group race --control hired --out run
    """
    from fairmargin.studies.study import make_study

    study = make_study(
        {
            "model": model,
            "trust_model": trust_model,
            "weights": weights,
            "mean": _numbers(mean, "--mean"),
            "std": _numbers(std, "--std"),
            "device": device,
            "tile": tile,
            "accelerate": accelerate,
            "task": task,
            "size": size,
            "labels": labels,
            "image_column": image_column,
            "class_names": _names(class_names),
            "per_group": per_group,
            "training_data": training_data,
            "data": data,
            "root": root,
            "split": split,
            "label": label,
            "features": _names(features),
            "scale": scale,
            "bounds": _bounds(bounds),
            "estimators": tuple(estimator or ()),
            "adequacy": adequacy,
            "adequacy_samples": adequacy_samples,
            "precision": precision,
            "target": target,
            "distances": distances,
            "distance_column": distance_column,
            "correct_column": correct_column,
            "bound": bound,
            "norm": norm,
            "groups": tuple(group or ()),
            "cross": tuple(_crossed(text) for text in cross or ()),
            "merge_below": merge_below,
            "control": control,
            "cluster": cluster,
            "confidence": confidence,
            "up_to": up_to,
            "smallest_group": smallest_group,
            "resamples": resamples,
            "seed": seed,
            "title": title,
        }
    )
    if study.precision:
        carry_out_precisely(study, out, engine, json_=json_, quiet=quiet)
    else:
        carry_out(study, out, engine, json_=json_, quiet=quiet)


def carry_out(study: "Study", out: Path, engine: str, *, json_: bool, quiet: bool) -> "Finished":
    """Runs a study and shows what came out."""
    from fairmargin.engine.catalog import parse_engine
    from fairmargin.studies.workflow import run

    with progress(quiet or json_) as tell:
        finished = run(study, out, parse_engine(engine), command=command_line(), progress=tell)
    if json_:
        print_json(as_json(finished))
    elif not quiet:
        show_audits(finished.audits)
        show_brackets(finished.brackets)
        show_adequacies(finished.adequacies)
        for note in finished.folder.read_manifest().notes:
            output.print(f"[yellow]Note:[/] {shown(note)}")
        if finished.replaced:
            output.print(f"The results of an earlier audit in {shown(str(out))} were replaced.")
        if finished.added:
            output.print(
                f"Adequacy was added to the audit in {shown(str(out))}: {finished.reused:,} shards of distances were "
                f"reused, {finished.measured:,} were measured now."
            )
        output.print(f"Report: {finished.folder.report}", soft_wrap=True)
    return finished


def carry_out_precisely(study: "Study", out: Path, engine: str, *, json_: bool, quiet: bool) -> None:
    """Runs a study to a precision and shows what came out."""
    from fairmargin.engine.catalog import parse_engine
    from fairmargin.metrics.results import encode
    from fairmargin.studies.precise_run import run_to_precision

    with progress(quiet or json_) as tell:
        finished = run_to_precision(study, out, parse_engine(engine), command=command_line(), progress=tell)
    if json_:
        print_json({"run": str(out), "precision": [encode(found) for found in finished.found]})
    elif not quiet:
        for found in finished.found:
            show_precise(found)
        output.print(f"Table: {finished.folder.precision_table}", soft_wrap=True)


def print_json(content: dict[str, Any]) -> None:
    """A result on standard output, for programs."""
    typer.echo(json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2))


def as_json(finished: "Finished") -> dict[str, Any]:
    """A run as plain values, without the curves."""
    return {
        "run": str(finished.folder.path),
        "report": str(finished.folder.report),
        "measured_shards": finished.measured,
        "reused_shards": finished.reused,
        "audits": [audit_as_json(stored) for stored in finished.audits],
        "adequacy": [adequacy_as_json(stored) for stored in finished.adequacies],
        "brackets": [bracket_as_json(stored) for stored in finished.brackets],
    }


def audit_as_json(stored: "StoredAudit") -> dict[str, Any]:
    """One audit as plain values, without the curves, which `audits.json` of the run folder holds."""
    from fairmargin.metrics.results import encode

    content: dict[str, Any] = encode(stored.result)
    for row in content["groups"]:
        del row["curve"]
    return {"estimator": stored.estimator, **content}


def adequacy_as_json(stored: "StoredAdequacy") -> dict[str, Any]:
    """Whether an attack was strong enough, as plain values: every alarm's answer, no single distances."""
    from fairmargin.metrics.results import encode

    content: dict[str, Any] = encode(stored.result)
    for row, found in zip(content["groups"], stored.result.groups, strict=True):
        del row["distances"]
        for alarm, seen in zip(row["alarms"], found.alarms, strict=True):
            alarm["raised"] = seen.raised
    return content


def bracket_as_json(stored: "StoredBracket") -> dict[str, Any]:
    """What lower and upper bounds enclose, as plain values."""
    from fairmargin.metrics.results import encode

    return {"between": stored.between, **encode(stored.result)}


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _numbers(text: str, option: str) -> tuple[float, ...]:
    try:
        return tuple(float(Fraction(part)) if "/" in part else float(part) for part in _names(text))
    except (ValueError, ZeroDivisionError):
        raise InputError(f"{option} takes numbers with commas, as in 0.485,0.456,0.406; given {text!r}.") from None


def _crossed(text: str) -> tuple[str, ...]:
    names = _names(text)
    if len(names) < 2:
        raise InputError(f"--cross takes two or more columns, as in race,sex; given {text!r}.")
    return names


def _bounds(text: str) -> tuple[float, float] | None:
    if not text:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--bounds takes two numbers, low,high, as in 0,1 or -inf,inf; given {text!r}.") from None
    return low, high
