"""A Hugging Face `datasets` folder with images, as `save_to_disk` writes it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.progress import Progress
from fairmargin.core.suggestion import suggest, there_are
from fairmargin.data.cache import cached
from fairmargin.data.card import Request
from fairmargin.data.dataset import Dataset
from fairmargin.data.decoding import EncodedImages, decode_images
from fairmargin.data.images import image_dataset
from fairmargin.data.labelling import numbered
from fairmargin.data.sources import Source
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
    """Images of a folder that `datasets.Dataset.save_to_disk` (or `DatasetDict.save_to_disk`) wrote.

    Guarantee: nothing is downloaded and no code of the dataset runs; images are decoded once, a few at a time, and
    mapped into memory from then on, with pixels in [0, 1].

    Parameters
    ----------
    path
        The folder.
    label, image
        The columns with the label and with the image. The names of a `ClassLabel` are the class names.
    attributes
        The columns by which groups can be formed.
    split
        Which split, if the folder holds several.
    size
        Width and height, resized on load; needed if the images differ in size.
    progress
        Called with (what, done, total) while images are decoded for the first time.
    """
    path = Path(path)
    if isinstance(attributes, str):
        raise InputError("`attributes` is a list of column names; given a single text.")
    library = _datasets()
    data = _one_split(path, _read(library, path), split)
    for role, name in (("image", image), ("label", label), *(("attribute", name) for name in attributes)):
        if name not in data.column_names:
            raise InputError(f"{path} has no column {name!r} ({role}). {suggest(name, data.column_names)}")
    if not isinstance(data.features[image], library.Image):
        raise InputError(f"Column {image!r} of {path} holds no images but {data.features[image]}. Name another one.")
    for name in (label, *attributes):
        if hasattr(data.features[name], "decode_example"):  # reading it would run a decoder that datasets chooses
            raise InputError(
                f"Column {name!r} of {path} holds files ({type(data.features[name]).__name__}), not labels or "
                "attributes. Name another one."
            )
    labels, names = _labels(library, path, data, label)
    encoded = _encoded(path, data.select_columns([image]).cast_column(image, library.Image(decode=False)), image)
    request = Request(progress=progress)
    arrays = cached(
        "huggingface",
        {
            "source": Source(path).checksum(),
            "split": split,
            "image": image,
            "size": size,
            "revision": _REVISION,
        },
        lambda writer: decode_images(writer, encoded, size=size, tell=request.tell, keep_grey=True),
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
    except Exception as error:  # a missing file, damaged JSON, damaged Arrow: each has its own exception
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(
            f"{path} is no folder that `save_to_disk` of datasets wrote, or it is damaged ({reason})."
        ) from (error)


def _one_split(path: Path, data: Any, split: str | None) -> Any:
    if hasattr(data, "column_names") and isinstance(data.column_names, dict):  # a DatasetDict
        if split is None:
            raise InputError(f"{path} holds several splits. Name one with `split`. {there_are(data)}")
        if split not in data:
            raise InputError(f"{path} has no split {split!r}. {suggest(split, data)}")
        data = data[split]
    elif split is not None:
        raise InputError(f"{path} holds a single split, but {split!r} was asked. Leave `split` out.")
    if not len(data):
        raise InputError(f"{path} holds no rows.")
    return data


def _labels(library: ModuleType, path: Path, data: Any, label: str) -> tuple[npt.NDArray[Any], tuple[str, ...]]:
    feature, values = data.features[label], list(data[label])
    is_numbered = isinstance(feature, library.ClassLabel)
    missing = [place for place, value in enumerate(values) if value is None or (is_numbered and value < 0)]
    if missing:  # −1 is how test sets with secret labels say so
        raise InputError(
            f"{path}: label {label!r} is missing in {len(missing):,} of {len(values):,} rows, first in row "
            f"{missing[0]:,}. Take another split, or drop these rows."
        )
    column = np.array(values)
    if column.ndim != 1:
        raise InputError(f"{path}: label {label!r} holds several values a row ({feature}); expected one class.")
    return numbered(str(path), column, feature.names if is_numbered else ())


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
            f"{path} only refers to the image in row {place:,} ({file}), and it is not there. Save the dataset anew "
            "where the images are; `save_to_disk` then embeds them."
        ) from error
