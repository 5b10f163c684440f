"""Cases: one model on one dataset, checked together and with its groups, or distances that were measured elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.core.suggestion import suggest
from fairmargin.data.dataset import Dataset
from fairmargin.distances.measure import check_samples, model_for, with_references
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.errors import InputError
from fairmargin.inference.settings import AuditSettings, CompareOptions
from fairmargin.models.protocol import Classifier
from fairmargin.models.references import References
from fairmargin.runner.tables import domain_fingerprint
from fairmargin.study.options import GroupOptions
from fairmargin.study.record import About

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A model and the samples on which it is measured, checked together.

    Parameters
    ----------
    model, dataset
        The model and the samples.
    positions
        Position of each label among the classes of the model.
    seed
        Seed of everything random in the measurement.
    references
        Samples to which searches fall back if they find nothing.
    """

    model: Classifier
    dataset: Dataset
    positions: Ints
    seed: int = 0
    references: References | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return tuple(map(int, self.dataset.x.shape[1:]))

    def take(self, rows: Ints) -> "Subject":
        """Return the model with some of the samples."""
        return replace(self, dataset=self.dataset.take(rows), positions=self.positions[rows])

    def model_for(self, estimator: DistanceEstimator, name: str = "") -> Classifier:
        """Return the model in the form that an estimator works on; refuse a model that lacks what it needs."""
        return model_for(self.model, estimator, self.shape, name)

    def given_to(self, estimator: DistanceEstimator) -> Classifier:
        """Return what an estimator is called with: the model in its form, with references if it searches."""
        return with_references(self.model_for(estimator), self.references, estimator)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One model on one dataset, or distances that were measured elsewhere.

    Parameters
    ----------
    model, data
        Descriptions for the report.
    fingerprint
        Hash of the samples.
    columns
        One value per sample, by name: groups, control and clusters are among them.
    partitions
        The groups that are compared.
    groups
        The options by which partitions, control and clusters were formed.
    control, cluster, weights
        The control partition, the column of cluster ids and that of weights, if any.
    seed
        Seed of everything that is random.
    notes
        Sentences for the report.
    domain
        Fingerprint of the domain: distances in other units cannot be compared.
    subject
        The model with the samples; None for imported distances and for trainings.
    imported, ids
        Distances that were measured elsewhere, with an id per sample if there are any.
    about
        What distinguishes the results of this case where a run has several cases, for instance the epoch.
    """

    model: str
    data: str
    fingerprint: str
    columns: Mapping[str, Any]
    partitions: tuple[Partition, ...]
    groups: GroupOptions = field(default_factory=GroupOptions)
    control: Partition | None = None
    cluster: Any = None
    weights: Any = None
    seed: int = 0
    notes: tuple[str, ...] = ()
    domain: str = ""
    subject: Subject | None = None
    imported: Distances | None = None
    ids: npt.NDArray[np.str_] | None = None
    about: About = field(default_factory=About)

    @property
    def measured(self) -> Subject:
        """The model with the samples; an error for imported distances."""
        if self.subject is None:
            raise InputError("Imported distances come without a model: there is nothing to measure.")
        return self.subject

    def settings(self, options: CompareOptions) -> AuditSettings:
        """Return how groups are compared: the numbers of the options, the columns of the case."""
        numbers = {name: getattr(options, name) for name in CompareOptions.model_fields}
        return AuditSettings(
            **numbers, control=self.control, cluster=self.cluster, sample_weight=self.weights, seed=self.seed
        )

    def described(self, options: CompareOptions) -> dict[str, Any]:
        """Return how groups are compared as plain values, from which `compute` makes the same settings again."""
        numbers = {name: getattr(options, name) for name in CompareOptions.model_fields}
        how = {name: value for name, value in numbers.items() if value != CompareOptions.model_fields[name].default}
        names = ("control", "cluster", "sample_weight", "merge_below")
        how |= {name: value for name in names if (value := getattr(self.groups, name))}
        return how | ({"seed": self.seed} if self.seed else {})


def checked_case(
    groups: GroupOptions,
    model: Classifier,
    dataset: Dataset,
    columns: Mapping[str, Any],
    *,
    model_text: str,
    data_text: str,
    seed: int = 0,
    notes: tuple[str, ...] = (),
    later: tuple[str, ...] = (),
) -> Case:
    """Check a model and samples together, and form the groups."""
    partitions, control, cluster, weights = grouped(groups, columns, data_text)
    checked = check_samples(model, dataset.x, dataset.y)
    return Case(
        model=model_text,
        data=data_text,
        fingerprint=dataset.fingerprint,
        columns=columns,
        partitions=partitions,
        groups=groups,
        control=control,
        cluster=cluster,
        weights=weights,
        seed=seed,
        notes=(*notes, *checked.notes, *later),
        domain=domain_fingerprint(checked.model.domain),
        subject=Subject(checked.model, dataset, checked.positions, seed),
    )


def binned(groups: GroupOptions, columns: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the columns with numbers replaced by the groups between stated edges."""
    found = dict(columns)
    for name, edges in groups.bins:
        if name not in groups.named_columns:
            raise InputError(
                f"gives edges for {name!r}, which is not a column of groups. {suggest(name, groups.named_columns)}",
                field="bins",
            )
        found[name] = as_column(Partition.binned(name, _column(name, columns, where, "bins"), edges))
    return found


