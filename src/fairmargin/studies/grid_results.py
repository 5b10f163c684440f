"""What a study found: networks, distances and outcomes of attacks, by the names of the study's sections."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fairmargin.analyses.audit import AuditResult
from fairmargin.analyses.robust_accuracy import RobustAccuracy
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.core.suggestion import suggest
from fairmargin.data.dataset import Dataset
from fairmargin.errors import FairmarginError, InputError
from fairmargin.models.torch_model import TorchClassifier
from fairmargin.studies.grid import ATTACK, MEASURE, Cell, GridTask, cells_of, epoch_of
from fairmargin.studies.grid_choice import cell_meant, task_meant
from fairmargin.studies.grid_comparing import Compared, Comparison
from fairmargin.studies.grid_folder import GridFolder, Record
from fairmargin.studies.grid_samples import GridSamples, partition_of, too_small
from fairmargin.studies.grid_work import network_at
from fairmargin.studies.study_file import StudyFile
from fairmargin.studies.study_training import BEST, LAST


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """A task that could not be done, why, how many others wait for it, and where an unexpected error arose."""

    name: str
    reason: str
    waiting: int = 0
    trace: str = ""

    def __str__(self) -> str:
        also = f" ({self.waiting} tasks need it)" if self.waiting else ""
        return f"{self.name}{also}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Trained:
    """A network of the grid.

    Parameters
    ----------
    cell
        Data, network, method and seed, with their sections.
    folder
        Where its checkpoints lie; None for one that came with its weights.
    epochs, best_epoch
        How many there were, and the best of them; 0 for none.
    """

    cell: Cell
    folder: Path | None
    epochs: int = 0
    best_epoch: int = 0

    @property
    def data(self) -> str:
        """The name of its data."""
        return self.cell.data.name

    @property
    def network(self) -> str:
        """The name of its section."""
        return self.cell.network.name

    @property
    def architecture(self) -> str:
        """Its architecture."""
        return self.cell.network.architecture

    @property
    def method(self) -> str:
        """The name of its method; "as given" if it came with its weights."""
        return self.cell.method

    @property
    def seed(self) -> int:
        """Of its training."""
        return self.cell.seed

    def classifier(self, epoch: str | int = LAST) -> TorchClassifier:
        """The network after an epoch, ready to be measured."""
        return network_at(self.cell, self.folder, epoch_of(self.cell, epoch))

    def history(self) -> pd.DataFrame:
        """One row an epoch; none for a network that came with its weights."""
        return pd.DataFrame() if self.folder is None else pd.read_parquet(self.folder / "history.parquet")

    def number_of(self, epoch: str) -> int:
        """The number of an epoch, counted from 1; 0 for a network that came with its weights."""
        return {LAST: self.epochs, BEST: self.best_epoch}.get(epoch) or (int(epoch) if epoch.isdigit() else 0)


def notes_on(study: StudyFile, samples: Mapping[str, GridSamples]) -> tuple[str, ...]:
    """Sentences about the data of a study, and about groups that will get no verdict."""
    sections = [(section, samples[section.name]) for section in study.data if section.name in samples]
    return tuple(
        f"{section.name}: {note}"
        for section, found in sections
        for note in (*found.notes, *too_small(found, section, study.smallest_group))
    )


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """All that a study found; what could not be done is in `failures`, and asking for it says so.

    Parameters
    ----------
    study, folder
        What was asked, and where it lies.
    tasks, records
        All tasks, and the records of those that are done, by key.
    samples
        By the name of the data.
    failures
        What could not be done.
    done_now
        How many tasks were done by this call; the others were there already.
    """

    study: StudyFile
    folder: GridFolder
    tasks: tuple[GridTask, ...]
    records: Mapping[str, Record]
    samples: Mapping[str, GridSamples]
    failures: tuple[TaskFailure, ...] = ()
    done_now: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the data."""
        return notes_on(self.study, self.samples)

    def networks(self) -> tuple[Trained, ...]:
        """Every network that is there, in the order of the study."""
        return tuple(found for cell in cells_of(self.study) if (found := self._trained(cell)) is not None)

    def dataset(self, data: str | None = None) -> Dataset:
        """The test samples of the data of that name."""
        return self.samples[self._data(data)].test

    def partition(self, data: str | None, name: str) -> Partition:
        """Groups of the same samples; "race & sex" crosses."""
        known = self._data(data)
        section = next(section for section in self.study.data if section.name == known)
        return partition_of(self.samples[known].test, section, name)

    def distances(
        self,
        *,
        data: str | None = None,
        architecture: str | None = None,
        method: str | None = None,
        seed: int | None = None,
        epoch: str | int = LAST,
        estimator: str | None = None,
    ) -> Distances:
        """The distances of the test samples; what is left out must be clear from the study."""
        cell = self._cell(data, architecture, method, seed)
        return self.folder.distances(self._record(task_meant(self._on(cell, MEASURE), cell, epoch, estimator, None)))

    def outcome(
        self,
        *,
        data: str | None = None,
        architecture: str | None = None,
        method: str | None = None,
        seed: int | None = None,
        epoch: str | int = LAST,
        attack: str | None = None,
        radius: str | float | None = None,
    ) -> Distances:
        """What came of an attack on the test samples, as `attack_shard` gives it; `inf` where it found nothing."""
        cell = self._cell(data, architecture, method, seed)
        return self.folder.distances(self._record(task_meant(self._on(cell, ATTACK), cell, epoch, attack, radius)))

    def audit(
        self,
        partition: str = "class",
        *,
        data: str | None = None,
        architecture: str | None = None,
        method: str | None = None,
        seed: int | None = None,
        epoch: str | int = LAST,
        estimator: str | None = None,
    ) -> AuditResult:
        """Groups compared by their distances; kept, so that it is calculated once."""
        cell = self._cell(data, architecture, method, seed)
        found = self._comparison(task_meant(self._on(cell, MEASURE), cell, epoch, estimator, None), partition).found()
        assert isinstance(found, AuditResult)
        return found

    def robust_accuracy(
        self,
        partition: str = "class",
        *,
        data: str | None = None,
        architecture: str | None = None,
        method: str | None = None,
        seed: int | None = None,
        epoch: str | int = LAST,
        attack: str | None = None,
        radius: str | float | None = None,
    ) -> RobustAccuracy:
        """Groups compared under attack; kept, so that it is calculated once."""
        cell = self._cell(data, architecture, method, seed)
        found = self._comparison(task_meant(self._on(cell, ATTACK), cell, epoch, attack, radius), partition).found()
        assert isinstance(found, RobustAccuracy)
        return found

    def to_frame(self) -> pd.DataFrame:
        """One row for each network, epoch, estimator or attack, partition and group; what failed has none."""
        frames = []
        for _, task, comparison in self.comparisons():
            try:
                frames.append(self.rows(task, comparison.found()))
            except FairmarginError:
                continue  # it is among the failures
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def comparisons(self) -> Iterator[tuple[str, GridTask, Comparison]]:
        """Every measurement that is there with every partition, and a name that says whose it is."""
        for task in self.tasks:
            if task.measure is not None and task.key in self.records:
                for name in task.cell.data.partitions:
                    yield f"{task.name}, by {name}", task, self._comparison(task, name)

    def rows(self, task: GridTask, found: Compared) -> pd.DataFrame:
        """The rows of a comparison, after columns that say whose they are."""
        return _labelled(found, task, self._trained(task.cell))

    def _trained(self, cell: Cell) -> Trained | None:
        if cell.settings is None:
            return Trained(cell, None)
        record = self.records.get(cell.key)
        if record is None:
            return None
        return Trained(cell, self.folder.path / "trainings" / record.folder, record.epochs, record.best_epoch)

    def _on(self, cell: Cell, kind: str) -> list[GridTask]:
        return [task for task in self.tasks if task.kind == kind and task.cell == cell]

    def _record(self, task: GridTask) -> Record:
        record = self.records.get(task.key)
        if record is not None:
            return record
        why = [each.reason for each in self.failures if each.name in (task.name, task.cell.name)]
        raise InputError(f"There is no result of {task.name}: {why[0] if why else 'it is not done yet.'}")

    def _cell(self, data: str | None, architecture: str | None, method: str | None, seed: int | None) -> Cell:
        return cell_meant(cells_of(self.study), data, architecture, method, seed)

    def _data(self, data: str | None) -> str:
        if data is None and len(self.samples) == 1:
            return next(iter(self.samples))
        if data is None or data not in self.samples:
            raise InputError(f"The study has no data {data!r}. {suggest(str(data), self.samples)}")
        return data

    def _comparison(self, task: GridTask, name: str) -> Comparison:
        assert task.measure is not None
        partition = self.partition(task.cell.data.name, name)
        return Comparison(self.folder, self._record(task), task.measure, partition, self.study.audit_plan())


def _labelled(found: Compared, task: GridTask, trained: Trained | None) -> pd.DataFrame:
    """The rows of a comparison, after columns that say whose they are."""
    measure, cell = task.measure, task.cell
    assert measure is not None
    rows = found.to_frame()
    about = {
        "data": cell.data.name,
        "network": cell.network.name,
        "architecture": cell.network.architecture,
        "method": cell.method,
        "seed": cell.seed,
        "epoch": 0 if trained is None else trained.number_of(measure.epoch),
        "asked_as": ", ".join(measure.words),
        "kind": task.kind,
        "by": measure.section.name,
        "radius": measure.radius if task.kind == ATTACK else math.nan,
        "norm": found.norm.value,
    }
    rest = rows.drop(columns=[name for name in rows.columns if name in (*about, "attack")])
    return pd.concat([pd.DataFrame([about] * len(rows)), rest], axis=1)
