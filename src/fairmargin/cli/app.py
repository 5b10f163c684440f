"""The `fairmargin` command: its commands, and the one way in which all of them fail or stop."""

import importlib
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperGroup

from fairmargin.cli.spelling import option_name
from fairmargin.errors import FairmarginError, InputError, exits_refused
from fairmargin.version import __version__

BAD_INPUT = 2
INTERRUPTED = 130

# Name, "module:function" in `fairmargin.cli`, and first line of the help. A command's module is imported when the
# command is asked for, so that `fairmargin --help` answers at once.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": ("demo:demo", "Audit two small models on embedded data, and write their reports."),
    "audit": ("audit:audit", "Measure how far each sample lies from the decision boundary, and compare groups."),
    "attack": ("attack:attack", "Measure how much accuracy is left under attack, and for whom."),
    "train": ("train:train", "Train a network by a method that makes it robust, fair, or both."),
    "run": ("run:run", "Carry out a study that is written in a TOML file."),
    "reproduce": ("reproduce:reproduce", "Reproduce a paper's experiments and check its claims."),
    "report": ("report:report", "Write the report of a run again, and show its tables."),
    "compare": ("compare:compare", "Compare two models on the same samples."),
    "gate": ("gate:gate", "Fail a pipeline if a group meets a condition."),
    "power": ("power:power", "Say which differences an audit can detect."),
    "data": ("data:data", "List, check or download the datasets of the catalog."),
    "theory": ("theory:app", "Show the papers' closed-form results as tables and figures."),
    "list": ("listing:show", "List estimators, attacks, methods, architectures or datasets."),
}


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C was pressed; where a library in C is being imported it arrives as the cause of an ImportError."""
    return error is not None and (
        isinstance(error, KeyboardInterrupt) or _is_interrupt(error.__cause__ or error.__context__)
    )


class _Commands(TyperGroup):
    """Imports commands when they are needed; prints an error as one sentence, and says at Ctrl-C what is kept."""

    listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        place, line = COMMANDS[cmd_name]
        if self.listing:
            return _as_command(cmd_name, _nothing, line)
        module, _, name = place.partition(":")
        found = getattr(importlib.import_module(f"fairmargin.cli.{module}"), name)
        return typer.main.get_command(found) if isinstance(found, typer.Typer) else _as_command(cmd_name, found)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.listing = True
        super().format_help(ctx, formatter)
        self.listing = False

    def invoke(self, ctx: Any) -> Any:
        from fairmargin.cli.console import errors, shown

        try:
            with exits_refused():
                return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as error:
            if _is_interrupt(error):
                said = "Stopped. Everything measured so far is kept: the same command continues from here."
                errors.print(f"\n{said}", soft_wrap=True)
                raise typer.Exit(INTERRUPTED) from None
            if isinstance(error, FairmarginError):
                said = error.spelled(option_name) if isinstance(error, InputError) else str(error)
                errors.print(f"[bold red]Error:[/] {shown(said)}", soft_wrap=True)
                raise typer.Exit(BAD_INPUT) from None
            raise


def _as_command(name: str, function: Callable[..., Any], line: str | None = None) -> Any:
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
    alone.command(name, help=line)(function)
    return typer.main.get_command(alone)


def _nothing() -> None:
    """Stand in for a command whose module need not be imported to list it."""


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Is a classifier equally hard to fool for everyone? Measures how far samples lie from the decision boundary, "
    "and compares groups.\n\nStart with [bold]fairmargin demo[/].",
)


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
