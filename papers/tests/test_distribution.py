"""The distribution of the papers: it fits the Fairmargin beside it, adds its commands, and declares what it imports."""

import ast
import json
import pkgutil
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import fairmargin_papers
from fairmargin.cli.commands import ADDED_BY, GROUP, OWN, Command
from fairmargin.version import __version__
from fairmargin_papers import theory
from fairmargin_papers.catalog import PAPERS
from tests.stories.examples import fairmargin, succeeded

ROOT = Path(__file__).parents[2]
PACKAGE = Path(fairmargin_papers.__file__).parent
PROJECT = tomllib.loads((ROOT / "papers" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CORE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENTRIES = PROJECT["entry-points"][GROUP]


def test_the_version_is_that_of_fairmargin_and_exactly_that_one_is_needed():
    assert PROJECT["version"] == __version__
    assert f"fairmargin=={__version__}" in PROJECT["dependencies"]


@pytest.mark.parametrize("field", ["license", "requires-python", "authors"])
def test_the_rest_of_the_description_is_that_of_fairmargin(field):
    assert PROJECT[field] == CORE[field]


def test_the_installed_entry_points_are_those_of_the_project_file():
    installed = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    assert ENTRIES.items() <= installed.items(), "install the papers: pip install -e . -e papers"


@pytest.mark.parametrize("name", ENTRIES)
def test_each_entry_point_leads_to_a_command_and_fairmargin_knows_where_it_comes_from(name):
    (entry,) = entry_points(group=GROUP, name=name)
    command = entry.load()
    assert isinstance(command, Command)
    assert callable(command.load())
    assert ADDED_BY[name] == PROJECT["name"]
    assert name not in OWN
    assert command.line in " ".join(succeeded(fairmargin("--help")).stdout.replace("│", " ").split())


def test_fairmargin_names_no_command_that_the_papers_lack():
    assert {name for name, package in ADDED_BY.items() if package == PROJECT["name"]} == set(ENTRIES)


def imported_modules():
    """Third-party modules that a file of the package imports."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            found |= {name.partition(".")[0] for name in names}
    return sorted(found - {"fairmargin_papers"} - set(sys.stdlib_module_names))


@pytest.mark.parametrize("module", imported_modules())
def test_every_module_that_the_papers_import_is_a_dependency_of_theirs_or_of_fairmargin(module):
    names = {Requirement(each).name for each in [*PROJECT["dependencies"], *CORE["dependencies"]]}
    assert {"sklearn": "scikit-learn"}.get(module, module) in names


def test_every_paper_of_the_catalog_has_a_folder_of_its_name():
    assert {path.parent.name for path in PACKAGE.glob("*/paper.py")} - {"shared"} == set(PAPERS)


def loaded_by(*modules):
    """Top-level packages in a fresh interpreter that imported these modules."""
    program = f"import sys, json, {', '.join(modules)}; print(json.dumps([m.split('.')[0] for m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return set(json.loads(done.stdout))


def test_the_closed_forms_load_no_torch():
    modules = [found.name for found in pkgutil.walk_packages(theory.__path__, "fairmargin_papers.theory.")]
    assert len(modules) > 10
    assert loaded_by(*modules) & {"torch", "matplotlib"} == set()


def test_what_help_loads_of_the_papers_is_next_to_nothing():
    assert loaded_by("fairmargin_papers.commands") & {"torch", "numpy", "typer", "rich", "matplotlib"} == set()
