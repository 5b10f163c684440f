"""Files around the package agree with it and with each other."""

import ast
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fairmargin.version import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
TARGETS = ("help", "demo", "test", "test-slow", "check", "bench", "docs", "constraints", "clean")


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def pins():
    lines = [line for line in read("constraints.txt").splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[^ ;]+", line) for line in lines), "one exact version per line"
    return {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}


@pytest.mark.parametrize("requirement", [*PROJECT["dependencies"], *EXTRAS["dev"], *EXTRAS["docs"]])
def test_constraints_pin_every_dependency_to_a_version_that_the_project_allows(requirement):
    wanted = Requirement(requirement)
    assert wanted.specifier.contains(pins()[canonicalize_name(wanted.name)])


# Distribution of a module, where their names differ.
DISTRIBUTION = {"PIL": "pillow", "sklearn": "scikit-learn"}
# Imported only if the user's own object comes from that library (`FromAttack`), or by a type checker.
UNDECLARED = {"foolbox", "_typeshed", "xgboost", "lightgbm"}


# Imported by name in training/loop/loggers.py.
BY_NAME = {"tensorboard", "mlflow-skinny"}
OF_USERS = {name: extra for name, extra in EXTRAS.items() if name not in ("dev", "docs", "bench")}


def imported_modules():
    """Return third-party modules that the package imports, and whether a file imports them at module level."""
    found = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for module in {name.partition(".")[0] for name in names} - {"fairmargin"} - set(sys.stdlib_module_names):
                found[module] = found.get(module, False) or node in tree.body
    return found


def declared(requirements):
    return {canonicalize_name(Requirement(each).name) for each in requirements}


def distribution(module):
    return canonicalize_name(DISTRIBUTION.get(module, module))


@pytest.mark.parametrize(("module", "when_loaded"), sorted(imported_modules().items()))
def test_every_module_that_the_package_imports_is_declared(module, when_loaded):
    core, optional = declared(PROJECT["dependencies"]), declared(each for extra in OF_USERS.values() for each in extra)
    assert module in UNDECLARED or distribution(module) in (core if when_loaded else core | optional)


@pytest.mark.parametrize("extra", sorted(OF_USERS))
def test_every_extra_contains_only_libraries_that_the_package_imports(extra):
    assert declared(OF_USERS[extra]) <= {distribution(module) for module in imported_modules()} | BY_NAME


def test_torchvision_is_installed_for_tests_only():
    assert "torchvision" not in declared(
        [*PROJECT["dependencies"], *(each for extra in EXTRAS.values() for each in extra)]
    )
    assert "--no-deps torchvision==$(TORCHVISION)" in read("Makefile")


def test_the_oldest_allowed_typer_works_with_the_pinned_click():
    # With click 8.2 and later, `--help` of typer 0.15 ends in a TypeError; the stories pass with typer 0.16.0.
    (typer,) = (each for each in map(Requirement, PROJECT["dependencies"]) if each.name == "typer")
    assert not list(typer.specifier.filter(["0.15.0", "0.15.1", "0.15.2", "0.15.3", "0.15.4"]))
    assert typer.specifier.contains("0.16.0")


def test_constraints_do_not_determine_the_build_of_torch():
    assert re.fullmatch(r"[0-9.]+", pins()["torch"])
    assert not [name for name in pins() if name.startswith(("nvidia", "cuda", "triton", "fairmargin"))]


def test_the_makefile_and_the_constraints_name_the_same_version_of_torch():
    assert f"TORCH := {pins()['torch']}\n" in read("Makefile")


@pytest.mark.parametrize("target", TARGETS)
def test_the_makefile_has_the_target_and_help_explains_it(target):
    assert re.search(rf"^{target}:.*## \S", read("Makefile"), re.MULTILINE)


def test_github_runs_the_tests_on_every_supported_python_version():
    named = [each.rsplit(" ", 1)[1] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert re.search(r"python: \[(.*)\]", read(".github/workflows/tests.yml"))[1] == ", ".join(f'"{v}"' for v in named)
    assert "run: make check" in read(".github/workflows/tests.yml")


def test_the_ci_script_is_executable():
    assert os.access(ROOT / ".ci/run", os.X_OK)
    assert read(".ci/run").startswith("#!/usr/bin/env bash\n")


def test_the_citation_has_this_version_and_licence():
    assert re.search(r"^version: (.+)$", read("CITATION.cff"), re.MULTILINE)[1] == __version__
    assert re.search(r"^license: (.+)$", read("CITATION.cff"), re.MULTILINE)[1] == PROJECT["license"]


def test_the_changelog_has_this_version():
    assert re.search(rf"^## \[{re.escape(__version__)}\]", read("CHANGELOG.md"), re.MULTILINE)


def test_the_licence_is_apache_2():
    assert PROJECT["license"] == "Apache-2.0"
    assert "Apache License" in read("LICENSE")
    assert "Version 2.0, January 2004" in read("LICENSE")


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_the_readme_names_the_two_commands(command):
    assert command in read("README.md")
