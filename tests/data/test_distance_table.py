from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairmargin.core.bound import Bound
from fairmargin.core.norm import Norm
from fairmargin.data.distance_table import load_distances
from fairmargin.errors import InputError


def written(folder: Path, text: str) -> Path:
    (folder / "measured.csv").write_text(text)
    return folder / "measured.csv"


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


def test_every_kind_of_file_reads_alike(tmp_path: Path) -> None:
    frame = pd.DataFrame({"r": [0.5, 0.0, np.inf], "is_correct": [1, 0, 1], "sex": ["F", "M", "F"]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "a.tsv", index=False, sep="\t")
    frame.to_parquet(tmp_path / "a.parquet")
    np.savez(tmp_path / "a.npz", **{name: np.array(frame[name].tolist()) for name in frame})  # type: ignore[arg-type]
    for suffix in ("csv", "tsv", "parquet", "npz"):
        table = load_distances(tmp_path / f"a.{suffix}")
        assert table.distances.values.tolist() == [0.5, 0.0, np.inf]
        assert table.distances.correct.tolist() == [True, False, True]
        assert table.attributes["sex"].tolist() == ["F", "M", "F"]


@pytest.mark.parametrize("name", ["distance", "value", "values", "r"])
def test_usual_names_of_the_distance_are_found(tmp_path: Path, name: str) -> None:
    table = load_distances(written(tmp_path, f"{name},correct\n0.5,1\n"))
    assert table.distances.values.tolist() == [0.5]


def test_unusual_names_can_be_given(tmp_path: Path) -> None:
    path = written(tmp_path, "eps,ok,distance\n0.5,yes,9\n0,no,9\n")
    table = load_distances(path, value="eps", correct="ok")
    assert table.distances.correct.tolist() == [True, False]
    assert list(table.attributes) == ["distance"]


def test_what_was_assumed_is_noted(tmp_path: Path) -> None:
    table = load_distances(written(tmp_path, "distance\n0.5\n0\n"))
    assert (table.distances.bound, table.distances.norm) == (Bound.UPPER, Norm.L2)
    assert table.distances.correct.tolist() == [True, False]
    assert len(table.notes) == 3
    assert "upper bounds" in table.notes[0]
    assert "L2" in table.notes[1]
    assert "above 0" in table.notes[2]


@pytest.mark.parametrize(
    "text",
    ["distance,label,prediction\n0.5,cat,cat\n0,cat,dog\n", "distance,y,prediction\n0.5,1,1.0\n0,1,0.0\n"],
    ids=["words", "numbers"],
)
def test_correct_is_where_the_label_equals_the_prediction(tmp_path: Path, text: str) -> None:
    table = load_distances(written(tmp_path, text), bound="upper", norm="l2")
    assert table.distances.correct.tolist() == [True, False]
    assert "equals 'prediction'" in table.notes[0]


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("distance,correct\n0.5,1\n0.5,0\n", {}, r"measured\.csv: 1 misclassified samples have a distance above 0"),
        ("distance,y,prediction\n0.5,1,0\n", {}, "misclassified samples have a distance above 0"),
        ("distance,correct\n0.5,1\n,1\n", {}, r"no number in 1 of 2 rows, first in data row 2\. Write inf where"),
        ("distance,correct\n0.5,1\n>10,1\n", {}, r"'distance' holds '>10' in data row 2; .* Write inf"),
        ("distance,correct\n-0.5,1\n", {}, "negative distances"),
        ("distance,correct\n0.5,maybe\n", {}, r"true and false .* data row 1 holds 'maybe'"),
        ("distance,correct\n0.5,\n0.5,1\n", {}, "true and false"),
        ("distance,correct,tried\n0.5,1,far\n", {}, "'tried' must hold numbers"),
        ("distance,y,prediction\n0.5,1,cat\n", {}, "cannot be compared"),
        ("distanze,correct\n0.5,1\n", {}, r"no column of distances: tried distance, .* There are: distanze, correct"),
        ("distance,correct\n0.5,1\n", {"value": "distanc"}, r"no column 'distanc'\. Did you mean 'distance'\?"),
        ("distance,correct\n0.5,1\n", {"bound": "uper"}, r"Unknown bound 'uper'\. Did you mean 'upper'\?"),
        ("distance,correct\n0.5,1\n", {"norm": "l3"}, "Unknown norm 'l3'"),
    ],
)
def test_a_table_that_cannot_be_used_is_explained(
    tmp_path: Path, text: str, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        load_distances(written(tmp_path, text), **options)  # type: ignore[arg-type]


def test_arrays_of_different_lengths_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", distance=np.zeros(3), correct=np.zeros(2))
    with pytest.raises(InputError, match=r"all of one length; given distance \(3,\), correct \(2,\)"):
        load_distances(tmp_path / "a.npz")


def test_an_unknown_attribute_is_answered_with_the_nearest(tmp_path: Path) -> None:
    table = load_distances(written(tmp_path, "distance,sex\n0.5,F\n"))
    with pytest.raises(InputError, match=r"no attribute 'sexx'\. Did you mean 'sex'\?"):
        table.partition("sexx")


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "npz"])
def test_ids_are_read_as_texts(tmp_path: Path, suffix: str) -> None:
    ids = ["007", "7", "7.0", "NA", "null", "a b", "1e3", "True"]
    frame = pd.DataFrame({"distance": np.arange(8.0), "id": ids, "sex": ["F", "M"] * 4})
    path = tmp_path / f"a.{suffix}"
    if suffix == "npz":
        np.savez(path, **{name: np.array(frame[name].tolist()) for name in frame})  # type: ignore[arg-type]
    elif suffix == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="," if suffix == "csv" else "\t")
    table = load_distances(path, id="id")
    assert table.ids is not None
    assert table.ids.tolist() == ids
    assert list(table.attributes) == ["sex"]
    assert load_distances(path).ids is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("distance, photo \n0.5, a\n0.1,a \n", "holds 1 ids more than once, such as 'a' in data rows 1 and 2"),
        ("distance,photo\n0.5,a\n0.1,\n", "has no id in 1 of 2 rows, first in data row 2"),
        ("distance,photos\n0.5,a\n", "no column 'photo'. Did you mean 'photos'"),
        ("distance,photo\n", "no rows"),
    ],
)
def test_ids_that_cannot_be_used_are_explained(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_distances(written(tmp_path, text), id="photo")


def test_a_column_of_distances_is_no_column_of_ids(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be both the id and a distance"):
        load_distances(written(tmp_path, "distance,correct\n0.5,1\n"), id="distance")
