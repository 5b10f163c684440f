"""An analysis is one file, one line of the catalog and one call: console, page, JSON and gate follow."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairmargin
from tests.report.test_page import Page

FILE = '''
"""The median distance of every group."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairmargin.analyses.cells import table_of
from fairmargin.analyses.table import GroupTable
from fairmargin.core.codec import Format
from fairmargin.presentation.section import Cell, Column, Section


@dataclass(frozen=True, slots=True)
class GroupMedian:
    """The median distance of a group."""

    group: str
    median: float


@dataclass(frozen=True, slots=True)
class Medians(GroupTable[GroupMedian]):
    """The median distance of every group."""

    FORMAT: ClassVar[Format] = Format(1, "medians", "Run it again")

    partition: str
    groups: tuple[GroupMedian, ...]

    @property
    def title(self) -> str:
        return f"{self.partition}: medians"

    def finding(self, row: GroupMedian) -> str:
        return f"{row.group}: half of its samples lie within {row.median:.3f}."

    def records(self) -> list[dict[str, Any]]:
        return [{"partition": self.partition, "group": row.group, "median": row.median} for row in self]

    def section(self) -> Section:
        medians = [Cell(f"{row.median:.3f}") for row in self]
        table = table_of(self.groups, [(Column("median"), medians)], label="Medians")
        return Section(f"Medians by {self.partition}", findings=tuple(map(self.finding, self)), tables=(table,))


def medians(distances, partition) -> Medians:
    rows = (GroupMedian(name, float(np.median(distances.values[mask]))) for name, mask in partition)
    return Medians(partition.name, tuple(rows))
'''
CATALOG_LINE = '        "medians": "medians:Medians",\n'
IMPORT_AND_CALL = """
    from fairmargin.analyses.medians import medians

    for name, found in measured.items():
        for i, p in enumerate(case.partitions):
            stored = _stored("medians", case.about, p, name, how).model_copy(update={"key": f"medians{i}"})
            yield stored, medians(found.distances, p)
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """Make a copy of the package with one more analysis, and return a function that runs its command line."""
    folder = tmp_path_factory.mktemp("extended")
    package = folder / "fairmargin"
    shutil.copytree(Path(fairmargin.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "analyses" / "medians.py").write_text(FILE.lstrip(), encoding="utf-8")
    insert(package / "analyses" / "catalog.py", after='        "audit": "audit:AuditResult",\n', text=CATALOG_LINE)
    insert(package / "runner" / "audit.py", after="    yield from audits\n", text=IMPORT_AND_CALL)
    values = np.random.default_rng(0).gamma(4, 1.0, 80)
    table = pd.DataFrame({"distance": values, "correct": True, "sex": ["F", "M"] * 40})
    table.to_csv(folder / "distances.csv", index=False)

    def run(*arguments):
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        command = [sys.executable, "-c", "from fairmargin.cli import main; main()", *map(str, arguments)]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    source = ("--distances", "distances.csv", "--bound", "exact", "--norm", "l2", "--group", "sex")
    done = run("audit", *source, "--resamples", "200", "--out", "run")
    assert done.returncode == 0, done.stderr
    return folder, run, done, table.groupby("sex")["distance"].median()


def insert(path, *, after, text):
    """Insert a text into a file at the one place that there is."""
    content = path.read_text(encoding="utf-8")
    assert content.count(after) == 1
    path.write_text(content.replace(after, after + text), encoding="utf-8")


def test_the_console_prints_it(extended):
    _, _, done, medians = extended
    assert "Medians by sex" in done.stdout
    assert f"{medians['F']:.3f}" in done.stdout


def test_the_page_shows_it(extended):
    folder, _, _, medians = extended
    page = Page((folder / "run" / "report.html").read_text(encoding="utf-8"))
    assert "Medians by sex" in page.text
    assert f"F: half of its samples lie within {medians['F']:.3f}." in page.text


def test_json_holds_it(extended):
    _, run, _, medians = extended
    (found,) = json.loads(run("report", "run", "--json").stdout)["medians"]
    assert {row["group"]: row["median"] for row in found["groups"]} == pytest.approx(dict(medians))


def test_a_gate_still_judges_the_audit_and_notices_a_change_of_the_new_result(extended):
    folder, run, _, _ = extended
    assert run("gate", "run", "--if", "size > 0").returncode == 1
    path = folder / "run" / "results" / "medians0.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"F"', '"X"'), encoding="utf-8")
    assert run("gate", "run", "--if", "size > 0").returncode == 2
