"""Check whether attacks were strong enough: measure some samples of each group again with other budgets."""

import math
from collections.abc import Iterator, Mapping, Sequence
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
from fairmargin.distances.adequacy import chosen_of, content_keys, has_budget, rising
from fairmargin.distances.combine import tightest
from fairmargin.distances.on_tables.search import searches_table
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.engine.task import Task
from fairmargin.inference.capping import forced_cut
from fairmargin.models.protocol import Differentiable
from fairmargin.runner.cases import Case, Subject
from fairmargin.runner.measurer import Measured, Measurer, ShardPlan, estimator_plans, shards_of, shared_model
from fairmargin.study.options import AuditOptions
from fairmargin.study.record import StoredResult


def adequacy_of_case(
    options: AuditOptions,
    case: Case,
    estimators: Mapping[str, DistanceEstimator],
    measured: Mapping[str, Measured],
    audits: Sequence[tuple[StoredResult, Any]],
    measure: Measurer,
) -> Iterator[tuple[StoredResult, Any]]:
    """Yield the adequacy of every estimator for every partition, on one sample of rows that serves all partitions."""
    caps = {(stored.about.estimator, stored.about.partition): result.up_to for stored, result in audits}
    every = {name: found.distances for name, found in measured.items()}
    some: _Some | None = None
    for name, known in every.items():
        estimator = estimators.get(name)
        if known.bound is not Bound.UPPER:
            for partition in case.partitions:
                result = nothing_to_settle(known.bound, known.norm, partition.name, name, TOLERANCE)
                yield _stored(case, name, partition, measured[name]), result
        elif estimator is not None and has_budget(estimator):
            some = some or _chosen_rows(options, case, measure)
            evidence = _evidence(name, estimator, known.take(some.chosen), some.subject, measure)
            evidence = replace(evidence, others=_by_others(name, every, some.chosen))
            for partition, own in zip(case.partitions, some.of_each, strict=True):
                at = np.searchsorted(some.chosen, own)
                cap = usable_cap(known, partition, caps[name, partition.name], options.up_to)
                result = settle(
                    evidence.take(at),
                    partition.take(own),
                    estimator=name,
                    sizes=partition.sizes,
                    confidence=options.confidence,
                    up_to=cap,
                )
                yield _stored(case, name, partition, measured[name]), result


def usable_cap(known: Distances, partition: Partition, cap: float, asked: float) -> float:
    """Return the audit's cap, or none if it cuts so much that every attack would seem strong enough."""
    return math.inf if any(forced_cut([known], partition, cap, asked).reasons) else cap


def _stored(case: Case, name: str, partition: Partition, measured: Measured) -> StoredResult:
    about = case.about.model_copy(update={"partition": partition.name, "estimator": name})
    key = sha256(f"adequacy {name} {partition.name} {' '.join(measured.keys)}".encode()).hexdigest()
    return StoredResult(kind="adequacy", about=about, shards=(measured.keys,), key=key)


def _by_others(name: str, every: Mapping[str, Distances], chosen: Ints) -> Distances | None:
    """Return the smallest distances that the other attacks of the run found in the same norm; None without others."""
    own = every[name]
    others = [
        known.take(chosen)
        for other, known in every.items()
        if other != name and (known.bound, known.norm, known.subject) == (Bound.UPPER, own.norm, own.subject)
    ]
    return tightest(*others) if others else None


@dataclass(frozen=True, slots=True, eq=False)
class _Some:
    """The rows that are measured again, and those of each partition, by ascending position among all samples."""

    chosen: Ints
    of_each: tuple[Ints, ...]
    subject: Subject


def _chosen_rows(options: AuditOptions, case: Case, measure: Measurer) -> _Some:
    subject = case.measured
    keys = content_keys(
        subject.dataset.x,
        subject.positions,
        case.seed,
        lambda done, total: measure.progress("choosing samples to check the attack on", done, total),
    )
    # The samples with the smallest keys of each group: those chosen for one partition are often chosen for others.
    of_each = tuple(chosen_of(keys, partition, options.adequacy_samples) for partition in case.partitions)
    chosen = np.unique(np.concatenate(of_each))
    return _Some(chosen, of_each, subject.take(chosen))


def _evidence(
    name: str, estimator: DistanceEstimator, audited: Distances, subject: Subject, measure: Measurer
) -> Evidence:
    """Return all measurements of the chosen rows; the audited budget is not measured again."""
    ladder = rising(estimator)
    others = {str(i): each for i, each in enumerate(ladder.estimators) if each != estimator}
    requests = {number: estimator_plans(subject, each) for number, each in others.items()}
    # Gradients and noise are checked on the model itself: they say nothing about another subject.
    if (isinstance(subject.model, Differentiable) or searches_table(subject.model)) and audited.subject == "model":
        from fairmargin.distances.masking import without_references

        alone = replace(subject, references=without_references(subject.shape))
        requests["unaided"] = estimator_plans(alone, estimator)
        requests["slopes"] = [_look(subject, estimator.norm, None)]
        requests["noise"] = [_look(subject, estimator.norm, audited.values)]
    found = measure.carry_out(list(requests.values()), f"checking {name}")
    named = {key: each.distances for key, each in zip(requests, found, strict=True)}
    runs = tuple(named.pop(str(i), audited) for i in range(len(ladder.estimators)))
    return Evidence(runs, ladder.names, ladder.audited, **named)


def _look(subject: Subject, norm: Norm, attacked: Floats | None) -> ShardPlan:
    """Return the tasks that measure distances to the linearised boundary or, given an attack's distances, by noise."""
    from fairmargin.distances.masking import REVISION, measure_noise, measure_slopes

    model, what = subject.model, "slopes" if attacked is None else "noise"
    parts: dict[str, Any] = {"model": model.fingerprint(), "look": what, "revision": REVISION, "norm": norm.value}
    if attacked is not None:
        parts["attacked"] = sha256(np.ascontiguousarray(attacked, dtype="<f8").tobytes()).hexdigest()
    tasks: list[Task[Distances]] = []
    asked = shared_model(model)
    for samples, positions, key in shards_of(subject, parts):
        if attacked is None:
            tasks.append(Task(key, measure_slopes, (asked, norm, samples, positions)))
        else:
            known = attacked[samples.value.start : samples.value.stop]
            tasks.append(Task(key, measure_noise, (asked, norm, samples, positions, known, subject.seed)))
    return ShardPlan(tuple(tasks), {"look": what, "norm": norm.value, "seed": subject.seed})
