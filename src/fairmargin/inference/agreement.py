"""Do two estimators agree on who is less robust?"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairmargin.core.undefined import Undefined
from fairmargin.errors import InputError


@dataclass(frozen=True, slots=True)
class SignAgreement:
    """How often the signs of two σ agree, beside how often they would by chance.

    Attack bounds speak of the model, smoothing of the smoothed model: do not read too much into their agreement
    (Nanda 2021).
    """

    share: float
    chance: float  # agreement of independent signs with the same margins
    groups: int  # groups where both are defined
    undefined: int
    mean_difference: float
    variance_of_difference: float


def sign_agreement(sigma_a: Mapping[str, float], sigma_b: Mapping[str, float]) -> SignAgreement:
    """Share of groups whose σ has the same sign, chance level, mean and (population) variance of σ_a − σ_b.

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
        float((signs[:, 0] == signs[:, 1]).mean()),
        chance,
        len(defined),
        int((~both).sum()),
        float(difference.mean()),
        float(difference.var()),
    )
