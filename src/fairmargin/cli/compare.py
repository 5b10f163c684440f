"""`fairmargin compare`: two models on the same samples."""

import math
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from fairmargin.cli.console import output, plain_table, print_json, shown, sigma_texts
from fairmargin.cli.options import Json, Quiet
from fairmargin.presentation.formatting import level_text, signed, table_p, table_percent

if TYPE_CHECKING:
    from fairmargin.analyses.comparison import Comparison


def compare(
    before: Annotated[str, typer.Argument(help="The run folder of the first model.")],
    after: Annotated[str, typer.Argument(help="The run folder of the second model, on the same samples.")],
    group: Annotated[list[str] | None, typer.Option(help="Only this partition; may be repeated.")] = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Says which groups gained and which lost from one model to the next, and whether the gap closed.

    Each sample is compared with itself, so that small changes can be seen. Imported distances are paired by the ids
    that `audit --distances FILE --id COLUMN` kept; without ids they are paired by position, and a note says so.

    Example:

    fairmargin compare run-before run-after --group race
    """
    from fairmargin.studies.comparison import compare_runs
    from fairmargin.studies.run_check import check_run
    from fairmargin.studies.run_folder import RunFolder

    old, new = RunFolder.existing(before), RunFolder.existing(after)
    check_run(old)
    check_run(new)
    found = compare_runs(old, new, tuple(group or ()))
    if json_:
        content = [{"estimator": estimator, **comparison.to_dict()} for estimator, comparison in found]
        print_json(content)
    elif not quiet:
        for estimator, comparison in found:
            output.print(_table(estimator, comparison))
            for warning in comparison.notes():
                output.print(f"[yellow]Note:[/] {shown(warning)}")
            output.print()


def _table(estimator: str, comparison: "Comparison") -> Table:
    from fairmargin.analyses.comparison import change_limits

    title = (
        f"{comparison.partition}: before → after, {comparison.norm}, {level_text(comparison.confidence)} intervals for "
        f"all groups at once, {estimator}"
    )
    if math.isfinite(comparison.up_to):
        title += f", distances capped at {comparison.up_to:.4g}"
    table = plain_table(title, left=("group", "verdict"), wrap=("group", "verdict"))(
        "group", "size", "distance", "change", "interval", "p", "verdict", "σ", "change", "interval", "p"
    )
    for row in comparison:
        change = row.change
        table.add_row(
            shown(row.group),
            f"{row.size:,}",
            f"{row.before:.4g} → {row.after:.4g}",
            f"{change.value:+.3g}" if change.is_defined else "undefined",
            change_limits(change, lambda value: signed(value, 3)) if math.isfinite(change.low) else "–",
            table_p(row.p_adjusted),
            row.verdict,
            f"{table_percent(row.sigma_before)} → {table_percent(row.sigma_after)}",
            *sigma_texts(row.sigma_change),
            table_p(row.sigma_p_adjusted),
        )
    return table
