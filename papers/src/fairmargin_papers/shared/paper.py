"""A paper as it is run here: its claims, and the parts that each answer some of them."""

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
    """A part lacks what it needs, a dataset for instance: its claims stay untested with this sentence as the reason."""


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """What a part is given to work with.

    Parameters
    ----------
    scale
        "smoke", "laptop" or "paper".
    folder
        A folder of the part's own, for what it wants to find again after an interruption; made when first used.
    claims
        The paper's claims by number, as printed.
    tell
        Called with (what is being done, how much is done, of how much).
    engine
        Where trainings and measurements run; the numbers do not depend on it.
    root
        Where the datasets lie; the user's cache if None.
    used
        What studies were carried out with is noted here, see `used_in`.
    """

    scale: Scale
    folder: Path
    claims: Mapping[int, Claim]
    tell: Progress
    engine: Engine = field(default_factory=Serial)
    root: Path | None = None
    used: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)

    def by_scale(self, smoke: _Chosen, laptop: _Chosen, paper: _Chosen) -> _Chosen:
        """Return the one of three values that belongs to the scale."""
        return {"smoke": smoke, "laptop": laptop, "paper": paper}[self.scale]


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A figure of the page: the name of its file, what it shows, and how it is drawn."""

    name: str
    caption: str
    figure: "Figure"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the page, ours beside the printed: its name for programs, what it shows, and all cells as text.

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
    """What a part found: rows of the claims' table, pictures, sentences on what was run, and further tables."""

    claims: tuple[Claim, ...]
    pictures: tuple[Picture, ...] = ()
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A piece of a paper's experiments that is run, kept and drawn on its own.

    Parameters
    ----------
    name
        Of its folder.
    title
        What it does, for progress and page.
    numbers
        The claims that it answers; each part must give at least one row for each.
    run
        Does the work, or raises `NotPossibleHereError`. What takes long it keeps in its folder, so that a second run
        goes on where the first stopped.
    originals
        Return the studies of the scale "paper", all of whose data, networks and weights must be there.
    differences
        What differs from the printed experiments at the scale "paper", in sentences.
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
        Its short name.
    title, reference
        For the page.
    claims
        Every claim, as printed.
    parts
        What is run, in this order.
    waiting
        Why claims that no part answers are not tested, by number; for the others there is a general sentence.
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
        """The printed claims."""
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
