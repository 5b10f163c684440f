"""Data, models and helper functions of the stories: a table of people, images, distances, and models of them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner, Result

from fairmargin.cli.app import app
from fairmargin.data.formats.files import load_file
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.loading import save_linear

FEATURES = ("age", "income", "score")
LABEL = "hired"
QUICK = ("--resamples", "200")  # the smallest number allowed: the stories do not depend on the width of intervals


def fairmargin(*arguments: object) -> Result:
    """Call the command line in this process; the result has `exit_code`, `stdout` and `stderr`."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def succeeded(result: Result) -> Result:
    """Check that a command succeeded, and return its result."""
    assert result.exit_code == 0, (result.output, result.exception)
    assert "Traceback" not in result.output
    return result


def refused(result: Result) -> str:
    """Check that a command was refused with one sentence and no traceback, and return the sentence."""
    unexpected = None if isinstance(result.exception, SystemExit) else result.exception
    assert unexpected is None, f"a traceback instead of a sentence: {unexpected!r}"
    assert result.exit_code == 2, (result.exit_code, result.output)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    lines = [line for line in result.stderr.splitlines() if line]
    assert len(lines) == 1, lines
    assert lines[0].startswith("Error: ")
    assert lines[0].endswith((".", "?"))
    return lines[0].removeprefix("Error: ")


def json_of(result: Result) -> Any:
    """Check that standard output is one JSON document, and return its content."""
    return json.loads(succeeded(result).stdout, parse_constant=_not_json)


def _not_json(word: str) -> None:
    raise AssertionError(f"{word} is not valid JSON")


def record_of(run: Path) -> Any:
    """Return the content of record.json of a run."""
    return json.loads((run / "record.json").read_text(encoding="utf-8"))


def result_files(run: Path, kind: str = "audit") -> list[Path]:
    """Return the files with the results of a kind, in the order of the record."""
    return [run / "results" / f"{each['key']}.json" for each in record_of(run)["results"] if each["kind"] == kind]


def results_of(run: Path, kind: str = "audit") -> list[Any]:
    """Return the stored results of a kind, in the order of the record."""
    return [json.loads(path.read_text(encoding="utf-8"))["content"] for path in result_files(run, kind)]


def contents_of(run: Path, kind: str = "audit") -> list[bytes]:
    """Return the bytes of the files with the results of a kind."""
    return [path.read_bytes() for path in result_files(run, kind)]


def people(count: int = 360, seed: int = 0) -> pd.DataFrame:
    """Return a table with two rows per person. Features of group F vary less, so that F lies nearer to any boundary."""
    rng = np.random.default_rng(seed)
    person = np.arange(count) // 2
    sex = rng.choice(["F", "M"], count // 2 + 1)[person]
    race = rng.choice(["Black", "Other", "White"], count // 2 + 1, p=[0.3, 0.1, 0.6])[person]
    x = rng.normal(size=(count, 3)) * np.where(sex == "F", 0.6, 1.2)[:, None]
    hired = x @ [1.0, 0.7, -0.4] + 0.4 * rng.normal(size=count) > 0
    columns = dict(zip(FEATURES, x.T, strict=True))
    return pd.DataFrame({**columns, LABEL: np.where(hired, "yes", "no"), "sex": sex, "race": race, "person": person})


def write_people(path: Path, table: pd.DataFrame | None = None) -> Path:
    """Write the people as CSV."""
    (people() if table is None else table).to_csv(path, index=False)
    return path


def fitted(path: Path, strength: float = 1.0) -> LogisticRegression:
    """Return a logistic regression of the people in a file."""
    dataset = load_file(path, label=LABEL, features=FEATURES)
    return LogisticRegression(C=strength).fit(dataset.x, dataset.y)


def write_model(path: Path, table: Path, strength: float = 1.0) -> Path:
    """Write a logistic regression of the people in a file as .npz."""
    dataset = load_file(table, label=LABEL, features=FEATURES)
    save_linear(as_classifier(fitted(table, strength), domain=dataset.domain), path)
    return path


def people_audit(folder: Path, *more: object, model: str = "model.npz", data: str = "people.csv") -> list[object]:
    """Return the arguments of an audit of the people in `folder`."""
    source = ["--model", folder / model, "--data", folder / data, "--label", LABEL, "--features", ",".join(FEATURES)]
    return ["audit", *source, *QUICK, *more]


def write_images(folder: Path, count: int = 600, side: int = 4, classes: int = 4) -> tuple[Path, Path]:
    """Write images in [0, 1] and a linear model that classifies most of them correctly; return both paths."""
    rng = np.random.default_rng(1)
    x = rng.random((count, side, side), dtype=np.float32)
    weight = rng.normal(size=(classes, side * side))
    bias = -0.5 * weight.sum(axis=1)  # a grey image has equal scores, so that all classes occur
    y = (x.reshape(count, -1) @ weight.T + bias + 0.2 * rng.normal(size=(count, classes))).argmax(axis=1)
    np.savez(folder / "images.npz", x=x, y=y, camera=rng.choice(["left", "right"], count))
    np.savez(folder / "reader.npz", weight=weight, bias=bias)
    return folder / "images.npz", folder / "reader.npz"


def distances(count: int = 300) -> pd.DataFrame:
    """Return distances measured elsewhere, of which a tenth belongs to misclassified samples."""
    rng = np.random.default_rng(2)
    sex, correct = rng.choice(["F", "M"], count), rng.random(count) > 0.1
    value = rng.gamma(2, np.where(sex == "F", 0.5, 1.0)) * correct
    return pd.DataFrame({"distance": value, "correct": correct, "sex": sex, "site": rng.integers(1, 4, count)})


def write_distances(path: Path, table: pd.DataFrame | None = None) -> Path:
    """Write distances as CSV or Parquet, according to the suffix."""
    frame = distances() if table is None else table
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    return path


def write_linear_people(folder: Path, count: int = 900) -> Path:
    """Write a linear model and people with two groups, of which group F lies half as far from the boundary."""
    rng = np.random.default_rng(0)
    x, sex = rng.normal(size=(count, 3)), np.where(rng.random(count) < 0.3, "F", "M")
    x[sex == "F"] *= 0.5
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(hired=(x @ [1, 2, -1] > 0).astype(int), sex=sex)
    frame.to_csv(folder / "people.csv", index=False)
    np.savez(folder / "model.npz", weight=np.array([[0.0, 0, 0], [1, 2, -1]]), bias=np.zeros(2))
    return folder


def linear_audit(folder: Path, out: Path, *more: object) -> Result:
    """Audit the people that `write_linear_people` wrote, by sex."""
    source = ("--model", folder / "model.npz", "--data", folder / "people.csv", "--label", "hired")
    return fairmargin("audit", *source, "--features", "a,b,c", "--group", "sex", "--out", out, *more)
