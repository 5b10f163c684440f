"""Attack adequacy: measure some samples of each group with rising budgets, and check for signs of masked gradients."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from fairmargin.analyses.adequacy import TOLERANCE, Adequacy, Evidence, check_settings, nothing_to_settle, settle
from fairmargin.core.arrays import Ints, Keys, same_length
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances, concatenate
from fairmargin.core.keys import check_seed, sample_keys
from fairmargin.core.partition import Partition, check_partition
from fairmargin.core.progress import Count, silent
from fairmargin.data.samples import as_samples, take_rows
from fairmargin.distances.combine import Tightest
from fairmargin.distances.measure import check_samples, measure, measure_shard, model_for, shard_size, with_references
from fairmargin.distances.on_tables.search import searches_table
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.errors import InputError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.protocol import Differentiable, encode_labels, in_model_order
from fairmargin.models.tables.classifier import TableClassifier
from fairmargin.models.tables.frames import as_frame

PER_GROUP = 64
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
_NUMBERS_AT_ONCE = 2**22


@dataclass(frozen=True, slots=True)
class Budgets:
    """The same estimator with rising budgets.

    Parameters
    ----------
    estimators
        The estimators, smallest budget first.
    names
        The name of each budget.
    audited
        The position of the audited one.
    """

    estimators: tuple[DistanceEstimator, ...]
    names: tuple[str, ...]
    audited: int


def adequacy(
    model: object,
    x: Any,
    y: Any,
    partition: Partition,
    estimator: DistanceEstimator,
    *,
    budgets: Sequence[DistanceEstimator] | None = None,
    per_group: int = PER_GROUP,
    tolerance: float = TOLERANCE,
    confidence: float = 0.95,
    up_to: float = math.inf,
    seed: int = 0,
    references: Any = None,
    progress: Count | bool | None = None,
) -> Adequacy:
    """Check whether an attack was strong enough for the gap between groups to be a property of the model.

    Some samples of each group, chosen pseudo-randomly by their content, are measured with a quarter, a half, once,
    twice and four times the estimator's `steps`. If the relative gap σ of a group changes from the audited budget to
    the best of all budgets by less than `tolerance`, it has settled; see `settle`. An attack that has no gradients to
    follow does not change either. Therefore alarms report, for each group, where the model has no gradients, where
    noise finds what the attack did not, where distances jump, where nothing was found, and where only a reference led
    to a result.

    Guarantee: the choice of samples, and all that is measured, depends on their content and not on their order.

    Parameters
    ----------
    model, x, y, seed, references
        As for `measure`.
    partition
        The groups of the samples.
    estimator
        The audited estimator. For `Tightest`, every member's budget rises.
    budgets
        Estimators with rising budgets, for those without a field `steps`; `estimator` must be among them.
    per_group
        Maximum number of samples of each group that are measured.
    tolerance
        Maximum change of σ that counts as settled.
    confidence
        Confidence level of the intervals.
    up_to
        Distances are limited to this value before they are averaged.
    progress
        Called with (measurements done, number of measurements); True shows a bar for each measurement, False shows
        none. By default bars are shown if standard error is a terminal.

    References
    ----------
    Signs of masked gradients: A. Athalye, N. Carlini, D. Wagner, "Obfuscated gradients give a false sense of security",
    ICML 2018; N. Carlini et al., "On evaluating adversarial robustness", 2019.

    >>> from fairmargin.distances.searches.ddn import DDN
    >>> x = np.random.default_rng(0).normal(size=(40, 2))
    >>> sex = Partition.by("sex", ["F", "M"] * 20)
    >>> adequacy(([3.0, 4.0], 0.0), x, (x @ [3, 4] > 0).astype(int), sex, DDN(steps=40)).verdict
    'settled'
    """
    classifier = as_classifier(model)
    samples, labels = _samples(in_model_order(classifier, x)), _labels(y)
    model_for(classifier, estimator, tuple(samples.shape[1:]))  # refuses what the model cannot serve
    check_partition(partition)
    _check_per_group(per_group)
    check_seed(seed)
    check_settings(tolerance, confidence, up_to)
    same_length(x=samples, y=labels, partition=partition)
    if budgets is not None:
        ladder: Budgets | None = _given(estimator, budgets)
    else:
        ladder = rising(estimator) if has_budget(estimator) else None
    positions = encode_labels(classifier, labels)
    chosen = chosen_of(content_keys(samples, positions, seed), partition, per_group)
    own, own_labels, classes = take_rows(samples, chosen), labels[chosen], positions[chosen]
    given = as_frame(x, "x").iloc[chosen] if isinstance(classifier, TableClassifier) else own  # raw rows, or `own`
    classifier = check_samples(classifier, own, own_labels).model
    total, finished = len(ladder.names) + 3 if ladder else 1, itertools.count(1)
    report, bars = (progress, False) if callable(progress) else (silent, progress)

    def count(measured: Distances) -> Distances:
        """Report one more finished measurement."""
        report(next(finished), total)
        return measured

    def at(each: DistanceEstimator) -> Distances:
        """Measure the chosen samples with one estimator."""
        found = measure(classifier, given, own_labels, each, seed=seed, references=references, progress=bars)
        return count(found)

    audited = at(estimator)
    if audited.bound is not Bound.UPPER:
        return nothing_to_settle(audited.bound, audited.norm, partition.name, repr(estimator), tolerance)
    ladder = ladder or rising(estimator)  # raises an error that says what is missing
    runs = tuple(audited if each == estimator else at(each) for each in ladder.estimators)
    evidence = Evidence(runs, ladder.names, ladder.audited)
    # Gradients and noise are checked on the model itself: they say nothing about another subject.
    if (isinstance(classifier, Differentiable) or searches_table(classifier)) and audited.subject == "model":
        from fairmargin.distances.masking import measure_noise, measure_slopes, without_references

        norm, size = estimator.norm, shard_size(classifier, math.prod(samples.shape[1:]), len(chosen))
        shards = [slice(start, start + size) for start in range(0, len(chosen), size)]
        slopes = [measure_slopes(classifier, norm, own[s], classes[s]) for s in shards]
        noise = [measure_noise(classifier, norm, own[s], classes[s], audited.values[s], seed) for s in shards]
        alone = with_references(classifier, without_references(tuple(samples.shape[1:])), estimator)
        evidence = replace(
            evidence,
            slopes=count(concatenate(slopes)),
            noise=count(concatenate(noise)),
            unaided=count(concatenate([measure_shard(alone, estimator, own[s], classes[s], seed) for s in shards])),
        )
    return settle(
        evidence,
        partition.take(chosen),
        estimator=repr(estimator),
        sizes=partition.sizes,
        tolerance=tolerance,
        confidence=confidence,
        up_to=up_to,
    )


def rising(estimator: DistanceEstimator, factors: Sequence[float] = FACTORS) -> Budgets:
    """Return the estimator with its steps multiplied by each factor; for `Tightest`, every member's steps.

    >>> from fairmargin.distances.searches.ddn import DDN
    >>> rising(DDN(steps=2)).names
    ('1 step', '2 steps', '4 steps', '8 steps')
    """
    if not has_budget(estimator):
        raise InputError(
            f"`{type(estimator).__name__}` has no field `steps` to raise. Give `budgets`, a list of estimators "
            "with rising budgets."
        )
    several: dict[DistanceEstimator, str] = {}
    for factor in factors:
        raised, name = _raised(estimator, factor)
        several.setdefault(raised, name)
    estimators = tuple(several)
    return Budgets(estimators, tuple(several.values()), estimators.index(estimator))


def has_budget(estimator: DistanceEstimator) -> bool:
    """Return whether the estimator has `steps` that can be raised."""
    members = estimator.estimators if isinstance(estimator, Tightest) else (estimator,)
    return any(isinstance(getattr(member, "steps", None), int) for member in members)


def chosen_of(keys: Keys, partition: Partition, per_group: int = PER_GROUP) -> Ints:
    """Return the positions of the samples to measure: those of each group with the smallest keys, in order.

    Guarantee: another order of the same samples gives the same choice; the choice in a group does not depend on others.

    >>> chosen_of(np.array([5, 3, 9, 1], dtype=np.uint64), Partition.by("sex", ["F", "F", "F", "M"]), 2).tolist()
    [0, 1, 3]
    """
    _check_per_group(per_group)
    same_length(samples=keys, partition=partition)
    parts = []
    for _, members in partition:
        own = np.flatnonzero(members)
        parts.append(own[np.argsort(keys[own], kind="stable")[:per_group]])
    return np.sort(np.concatenate(parts)).astype(np.int64)


def content_keys(x: Any, positions: Ints, seed: int = 0, progress: Count | None = None) -> Keys:
    """Return the keys of all samples, which are read block by block."""
    count = len(positions)
    at_once, keys = max(1, _NUMBERS_AT_ONCE // max(1, math.prod(x.shape[1:]))), []
    for start in range(0, count, at_once):
        keys.append(sample_keys(np.asarray(x[start : start + at_once]), positions[start : start + at_once], seed))
        if progress is not None:
            progress(min(start + at_once, count), count)
    return np.concatenate(keys)


def _raised(estimator: DistanceEstimator, factor: float) -> tuple[DistanceEstimator, str]:
    """Return the estimator with its steps multiplied by `factor`, and the name of that budget."""
    if isinstance(estimator, Tightest):
        members = (_raised(member, factor)[0] for member in estimator.estimators)
        return Tightest(*members), f"{factor:g}× the steps"
    if not has_budget(estimator):
        return estimator, ""
    steps = max(1, round(estimator.steps * factor))  # type: ignore[attr-defined]
    raised: DistanceEstimator = replace(estimator, steps=steps)  # type: ignore[type-var]
    return raised, f"{steps:,} step{'' if steps == 1 else 's'}"


def _given(estimator: DistanceEstimator, budgets: Sequence[DistanceEstimator]) -> Budgets:
    """Return the budgets that the caller gave, checked."""
    several = tuple(budgets) if isinstance(budgets, Sequence) and not isinstance(budgets, str) else (budgets,)
    for each in several:
        if isinstance(each, type) or not isinstance(each, DistanceEstimator):
            raise InputError(f"`budgets` must be a list of estimators such as `DeepFool(steps=20)`; given {each!r}.")
    if len(several) < 2 or estimator not in several:
        raise InputError(
            "`budgets` must be two or more estimators with rising budgets, the audited one among them; given "
            f"{len(several)}{'' if estimator in several else f', without {estimator!r}'}."
        )
    return Budgets(several, tuple(f"budget {i}" for i in range(1, len(several) + 1)), several.index(estimator))


def _check_per_group(per_group: int) -> None:
    """Refuse a number of samples that is not a whole number of at least 1."""
    if not isinstance(per_group, Integral) or isinstance(per_group, bool) or per_group < 1:
        raise InputError("must be a whole number, at least 1", field="per_group", given=per_group)


def _samples(x: Any) -> Any:
    """Return the samples as an array-like object, or refuse them."""
    try:
        return as_samples(x)
    except (ValueError, TypeError) as error:
        raise InputError(f"`x` must hold one row of numbers per sample; {error}.") from None


def _labels(y: Any) -> Any:
    """Return the labels as an array, or refuse them."""
    try:
        labels = np.asarray(y)
    except (ValueError, TypeError) as error:
        raise InputError(f"`y` must hold one label per sample; {error}.") from None
    if labels.ndim != 1:
        raise InputError(f"`y` must hold one label per sample; given {y!r}.")
    return labels
