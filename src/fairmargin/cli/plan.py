"""What `--plan` prints: the estimated cost of a run."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from fairmargin.cli.console import counted, output, plain_table, print_json, progress, shown

if TYPE_CHECKING:
    from fairmargin.study.study import Study


def show_plan(study: "Study", out: Path, engine: str, *, json_: bool, quiet: bool) -> None:
    """Print the estimated cost of a study, without carrying it out."""
    from fairmargin.engine.catalog import parse_engine
    from fairmargin.runner.plan import KINDS, plan_run
    from fairmargin.study.run_folder import RunFolder

    workers = getattr(parse_engine(engine), "workers", 1) or 1
    with progress(quiet or json_) as told:
        planned, notes = plan_run(study, RunFolder(out), told)
    left = sum(each.seconds for each in planned) / workers
    if json_:
        work = {f"{kind}s": [asdict(each) for each in planned if each.kind == kind] for kind in KINDS}
        print_json({**work, "seconds_left": round(left, 1), "notes": list(notes)})
        return
    if not quiet and planned:
        heads = ("work", "samples", "parts", "done", "passes per sample", "time left", "memory", "disk")
        table = plain_table("Planned work", left=("work",), wrap=("work",))(*heads)
        for each in planned:
            table.add_row(
                shown(each.name),
                f"{each.samples:,}",
                f"{each.parts:,}",
                f"{each.done:,}",
                f"{each.passes:,.0f}",
                duration(each.seconds),
                size_text(each.memory),
                size_text(each.disk),
            )
        output.print(table)
    for note in notes if not quiet else ():
        output.print(f"[yellow]Note:[/] {shown(note)}", soft_wrap=True)
    together = f" with {workers} workers" if workers > 1 else ""
    if planned:
        done = sum(each.done == each.parts for each in planned)
        counts = (counted(n, kind, f"{kind}s") for kind in KINDS if (n := sum(e.kind == kind for e in planned)))
        output.print(f"{', '.join(counts)}; {done:,} of {len(planned):,} done already.")
    text = f"What is left may take {duration(left)}{together}: estimated from a trial on a few samples."
    output.print(text if planned else "Nothing is measured: the distances are imported.", soft_wrap=True)


def duration(seconds: float) -> str:
    """Return a time in the unit that fits.

    >>> duration(0.2), duration(75), duration(9000)
    ('under 1 s', '1 min', '2.5 h')
    """
    if seconds < 1:
        return "under 1 s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def size_text(count: int) -> str:
    """Return a number of bytes in the unit that fits.

    >>> size_text(900), size_text(2_500_000)
    ('1 kB', '2 MB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.0f} {unit}"
    return f"{max(count / 1e3, 1):.0f} kB"
