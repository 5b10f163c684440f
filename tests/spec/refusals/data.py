"""What `fairmargin.data` refuses, apart from the files of the datasets in the catalog: see `datasets`."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from fairmargin.core.domain import Domain
from fairmargin.data.card import Card, OfficialFile
from fairmargin.data.catalog import load
from fairmargin.data.dataset import Dataset
from fairmargin.data.distance_table import load_distances
from fairmargin.data.fetch.download import download
from fairmargin.data.formats.files import load_file
from fairmargin.data.formats.image_folder import load_images
from fairmargin.data.formats.torch_dataset import from_torch
from fairmargin.data.overlap import overlap
from fairmargin.data.sets.synthetic import gaussian_classes, gaussian_pair, round_cross, three_classes
from tests.data.files import noise, picture, write
from tests.spec.refusals import Refusal

Call = Callable[[Path], object]

# Samples, labels and attributes in memory

X, Y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 2, 2])


def people(**others: Any) -> Dataset:
    return Dataset(X, Y, {"sex": list("FMFFFM")}, Domain(0, 20), name="people", **others)


DATASETS = [
    Refusal(lambda _: Dataset(np.zeros((100, 1)), np.zeros(90)), "`y` has 90 labels but `x` has 100 samples"),
    Refusal(lambda _: Dataset(X, Y, {"sex": ["F"]}), "Attribute 'sex' has 1 values but `x` has 6 samples"),
    Refusal(lambda _: Dataset(X, Y, {"sex": X}), "`sex` must have one value per sample; its shape is (6, 2)"),
    Refusal(lambda _: Dataset(X[:, 0], Y), "one row per sample; its shape is (6,)"),
    Refusal(lambda _: Dataset(X[:0], Y[:0]), "`x` is empty"),
    Refusal(lambda _: Dataset(X.astype(str), Y), "`x` must hold numbers"),
    Refusal(lambda _: Dataset(np.where(X == 5, np.nan, X), Y), "NaN or infinity, first in the sample at index 2"),
    Refusal(lambda _: Dataset(X, [0, 1, None, 1, 0, None]), "lacks the label of 2 of 6 samples (first at index 2)"),
    Refusal(lambda _: Dataset(X, [0, 1, np.nan, 1, 0, 1]), "lacks the label of 1 of 6"),
    Refusal(lambda _: Dataset(X, Y, domain=Domain(scale=[1.0] * 3)), "has 3 entries but a sample has 2 features"),
    Refusal(lambda _: Dataset(X, Y, feature_names=("a",)), "has 1 names but `x` has 2 features"),
    Refusal(lambda _: people(class_names=("a", "b")), "has 2 names, so that `y` must hold integers from 0 to 1"),
    Refusal(lambda _: people().partition("Sexx"), "no attribute 'Sexx'. Did you mean 'sex'?; There are: sex, class."),
    Refusal(lambda _: people().take([6]), "no sample at index 6: the data have 6"),
    Refusal(lambda _: people().take([True]), "one entry for each of"),
    Refusal(lambda _: people().take([0.5]), "by a mask or by a list"),
    Refusal(lambda _: people().sample(by="sxe"), "Did you mean 'sex'"),
    *(
        Refusal(lambda _, wrong=wrong: people().sample(per_group=wrong), f"1 or more; given {wrong!r}")  # type: ignore[misc]
        for wrong in (0, -1, 2.5, True, "10")
    ),
    Refusal(
        lambda _: overlap(people(), Dataset(np.zeros((2, 3)), [0, 1])),
        "people has 2 numbers, but a sample of the training data has 3,; Load both",
    ),
]

# Tables, arrays and distances in files

CSV = "age,job,sex,member,site,hired\n31,nurse,F,True,1,yes\n54,cook,M,False,1,no\n40,,F,True,1,yes\n"
DATES = pd.DataFrame({"born": pd.to_datetime(["2001-01-01", "2002-01-01"]), "y": [0, 1]})
NAMES = "name,y\n" + "".join(f"person {i},0\n" for i in range(101))
ALMOST_NUMBERS = "age,y\n" + "".join(f"{'n/a?' if i == 3 else i},0\n" for i in range(101))


def read(loader: Callable[..., object], name: str, content: Any, **options: Any) -> Call:
    """Return a call that writes a file and loads it."""

    def call(folder: Path) -> object:
        if isinstance(content, dict):
            np.savez(folder / name, **content)
        elif isinstance(content, pd.DataFrame):
            content.to_parquet(folder / name)
        else:
            write(folder, {name: content})
        return loader(folder / name, **options)

    return call


def table(content: Any, name: str = "a.csv") -> Call:
    return read(load_file, name, content, label="y")


arrays = partial(read, load_file, "data.npz")
staff = partial(read, load_file, "people.csv", CSV, label="hired")
distances = partial(read, load_distances, "measured.csv")
zeros = np.zeros((2, 2))

FILES = [
    Refusal(read(load_file, "people.csv", CSV), "people.csv is the label?; There are: age, job, sex"),
    Refusal(read(load_file, "people.csv", CSV, label="hird"), "no column 'hird' (label). Did you mean 'hired'?"),
    Refusal(staff(attributes=["Sex"]), "no column 'Sex' (attribute). Did you mean 'sex'?"),
    Refusal(staff(features=["aeg"]), "no column 'aeg' (feature). Did you mean 'age'?"),
    Refusal(staff(features=["hired"]), "is the label and cannot also be a feature"),
    Refusal(staff(features=[]), "no column for features"),
    Refusal(staff(attributes="sex"), "lists of column names"),
    Refusal(staff(scale="iqr"), "must be 'std' or 'none'; given 'iqr'"),
    Refusal(staff(bounds=(0, 50)), "1 of 3 samples are outside `bounds`, first the one at index 1"),
    Refusal(staff(bounds=([0, 0], 99)), "low end of `bounds` has 2 numbers but a sample has 8 features"),
    Refusal(table(""), "is empty"),
    Refusal(table("a,y\n"), "a header but no rows"),
    Refusal(table("a,y\n1,0\n,1\n,1\n"), "Column 'a' has no number in 2 of 3 rows. Drop these rows, fill them in"),
    Refusal(table("a,y\n1,0\ninf,1\n"), "Column 'a' holds infinity, first in row 2"),
    Refusal(table("a,y\n1,0\n1,\n"), "label 'y' is missing in 1 of 2 rows"),
    Refusal(table("a;y\n1;0\n"), "separator seems to be another character"),
    Refusal(table("a,y\n1,0\n1,2,3,4\n"), "not a readable table: data row 2 has 4 cells, the header has 2."),
    Refusal(table("a,y\n1,0,\n1,0,\n"), "not a readable table: data row 1 has 3 cells, the header has 2."),
    Refusal(distances("distance,correct\n0.5,1,F\n0,1,M\n"), "data row 1 has 3 cells, the header has 2."),
    Refusal(table("a, a,y\n1,2,0\n"), "two columns named 'a'"),
    Refusal(
        table("sex,a,sex,y\nF,1,M,0\n"), "a.csv has two columns named 'sex', with different values. Rename one of them"
    ),
    Refusal(table("sex\tsex\ty\nF\tM\t0\n", "a.tsv"), "two columns named 'sex'"),
    Refusal(table(b"a,y\n\xff\xfe,0\n"), "UTF-8"),
    Refusal(table(NAMES), "Column 'name' has 101 distinct texts in 101 rows; Leave it out"),
    Refusal(table(ALMOST_NUMBERS), "Column 'age' holds 'n/a?' in data row 4, which is not a number"),
    Refusal(table(DATES, "a.parquet"), "Column 'born' holds dates"),
    Refusal(table("x", "a.xlsx"), "unknown file type. Expected one of .csv"),
    *(
        Refusal(table(content, name), "not a readable")
        for name in ("a.npz", "a.parquet", "a.csv.gz")
        for content in (b"nonsense, not an archive", b"PK\x03\x04 broken", b"\x93NUMPY", b"PAR1 PAR1")
    ),
    Refusal(lambda folder: load_file(folder / "nowhere.csv", label="y"), "There is no file; nowhere.csv"),
    Refusal(lambda folder: load_file(folder / "a.csv", label="y", **_made(folder)), "is a folder; expected a file"),
    Refusal(arrays({"X": zeros, "y": np.zeros(2)}), "no array 'x'. Did you mean 'X'?"),
    Refusal(arrays({"x": zeros, "labels": np.zeros(2)}), "no array 'y'. There are: x, labels"),
    Refusal(arrays({"x": zeros, "y": np.zeros(3)}), "data.npz: `y` has 3 labels but `x` has 2 samples"),
    Refusal(arrays({"x": zeros, "y": np.array(["a", None], dtype=object)}), "Array 'y'; Python objects"),
    Refusal(arrays({"x": zeros, "y": np.zeros(2)}, features=["x"]), "holds arrays"),
    Refusal(lambda folder: load_file(_flipped(folder)), "a.npz is not a readable .npz file"),
    Refusal(lambda _: load("digit"), "Unknown dataset 'digit'. Did you mean 'digits'?"),
    Refusal(lambda _: load(3), "must be a path, as a text or a Path; given 3", "name"),  # type: ignore[arg-type]
    Refusal(lambda _: load("x" * 300), "is too long", "name"),
    Refusal(lambda _: load("digits", label="y"), "these options are for files"),
    Refusal(lambda _: load("gone.csv"), "There is no file gone.csv"),
    Refusal(read(load, "a.csv", CSV, label="hired", split="test"), "A file has no splits, but split 'test'"),
]


def _flipped(folder: Path) -> Path:
    """Write a compressed archive of which eight bytes were changed."""
    np.savez_compressed(folder / "a.npz", x=np.random.default_rng(0).random((600, 4)), y=np.zeros(600))
    content = bytearray((folder / "a.npz").read_bytes())
    content[400:408] = b"\xff" * 8
    (folder / "a.npz").write_bytes(content)
    return folder / "a.npz"


def _made(folder: Path) -> dict[str, Any]:
    """Create a folder with the name of a table."""
    (folder / "a.csv").mkdir()
    return {}


DISTANCES = [
    Refusal(distances("distance,sex,sex\n0.5,F,M\n"), "measured.csv has two columns named 'sex'"),
    Refusal(distances("id,distance,distance\na,0.5,0.1\n", id="id"), "two columns named 'distance'"),
    Refusal(
        distances("distance,correct\n0.5,1\n0.5,0\n"), "measured.csv: 1 misclassified samples have a distance above 0"
    ),
    Refusal(
        distances("distance,correct\n0.5,1\n,1\n"), "no number in 1 of 2 rows, first in data row 2. Write inf where"
    ),
    Refusal(distances("distance,correct\n0.5,1\n>10,1\n"), "'distance' holds '>10' in data row 2; Write inf"),
    Refusal(distances("distance,correct\n-0.5,1\n"), "negative distances"),
    Refusal(distances("distance,correct\n0.5,maybe\n"), "true and false; data row 1 holds 'maybe'"),
    Refusal(distances("distance,correct\n0.5,\n0.5,1\n"), "true and false"),
    Refusal(distances("distance,correct,tried\n0.5,1,far\n"), "'tried' must hold numbers"),
    Refusal(distances("distance,y,prediction\n0.5,1,cat\n"), "cannot be compared"),
    Refusal(distances("distanze\n0.5\n"), "no column of distances: tried distance,; There are: distanze"),
    Refusal(distances("distance\n0.5\n", value="distanc"), "no column 'distanc'. Did you mean 'distance'?"),
    Refusal(distances("distance\n0.5\n", bound="uper"), "Unknown bound 'uper'. Did you mean 'upper'?"),
    Refusal(distances("distance\n0.5\n", norm="l3"), "Unknown norm 'l3'"),
    Refusal(
        distances("distance,id\n0.5, a\n0.1,a \n", id="id"), "holds 1 ids more than once, such as 'a' in data rows 1"
    ),
    Refusal(distances("distance,id\n0.5,a\n0.1,\n", id="id"), "has no id in 1 of 2 rows, first in data row 2"),
    Refusal(distances("distance,ids\n0.5,a\n", id="id"), "no column 'id'. Did you mean 'ids'"),
    Refusal(distances("distance,correct\n0.5,1\n", id="distance"), "cannot be both the id and a distance"),
    Refusal(
        read(load_distances, "a.npz", {"distance": np.zeros(3), "correct": np.zeros(2)}),
        "all of the same length; given distance (3,), correct (2,)",
    ),
    Refusal(
        lambda folder: load_distances(write(folder, {"a.csv": "distance,sex\n0.5,F\n"}) / "a.csv").partition("sexx"),
        "no attribute 'sexx'. Did you mean 'sex'?",
    ),
]

# Datasets of PyTorch

PAIRS = np.random.RandomState(0).rand(10, 3, 4, 4).astype(np.float32)


class Stream(IterableDataset[Any]):
    """A dataset without a length."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class Faulty:
    """A dataset whose item 6 changes, or whose item 4 cannot be read."""

    def __init__(self, changes: bool) -> None:
        self.changes = changes

    def __len__(self) -> int:
        return len(PAIRS)

    def __getitem__(self, place: int) -> Any:
        if place == 4 and not self.changes:
            raise KeyError("no such file")
        return PAIRS[place] + (np.random.rand() if place == 6 else 0), 0


