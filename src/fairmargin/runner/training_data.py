"""Load the samples of a training, keep validation data apart, and build the network."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from fairmargin.core.arrays import Bools, Ints
from fairmargin.core.domain import Domain
from fairmargin.core.options import Options
from fairmargin.core.partition import Partition
from fairmargin.core.progress import Progress, silent
from fairmargin.core.suggestion import suggest
from fairmargin.data.card import SPLITS
from fairmargin.data.catalog import DATASETS
from fairmargin.data.dataset import Dataset
from fairmargin.data.loading import load_data, sampled_by
from fairmargin.errors import InputError, ModelError
from fairmargin.models.architectures.catalog import ARCHITECTURES, build_architecture
from fairmargin.models.loading import load_model
from fairmargin.models.normalized import Normalized
from fairmargin.models.reading.weights import load_weights
from fairmargin.models.references import References, drawn, fingerprint_of
from fairmargin.models.torch_model import from_torch
from fairmargin.runner.cases import Subject
from fairmargin.study.grid import Member
from fairmargin.study.options import DataOptions, GroupOptions, ModelOptions, TrainOptions
from fairmargin.study.study import ARCHITECTURE

_Loaded = TypeVar("_Loaded")

VALIDATION = "validation"
"""Name for the samples that a training keeps apart, in place of a split or a file."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingData:
    """The samples to train on, and those for validation.

    Parameters
    ----------
    training, validation
        Samples with labels as the positions of classes, where these are named.
    outputs
        Number of scores that the network gives.
    """

    training: Dataset
    validation: Dataset | None
    outputs: int


@dataclass(slots=True, eq=False)
class DataLoader:
    """Loads samples for the members of a study, each part once.

    Parameters
    ----------
    progress
        Called with the kind of work, the number of finished parts and the number of all parts.
    drawn
        Fingerprints of the references that were returned.
    """

    progress: Progress = silent
    drawn: list[str] = field(default_factory=list)
    _known: dict[str, Any] = field(default_factory=dict)

    def training(self, member: Member) -> TrainingData:
        """Return the samples on which a member is trained, and those for validation."""
        assert member.train is not None
        train = member.train
        parts = (member.data, member.groups, train.validation, train.method_groups)
        return self._once(parts, lambda: load_training_data(member.data, member.groups, train, self.progress))

    def audited(self, member: Member) -> Dataset:
        """Return the samples on which a trained member is measured."""
        assert member.train is not None
        groups, asked = member.groups, member.audited
        data = self.training(member)
        parts = (member.data, groups, member.train.validation, member.train.method_groups, asked)
        if asked.audit_on == VALIDATION:
            assert data.validation is not None
            whole, by = data.validation, sampled_by(member.data, groups)
            return self._once(
                parts, lambda: whole.sample(asked.audit_per_group, by) if asked.audit_per_group else whole
            )
        if not asked.audit_on and member.data.data not in DATASETS:
            raise InputError(
                "{audit_epochs} needs data that were not trained on: name them with {audit_on}, or write {audit_on} "
                "validation.",
                others=("audit_epochs", "audit_on"),
            )
        place, limit = asked.audit_on or "test", asked.audit_per_group
        return self._once(
            parts,
            lambda: load_beside(member.data, groups, place, data.training, self.progress, per_group=limit),
        )

    def references(self, subject: Subject) -> References:
        """Return the samples to which searches fall back, unless they were given.

        They depend on the content of all samples alone, so that shards, engines and restarts use the same.
        """
        found = subject.references
        if found is None:
            found = self._once(("references", subject.dataset.fingerprint), lambda: self._drawn(subject))
        self.drawn.append(fingerprint_of(found))
        return found

    def _drawn(self, subject: Subject) -> References:
        def report(done: int, total: int) -> None:
            self.progress("choosing references", done, total)

        return drawn(subject.dataset.x, subject.positions, progress=report)

    def _once(self, parts: tuple[Any, ...], load: Callable[[], _Loaded]) -> _Loaded:
        key = repr([part.plain() if isinstance(part, Options) else part for part in parts])
        if key not in self._known:
            self._known[key] = load()
        found: _Loaded = self._known[key]
        return found


def method_groups(groups: GroupOptions, train: TrainOptions) -> GroupOptions:
    """Return the groups that the method treats: those it names, or else the first that are compared.

    >>> method_groups(GroupOptions(group="sex"), TrainOptions(epochs=1, method_groups="race & sex")).cross
    (('race', 'sex'),)
    """
    parts = tuple(part.strip() for part in train.method_groups.split("&") if part.strip())
    if parts:
        return GroupOptions(cross=(parts,)) if len(parts) > 1 else GroupOptions(group=parts)
    return GroupOptions(group=groups.group[:1]) if groups.group else GroupOptions(cross=groups.cross[:1])


