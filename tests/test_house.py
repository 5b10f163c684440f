"""The plan of the house, where import-linter (`make check`) cannot see it: what is loaded, and from where."""

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
# Packages that only read numbers.
READERS = ("core", "presentation", "inference", "analyses", "engine", "store", "study", "report")
EXISTING = [room for room in READERS if (PACKAGE / room).exists() or (PACKAGE / f"{room}.py").exists()]
HEAVY = {"torch", "pandas", "scipy", "sklearn", "pyarrow", "plotly", "pydantic", "typer", "jinja2"}


def modules_of(room):
    name = f"fairmargin.{room}"
    return [name, *(found.name for found in pkgutil.walk_packages([str(PACKAGE / room)], f"{name}."))]


def packages_loaded_by(*modules):
    """The top-level packages in a fresh interpreter that imported these modules and nothing else."""
    program = f"import sys, json, {', '.join(modules)}; print(json.dumps([m.split('.')[0] for m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return set(json.loads(done.stdout))


def names_taken_from_the_root(path):
    """Lines that import from `fairmargin` itself rather than from the module that defines the name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import) and any(alias.name == "fairmargin" for alias in node.names):
            yield f"{path.relative_to(PACKAGE)}:{node.lineno}: import fairmargin"
        if isinstance(node, ast.ImportFrom) and (node.level or node.module == "fairmargin"):
            yield f"{path.relative_to(PACKAGE)}:{node.lineno}: from {'.' * node.level}{node.module or ''} import …"


def test_importing_fairmargin_loads_next_to_nothing():
    assert packages_loaded_by("fairmargin") & HEAVY == set()


def test_no_file_of_the_package_imports_torchvision():
    files = [path for path in PACKAGE.rglob("*.py") if re.search(r"(import|from) torchvision", path.read_text("utf-8"))]
    assert files == []


@pytest.mark.parametrize("room", EXISTING)
def test_a_room_that_only_reads_numbers_loads_no_torch(room):
    assert "torch" not in packages_loaded_by(*modules_of(room))


def test_files_inside_the_package_import_from_the_defining_module():
    inside = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"]
    assert len(inside) > 40
    assert [line for path in inside for line in names_taken_from_the_root(path)] == []


def test_import_linter_keeps_torch_out_of_every_room_that_only_reads_numbers():
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter", encoding="utf-8")
    kept_out = contracts["importlinter:without-torch"]["source_modules"].split()
    assert sorted(kept_out) == sorted(["fairmargin_papers.theory", *(f"fairmargin.{room}" for room in EXISTING)])


def test_every_module_can_be_imported_without_the_papers():
    modules = [found.name for found in pkgutil.walk_packages([str(PACKAGE)], "fairmargin.")]
    blocked = "import sys, importlib; sys.modules['fairmargin_papers'] = None"
    program = f"{blocked}; [importlib.import_module(module) for module in {modules}]"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_every_public_name_is_defined_where_it_is_looked_up():
    assert len(fairmargin.__all__) > 10
    for name in fairmargin.__all__:
        assert getattr(fairmargin, name) is not None
