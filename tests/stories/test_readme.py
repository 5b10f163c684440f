"""The Python examples, commands and links of README.md work as printed."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import joblib
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from fairmargin.models.architectures.catalog import build_architecture
from tests.data.official_layouts import CIFAR_10, cifar10_records, write_cifar
from tests.stories.examples import FEATURES, LABEL, fairmargin, people, write_distances, write_people

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ALLOWED = {"gate": (0, 1)}  # a gate may fail


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    """Return the words of each line of the bash blocks, without comments; a backslash continues a line."""
    text = "\n".join(blocks("bash")).replace("\\\n", " ")
    return [words for line in text.splitlines() if (words := shlex.split(line, comments=True))]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in a folder with the files that the README names."""
    write_people(tmp_path / "people.csv", people().drop(columns="person"))
    table = pd.read_csv(tmp_path / "people.csv")
    joblib.dump(LogisticRegression().fit(table[list(FEATURES)], table[LABEL]), tmp_path / "model.joblib")
    for name in ("distances.csv", "distances.parquet", "table.csv", "table.parquet"):
        write_distances(tmp_path / name)
    write_cifar(tmp_path / "path" / "to" / "data", CIFAR_10, cifar10_records(per_batch=4))
    torch.save(build_architecture("resnet20", (3, 32, 32), 10).state_dict(), tmp_path / "resnet20.th")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_readme_shows_python_and_commands():
    assert blocks("python")
    assert any(words[0] == "fairmargin" for words in commands())


@pytest.mark.parametrize("number", range(max(1, len(blocks("python")))))
def test_the_python_examples_run(folder, number):
    (folder / "readme.py").write_text(blocks("python")[number], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "readme.py"], cwd=folder, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for page in re.findall(r"[\w-]+\.html", blocks("python")[number]):
        assert (folder / page).stat().st_size > 100_000


def test_the_commands_run_one_after_another(folder):
    typed = [words[1:] for words in commands() if words[0] == "fairmargin"]
    assert typed
    for words in typed:
        result = fairmargin(*words)
        assert result.exit_code in ALLOWED.get(words[0], (0,)), (words, result.output, result.exception)


def test_other_commands_are_those_that_this_file_checks():
    assert {words[0] for words in commands()} <= {"fairmargin", "make", "pip", "git", "cd", "python"}


def test_the_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    named = {words[1] for words in commands() if words[0] == "make"}
    assert named <= targets
    assert {"demo", "test"} <= targets
    assert {"demo", "test"} <= named


def test_linked_files_exist():
    prose = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
    linked = re.findall(r"\]\((?!https?://|#)([^)#]+)", prose)
    assert linked
    assert [link for link in linked if not (ROOT / link).exists()] == []
