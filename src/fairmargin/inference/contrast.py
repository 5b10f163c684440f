"""Comparison of each group with its rest: verdicts, corrected p-values, and simultaneous intervals that agree."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairmargin.core.arrays import Bools, Floats
from fairmargin.inference.bootstrap import Limits
from fairmargin.inference.estimate import (
    LESS_ROBUST,
    MORE_ROBUST,
    NO_DIFFERENCE,
    NO_VERDICT,
    NOT_COMPARABLE,
    TOO_FEW,
    Verdict,
)
from fairmargin.inference.hall import Studentised
from fairmargin.inference.permutation import holm, hypotheses
from fairmargin.inference.settings import AuditSettings
from fairmargin.presentation.formatting import JUST_BEYOND_ZERO, several

LimitsAt = Callable[[float], Limits]  # limits at level 1 − α, for an α not greater than that of the settings

_SMALLEST_P = 1e-12  # the closed forms say nothing about smaller probabilities
MOST_DROPPED = 0.2  # largest share of samples in strata without a counterpart for which groups are comparable


@dataclass(frozen=True, slots=True, eq=False)
class GroupMeans:
    """Rob(P) of every group with its limits, and what simultaneous statements need."""

    mean: Floats
    error2: Floats
    limits: Limits
    units: Floats  # number of independent samples or clusters of each group
    log_means: Studentised  # ln Rob(P) of every group
    correlation: Floats | None  # of the groups' means; None if they are independent
    log_overall: Studentised  # logarithm of the unweighted mean over the groups with two units or more, one entry
    log_overall_t: Floats  # its studentised bootstrap deviations, of shape (resamples, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Contrasts:
    """Comparison of every group with its rest. `gap_at` and `sigma_at` give limits at other levels."""

    gap: Floats
    gap_at: LimitsAt
    sigma: Floats
    sigma_limits: Limits
    sigma_at: LimitsAt
    dropped: Floats  # share of samples in strata that lack one side
    units: Floats  # number of independent samples or clusters
    rest_units: Floats
    effective: Floats  # (Σn)² / Σn² over the units, by which verdicts are decided: units can have unequal sizes n
    rest_effective: Floats
    p: Floats  # NaN where nothing was tested
    way: str  # description of the test


@dataclass(frozen=True, slots=True, eq=False)
class FirstTests:
    """p-values without permutations, the larger of a closed form and a bootstrap; NaN where both are undefined.

    The bootstrap counts only where it does not reject at `alpha`, because the number of resamples limits how small its
    p-values can be. A group whose own interval contains 0 is therefore never significant.
    """

    p: Floats
    undecided: Bools  # groups for which a permutation test can change whether p is below `alpha`

    @classmethod
    def of(cls, log_ratio: Studentised, bootstrapped: Floats, large: Bools, alpha: float) -> "FirstTests":
        """Combine both tests. A permutation test decides nothing more about groups that are `large` on both sides."""
        closed_form = np.maximum(log_ratio.p(), _SMALLEST_P)
        p = np.fmax(closed_form, np.where(bootstrapped >= alpha, bootstrapped, np.nan))
        is_defined = np.isfinite(log_ratio.value) & (log_ratio.error > 0)
        return cls(p, ~is_defined | (~large & (p < alpha)))

    def with_permutations(self, permuted: Floats, tested: Bools) -> Floats:
        """Return the p-value of each group before correction, the largest of all tests; NaN where nothing was tested.

        The permutation test is exact if groups are exchangeable, but rejects too often if a small, skewed group has the
        same mean as a rest of another shape; the closed form accounts for that.
        """
        return np.where(tested, np.fmax(self.p, permuted), np.nan)


def outer(one: Limits, other: Limits) -> Limits:
    """Return the outer limits of two intervals, ignoring NaN."""
    return Limits(np.fmin(one.low, other.low), np.fmax(one.high, other.high))


def is_testable(effective: Floats, rest_effective: Floats, dropped: Floats, settings: AuditSettings) -> Bools:
    """Return which groups can be tested: both sides have enough effective units, and few samples lack a counterpart."""
    large = (effective >= settings.fewest_for_verdict) & (rest_effective >= settings.fewest_for_verdict)
    return np.asarray(large & (dropped <= MOST_DROPPED))


def simultaneous_limits(
    limits_at: Callable[[float], Limits],
    value: Floats,
    adjusted: Floats,
    *,
    alpha: float,
    hypotheses: int,
    intervals: int,
) -> Limits:
    """Return Bonferroni limits that exclude 0 exactly where Holm's corrected p-value is below `alpha`.

    Holm's step-down correction rejects at least as often as Bonferroni's. If it rejects, the interval ends just before
    0. If it does not reject although the Bonferroni interval excludes 0, because another test decided the p-value or
    because the group was not tested (NaN), the interval is extended to 0.

    p-values are corrected for the number of tested groups. The level of the intervals of other groups is corrected for
    the number of all intervals.

    Parameters
    ----------
    limits_at
        Function that returns limits at level 1 − its argument.
    value
        Estimates, whose sign is significant where the p-value is below `alpha`.
    adjusted
        p-values corrected by Holm's method; NaN where nothing was tested.
    hypotheses, intervals
        Number of hypotheses that the tested groups stand for, and that all groups stand for.
    """
    limits, untested = limits_at(alpha / max(hypotheses, 1)), np.isnan(adjusted)
    if untested.any():
        wider = limits_at(alpha / max(intervals, 1))
        limits = Limits(np.where(untested, wider.low, limits.low), np.where(untested, wider.high, limits.high))
    with np.errstate(invalid="ignore"):
        rejected = adjusted < alpha
        low = np.where(rejected, limits.low, np.minimum(limits.low, 0.0))
        high = np.where(rejected, limits.high, np.maximum(limits.high, 0.0))
        beyond = JUST_BEYOND_ZERO * np.minimum(np.abs(value), 1.0)
        low = np.where(rejected & (value > 0), np.fmax(low, beyond), low)
        high = np.where(rejected & (value < 0), np.fmin(high, -beyond), high)
        # Rounding must not put a value outside of its interval.
        return Limits(np.minimum(low, value), np.maximum(high, value))


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Corrected p-values of all groups, and the simultaneous intervals that agree with them."""

    adjusted: Floats  # by Holm's method; NaN where nothing was tested
    sigma: Limits
    gap: Limits

    @classmethod
    def of(cls, contrasts: Contrasts, alpha: float) -> "Family":
        """Correct the p-values of contrasts, and compute their simultaneous intervals."""
        tested = ~np.isnan(contrasts.p)
        count, everyone = hypotheses(tested), hypotheses(np.ones_like(tested))
        adjusted = holm(contrasts.p, count)
        sigma, gap = (
            simultaneous_limits(limits_at, value, adjusted, alpha=alpha, hypotheses=count, intervals=everyone)
            for limits_at, value in ((contrasts.sigma_at, contrasts.sigma), (contrasts.gap_at, contrasts.gap))
        )
        return cls(adjusted, sigma, gap)


