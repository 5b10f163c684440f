"""Signs that an attack was misled or too weak in a group: masked gradients rather than a model that is robust."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from fairmargin.core.arrays import Bools
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.inference.estimate import Estimate
from fairmargin.inference.shares import binomial_interval

NO_GRADIENT: Final = "no gradient"
NOISE_IS_NEARER: Final = "noise is nearer"
DISTANCES_JUMP: Final = "distances jump"
UNREACHED: Final = "unreached"
REFERENCES_ONLY: Final = "found by a reference only"
ANOTHER_IS_NEARER: Final = "another attack is nearer"
Kind = Literal[
    "no gradient",
    "noise is nearer",
    "distances jump",
    "unreached",
    "found by a reference only",
    "another attack is nearer",
]
ALARMS: Final[tuple[Kind, ...]] = get_args(Kind)

NEARER = 0.01  # noise must win by this much: searches stop within a thousandth of the boundary
JUMP = 0.3  # a fall of so much is no refinement of what was found but another place
BESIDE = 0.1  # attacks that work differ by a few percent; a tenth is more than taste

# Above which share of a group each is raised, and why.
THRESHOLDS: Final[dict[Kind, float]] = {
    NO_GRADIENT: 0.05,
    NOISE_IS_NEARER: 0.02,
    DISTANCES_JUMP: 0.05,
    UNREACHED: 0.0,
    REFERENCES_ONLY: 0.05,
    ANOTHER_IS_NEARER: 0.05,
}
REASONS: Final[dict[Kind, str]] = {
    NO_GRADIENT: (
        "where nothing slopes an attack is blind; a twentieth of a group that looks twice as robust as it is moves the "
        "mean by 5 %"
    ),
    NOISE_IS_NEARER: "noise knows nothing of the model, so that it should never win; one chance find is forgiven",
    DISTANCES_JUMP: "a working attack refines what it found; only one that was lost finds quite another place",
    UNREACHED: "a sample without a distance enters the mean only through the cap, as if it were that robust",
    REFERENCES_ONLY: "the way to a reference is no attack: it says where data lie, not how robust the model is",
    ANOTHER_IS_NEARER: (
        "every input found is an upper bound, whoever found it; that more steps of one attack move nothing says little "
        "where another is already nearer"
    ),
}
MEANINGS: Final[dict[Kind, str]] = {
    NO_GRADIENT: "the model has no gradient, or none that is a number",
    NOISE_IS_NEARER: "random noise found a misclassified input nearer than the attack did",
    DISTANCES_JUMP: f"another budget found an input more than {100 * JUMP:.0f} % nearer than the audited one",
    UNREACHED: "the attack found nothing at all",
    REFERENCES_ONLY: "the attack by itself found nothing, and went towards a reference of another prediction",
    ANOTHER_IS_NEARER: (
        f"another attack audited beside this one found a misclassified input more than {100 * BESIDE:.0f} % nearer"
    ),
}
_CONSEQUENCES: Final[dict[Kind, str]] = {
    NO_GRADIENT: "an attack that follows gradients cannot see where to go",
    NOISE_IS_NEARER: "the attack missed what mere chance found",
    DISTANCES_JUMP: "at the audited budget the attack may have ended in the wrong place",
    UNREACHED: "a sample without a distance counts as if it were as robust as the cap",
    REFERENCES_ONLY: "the way to a reference is a way out, and hardly ever the nearest",
    ANOTHER_IS_NEARER: "what the other attack found is closer to the truth, so audit with that one or join both by +",
}


@dataclass(frozen=True, slots=True)
class Alarm:
    """How many of a group's correctly classified samples show one sign that the attack was misled or too weak.

    Parameters
    ----------
    kind
        One of `ALARMS`.
    hits, of
        Number of samples to which the alarm applies, and number of samples looked at.
    share
        The same as a share, with its exact interval (Clopper and Pearson).
    threshold
        Above this share the alarm is raised.
    """

    kind: Kind
    hits: int
    of: int
    share: Estimate
    threshold: float

    @property
    def raised(self) -> bool:
        """Whether the share exceeds the threshold."""
        return self.share.is_defined and self.share.value > self.threshold


def consequence(kind: Kind, groups: int = 1) -> str:
    """Say what an alarm means for the distances of the groups that it was raised for.

    >>> consequence(NOISE_IS_NEARER)
    'So the distances of this group may be too large: the attack missed what mere chance found.'
    """
    whose = "this group" if groups == 1 else "these groups"
    return f"So the distances of {whose} may be too large: {_CONSEQUENCES[kind]}."


def alarms_of(
    group: Bools,
    audited: Distances,
    best: Distances,
    confidence: float,
    *,
    slopes: Distances | None = None,
    noise: Distances | None = None,
    unaided: Distances | None = None,
    others: Distances | None = None,
) -> tuple[Alarm, ...]:
    """Return every alarm that can be judged from what was measured, raised or not.

    Parameters
    ----------
    group
        Which samples belong to the group; only those classified correctly are counted.
    audited, best
        Distances at the audited budget, and the best over all budgets.
    slopes
        What the first slope promises; `inf` where there is none.
    noise
        Distances that noise found; `inf` where it found nothing.
    unaided
        Distances at the audited budget without references to fall back on.
    others
        The least that other attacks found, which were audited beside this one.

    >>> found = Distances([1.0, 2.0, 4.0], [True] * 3, "upper", "l2")
    >>> noise = Distances([np.inf, np.inf, 3.0], [True] * 3, "upper", "l2")
    >>> [(a.kind, a.hits) for a in alarms_of(np.ones(3, bool), found, found, 0.95, noise=noise) if a.raised]
    [('noise is nearer', 1)]
    """
    counted = np.asarray(group) & audited.correct
    seen: dict[Kind, Bools] = {DISTANCES_JUMP: best.values < (1 - JUMP) * audited.values, UNREACHED: audited.unreached}
    if slopes is not None:
        seen[NO_GRADIENT] = slopes.unreached
    if noise is not None:
        seen[NOISE_IS_NEARER] = noise.values < (1 - NEARER) * audited.values
    if unaided is not None:
        seen[REFERENCES_ONLY] = unaided.unreached & ~audited.unreached
    if others is not None:
        seen[ANOTHER_IS_NEARER] = others.values < (1 - BESIDE) * audited.values
    return tuple(_alarm(kind, seen[kind][counted], confidence) for kind in ALARMS if kind in seen)


def _alarm(kind: Kind, hit: Bools, confidence: float) -> Alarm:
    hits, of = int(hit.sum()), len(hit)
    if not of:
        share = Estimate.undefined("no sample of the group is classified correctly", Bound.EXACT)
    else:
        share = Estimate(hits / of, *binomial_interval(hits, of, confidence), Bound.EXACT)
    return Alarm(kind, hits, of, share, THRESHOLDS[kind])
