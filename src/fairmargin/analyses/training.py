"""Course of a training: loss and accuracy of every epoch, and the best epoch."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from fairmargin.analyses.table import GroupTable, columns_of
from fairmargin.core.codec import Format
from fairmargin.presentation.formatting import percent, plain, quoted, table_percent
from fairmargin.presentation.section import Cell, Column, Courses, Line, Section, Table

_NUMBERS = ("loss", "rate", "accuracy", "worst_accuracy", "natural", "worst_natural", "robust", "worst_robust")
_TICKS = 20  # epochs that are named on the axis


@dataclass(frozen=True, slots=True)
class EpochRow:
    """One epoch of a training."""

    group: str  # the number of the epoch, counted from 1
    loss: float
    rate: float
    accuracy: float  # on the samples as the network learned from them: clean, attacked or noisy
    worst_group: str
    worst_accuracy: float
    natural: float = math.nan  # on validation data
    worst_natural: float = math.nan
    robust: float = math.nan  # on validation data under attack
    worst_robust: float = math.nan


@dataclass(frozen=True, slots=True)
class TrainingCourse(GroupTable[EpochRow]):
    """Loss and accuracy of every epoch of a training.

    Parameters
    ----------
    partition
        "epoch": the rows are epochs, not groups.
    groups
        The epochs.
    by
        The partition whose worst group is named.
    best
        The epoch with the best worst group on validation data; empty without such data.
    watched
        Name of the attack on validation data; empty if there was none.
    stopped
        Why the training ended before its last epoch; empty if it did not.
    classes
        Names of the classes in the order of the network's outputs, where they have names.
    """

    FORMAT: ClassVar[Format] = Format(1, "training", "Run `fairmargin train` again")

    partition: str
    groups: tuple[EpochRow, ...]
    by: str
    best: str = ""
    watched: str = ""
    stopped: str = ""
    classes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The data of the accuracies."""
        return f"Accuracy, on validation data attacked by {self.watched}" if self.watched else "Accuracy"

    def contradiction(self) -> str:
        """Return why these values cannot be a stored result; a training that diverged at once may have no epochs."""
        known = [row.group for row in self.groups]
        return f"there is no epoch {self.best!r}" if self.best and self.best not in known else ""

    def finding(self, row: EpochRow) -> str:
        """Return loss and accuracy of an epoch as a sentence."""
        text = f"Epoch {plain(row.group)}: loss {row.loss:.4f}, accuracy {percent(row.accuracy)}, of the worst group "
        text += f"({quoted(row.worst_group)}) {percent(row.worst_accuracy)}"
        for where, share, worst in (
            ("on validation data", row.natural, row.worst_natural),
            ("there under attack", row.robust, row.worst_robust),
        ):
            text += "" if math.isnan(share) else f"; {where} {percent(share)}, worst group {percent(worst)}"
        return text + "."

    def records(self) -> list[dict[str, Any]]:
        """Return one row per epoch; `last` and `best` say which of them these were."""
        return [
            {
                "partition": self.partition,
                "group": row.group,
                **columns_of(row, (*_NUMBERS, "worst_group")),
                "last": row is self.groups[-1],
                "best": row.group == self.best,
                "finding": self.finding(row),
            }
            for row in self.groups
        ]

    def section(self) -> Section:
        """Return the last and the best epoch as a table, and all of them as a figure."""
        cautions = tuple(filter(None, [self.stopped]))
        if not self.groups:
            return Section("Training", cautions=cautions)
        last = self.groups[-1]
        chosen = [row for row in self.groups if row is last or row.group == self.best]
        heads = ["loss", "training", "its worst group"]
        heads += [] if math.isnan(last.natural) else ["validation", "worst group"]
        heads += [] if math.isnan(last.robust) else ["attacked", "worst group attacked"]
        table = Table(
            columns=(Column("epoch", kind="text"), *map(Column, heads)),
            rows=tuple(self._cells(row)[: len(heads) + 1] for row in chosen),
            label="the last and the best epoch",
        )
        figures = (self._courses(),) if len(self.groups) > 1 else ()
        findings = tuple(self.finding(row) for row in self)
        return Section(self.title, findings=findings, cautions=cautions, tables=(table,), figures=figures)

    def _cells(self, row: EpochRow) -> tuple[Cell, ...]:
        names = [name for name, is_it in (("best", row.group == self.best), ("last", row is self.groups[-1])) if is_it]
        shares = (row.accuracy, row.worst_accuracy, row.natural, row.worst_natural, row.robust, row.worst_robust)
        numbers = (f"{row.loss:.4f}", *(table_percent(share, signed=False) for share in shares))
        return (Cell(f"{plain(row.group)} ({' and '.join(names)})"), *map(Cell, numbers))

    def _courses(self) -> Courses:
        x = tuple(float(place) for place in range(len(self.groups)))
        labels = {"accuracy": "training", "natural": "validation", "worst_natural": "validation, worst group"}
        labels |= {"robust": "attacked", "worst_robust": "attacked, worst group"}
        values = {name: tuple(float(getattr(row, name)) for row in self.groups) for name in labels}
        drawn = {labels[name]: y for name, y in values.items() if all(map(math.isfinite, y))}
        names = [row.group for row in self.groups]
        every = math.ceil(len(names) / _TICKS)
        return Courses(
            "Accuracy over the epochs",
            "epoch",
            "accuracy",
            ticks=tuple(plain(name) if i % every == 0 else "" for i, name in enumerate(names)),
            lines=tuple(Line(label, x, y, place=place) for place, (label, y) in enumerate(drawn.items())),
            chosen=names.index(self.best) if self.best else len(names) - 1,
            chosen_label="best" if self.best else "last",
            alt=f"Accuracy after each of {len(names)} epochs.",
        )
