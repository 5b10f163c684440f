"""Audit a case: measure distances, compare groups, and everything that follows from both."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairmargin.analyses.audit import AuditResult
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.distances.catalog import parse_estimator
from fairmargin.distances.combine import tightest
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.distances.smoothing.estimator import Smoothing
from fairmargin.errors import InputError
from fairmargin.inference.settings import AuditSettings
from fairmargin.presentation.formatting import table_percent
from fairmargin.runner.cases import Case
from fairmargin.runner.changes import changes_of_case, rules_of_case
from fairmargin.runner.measurer import Measured, Measurer
from fairmargin.runner.tables import moves_categories
from fairmargin.study.options import AuditOptions
from fairmargin.study.record import About, StoredResult

_NOBODY = About()
ELSEWHERE = "measured elsewhere"
_SIGMAS = (0.0, 0.5, 1.0, 2.0, 3.0)  # radii at which certified accuracy is reported, in multiples of the noise

Found = tuple[StoredResult, Any]


def audit_case(options: AuditOptions, case: Case, measure: Measurer) -> Iterator[Found]:
    """Yield every result of an audit: groups compared by distances, brackets, certificates and adequacy.

    With a precision, the audits measure no more samples than it takes; see `runner.precision`.
    """
    estimators = estimators_of(options, case)
    measure.note(*(getattr(estimator, "caution", "") for estimator in estimators.values()))
    if options.precision:
        from fairmargin.runner.precision import precise_case

        yield from precise_case(options, case, estimators, measure)
        yield from rules_of_case(case)
        return
    _check_weights(case, estimators)
    settings, how = case.settings(options), case.described(options)
    at_radii = {"radii": list(options.radii)} if options.radii else {}
    measured = _measured(case, estimators, measure)
    measure.note(_missing_bracket([each.distances for each in measured.values()]))
    audits = measure.results(
        [
            (_stored("audit", case.about, p, name, how | at_radii), (found,), p, settings)
            for name, found in measured.items()
            for p in case.partitions
        ],
        "comparing groups",
        lambda result: _with_warning(result, case),
    )
    yield from audits
    yield from measure.results(
        list(brackets_of(measured, case.partitions, settings, how, measure, case.about)), "bracketing"
    )
    yield from measure.results(list(_certificates(case, estimators, measured, settings, how)), "certifying")
    yield from changes_of_case(options, case, estimators, measured, measure)
    yield from rules_of_case(case)
    if options.adequacy:
        from fairmargin.runner.adequacy import adequacy_of_case

        yield from adequacy_of_case(options, case, estimators, measured, audits, measure)


def _check_weights(case: Case, estimators: Mapping[str, DistanceEstimator]) -> None:
    """Refuse weights of samples with certificates of smoothing, whose means are corrected for false ones by number."""
    if case.weights is not None and any(isinstance(estimator, Smoothing) for estimator in estimators.values()):
        raise InputError(
            "does not go with the estimator smoothing, whose certified means count samples: leave it out",
            field="sample_weight",
        )


def searches(estimators: Mapping[str, DistanceEstimator]) -> bool:
    """Return whether an estimator searches by gradients, and may fall back on references."""
    return any(estimator.needs == "gradient" for estimator in estimators.values())


def estimators_of(options: AuditOptions, case: Case) -> dict[str, DistanceEstimator]:
    """Return the estimators by their spelling; by default the exact one for linear models and trees, else a search."""
    if case.subject is None:
        return {}
    columns, offers = case.subject.model.domain.columns, case.subject.model.offers
    in_l1 = Norm.parse(options.norm) is Norm.L1 if options.norm else moves_categories(columns)
    search = "fmn" if in_l1 else "plumb"  # which does not measure in L1
    default = "exact_linear" if "linear" in offers else "exact_tree" if "trees" in offers else search
    names = dict.fromkeys(options.estimator) or (default,)
    if not options.norm and in_l1:
        # In L∞ all switches become possible together at the cost of one, which separates rows poorly.
        return {name: parse_estimator(name) for name in map(_in_l1, names)}
    return {name: parse_estimator(name) for name in (_with_norm(each, options.norm) for each in names)}


def _in_l1(text: str) -> str:
    """Return the spelling of an estimator in L1, if it names no norm and measures in L1."""
    members = getattr(parse_estimator(text), "estimators", (parse_estimator(text),))
    return _with_norm(text, Norm.L1.value) if all(Norm.L1 in each.norms for each in members) else text


def _with_norm(text: str, norm: str) -> str:
    """Return the spelling of an estimator with a norm, unless it names one."""
    if not norm or "norm=" in text:
        return text
    parts = [f"{part}{',' if ':' in part else ':'}norm={norm}" for part in text.split("+")]
    return "+".join(parts)


def _measured(case: Case, estimators: Mapping[str, DistanceEstimator], measure: Measurer) -> dict[str, Measured]:
    if case.imported is None:
        return {name: measure.measure(case, estimator, name) for name, estimator in estimators.items()}
    parts = {"table": case.fingerprint, "bound": case.imported.bound.value, "norm": case.imported.norm.value}
    return {ELSEWHERE: measure.keep(case.imported, parts, {"table": case.data})}


def _with_warning(result: AuditResult, case: Case) -> AuditResult:
    """Add a warning if the model is less accurate than the most common class, which hints at wrong labels or inputs."""
    if case.subject is None:
        return result
    positions = case.subject.positions
    weights = AuditSettings(sample_weight=case.weights).weights(len(positions))
    commonest = float(np.bincount(positions, weights=weights).max() / len(positions))
    accuracy = result.overall.accuracy.value
    if accuracy > commonest:
        return result
    right, common = (table_percent(share, signed=False) for share in (accuracy, commonest))
    warning = (
        f"The model is right on {right} of the samples; always answering the commonest class would be on {common}. "
        "Are the labels in the order of the model's outputs, its weights loaded, and inputs scaled as in training "
        "(--mean, --std)?"
    )
    return replace(result, warnings=(warning, *result.warnings))


def _stored(kind: str, about: About, partition: Partition, estimator: str, how: Mapping[str, Any]) -> StoredResult:
    about = about.model_copy(update={"partition": partition.name, "estimator": estimator})
    return StoredResult(kind=kind, about=about, settings=dict(how))


def brackets_of(
    measured: Mapping[str, Measured],
    partitions: Sequence[Partition],
    settings: AuditSettings,
    how: Mapping[str, Any],
    measure: Measurer,
    about: About = _NOBODY,
) -> Iterator[tuple[StoredResult, Sequence[Measured], Any, AuditSettings]]:
    """Yield a bracket for each subject and norm with lower and upper bounds: the best of each side."""
    kinds = dict.fromkeys((m.distances.subject, m.distances.norm) for m in measured.values())
    for subject, norm in kinds:
        sides = {bound: _of(measured, subject, norm, bound) for bound in (Bound.LOWER, Bound.UPPER)}
        if not all(sides.values()):
            continue
        between = " and ".join(", ".join(side) for side in sides.values())
        best = (_best(sides[Bound.LOWER], highest, measure), _best(sides[Bound.UPPER], tightest_of, measure))
        for partition in partitions:
            yield _stored("bracket", about, partition, between, how), best, partition, settings


def _of(measured: Mapping[str, Measured], subject: str, norm: Norm, bound: Bound) -> dict[str, Measured]:
    return {
        name: m
        for name, m in measured.items()
        if (m.distances.subject, m.distances.norm, m.distances.bound) == (subject, norm, bound)
    }


def _best(side: Mapping[str, Measured], choose: Any, measure: Measurer) -> Measured:
    """Return the best of several distances; a single one is returned unchanged."""
    if len(side) == 1:
        return next(iter(side.values()))
    keys = " / ".join(" ".join(each.keys) for each in side.values())
    best = choose([each.distances for each in side.values()])
    return measure.keep(best, {"best": choose.__name__, "of": keys}, {"best of": list(side)})


def highest(certificates: Sequence[Distances]) -> Distances:
    """Return the pointwise best of several lower bounds."""
    first = certificates[0]
    values = np.max([d.values for d in certificates], axis=0)
    correct = np.logical_and.reduce([d.correct for d in certificates])
    return replace(first, values=np.where(correct, values, 0.0), correct=correct, tried=None, estimator="")


def tightest_of(attacks: Sequence[Distances]) -> Distances:
    """Return the pointwise best of several upper bounds."""
    return tightest(*attacks)


def _missing_bracket(measured: Sequence[Distances]) -> str:
    """Return why a run that has both certificates and attacks has no bracket; empty for all other runs."""
    lower = {(d.subject, str(d.norm)) for d in measured if d.bound is Bound.LOWER}
    upper = {(d.subject, str(d.norm)) for d in measured if d.bound is Bound.UPPER}
    if not lower or not upper or lower & upper:
        return ""
    words = [", ".join(f"{subject} in {norm}" for subject, norm in sorted(side)) for side in (lower, upper)]
    return (
        f"Certificates are of {words[0]}, attacks of {words[1]}: together they enclose nothing. Bounds of one subject "
        "in one norm would tell what is certain: `verified` with an attack, `smoothing` with `smoothed_attack` of the "
        "same sigma."
    )


def _certificates(
    case: Case,
    estimators: Mapping[str, DistanceEstimator],
    measured: Mapping[str, Measured],
    settings: AuditSettings,
    how: Mapping[str, Any],
) -> Iterator[tuple[StoredResult, Sequence[Measured], Any, AuditSettings]]:
    """Yield what smoothing guarantees for the groups, although single certificates can be wrong."""
    for name, estimator in estimators.items():
        if isinstance(estimator, Smoothing):
            further = {"radii": list(certified_radii(estimator)), "alpha": estimator.alpha}
            for partition in case.partitions:
                stored = _stored("certified", case.about, partition, name, {**how, **further})
                yield stored, (measured[name],), partition, settings


def certified_radii(estimator: Smoothing) -> tuple[float, ...]:
    """Return the radii at which certified accuracy is reported: from 0 on, as far as a radius can be certified at all.

    >>> certified_radii(Smoothing(sigma=0.25)), certified_radii(Smoothing(sigma=1.0, draws=20))
    ((0.0, 0.125, 0.25, 0.5, 0.75), (0.0, 0.5))
    """
    return tuple(n * estimator.sigma for n in _SIGMAS if n * estimator.sigma < estimator.largest)
