"""An audit to a precision: a cheap estimator on many samples, the reference on as few as it takes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from fairmargin.analyses.precision import (
    POPULATION,
    TARGETS,
    THESE_SAMPLES,
    PreciseGroup,
    PrecisionResult,
    Target,
    judged,
)
from fairmargin.core.arrays import Ints, is_number, same_length
from fairmargin.core.distances import Distances, concatenate
from fairmargin.core.options import STORED_BELOW
from fairmargin.core.partition import Partition, check_partition
from fairmargin.core.progress import Progress, silent
from fairmargin.core.suggestion import suggest
from fairmargin.data.dataset import Dataset
from fairmargin.data.samples import as_samples, take_rows
from fairmargin.distances.adequacy import content_keys
from fairmargin.distances.catalog import describe
from fairmargin.distances.measure import check_samples, measure_shard, model_for, shard_size
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.engine.local import Serial
from fairmargin.errors import InputError
from fairmargin.inference.capping import forced_cut, within_cap
from fairmargin.inference.estimate import Estimate
from fairmargin.inference.precision.control_variate import FAR_SHARE, SAMPLES
from fairmargin.inference.precision.rounds import REFERENCE, PrecisionOutcome, PrecisionTarget, to_precision
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.protocol import in_model_order
from fairmargin.models.references import as_references
from fairmargin.runner.cases import Case, Subject
from fairmargin.runner.costs import passes_of
from fairmargin.runner.measurer import Measurer, estimator_plans
from fairmargin.store.paths import as_path
from fairmargin.study.options import AuditOptions
from fairmargin.study.record import StoredResult
from fairmargin.study.run_folder import RunFolder

_FEWEST = 30  # reference samples of a group; fewer tell neither the spread nor the correlation
_COSTS = "costs"
_MUCH = 0.1  # share of a group's squared error: a sample that contributes more is mentioned


@dataclass(frozen=True, slots=True)
class PrecisionPlan:
    """How precise σ should be, and by which estimators.

    Parameters
    ----------
    precision
        Half the width of the interval of every group's σ = Rob(P)/Rob(rest) − 1: with 0.03 a σ of −0.20 is known to lie
        between about −0.23 and −0.17. If there is a single group, half the width of the interval of its mean distance,
        divided by that mean.
    reference
        The estimator whose distances count; `Plumb(steps=40)` if left out.
    cheap
        Cheaper estimators, cheapest first. The pilot chooses one of them; if none of them reduces the cost, the
        reference is used alone. `FirstOrder` in the reference's norm if left out.
    target
        "population": the samples are a random sample of a population, whose means are estimated. "these samples": the
        means over the given samples are estimated; their errors are 0 when every sample has been measured.
    confidence
        Confidence of every interval.
    pilot
        Minimum number of correctly classified samples of each group that all estimators measure first. At least 250
        samples of a group are measured first (fewer for "these samples"), or all that the group has, because fewer may
        not contain a sample that is far from the boundary.
    up_to
        Radius at which distances are capped: means are those of min(distance, up_to).
    seed
        The same seed gives the same numbers.

    >>> PrecisionPlan(precision=0.05).target
    'population'
    """

    precision: float = 0.03
    reference: DistanceEstimator | None = None
    cheap: DistanceEstimator | Sequence[DistanceEstimator] | None = None
    target: Target = POPULATION
    confidence: float = 0.95
    pilot: int = _FEWEST
    up_to: float = math.inf
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("reference", "cheap"):
            _check_estimators(name, getattr(self, name))
        if self.target == "samples":  # type: ignore[comparison-overlap]  # as the command line calls them
            object.__setattr__(self, "target", THESE_SAMPLES)
        for name in ("precision", "confidence", "pilot", "up_to", "seed"):
            if not is_number(getattr(self, name)):
                raise InputError(f"`{name}` of PrecisionPlan must be a number; given {getattr(self, name)!r}.")
        if not 0 < self.precision < 1:
            raise InputError(f"`precision` must lie between 0 and 1, for instance 0.03; given {self.precision!r}.")
        if self.target not in TARGETS:
            raise InputError(f"`target` must be {POPULATION!r} or {THESE_SAMPLES!r}. {suggest(self.target, TARGETS)}")
        if not 0.5 <= self.confidence < 1:
            raise InputError(f"`confidence` must lie in [0.5, 1), for instance 0.95; given {self.confidence!r}.")
        if self.pilot < _FEWEST:
            raise InputError(
                f"`pilot` must be at least {_FEWEST}: from fewer samples of a group neither its spread nor the use of "
                f"a cheap estimator is known; given {self.pilot}."
            )
        if not self.up_to > 0:
            raise InputError(f"`up_to` must be a radius above 0; given {self.up_to!r}.")
        if self.seed < 0:
            raise InputError(f"`seed` must not be negative; given {self.seed}.")
        if self.seed >= STORED_BELOW:
            raise InputError(f"`seed` must be a whole number below 2**63; given {self.seed}.")

    @property
    def is_finite(self) -> bool:
        """Whether the target is these samples."""
        return self.target == THESE_SAMPLES

    def estimators(self) -> tuple[DistanceEstimator, ...]:
        """Return the cheap estimators and then the reference, with defaults for those that were left out."""
        from fairmargin.distances.plumb.estimator import Plumb
        from fairmargin.distances.proxies.first_order import FirstOrder

        reference = Plumb() if self.reference is None else self.reference
        if self.cheap is None:
            cheap: tuple[DistanceEstimator, ...] = ()
            if getattr(reference, "needs", "") == "gradient":
                cheap = (FirstOrder(reference.norm),)
        else:
            cheap = (self.cheap,) if isinstance(self.cheap, DistanceEstimator) else tuple(self.cheap)
        for each in cheap:
            if getattr(each, "norm", None) != getattr(reference, "norm", None):
                raise InputError(
                    f"The cheap estimator {each!r} and the reference {reference!r} must measure in the same norm."
                )
        return (*(each for each in cheap if each != reference), reference)


def _check_estimators(name: str, given: object) -> None:
    """Refuse names and classes where estimators are meant, before anything is measured."""
    several = given if isinstance(given, list | tuple) else () if given is None else (given,)
    for each in several:
        if isinstance(each, type | str) or not isinstance(each, DistanceEstimator):
            shown = f"the class `{each.__name__}`" if isinstance(each, type) else repr(each)
            raise InputError(
                f"`{name}` of PrecisionPlan must be an estimator, such as `fm.ESTIMATORS['first_order']()`; given "
                f"{shown}."
            )


def audit_to_precision(
    model: object,
    x: Any,
    y: Any,
    partition: Partition,
    plan: PrecisionPlan | None = None,
    *,
    references: Any = None,
    store: Path | str | None = None,
    progress: Progress | None = None,
) -> PrecisionResult:
    """Estimate how robust each group is to a given precision, measuring as few samples as possible.

    The reference estimator measures some samples of each group, a cheap estimator more of them. The results of the
    cheap estimator are corrected by those of the reference, so that a bad cheap estimator costs precision but never
    misleads. A pilot shows how well they agree, and from that how many samples each has to measure. Further rounds
    follow until every group is as precise as requested, or until no further sample would help. A group with too few
    samples to contain its distant ones is reported as not precise, with the reason.

    Guarantee: intervals cover as stated for large samples, see `docs/inference.md`; which samples are measured and
    the results depend on their content, not on their order. With a `store`, nothing is measured twice.

    Parameters
    ----------
    model, x, y, references
        As for `measure`.
    partition
        The groups.
    plan
        Precision, estimators and target.
    store
        A folder in which every measurement is stored; an interrupted audit continues from there.
    progress
        Called with the kind of work, the number of finished samples and the number of all samples.

    References
    ----------
    A. Angelopoulos et al., "Prediction-powered inference", Science 2023. The method is described in
    `fairmargin.inference.precision.control_variate`.

    >>> from fairmargin.distances.searches.ddn import DDN
    >>> x = np.random.default_rng(0).normal(size=(1000, 2))
    >>> sex = Partition.by("sex", ["F", "M"] * 500)
    >>> asked = PrecisionPlan(precision=0.2, reference=DDN(steps=20))
    >>> found = audit_to_precision(([3.0, 4.0], 0.0), x, (x @ [3, 4] > 0).astype(int), sex, asked)
    >>> found.met, found["F"].reference_samples
    (True, 250)
    """
    chosen = plan or PrecisionPlan()
    if not isinstance(chosen, PrecisionPlan):
        raise InputError(f"`plan` must be a PrecisionPlan, such as `fm.PrecisionPlan(0.05)`; given {chosen!r}.")
    check_partition(partition)
    classifier = as_classifier(model)
    samples = as_samples(in_model_order(classifier, x))
    shape = tuple(map(int, samples.shape[1:]))
    for estimator in chosen.estimators():
        model_for(classifier, estimator, shape)  # refuses what the model cannot serve
    same_length(x=samples, partition=partition)
    checked = check_samples(classifier, samples, y)
    classifier, fixed = checked.model, None
    if references is not None:
        fixed = as_references(in_model_order(classifier, references, "references"), shape, classifier.domain)
    missing = getattr(classifier, "accepts_missing", False)
    dataset = Dataset(samples, checked.positions, domain=classifier.domain, missing=missing)
    subject = Subject(classifier, dataset, checked.positions, chosen.seed, fixed)
    folder = None if store is None else RunFolder(as_path(store, "store"))
    with folder.store.lock() if folder else nullcontext():
        measure = None if folder is None else Measurer(folder, Serial(), progress or silent)
        found = precise(subject, partition, chosen, measure, progress or silent)
    return replace(found, notes=(*found.notes, *checked.warnings))


def precise_case(
    options: AuditOptions, case: Case, estimators: Mapping[str, DistanceEstimator], measure: Measurer
) -> Iterator[tuple[StoredResult, PrecisionResult]]:
    """Yield an audit to a precision for every partition of a case."""
    (name,) = estimators
    plan = precision_plan(options, case, estimators)
    subject = case.measured
    measure.note(*(getattr(estimator, "caution", "") for estimator in plan.estimators()))
    for partition in case.partitions:
        about = case.about.model_copy(update={"partition": partition.name, "estimator": name})
        source = f"{subject.dataset.fingerprint} {subject.model.fingerprint()}"
        parts = f"precision {name} {options.model_dump_json()} {partition.name} {source}"
        key = sha256(parts.encode() + partition.membership.astype("<i8").tobytes()).hexdigest()
        result = precise(subject, partition, plan, measure, measure.progress)
        yield StoredResult(kind="precision", about=about, key=key), result


def precision_plan(options: AuditOptions, case: Case, estimators: Mapping[str, DistanceEstimator]) -> PrecisionPlan:
    """Return the plan of an audit to a precision from its options."""
    (reference,) = estimators.values()
    in_table = case.subject is not None and bool(case.subject.model.domain.columns)
    return PrecisionPlan(
        precision=options.precision,
        reference=reference,
        cheap=() if in_table else None,  # a slope says nothing of categories
        target=THESE_SAMPLES if options.target == "samples" else POPULATION,
        confidence=options.confidence,
        up_to=options.up_to,
        seed=case.seed,
    )


def precise(
    subject: Subject, partition: Partition, plan: PrecisionPlan, measure: Measurer | None, progress: Progress
) -> PrecisionResult:
    """Audit a checked subject; a measurer carries out and stores the measurements."""
    estimators = plan.estimators()
    names = [_name(each) for each in estimators]
    keys = content_keys(
        subject.dataset.x,
        subject.positions,
        -1 - plan.seed,  # other keys than those of the randomness of the estimators
        lambda done, total: progress("drawing samples", done, total),
    )
    trial = np.sort(np.argsort(keys, kind="stable")[: subject.model.tile if subject.model.tile > 1 else 64])
    costs = tuple(_cost(subject, each, trial, measure, progress) for each in estimators)

    def ask(which: int, rows: Ints) -> Distances:
        what = f"measuring {names[which]}"
        if measure is None:
            return _by_shards(subject, estimators[which], rows, progress, what)
        return _by_tasks(subject, estimators[which], rows, measure, what)

    target = PrecisionTarget(plan.precision, plan.confidence, plan.is_finite, plan.pilot, plan.up_to, costs)
    answer = to_precision(ask, partition, keys, target)
    found = _result(answer, partition, plan, target, names, len(trial))
    everyone = Partition("all", ("all",), np.zeros(len(answer.reference), dtype=np.int64))
    cut = forced_cut([answer.reference], everyone, answer.up_to, plan.up_to)
    if not cut.remedy:
        return found
    every = replace(cut, reasons=cut.reasons * len(found.groups))
    return replace(found, groups=within_cap(found.groups, every), notes=(every.warning, *found.notes))


def _by_shards(subject: Subject, estimator: DistanceEstimator, rows: Ints, progress: Progress, what: str) -> Distances:
    """Measure some samples without storing anything, with any estimator, including those of the user."""
    model, x = subject.given_to(estimator), subject.dataset.x
    size = shard_size(model, math.prod(subject.shape), len(rows))
    parts = []
    progress(what, 0, len(rows))
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        parts.append(measure_shard(model, estimator, take_rows(x, some), subject.positions[some], subject.seed))
        progress(what, min(start + size, len(rows)), len(rows))
    return concatenate(parts)


def _by_tasks(subject: Subject, estimator: DistanceEstimator, rows: Ints, measure: Measurer, what: str) -> Distances:
    positions = subject.positions[rows]
    x, missing = take_rows(subject.dataset.x, rows), subject.dataset.missing
    dataset = Dataset(x, positions, domain=subject.model.domain, missing=missing)
    some = replace(subject, dataset=dataset, positions=positions)
    return measure.carry_out([estimator_plans(some, estimator)], what)[0].distances


def _cost(
    subject: Subject,
    estimator: DistanceEstimator,
    trial: Ints,
    measure: Measurer | None,
    progress: Progress,
) -> float:
    """Return the passes per sample from a trial on one tile; the run stores the number."""
    model = subject.given_to(estimator)
    x, positions = take_rows(subject.dataset.x, trial), subject.positions[trial]
    if measure is None:
        return passes_of(model, estimator, x, positions, subject.seed)
    content = np.ascontiguousarray(content_keys(x, positions, subject.seed)).astype("<u8").tobytes()
    parts = f"{describe(estimator)} {type(estimator).revision} {model.fingerprint()} {model.tile}"
    key = sha256(parts.encode() + content).hexdigest()
    known = measure.run.remembered(_COSTS)
    if isinstance(known.get(key), int | float):
        return float(known[key])
    progress("trying what an estimator costs", 0, 1)
    found = passes_of(model, estimator, x, positions, subject.seed)
    measure.run.remember(_COSTS, {**known, key: found})
    progress("trying what an estimator costs", 1, 1)
    return found


def named(estimators: Sequence[DistanceEstimator]) -> dict[str, DistanceEstimator]:
    """Return estimators by their names in messages."""
    return {_name(each): each for each in estimators}


def _name(estimator: DistanceEstimator) -> str:
    try:
        settings = describe(estimator)
    except InputError:  # an estimator of the user, which has no name in the catalog
        return type(estimator).__name__
    steps = settings.get("steps")
    return str(settings["name"]) if steps is None else f"{settings['name']}:steps={steps}"


def _result(
    answer: PrecisionOutcome,
    partition: Partition,
    plan: PrecisionPlan,
    target: PrecisionTarget,
    names: list[str],
    trial: int,
) -> PrecisionResult:
    means, contrast, sizes = answer.means, answer.contrast, partition.sizes
    bound, groups = answer.reference.bound, []
    for g, label in enumerate(partition.labels):
        mean = float(means.mean[g])
        known = means.spread2[g] / sizes[g] if plan.is_finite else 0.0
        error2 = means.error2[g] + known
        reason = ""
        if mean == 0:
            reason = f"no sample of group {label!r} that was looked at has a distance above 0"
        elif not plan.is_finite and sizes.sum() < SAMPLES:
            reason = (
                f"there are {sizes.sum():,} samples, and {SAMPLES} are needed to know whether a few percent of them "
                "lie far away"
            )
        robustness = Estimate(mean, float(contrast.mean_low[g]), float(contrast.mean_high[g]), bound, reason)
        sigma = Estimate(
            float(contrast.sigma[g]), float(contrast.sigma_low[g]), float(contrast.sigma_high[g]), bound / bound, reason
        )
        if mean == 0:
            robustness = Estimate(0.0, 0.0, math.nan, bound, reason)
            sigma = Estimate(-1.0, -1.0, math.nan, bound / bound, reason)
        if len(sizes) == 1:
            sigma = Estimate.undefined(f"there is no sample outside group {label!r}", bound / bound)
        groups.append(
            PreciseGroup(
                group=label,
                size=int(sizes[g]),
                robustness=robustness,
                sigma=sigma,
                sigma_alone=sigma,
                cheap_samples=0 if answer.cheap is None else int(means.pool[g]),
                reference_samples=int(means.measured[g]),
                plain_samples=float(means.spread2[g] / error2) if error2 > 0 else float(sizes[g]),
                correlation=float(means.correlation[g]),
                met=bool(answer.met[g]),
                unmet=_why_unmet(g, answer, sizes, plan, reason),
            )
        )
    costs = target.costs
    return PrecisionResult(
        partition=partition.name,
        groups=judged(groups, contrast.p, contrast.sigma_limits, plan.confidence),
        precision=plan.precision,
        confidence=plan.confidence,
        target=plan.target,
        reference=names[REFERENCE],
        cheap="" if answer.cheap is None else names[answer.cheap],
        bound=bound,
        norm=answer.reference.norm,
        spent=float(np.dot(np.array(answer.counts) + trial, costs)),
        plain_cost=costs[REFERENCE] * sum(row.plain_samples for row in groups),
        full_cost=costs[REFERENCE] * float(sizes.sum()),
        rounds=answer.rounds,
        up_to=answer.up_to,
        notes=_notes(answer, groups, names, plan),
    )


def _notes(
    answer: PrecisionOutcome, groups: list[PreciseGroup], names: list[str], plan: PrecisionPlan
) -> tuple[str, ...]:
    notes = []
    if answer.cheap is None and len(names) > 1:
        cheap = " nor ".join(names[:-1])
        notes.append(f"The pilot found that {cheap} does not pay: {names[-1]} was run on a plain random part.")
    short = [row for row in groups if not row.met]
    for why in dict.fromkeys(row.unmet for row in short):
        which = [row for row in short if row.unmet == why]
        listed = ", ".join(row.group for row in which)
        notes.append(f"{listed}: not to ±{plan.precision:g}{_reached(which)}. {why}.")
    if answer.cap_reason:
        notes.append(answer.cap_reason[0].upper() + answer.cap_reason[1:] + ".")
    return tuple(notes)


def _reached(groups: list[PreciseGroup]) -> str:
    """Return the precision that was reached, rounded up, so that a precision narrowly missed does not look reached."""
    widths = [(row.sigma_alone.high - row.sigma_alone.low) / 2 for row in groups]
    known = [width for width in widths if math.isfinite(width)]
    return f"; reached ±{math.ceil(1000 * max(known)) / 1000:g}" if known else ""


def _why_unmet(g: int, answer: PrecisionOutcome, sizes: Ints, plan: PrecisionPlan, reason: str) -> str:
    """Return why a group is not as precise as requested; empty if it is."""
    if answer.met[g]:
        return ""
    if reason:
        return reason[0].upper() + reason[1:]
    width = float(answer.contrast.half_width[g])
    if math.isnan(width):
        return "Its mean, or that of its rest, has no interval"
    if not plan.is_finite and sizes[g] < SAMPLES:
        return (
            f"With fewer than {SAMPLES} samples of a group, {FAR_SHARE:.0%} that lie far away can be missed; the "
            "interval assumes that they are no more common in this group than in the others. More samples of it would "
            "help"
        )
    if width <= plan.precision:
        return (
            "A few far samples carry most of its error, and its interval is short only because its mean came out low; "
            "more samples of it may show a larger one"
        )
    largest = float(answer.means.largest[g])
    one = f"; a single one makes up {largest:.0%} of its squared error" if largest > _MUCH else ""
    return f"Its samples are used up: none is left that would shorten the interval by more than 1 %{one}"
