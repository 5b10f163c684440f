"""The `fairmargin` command: its subcommands, and how errors and interruptions are shown."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperGroup

from fairmargin.cli.commands import command_lines, load_command
from fairmargin.errors import FairmarginError, InputError, exits_refused
from fairmargin.version import __version__

BAD_INPUT = 2
INTERRUPTED = 130


def _is_interrupt(error: BaseException | None) -> bool:
    """Return whether Ctrl-C was pressed; during the import of a C library it is the cause of an ImportError."""
    return error is not None and (
        isinstance(error, KeyboardInterrupt) or _is_interrupt(error.__cause__ or error.__context__)
    )


class _Commands(TyperGroup):
    """Group that imports commands when they are needed, and prints errors and interruptions as one sentence."""

    listed: Mapping[str, str] | None = None  # the lines of the commands while the help is written

    def list_commands(self, ctx: Any) -> list[str]:
        return list(command_lines() if self.listed is None else self.listed)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if self.listed is not None:
            return _as_command(cmd_name, _nothing, self.listed[cmd_name])
        found = load_command(cmd_name)
        if found is None:
            return None
        return typer.main.get_command(found) if isinstance(found, typer.Typer) else _as_command(cmd_name, found)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.listed = command_lines()
        super().format_help(ctx, formatter)
        self.listed = None

    def invoke(self, ctx: Any) -> Any:
        from fairmargin.cli.console import errors, option_name, shown

        try:
            with exits_refused():
                try:
                    return super().invoke(ctx)
                except SystemExit as error:
                    if isinstance(error.__context__, BrokenPipeError):  # rich exits: `--help | head`
                        raise typer.Exit() from None
                    raise
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
    """Do nothing; stands for commands whose module is not imported for the list of commands."""


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
