"""`fairmargin attack`: how much accuracy is left under attack, and for whom."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairmargin.cli import subject_options as of
from fairmargin.cli.console import command_line, output, p_text, plain_table, print_json, progress, shown
from fairmargin.cli.options import Confidence, Engine, Json, Quiet
from fairmargin.errors import InputError

if TYPE_CHECKING:
    from fairmargin.metrics.robust_accuracy import RobustAccuracy
    from fairmargin.studies.attacking import FinishedAttacks
    from fairmargin.studies.study import Study

_PLANNED = ("confidence", "control", "cluster", "smallest_group", "resamples", "seed")  # what an error may speak of
_COLOURS = {"less robust": "red", "more robust": "green"}


def attack(
    out: Annotated[
        Path,
        typer.Option(
            help="Folder of the run; an audit's of the same model and data will do. Interrupted and run again, it goes "
            "on from here."
        ),
    ],
    model: of.Model = "",
    weights: of.Weights = "",
    mean: of.Mean = "",
    std: of.Std = "",
    data: of.Data = "",
    trust_model: of.TrustModel = False,
    attack_: Annotated[
        list[str] | None,
        typer.Option(
            "--attack",
            help="NAME or NAME:key=value,…, as in pgd:steps=40,norm=l2; may be repeated. pgd if left out. See "
            "`fairmargin list attacks`.",
            rich_help_panel="Attacking",
        ),
    ] = None,
    radius: Annotated[
        list[str] | None,
        typer.Option(
            help="How far the attack may go, as in 4/255 or 0.5; may be repeated.", rich_help_panel="Attacking"
        ),
    ] = None,
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
    group: of.Group = None,
    cross: of.Cross = None,
    merge_below: of.MergeBelow = 0,
    control: of.Control = "",
    cluster: of.Cluster = "",
    smallest_group: of.SmallestGroup = 30,
    resamples: of.Resamples = 2_000,
    confidence: Confidence = 0.95,
    tile: of.Tile = 0,
    device: of.Device = "",
    engine: Engine = "serial",
    seed: of.Seed = 0,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Attacks every sample at fixed radii, and compares who stays right: robust accuracy group by group.

    An attack that finds nothing proves nothing: robust accuracy is at most what is shown. How far samples lie from the
    boundary, without choosing a radius, is what `fairmargin audit` measures.

    Examples:

    [dim]# CIFAR-10 by class, at two radii[/]
    fairmargin attack --model arch:resnet20 --weights resnet20.th --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
    --data cifar10 --root data --split test --attack pgd:steps=20 --radius 4/255 --radius 8/255 --out run

    [dim]# two attacks, and what both together leave; a sample counts as robust if it withstands all[/]
    fairmargin attack --model net.py:make --weights net.safetensors --data faces/ --labels faces.csv --label age
    --group sex --attack pgd:steps=50,restarts=5 --attack margin_pgd --radius 4/255 --out run

    [dim]# a linear model and a table; the radius is in standard deviations[/]
    fairmargin attack --model model.npz --data people.csv --label hired --group sex --attack pgd:norm=l2 --radius 0.5
    --out run
    """
    from fairmargin.studies.study import make_study

    missing = [option for option, given in (("--model", model), ("--data", data)) if not given]
    if missing:
        raise InputError(f"What to attack is missing: give {' and '.join(missing)}.")
    study = make_study(
        {
            "model": model,
            "trust_model": trust_model,
            "weights": weights,
            "mean": of.numbers_in(mean, "--mean"),
            "std": of.numbers_in(std, "--std"),
            "device": device,
            "tile": tile,
            "data": data,
            "root": root,
            "split": split,
            "task": task,
            "size": size,
            "labels": labels,
            "image_column": image_column,
            "class_names": of.names_in(class_names),
            "per_group": per_group,
            "training_data": training_data,
            "label": label,
            "features": of.names_in(features),
            "scale": scale,
            "bounds": of.bounds_in(bounds),
            "groups": tuple(group or ()),
            "cross": tuple(of.crossed_in(text) for text in cross or ()),
            "merge_below": merge_below,
            "control": control,
            "cluster": cluster,
            "confidence": confidence,
            "smallest_group": smallest_group,
            "resamples": resamples,
            "seed": seed,
        }
    )
    with of.named_as_options(_PLANNED):
        carry_out(study, attack_ or [], radius or [], out, engine, json_=json_, quiet=quiet)


