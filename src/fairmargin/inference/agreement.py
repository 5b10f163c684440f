"""Agreement of the signs of σ between two estimators, two epochs or two models."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairmargin.core.undefined import Undefined
from fairmargin.errors import InputError


@dataclass(frozen=True, slots=True)
class SignAgreement:
    """How often the signs of two σ agree, and how often they would agree by chance.

    Two estimators may measure different things: attacks bound the distance of the model, smoothing that of the smoothed
    model. Agreement of their signs says little then (Nanda 2021).

    Parameters
    ----------
    share
        Share of the groups whose two σ have the same sign.
    chance
        Expected share if the signs were independent and each sign as frequent as observed.
    groups, undefined
        Number of groups in which both σ are defined, and of the other groups.
    mean_difference, variance_of_difference
        Mean and variance over the groups of the first σ minus the second.
    """

    share: float
    chance: float
    groups: int
    undefined: int
    mean_difference: float
    variance_of_difference: float


def sign_agreement(sigma_a: Mapping[str, float], sigma_b: Mapping[str, float]) -> SignAgreement:
    """Compare the signs of two σ of the same groups. Groups in which one of them is NaN are left out.

    >>> sign_agreement({"a": -0.2, "b": 0.1, "c": 0.3}, {"a": -0.1, "b": -0.1, "c": 0.2}).share
    0.6666666666666666
    """
    if set(sigma_a) != set(sigma_b):
        only = sorted(set(sigma_a) ^ set(sigma_b))
        raise InputError(f"Both σ must be of the same groups; only one of them has {', '.join(map(repr, only))}.")
    pairs = np.array([(sigma_a[group], sigma_b[group]) for group in sigma_a], dtype=np.float64).reshape(-1, 2)
    both = ~np.isnan(pairs).any(axis=1)
    defined = pairs[both]
    if not len(defined):
        nothing = Undefined("no group has both values")
        return SignAgreement(nothing, nothing, 0, len(pairs), nothing, nothing)
    signs = np.sign(defined)
    chance = sum(float(np.prod((signs == s).mean(axis=0))) for s in (-1, 0, 1))
    difference = defined[:, 0] - defined[:, 1]
    return SignAgreement(
        share=float((signs[:, 0] == signs[:, 1]).mean()),
        chance=chance,
        groups=len(defined),
        undefined=int((~both).sum()),
        mean_difference=float(difference.mean()),
        variance_of_difference=float(difference.var()),
    )
