"""Every option of every command is explained to users: on a page, or in an example of a help text."""

import re
from pathlib import Path

import typer.main

from fairmargin.cli.app import app
from fairmargin.cli.commands import OWN

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))


def test_every_option_appears_on_a_page_or_in_a_help_example():
    group = typer.main.get_command(app)
    commands = [group.get_command(None, name) for name in OWN]
    explained = "\n".join([page.read_text(encoding="utf-8") for page in PAGES] + [each.help for each in commands])
    options = {option for command in commands for parameter in command.params for option in parameter.opts}
    named = {option for option in options if option.startswith("--")}
    assert len(named) > 80
    found = {option for option in named if re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", explained)}
    assert named == found, "explain the option in docs/guide.md, or remove it"
