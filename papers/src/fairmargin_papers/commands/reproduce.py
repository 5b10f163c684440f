"""`fairmargin reproduce`: run the experiments of a paper, and compare the results with its claims."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairmargin.cli.console import output, plain_table, print_json, shown
from fairmargin.cli.options import Json, Quiet
from fairmargin.cli.progress import progress

if TYPE_CHECKING:
    from fairmargin_papers.shared.paper import Scale
    from fairmargin_papers.shared.reproduce import Reproduced

_COLOURED = {
    "holds": "[green]holds[/]",
    "does not hold": "[bold red]does not hold[/]",
    "undecided": "[yellow]undecided[/]",
}


def reproduce(
    paper: Annotated[str, typer.Argument(help="toy, nanda, nanda2020, tran, ma or farmur.")],
    scale: Annotated[
        str,
        typer.Option(
            help="smoke (under a minute), laptop (up to 90 minutes) or paper (the printed settings; refused if data, "
            "networks or weights are missing, and the page lists what differs from print)."
        ),
    ] = "smoke",
    out: Annotated[
        Path, typer.Option(help="Folder of the page PAPER.md; figures and numbers are written to PAPER/ beside it.")
    ] = Path("fairmargin-papers"),
    root: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the datasets. Claims whose data are missing are not tested, and the page says so."
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="Where networks are trained: serial, or processes:workers=2. The numbers are the same. Default: "
            "serial for smoke, otherwise one process per processor."
        ),
    ] = "",
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the experiments of a paper and write a page with its claims, the results, and whether each claim holds.

    The page is written after every part. After Ctrl-C, the same command continues.

    Examples:

    [dim]# two toys, in seconds[/]
    fairmargin reproduce toy --scale smoke

    [dim]# theorems and networks, with datasets in ../data; trained networks are kept in results/tran[/]
    fairmargin reproduce tran --scale laptop --root ../data --out results
    """
    from fairmargin.engine.catalog import parse_engine
    from fairmargin_papers.catalog import paper_named
    from fairmargin_papers.shared.page import claim_as_json
    from fairmargin_papers.shared.paper import parse_scale
    from fairmargin_papers.shared.reproduce import reproduce as run

    chosen, size = paper_named(paper), parse_scale(scale)
    workers = parse_engine(engine or ("serial" if size == "smoke" else "processes"))
    with progress(quiet or json_) as listener:
        done = run(chosen, size, out, listener, engine=workers, root=root)
    if json_:
        print_json(
            {
                "paper": chosen.name,
                "scale": size,
                "page": str(done.page),
                "figures": [str(picture) for picture in done.pictures],
                "claims": [claim_as_json(claim) for claim in done.claims],
                "used": list(done.used),
            }
        )
    elif not quiet:
        _show(done, size)


def _show(done: "Reproduced", scale: "Scale") -> None:
    from fairmargin_papers.shared.page import SMOKE, number

    columns = ("", "claim", "ours", "verdict")
    table = plain_table(done.paper.title, left=columns, wrap=("claim", "ours"))(*columns)
    tested = [claim for claim in done.claims if claim.verdict != "not tested"]
    for claim in tested:
        interval = "" if claim.interval is None else f" [{', '.join(map(number, claim.interval))}]"
        table.add_row(claim.name, shown(claim.text), shown(claim.ours + interval), _COLOURED[claim.verdict])
    output.print(table)
    if len(tested) < len(done.claims):
        output.print(f"{len(done.claims) - len(tested)} further claims were not tested; the page gives the reasons.")
    for sentence in done.used:
        output.print(shown(sentence), soft_wrap=True)
    if scale == "smoke":
        output.print(f"[yellow]Note:[/] {SMOKE}")
    output.print(f"Page: {shown(str(done.page))}", soft_wrap=True)
