"""Two runs on the same samples, paired."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fairmargin.analyses.comparison import Comparison, compare
from fairmargin.core.arrays import Ints
from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError
from fairmargin.inference.settings import AuditSettings
from fairmargin.studies.run_folder import Measurement, RunFolder
from fairmargin.studies.study import Study

_SHOWN = 3  # ids named in a sentence


def compare_runs(before: RunFolder, after: RunFolder, partitions: tuple[str, ...] = ()) -> list[tuple[str, Comparison]]:
    """Compare every estimator and partition that both runs have, sample by sample.

    Samples of imported distances are paired by their ids if both runs have them, otherwise by position.
    """
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
    order, note = (None, "") if old.samples_fingerprint else _order_of(before, after)
    found = []
    for left, right in pairs:
        first, second = before.distances(left), after.distances(right)
        second = second if order is None else second.take(order)
        for name in names:
            partition, other = before.partition(name), after.partition(name)
            other = other if order is None else other.take(order)
            if partition.labels != other.labels or not np.array_equal(partition.membership, other.membership):
                raise InputError(
                    f"The groups of {name!r} differ between {before.path} and {after.path}: not the same samples."
                )
            found.append((left.estimator, _warned(compare(first, second, partition, plan), study, note)))
    return found


def _warned(comparison: Comparison, study: Study, pairing: str) -> Comparison:
    notes = [pairing] if pairing else []
    if study.control:
        notes.append(
            f"The runs were audited within each {study.control}; here each sample is compared with itself over all of "
            "them, so that σ is not the audit's."
        )
    return replace(comparison, warnings=(*comparison.warnings, *notes))


def _order_of(before: RunFolder, after: RunFolder) -> tuple[Ints | None, str]:
    """Return the position in `after` of every sample of `before`; None with a note if ids are lacking."""
    old, new = before.ids(), after.ids()
    lacking = [str(run.path) for run, ids in ((before, old), (after, new)) if ids is None]
    if old is None or new is None:
        note = (
            f"Samples are paired by position, since {' and '.join(lacking)} {'has' if len(lacking) == 1 else 'have'} "
            "no ids: a file in another order gives wrong results. Audit both files with --id COLUMN to pair by ids."
        )
        return None, note
    missing, extra = np.setdiff1d(old, new), np.setdiff1d(new, old)
    if missing.size or extra.size:
        lack = [f"{run.path} lacks {_listed(ids)}" for run, ids in ((after, missing), (before, extra)) if ids.size]
        raise InputError(
            f"{before.path} and {after.path} do not have the same ids: {', and '.join(lack)}. Ids are compared as "
            "texts, so that 7, 7.0 and 007 differ. Audit both models on the same samples."
        )
    sorted_new = np.argsort(new)
    return sorted_new[np.searchsorted(new, old, sorter=sorted_new)], ""


def _listed(ids: npt.NDArray[np.str_]) -> str:
    some = ", ".join(repr(str(each)) for each in ids[:_SHOWN])
    return f"{len(ids):,} of the other's ids ({some}{', …' if len(ids) > _SHOWN else ''})"


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


def _plan(run: RunFolder, study: Study) -> AuditSettings:
    return AuditSettings(
        confidence=study.confidence,
        cluster=run.column(study.cluster) if study.cluster else None,
        up_to=study.up_to,
        smallest_group=study.smallest_group,
        resamples=study.resamples,
        seed=study.seed,
    )
