"""Comparison of two runs on the same samples, pair by pair."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fairmargin.analyses.comparison import Comparison, compare
from fairmargin.core.arrays import Ints
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError
from fairmargin.inference.settings import AuditSettings
from fairmargin.study.check import settings_of
from fairmargin.study.record import About, RunRecord, StoredResult
from fairmargin.study.run_folder import RunFolder

_SHOWN = 3  # ids named in a sentence
_RULES = ("immutable", "unit", "low", "high", "step", "direction", "gap", "allowed", "choices", "cost", "ordered")
"""Fields of the rule of a column that must not differ between two runs, beside its kind."""


def compare_runs(
    before: tuple[RunFolder, RunRecord], after: tuple[RunFolder, RunRecord], partitions: tuple[str, ...] = ()
) -> list[tuple[About, Comparison]]:
    """Compare every estimator and partition that both runs have, sample by sample.

    Exact distances by different estimators, such as of a linear model and of trees, can be compared too, if they are
    in the same norm and units. Samples of imported distances are paired by their ids if both runs have them, otherwise
    by position.
    """
    (first, old), (second, new) = before, after
    if old.provenance.samples != new.provenance.samples:
        raise InputError(
            f"{first.path} ({old.provenance.data}) and {second.path} ({new.provenance.data}) were not measured on the "
            "same samples, so that they cannot be paired. Audit both models on the same data; models of tables must "
            "take the same columns."
        )
    if old.provenance.domain != new.provenance.domain:
        rule = _differing_rule(old, new)
        what = rule or "different bounds or scales (--bounds, --scale), or different rules of columns (--columns)"
        effect = "count other changes" if rule else "are in different units"
        raise InputError(
            f"{first.path} and {second.path} were measured with {what}, so that their distances {effect}. Audit both "
            "models with the same."
        )
    for folder, record in before, after:
        _refuse_without_audit(folder, record)
    order, note = (None, "") if old.provenance.samples else _order_of(first, second)
    found = []
    for left, right in _pairs(before, after, partitions):
        earlier, later = first.distances(left.shards[0]), second.distances(right.shards[0])
        name = left.about.partition
        groups, other = (
            folder.partition(name, int(stored.settings.get("merge_below", 0)))
            for folder, stored in ((first, left), (second, right))
        )
        if order is not None:
            later, other = later.take(order), other.take(order)
        if groups.labels != other.labels or not np.array_equal(groups.membership, other.membership):
            raise InputError(
                f"The groups of {name!r} differ between {first.path} and {second.path}: not the same samples."
            )
        settings = settings_of(first, left).model_copy(update={"control": None})
        _check_weights((first, settings), (second, settings_of(second, right)), order, len(groups))
        result = compare(earlier, later, groups, settings)
        about = left.about
        if right.about.estimator != about.estimator:
            both = f"{about.estimator} before, {right.about.estimator} after"
            about = about.model_copy(update={"estimator": both})
        found.append((about, _with_notes(result, str(left.settings.get("control", "")), note)))
    return found


def _check_weights(
    before: tuple[RunFolder, AuditSettings], after: tuple[RunFolder, AuditSettings], order: Ints | None, samples: int
) -> None:
    """Refuse runs in which the samples have different weights."""
    (first, old), (second, new) = before, after
    weights = [np.ones(samples) if (found := each.weights(samples)) is None else found for each in (old, new)]
    if not np.allclose(weights[0], weights[1] if order is None else weights[1][order], rtol=1e-9):
        raise InputError(
            f"The weights of the samples differ between {first.path} and {second.path}. Audit both models with the "
            "same weights (--sample-weight)."
        )


def _refuse_without_audit(folder: RunFolder, record: RunRecord) -> None:
    if record.study.grid is not None:
        raise InputError(
            f"{folder.path} holds a study of several models, whose methods its report compares. Compare takes the run "
            "folders of two audits of one model each."
        )
    if any(each.kind == "audit" for each in record.results):
        return
    if any(each.kind == "precision" for each in record.results):
        raise InputError(
            f"{folder.path} holds an audit to a precision, which measures some samples only, so that they cannot be "
            "paired with another run's. Audit without --precision first."
        )
    raise InputError(f"{folder.path} holds no audit. Compare takes the run folders of two audits.")


def _with_notes(comparison: Comparison, control: str, pairing: str) -> Comparison:
    notes = [pairing] if pairing else []
    if control:
        notes.append(
            f"The runs were audited within each {control}; here each sample is compared with itself over all of them, "
            "so that σ is not the audit's."
        )
    return replace(comparison, warnings=(*comparison.warnings, *notes))


def _differing_rule(old: RunRecord, new: RunRecord) -> str:
    """Return in words the first rule of a column that differs between two runs on tables; empty if there are none."""
    before, after = (
        {rule.group: rule for _, rules in record.of_kind("columns") for rule in rules.groups} for record in (old, new)
    )
    for name, rule in before.items():
        for field in ("kind", *_RULES):
            values = [getattr(each, field) for each in (rule, after.get(name)) if each is not None]
            if len(values) == 2 and values[0] != values[1]:
                where = f"{field} of column {name!r} is {values[0]!r} in the first run and {values[1]!r} in the second"
                groups = "; columns that define groups (--group) do not move unless a rule says so"
                return f"different rules of columns ({where}{groups if field == 'immutable' else ''})"
    return ""


Run = tuple[RunFolder, RunRecord]


def _pairs(first: Run, second: Run, partitions: tuple[str, ...]) -> list[tuple[StoredResult, StoredResult]]:
    """Return the audits that can be compared, by estimator and partition."""
    before, after = (
        {(r.about.estimator, r.about.partition): r for r in record.results if r.kind == "audit"}
        for _, record in (first, second)
    )
    names = [list(dict.fromkeys(name for name, _ in side)) for side in (before, after)]
    estimators = [(name, name) for name in names[0] if name in names[1]]
    if not estimators:
        estimators = _both_exact(_measured(first[0], before), _measured(second[0], after))
    known = [dict.fromkeys(p for _, p in side) for side in (before, after)]
    for name in partitions:
        for side in known:
            if name not in side:
                raise InputError(f"The runs have no partition {name!r} in common. {suggest(name, side)}")
    common = partitions or tuple(name for name in known[0] if name in known[1])
    if not common:
        raise InputError(f"The runs have no partition in common: {', '.join(known[0])} and {', '.join(known[1])}.")
    return [(before[e, p], after[other, p]) for e, other in estimators for p in common]


def _measured(folder: RunFolder, audits: Mapping[tuple[str, str], StoredResult]) -> dict[str, Distances]:
    """Return the distances of each estimator of a run."""
    return {name: folder.distances(stored.shards[0]) for (name, _), stored in audits.items()}


def _both_exact(before: Mapping[str, Distances], after: Mapping[str, Distances]) -> list[tuple[str, str]]:
    """Return pairs of different estimators that are both exact in the same norm; refuse runs that have none."""
    exact = [
        {each.norm: name for name, each in side.items() if each.bound is Bound.EXACT and each.subject == "model"}
        for side in (before, after)
    ]
    common = [(name, exact[1][norm]) for norm, name in exact[0].items() if norm in exact[1]]
    if common:
        return common
    shown = [
        ", ".join(f"{name} ({each.bound.words}, {each.norm})" for name, each in side.items())
        for side in (before, after)
    ]
    raise InputError(
        f"The runs have no estimator in common: {shown[0]} before, {shown[1]} after. Different estimators can only be "
        f"compared if both are exact in the same norm. {suggest(next(iter(before)), list(after))}"
    )


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
