"""Tables of distances that were measured elsewhere. What is refused is in `tests/spec/refusals/data.py`."""

from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairmargin.core.bound import Bound
from fairmargin.core.norm import Norm
from fairmargin.data.distance_table import load_distances

SUFFIXES = ("csv", "tsv", "parquet", "npz")


def written(folder: Path, text: str) -> Path:
    (folder / "measured.csv").write_text(text)
    return folder / "measured.csv"


def saved(path: Path, frame: pd.DataFrame) -> Path:
    """Write a data frame in the format of the path's ending."""
    if path.suffix == ".npz":
        np.savez(path, **{name: np.array(frame[name].tolist()) for name in frame})  # type: ignore[arg-type]
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="," if path.suffix == ".csv" else "\t")
    return path


def test_a_table_of_distances_is_read_with_its_attributes(tmp_path: Path) -> None:
    path = written(tmp_path, "distance,correct,tried,sex,age\n0.1,True,,F,30\n0,False,,M,40\ninf,True,8,F,50\n")
    table = load_distances(path, bound="exact", norm="linf", subject="smoothed(0.25)")
    assert table.distances.values.tolist() == [0.1, 0.0, np.inf]
    assert table.distances.correct.tolist() == [True, False, True]
    assert table.distances.tried is not None
    assert table.distances.tried[2] == 8
    assert (table.distances.bound, table.distances.norm) == (Bound.EXACT, Norm.LINF)
    assert table.distances.subject == "smoothed(0.25)"
    assert list(table.attributes) == ["sex", "age"]
    assert table.partition("sex").sizes.tolist() == [2, 1]
    assert (table.name, table.notes, len(table)) == ("measured.csv", (), 3)
    assert table.fingerprint == sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_all_formats_give_the_same_distances_and_read_ids_as_text(tmp_path: Path, suffix: str) -> None:
    ids = ["007", "7", "7.0", "NA", "null", "a b", "1e3", "True"]
    values = [0.5, 0.0, np.inf, *np.arange(1.0, 6)]
    frame = pd.DataFrame({"r": values, "is_correct": [1, 0, *[1] * 6], "id": ids, "sex": list("FMFMFMFM")})
    table = load_distances(saved(tmp_path / f"a.{suffix}", frame), id="id")
    assert table.distances.values.tolist() == values
    assert table.distances.correct.tolist() == [True, False, *[True] * 6]
    assert table.attributes["sex"].tolist() == list("FMFMFMFM")
    assert list(table.attributes) == ["sex"]
    assert table.ids is not None
    assert table.ids.tolist() == ids
    assert load_distances(tmp_path / f"a.{suffix}").ids is None


@pytest.mark.parametrize("name", ["distance", "value", "values", "r"])
def test_usual_names_of_the_distance_are_found(tmp_path: Path, name: str) -> None:
    assert load_distances(written(tmp_path, f"{name},correct\n0.5,1\n")).distances.values.tolist() == [0.5]


def test_other_names_can_be_given(tmp_path: Path) -> None:
    table = load_distances(written(tmp_path, "eps,ok,distance\n0.5,yes,9\n0,no,9\n"), value="eps", correct="ok")
    assert table.distances.correct.tolist() == [True, False]
    assert list(table.attributes) == ["distance"]


def test_assumptions_are_noted(tmp_path: Path) -> None:
    table = load_distances(written(tmp_path, "distance\n0.5\n0\n"))
    assert (table.distances.bound, table.distances.norm) == (Bound.UPPER, Norm.L2)
    assert table.distances.correct.tolist() == [True, False]
    bound, norm, correct = table.notes
    assert "upper bounds" in bound
    assert "L2" in norm
    assert "above 0" in correct


@pytest.mark.parametrize(
    "text",
    ["distance,label,prediction\n0.5,cat,cat\n0,cat,dog\n", "distance,y,prediction\n0.5,1,1.0\n0,1,0.0\n"],
    ids=["words", "numbers"],
)
def test_a_sample_is_correct_if_its_label_equals_the_prediction(tmp_path: Path, text: str) -> None:
    table = load_distances(written(tmp_path, text), bound="upper", norm="l2")
    assert table.distances.correct.tolist() == [True, False]
    assert "equals 'prediction'" in table.notes[0]