a, b = PAIRS[:2]
TORCH = [
    Refusal(lambda _, source=source, options=options: from_torch(source, **options), words)  # type: ignore[misc]
    for source, words, options in (
        (Stream(), "Stream has no length, or no items by index", {}),
        (iter([(a, 0)]), "Expected a map-style dataset", {}),
        (DataLoader(TensorDataset(torch.tensor(PAIRS))), "Pass `loader.dataset`", {}),
        ([], "The dataset is empty", {}),
        (TensorDataset(torch.tensor(PAIRS)), "Item 0 of the dataset is a tuple of 1; expected (x, y)", {}),
        ([{"image": a, "label": 0}], "is a dict; There are: image, label", {}),
        ([a], "is a ndarray", {}),
        ([(a, 0), (b[:, :2], 0)], "Item 1; shape (3, 2, 4), item 0; (3, 4, 4)", {}),
        ([(a, 0), (b.astype(float), 0)], "Item 1; holds float64", {}),
        ([(a, 0), (b * np.nan, 0)], "NaN or infinity, first in the sample at index 1", {}),
        ([(a, [0, 1])], "The label of item 0; must be one value", {}),
        ([(a, 0), (b, None)], "has no label for 1 of 2 samples (first at index 1)", {}),
        ([(a, 0), (b, "dog")], "1 labels are numbers and 1 are not (first 'dog')", {}),
        ([(a, 0.5), (b, 1.0)], "must be integers or names; found the label 0.5", {}),
        ([(a, 0)], "has a name more than once", {"class_names": ["x", "x"]}),
        ([("text", 0)], "must be an array of numbers", {}),
        ([(Image.new("RGB", (4, 4)), 0)], "holds an image; ToTensor", {}),
        ([(a, 0, {"a": 1}), (b, 0, {"b": 1})], "Item 1; has the attributes b, but item 0 has a", {}),
        ([(a, 0, {"a": 1}), (b, 0)], "attributes (none), but item 0 has a", {}),
        ([(a, 0, {"a": [1, 2]})], "The attribute 'a' of item 0; must be one value", {}),
        ([(a, 0, ("F", 3))], "has 2 attributes, but `attribute_names` has 1 names: sex", {"attribute_names": ["sex"]}),
        ([(a, 0)], "a single text", {"attribute_names": "sex"}),
        (Faulty(changes=True), "Item 6; changes each time it is read", {}),
        (Faulty(changes=False), "Item 4 of the dataset cannot be read (KeyError: 'no such file')", {}),
    )
]

