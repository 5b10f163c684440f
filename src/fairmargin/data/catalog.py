"""The datasets by name."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from fairmargin.core.suggestion import suggest
from fairmargin.data.dataset import Dataset
from fairmargin.data.digits import Split, load_digits_dataset
from fairmargin.data.files import load_file
from fairmargin.data.reading import is_readable
from fairmargin.data.scaling import Bounds, Scale
from fairmargin.errors import InputError

Loader = Callable[[Split, Path | None], Dataset]  # which split, and the folder that holds the files if there are any

DATASETS: Mapping[str, Loader] = {
    "digits": load_digits_dataset,
}


def load(
    name: str | Path,
    *,
    root: Path | None = None,
    split: str = "all",
    label: str | None = None,
    attributes: Sequence[str] = (),
    features: Sequence[str] | None = None,
    scale: Scale | None = None,
    bounds: Bounds | None = None,
) -> Dataset:
    """A dataset of the catalog by its name, or of the user's by the path of its file.

    `root` and `split` are for the catalog, the others for files: see `load_file`.

    >>> len(load("digits", split="train"))
    1078
    >>> load("digit")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: Unknown dataset 'digit'. Did you mean 'digits'? There are: digits. For a file of ...
    """
    text = str(name)
    if text in DATASETS:
        if label is not None or attributes or features is not None or scale is not None or bounds is not None:
            raise InputError(
                f"Dataset {text!r} brings its own label, attributes, features, scale and bounds; these options are for "
                "files. Leave them out."
            )
        return DATASETS[text](cast(Split, split), root)
    path = Path(name)
    if not is_readable(text) and not path.exists():
        raise InputError(
            f"Unknown dataset {text!r}. {suggest(text, DATASETS)} For a file of your own, give its path with its "
            "ending, such as people.csv."
        )
    if split != "all":
        raise InputError(f"A file has no splits, but {split!r} of {path} was asked. Give each split a file of its own.")
    return load_file(path, label=label, attributes=attributes, features=features, scale=scale, bounds=bounds)
