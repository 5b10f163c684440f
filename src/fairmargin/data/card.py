"""What is known of a dataset before it is loaded, and how one is asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fairmargin.core.progress import Progress
from fairmargin.core.suggestion import suggest
from fairmargin.data.dataset import Dataset
from fairmargin.errors import InputError

Split = Literal["all", "train", "test"]
SPLITS: tuple[Split, ...] = ("all", "train", "test")


@dataclass(frozen=True, slots=True)
class OfficialFile:
    """A file as its makers publish it.

    Parameters
    ----------
    name
        Its path below the dataset's folder.
    url
        Where it can be had; empty if its makers ask for a form or a login.
    md5, sha256
        Checksums, as far as they are known.
    """

    name: str
    url: str = ""
    md5: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """What a person should know of a dataset before using it; `fairmargin data NAME` shows it.

    Parameters
    ----------
    title
        One line.
    classes
        What the labels are, in words.
    groups
        The attributes by which groups can be formed.
    split
        How train and test are told apart, and whose choice that is.
    licence, ethics, citation
        Sentences.
    files
        What to put into the folder that `root` names.
    tasks
        What can be predicted, the default first; empty if there is only one task.
    sized
        Whether the samples are images that `size` can resize.
    flattened
        Whether the rows are square pictures, one pixel after the other.
    samples
        How many labelled samples the complete dataset has, for its first task; 0 where that is not said.
    shape
        Of one sample as its makers publish it; empty where that is not said.
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
    """What of a dataset is wanted; checked against its card before a loader sees it.

    Parameters
    ----------
    split
        Which samples.
    root
        The folder or archive with the files; None where there is none, or to look in the usual place.
    task
        One of the card's tasks; "" if it has none.
    size
        Images of size × size pixels; None as they are.
    progress
        Told of work that takes long.
    """

    split: Split = "all"
    root: Path | None = None
    task: str = ""
    size: int | None = None
    progress: Progress | None = None

    def tell(self, what: str, done: int, total: int) -> None:
        """Report progress to whoever listens."""
        if self.progress is not None:
            self.progress(what, done, total)


Loader = Callable[[Request], Dataset]


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the catalog."""

    card: Card
    load: Loader


def checked_request(
    name: str, card: Card, split: str, root: Path | None, task: str | None, size: int | None, progress: Progress | None
) -> Request:
    """Return a request that the dataset can meet, or raise a sentence that says what it has instead."""
    if split not in SPLITS:
        raise InputError(f"Unknown split {split!r} of {name}. Expected one of {', '.join(SPLITS)}.")
    if task and task not in card.tasks:
        what = (
            f"Unknown task {task!r} of {name}. {suggest(task, card.tasks)}"
            if card.tasks
            else (f"Dataset {name!r} has one task only ({card.classes}); given task {task!r}. Leave it out.")
        )
        raise InputError(what)
    if size is not None and not card.sized:
        raise InputError(f"Dataset {name!r} holds no images that could be resized; given size {size}. Leave it out.")
    if size is not None and not 1 <= size <= 4096:
        raise InputError(f"`size` is the width and height of the images in pixels, 1 to 4,096; given {size}.")
    if root is not None and not Path(root).exists():
        raise InputError(f"There is nothing at {root} (root of {name}; looked in {Path.cwd()}). Check the path.")
    return Request(split, None if root is None else Path(root), task or next(iter(card.tasks), ""), size, progress)
