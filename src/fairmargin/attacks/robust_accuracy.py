"""How much of its accuracy a model keeps under attack, group by group."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from fairmargin.analyses.robust_accuracy import RobustAccuracy, accuracy_under_attack
from fairmargin.attacks.catalog import ATTACKS
from fairmargin.attacks.outcomes import attack_shard, check_radius
from fairmargin.attacks.protocol import Attack, check_attack, is_attack
from fairmargin.attacks.unseen import unseen_classes
from fairmargin.core.arrays import is_number, same_length
from fairmargin.core.distances import Distances, concatenate
from fairmargin.core.keys import check_seed
from fairmargin.core.partition import Partition, check_partition
from fairmargin.core.progress import Count
from fairmargin.core.radius import as_radii
from fairmargin.distances.measure import check_samples, reported, shard_size
from fairmargin.errors import InputError
from fairmargin.inference.settings import AuditSettings
from fairmargin.models.as_classifier import as_classifier, is_model
from fairmargin.models.feature_order import in_model_order
from fairmargin.models.protocol import Classifier, encode_labels


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
    """Natural, boundary and robust error of every group at a radius, with intervals, tests and verdicts.

    robust error = natural error + boundary error, exactly. Success is decided by the plain model, asked again; what
    left the ball or the box is refused.

    Guarantee: robust accuracy is at most what is returned, however weak the attack. A sample's outcome depends on
    itself alone.

    Parameters
    ----------
    model
        Anything that `as_classifier` accepts; pass its result to set a domain.
    x, y
        Samples of any shape (n, …), and a label value of the model's `classes` each.
    attack
        One of `fm.ATTACKS`, for instance `fm.ATTACKS["pgd"](steps=40)`, or your own that meets the same protocol.
    partition
        The groups.
    radius
        How far the attack may go: a number, a text such as "4/255", or one a sample; in units of the domain's scale.
    settings
        How groups are compared, as for an audit.
    seed
        From it and the sample's own content comes all randomness of the sample.
    progress
        Called with (samples done, samples in all) after each shard; or True for a bar, False for none. By default a
        bar where someone watches.

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
    outcome, doubts = _attacked(classifier, x, y, attack, radius, seed, progress)
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
            *doubts,
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
    """Which samples withstand an attack, as upper bounds of distances: `inf` where it found nothing in the radius.

    The parameters are those of `robust_accuracy`.
    """
    _check_order(model=model, x=x, y=y, attack=attack, radius=radius)
    return _attacked(as_classifier(model), x, y, attack, radius, seed, progress)[0]


def _attacked(
    classifier: Classifier,
    x: Any,
    y: Any,
    attack: Attack,
    radius: Any,
    seed: int,
    progress: Count | bool | None,
) -> tuple[Distances, tuple[str, ...]]:
    """Return what `attack_samples` returns, and warnings about the model."""
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
    with reported(progress) as tell:
        for start in range(0, len(positions), size):
            part = slice(start, start + size)
            parts.append(attack_shard(classifier, attack, samples[part], positions[part], radii[part], seed, start))
            tell(min(start + size, len(positions)), len(positions))
    return concatenate(parts), checked.warnings


def _check_order(**given: object) -> None:
    """Refuse arguments of which some stand in the places of others."""
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
    """Return the argument that a value can only be; empty if it may be several."""
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
    """Whether there is a group, a stratum and a cluster for every sample: said before the attack, not after it."""
    if not hasattr(x, "__len__"):
        return  # said with all else that is wrong with the samples
    same_length(x=x, partition=partition)
    if settings.control is not None:
        same_length(x=x, control=settings.control)
    settings.cluster_codes(len(x))


def spelled(attack: Attack) -> str:
    """Spell an attack as options do, with the fields that are not the default; by its class if it is in no catalog.

    >>> spelled(ATTACKS.build("pgd", {"steps": 40}))
    'pgd:steps=40'
    """
    name = ATTACKS.name_of(attack)
    if name is None:
        return type(attack).__name__
    usual, given = ATTACKS.describe(type(attack)()), ATTACKS.describe(attack)
    fields = [f"{field}={value}" for field, value in given.items() if value != usual[field]]
    return f"{name}:{','.join(fields)}" if fields else name
