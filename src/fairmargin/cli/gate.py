"""`fairmargin gate`: an exit code for a pipeline."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairmargin.cli.console import errors, output, print_json, shown
from fairmargin.cli.options import Json, Quiet, Run
from fairmargin.core.suggestion import suggest
from fairmargin.core.undefined import reason_of
from fairmargin.errors import InputError

if TYPE_CHECKING:
    from fairmargin.study.record import RunRecord

MATCHED = 1


def gate(
    run: Run,
    condition: Annotated[
        str, typer.Option("--if", help="Fail if this holds for a group, for instance 'sigma_low < -0.2'.")
    ],
    group: Annotated[list[str] | None, typer.Option(help="Only groups of this partition; may be repeated.")] = None,
    allow_undefined: Annotated[
        bool, typer.Option("--allow-undefined", help="Let groups pass for which the condition cannot be decided.")
    ] = False,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Exit with 0 if no group meets the condition, 1 if one does, 2 on bad input or an undefined value.

    A group whose verdict is "not comparable" counts as undefined when another verdict is asked for.

    Recommended is the cautious gate: it fails unless the audit can show that no group is 20 % worse than the rest. "Not
    significant" with few samples proves nothing.

    Examples:

    [dim]# fails unless every group is shown to be less than 20 % worse[/]
    fairmargin gate run --if 'sigma_low < -0.2'

    [dim]# fails only when a group is shown to be 10 % worse[/]
    fairmargin gate run --if 'sigma_high < -0.1' --group race

    fairmargin gate run --if 'verdict == "less robust" and size >= 100'

    Columns: group, partition, estimator, norm, bound, size, accuracy, robustness, sigma, gap_to_rest,
    sigma_unrestricted, sigma_median, sigma_accuracy, sigma_margin (each also with _low and _high), sigma_alone_low,
    sigma_alone_high, sigma_bounds_low, sigma_bounds_high, unreached, unreachable, dropped, p, p_adjusted, verdict,
    up_to. Of an audit to a precision: group, partition, estimator, norm, bound, size, robustness, sigma (each also with
    _low and _high), sigma_alone_low, sigma_alone_high, p, p_adjusted, verdict, met, unmet, reference_samples,
    cheap_samples, up_to. The limits of sigma hold for all groups at once and agree with the verdict; those of
    sigma_alone are for one group alone.
    """
    from fairmargin.study import gate as conditions
    from fairmargin.study.check import checked
    from fairmargin.study.run_folder import RunFolder
    from fairmargin.study.tables import rows_of

    record = checked(RunFolder.existing(run))
    rows = whole = rows_of(record, _kind(record))
    known = list(dict.fromkeys(row["partition"] for row in rows))
    for name in group or ():
        if name not in known:
            raise InputError(f"The run in {run} has no partition {name!r}. {suggest(name, known)}")
    if group:
        rows = [row for row in rows if row["partition"] in group]
    found = conditions.gate(rows, condition, whole)
    undecided = [] if allow_undefined else found.undefined
    if json_:
        plain = {"matching": list(map(_plain, found.matching)), "undefined": list(map(_plain, found.undefined))}
        print_json({"condition": condition, "checked": len(rows), **plain})
    named = [n for n in conditions.columns_in(condition, rows) if n not in ("group", "partition", "estimator")]
    if not json_ and not quiet:
        for row in found.matching:
            values = ", ".join(f"{name} = {_short(row[name])}" for name in named)
            output.print(f"[red]fails[/] {shown(_name(row))}: {shown(values)}. {shown(row['finding'])}")
        if not found.matching and not undecided:
            output.print(f"[green]passes[/]: no group of {len(rows)} meets {shown(condition)}")
    if found.matching:
        raise typer.Exit(MATCHED)
    if undecided:
        names = ", ".join(map(_name, undecided))
        reasons = "; ".join(dict.fromkeys(_why_undefined(row, named) for row in undecided))
        errors.print(
            f"[bold red]Error:[/] {shown(condition)} cannot be decided for {shown(names)}: a value is undefined "
            f"({shown(reasons)}). Pass --allow-undefined to let such groups pass.",
            soft_wrap=True,
        )
        raise typer.Exit(2)


def _name(row: Mapping[str, Any]) -> str:
    """Return the group of a row, and what else the row is about."""
    about = _about(row)
    return f"{row['partition']}={row['group']}" + (f" ({about})" if about else "")


def _why_undefined(row: Mapping[str, Any], named: Sequence[str]) -> str:
    """Return why the first undefined column of a row has no value; its finding where there is no other reason."""
    missing = (row[name] for name in named if isinstance(row.get(name), float) and math.isnan(row[name]))
    return next(filter(None, map(reason_of, missing)), str(row["finding"]).rstrip("."))


def _about(row: Mapping[str, Any]) -> str:
    """Return what a row is about in addition to its group: model, estimator or attack, and epoch."""
    from fairmargin.study.record import About

    known = {name: row.get(name) for name in About.model_fields if name != "partition"}
    return str(About.model_construct(**{name: value for name, value in known.items() if value is not None}))


def _kind(record: "RunRecord") -> str:
    """Return the kind of results that is judged: the first of these that the run has."""
    known = [each.kind for each in record.results]
    for kind in ("audit", "precision", "robust_accuracy", "training"):
        if kind in known:
            return kind
    raise InputError("The run has no results by groups that could be judged.")


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert values to types that JSON supports."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
