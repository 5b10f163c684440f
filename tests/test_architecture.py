"""Rules of the package structure that import-linter (`make check`) cannot check: what an import loads."""

import ast
import configparser
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fairmargin

PACKAGE = Path(fairmargin.__file__).parent
ROOT = Path(__file__).parents[1]
WITHOUT_TORCH = ("core", "presentation", "inference", "analyses", "engine", "store", "study", "report")
HEAVY = {"torch", "pandas", "scipy", "sklearn", "pyarrow", "plotly", "pydantic", "typer", "jinja2"}


def modules_of(package):
    name = f"fairmargin.{package}"
    return [name, *(found.name for found in pkgutil.walk_packages([str(PACKAGE / package)], f"{name}."))]


def packages_loaded_by(*modules):
    """Return the top-level packages that are loaded in a fresh interpreter after importing these modules."""
    program = f"import sys, json, {', '.join(modules)}; print(json.dumps([m.split('.')[0] for m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return set(json.loads(done.stdout))


def imports_from_the_root(path):
    """Yield the lines that import from `fairmargin` itself instead of the module that defines the name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import) and any(alias.name == "fairmargin" for alias in node.names):
            yield f"{path.relative_to(PACKAGE)}:{node.lineno}: import fairmargin"
        if isinstance(node, ast.ImportFrom) and (node.level or node.module == "fairmargin"):
            yield f"{path.relative_to(PACKAGE)}:{node.lineno}: from {'.' * node.level}{node.module or ''} import …"


def test_importing_fairmargin_loads_no_heavy_package():
    assert packages_loaded_by("fairmargin") & HEAVY == set()


def test_no_file_of_the_package_imports_torchvision():
    files = [path for path in PACKAGE.rglob("*.py") if re.search(r"(import|from) torchvision", path.read_text("utf-8"))]
    assert files == []


@pytest.mark.parametrize("package", WITHOUT_TORCH)
def test_a_package_that_only_reads_numbers_does_not_load_torch(package):
    assert "torch" not in packages_loaded_by(*modules_of(package))


def test_files_inside_the_package_import_from_the_defining_module():
    inside = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"]
    assert len(inside) > 40
    assert [line for path in inside for line in imports_from_the_root(path)] == []


def test_import_linter_checks_every_package_that_must_not_load_torch():
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter", encoding="utf-8")
    checked = contracts["importlinter:without-torch"]["source_modules"].split()
    assert sorted(checked) == sorted(["fairmargin_papers.theory", *(f"fairmargin.{each}" for each in WITHOUT_TORCH)])


def test_every_module_can_be_imported_without_the_papers():
    modules = [found.name for found in pkgutil.walk_packages([str(PACKAGE)], "fairmargin.")]
    blocked = "import sys, importlib; sys.modules['fairmargin_papers'] = None"
    program = f"{blocked}; [importlib.import_module(module) for module in {modules}]"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_every_public_name_can_be_imported():
    assert len(fairmargin.__all__) > 10
    for name in fairmargin.__all__:
        assert getattr(fairmargin, name) is not None
