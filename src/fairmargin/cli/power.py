"""`fairmargin power`: what an audit can see, before or after it is made."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from fairmargin.cli.console import output, plain_table, print_json, shown
from fairmargin.cli.options import Json, Quiet
from fairmargin.core.suggestion import suggest
from fairmargin.core.undefined import reason_of
from fairmargin.errors import InputError
from fairmargin.presentation.formatting import level_text, signed_percent, table_percent

if TYPE_CHECKING:
    from fairmargin.analyses.power import GroupPower
    from fairmargin.study.run_folder import RunFolder


def power(
    run: Annotated[Path | None, typer.Argument(help="A run whose distances serve as a pilot.")] = None,
    sigma: Annotated[float, typer.Option(help="The effect that matters, for instance -0.2: 20 % less robust.")] = -0.2,
    chance: Annotated[float, typer.Option("--power", help="How likely it should be found.")] = 0.8,
    group: Annotated[list[str] | None, typer.Option(help="Only this partition; may be repeated.")] = None,
    size: Annotated[int, typer.Option(help="Without a run: samples in the group.")] = 0,
    rest: Annotated[int, typer.Option(help="Without a run: samples in the rest.")] = 0,
    groups: Annotated[int, typer.Option(help="Without a run: groups that are tested.")] = 2,
    variation: Annotated[
        float, typer.Option(help="Without a run: standard deviation over mean of the distances.")
    ] = 0.8,
    confidence: Annotated[float, typer.Option(help="Confidence of the test.")] = 0.95,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say the smallest σ that an audit would detect, and how many samples a given σ takes.

    "Needed" are samples of the group in all, its rest being as large as it is.

    Examples:

    [dim]# what could this audit see?[/]
    fairmargin power run --sigma -0.1

    [dim]# before any measurement: a group of 200 among 2,200[/]
    fairmargin power --size 200 --rest 2000 --groups 5 --variation 0.8
    """
    from fairmargin.core.codec import encode
    from fairmargin.study.run_folder import RunFolder

    if run is None:
        found = [("", "", _planned(size, rest, groups, variation, sigma, chance, confidence))]
    else:
        found = _of_run(RunFolder.existing(run), group, sigma, chance, confidence)
    if json_:
        rows = [{"estimator": e, "partition": p, **encode(row)} for e, p, row in found]
        print_json(rows)
    elif not quiet:
        output.print(_table(found, sigma, chance))


def _planned(
    size: int, rest: int, groups: int, variation: float, sigma: float, chance: float, confidence: float
) -> "GroupPower":
    from fairmargin.analyses.power import GroupPower, Setting

    if size < 2 or rest < 2:
        raise InputError("Give a run, or --size and --rest (at least 2 each), as in --size 200 --rest 2000.")
    if groups < 2:
        raise InputError(f"--groups is how many groups there are, at least 2; given {groups}.")
    if not variation > 0:
        raise InputError(f"--variation is the standard deviation over the mean, above 0; given {variation}.")
    setting = Setting(variation, variation, rest, 1 if groups == 2 else groups, confidence, chance)
    drop = setting.smallest_drop(size)
    return GroupPower("planned", size, rest, drop, 1 / (1 + drop) - 1, setting.samples_needed(sigma))


def _of_run(
    folder: "RunFolder", group: list[str] | None, sigma: float, chance: float, confidence: float
) -> "list[tuple[str, str, GroupPower]]":
    from fairmargin.analyses.power import power as power_of
    from fairmargin.study.check import checked, settings_of

    record = checked(folder)
    audits = [each for each in record.results if each.kind == "audit"]
    if not audits:
        raise InputError(f"{folder.path} holds no audit whose distances could serve as a pilot.")
    for name in group or ():
        if name not in record.partitions:
            raise InputError(f"The run in {folder.path} has no partition {name!r}. {suggest(name, record.partitions)}")
    found = []
    for stored in audits:
        about, merge = stored.about, int(stored.settings.get("merge_below", 0))
        if group and about.partition not in group:
            continue
        settings = settings_of(folder, stored).model_copy(update={"confidence": confidence, "control": None})
        partition = folder.partition(about.partition, merge)
        rows = power_of(folder.distances(stored.shards[0]), partition, settings, sigma=sigma, chance=chance)
        found += [(about.estimator, about.partition, row) for row in rows]
    return found


def _table(found: "list[tuple[str, str, GroupPower]]", sigma: float, chance: float) -> Table:
    words = ("estimator", "partition", "group")
    table = plain_table(f"Detected with probability {level_text(chance)}", left=words, wrap=words)(
        *words, "samples", "rest", "smallest drop", "smallest gain", f"needed for {signed_percent(sigma)}"
    )
    for estimator, partition, row in found:
        needed = row.samples_needed
        table.add_row(
            shown(estimator),
            shown(partition),
            shown(row.group),
            f"{row.size:,}",
            f"{row.rest_size:,}",
            table_percent(row.smallest_drop),
            table_percent(row.smallest_gain),
            shown(reason_of(needed)) if math.isnan(needed) else f"{math.ceil(needed):,}",
        )
    return table
