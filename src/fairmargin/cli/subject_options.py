"""Options of every command that takes a model to data: what to look at, and by which groups to compare."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Annotated

import typer

from fairmargin.errors import FairmarginError, InputError

_SUBJECT, _DATA, _MEASURING, _COMPARING = "What to look at", "Data", "Measuring", "Comparing"

Model = Annotated[
    str,
    typer.Option(
        help="A file (.npz with weight and bias, .onnx, .skops, .joblib, .pkl, .pt, .pt2), an import path "
        "(package.module:name or path/to/file.py:name), or arch:NAME with --weights. See `fairmargin list "
        "architectures`.",
        rich_help_panel=_SUBJECT,
    ),
]
Weights = Annotated[
    str,
    typer.Option(
        help="Weights of a torch network: .safetensors, or a checkpoint of tensors (.pt, .pth, .th, .ckpt).",
        rich_help_panel=_SUBJECT,
    ),
]
Mean = Annotated[
    str,
    typer.Option(
        help="What the network's inputs are normalised with: 0.485,0.456,0.406, or one number. Distances and "
        "radii stay in pixels.",
        rich_help_panel=_SUBJECT,
    ),
]
Std = Annotated[str, typer.Option(help="Likewise.", rich_help_panel=_SUBJECT)]
Data = Annotated[
    str,
    typer.Option(
        help="A dataset's name (`fairmargin data`), a file .npz, .csv, .parquet, or a folder or zip of images.",
        rich_help_panel=_SUBJECT,
    ),
]
TrustModel = Annotated[
    bool,
    typer.Option(
        "--trust-model",
        help="Read model files that can run code (.joblib, .pkl, .pt2, whole torch modules): only if you made them "
        "yourself.",
        rich_help_panel=_SUBJECT,
    ),
]
Label = Annotated[str, typer.Option(help="The label column of a table.", rich_help_panel=_DATA)]
Features = Annotated[
    str,
    typer.Option(
        help="Feature columns of a table, with commas; all but label and group columns if left out.",
        rich_help_panel=_DATA,
    ),
]
Scale = Annotated[
    str,
    typer.Option(help="Length of a step: std (of each feature; the default of tables) or none.", rich_help_panel=_DATA),
]
Bounds = Annotated[str, typer.Option(help="Where inputs may lie: low,high, for instance 0,1.", rich_help_panel=_DATA)]
Split = Annotated[
    str, typer.Option(help="all, train or test, for named datasets; all if left out.", rich_help_panel=_DATA)
]
Root = Annotated[str, typer.Option(help="Folder or archive of a named dataset's files.", rich_help_panel=_DATA)]
TaskName = Annotated[
    str, typer.Option(help="What is predicted, for datasets with several tasks.", rich_help_panel=_DATA)
]
Size = Annotated[
    int, typer.Option(help="Resize images to this width and height; 0: as they are.", rich_help_panel=_DATA)
]
Labels = Annotated[
    str,
    typer.Option(
        help="Table (.csv, .parquet) of the labels and attributes of a folder of images; without it, subfolders are "
        "the classes.",
        rich_help_panel=_DATA,
    ),
]
ImageColumn = Annotated[
    str, typer.Option(help="Column of --labels with the file names; 'file' if left out.", rich_help_panel=_DATA)
]
ClassNames = Annotated[
    str,
    typer.Option(
        help="The classes in the order of a network's outputs, with commas, where labels are names; sorted if left "
        "out.",
        rich_help_panel=_DATA,
    ),
]
PerGroup = Annotated[
    int,
    typer.Option(help="At most so many samples of each value of the first --group; 0: all.", rich_help_panel=_DATA),
]
TrainingData = Annotated[
    str,
    typer.Option(
        help="What the model was trained on (a file, or NAME:SPLIT), to warn of samples among it.",
        rich_help_panel=_DATA,
    ),
]
Tile = Annotated[
    int,
    typer.Option(
        help="Samples that a network is given at once; 0: 64. Fewer where memory is short.",
        rich_help_panel=_MEASURING,
    ),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, …; a GPU if there is one.", rich_help_panel=_MEASURING)]
Group = Annotated[
    list[str] | None,
    typer.Option(
        help="Column whose values are the groups; may be repeated. The class if left out.", rich_help_panel=_COMPARING
    ),
]
Cross = Annotated[
    list[str] | None,
    typer.Option(help="Columns to intersect: race,sex; may be repeated.", rich_help_panel=_COMPARING),
]
MergeBelow = Annotated[
    int, typer.Option(help="Merge groups smaller than this into 'other'.", rich_help_panel=_COMPARING)
]
Control = Annotated[
    str,
    typer.Option(
        help="Compare groups inside the values of this column, usually the class.", rich_help_panel=_COMPARING
    ),
]
Cluster = Annotated[
    str,
    typer.Option(help="Column with an id per person, where samples are not independent.", rich_help_panel=_COMPARING),
]
SmallestGroup = Annotated[
    int, typer.Option(help="Fewer independent samples than this give no verdict.", rich_help_panel=_COMPARING)
]
Resamples = Annotated[int, typer.Option(help="Draws by which intervals are simulated.", rich_help_panel=_COMPARING)]
Seed = Annotated[int, typer.Option(help="The same seed gives the same numbers.")]


@contextmanager
def named_as_options(fields: Iterable[str]) -> Iterator[None]:
    """While it lasts, errors about these fields name them as options: `watch_radius` of TrainingPlan is --watch-radius.

    >>> with named_as_options(["std_plus"]):
    ...     raise InputError("`std_plus` must be above 0.")
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: --std-plus must be above 0.
    """
    pattern = rf"`({'|'.join(fields)})`(?: of [A-Z]\w+)?"
    try:
        yield
    except FairmarginError as error:
        said = re.sub(pattern, lambda found: "--" + found[1].replace("_", "-"), str(error))
        raise type(error)(said) from None


def counted(number: int, one: str, many: str) -> str:
    """A number with its noun.

    >>> counted(1, "shard was", "shards were"), counted(1200, "shard was", "shards were")
    ('1 shard was', '1,200 shards were')
    """
    return f"{number:,} {one if number == 1 else many}"


def names_in(text: str) -> tuple[str, ...]:
    """Names with commas between them.

    >>> names_in("race, sex")
    ('race', 'sex')
    """
    return tuple(name.strip() for name in text.split(",") if name.strip())


def numbers_in(text: str, option: str) -> tuple[float, ...]:
    """Numbers with commas between them; fractions are allowed."""
    try:
        return tuple(float(Fraction(part)) if "/" in part else float(part) for part in names_in(text))
    except (ValueError, ZeroDivisionError):
        raise InputError(f"{option} takes numbers with commas, as in 0.485,0.456,0.406; given {text!r}.") from None


def crossed_in(text: str) -> tuple[str, ...]:
    """Two columns or more, to be intersected."""
    names = names_in(text)
    if len(names) < 2:
        raise InputError(f"--cross takes two or more columns, as in race,sex; given {text!r}.")
    return names


def bounds_in(text: str) -> tuple[float, float] | None:
    """The two limits of inputs, or None where nothing was said."""
    if not text:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--bounds takes two numbers, low,high, as in 0,1 or -inf,inf; given {text!r}.") from None
    return low, high
