"""Two runs on the same samples, paired."""

from dataclasses import replace

import numpy as np

from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError
from fairmargin.metrics.compare import Comparison, compare
from fairmargin.metrics.plan import AuditPlan
from fairmargin.studies.run_folder import Measurement, RunFolder
from fairmargin.studies.study import Study


def compare_runs(before: RunFolder, after: RunFolder, partitions: tuple[str, ...] = ()) -> list[tuple[str, Comparison]]:
    """Every estimator and partition that both runs have, compared sample by sample."""
    old, new = before.read_manifest(), after.read_manifest()
    if old.samples_fingerprint != new.samples_fingerprint:
        raise InputError(
            f"{before.path} ({old.data}) and {after.path} ({new.data}) were not measured on the same samples, so that "
            "they cannot be paired. Audit both models on the same data."
        )
    if old.domain != new.domain:
        raise InputError(
            f"{before.path} and {after.path} were measured with different bounds or scales (--bounds, --scale), so "
            "that their distances are in different units. Audit both models with the same."
        )
    study = before.read_study()
    assert study is not None
    names = partitions or _common_partitions(before, after)
    pairs = _pairs(old.measurements, new.measurements)
    plan = _plan(before, study)
    found = []
    for left, right in pairs:
        first, second = before.distances(left), after.distances(right)
        for name in names:
            partition = before.partition(name)
            other = after.partition(name)
            if partition.labels != other.labels or not np.array_equal(partition.membership, other.membership):
                raise InputError(
                    f"The groups of {name!r} differ between {before.path} and {after.path}: not the same samples."
                )
            found.append((left.estimator, _warned(compare(first, second, partition, plan), study)))
    return found


def _warned(comparison: Comparison, study: Study) -> Comparison:
    if not study.control:
        return comparison
    note = (
        f"The runs were audited within each {study.control}; here each sample is compared with itself over all of "
        "them, so that σ is not the audit's."
    )
    return replace(comparison, warnings=(*comparison.warnings, note))


def _common_partitions(before: RunFolder, after: RunFolder) -> tuple[str, ...]:
    old, new = ([a.result.partition for a in run.read_audits()] for run in (before, after))
    common = tuple(name for name in dict.fromkeys(old) if name in new)
    if not common:
        raise InputError(f"The runs have no partition in common: {', '.join(old)} and {', '.join(new)}.")
    return common


def _pairs(old: tuple[Measurement, ...], new: tuple[Measurement, ...]) -> list[tuple[Measurement, Measurement]]:
    by_name = {m.estimator: m for m in new}
    pairs = [(m, by_name[m.estimator]) for m in old if m.estimator in by_name]
    if not pairs:
        raise InputError(
            f"The runs have no estimator in common: {', '.join(m.estimator for m in old)} before. "
            f"{suggest(old[0].estimator, by_name)}"
        )
    return pairs


def _plan(run: RunFolder, study: Study) -> AuditPlan:
    return AuditPlan(
        confidence=study.confidence,
        cluster=run.column(study.cluster) if study.cluster else None,
        up_to=study.up_to,
        smallest_group=study.smallest_group,
        resamples=study.resamples,
        seed=study.seed,
    )
