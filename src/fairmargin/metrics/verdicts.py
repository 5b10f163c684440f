"""Verdicts, and the sentences that carry them."""

import math

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.core.bound import Bound
from fairmargin.core.partition import Partition
from fairmargin.metrics.contrast import MOST_DROPPED, Contrasts
from fairmargin.metrics.plan import AuditPlan
from fairmargin.metrics.results import (
    LESS_ROBUST,
    MORE_ROBUST,
    NO_DIFFERENCE,
    NOT_COMPARABLE,
    TOO_FEW,
    Estimate,
    GroupResult,
    limit_text,
)


def verdict_of(i: int, contrasts: Contrasts, adjusted: float, plan: AuditPlan) -> str:
    """One of the five verdicts, for group number `i`."""
    if contrasts.rest_units[i] == 0:
        return NOT_COMPARABLE
    if min(contrasts.units[i], contrasts.rest_units[i]) < plan.smallest_group:
        return TOO_FEW
    if contrasts.dropped[i] > MOST_DROPPED:
        return NOT_COMPARABLE
    if adjusted < plan.alpha:
        return LESS_ROBUST if contrasts.gap[i] < 0 else MORE_ROBUST
    return NO_DIFFERENCE


def finding_of(
    label: str,
    verdict: str,
    i: int,
    sigma: Estimate,
    adjusted: float,
    contrasts: Contrasts,
    plan: AuditPlan,
    bound: Bound,
) -> str:
    """The verdict as a sentence that names the kind of bound it rests on."""
    if verdict == TOO_FEW:
        own_is_small = contrasts.units[i] <= contrasts.rest_units[i]
        few = int(min(contrasts.units[i], contrasts.rest_units[i]))
        what = "independent clusters" if plan.cluster is not None else "samples"
        return (
            f"{label}: too few samples ({'it has' if own_is_small else 'its rest has'} {few:,} {what}; "
            f"{plan.smallest_group} are needed for a verdict)."
        )
    if verdict == NOT_COMPARABLE and contrasts.rest_units[i] == 0:
        return f"{label}: not comparable (there is no sample outside the group)."
    if verdict == NOT_COMPARABLE:
        name = "the control" if plan.control is None else repr(plan.control.name)
        share = f"{contrasts.dropped[i]:.0%}"
        return f"{label}: not comparable ({share} of the samples lie in strata of {name} that lack one side)."
    than = "than the rest" if verdict in (LESS_ROBUST, MORE_ROBUST) else "from the rest"
    size = f"σ undefined: {sigma.reason}"
    if sigma.is_defined and math.isnan(sigma.high):
        size = f"σ = {sigma.value:+.1%}, no interval: {sigma.reason}"
    elif sigma.is_defined:
        low, high = (limit_text(limit, "{:+.1%}".format) for limit in (sigma.low, sigma.high))
        whose = " for all groups at once" if len(contrasts.p) > 2 else ""
        size = f"σ = {sigma.value:+.1%}, {plan.confidence:.0%} interval{whose} {low} to {high}"
    p = "p < 0.001" if adjusted < 0.001 else f"p = {adjusted:.3f}"
    return f"{label}: {verdict} {than}, by {bound.words} ({size}; {p})."


def warnings_of(values: Floats, partition: Partition, rows: tuple[GroupResult, ...], bound: Bound) -> tuple[str, ...]:
    """What a reader must know before quoting a verdict."""
    warnings = []
    weak = _weak_group(values, partition, rows)
    if weak:
        warnings.append(weak)
    verdicts = {row.verdict for row in rows}
    if bound is Bound.UPPER and verdicts & {LESS_ROBUST, MORE_ROBUST}:
        warnings.append(
            "The distances are upper bounds from an attack. A gap between two upper bounds orders nothing by itself: "
            "an attack that is weaker on one group could pass for unfairness. Check with a stronger attack or a "
            "certificate."
        )
    if bound is Bound.LOWER and verdicts & {LESS_ROBUST, MORE_ROBUST}:
        warnings.append(
            "The distances are certified lower bounds. A gap between two lower bounds orders nothing by itself: a "
            "certificate that is looser for one group could pass for unfairness. Check with an attack."
        )
    if bound is Bound.NEITHER:
        warnings.append("The distances are a proxy: they bound the true distance on neither side.")
    return tuple(warnings)


def _weak_group(values: Floats, partition: Partition, rows: tuple[GroupResult, ...]) -> str:
    """One very weak group pulls the rest of every other group down, so that all others look more robust than it."""
    weak = [i for i, row in enumerate(rows) if row.verdict == LESS_ROBUST]
    strong = [i for i, row in enumerate(rows) if row.verdict == MORE_ROBUST]
    if not weak or len(strong) < 1 or len(rows) < 3:
        return ""
    worst = min(weak, key=lambda i: rows[i].robustness.value)
    others = partition.membership != worst
    sums = np.bincount(partition.membership[others], weights=values[others], minlength=len(rows))
    sizes = np.bincount(partition.membership[others], minlength=len(rows))
    fallen = []
    for i in strong:
        rest_size, rest_sum = sizes.sum() - sizes[i], sums.sum() - sums[i]
        if rest_size and rest_sum > 0 and sums[i] / sizes[i] / (rest_sum / rest_size) - 1 <= 0.5 * rows[i].sigma.value:
            fallen.append(rows[i].group)
    if not fallen:
        return ""
    names = ", ".join(repr(name) for name in fallen)
    return (
        f"Group {rows[worst].group!r} is so much weaker that it lowers the rest of every other group: without it, less "
        f'than half of the advantage of {names} would be left. One very weak group makes every other "more robust than '
        'the rest".'
    )
