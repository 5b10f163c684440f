"""The `fairmargin` command and what all its commands share: one way to fail, one way to stop."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fairmargin.cli import (
    attack,
    audit,
    compare,
    data,
    demo,
    gate,
    listing,
    power,
    report,
    reproduce,
    run,
    theory,
    train,
)
from fairmargin.cli.console import errors, shown
from fairmargin.errors import FairmarginError, exits_refused
from fairmargin.version import __version__

BAD_INPUT = 2
INTERRUPTED = 130


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C was pressed; where a library in C is being imported it arrives as the cause of an ImportError."""
    return error is not None and (
        isinstance(error, KeyboardInterrupt) or _is_interrupt(error.__cause__ or error.__context__)
    )


class _Commands(TyperGroup):
    """Prints an error as one sentence with exit code 2, and says at Ctrl-C what is kept."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with exits_refused():
                return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as error:
            if _is_interrupt(error):
                errors.print("\nStopped. Everything measured so far is kept: the same command goes on from here.")
                raise typer.Exit(INTERRUPTED) from None
            if isinstance(error, FairmarginError):
                errors.print(f"[bold red]Error:[/] {shown(str(error))}", soft_wrap=True)
                raise typer.Exit(BAD_INPUT) from None
            raise


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Is a classifier equally hard to fool for everyone? Measures how far samples lie from the decision boundary, "
    "and compares groups.\n\nStart with [bold]fairmargin demo[/].",
)
app.command("demo")(demo.demo)
app.command("audit")(audit.audit)
app.command("attack")(attack.attack)
app.command("train")(train.train)
app.command("run")(run.run)
app.command("reproduce")(reproduce.reproduce)
app.command("report")(report.report)
app.command("compare")(compare.compare)
app.command("gate")(gate.gate)
app.command("power")(power.power)
app.command("data")(data.data)
app.add_typer(theory.app, name="theory")
app.command("list")(listing.show)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"fairmargin {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass
