"""Catalog of the datasets that can be loaded by name."""

from collections.abc import Sequence
from pathlib import Path

from fairmargin.core.catalog import Catalog
from fairmargin.core.progress import Progress
from fairmargin.core.suggestion import suggest
from fairmargin.data.card import Entry, checked_request
from fairmargin.data.dataset import Dataset
from fairmargin.data.formats.features import Bounds, Scale
from fairmargin.data.formats.files import is_readable, load_file
from fairmargin.errors import InputError
from fairmargin.store.paths import as_path

# To add a dataset, add one line here; its `Entry` (card and loader) is at the end of its file.
DATASETS: Catalog[Entry] = Catalog(
    "dataset",
    "fairmargin.data",
    {
        "digits": "sets.digits:ENTRY",
        "cifar10": "sets.cifar:CIFAR10_ENTRY",
        "cifar100": "sets.cifar:CIFAR100_ENTRY",
        "cifar100-super": "sets.cifar:CIFAR100_SUPER_ENTRY",
        "mnist": "sets.mnist:MNIST_ENTRY",
        "fashion-mnist": "sets.mnist:FASHION_MNIST_ENTRY",
        "utkface": "sets.utkface:ENTRY",
        "adience": "sets.adience:ENTRY",
        "adult": "sets.adult:ENTRY",
        "compas": "sets.compas:ENTRY",
        "german-credit": "sets.german_credit:ENTRY",
        "toy-three-classes": "sets.synthetic:THREE_CLASSES_ENTRY",
        "toy-round-cross": "sets.synthetic:ROUND_CROSS_ENTRY",
        "gaussian-pair": "sets.synthetic:GAUSSIAN_PAIR_ENTRY",
        "gaussian-classes": "sets.synthetic:GAUSSIAN_CLASSES_ENTRY",
    },
)


def load(
    name: str | Path,
    *,
    root: Path | None = None,
    split: str = "all",
    task: str | None = None,
    size: int | None = None,
    label: str | None = None,
    attributes: Sequence[str] = (),
    features: Sequence[str] | None = None,
    scale: Scale | None = None,
    bounds: Bounds | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Load a dataset from the catalog by name, or from your own file by path.

    Parameters
    ----------
    name
        Name in the catalog (`fairmargin list datasets`), or path of a file.
    root
        Folder or archive with the files of the dataset; by default they are searched in the user's cache folder.
    split
        "train", "test" or "all"; `fairmargin data NAME` describes the split.
    task
        What to predict, for datasets with several tasks.
    size
        Width and height to which images are resized.
    label, attributes, features, scale, bounds
        Only for your own files: see `load_file`.
    progress
        Called with (description, done, total) while files are decoded for the first time.

    >>> len(load("digits", split="train"))
    1078
    >>> load("digit")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: Unknown dataset 'digit'. Did you mean 'digits'? There are: digits, ...
    """
    path, text = as_path(name, "name"), str(name)
    if text in DATASETS:
        if label is not None or attributes or features is not None or scale is not None or bounds is not None:
            raise InputError(
                f"Dataset {text!r} defines its own label, attributes, features, scale and bounds; these options "
                "are for files. Leave them out."
            )
        entry = DATASETS[text]
        return entry.load(checked_request(text, entry.card, split, root, task, size, progress))
    if not is_readable(text) and not path.exists():
        raise InputError(
            f"Unknown dataset {text!r}. {suggest(text, DATASETS)} For your own data, give the path of a file with "
            f"its ending, such as people.csv, or of a folder of images; looked in {Path.cwd()}."
        )
    if split != "all":
        raise InputError(f"A file has no splits, but split {split!r} of {path} was requested. Use one file per split.")
    return load_file(path, label=label, attributes=attributes, features=features, scale=scale, bounds=bounds)
