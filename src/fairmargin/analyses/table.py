"""What all results share: one row per group of a partition, read by position or name, printed, tabulated and kept."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from fairmargin.core import codec
from fairmargin.errors import InputError
from fairmargin.inference.estimate import Estimate
from fairmargin.presentation.html import section_html
from fairmargin.presentation.section import Section

if TYPE_CHECKING:
    import pandas as pd


class GroupRow(Protocol):
    """A row of a result: what was found of one group."""

    @property
    def group(self) -> str:
        """The name of the group."""


Row = TypeVar("Row", bound=GroupRow)


class GroupTable(ABC, Generic[Row]):
    """Mixin without fields for results: frozen dataclasses with `FORMAT`, `partition` and a tuple of `groups`.

    A result declares the type of its rows again in `groups`: the JSON codec reads it from there. In a notebook a result
    shows the sentences and tables of its section.
    """

    __slots__ = ()

    FORMAT: ClassVar[codec.Format]
    partition: str
    groups: tuple[Row, ...]

    @property
    @abstractmethod
    def title(self) -> str:
        """What the result is about, in half a sentence."""

    @abstractmethod
    def section(self) -> Section:
        """Return what console and report show: sentences, tables and the data of figures."""

    @abstractmethod
    def finding(self, row: Row) -> str:
        """Return what was found of one group, as a sentence."""

    @abstractmethod
    def records(self) -> list[dict[str, Any]]:
        """Return the rows of `to_frame`, every number in a column of its own."""

    def sentences(self) -> list[str]:
        """Return everything that a reader should know: the sentences of the section, each once."""
        shown = self.section()
        sentences = (shown.answer, *shown.sentences, *shown.findings, *shown.notes, *shown.cautions)
        return list(dict.fromkeys(filter(None, sentences)))

    def contradiction(self) -> str:
        """Return why these values cannot be a stored result; empty if they can."""
        return "" if self.groups else "there are no groups"

    def __iter__(self) -> Iterator[Row]:
        return iter(self.groups)

    def __getitem__(self, group: str) -> Row:
        for row in self.groups:
            if row.group == group:
                return row
        names = ", ".join(repr(row.group) for row in self.groups)
        raise InputError(f"Partition {self.partition!r} has no group {group!r}; it has {names}.")

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per group, every number in a column of its own."""
        import pandas as pd  # loading it takes longer than most commands that need no table

        return pd.DataFrame(self.records())

    def to_json(self) -> str:
        """Return a JSON text from which `from_json` makes the same value again."""
        return codec.to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the value that `to_json` wrote."""
        return codec.from_json(cls, text)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for other programs: every field, each group's finding, and the sentences."""
        content: dict[str, Any] = codec.encode(self)
        for row, plain in zip(self.groups, content["groups"], strict=True):
            plain["finding"] = self.finding(row)
        return {"format": self.FORMAT.version, **content, "sentences": self.sentences()}

    def __str__(self) -> str:
        return "\n".join([self.title, *(f"  {sentence}" for sentence in self.sentences())])

    def _repr_html_(self) -> str:
        return section_html(self.section())


def columns_of(row: Any, names: tuple[str, ...]) -> Mapping[str, Any]:
    """Return fields of a row as columns; an estimate takes three, its value and both limits."""
    columns: dict[str, Any] = {}
    for name in names:
        value = getattr(row, name)
        if isinstance(value, Estimate):
            columns |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
        else:
            columns[name] = value
    return columns
