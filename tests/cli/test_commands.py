"""Commands that other distributions add by entry points: listed, carried out, and a sentence where that fails."""

import subprocess
import sys
from pathlib import Path

import pytest

from fairmargin.cli import commands
from tests.stories.examples import fairmargin, refused, succeeded

HELLO = """
from fairmargin.cli.commands import Command

COMMAND = Command("{module}_carried_out:hello", "Greet the user.")
NO_COMMAND = "hello"
"""
CARRIED_OUT = '''
def hello(name: str = "reader") -> None:
    """Greet the user."""
    print(f"Hello, {name}!")
'''


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a distribution with one module and one entry point, as pip would."""

    def install(entry: str, module: str, carried_out: str = CARRIED_OUT) -> None:
        (tmp_path / f"{module}.py").write_text(HELLO.format(module=module))
        (tmp_path / f"{module}_carried_out.py").write_text(carried_out)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{commands.GROUP}]\n{entry}\n")
        monkeypatch.syspath_prepend(tmp_path)

    before = set(sys.modules)
    yield install
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(tmp_path):
            del sys.modules[name]


def without_papers(monkeypatch):
    monkeypatch.setattr(commands, "entry_points", lambda **_: ())


def test_an_added_command_is_listed_and_carried_out(installed):
    installed("hello = greeting:COMMAND", "greeting")
    help_text = succeeded(fairmargin("--help")).stdout
    assert "hello" in help_text
    assert "Greet the user." in help_text
    assert succeeded(fairmargin("hello", "--name", "Ada")).stdout == "Hello, Ada!\n"


def test_the_module_of_an_added_command_is_not_imported_for_help(installed):
    installed("hello = greeting:COMMAND", "greeting")
    succeeded(fairmargin("--help"))
    assert "greeting_carried_out" not in sys.modules


def test_an_added_command_cannot_replace_one_of_fairmargin(installed):
    installed("power = greeting:COMMAND", "greeting")
    assert "Say which differences" in succeeded(fairmargin("--help")).stdout
    assert "Greet the user." not in succeeded(fairmargin("power", "--help")).stdout


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("hello = missing_module:COMMAND", "ModuleNotFoundError: No module named 'missing_module'"),
        ("hello = greeting:MISSING", "AttributeError: module 'greeting' has no attribute 'MISSING'"),
        ("hello = greeting:NO_COMMAND", "TypeError: greeting:NO_COMMAND is no fairmargin.cli.commands.Command"),
    ],
)
def test_an_entry_point_that_cannot_be_loaded_is_a_sentence_and_leaves_help_alone(installed, entry, reason):
    installed(entry, "greeting")
    sentence = refused(fairmargin("hello", "--name", "Ada"))
    assert sentence.startswith(f"`fairmargin hello` of the package greeting cannot be loaded ({reason}).")
    assert "pip install --force-reinstall greeting" in sentence
    assert "Cannot be loaded: `fairmargin hello` says why." in succeeded(fairmargin("--help")).stdout


def test_a_command_whose_module_cannot_be_imported_is_a_sentence(installed):
    installed("hello = greeting:COMMAND", "greeting", carried_out="import missing_module")
    assert "cannot be loaded (ModuleNotFoundError" in refused(fairmargin("hello"))
    assert "Greet the user." in succeeded(fairmargin("--help")).stdout


@pytest.mark.parametrize("arguments", [["reproduce"], ["reproduce", "toy", "--scale", "smoke"], ["theory", "--help"]])
def test_without_the_papers_their_commands_say_what_to_install(monkeypatch, arguments):
    without_papers(monkeypatch)
    name = arguments[0]
    expected = f"`fairmargin {name}` needs the package fairmargin-papers: pip install fairmargin-papers."
    assert refused(fairmargin(*arguments)) == expected


def test_without_the_papers_their_commands_are_not_listed(monkeypatch):
    without_papers(monkeypatch)
    listed = succeeded(fairmargin("--help")).stdout
    assert "audit" in listed
    assert "reproduce" not in listed
    assert "theory" not in listed


def test_an_unknown_command_is_still_unknown():
    assert fairmargin("nonsense").exit_code == 2


def test_the_package_runs_as_a_module():
    shown = subprocess.run(
        [sys.executable, "-m", "fairmargin", "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip().startswith("fairmargin ")
