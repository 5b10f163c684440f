"""`fairmargin audit`: measure, compare, report."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairmargin.cli import subject_options as of
from fairmargin.cli.console import (
    command_line,
    output,
    print_json,
    progress,
    show_adequacies,
    show_audits,
    show_brackets,
    show_certificates,
    show_precise,
    shown,
)
from fairmargin.cli.options import Confidence, Engine, Json, Quiet
from fairmargin.errors import InputError

if TYPE_CHECKING:
    from fairmargin.metrics.precision import PrecisionResult
    from fairmargin.studies.run_folder import StoredAdequacy, StoredAudit, StoredBracket, StoredCertificates
    from fairmargin.studies.study import Study
    from fairmargin.studies.workflow import Finished


def audit(
    out: Annotated[
        Path, typer.Option(help="Folder of the run. Interrupted and run again, an audit goes on from here.")
    ],
    model: of.Model = "",
    weights: of.Weights = "",
    mean: of.Mean = "",
    std: of.Std = "",
    data: of.Data = "",
    distances: Annotated[
        str,
        typer.Option(
            help="A table of distances measured elsewhere (.csv, .parquet, .npz).", rich_help_panel="What to look at"
        ),
    ] = "",
    trust_model: of.TrustModel = False,
    label: of.Label = "",
    features: of.Features = "",
    scale: of.Scale = "",
    bounds: of.Bounds = "",
    split: of.Split = "all",
    root: of.Root = "",
    task: of.TaskName = "",
    size: of.Size = 0,
    labels: of.Labels = "",
    image_column: of.ImageColumn = "",
    class_names: of.ClassNames = "",
    per_group: of.PerGroup = 0,
    training_data: of.TrainingData = "",
    distance_column: Annotated[
        str, typer.Option(help="Column of --distances with the distance.", rich_help_panel="Data")
    ] = "",
    correct_column: Annotated[
        str, typer.Option(help="Column of --distances that says whether the sample is correct.", rich_help_panel="Data")
    ] = "",
    id_: Annotated[
        str,
        typer.Option(
            "--id",
            help="Column of --distances with an id of its own for every sample, by which `compare` pairs two runs.",
            rich_help_panel="Data",
        ),
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
        float | None,
        typer.Option(
            help="Measure no more samples than it takes to know every group's σ to ± this, as in 0.03: a cheap "
            "estimator on many, --estimator on few. Prints what that saved.",
            rich_help_panel="Measuring",
        ),
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            help="What --precision is about: population (the samples were drawn from it) or samples (these alone).",
            rich_help_panel="Measuring",
        ),
    ] = "",
    tile: of.Tile = 0,
    device: of.Device = "",
    engine: Engine = "serial",
    group: of.Group = None,
    cross: of.Cross = None,
    merge_below: of.MergeBelow = 0,
    control: of.Control = "",
    cluster: of.Cluster = "",
    confidence: Confidence = 0.95,
    up_to: Annotated[float, typer.Option(help="Average min(distance, up_to).", rich_help_panel="Comparing")] = math.inf,
    smallest_group: of.SmallestGroup = 30,
    resamples: of.Resamples = 2_000,
    seed: of.Seed = 0,
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
            "mean": of.numbers_in(mean, "--mean"),
            "std": of.numbers_in(std, "--std"),
            "device": device,
            "tile": tile,
            "task": task,
            "size": size,
            "labels": labels,
            "image_column": image_column,
            "class_names": of.names_in(class_names),
            "per_group": per_group,
            "training_data": training_data,
            "data": data,
            "root": root,
            "split": split,
            "label": label,
            "features": of.names_in(features),
            "scale": scale,
            "bounds": of.bounds_in(bounds),
            "estimators": tuple(estimator or ()),
            "adequacy": adequacy,
            "adequacy_samples": adequacy_samples,
            "precision": _asked(precision),
            "target": target,
            "distances": distances,
            "distance_column": distance_column,
            "correct_column": correct_column,
            "id": id_,
            "bound": bound,
            "norm": norm,
            "groups": tuple(group or ()),
            "cross": tuple(of.crossed_in(text) for text in cross or ()),
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
        show_certificates(finished.certificates)
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
        output.print(f"Report: {shown(str(finished.folder.report))}", soft_wrap=True)
    return finished


def carry_out_precisely(study: "Study", out: Path, engine: str, *, json_: bool, quiet: bool) -> None:
    """Runs a study to a precision and shows what came out."""
    from fairmargin.engine.catalog import parse_engine
    from fairmargin.studies.precise_run import run_to_precision

    with progress(quiet or json_) as tell:
        finished = run_to_precision(study, out, parse_engine(engine), command=command_line(), progress=tell)
    if json_:
        notes = list(finished.folder.read_precision().notes)
        print_json({"run": str(out), **precision_as_json(finished.folder.report, finished.found), "notes": notes})
    elif not quiet:
        for found in finished.found:
            show_precise(found)
        for note in finished.folder.read_precision().notes:
            output.print(f"[yellow]Note:[/] {shown(note)}")
        output.print(f"Table: {shown(str(finished.folder.precision_table))}", soft_wrap=True)
        output.print(f"Report: {shown(str(finished.folder.report))}", soft_wrap=True)


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
        "certificates": [certificates_as_json(stored) for stored in finished.certificates],
        "notes": list(finished.folder.read_manifest().notes),
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


def certificates_as_json(stored: "StoredCertificates") -> dict[str, Any]:
    """What certificates that may be false guarantee, as plain values."""
    from fairmargin.metrics.results import encode

    return {"estimator": stored.estimator, **encode(stored.result)}


def _asked(precision: float | None) -> float:
    """The precision, 0 if none was asked for: a 0 that was typed is none."""
    if precision == 0:
        raise InputError("--precision must lie between 0 and 1, as in 0.03; given 0. Leave it out for a full audit.")
    return precision or 0.0


def precision_as_json(report: Path, found: "Sequence[PrecisionResult]") -> dict[str, Any]:
    """Audits to a precision as plain values, each group with its finding."""
    from fairmargin.metrics.results import encode

    content = []
    for result in found:
        rows = [{**encode(row), "finding": result.finding(row)} for row in result]
        content.append({**encode(result), "met": result.met, "saving": result.saving, "groups": rows})
    return {"report": str(report), "precision": content}
