"""The datasets by name."""

from collections.abc import Sequence
from pathlib import Path

from fairmargin.core.catalog import Catalog
from fairmargin.core.progress import Progress
from fairmargin.core.suggestion import suggest
from fairmargin.data.card import Entry, checked_request
from fairmargin.data.dataset import Dataset
from fairmargin.data.files import load_file
from fairmargin.data.reading import is_readable
from fairmargin.data.scaling import Bounds, Scale
from fairmargin.errors import InputError

# A new dataset is one line here; the `Entry` (card and loader) stands at the end of its file.
DATASETS: Catalog[Entry] = Catalog(
    "dataset",
    "fairmargin.data",
    {
        "digits": "digits:ENTRY",
        "cifar10": "cifar:CIFAR10_ENTRY",
        "cifar100": "cifar:CIFAR100_ENTRY",
        "cifar100-super": "cifar:CIFAR100_SUPER_ENTRY",
        "mnist": "mnist:MNIST_ENTRY",
        "fashion-mnist": "mnist:FASHION_MNIST_ENTRY",
        "utkface": "utkface:ENTRY",
        "adience": "adience:ENTRY",
        "adult": "adult:ENTRY",
        "compas": "compas:ENTRY",
        "german-credit": "german_credit:ENTRY",
        "toy-three-classes": "synthetic:THREE_CLASSES_ENTRY",
        "toy-round-cross": "synthetic:ROUND_CROSS_ENTRY",
        "gaussian-pair": "synthetic:GAUSSIAN_PAIR_ENTRY",
        "gaussian-classes": "synthetic:GAUSSIAN_CLASSES_ENTRY",
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
    """Load a dataset of the catalog by its name, or your own by the path of its file.

    Parameters
    ----------
    name
        A name of the catalog (`fairmargin list datasets`), or a path.
    root
        The folder or archive with the dataset's files; by default looked for in the user's cache folder.
    split
        "train", "test" or "all"; how they are cut, `fairmargin data NAME` says.
    task
        What is to be predicted, for datasets that have several tasks.
    size
        Width and height of images, resized on load.
    label, attributes, features, scale, bounds
        For files of the user's: see `load_file`.
    progress
        Called with (what, done, total) while files are decoded for the first time.

    >>> len(load("digits", split="train"))
    1078
    >>> load("digit")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: Unknown dataset 'digit'. Did you mean 'digits'? There are: digits, ...
    """
    text = str(name)
    if text in DATASETS:
        if label is not None or attributes or features is not None or scale is not None or bounds is not None:
            raise InputError(
                f"Dataset {text!r} brings its own label, attributes, features, scale and bounds; these options are for "
                "files. Leave them out."
            )
        entry = DATASETS[text]
        return entry.load(checked_request(text, entry.card, split, root, task, size, progress))
    path = Path(name)
    if not is_readable(text) and not path.exists():
        raise InputError(
            f"Unknown dataset {text!r}. {suggest(text, DATASETS)} For data of your own, give the path of a file with "
            f"its ending, such as people.csv, or of a folder of images; looked in {Path.cwd()}."
        )
    if split != "all":
        raise InputError(f"A file has no splits, but {split!r} of {path} was asked. Give each split a file of its own.")
    return load_file(path, label=label, attributes=attributes, features=features, scale=scale, bounds=bounds)