def as_column(partition: Partition) -> "pd.Series[Any]":
    """Return a partition as a column that keeps the order of its labels."""
    import pandas as pd

    return pd.Series(pd.Categorical.from_codes(partition.membership, categories=pd.Index(partition.labels)))


def grouped(
    groups: GroupOptions, columns: Mapping[str, Any], where: str
) -> tuple[tuple[Partition, ...], Partition | None, Any, Any]:
    """Return the partitions that the options name, the control partition, and the columns of clusters and weights."""
    control = _partition(groups.control, columns, where, "control") if groups.control else None
    cluster = _column(groups.cluster, columns, where, "cluster") if groups.cluster else None
    weights = _column(groups.sample_weight, columns, where, "sample_weight") if groups.sample_weight else None
    if weights is not None:
        AuditSettings(sample_weight=weights)  # refuses what are no weights before anything is measured
    return partitions_of(groups, columns, where), control, cluster, weights


def partitions_of(groups: GroupOptions, columns: Mapping[str, Any], where: str) -> tuple[Partition, ...]:
    """Return the partitions that the options name; the classes if they name none."""
    names = tuple(dict.fromkeys(groups.group)) or (() if groups.cross else ("class",))
    if "class" in names and "class" not in columns:
        there = f"there is no column 'class' in {where}. Its columns: {', '.join(columns)}"
        raise InputError(
            f"names a column that is not there: {there}" if groups.group else f"is missing, and {there}", field="group"
        )
    found = [_partition(name, columns, where, "group") for name in names]
    for crossed in groups.cross:
        first, *others = (_partition(name, columns, where, "cross") for name in crossed)
        for other in others:
            first = first & other
        found.append(first)
    if groups.merge_below:
        found = [partition.merge(smaller_than=groups.merge_below) for partition in found]
    return tuple(found)


def _partition(name: str, columns: Mapping[str, Any], where: str, field: str) -> Partition:
    return Partition.by(name, _column(name, columns, where, field))


def _column(name: str, columns: Mapping[str, Any], where: str, field: str) -> Any:
    """Return a column; `field` is the option that names it."""
    if name not in columns:
        there = f"there is no column {name!r} in {where}. {suggest(name, columns)}"
        raise InputError(f"names a column that is not there: {there}", field=field)
    return columns[name]


def kept_columns(case: Case, groups: GroupOptions) -> dict[str, Any]:
    """Return the columns that a run folder keeps: those that the study names, and the class."""
    wanted = [name for name in dict.fromkeys((*groups.named_columns, "class")) if name in case.columns]
    return {name: case.columns[name] for name in wanted or list(case.columns)[:1]}
