"""Robust accuracy of each group: its accuracy under an attack at a fixed radius."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairmargin.analyses.robust_accuracy import COUNTS_SAMPLES, RobustAccuracy, accuracy_under_attack
from fairmargin.attacks.catalog import ATTACKS
from fairmargin.attacks.outcomes import attack_shard, check_radius
from fairmargin.attacks.protocol import Attack, check_attack, is_attack
from fairmargin.core.arrays import Ints, is_number, same_length
from fairmargin.core.distances import Distances, concatenate
from fairmargin.core.keys import check_seed
from fairmargin.core.partition import Partition, check_partition
from fairmargin.core.progress import Count
from fairmargin.core.radius import as_radii
from fairmargin.distances.measure import check_samples, reported, shard_size
from fairmargin.errors import InputError
from fairmargin.inference.settings import AuditSettings
from fairmargin.models.as_classifier import as_classifier, is_model
from fairmargin.models.protocol import Classifier, encode_labels, in_model_order

_NAMED = 5  # maximum number of classes named in a warning


def robust_accuracy(
    model: object,
    x: Any,
    y: Any,
    attack: Attack,
    partition: Partition,
    *,
    radius: Any,
    settings: AuditSettings | None = None,
    seed: int = 0,
    progress: Count | bool | None = None,
) -> RobustAccuracy:
    """Compute the natural, boundary and robust error of every group at a radius, with intervals, tests and verdicts.

    The robust error is the sum of the natural error (samples misclassified without an attack) and the boundary error
    (samples misclassified under the attack only). Results of the attack are verified with the original model, and
    results outside of the ball or the box raise an error.

    Guarantee: the true robust accuracy is at most the returned value, however weak the attack. The outcome of a sample
    does not depend on other samples.

    Parameters
    ----------
    model
        Any model that `as_classifier` accepts. To set a domain, pass the result of `as_classifier`.
    x, y
        Samples of any shape (n, …), and their labels, which are values of the model's `classes`.
    attack
        Attack of `fm.ATTACKS`, for instance `fm.ATTACKS["pgd"](steps=40)`, or an own attack with the same protocol.
    partition
        Groups of the samples.
    radius
        Maximum length of a perturbation in units of the domain's scale: a number, a text such as "4/255", or one number
        per sample.
    settings
        Settings of the comparison of groups, as in `audit`.
    seed
        Seed of all random numbers, together with the content of each sample.
    progress
        Callback that is called with (samples done, total samples) after each shard, or True for a progress bar, False
        for none. By default, a progress bar in a terminal.

    >>> from dataclasses import dataclass
    >>> from fairmargin.core.norm import Norm
    >>> @dataclass(frozen=True)
    ... class Leftwards:
    ...     norm: Norm = Norm.L2
    ...     needs, norms, revision = "predict", {Norm.L2}, 1
    ...     def __call__(self, model, x, y, *, radius, keys):
    ...         return x - np.array([radius, 0.0])
    >>> x, sex = np.array([[1.0, 0.0], [3.0, 0.0], [-2.0, 0.0], [-5.0, 0.0]]), Partition.by("sex", ["F", "M", "F", "M"])
    >>> found = robust_accuracy(([1.0, 0.0], 0.0), x, [1, 1, 0, 1], Leftwards(), sex, radius=2)
    >>> [(row.group, row.wrong, row.fooled, row.withstood) for row in found]
    [('F', 0, 1, 1), ('M', 1, 0, 1)]
    """
    _check_order(model=model, x=x, y=y, attack=attack, partition=partition, radius=radius, settings=settings)
    chosen = settings or AuditSettings()
    _check_lengths(x, partition, chosen)
    check_partition(partition)
    classifier = as_classifier(model)
    outcome, warnings = _attack(classifier, x, y, attack, radius, seed, progress)
    found = accuracy_under_attack(
        outcome.correct,
        outcome.unreached,
        partition,
        chosen,
        attack=spelled(attack),
        norm=outcome.norm,
        radius=radius,
        bound=outcome.bound,
    )
    return replace(
        found,
        warnings=(
            *found.warnings,
            *warnings,
            *unseen_classes(classifier.classes, encode_labels(classifier, y), "the samples"),
        ),
    )


def attack_samples(
    model: object,
    x: Any,
    y: Any,
    attack: Attack,
    *,
    radius: Any,
    seed: int = 0,
    progress: Count | bool | None = None,
) -> Distances:
    """Attack samples and return the outcomes as upper bounds of distances, `inf` where the attack found nothing.

    The parameters are those of `robust_accuracy`.
    """
    _check_order(model=model, x=x, y=y, attack=attack, radius=radius)
    return _attack(as_classifier(model), x, y, attack, radius, seed, progress)[0]


def _attack(
    classifier: Classifier,
    x: Any,
    y: Any,
    attack: Attack,
    radius: Any,
    seed: int,
    progress: Count | bool | None,
) -> tuple[Distances, tuple[str, ...]]:
    """Return the result of `attack_samples` and warnings about the model."""
    check_attack(classifier, attack)
    check_seed(seed)
    named = in_model_order(classifier, x)
    samples = named if hasattr(named, "shape") else np.asarray(named)
    checked = check_samples(classifier, samples, y)
    classifier, positions = checked.model, checked.positions
    radii = as_radii(radius, len(positions))
    features = math.prod(samples.shape[1:])
    check_radius(classifier.domain, attack.norm, float(radii.max()), features)
    size = shard_size(classifier, features, len(positions))
    parts = []
    with reported(progress) as report:
        for start in range(0, len(positions), size):
            part = slice(start, start + size)
            parts.append(attack_shard(classifier, attack, samples[part], positions[part], radii[part], seed, start))
            report(min(start + size, len(positions)), len(positions))
    return concatenate(parts), checked.warnings


def _check_order(**given: object) -> None:
    """Raise an error if arguments are given in the wrong order."""
    kinds = {name: _kind(value) for name, value in given.items()}
    if getattr(given["x"], "ndim", 0) == 1 and getattr(given["y"], "ndim", 0) > 1:
        kinds |= {"x": "y", "y": "x"}
    misplaced = [f"`{name}` is {_NOUNS[kind]}" for name, kind in kinds.items() if kind not in ("", name)]
    if misplaced:
        first = ", ".join(name for name in given if name not in ("radius", "settings"))
        raise InputError(
            f"{', '.join(misplaced)}: are arguments swapped? Expected {first}, in this order, and radius=…"
            f"{', settings=…' if 'settings' in given else ''}."
        )


_NOUNS = {
    "model": "a model",
    "x": "an array of several dimensions, as samples are",
    "y": "an array of one dimension, as labels are",
    "attack": "an attack",
    "partition": "a partition",
    "radius": "a number",
    "settings": "an `AuditSettings`",
}


def _kind(value: object) -> str:
    """Return the name of the only parameter that accepts a value; an empty text if several do."""
    if isinstance(value, Partition):
        return "partition"
    if isinstance(value, AuditSettings):
        return "settings"
    if is_attack(value):
        return "attack"
    if is_number(value):
        return "radius"
    return "model" if is_model(value) else ""


def _check_lengths(x: Any, partition: Partition, settings: AuditSettings) -> None:
    """Raise an error before the attack if groups, strata or clusters are not given for every sample."""
    if not hasattr(x, "__len__"):
        return  # the check of the samples raises an error
    same_length(x=x, partition=partition)
    if settings.control is not None:
        same_length(x=x, control=settings.control)
    settings.cluster_codes(len(x))
    settings.refuse_weights(COUNTS_SAMPLES)


def spelled(attack: Attack) -> str:
    """Return an attack's text form with all fields that differ from the default.

    For an attack that is not in the catalog, the name of its class is returned.

    >>> spelled(ATTACKS.build("pgd", {"steps": 40}))
    'pgd:steps=40'
    """
    name = ATTACKS.name_of(attack)
    if name is None:
        return type(attack).__name__
    usual, given = ATTACKS.describe(type(attack)()), ATTACKS.describe(attack)
    fields = [f"{field}={value}" for field, value in given.items() if value != usual[field]]
    return f"{name}:{','.join(fields)}" if fields else name


def unseen_classes(classes: Sequence[Any], positions: Ints, whose: str) -> tuple[str, ...]:
    """Return a warning if some classes of the model do not occur among the labels, and an empty tuple otherwise.

    A frequent cause is a network built for too many classes. A sample for which such a class is predicted is
    misclassified.

    Parameters
    ----------
    classes
        Label values in the order of the model's outputs.
    positions
        Position of each sample's label in `classes`.
    whose
        Name of the samples in the warning, for instance "the training data".

    >>> unseen_classes((0, 1, 2), np.array([0, 1, 1]), "the samples")[0]
    'The model tells 3 classes apart, and the samples have 2 of them: none is of class 2. Was it built for these data?'
    """
    seen = set(np.unique(positions).tolist())
    absent = [str(label) for position, label in enumerate(classes) if position not in seen]
    if not absent:
        return ()
    named = ", ".join(absent[:_NAMED]) + (f" and {len(absent) - _NAMED:,} more" if len(absent) > _NAMED else "")
    return (
        f"The model tells {len(classes):,} classes apart, and {whose} have {len(seen):,} of them: none is of class "
        f"{named}. Was it built for these data?",
    )
