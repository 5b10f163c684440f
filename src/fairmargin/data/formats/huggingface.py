"""Datasets from folders of images that Hugging Face `datasets` saved with `save_to_disk`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.progress import Progress, silent
from fairmargin.core.suggestion import suggest, there_are
from fairmargin.data.card import check_size
from fairmargin.data.dataset import Dataset
from fairmargin.data.fetch.cache import cached
from fairmargin.data.fetch.sources import Source
from fairmargin.data.formats.files import check_columns
from fairmargin.data.formats.images import EncodedImages, decode_images, image_dataset
from fairmargin.data.formats.labels import class_numbers
from fairmargin.errors import InputError

_REVISION = 1  # goes up when the cached arrays change


def from_huggingface(
    path: Path | str,
    *,
    label: str = "label",
    image: str = "image",
    attributes: Sequence[str] = (),
    split: str | None = None,
    size: int | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Load images from a folder that `datasets.Dataset.save_to_disk` (or `DatasetDict.save_to_disk`) wrote.

    Guarantee: nothing is downloaded and no code of the dataset runs. Images are decoded once, a few at a time, and
    memory-mapped afterwards, with pixels in [0, 1].

    Parameters
    ----------
    path
        Path of the folder.
    label, image
        Names of the columns with labels and images. The names of a `ClassLabel` become the class names.
    attributes
        Names of the columns that define groups.
    split
        Name of the split, if the folder holds several.
    size
        Width and height to which images are resized; required if they differ in size.
    progress
        Called with (description, done, total) while images are decoded for the first time.
    """
    path = Path(path)
    if isinstance(attributes, str):
        raise InputError("`attributes` must be a list of column names; given a single text.")
    check_size(size)
    library = _datasets()
    data = _one_split(path, _read(library, path), split)
    check_columns(path, data.column_names, image=[image], label=[label], attribute=attributes)
    if not isinstance(data.features[image], library.Image):
        raise InputError(f"Column {image!r} of {path} holds no images but {data.features[image]}. Choose another one.")
    for name in (label, *attributes):
        if hasattr(data.features[name], "decode_example"):  # reading it would run a decoder of the datasets package
            raise InputError(
                f"Column {name!r} of {path} holds files ({type(data.features[name]).__name__}), not labels or "
                "attributes. Choose another one."
            )
    labels, names = _labels(library, path, data, label)
    encoded = _encoded(path, data.select_columns([image]).cast_column(image, library.Image(decode=False)), image)
    arrays = cached(
        "huggingface",
        {
            "source": Source(path).checksum(),
            "split": split,
            "image": image,
            "size": size,
            "revision": _REVISION,
        },
        lambda writer: decode_images(writer, encoded, size=size, progress=progress or silent, keep_grey=True),
    )
    columns = {name: _column(library, data, name) for name in attributes}
    return image_dataset(path.name, arrays, None, labels, attributes=columns, class_names=names)


def _datasets() -> ModuleType:
    try:
        import datasets
    except ImportError as error:
        raise InputError(
            "To read a Hugging Face dataset, Fairmargin needs the package datasets, which is not installed. Install "
            "it: pip install 'fairmargin[huggingface]'"
        ) from error
    return datasets  # type: ignore[no-any-return]


def _read(library: ModuleType, path: Path) -> Any:
    if not path.is_dir():
        raise InputError(f"There is no folder {path} (looked in {Path.cwd()}). Check the path.")
    try:
        return library.load_from_disk(str(path))
    except Exception as error:  # missing files, damaged JSON and damaged Arrow files raise different exceptions
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(
            f"{path} is not a folder written by `save_to_disk` of datasets, or it is damaged ({reason})."
        ) from error


def _one_split(path: Path, data: Any, split: str | None) -> Any:
    if hasattr(data, "column_names") and isinstance(data.column_names, dict):  # a DatasetDict
        if split is None:
            raise InputError(f"{path} holds several splits. Choose one with `split`. {there_are(data)}")
        if split not in data:
            raise InputError(f"{path} has no split {split!r}. {suggest(split, data)}")
        data = data[split]
    elif split is not None:
        raise InputError(f"{path} holds a single split, but {split!r} was requested. Leave `split` out.")
    if not len(data):
        raise InputError(f"{path} holds no rows; expected at least one.")
    return data


def _labels(library: ModuleType, path: Path, data: Any, label: str) -> tuple[npt.NDArray[Any], tuple[str, ...]]:
    feature, values = data.features[label], list(data[label])
    is_numbered = isinstance(feature, library.ClassLabel)
    missing = [place for place, value in enumerate(values) if value is None or (is_numbered and value < 0)]
    if missing:  # test sets with hidden labels use −1
        raise InputError(
            f"{path}: label {label!r} is missing in {len(missing):,} of {len(values):,} rows, first in row "
            f"{missing[0]:,}. Choose another split, or drop these rows."
        )
    column = np.array(values)
    if column.ndim != 1:
        raise InputError(f"{path}: label {label!r} holds several values per row ({feature}); expected one class.")
    return class_numbers(str(path), column, feature.names if is_numbered else ())


def _column(library: ModuleType, data: Any, name: str) -> npt.NDArray[Any]:
    feature, values = data.features[name], list(data[name])
    if isinstance(feature, library.ClassLabel):
        values = [None if value is None or value < 0 else feature.names[value] for value in values]
    return np.array(values)


def _encoded(path: Path, data: Any, image: str) -> EncodedImages:
    def read() -> Iterator[tuple[int, str, bytes]]:
        for place, row in enumerate(data):
            yield place, f"in row {place:,}", _content(path, place, row[image])

    return EncodedImages(str(path), len(data), read)


def _content(path: Path, place: int, cell: Any) -> bytes:
    if cell is None:
        raise InputError(f"{path} has no image in row {place:,}. Drop the row.")
    content, file = cell["bytes"], cell["path"]
    if content is not None:
        return bytes(content)
    try:
        return Path(file).read_bytes()
    except (OSError, TypeError) as error:
        raise InputError(
            f"{path} only refers to the image in row {place:,} ({file}), which does not exist. Save the dataset again "
            "where the images exist; `save_to_disk` then embeds them."
        ) from error
