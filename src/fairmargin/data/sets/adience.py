"""Adience: photographs of faces from Flickr, with age and gender."""

import csv
import re
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmargin.core.arrays import Bools, Ints
from fairmargin.data.card import Card, Entry, OfficialFile, Request, Split
from fairmargin.data.dataset import Dataset
from fairmargin.data.fetch.cache import CacheWriter, cached
from fairmargin.data.fetch.sources import Source, locate
from fairmargin.data.formats.images import decode_images, image_dataset, images_of
from fairmargin.data.splits import SENTENCE, seeded_split
from fairmargin.errors import InputError

_COLUMNS = ("user_id", "original_image", "face_id", "age", "gender")
AGES = ("0–2", "4–6", "8–13", "15–20", "25–32", "38–43", "48–53", "60+")
_RANGES = ((0, 2), (4, 6), (8, 13), (15, 20), (25, 32), (38, 43), (48, 53), (60, 100))
_CORRECTED = {(25, 23): (25, 32)}  # a typing error in the official files
_AGE = re.compile(r"\((\d{1,3}), *(\d{1,3})\)|(\d{1,3})", re.ASCII)
UNKNOWN = -1
_REVISION = 1  # goes up when the cached arrays change
_ARCHIVES = ("adience*.zip", "Adience*.zip", "adience*.tar*", "Adience*.tar*")
_FOLD_FILE = re.compile(r"(.*/)?fold_([0-4])_data\.txt")
_FACES = "faces.tar.gz"  # the images as published, beside the fold files
_TEST_FOLD = 4
GENDERS = ("male", "female")
_UNKNOWN = "unknown"


def read_index(source: Source, files: Mapping[str, int]) -> pd.DataFrame:
    """Read the fold files; return one row for each listed face, with class numbers that are −1 if unknown.

    `files` maps the name of each file to the number of its fold. The columns are: `image`, the path relative to
    `faces/`; `person`, since Adience numbers the people of one album by `face_id`; `age`, `gender` and `fold`.
    """
    contents = dict(source.members(files.__contains__))
    rows = [
        {
            "image": f"{row['user_id']}/coarse_tilt_aligned_face.{row['face_id']}.{row['original_image']}",
            "person": f"{row['user_id']}/{row['face_id']}",
            "age": age_class(row["age"]),
            "gender": {"m": 0, "f": 1}.get(row["gender"], UNKNOWN),
            "fold": fold,
        }
        for file, fold in sorted(files.items(), key=lambda item: item[1])
        for row in _rows(f"{file} of {source.path}", contents[file])
    ]
    return pd.DataFrame(rows, columns=["image", "person", "age", "gender", "fold"])


def age_class(text: str) -> int:
    """Return the age group of an entry in the fold files, or −1 if the group is not certain.

    An entry is a range or a single age, and must be within one of the eight groups. (8, 12) and (38, 42) are; 35 and
    (38, 48) are not, and published implementations assign them to different groups. (25, 23) is read as (25, 32).

    >>> [age_class(text) for text in ("(8, 12)", "(25, 23)", "29", "35", "(38, 48)", "None")]
    [2, 4, 4, -1, -1, -1]
    """
    match = _AGE.fullmatch(text.strip())
    if match is None:
        return UNKNOWN
    low, high = (int(match[3]), int(match[3])) if match[3] else (int(match[1]), int(match[2]))
    low, high = _CORRECTED.get((low, high), (low, high))
    inside = [number for number, (start, end) in enumerate(_RANGES) if start <= low <= high <= end]
    return inside[0] if inside else UNKNOWN


