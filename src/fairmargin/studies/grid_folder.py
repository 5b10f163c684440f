"""A study on disk: what of it is done, so that nothing is done twice.

RUN/study.toml     what was asked last
RUN/tasks/         one file for each finished task: what its result rests on, where it lies, how long it took
RUN/trainings/     one folder for each network, see `TrainingFolder`
RUN/shards/        distances and outcomes of attacks
RUN/compared/      groups compared, with intervals
RUN/results.csv    the same as one table; RUN/report.html, as one page; RUN/failures.txt, what could not be done and why
"""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairmargin.core.distances import Distances, concatenate
from fairmargin.core.keys import content_hash
from fairmargin.errors import StoreError, visible
from fairmargin.store.atomic import atomic_write_text, cannot_write
from fairmargin.store.folder import Store
from fairmargin.store.received import files_below, folders_below, read_plain, refuse_links
from fairmargin.studies.grid import TRAIN, Cell, GridTask
from fairmargin.training.checkpoints import FINAL

STUDY, RESULTS, REPORT, FAILURES = "study.toml", "results.csv", "report.html", "failures.txt"
_OTHERS = ("study.json", "attack_study.json", "training_run.json")


@dataclass(frozen=True, slots=True)
class Record:
    """A task that is done.

    Parameters
    ----------
    kind, name, key
        The task's.
    origin
        A hash of the content that its result rests on: data, and files of weights.
    seconds
        How long it took.
    work
        Passes for each sample times samples, as they were guessed.
    setting
        Data and architecture: what a pass costs depends on them.
    shards
        Where what was measured lies, in the order of the samples.
    folder
        Of a training, below RUN/trainings.
    epochs, best_epoch
        Of a training: how many there were, and the best of them, 0 for none.
    """

    kind: str
    name: str
    key: str
    origin: str
    seconds: float
    work: float
    setting: str
    shards: tuple[str, ...] = ()
    folder: str = ""
    epochs: int = 0
    best_epoch: int = 0


@dataclass(frozen=True, slots=True)
class GridFolder:
    """RUN of a study."""

    path: Path

    @property
    def report(self) -> Path:
        """The page."""
        return self.path / REPORT

    def open(self) -> Store:
        """The store, in a folder that belongs to studies alone."""
        for name in _OTHERS:
            if (self.path / name).exists():
                what = "a training" if name == "training_run.json" else "an audit or attacks"
                raise StoreError(f"{self.path} holds {what}. Choose another --out for the study.")
        refuse_links([*folders_below(self.path), *files_below(self.path / "trainings")])
        store = Store.open(self.path, create=True)
        for name in ("tasks", "trainings", "compared"):
            try:
                (self.path / name).mkdir(exist_ok=True)
            except OSError as error:
                raise cannot_write(self.path / name, error) from error
        return store

    def training(self, cell: Cell, origin: str) -> Path:
        """Where a network lies: named by all that it depends on, the content of its data too."""
        words = (cell.data.name, cell.network.name, cell.method, str(cell.seed))
        slug = "-".join(re.sub(r"[^A-Za-z0-9.]+", "_", word).strip("_")[:24] for word in words)
        return self.path / "trainings" / f"{slug}-{content_hash({'cell': cell.key, 'origin': origin})[:12]}"

    def read(self, key: str) -> Record | None:
        """The record of a task; None if it is not done, or if the record cannot be read."""
        try:
            content: dict[str, Any] = json.loads(read_plain(self.path / "tasks" / f"{key}.json"))
            return Record(**content | {"shards": tuple(content["shards"])})
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None  # doing it again finds what is there, and writes the record anew

    def write(self, record: Record) -> None:
        """Keep that a task is done."""
        atomic_write_text(self.path / "tasks" / f"{record.key}.json", json.dumps(asdict(record), indent=1) + "\n")

    def done(self, task: GridTask) -> Record | None:
        """The record of a task whose result is there; neither data nor shards are looked into."""
        record = self.read(task.key)
        if record is None:
            return None
        if task.kind == TRAIN:
            return record if (self.path / "trainings" / record.folder / FINAL).is_file() else None
        if not (self.path / "store.json").is_file():
            return None
        return record if record.shards and all(map(Store(self.path).has, record.shards)) else None

    def records(self) -> list[Record]:
        """Of every finished task, whatever study it was for."""
        found = (self.read(path.stem) for path in sorted((self.path / "tasks").glob("*.json")))
        return [record for record in found if record is not None]

    def distances(self, record: Record) -> Distances:
        """What was measured."""
        store = Store.open(self.path, create=False)
        return concatenate([store.read(key) for key in record.shards])

    def write_failures(self, lines: Sequence[str]) -> None:
        """Say what could not be done; no file where all could."""
        path = self.path / FAILURES
        if lines:
            text = "\n\n".join(lines)
            atomic_write_text(path, "\n".join(map(visible, text.split("\n"))) + "\n")
        else:
            path.unlink(missing_ok=True)
