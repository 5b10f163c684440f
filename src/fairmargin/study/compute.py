"""Compute results from distances by the kind of the result, in runs and in the checks of `gate` and `report`."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.settings import AuditSettings, checked_weights
from fairmargin.store.shard import shard_key
from fairmargin.study.record import StoredResult
from fairmargin.version import __version__

RECOMPUTED = ("audit", "bracket", "certified", "robust_accuracy")
"""Kinds of results that follow from distances, groups and settings alone."""


def compute(stored: StoredResult, distances: Sequence[Distances], partition: Partition, settings: AuditSettings) -> Any:
    """Return the result that `stored` describes.

    Parameters
    ----------
    stored
        Kind, subject and further arguments of the result.
    distances
        One `Distances`; for a bracket certificates and attacks, in this order.
    partition, settings
        The groups, and how they are compared.
    """
    if stored.kind == "audit":
        from fairmargin.analyses.audit import audit

        return audit(distances[0], partition, settings, radii=stored.settings.get("radii", ()))
    if stored.kind == "bracket":
        from fairmargin.analyses.bracket import bracket

        return bracket(distances[0], distances[1], partition, settings)
    if stored.kind == "certified":
        from fairmargin.analyses.certified import certify_groups

        radii, alpha = tuple(stored.settings["radii"]), float(stored.settings["alpha"])
        return certify_groups(distances[0], partition, radii, alpha=alpha, confidence=settings.confidence)
    if stored.kind == "robust_accuracy":
        from fairmargin.analyses.robust_accuracy import accuracy_under_attack

        found, radius = distances[0], stored.about.radius
        assert radius is not None
        return accuracy_under_attack(
            found.correct,
            found.unreached,
            partition,
            settings,
            attack=stored.about.attack,
            norm=found.norm,
            radius=radius,
            bound=found.bound,
        )
    raise ValueError(f"a result of kind {stored.kind!r} does not follow from distances alone")


def result_key(stored: StoredResult, partition: Partition, settings: AuditSettings, version: str = __version__) -> str:
    """Return a hash of everything on which a result depends; `version` is that of the package that computed it."""
    groups = sha256(repr(partition.labels).encode() + partition.membership.astype("<i8").tobytes()).hexdigest()
    numbers = settings.model_dump(exclude={"control", "cluster", "sample_weight"})
    control, cluster = settings.control, settings.cluster_codes(len(partition))
    parts: dict[str, Any] = {
        "version": version,
        "kind": stored.kind,
        "about": repr(sorted(stored.about.model_dump(exclude_defaults=True).items())),
        "settings": repr(sorted(stored.settings.items())),
        "shards": " / ".join(" ".join(keys) for keys in stored.shards),
        "groups": groups,
        "control": ""
        if control is None
        else sha256(repr(control.labels).encode() + control.membership.astype("<i8").tobytes()).hexdigest(),
        "cluster": "" if cluster is None else sha256(cluster.astype("<i8").tobytes()).hexdigest(),
        **{f"number.{name}": value for name, value in numbers.items()},
    }
    if settings.sample_weight is not None:  # keys without weights are those of earlier versions
        parts["weights"] = sha256(checked_weights(settings.sample_weight).astype("<f8").tobytes()).hexdigest()
    return shard_key(parts)
