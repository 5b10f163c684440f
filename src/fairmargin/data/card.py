"""Cards, which describe datasets before they are loaded, and requests, which say what to load."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fairmargin.core.progress import Progress, silent
from fairmargin.core.suggestion import suggest
from fairmargin.data.dataset import Dataset
from fairmargin.errors import InputError

Split = Literal["all", "train", "test"]
SPLITS: tuple[Split, ...] = ("all", "train", "test")


@dataclass(frozen=True, slots=True)
class OfficialFile:
    """A file of a dataset, as published by its authors.

    Parameters
    ----------
    name
        Path of the file relative to the folder of the dataset.
    url
        Address of the file; empty if the authors require a form or a login.
    md5, sha256
        Published checksums; empty if unknown.
    """

    name: str
    url: str = ""
    md5: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """What users should know about a dataset before they use it; shown by `fairmargin data NAME`.

    Parameters
    ----------
    title
        Name and content of the dataset in one line.
    classes
        Description of the labels.
    groups
        Names of the attributes that can define groups.
    split
        Description of the training and test split, and of its origin.
    licence, ethics, citation
        Terms of use, ethical considerations and reference, as sentences.
    files
        Files that belong in the folder `root`.
    tasks
        Names of the prediction tasks, the default first; empty if there is only one task.
    sized
        Whether the samples are images that can be resized with `size`.
    flattened
        Whether each row is a flattened square image.
    samples
        Number of labelled samples of the complete dataset, for its first task; 0 if not specified.
    shape
        Shape of one sample as published; empty if not specified.
    """

    title: str
    classes: str
    groups: tuple[str, ...]
    split: str
    licence: str
    ethics: str
    citation: str
    files: tuple[OfficialFile, ...] = ()
    tasks: tuple[str, ...] = ()
    sized: bool = False
    flattened: bool = False
    samples: int = 0
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """What to load of a dataset; `checked_request` validates it against the card of the dataset.

    Parameters
    ----------
    split
        The split to load.
    root
        Folder or archive with the files; None for datasets without files, or to search the default folder.
    task
        One of the tasks on the card; "" if the card has none.
    size
        Width and height to which images are resized; None keeps their size.
    progress
        Called with (description, done, total) during long operations.
    """

    split: Split = "all"
    root: Path | None = None
    task: str = ""
    size: int | None = None
    progress: Progress = silent


Loader = Callable[[Request], Dataset]


@dataclass(frozen=True, slots=True)
class Entry:
    """One dataset of the catalog: its card, and the function that loads it."""

    card: Card
    load: Loader


def checked_request(
    name: str, card: Card, split: str, root: Path | None, task: str | None, size: int | None, progress: Progress | None
) -> Request:
    """Return the request if the dataset can fulfil it, else raise an `InputError` that lists the valid values."""
    if split not in SPLITS:
        raise InputError(f"Unknown split {split!r} of {name}. Expected one of {', '.join(SPLITS)}.")
    if task and task not in card.tasks:
        what = (
            f"Unknown task {task!r} of {name}. {suggest(task, card.tasks)}"
            if card.tasks
            else f"Dataset {name!r} has only one task ({card.classes}); given task {task!r}. Leave it out."
        )
        raise InputError(what)
    if size is not None and not card.sized:
        raise InputError(f"Dataset {name!r} has no images that could be resized; given size {size}. Leave it out.")
    check_size(size)
    if root is not None and not Path(root).exists():
        raise InputError(f"There is no file or folder {root} (root of {name}; looked in {Path.cwd()}). Check the path.")
    found = None if root is None else Path(root)
    return Request(split, found, task or next(iter(card.tasks), ""), size, progress or silent)


def check_size(size: int | None) -> None:
    """Refuse an invalid width and height of images; None keeps their size."""
    if size is not None and not 1 <= size <= 4096:
        raise InputError(f"`size`, the width and height of images in pixels, must be 1 to 4,096; given {size}.")