def few_samples(effective: float, settings: AuditSettings) -> Literal["too few samples", "no verdict"] | None:
    """Return why so few effective samples on one side get no verdict; None if they are enough."""
    if effective < settings.smallest_group:
        return TOO_FEW
    return NO_VERDICT if effective < settings.fewest_for_verdict else None


def too_few_words(number: int, settings: AuditSettings, *, own: bool, effective: bool) -> str:
    """Say which side has too few samples for a verdict, and what they would suffice for.

    >>> too_few_words(45, AuditSettings(), own=True, effective=True)
    'it has 45 effective samples, enough for an interval; a verdict needs 50'
    >>> too_few_words(1, AuditSettings(), own=False, effective=False)
    'its rest has 1 sample; a reliable interval needs 30, a verdict 50'
    """
    least, enough = settings.smallest_group, settings.fewest_for_verdict
    has = f"{'it' if own else 'its rest'} has {several(number, 'effective sample' if effective else 'sample')}"
    if number >= least:
        return f"{has}, enough for an interval; a verdict needs {enough}"
    if least == enough:
        return f"{has}; a verdict needs {enough}"
    return f"{has}; a reliable interval needs {least}, a verdict {enough}"


def verdict_of(i: int, contrasts: Contrasts, adjusted: float, settings: AuditSettings) -> Verdict:
    """Return the verdict on group number `i`, given its corrected p-value."""
    if contrasts.rest_units[i] == 0:
        return NOT_COMPARABLE
    few = few_samples(float(min(contrasts.effective[i], contrasts.rest_effective[i])), settings)
    if few != TOO_FEW and contrasts.dropped[i] > MOST_DROPPED:
        return NOT_COMPARABLE
    if few is not None:
        return few
    if adjusted < settings.alpha:
        return LESS_ROBUST if contrasts.gap[i] < 0 else MORE_ROBUST
    return NO_DIFFERENCE