def carry_out(
    study: "Study", attacks: list[str], radii: list[str], out: Path, engine: str, *, json_: bool, quiet: bool
) -> "FinishedAttacks":
    """Runs the attacks and shows what came of them."""
    from fairmargin.engine.catalog import parse_engine
    from fairmargin.studies.attacking import run_attacks

    with progress(quiet or json_) as tell:
        finished = run_attacks(study, attacks, radii, out, parse_engine(engine), command=command_line(), progress=tell)
    if json_:
        print_json(
            {
                "run": str(out),
                "measured_shards": finished.measured,
                "reused_shards": finished.reused,
                "robust_accuracy": [found.to_dict() for found in finished.found],
                "notes": list(finished.notes),
            }
        )
    elif not quiet:
        for found in finished.found:
            show(found)
        if len(finished.found) > 1:
            show_together(finished.found)
        warnings = (warning for found in finished.found for warning in found.warnings)
        for note in dict.fromkeys((*warnings, *finished.notes)):  # each once, however many tables it is about
            output.print(f"[yellow]Note:[/] {shown(note)}")
        if finished.reused:
            output.print(
                f"{of.counted(finished.reused, 'shard was', 'shards were')} there already; "
                f"{of.counted(finished.measured, 'was', 'were')} attacked now."
            )
        output.print(f"Table: {shown(str(finished.table))}", soft_wrap=True)
    return finished


def show(found: "RobustAccuracy") -> None:
    """A table of the groups, the worst one first, and the partition as a whole."""
    from fairmargin.metrics.attacked import at_most, points_text
    from fairmargin.metrics.robust_accuracy import summary_of

    hedge = at_most(found.bound).strip()
    accuracy, interval = f"accuracy {hedge}".strip(), f"{found.confidence:.0%} interval"
    table = plain_table(
        f"{found.title}, {found.overall.size:,} samples", left=("group", "verdict"), wrap=("group", "verdict")
    )("group", "size", "natural error", "+ boundary", "= robust", accuracy, interval, "to rest", "p (Holm)", "verdict")
    for row in sorted(found, key=lambda r: r.robust_accuracy.value):
        robust, gap, style = row.robust_accuracy, row.gap_to_rest.value, _COLOURS.get(row.verdict, "")
        table.add_row(
            shown(row.group),
            f"{row.size:,}",
            f"{row.natural_error:.1%}",
            f"{row.boundary_error:.1%}",
            f"{row.robust_error:.1%}",
            f"{robust.value:.1%}",
            f"{robust.low:.1%} to {robust.high:.1%}",
            "–" if math.isnan(gap) else points_text(gap),
            p_text(row.p_adjusted),
            f"[{style}]{row.verdict}[/]" if style else row.verdict,
        )
    output.print(table)
    for line in summary_of(found):
        output.print(shown(line[:1].upper() + line[1:] + "."))
    output.print()


def show_together(found: "tuple[RobustAccuracy, ...]") -> None:
    """All attacks at all radii in one table, a row each."""
    from fairmargin.metrics.attacked import at_most

    several = len({each.partition for each in found}) > 1
    hedges = dict.fromkeys(at_most(each.bound).strip() for each in found)
    robust = f"robust accuracy {'/'.join(hedges)}".strip()
    heads = (*(["groups"] if several else []), "attack", "norm", "radius", robust, "worst group", "its accuracy")
    words = ("groups", "attack", "norm", "worst group")
    table = plain_table("All attacks", left=words, wrap=("attack", "worst group"))(
        *heads, "gap in these samples", "without its noise"
    )
    for each in found:
        whole = each.overall
        table.add_row(
            *([shown(each.partition)] if several else []),
            shown(each.attack),
            str(each.norm),
            each.radius_text,
            f"{whole.robust_accuracy.value:.1%}",
            shown(whole.worst_group),
            f"{whole.worst_accuracy.value:.1%}",
            f"{each.plain_gap:.1%}",
            f"{whole.gap.value:.1%}" if whole.gap.is_defined else "–",
        )
    output.print(table)
    output.print()