def load_training_data(
    data: DataOptions, groups: GroupOptions, train: TrainOptions, progress: Progress = silent
) -> TrainingData:
    """Load the samples to train on; validation data are a fixed share of them, or data of their own.

    The default split of a named dataset is "train".
    """
    split = data.split or ("train" if data.data in DATASETS else "all")
    data = data.model_copy(update={"split": split})
    treated = method_groups(groups, train)
    further = tuple(name for name in treated.named_columns if name not in ("class", *groups.named_columns))
    loading = groups.model_copy(update={"group": (*groups.group, *further)})
    whole = prepared(load_data(data, loading, progress=progress), treated, data.class_names)
    if len(np.unique(whole.y)) < 2:
        only = whole.labels[0]
        raise InputError(
            f"The data have one class only, {only!s}: there is nothing to tell apart. Check the label column."
        )
    _check_labels(whole)
    named = len(whole.class_names) or len(data.class_names)
    outputs = named or (int(whole.y.max()) + 1 if whole.y.dtype.kind in "iu" else len(np.unique(whole.y)))
    share = train.share
    if share is None:
        return TrainingData(whole, load_beside(data, loading, train.validation.strip(), whole, progress), outputs)
    if not share:
        return TrainingData(whole, None, outputs)
    kept = held_out(whole.y, whole.partition(groups_name(treated, data.label)), share)
    if not kept.any():
        raise InputError(
            f"{{validation}} {train.validation} keeps a part of every class apart, and no class has 2 samples: there "
            f"are {len(whole):,} samples of as many classes. Raise {{per_group}}, write {{validation}} 0, or check the "
            "label column.",
            others=("validation", "per_group"),
        )
    return TrainingData(whole.take(~kept), whole.take(kept), outputs)


def groups_name(groups: GroupOptions, label: str = "") -> str:
    """Return the name of the partition of a method; the class if none is named."""
    if groups.cross and not groups.group:
        return " & ".join(groups.cross[0])
    named = groups.group[0] if groups.group else "class"
    return "class" if named == label else named


def _check_labels(dataset: Dataset) -> None:
    """Refuse labels that are measurements: almost all values differ, so that there are no classes."""
    y = dataset.y
    if y.dtype.kind != "f":
        return
    fractions, values = y[y % 1 != 0], len(np.unique(y))
    if fractions.size and 2 * values > len(y):
        raise InputError(
            f"The label is a number that was measured ({fractions[0]:g}, for instance; {values:,} different ones among "
            f"{len(y):,} samples), and a network tells classes apart. Check --label, or make classes of it first: "
            "above and below a threshold, say."
        )


def load_beside(
    data: DataOptions,
    groups: GroupOptions,
    place: str,
    training: Dataset,
    progress: Progress = silent,
    *,
    per_group: int = 0,
) -> Dataset:
    """Load further data of the same kind: another split of the dataset, or another file, with the same classes."""
    known = data.data in DATASETS
    if place in SPLITS and not known:
        raise InputError(f"{data.data} has no split {place!r}: a file has none. Give a file of its own.")
    if not place or (place not in SPLITS and not Path(place).exists()):
        words = f"a split ({', '.join(SPLITS)}) or " if known else ""
        raise InputError(f"There is no file {place!r}. Expected {words}a file or folder; looked in {Path.cwd()}.")
    where = {"split": place} if place in SPLITS else {"data": place, "split": "all", "root": ""}
    further = load_data(data.model_copy(update={**where, "per_group": per_group}), groups, progress=progress)
    found = prepared(further, groups, training.class_names)
    if found.x.shape[1:] != training.x.shape[1:] or found.feature_names != training.feature_names:
        raise InputError(
            f"{place} has {_features(found)}, but the training data have {_features(training)}. They must be the same, "
            "in the same order: choose the columns with --features."
        )
    return found


