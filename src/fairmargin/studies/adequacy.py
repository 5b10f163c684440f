"""An extra stage: was the attack strong enough for the gaps between groups to be the model's?

Some samples of each group are measured again at other budgets. These measurements are tasks and shards like all others,
so that an interruption loses none of them; the audited budget is not measured again but read from the audit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np

from fairmargin.analyses.adequacy import TOLERANCE, Evidence, nothing_to_settle, settle
from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.data.dataset import Dataset
from fairmargin.distances.adequacy import chosen_of, content_keys, has_budget, rising
from fairmargin.distances.combine import tightest
from fairmargin.distances.measure import concatenate
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.engine.task import Task
from fairmargin.inference.capping import forced_cut
from fairmargin.models.protocol import Differentiable
from fairmargin.models.referenced import References
from fairmargin.studies.loading import Loaded
from fairmargin.studies.measuring import Plan, Slice, Workshop, combined, measure_missing, plans_of, shards_of
from fairmargin.studies.run_folder import Measurement, StoredAdequacy, StoredAudit
from fairmargin.studies.study import Study


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """What was found, and how many shards it took."""

    found: tuple[StoredAdequacy, ...]
    now: int
    reused: int


def check_adequacy(
    study: Study,
    loaded: Loaded,
    estimators: Mapping[str, DistanceEstimator],
    partitions: Sequence[Partition],
    measurements: Sequence[Measurement],
    audits: Sequence[StoredAudit],
    workshop: Workshop,
) -> Checked:
    """The adequacy of every estimator for every partition, on one sample that serves all partitions."""
    caps = {(stored.estimator, stored.result.partition): stored.result.up_to for stored in audits}
    every = {m.estimator: concatenate([workshop.store.read(key) for key in m.keys]) for m in measurements}
    some: _Some | None = None
    found, now, reused = [], 0, 0
    for text, known in every.items():
        estimator = estimators.get(text)
        if known.bound is not Bound.UPPER:
            found += [
                StoredAdequacy(text, nothing_to_settle(known.bound, known.norm, p.name, text, TOLERANCE))
                for p in partitions
            ]
        elif estimator is not None and has_budget(estimator):
            some = some or _sampled(study, loaded, partitions, workshop)
            evidence, measured, there = _evidence(
                study, loaded, text, estimator, known.take(some.chosen), some, workshop
            )
            now, reused = now + measured, reused + there
            evidence = replace(evidence, others=_beside(text, every, some.chosen))
            for partition, own in zip(partitions, some.of_each, strict=True):
                at = np.searchsorted(some.chosen, own)
                result = settle(
                    evidence.take(at),
                    partition.take(own),
                    estimator=text,
                    sizes=partition.sizes,
                    confidence=study.confidence,
                    up_to=usable_cap(known, partition, caps[text, partition.name], study.up_to),
                )
                found.append(StoredAdequacy(text, result))
    return Checked(tuple(found), now, reused)


def usable_cap(known: Distances, partition: Partition, cap: float, asked: float) -> float:
    """Return the audit's cap, or none if it cuts so much that every attack would seem strong enough."""
    return math.inf if any(forced_cut([known], partition, cap, asked).reasons) else cap


def _beside(text: str, every: Mapping[str, Distances], chosen: Ints) -> Distances | None:
    """The least that the other attacks of the run found in the same norm, sample by sample; None if there is none."""
    own = every[text]
    others = [
        known.take(chosen)
        for name, known in every.items()
        if name != text and (known.bound, known.norm, known.subject) == (Bound.UPPER, own.norm, own.subject)
    ]
    return tightest(*others) if others else None


@dataclass(frozen=True, slots=True, eq=False)
class _Some:
    """The samples that are looked at, and which of them serve each partition, by ascending position among all."""

    chosen: Ints
    of_each: tuple[Ints, ...]
    dataset: Dataset
    positions: Ints


def _sampled(study: Study, loaded: Loaded, partitions: Sequence[Partition], workshop: Workshop) -> _Some:
    assert loaded.dataset is not None
    assert loaded.positions is not None
    keys = content_keys(
        loaded.dataset.x,
        loaded.positions,
        study.seed,
        lambda done, total: workshop.tell("choosing samples to check the attack on", done, total),
    )
    # The least keys of each group: samples that serve one partition tend to serve the others too.
    of_each = tuple(chosen_of(keys, partition, study.adequacy_samples) for partition in partitions)
    chosen = np.unique(np.concatenate(of_each))
    return _Some(chosen, of_each, loaded.dataset.take(chosen), loaded.positions[chosen])


def _evidence(
    study: Study,
    loaded: Loaded,
    text: str,
    estimator: DistanceEstimator,
    audited: Distances,
    some: _Some,
    workshop: Workshop,
) -> tuple[Evidence, int, int]:
    """All that is measured of the samples, in one go, so that workers are started once; and what of it was new."""
    assert loaded.model is not None
    model, seed, ladder = loaded.model, study.seed, rising(estimator)

    def plans(each: DistanceEstimator, references: References | None) -> list[Plan]:
        return plans_of(model, some.dataset, some.positions, each, seed, references)

    budgets = [None if each == estimator else plans(each, loaded.references) for each in ladder.estimators]
    looks = {}
    # Slopes and noise are looked at in the model itself: of another subject they say nothing.
    if isinstance(model, Differentiable) and audited.subject == "model":
        from fairmargin.distances.masking import without_references

        nowhere = without_references(tuple(map(int, some.dataset.x.shape[1:])))
        looks = {
            "unaided": plans(estimator, nowhere),
            "slopes": [_look(model, some, estimator.norm, None, seed)],
            "noise": [_look(model, some, estimator.norm, audited.values, seed)],
        }
    every = [plan for part in (*budgets, *looks.values()) for plan in part or ()]
    now = measure_missing(every, workshop, f"checking {text}")
    reused = len({key for plan in every for key in plan.keys}) - now

    def read(part: list[Plan]) -> Distances:
        return concatenate([workshop.store.read(key) for key in combined(part, workshop.store)])

    runs = tuple(audited if part is None else read(part) for part in budgets)
    evidence = Evidence(runs, ladder.names, ladder.audited, **{name: read(part) for name, part in looks.items()})
    return evidence, now, reused


def _look(model: Differentiable, some: _Some, norm: Norm, attacked: Floats | None, seed: int) -> Plan:
    """Slopes; or, given what an attack found, what noise finds."""
    from fairmargin.distances.masking import REVISION, measure_noise, measure_slopes

    what = "slopes" if attacked is None else "noise"
    parts: dict[str, Any] = {"model": model.fingerprint(), "look": what, "revision": REVISION, "norm": norm.value}
    if attacked is not None:
        parts["attacked"] = sha256(np.ascontiguousarray(attacked, dtype="<f8").tobytes()).hexdigest()
    tasks: list[Task[Distances]] = []
    for start, stop, key in shards_of(model, some.dataset, seed, parts):
        here, positions = Slice(some.dataset.x, start, stop), some.positions[start:stop]
        if attacked is None:
            tasks.append(Task(key, measure_slopes, (model, norm, here, positions)))
        else:
            tasks.append(Task(key, measure_noise, (model, norm, here, positions, attacked[start:stop], seed)))
    return Plan(tuple(tasks), {"look": what, "norm": norm.value, "seed": seed})