# Images in a folder

FACES = {"a.png": noise(0), "deep/b.png": noise(1), "c.png": noise(2)}
LABELS = "file,hired,sex\nc.png,yes,F\na.png,no,M\ndeep/b.png,yes,F\n"


def images(labels: str | None = LABELS, files: Any = FACES, label: str | None = "hired", **options: Any) -> Call:
    """Return a call that writes images and a table, and loads them."""

    def call(folder: Path) -> object:
        write(folder, {"secret.png": picture(), "labels.csv": labels or ""})
        where = None if labels is None else folder / "labels.csv"
        return load_images(write(folder / "faces", files), where, label=None if labels is None else label, **options)

    return call


IMAGES = [
    Refusal(images("file,hired\na.png,1\nx.png,1\ny.png,0\n"), "2 of 3 images listed in; are not in; x.png, y.png"),
    Refusal(images("file,hired\n../secret.png,1\n"), "1 of 1 images; are not in; ../secret.png"),
    Refusal(images("file,hired\na.png,1\nc.png,0\na.png,1\n"), "lists 1 images more than once: a.png"),
    Refusal(images("file,hired\na.png,1\nc.png,\n"), "label 'hired' is missing in 1 of 2 rows, first in data row 2"),
    Refusal(images("file,hired\n,1\nc.png,1\n"), "image 'file' is missing in 1 of 2 rows"),
    Refusal(images("path,hired\na.png,1\n"), "no column 'file' (image)"),
    Refusal(images("file,hire\na.png,1\n"), "no column 'hired' (label). Did you mean 'hire'"),
    Refusal(images("file,hired\na.png,-1\n"), "must start at 0; found the label -1"),
    Refusal(images(class_names=["yes", "maybe"]), "label 'no' is not in `class_names`.; yes, maybe"),
    Refusal(images(label=None), "Which column; is the label?; file, hired, sex"),
    Refusal(images(attributes="sex"), "a single text"),
    Refusal(images(size=0), "1 to 4,096; given 0"),
    Refusal(images(None), "2 of 3 images; are in no subfolder: a.png, c.png"),
    Refusal(images(None, attributes=["sex"]), "no table was given"),
    Refusal(images(None, {"a.txt": "x"}), "holds no images"),
    Refusal(lambda _: load_images("nowhere"), "There is no folder or archive nowhere"),
    Refusal(
        lambda folder: load_images(write(folder, {"broken.zip": b"PK\x03\x04 cut"}) / "broken.zip"),
        "broken.zip cannot be read",
    ),
]