def prepared(dataset: Dataset, groups: GroupOptions, class_names: tuple[str, ...] = ()) -> Dataset:
    """Return the data in the form for training: names of classes as positions, crossed groups as an attribute.

    Images without limits are limited to [0, 1], as in an audit.
    """
    y, names = dataset.y, dataset.class_names
    if y.dtype.kind in "US":
        names = class_names or tuple(map(str, np.unique(y)))
        y = _positions(y, names)
    attributes = dict(dataset.attributes)
    for crossed in groups.cross:
        first, *others = (dataset.partition(name) for name in crossed)
        for other in others:
            first = first & other
        attributes[" & ".join(crossed)] = np.array(first.labels)[first.membership]
    pixels = len(dataset.x.shape) == 4 and not dataset.domain.is_bounded
    domain = Domain(0, 1, dataset.domain.scale) if pixels else dataset.domain
    same = y is dataset.y
    return Dataset(
        dataset.x,
        y,
        attributes,
        domain,
        dataset.name,
        dataset.fingerprint if same else "",
        dataset.feature_names,
        dataset.notes,
        names,
    )


def held_out(y: npt.NDArray[Any], groups: Partition, share: float) -> Bools:
    """Return a mask of the samples kept for validation: the share of every class and of every group in it.

    Guarantee: a class of two samples or more has one on each side, and its part is the share, rounded; the seed is
    fixed, so that trainings of different seeds are validated on the same samples.

    >>> y = np.repeat([0, 1], 50)
    >>> kept = held_out(y, Partition.by("class", y), 0.1)
    >>> np.bincount(y[kept]).tolist()
    [5, 5]
    """
    # RandomState, not Generator: numpy promises that its stream never changes.
    order: Ints = np.random.RandomState(0).permutation(len(y))
    kept = np.zeros(len(y), dtype=np.bool_)
    for label in np.unique(y):
        members = order[y[order] == label]
        members = members[np.argsort(groups.membership[members], kind="stable")]
        count = min(max(round(share * len(members)), 1), len(members) - 1)
        # Even steps through the members, which are sorted by group, take the same share of each group.
        kept[members[((np.arange(count) + 0.5) * len(members) / max(count, 1)).astype(np.int64)]] = True
    return kept


def build_network(options: ModelOptions, place: str, data: TrainingData, seed: int) -> nn.Module:
    """Return the network before its first step, initialised by the seed, with its normalisation as first layer.

    Parameters
    ----------
    options
        The network; `weights` replace the initial weights.
    place
        Name of the data, for errors.
    data
        The samples of the training.
    seed
        Seed of the initial weights.
    """
    shape = tuple(map(int, data.training.x.shape[1:]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if options.model.startswith(ARCHITECTURE):
            name = options.model.removeprefix(ARCHITECTURE)
            _check_pictures(name, place, data.training)
            network: object = build_architecture(name, shape, data.outputs)
            if options.weights:
                assert isinstance(network, nn.Module)
                load_weights(network, Path(options.weights), trust=options.trust_model, user="the data")
        else:
            network = load_model(options.model, trust=options.trust_model, weights=options.weights)
    if not isinstance(network, nn.Module):
        raise ModelError(
            f"{options.model!r} is a `{type(network).__name__}`; what is trained is a torch network. Name one, or a "
            "function that makes it."
        )
    mean, std, device = options.mean or None, options.std or None, options.device or None
    return from_torch(network, classes=range(data.outputs), mean=mean, std=std, device=device).module


def _check_pictures(name: str, place: str, dataset: Dataset) -> None:
    """Refuse a network for images if samples are rows of numbers: adjacent columns are not adjacent pixels.

    Datasets of the catalog whose card marks the rows as flattened images are accepted.
    """
    features = dataset.x.shape[1:]
    if len(features) != 1 or name not in ARCHITECTURES or not ARCHITECTURES[name].images:
        return
    if place in DATASETS and DATASETS[place].card.flattened:
        return
    raise ModelError(
        f"`{name}` takes images, and {place} holds rows of {features[0]:,} numbers: adjacent columns of a table are "
        "not adjacent pixels. Use `logistic`, or a network of your own (--model path/to/file.py:make); if the rows are "
        "images, save them as an array `x` of the shape (samples, channels, height, width)."
    )


def weights_of(module: nn.Module) -> nn.Module:
    """Return the network without the normalisation around it; its weights are stored."""
    inner = module.model if isinstance(module, Normalized) else module
    assert isinstance(inner, nn.Module)
    return inner


def _positions(y: npt.NDArray[Any], names: tuple[str, ...]) -> Ints:
    at = {name: position for position, name in enumerate(names)}
    unknown = [label for label in map(str, np.unique(y)) if label not in at]
    if unknown:
        raise InputError(f"Label {unknown[0]!r} is none of the classes. {suggest(unknown[0], names)}")
    return np.array([at[str(label)] for label in y], dtype=np.int64)


def _features(dataset: Dataset) -> str:
    return ", ".join(dataset.feature_names) if dataset.feature_names else f"samples of shape {dataset.x.shape[1:]}"
