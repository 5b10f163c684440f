"""A paper to be reproduced: its claims, and parts of its experiments, each of which tests some of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from fairmargin.core.progress import Progress
from fairmargin.core.suggestion import suggest
from fairmargin.engine.local import Serial
from fairmargin.engine.task import Engine
from fairmargin.errors import FairmarginError, InputError
from fairmargin_papers.shared.claims import Claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fairmargin_papers.shared.original import Original

Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)
_Chosen = TypeVar("_Chosen")


class NotPossibleHereError(FairmarginError):
    """A part lacks what it needs, such as a dataset. The message is the reason why its claims are not tested."""


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """The arguments of a part.

    Parameters
    ----------
    scale
        "smoke", "laptop" or "paper".
    folder
        Folder of the part, in which it stores what it needs to continue. It is created when first used.
    claims
        The paper's claims by number, as printed.
    progress
        Called with (name of the step, units done, total units).
    engine
        Where trainings and measurements run. The numbers do not depend on it.
    root
        Folder of the datasets; the user's cache if None.
    used
        List to which studies append what they used, see `used_in`.
    """

    scale: Scale
    folder: Path
    claims: Mapping[int, Claim]
    progress: Progress
    engine: Engine = field(default_factory=Serial)
    root: Path | None = None
    used: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)

    def by_scale(self, smoke: _Chosen, laptop: _Chosen, paper: _Chosen) -> _Chosen:
        """Return the one of three values that belongs to the scale."""
        return {"smoke": smoke, "laptop": laptop, "paper": paper}[self.scale]


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A figure of the page, with the name of its file and its caption."""

    name: str
    caption: str
    figure: "Figure"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the page, with its name in the JSON file, its caption, and all cells as text.

    >>> Table("small", "One row.", ("a", "b"), (("1", "2"),)).rows
    (('1', '2'),)
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"Table {self.name!r} has {len(self.columns)} columns, and a row of {len(row)} cells.")


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """Result of a part: rows of claims, figures, notes on what was run, and tables."""

    claims: tuple[Claim, ...]
    pictures: tuple[Picture, ...] = ()
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A part of a paper's experiments, which is run by itself.

    Parameters
    ----------
    name
        Name of its folder.
    title
        Name for progress messages.
    numbers
        Numbers of the claims that it tests. It must return at least one row for each.
    run
        Runs the part, or raises `NotPossibleHereError`. It stores results that take long in its folder, so that a
        second run continues where the first stopped.
    originals
        Returns the studies of the scale "paper", whose data, networks and weights must all be available.
    differences
        Differences from the printed experiments at the scale "paper", in sentences.
    """

    name: str
    title: str
    numbers: frozenset[int]
    run: Callable[[Assignment], Findings]
    originals: Callable[[], "Sequence[Original]"] = tuple
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Paper:
    """A paper of the catalog.

    Parameters
    ----------
    name
        Short name.
    title, reference
        Heading of the page, and the bibliographic reference below it.
    claims
        All claims, as printed.
    parts
        Parts of the experiments, in the order in which they are run.
    waiting
        Reasons, by number, why claims that no part tests are not tested; the others get a general reason.
    """

    name: str
    title: str
    reference: str
    claims: tuple[Claim, ...]
    parts: tuple[Part, ...]
    waiting: Mapping[int, str]

    def __post_init__(self) -> None:
        known = {claim.number for claim in self.claims}
        for part in self.parts:
            if part.numbers - known:
                raise ValueError(f"{self.name} has no claim {sorted(part.numbers - known)} for part {part.name!r}.")

    @property
    def by_number(self) -> dict[int, Claim]:
        """All claims by their numbers."""
        return {claim.number: claim for claim in self.claims}


def parse_scale(text: str) -> Scale:
    """Return a scale by its name.

    >>> parse_scale("smoke")
    'smoke'
    """
    for scale in SCALES:
        if scale == text:
            return scale
    raise InputError(f"There is no scale {text!r}. {suggest(text, SCALES)}")
