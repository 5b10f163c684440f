"""From the data section of a study to samples: to train on, kept apart, and those on which all is measured."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from fairmargin.core.arrays import Ints
from fairmargin.core.partition import Partition
from fairmargin.core.progress import Progress
from fairmargin.data.dataset import Dataset
from fairmargin.data.overlap import overlap, overlap_warning
from fairmargin.errors import InputError
from fairmargin.models.referenced import References, drawn
from fairmargin.runner.cases import load_data
from fairmargin.runner.training_data import TrainingData, groups_name, held_out, prepared
from fairmargin.studies.study_sections import DataSection, crossed
from fairmargin.study.options import DataOptions, GroupOptions

# Who is told of loading and training in this process; in a worker of an engine nobody is.
_listener: ContextVar[Progress | None] = ContextVar("listener", default=None)


@contextmanager
def listening(tell: Progress) -> Iterator[None]:
    """Be told how far loading and training are, in this process."""
    token = _listener.set(tell)
    try:
        yield
    finally:
        _listener.reset(token)


def listener() -> Progress | None:
    """Who is told."""
    return _listener.get()


@dataclass(frozen=True, slots=True, eq=False)
class GridSamples:
    """The samples of a data section.

    Parameters
    ----------
    trained
        What is trained on and what is kept apart; None if nothing is trained.
    test
        What is measured.
    outputs
        How many classes there are.
    notes
        Sentences about the data.
    """

    trained: TrainingData | None
    test: Dataset
    outputs: int
    notes: tuple[str, ...]

    @property
    def positions(self) -> Ints:
        """The class of each test sample, as a position among a network's scores."""
        return np.asarray(self.test.y, dtype=np.int64)


@lru_cache(maxsize=64)
def load_samples(data: DataSection, groups: str, trained: bool) -> GridSamples:
    """The samples of a section, `groups` being what is kept whole where some are kept apart for validation."""
    return _read(data, groups, trained, listener())


def _read(data: DataSection, groups: str, trained: bool, tell: Progress | None) -> GridSamples:
    known = _training(data, groups, tell) if trained else None
    names = () if known is None else known.training.class_names
    test = prepared(_load(data, "test", tell), groups_of(groups), names)
    test = test.sample(data.test_per_group, data.by) if data.test_per_group else test
    if known is not None and test.x.shape[1:] != known.training.x.shape[1:]:
        raise InputError(
            f"{data.name}: test samples are of shape {test.x.shape[1:]}, those to train on of shape "
            f"{known.training.x.shape[1:]}. They must be the same."
        )
    for name in data.partitions:
        partition_of(test, data, name)  # says so now if a column is not there
    notes = list(test.notes)
    if known is not None:
        table = len(test.x.shape) == 2
        notes.append(overlap_warning(overlap(test, known.training), table=table))
    return GridSamples(
        known, test, known.outputs if known else _outputs(test), tuple(dict.fromkeys(filter(None, notes)))
    )


def partition_of(dataset: Dataset, data: DataSection, name: str) -> Partition:
    """Groups by an attribute, or by several crossed ("race & sex"); small ones merged as the section says."""
    first, *others = (dataset.partition(part) for part in crossed(name))
    for other in others:
        first = first & other
    return first.merge(smaller_than=data.merge_below) if data.merge_below else first


def too_small(samples: GridSamples, data: DataSection, smallest: int) -> tuple[str, ...]:
    """A sentence on every partition of which some groups have too few samples for a verdict."""
    said = []
    for name in data.partitions:
        sizes = [int(mask.sum()) for _, mask in partition_of(samples.test, data, name)]
        few = sum(size < smallest for size in sizes)
        if few:
            who = "no group reaches" if few == len(sizes) else f"{few} of {len(sizes)} groups do not reach"
            said.append(
                f"By {name!r} {who} {smallest} test samples (`smallest_group`), below which there is no verdict; the "
                f"smallest has {min(sizes)}."
                + (f" `test_per_group` is {data.test_per_group}." if data.test_per_group else "")
            )
    return tuple(said)


@lru_cache(maxsize=64)
def references_of(samples: GridSamples) -> References:
    """Samples for searches to fall back on; they depend on the content of the test samples alone."""
    return drawn(samples.test.x, samples.positions)


def _training(data: DataSection, groups: str, tell: Progress | None) -> TrainingData:
    whole = prepared(_load(data, "train", tell), groups_of(groups))
    whole = whole.sample(data.train_per_group, data.by) if data.train_per_group else whole
    if not data.validation:
        return TrainingData(whole, None, _outputs(whole))
    kept = held_out(whole.y, whole.partition(training_groups(data, groups)), data.validation)
    return TrainingData(whole.take(~kept), whole.take(kept), _outputs(whole))


def _outputs(dataset: Dataset) -> int:
    return len(dataset.class_names) or int(dataset.y.max()) + 1


def _load(data: DataSection, split: str, tell: Progress | None) -> Dataset:
    """Load one part of the data, as an audit would name it."""
    options = DataOptions(task=data.task, size=data.size, root=data.root)
    if not data.is_file:
        return load_data(options.model_copy(update={"data": data.dataset, "split": split}), GroupOptions(), 0, tell)
    names = [part for name in (*data.partitions, data.groups, data.by) for part in crossed(name)]
    columns = tuple(dict.fromkeys(name for name in names if name not in ("class", data.label)))
    path = data.train if split == "train" else data.test
    if not Path(path).exists():
        raise InputError(f"{data.name}: there is no file {path!r}. Check the path.")
    named = {"data": path, "label": data.label, "features": data.features}
    return load_data(options.model_copy(update=named), GroupOptions(group=columns), 0, tell)


def groups_of(name: str) -> GroupOptions:
    """Return the groups of a partition's name: "race & sex" crosses."""
    parts = crossed(name)
    return GroupOptions(cross=(parts,)) if len(parts) > 1 else GroupOptions(group=parts)


def training_groups(data: DataSection, groups: str) -> str:
    """Return the name of the partition that training methods speak of."""
    return groups_name(groups_of(groups))
