"""Adience: photographs of faces from Flickr, with age and gender."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Bools, Ints
from fairmargin.data.adience_index import AGES, Index, read_index
from fairmargin.data.cache import CacheWriter, cached
from fairmargin.data.card import Card, Entry, OfficialFile, Request, Split
from fairmargin.data.dataset import Dataset
from fairmargin.data.decoding import decode_images, images_of
from fairmargin.data.images import image_dataset
from fairmargin.data.sources import Source, locate
from fairmargin.data.splitting import SENTENCE, seeded_split
from fairmargin.errors import InputError

_REVISION = 1  # goes up when the cached arrays change
_ARCHIVES = ("adience*.zip", "Adience*.zip", "adience*.tar*", "Adience*.tar*")
_FOLD_FILE = re.compile(r"(.*/)?fold_([0-4])_data\.txt")
_FACES = "faces.tar.gz"  # as its makers publish the images, beside the fold files
_TEST_FOLD = 4
GENDERS = ("male", "female")
_UNKNOWN = "unknown"
_BY_PERSON = (
    SENTENCE.format(unit="identity").rstrip(".")
    + ", so that nobody is on both sides; of 500 draws the one that parts ages and genders most nearly so."
)

CARD = Card(
    title="Adience, 19,370 faces from Flickr albums with age group and gender",
    classes="the age in eight groups (age), or the gender code",
    groups=("gender", "age", "fold", "person"),
    split=f"With all five folds, folds 0–3 train and fold 4 tests, as in published code. Otherwise: {_BY_PERSON}",
    licence="Released for research by the Open University of Israel; the photographs are their owners'.",
    ethics=(
        "Flickr photographs of people, children among them, who were not asked. Age and gender are the annotators' "
        "judgements, not what people say of themselves; two genders are the dataset's own coding, and an unknown "
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
    samples=17_702,  # of 19,370, those whose age lies within one of the eight groups
    shape=(3, 816, 816),
)


def load_adience(request: Request) -> Dataset:
    """The faces that the fold files list and that are there, from a folder or an archive, whichever folds it holds.

    Guarantee: fold files count only where `faces/` lies beside them; rows without an image, or without a label for the
    task, are left out and counted in a note. On which side of a split a person is does not depend on the task.
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
            "gender": np.array([*GENDERS, _UNKNOWN])[codes["gender"]],  # −1, unknown, is the last
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
    # The index of all folds may lie in another folder, as it does beside a part of the images.
    beside = sorted({match[1] or "" for match in matches}, key=lambda folder: (folder.count("/"), folder))
    if faces is source:
        beside = [folder for folder in beside if any(name.startswith(f"{folder}faces/") for name in present)]
    if not beside:
        raise InputError(
            f"{source.path} is not laid out as Adience is: expected fold_0_data.txt to fold_4_data.txt (some of them "
            "will do) and, beside them, faces/<user_id>/coarse_tilt_aligned_face.<face_id>.<original_image>."
        )
    files = {match[0]: int(match[2]) for match in matches if (match[1] or "") == beside[0]}
    index = read_index(source, files)
    top = beside[0] if faces is source else ""
    kept = index.take([place for place, image in enumerate(index.images) if f"{top}faces/{image}" in present])
    if not kept.images:
        raise InputError(f"None of the {len(index.images):,} faces that the fold files list is in {faces.path}.")
    places = {f"{top}faces/{image}": place for place, image in enumerate(kept.images)}
    decode_images(writer, images_of(faces, places), size=request.size, tell=request.tell)
    _keep(writer, kept, len(index.images))


def _keep(writer: CacheWriter, kept: Index, listed: int) -> None:
    writer.keep("person", np.array(kept.people))
    writer.keep("age", np.array(kept.ages, dtype=np.int8))
    writer.keep("gender", np.array(kept.genders, dtype=np.int8))
    writer.keep("fold", np.array(kept.folds, dtype=np.int8))
    writer.keep("counts", np.array([listed, kept.repeated]))


def _split(split: Split, codes: Mapping[str, Ints], people: npt.NDArray[Any]) -> tuple[Bools, tuple[str, ...]]:
    """Which samples are in the split, and how that was decided: the same for every task."""
    folds = codes["fold"]
    if split == "all":
        return np.ones(len(folds), dtype=np.bool_), ()
    if len(np.unique(folds)) == _TEST_FOLD + 1:
        return (folds == _TEST_FOLD) == (split == "test"), ("Split: folds 0–3 train, fold 4 tests.",)
    inside = np.zeros(len(folds), dtype=np.bool_)
    inside[seeded_split(len(folds), split, np.asarray(people), codes["age"] * len(AGES) + codes["gender"])] = True
    return inside, (f"Not all five folds are here. {_BY_PERSON}",)


def _notes(arrays: dict[str, npt.NDArray[np.generic]], folds: Ints) -> tuple[str, ...]:
    (listed, repeated), count = arrays["counts"].tolist(), len(folds)
    here = ", ".join(map(str, np.unique(folds).tolist()))
    notes = [f"Faces of {'folds' if len(here) > 1 else 'fold'} {here}: {count:,}."]
    if listed > count:
        notes.append(f"{listed - count:,} of {listed:,} listed faces have no image here and are left out.")
    if repeated:
        notes.append(f"{repeated:,} rows of the fold files repeat another row and count once.")
    return tuple(notes)


def _unlabelled(task: str, labelled: Bools) -> tuple[str, ...]:
    missing = int((~labelled).sum())
    if not missing:
        return ()
    reason = (
        "their age is unknown or does not lie within one of the eight groups"
        if task == "age"
        else "the annotators could not tell their gender"
    )
    return (f"{missing:,} of {len(labelled):,} faces are left out of task {task!r}: {reason}.",)


ENTRY = Entry(CARD, load_adience)
