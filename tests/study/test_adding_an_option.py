"""An option is declared once: the command line, study files, Python, records and errors follow from its field."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "fairmargin"
BEFORE = '    precision: Number = 0.0\n    """Measure no more samples'
DECLARATION = """    patience_in_steps: Whole = 7
    \"\"\"Number of steps without progress after which a search ends.\"\"\"
"""
SCRIPT = """
import json
from fairmargin.errors import InputError
from fairmargin.study.options import AuditOptions
from fairmargin.study.study import Study
from fairmargin.study.study_file import make_study

sections = {"data": {"digits": {}}, "model": {"logistic": {}}, "audit": {"exact_linear": {"patience_in_steps": 3}}}
(member,) = make_study(sections).members
try:
    AuditOptions(patience_in_steps="many")
except InputError as error:
    refused = [error.field, str(error)]
again = Study(**make_study(sections).plain())
print(json.dumps({
    "python": AuditOptions(patience_in_steps=3).patience_in_steps,
    "file": member.measurements[0].options.patience_in_steps,
    "record": again.grid.audit["exact_linear"].patience_in_steps,
    "refused": refused,
}))
"""


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the package with one more field of `AuditOptions`."""
    root = tmp_path_factory.mktemp("changed")
    shutil.copytree(PACKAGE, root / "fairmargin", ignore=shutil.ignore_patterns("__pycache__"))
    options = root / "fairmargin" / "study" / "options.py"
    text = options.read_text(encoding="utf-8")
    assert text.count(BEFORE) == 1
    options.write_text(text.replace(BEFORE, DECLARATION + BEFORE), encoding="utf-8")
    return root


def answer(root: Path, script: str, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(root), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_field_is_an_argument_a_key_of_study_files_and_part_of_the_record(changed: Path) -> None:
    found = json.loads(answer(changed, SCRIPT))
    assert (found["python"], found["file"], found["record"]) == (3, 3, 3)
    assert found["refused"] == ["patience_in_steps", "`patience_in_steps` must be a whole number; given 'many'."]


def test_a_field_is_an_option_of_every_command_that_audits_with_its_docstring_as_help(changed: Path) -> None:
    for command in ("audit", "train"):
        shown = answer(changed, "from fairmargin.cli import main; main()", command, "--help")
        assert "--patience-in-steps" in shown
        assert "Number of steps without progress" in shown
