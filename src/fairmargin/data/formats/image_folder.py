"""Datasets from a folder or archive of images, with a table of labels and attributes or one subfolder per class."""

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmargin.core.progress import Progress, silent
from fairmargin.core.suggestion import there_are
from fairmargin.data.card import check_size
from fairmargin.data.dataset import Dataset
from fairmargin.data.fetch.cache import cached
from fairmargin.data.fetch.sources import Source
from fairmargin.data.formats.files import check_columns, read_table
from fairmargin.data.formats.images import decode_images, image_dataset, images_of, is_image, shortened
from fairmargin.data.formats.labels import class_numbers
from fairmargin.errors import InputError

_REVISION = 1  # goes up when the cached arrays change


def load_images(
    folder: Path | str,
    table: Path | str | None = None,
    *,
    image: str = "file",
    label: str | None = None,
    attributes: Sequence[str] = (),
    class_names: Sequence[str] = (),
    size: int | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Load images with labels and attributes from a table; without a table, the subfolder of an image is its class.

    Guarantee: images are decoded once, a few at a time, and memory-mapped afterwards. They have one channel if all of
    them are grey, else three (RGB); pixels are in [0, 1].

    Parameters
    ----------
    folder
        A folder, a zip archive or a tar archive.
    table
        Path of a .csv, .tsv (also gzipped) or .parquet file with one row per image.
    image
        Name of the column with the path of the image relative to the folder.
    label
        Name of the column with the label. Integers are class numbers; text is numbered in the order of `class_names`.
    attributes
        Names of the columns that define groups.
    class_names
        Names of the classes in the order of the model's outputs; by default the sorted labels.
    size
        Width and height to which images are resized; required if they differ in size. The aspect ratio is not kept.
    progress
        Called with (description, done, total) while images are decoded for the first time.

    >>> load_images("no such folder", "labels.csv", label="hired")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: There is no folder or archive no such folder (looked in ...). Check the path.
    """
    folder = Path(folder)
    if not folder.exists():
        raise InputError(f"There is no folder or archive {folder} (looked in {Path.cwd()}). Check the path.")
    if isinstance(attributes, str) or isinstance(class_names, str):
        raise InputError("`attributes` and `class_names` must be lists of names; given a single text.")
    check_size(size)
    source = Source(folder)
    members = [name for name in source.names() if is_image(name)]
    if not members:
        raise InputError(f"{folder} holds no images (.jpg, .png, …). Check the path.")
    if table is None:
        if label is not None or attributes:
            raise InputError("`label` and `attributes` are columns of a table, but no table was given. Give its path.")
        files, labels = _by_subfolder(folder, members)
        columns: dict[str, npt.NDArray[Any]] = {}
        notes: tuple[str, ...] = ()
    else:
        rows = _checked_rows(Path(table), image, label, attributes)
        files = _found(Path(table), folder, rows[image].tolist(), members)
        labels = rows[label].to_numpy()
        columns = {name: rows[name].to_numpy() for name in attributes}
        unlisted = len(members) - len(files)
        notes = (f"{unlisted:,} images of {folder.name} are not in {Path(table).name} and are left out.",) * (
            unlisted > 0
        )
    y, names = class_numbers(str(table or folder), labels, class_names)
    arrays = _decoded(source, files, size, progress or silent)
    return image_dataset(folder.name, arrays, None, y, attributes=columns, class_names=names, notes=notes)


def _decoded(source: Source, files: list[str], size: int | None, progress: Progress) -> Mapping[str, npt.NDArray[Any]]:
    return cached(
        "images",
        {
            "source": source.checksum(),
            "files": sha256("\0".join(files).encode()).hexdigest(),
            "size": size,
            "revision": _REVISION,
        },
        lambda writer: decode_images(
            writer,
            images_of(source, {file: place for place, file in enumerate(files)}),
            size=size,
            progress=progress,
            keep_grey=True,
        ),
    )


def _by_subfolder(folder: Path, members: list[str]) -> tuple[list[str], npt.NDArray[Any]]:
    """Return the images sorted by name, each with its subfolder; one folder around all subfolders is ignored."""
    files = sorted(members)
    parts = [PurePosixPath(file).parts for file in files]
    while len({names[0] for names in parts}) == 1 and all(len(names) > 2 for names in parts):
        parts = [names[1:] for names in parts]
    loose = [file for file, names in zip(files, parts, strict=True) if len(names) < 2]
    if loose:
        raise InputError(
            f"Without a table, the class of an image is its subfolder, but {len(loose):,} of {len(files):,} images of "
            f"{folder} are in no subfolder: {shortened(loose)}. Move them, or give a table with labels."
        )
    return files, np.array([names[0] for names in parts])


def _checked_rows(table: Path, image: str, label: str | None, attributes: Sequence[str]) -> pd.DataFrame:
    rows = read_table(table)
    if label is None:
        raise InputError(
            f"Which column of {table} is the label? Specify it with --label (label=). {there_are(rows.columns)}"
        )
    check_columns(table, rows.columns, image=[image], label=[label], attribute=attributes)
    for role, name in (("image", image), ("label", label)):
        missing = np.flatnonzero(rows[name].isna())
        if len(missing):
            raise InputError(
                f"{table}: {role} {name!r} is missing in {len(missing):,} of {len(rows):,} rows, first in data row "
                f"{missing[0] + 1:,}. Drop these rows, or fill them in."
            )
    return rows


def _found(table: Path, folder: Path, listed: list[Any], members: list[str]) -> list[str]:
    """Return the file for each row; one folder around all files may be omitted in the table."""
    wanted = [PurePosixPath(str(name).strip().replace("\\", "/")).as_posix() for name in listed]
    twice = [name for name, count in Counter(wanted).items() if count > 1]
    if twice:
        raise InputError(
            f"{table} lists {len(twice):,} images more than once: {shortened(twice)}. Keep one row for each."
        )
    there = set(members)
    around = {name.partition("/")[0] for name in members}
    if not there.intersection(wanted) and len(around) == 1:
        wanted = [f"{next(iter(around))}/{name}" for name in wanted]
    missing = [str(name) for name, path in zip(listed, wanted, strict=True) if path not in there]
    if missing:
        raise InputError(
            f"{len(missing):,} of {len(wanted):,} images listed in {table} are not in {folder}: {shortened(missing)}. "
            f"Paths must be relative to that folder, with their ending; it holds for instance {shortened(members, 2)}."
        )
    return wanted