# Downloads

UNREACHABLE = "http://127.0.0.1:9/x"


def downloaded(url: str, name: str = "things.bin", folder: str = "") -> Call:
    card = Card("Things", "things", (), "none", "none", "none", "none", (OfficialFile(name, url),))
    return lambda place: download(card, write(place, {"file": ""}) / folder)


DOWNLOADS = [
    *(
        Refusal(downloaded(url), "things.bin can only be downloaded by http or https")
        for url in ("file:///etc/hostname", "ftp://x.org/y", "things.bin")
    ),
    Refusal(downloaded(UNREACHABLE, "../things.bin"), "../things.bin points outside of the folder"),
    Refusal(downloaded(UNREACHABLE, "/things.bin"), "/things.bin points outside of the folder"),
    Refusal(downloaded(UNREACHABLE, folder="file/folder"), "file; cannot be written ("),
    Refusal(downloaded("", "faces.zip"), "Things: this dataset is only available; Get faces.zip from them and put"),
]

# Synthetic datasets

SYNTHETIC = [
    Refusal(lambda _, make=make, given=given: make(**given), words)  # type: ignore[misc, operator]
    for make, given, words in (
        (three_classes, {"samples": 2}, "`samples` must be at least 3; given 2."),
        (round_cross, {"samples": 50}, "`samples` must be a multiple of 40"),
        (gaussian_pair, {"low": 2.0, "high": 2.0}, "`low` must be below `high`"),
        (gaussian_pair, {"spread": 0.0}, "`spread` must be positive"),
        (gaussian_pair, {"high": float("nan")}, "`low` must be below `high`"),
        (gaussian_pair, {"samples": 3}, "must be even"),
        (gaussian_classes, {"dimensions": 0}, "`dimensions` must be at least 1"),
        (gaussian_classes, {"means": (0.0, 1.0)}, "must be positive numbers"),
        (gaussian_classes, {"spreads": (1.0, float("inf"))}, "must be positive numbers"),
        (gaussian_classes, {"prior": 1.0}, "`prior` must be between 0 and 1"),
        (gaussian_classes, {"prior": float("nan")}, "`prior` must be between 0 and 1"),
        (gaussian_classes, {"prior": 0.001, "samples": 10}, "give each class a sample"),
    )
]

REFUSALS = [*DATASETS, *FILES, *DISTANCES, *TORCH, *IMAGES, *DOWNLOADS, *SYNTHETIC]
