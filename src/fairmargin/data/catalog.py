"""The datasets by name."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fairmargin.core.suggestion import suggest
from fairmargin.data import adience, adult, cifar, compas, digits, german_credit, mnist, synthetic, utkface
from fairmargin.data.card import Entry, Progress, checked_request
from fairmargin.data.dataset import Dataset
from fairmargin.data.files import load_file
from fairmargin.data.reading import is_readable
from fairmargin.data.scaling import Bounds, Scale
from fairmargin.errors import InputError

# A new dataset is one line here.
DATASETS: Mapping[str, Entry] = {
    "digits": Entry(digits.CARD, digits.load_digits_dataset),
    "cifar10": Entry(cifar.CIFAR10, cifar.load_cifar10),
    "cifar100": Entry(cifar.CIFAR100, cifar.load_cifar100),
    "cifar100-super": Entry(cifar.CIFAR100_SUPER, cifar.load_cifar100_super),
    "mnist": Entry(mnist.MNIST, mnist.load_mnist),
    "fashion-mnist": Entry(mnist.FASHION_MNIST, mnist.load_fashion_mnist),
    "utkface": Entry(utkface.CARD, utkface.load_utkface),
    "adience": Entry(adience.CARD, adience.load_adience),
    "adult": Entry(adult.CARD, adult.load_adult),
    "compas": Entry(compas.CARD, compas.load_compas),
    "german-credit": Entry(german_credit.CARD, german_credit.load_german_credit),
    "toy-three-classes": Entry(synthetic.THREE_CLASSES, synthetic.load_three_classes),
    "toy-round-cross": Entry(synthetic.ROUND_CROSS, synthetic.load_round_cross),
    "gaussian-pair": Entry(synthetic.GAUSSIAN_PAIR, synthetic.load_gaussian_pair),
    "gaussian-classes": Entry(synthetic.GAUSSIAN_CLASSES, synthetic.load_gaussian_classes),
}


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
    """A dataset of the catalog by its name, or of the user's by the path of its file.

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
