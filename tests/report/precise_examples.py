"""Audits to a precision made by hand, so that their page can be tested without measuring anything."""

import math
from collections.abc import Sequence

from fairmargin.analyses.precision import PreciseGroup, PrecisionResult
from fairmargin.core.bound import Bound
from fairmargin.core.norm import Norm
from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE, Estimate


def precise_group(
    group: str = "F",
    *,
    sigma: float = -0.2,
    size: int = 400,
    width: float = 0.04,
    verdict: str = NO_DIFFERENCE,
    met: bool = True,
    bound: Bound = Bound.UPPER,
) -> PreciseGroup:
    """Return a group whose mean is 1 + σ."""
    mean = 1 + sigma
    return PreciseGroup(
        group=group,
        size=size,
        robustness=Estimate(mean, mean - width, mean + width, bound),
        sigma=Estimate(sigma, sigma - width, sigma + width, bound / bound),
        sigma_alone=Estimate(sigma, sigma - 0.8 * width, sigma + 0.8 * width, bound / bound),
        cheap_samples=size,
        reference_samples=min(size, 60),
        plain_samples=310.0,
        correlation=0.93,
        met=met,
        p=0.0002 if verdict != NO_DIFFERENCE else 0.4,
        p_adjusted=0.0004 if verdict != NO_DIFFERENCE else 0.8,
        verdict=verdict,
    )


def precise_result(
    groups: Sequence[PreciseGroup] | None = None,
    *,
    partition: str = "sex",
    cheap: str = "first_order",
    notes: tuple[str, ...] = (),
    bound: Bound = Bound.UPPER,
) -> PrecisionResult:
    """Return a result for the given groups, by default F, which is less robust, and M."""
    both = (
        precise_group("F", sigma=-0.2, verdict=LESS_ROBUST, bound=bound),
        precise_group("M", sigma=0.25, verdict=MORE_ROBUST, met=False, width=0.08, bound=bound),
    )
    return PrecisionResult(
        partition=partition,
        groups=tuple(groups) if groups is not None else both,
        precision=0.05,
        confidence=0.95,
        target="population",
        reference="plumb:steps=40",
        cheap=cheap,
        bound=bound,
        norm=Norm.L2,
        spent=1000.0,
        plain_cost=5200.0,
        full_cost=7100.0,
        rounds=2,
        up_to=math.inf,
        notes=notes,
    )
