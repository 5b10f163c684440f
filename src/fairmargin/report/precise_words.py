"""What an audit to a precision did, in sentences for people who build no models. Plain text, as in `words`."""

import math
from collections.abc import Sequence

from fairmargin.analyses.precision import PreciseGroup, PrecisionResult
from fairmargin.presentation.formatting import percent, plain

METHOD = (
    "Group means of the dear estimate, with the help of the cheap one where that pays (a control variate with "
    "cross-fitted predictions, known as prediction-powered inference). Intervals and p-values by Hall’s "
    "transformation and Student’s t for the logarithm of each group’s mean over that of its rest; p-values are "
    "corrected by Holm over the groups, and the intervals of σ by Bonferroni, so that the two agree. Who got the dear "
    "estimate was drawn at random. How many was planned in rounds, until every group was as precise as asked or no "
    "sample was left that would help. At least 250 samples of a group were looked at, where there are so many: fewer "
    "may not contain any of its far samples."
)


def extent(results: Sequence[PrecisionResult]) -> str:
    """How precise the page's answer is, in a sentence."""
    rows = [row for result in results for row in result]
    short = sum(not row.met for row in rows)
    asked = f"± {points(results[0].precision)}"
    what = "differences from the rest" if len(rows) > len(results) else "mean distances"
    if not short:
        return f"All {what} are known to {asked}, from a thorough look at a random part of the samples."
    which = f"{short:,} of {len(rows):,} groups" if short < len(rows) else "all groups"
    return f"The {what} were to be known to {asked}; for {which} they are known less precisely."


def trust(results: Sequence[PrecisionResult]) -> str:
    """What it means for trust that not everybody was searched."""
    poll = (
        "Those who were searched were drawn at random and stand for the others, as in an opinion poll. What is not "
        "known for not having searched everybody is in the intervals."
    )
    if not any(result.cheap for result in results):
        return poll
    return (
        "The numbers on this page are those of the dear estimate, as if it had been made everywhere. Where both "
        "estimates are known one sees how far the cheap one is off, and by that it is corrected for everyone. If it is "
        "poor, the intervals become longer, but the result does not become wrong: nothing is taken from it unchecked. "
        f"{poll} Samples that the model misjudges as they are have distance 0 and need no search."
    )


def work(result: PrecisionResult) -> str:
    """Who was measured how, and what that saved, in a paragraph."""
    dear, all_ = sum(row.reference_samples for row in result), result.size
    name = plain(result.reference)
    if result.cheap:
        cheap = sum(row.cheap_samples for row in result)
        on = "everybody" if cheap == all_ else f"{cheap:,} of {all_:,} samples"
        first = f"A cheap estimate ({plain(result.cheap)}) was made of {on}, and the dear one ({name}) of {dear:,}"
    else:
        first = f"The dear estimate ({name}) was made of {dear:,} of {all_:,} samples, and no cheap one helped"
    plainly = _compared(result.plain_cost, result.spent)
    fully = _compared(result.full_cost, result.spent)
    return (
        f"{first}, drawn at random from each group. The computer had {plainly} to do than with the dear estimate alone "
        f"on as many random samples as are needed to be as precise, and {fully} than with the dear estimate on all "
        f"{all_:,} samples."
    )


def _compared(other: float, spent: float) -> str:
    """How much less there was to do, or how much more.

    >>> _compared(30, 10), _compared(5, 10), _compared(10, 10)
    ('3.0 times less', '2.0 times more', 'no less')
    """
    ratio = other / spent if spent > 0 else math.inf
    if math.isinf(ratio):
        return "infinitely less"
    times = f"{max(ratio, 1 / ratio if ratio else math.inf):.1f}"
    if times == "1.0":
        return "no less"
    return f"{times} times {'less' if ratio > 1 else 'more'}"


def reached(row: PreciseGroup, result: PrecisionResult) -> str:
    """Half the width of the interval that was asked to be short, which is that of the group alone.

    In points of σ; where there is one group, of its mean, relative to it.
    """
    estimate = row.sigma_alone if len(result.groups) > 1 else row.robustness
    half = (estimate.high - estimate.low) / 2
    if len(result.groups) == 1 and estimate.value > 0:
        half /= estimate.value
    return f"± {points(half)}" if math.isfinite(half) else "no interval"


def points(half: float) -> str:
    """Half a width in percentage points.

    >>> points(0.03), points(0.125)
    ('3.0 points', '12 points')
    """
    return percent(half).replace(" %", " points")
