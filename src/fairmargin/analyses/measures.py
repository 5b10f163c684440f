"""Measures beside σ of an audit: medians, the parts of σ, σ of all distances, and what depends on the largest ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmargin.analyses.cells import share, table_of
from fairmargin.core.arrays import Floats
from fairmargin.core.curve import RobustnessCurve
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.contrast import Contrasts
from fairmargin.inference.design import Design
from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE, Estimate, Verdict
from fairmargin.inference.medians import median_contrasts
from fairmargin.inference.parts import sigma_parts
from fairmargin.inference.permutation import hypotheses
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.tails import TailChanges
from fairmargin.presentation.formatting import (
    level_text,
    listed,
    number,
    percent,
    plain,
    quoted,
    relative_limits,
    signed_percent,
)
from fairmargin.presentation.section import Column, Section


class Measured:
    """Mixin without fields: a group of an audit, with the measures beside its σ."""

    __slots__ = ()

    group: str
    verdict: Verdict
    sigma: Estimate
    sigma_median: Estimate
    sigma_accuracy: Estimate
    sigma_margin: Estimate


@dataclass(frozen=True, slots=True)
class OtherMeasures:
    """Measures of one group relative to its rest; their intervals hold for all groups at once, as that of σ."""

    sigma_median: Estimate
    sigma_accuracy: Estimate
    sigma_margin: Estimate


def other_measures(
    distances: Distances,
    values: Floats,
    partition: Partition,
    settings: AuditSettings,
    design: Design,
    contrasts: Contrasts,
    reasons: Sequence[str],
) -> tuple[OtherMeasures, ...]:
    """Return the measures of every group.

    Parameters
    ----------
    values
        The distances as the audit averages them.
    reasons
        Why a group has no contrast with its rest; empty if it has one.
    """
    tested = ~np.isnan(contrasts.p)
    everyone = hypotheses(np.ones_like(tested))
    alpha = settings.alpha / np.where(tested, max(hypotheses(tested), 1), everyone)
    medians = median_contrasts(distances, partition, settings.control, design, alpha=alpha, reasons=reasons)
    bound = distances.bound / distances.bound
    parts = sigma_parts(
        values, distances.correct, partition, settings, design, alpha=alpha, reasons=reasons, bound=bound
    )
    return tuple(OtherMeasures(m, part.accuracy, part.margin) for m, part in zip(medians, parts, strict=True))


def parts_words(row: Measured) -> str:
    """Say whether a less robust group is misclassified more often, or its correct samples lie nearer, or both.

    Empty for other groups, and where a part has no interval.
    """
    parts = row.sigma_accuracy, row.sigma_margin
    if row.verdict != LESS_ROBUST or any(np.isnan([part.low, part.high]).any() for part in parts):
        return ""
    accuracy, margin = parts
    wrong = f"is misclassified more often (relative to the accuracy of the rest: {_with_limits(accuracy)})"
    near = f"the mean distance of its correct samples is smaller ({_with_limits(margin)} relative to the rest)"
    if accuracy.high < 0 and margin.high < 0:
        return f"It {wrong}, and {near}."
    if accuracy.high < 0:
        return f"It {wrong}; the mean distance of its correct samples {_other_part(margin)}."
    if margin.high < 0:
        return f"{near[0].upper()}{near[1:]}; its accuracy {_other_part(accuracy)}."
    return (
        f"Neither part alone is significant: relative to the rest, its accuracy differs by {_with_limits(accuracy)}, "
        f"and the mean distance of its correct samples by {_with_limits(margin)}."
    )


def _other_part(part: Estimate) -> str:
    """Return how a part compares with the rest that is not smaller."""
    return f"{'is larger' if part.low > 0 else 'does not differ significantly'} ({_with_limits(part)})"


def median_words(row: Measured, *, also: str = "") -> str:
    """Say that the medians differ where the means do not, or differ in the other direction; empty elsewhere.

    `also` is the direction, "larger" or "smaller", of which the sentence before speaks.
    """
    median = row.sigma_median
    if not (median.low > 0 or median.high < 0) or row.verdict not in (LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE):
        return ""
    if row.verdict == (MORE_ROBUST if median.low > 0 else LESS_ROBUST):
        return ""
    which = "larger" if median.low > 0 else "smaller"
    how = " is also" if which == also else ", however, is"
    return f"Its median distance{how} {which} than that of the rest: {_with_limits(median)}."


def _with_limits(estimate: Estimate) -> str:
    return f"{signed_percent(estimate.value)}, interval {relative_limits(estimate.value, estimate.low, estimate.high)}"


_VERY_WIDE = 10.0  # limits of σ beyond +1,000 %, or below the same factor in the other direction
_SINGLE = 0.2  # share of a mean that one sample may add without a word about it


def is_very_wide(sigma: Estimate) -> bool:
    """Return whether an interval of σ allows means that differ by more than a factor of 11.

    >>> from fairmargin.core.bound import Bound
    >>> [is_very_wide(Estimate(0.2, *limits, Bound.EXACT)) for limits in ((-0.3, 904), (-0.95, 0.3), (-0.3, 0.9))]
    [True, True, False]
    """
    return sigma.high > _VERY_WIDE or sigma.low < 1 / (1 + _VERY_WIDE) - 1


def largest_share(curve: RobustnessCurve, up_to: float) -> float:
    """Return the share that the sample with the largest part adds to a mean distance; 0 if all distances are 0.

    >>> largest_share(RobustnessCurve([1.0, 1.0, 6.0]), np.inf)
    0.75
    """
    parts = np.minimum(curve.values, up_to) * (1.0 if curve.weights is None else curve.weights)
    total = float(parts.sum())
    return float(parts.max()) / total if 0 < total < np.inf else 0.0


def single_samples(rows: Sequence[tuple[Measured, float]]) -> str:
    """Say which means depend on one distance, and refer to medians; empty if none does.

    Each row is given with the share of its mean that one sample adds. Groups without a verdict are left out.
    """
    found = [(row, part) for row, part in rows if part >= _SINGLE and row.verdict in _WITHOUT_TAIL]
    if not found:
        return ""
    which = [f"{percent(part)} of that of {quoted(row.group)}" for row, part in found]
    row = found[0][0]
    median = f" (of {quoted(row.group)}: {_with_limits(row.sigma_median)})" if row.sigma_median.is_defined else ""
    return (
        f"Mean distances depend on single samples: one distance makes up {listed(which, at_most=3)}. "
        f"Compare the medians{median}, or means up to a radius (`up_to`)."
    )


_WITHOUT_TAIL = {
    LESS_ROBUST: "less robust",
    MORE_ROBUST: "more robust",
    NO_DIFFERENCE: "not significantly different",
}


def tail_warning(changes: TailChanges, rows: Sequence[Measured]) -> str:
    """Name the groups whose verdict depends on the 1 % largest distances, and their medians; empty without any."""
    changed = [row for row in rows if row.group in changes.verdicts]
    if not changed:
        return ""
    would = []
    for verdict, words in _WITHOUT_TAIL.items():
        names = [quoted(row.group) for row in changed if changes.verdicts[row.group] == verdict]
        if names:
            would.append(f"{listed(names)} would be {words}")
    few = f"the {changes.samples:,} largest distances" if changes.samples > 1 else "the largest distance"
    medians = [
        f"{quoted(row.group)} {_with_limits(row.sigma_median)}" for row in changed if row.sigma_median.is_defined
    ]
    look = f" Medians do not depend on them; relative to the rest: {'; '.join(medians[:3])}." if medians else ""
    return (
        f"Without {few} of all {changes.total:,} ({percent(changes.samples / changes.total)}), {listed(would)}: the "
        f"verdict depends on a few far samples.{look}"
    )


def measures_section(rows: Sequence[Any], confidence: float, up_to: float, name: str) -> Section:
    """Return the table of all measures beside σ."""
    restricted = np.isfinite(up_to)
    columns = [
        (Column("median", "relative to rest"), [share(row.sigma_median, signed=True) for row in rows]),
        (Column("accuracy part", "of σ"), [share(row.sigma_accuracy, signed=True) for row in rows]),
        (Column("margin part", "of σ"), [share(row.sigma_margin, signed=True) for row in rows]),
    ]
    if restricted:
        columns.append((Column("σ", "of all distances"), [share(row.sigma_unrestricted, signed=True) for row in rows]))
    cap = (
        f" The parts are those of σ up to {number(up_to)}; medians and the last column use distances that are not "
        "capped."
        if restricted
        else ""
    )
    return Section(
        "Other measures",
        tables=(
            table_of(
                rows,
                columns,
                caption=(
                    "Every group relative to the rest. The median is that of all samples, of which misclassified ones "
                    "have distance 0; it does not depend on how far the farthest samples are. Accuracy part and margin "
                    "part (the mean distance of correct samples) multiply to "
                    f"σ: 1 + σ = (1 + accuracy part) · (1 + margin part).{cap} The {level_text(confidence)} intervals "
                    "hold for all groups at once."
                ),
                label=f"Other measures of {plain(name)}",
            ),
        ),
    )
