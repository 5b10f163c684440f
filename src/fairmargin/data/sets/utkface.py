"""UTKFace: faces with age, gender and race in their file names."""

import os
import re
from bisect import bisect_right
from pathlib import Path

import numpy as np

from fairmargin.data.card import Card, Entry, OfficialFile, Request
from fairmargin.data.dataset import Dataset
from fairmargin.data.fetch.cache import CacheWriter, cached
from fairmargin.data.fetch.sources import Source, locate
from fairmargin.data.formats.images import decode_images, image_dataset, images_of, is_image, shortened
from fairmargin.data.splits import SENTENCE, seeded_split
from fairmargin.errors import InputError

_REVISION = 1  # goes up when the cached arrays change
_NAME = re.compile(r"(\d+)_([01])_([0-4])_", re.ASCII)
_ARCHIVES = ("utkface*.zip", "UTKFace*.zip", "utkface*.tar*", "UTKFace*.tar*")

# What each task predicts, the default first.
CLASS_NAMES = {
    "age5": ("0–14", "15–24", "25–39", "40–59", "60+"),
    "age9": ("0–9", "10–19", "20–29", "30–39", "40–49", "50–59", "60–69", "70–79", "80+"),
    "race": ("White", "Black", "Asian", "Indian", "Others"),
    "gender": ("male", "female"),
}
_AGE5_FROM, _AGE9_FROM = (15, 25, 40, 60), tuple(range(10, 90, 10))

CARD = Card(
    title="UTKFace, 23,705 aligned and cropped faces with age, gender and race",
    classes="the age in five bins (age5) or in decades (age9), the race code, or the gender code",
    groups=("gender", "race", "age5", "age9"),
    split=SENTENCE.format(unit="sample") + " Identities are unknown: a person may be in both splits.",
    licence="Non-commercial research only; the copyright of the images stays with their owners.",
    ethics=(
        "Faces collected from the web without consent. Age, gender and race are estimates by a "
        "model, checked by annotators, not self-reported; the coding of two genders and five races is the dataset's "
        "own. Predicting age, race or gender from a face is itself a flawed task: use this to test methods, "
        "never to identify, profile or decide about people."
    ),
    citation=(
        "Z. Zhang, Y. Song, H. Qi, Age Progression/Regression by Conditional Adversarial Autoencoder, CVPR 2017; "
        "https://susanqq.github.io/UTKFace/."
    ),
    files=(OfficialFile("UTKFace.tar.gz"),),
    tasks=tuple(CLASS_NAMES),
    sized=True,
    samples=23_705,
    shape=(3, 200, 200),
)


def load_utkface(request: Request) -> Dataset:
    """Load the faces whose file names contain age, gender and race, from a folder, a zip archive or a tar archive.

    Guarantee: an image whose name does not match `age_gender_race_…` is left out and named in a note. Images are
    ordered by file name, so that the split does not depend on the archive.
    """
    source = locate("utkface", CARD, request.root, folder=_holds_faces, archives=_ARCHIVES)
    arrays = cached(
        "utkface",
        {"source": source.checksum(), "size": request.size, "revision": _REVISION},
        lambda writer: _build(writer, source, request),
    )
    columns = {name: np.array(classes)[arrays[name]] for name, classes in CLASS_NAMES.items()}
    return image_dataset(
        "utkface",
        arrays,
        None if request.split == "all" else seeded_split(len(arrays["race"]), request.split),
        np.asarray(arrays[request.task], dtype=np.int64),
        attributes={name: columns[name] for name in CARD.groups},
        class_names=CLASS_NAMES[request.task],
        notes=_notes(arrays["irregular"].tolist(), int(arrays["repeated"][0]), request.split != "all"),
    )


def _holds_faces(folder: Path) -> bool:
    with os.scandir(folder) as entries:
        return any(_NAME.match(entry.name) and is_image(entry.name) for entry in entries)


def _build(writer: CacheWriter, source: Source, request: Request) -> None:
    images = sorted(filter(is_image, source.names()))
    chosen: dict[str, str] = {}  # some archives hold the same image in several folders
    for path in images:
        chosen.setdefault(path.rpartition("/")[2], path)
    labelled = sorted(name for name in chosen if _NAME.match(name))
    if not labelled:
        raise InputError(
            f"{source.path} holds no image with a name as in UTKFace, such as 25_0_2_20170116174525125.jpg.chip.jpg "
            f"(age_gender_race_time); found {len(images):,} other images. Check the path."
        )
    decode_images(
        writer,
        images_of(source, {chosen[name]: place for place, name in enumerate(labelled)}),
        size=request.size,
        progress=request.progress,
    )
    codes = np.array([_codes(name) for name in labelled], dtype=np.uint8)
    for position, task in enumerate(CLASS_NAMES):
        writer.keep(task, codes[:, position])
    writer.keep("irregular", np.array(sorted(name for name in chosen if not _NAME.match(name)), dtype=np.str_))
    writer.keep("repeated", np.array([len(images) - len(chosen)]))


def _codes(name: str) -> tuple[int, int, int, int]:
    """Return the class of each task, in the order of `CLASS_NAMES`."""
    fields = _NAME.match(name)
    assert fields is not None
    age, gender, race = map(int, fields.groups())
    return bisect_right(_AGE5_FROM, age), bisect_right(_AGE9_FROM, age), race, gender


def _notes(irregular: list[str], repeated: int, is_split: bool) -> tuple[str, ...]:
    notes = []
    if irregular:
        notes.append(
            f"Left out, because their names do not contain age, gender and race: {len(irregular):,} images "
            f"({shortened(irregular)})."
        )
    if repeated:
        notes.append(f"{repeated:,} images occur in several folders with the same name and are used only once.")
    if is_split:
        notes.append(CARD.split)
    return tuple(notes)


ENTRY = Entry(CARD, load_utkface)
