"""Evaluate a network between epochs: accuracy on validation data, natural and robust, and distances of groups."""

import math
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from fairmargin.attacks.catalog import parse_attack
from fairmargin.attacks.robust_accuracy import attack_samples
from fairmargin.core.arrays import Bools, Floats
from fairmargin.core.partition import Partition
from fairmargin.core.progress import Count, silent
from fairmargin.data.dataset import Dataset
from fairmargin.distances.catalog import parse_estimator
from fairmargin.distances.measure import measure
from fairmargin.errors import InputError
from fairmargin.models.protocol import encode_labels
from fairmargin.models.torch_model import TorchClassifier
from fairmargin.training.parts.controllers import TRAINING


@dataclass(frozen=True, slots=True)
class Accuracies:
    """Accuracies on validation data: of all samples, and of the worst group."""

    natural: float = math.nan
    robust: float = math.nan
    worst_natural: float = math.nan
    worst_robust: float = math.nan


@dataclass(frozen=True, slots=True, eq=False)
class Watch:
    """The data and settings of the evaluation between epochs.

    `training` and `validation` are data and groups; validation data are optional. `classes` are the label values in the
    order of the scores. Without a radius there is no attack; `per_group` limits the samples of each group.
    """

    training: tuple[Dataset, Partition]
    validation: tuple[Dataset, Partition] | None
    classes: tuple[Any, ...]
    attack: str
    radius: float
    per_group: int
    seed: int

    def classifier(self, module: nn.Module) -> TorchClassifier:
        """Return the network as a classifier, for measuring."""
        return TorchClassifier(module, self.classes, self.training[0].domain)

    def fingerprint(self) -> str:
        """Return a hash of all data, groups and domains."""
        digest = sha256()
        for dataset, partition in filter(None, (self.training, self.validation)):
            parts = (dataset.fingerprint, dataset.domain.fingerprint(), partition.name, partition.labels)
            digest.update(repr(parts).encode() + partition.membership.tobytes())
        return digest.hexdigest()

    def accuracies(self, module: nn.Module, progress: Count = silent) -> Accuracies:
        """Return the current accuracies; `progress` is called with the number of samples done."""
        if self.validation is None:
            return Accuracies()
        x, y, groups = _choose(*self.validation, self.per_group, self.seed)
        model = self.classifier(module)
        if not self.radius:
            correct = model.predict(x) == encode_labels(model, y)
            return Accuracies(natural=float(correct.mean()), worst_natural=_worst(correct, groups))
        attack = parse_attack(self.attack)
        found = attack_samples(model, x, y, attack, radius=self.radius, seed=self.seed, progress=progress)
        withstood = found.unreached
        return Accuracies(
            float(found.correct.mean()),
            float(withstood.mean()),
            _worst(found.correct, groups),
            _worst(withstood, groups),
        )

    def survey(self, module: nn.Module, on: str, estimator: str, per_group: int, progress: Count = silent) -> Floats:
        """Return Rob(P) of every group of the training partition, on training or validation data."""
        if on != TRAINING and self.validation is None:
            raise InputError(
                "The method looks for vulnerable groups on validation data, but none were given. Give `validation`."
            )
        dataset, partition = self.training if on == TRAINING or self.validation is None else self.validation
        x, y, groups = _choose(dataset, partition, per_group, self.seed)
        found = measure(self.classifier(module), x, y, parse_estimator(estimator), seed=self.seed, progress=progress)
        reached = found.values[np.isfinite(found.values)]
        # Samples without a distance count as far as the farthest other, so that no group is vulnerable because of them.
        values = np.minimum(found.values, reached.max() if reached.size else 1.0)
        names = self.training[1].labels
        means = {label: float(values[mask].mean()) for label, mask in groups}
        missing = [name for name in names if name not in means]
        if missing:
            raise InputError(
                f"The validation data have no sample of group {missing[0]!r}, whose robustness the method needs."
            )
        return np.array([means[name] for name in names])


def _choose(
    dataset: Dataset, partition: Partition, per_group: int, seed: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Partition]:
    """Return at most `per_group` samples of each group, always the same."""
    chosen = []
    for label, mask in partition:
        members = np.flatnonzero(mask)
        if len(members) > per_group:
            random = np.random.default_rng([seed % 2**63, *label.encode()])
            members = random.choice(members, per_group, replace=False)
        chosen.append(members)
    which = np.sort(np.concatenate(chosen))
    return np.asarray(dataset.x[which]), dataset.y[which], partition.take(which)


def _worst(holds: Bools, groups: Partition) -> float:
    """Return the smallest share of a group."""
    return min(float(holds[mask].mean()) for _, mask in groups)
