"""The commands of `fairmargin`: its own, and those that other installed distributions add.

A distribution adds a command by an entry point in the group `fairmargin.commands`. The entry point has the name of the
command and refers to a `Command`. The module that holds the `Command` is imported for `fairmargin --help`, so it
should import nothing slow; the module that carries out the command is imported when the command is called.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from fairmargin.errors import FairmarginError

GROUP = "fairmargin.commands"


@dataclass(frozen=True, slots=True)
class Command:
    """A command, described without importing its module.

    Parameters
    ----------
    place
        The function or `typer.Typer` that carries it out, as "module:name".
    line
        The first line of its help.

    >>> Command("math:sqrt", "Compute a root.").load()
    <built-in function sqrt>
    """

    place: str
    line: str

    def load(self) -> Any:
        """Import the module and return the function or `typer.Typer`."""
        module, _, name = self.place.partition(":")
        return getattr(importlib.import_module(module), name)


OWN: Mapping[str, Command] = {
    name: Command(f"fairmargin.cli.{place}", line)
    for name, place, line in (
        ("demo", "demo:demo", "Audit three small models on embedded data, and write their reports."),
        ("audit", "audit:audit", "Measure how far each sample lies from the decision boundary, and compare groups."),
        ("attack", "attack:attack", "Measure how much accuracy is left under attack, and for whom."),
        ("train", "train:train", "Train a network by a method that makes it robust, fair, or both."),
        ("run", "run:run", "Carry out a study that is written in a TOML file."),
        ("report", "report:report", "Write the report of a run again, and show its tables."),
        ("compare", "compare:compare", "Compare two models on the same samples."),
        ("gate", "gate:gate", "Fail a pipeline if a group meets a condition."),
        ("columns", "columns:columns", "Write a draft of rules for the columns of a table."),
        ("power", "power:power", "Say which differences an audit can detect."),
        ("data", "data:data", "List, check or download the datasets of the catalog."),
        ("list", "listing:show", "List estimators, attacks, methods, architectures or datasets."),
    )
}

# Commands of distributions that may be missing, and what to install for them.
ADDED_BY: Mapping[str, str] = {"reproduce": "fairmargin-papers", "theory": "fairmargin-papers"}


def command_lines() -> dict[str, str]:
    """Return the name of every command that is installed and the first line of its help.

    A command that cannot be loaded is listed too, and says so.
    """
    lines = {name: command.line for name, command in OWN.items()}
    for entry in entry_points(group=GROUP):
        if entry.name not in lines:
            try:
                lines[entry.name] = _loaded(entry).line
            except FairmarginError:
                lines[entry.name] = f"Cannot be loaded: `fairmargin {entry.name}` says why."
    return lines


def load_command(name: str) -> Any:
    """Return the function or `typer.Typer` that carries out a command; None if there is no command of that name.

    Raises
    ------
    FairmarginError
        The command's distribution is not installed, or the command cannot be loaded.
    """
    if name in OWN:
        return OWN[name].load()
    for entry in entry_points(group=GROUP, name=name):
        command = _loaded(entry)
        try:
            return command.load()
        except Exception as error:
            raise _not_loaded(entry, error) from error
    if name in ADDED_BY:
        raise FairmarginError(f"`fairmargin {name}` needs the package {ADDED_BY[name]}: pip install {ADDED_BY[name]}.")
    return None


def _loaded(entry: EntryPoint) -> Command:
    try:
        command = entry.load()
    except Exception as error:
        raise _not_loaded(entry, error) from error
    if not isinstance(command, Command):
        raise _not_loaded(entry, TypeError(f"{entry.value} is no fairmargin.cli.commands.Command"))
    return command


def _not_loaded(entry: EntryPoint, error: Exception) -> FairmarginError:
    package = entry.dist.name if entry.dist else entry.module
    reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
    return FairmarginError(
        f"`fairmargin {entry.name}` of the package {package} cannot be loaded ({reason}). Install the package again: "
        f"pip install --force-reinstall {package}."
    )
