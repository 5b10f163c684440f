"""`fairmargin power`: the differences that an audit can detect, before or after it is made."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairmargin.cli.console import print_json, show_section
from fairmargin.cli.options import Json, Quiet
from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError

if TYPE_CHECKING:
    from fairmargin.analyses.power import Power
    from fairmargin.study.record import About
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

    "Needed" is the total number of samples of the group, if the size of its rest does not change.

    Examples:

    [dim]# what could this audit see?[/]
    fairmargin power run --sigma -0.1

    [dim]# before any measurement: a group of 200 among 2,200[/]
    fairmargin power --size 200 --rest 2000 --groups 5 --variation 0.8
    """
    from fairmargin.core.codec import encode
    from fairmargin.report.sections import titled
    from fairmargin.study.record import About
    from fairmargin.study.run_folder import RunFolder

    if not 0 < chance < 1:  # the option has another name than the parameter of `fm.power`
        raise InputError("must lie between 0 and 1, for instance 0.8", field="power", given=chance)
    if run is None:
        found = [(About(), _planned(size, rest, groups, variation, sigma, chance, confidence))]
    else:
        found = _of_run(RunFolder.existing(run), group, sigma, chance, confidence)
    if json_:
        always = {"estimator": "", "partition": ""}
        labelled = [({**always, **about.model_dump(exclude_defaults=True)}, each) for about, each in found]
        print_json([{**about, **encode(row)} for about, each in labelled for row in each])
    elif not quiet:
        for about, each in found:
            show_section(titled(each, about))


def _planned(
    size: int, rest: int, groups: int, variation: float, sigma: float, chance: float, confidence: float
) -> "Power":
    from fairmargin.analyses.power import planned_power

    if size < 2 or rest < 2:
        raise InputError("Give a run, or --size and --rest (at least 2 each), as in --size 200 --rest 2000.")
    if groups < 2:
        raise InputError(f"--groups is how many groups there are, at least 2; given {groups}.")
    if not variation > 0:
        raise InputError(f"--variation is the standard deviation over the mean, above 0; given {variation}.")
    return planned_power(
        size, rest, groups=groups, variation=variation, sigma=sigma, chance=chance, confidence=confidence
    )


def _of_run(
    folder: "RunFolder", group: list[str] | None, sigma: float, chance: float, confidence: float
) -> "list[tuple[About, Power]]":
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
        partition = folder.partition(about.partition, merge, about.data)
        distances = folder.distances(stored.shards[0])
        found.append((about, power_of(distances, partition, settings, sigma=sigma, chance=chance)))
    return found