def _rows(file: str, content: bytes) -> list[dict[str, str]]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not text in UTF-8 ({error.reason}). Download it again.") from error
    reader = csv.DictReader(StringIO(text, newline=""), delimiter="\t", quoting=csv.QUOTE_NONE)
    missing = [column for column in _COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise InputError(
            f"{file} has no column {missing[0]!r}. Expected a header with {', '.join(_COLUMNS)}, separated by tabs, "
            "as Adience publishes it."
        )
    rows = list(reader)
    for number, row in enumerate(rows, 2):
        if any(row[column] is None for column in _COLUMNS):
            raise InputError(f"{file} is truncated in line {number:,}. Download it again.")
    return rows


_BY_PERSON = (
    SENTENCE.format(unit="identity").rstrip(".")
    + ", so that nobody is in both splits; of 500 draws, the one closest to 80:20 for all ages and genders is used."
)

CARD = Card(
    title="Adience, 19,370 faces from Flickr albums with age group and gender",
    classes="the age in eight groups (age), or the gender code",
    groups=("gender", "age", "fold", "person"),
    split=(
        "With all five folds, folds 0–3 are for training and fold 4 for testing, as in published code. "
        f"Otherwise: {_BY_PERSON}"
    ),
    licence="Released for research by the Open University of Israel; the photographs are their owners'.",
    ethics=(
        "Flickr photographs of people, including children, without their consent. Age and gender are the annotators' "
        "judgements, not self-reported; the dataset codes two genders, and an unknown "
        "gender is a group of its own. Predicting age or gender from a face is itself a flawed task: use this to test "
        "methods, never to identify, profile or decide about people."
    ),
    citation=(
        "E. Eidinger, R. Enbar, T. Hassner, Age and Gender Estimation of Unfiltered Faces, IEEE TIFS 9(12), 2014; "
        "https://talhassner.github.io/home/projects/Adience/Adience-data.html."
    ),
    files=(*(OfficialFile(f"fold_{fold}_data.txt") for fold in range(5)), OfficialFile(_FACES)),
    tasks=("age", "gender"),
    sized=True,
    samples=17_702,  # of 19,370, those whose age is within one of the eight groups
    shape=(3, 816, 816),
)


def load_adience(request: Request) -> Dataset:
    """Load the faces that are listed in fold files and exist in a folder or an archive, which may lack some folds.

    Guarantee: fold files count only if `faces/` is beside them. Rows without an image, or without a label for the task,
    are left out and counted in a note. The split of a person does not depend on the task.
    """
    source = locate("adience", CARD, request.root, folder=_holds_folds, archives=_ARCHIVES)
    faces = Source(source.path / _FACES) if _is_packed(source.path) else source
    arrays = cached(
        "adience",
        {"source": source.checksum(), "size": request.size, "revision": _REVISION},
        lambda writer: _build(writer, source, faces, request),
    )
    codes = {name: np.asarray(arrays[name], dtype=np.int64) for name in ("age", "gender", "fold")}
    labelled = codes[request.task] >= 0
    inside, how = _split(request.split, codes, arrays["person"])
    return image_dataset(
        "adience",
        arrays,
        np.flatnonzero(inside & labelled),
        codes[request.task],
        attributes={
            "gender": np.array([*GENDERS, _UNKNOWN])[codes["gender"]],  # −1 selects the last entry, "unknown"
            "age": np.array([*AGES, _UNKNOWN])[codes["age"]],
            "fold": codes["fold"],
            "person": np.asarray(arrays["person"]),
        },
        class_names=AGES if request.task == "age" else GENDERS,
        notes=(*_notes(arrays, codes["fold"]), *_unlabelled(request.task, labelled), *how),
    )


def _is_packed(folder: Path) -> bool:
    return folder.is_dir() and not (folder / "faces").is_dir() and (folder / _FACES).is_file()


def _holds_folds(folder: Path) -> bool:
    return any(folder.glob("fold_[0-4]_data.txt")) and ((folder / "faces").is_dir() or _is_packed(folder))


def _build(writer: CacheWriter, source: Source, faces: Source, request: Request) -> None:
    names = source.names()
    present = set(names if faces is source else faces.names())
    matches = [match for match in map(_FOLD_FILE.fullmatch, names) if match]
    # Some copies have the fold files of all folds in another folder, without the images.
    beside = sorted({match[1] or "" for match in matches}, key=lambda folder: (folder.count("/"), folder))
    if faces is source:
        beside = [folder for folder in beside if any(name.startswith(f"{folder}faces/") for name in present)]
    if not beside:
        raise InputError(
            f"{source.path} does not have the layout of Adience: expected fold_0_data.txt to fold_4_data.txt (at least "
            "one) and, beside them, faces/<user_id>/coarse_tilt_aligned_face.<face_id>.<original_image>."
        )
    files = {match[0]: int(match[2]) for match in matches if (match[1] or "") == beside[0]}
    rows = read_index(source, files)
    listed = rows.drop_duplicates("image")
    top = beside[0] if faces is source else ""
    kept = listed[[f"{top}faces/{image}" in present for image in listed["image"]]]
    if kept.empty:
        raise InputError(f"None of the {len(listed):,} faces listed in the fold files is in {faces.path}.")
    places = {f"{top}faces/{image}": place for place, image in enumerate(kept["image"])}
    decode_images(writer, images_of(faces, places), size=request.size, progress=request.progress)
    writer.keep("person", np.array(kept["person"].tolist()))
    for name in ("age", "gender", "fold"):
        writer.keep(name, kept[name].to_numpy(dtype=np.int8))
    writer.keep("counts", np.array([len(listed), len(rows) - len(listed)]))


def _split(split: Split, codes: Mapping[str, Ints], people: npt.NDArray[Any]) -> tuple[Bools, tuple[str, ...]]:
    """Return a mask of the samples in the split and a note on the split; both are the same for every task."""
    folds = codes["fold"]
    if split == "all":
        return np.ones(len(folds), dtype=np.bool_), ()
    if len(np.unique(folds)) == _TEST_FOLD + 1:
        return (folds == _TEST_FOLD) == (split == "test"), ("Split: folds 0–3 for training, fold 4 for testing.",)
    inside = np.zeros(len(folds), dtype=np.bool_)
    inside[seeded_split(len(folds), split, np.asarray(people), codes["age"] * len(AGES) + codes["gender"])] = True
    return inside, (f"Not all five folds were found. {_BY_PERSON}",)


def _notes(arrays: dict[str, npt.NDArray[np.generic]], folds: Ints) -> tuple[str, ...]:
    (listed, repeated), count = arrays["counts"].tolist(), len(folds)
    here = ", ".join(map(str, np.unique(folds).tolist()))
    notes = [f"Faces of {'folds' if len(here) > 1 else 'fold'} {here}: {count:,}."]
    if listed > count:
        notes.append(f"{listed - count:,} of {listed:,} listed faces have no image and are left out.")
    if repeated:
        notes.append(f"{repeated:,} rows of the fold files repeat another row and are left out.")
    return tuple(notes)


def _unlabelled(task: str, labelled: Bools) -> tuple[str, ...]:
    missing = int((~labelled).sum())
    if not missing:
        return ()
    reason = (
        "their age is unknown or not within one of the eight groups"
        if task == "age"
        else "the annotators could not determine their gender"
    )
    return (f"{missing:,} of {len(labelled):,} faces are left out of task {task!r}: {reason}.",)


ENTRY = Entry(CARD, load_adience)
