"""What is compiled for the first time is announced, once, and not if machine code is on disk."""

import importlib.util

import numpy as np
import pytest
from rich.console import Console

import fairmargin as fm
from fairmargin.cli.progress import lines_in_a_log
from fairmargin.core.progress import SAID
from fairmargin.distances import first_use
from fairmargin.distances.first_use import COMPILING, is_compiled
from tests.stories.examples import fairmargin, succeeded
from tests.stories.raw_table import table_audit, write_table


def loaded(path):
    """A function that numba compiles, as a new process finds it."""
    spec = importlib.util.spec_from_file_location("compiled_example", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.twice


def test_a_function_is_compiled_in_this_process_or_on_disk_for_its_present_source(tmp_path):
    path = tmp_path / "compiled_example.py"
    source = "from numba import njit\n\n\n@njit(cache=True)\ndef twice(x):\n    return 2 * x\n"
    path.write_text(source, encoding="utf-8")
    function = loaded(path)
    assert not is_compiled(function)
    assert function(2.0) == 4.0
    assert is_compiled(function)
    assert is_compiled(loaded(path))
    path.write_text(source + "\n# changed\n", encoding="utf-8")
    assert not is_compiled(loaded(path))


def test_a_function_that_numba_does_not_compile_needs_no_sentence():
    assert is_compiled(len)


@pytest.fixture
def never_compiled(monkeypatch):
    monkeypatch.setattr(first_use, "is_compiled", lambda function: False)


@pytest.mark.parametrize("model", ["linear.joblib", "forest.joblib"])
def test_a_command_says_once_that_it_compiles_and_a_quiet_one_says_nothing(tmp_path, never_compiled, model):
    write_table(tmp_path)
    audit = table_audit(tmp_path, "--out", tmp_path / "run", model=model)
    assert " ".join(succeeded(fairmargin(*audit)).stderr.split()).count(COMPILING) == 1
    assert COMPILING not in " ".join(fairmargin(*audit).stderr.split())  # everything is measured already
    quiet = table_audit(tmp_path, "--out", tmp_path / "quiet", "--quiet", model=model)
    assert "Compiling" not in fairmargin(*quiet).output


@pytest.mark.parametrize(("progress", "count"), [(True, 1), (False, 0), (None, 0)])
def test_measure_says_it_where_it_shows_progress(never_compiled, capsys, progress, count):
    from sklearn.tree import DecisionTreeClassifier

    x, y = np.arange(20.0)[:, None], np.arange(20) > 9
    model = DecisionTreeClassifier().fit(x, y)
    fm.measure(model, x, y, fm.ESTIMATORS["exact_tree"](norm="l1"), progress=progress)
    assert " ".join(capsys.readouterr().err.split()).count(COMPILING) == count


def test_estimators_that_are_not_compiled_say_nothing(never_compiled):
    assert first_use.first_use(fm.ESTIMATORS["plumb"](norm="l2"), object()) == ""
    assert first_use.first_use(fm.ESTIMATORS["exact_linear"](norm="l2"), fm.as_classifier(([1.0], 0.0))) == ""


def test_a_sentence_is_printed_at_once_in_a_log(monkeypatch, capsys):
    monkeypatch.setattr("fairmargin.cli.progress.errors", Console(stderr=True))
    lines_in_a_log(clock=lambda: 0.0)("a sentence", 0, SAID)
    assert capsys.readouterr().err == "a sentence\n"
