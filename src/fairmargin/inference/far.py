"""How many samples it takes to know whether a few percent of a group lie far away, and what groups tell each other.

A mean depends on its farthest samples. If 2 % of the samples of a group lie 30 times as far as the others, they make up
38 % of the mean, and more than half of all draws of 30 samples contain none of them: the spread then looks small, and
an interval made from it is wrong. Two precautions follow. No group counts as precise before so many samples are known
that a far sample would have been among them; and no group's largest deviation counts as smaller than is usual in all
groups.
"""

import numpy as np

from fairmargin.core.arrays import Floats, Ints

FAR_SHARE = 0.02  # the share of far samples that should not be missed
SAMPLES = 250  # of which none is far with a probability of 0.98^250 = 0.6 % at that share, and at most one of 4 %


def samples_needed(sizes: Ints, *, finite: bool) -> Floats:
    """Return how many samples of each group must be known before its interval can count as precise.

    For a population these are `SAMPLES`. If the target is the samples there are, fewer suffice: the probability that a
    draw misses all far samples, `FAR_SHARE` of the group, is then (1 − n / size)^(FAR_SHARE · size).

    >>> samples_needed(np.array([50, 500, 50_000]), finite=False).tolist()
    [250.0, 250.0, 250.0]
    >>> samples_needed(np.array([50, 500, 50_000]), finite=True).tolist()
    [50.0, 199.0, 250.0]
    """
    if not finite:
        return np.full(len(sizes), float(SAMPLES))
    missed = (1 - FAR_SHARE) ** (SAMPLES / (FAR_SHARE * sizes))
    return np.minimum(np.ceil(sizes * (1 - missed)), SAMPLES)


def usual_largest2(largest2: Floats, scale: Floats) -> Floats:
    """Return the least that counts as the largest squared deviation of each group: the mean over all, by their scales.

    A far sample was drawn in some groups and not in others, although all may contain such samples. NaN: unknown.

    >>> usual_largest2(np.array([900.0, 4.0, np.nan]), np.array([1.0, 2.0, 1.0])).tolist()
    [450.5, 1802.0, 450.5]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        relative2 = largest2 / scale**2
    seen = np.isfinite(relative2)
    return np.asarray(scale**2 * (relative2[seen].mean() if seen.any() else 0.0))
