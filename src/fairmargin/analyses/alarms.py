"""Signs that an attack was misled or too weak in a group: masked gradients rather than a model that is robust."""

from dataclasses import dataclass
from typing import Final, Literal

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

NEARER = 0.01  # noise must win by this much: searches stop within a thousandth of the boundary
JUMP = 0.3  # a decrease by this share is another place, not a refinement of what was found
BESIDE = 0.1  # attacks that work differ by a few percent


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign that an attack was misled or too weak."""

    meaning: str  # what was observed of a sample
    consequence: str  # why its distance may be too large
    threshold: float  # share of a group above which an alarm is raised
    reason: str  # why this threshold


SIGNS: Final[dict[Kind, Sign]] = {
    NO_GRADIENT: Sign(
        "the model has no gradient, or none that is a number",
        "an attack that follows gradients cannot see where to go",
        0.05,
        "without a slope an attack is blind; a twentieth of a group that looks twice as robust as it is moves the mean "
        "by 5 %",
    ),
    NOISE_IS_NEARER: Sign(
        "random noise found a misclassified input nearer than the attack did",
        "the attack missed what chance found",
        0.02,
        "noise knows nothing of the model, so that it should never win; a single chance find is tolerated",
    ),
    DISTANCES_JUMP: Sign(
        f"another budget found an input more than {100 * JUMP:.0f} % nearer than the audited one",
        "at the audited budget the attack may have ended in the wrong place",
        0.05,
        "a working attack refines what it found; only one that was lost finds another place",
    ),
    UNREACHED: Sign(
        "the attack found nothing at all",
        "a sample without a distance counts as if it were as robust as the cap",
        0.0,
        "a sample without a distance enters the mean only through the cap, as if it were that robust",
    ),
    REFERENCES_ONLY: Sign(
        "the attack by itself found nothing, and went towards a reference of another prediction",
        "the way to a reference leads out, but is hardly ever the shortest",
        0.05,
        "the way to a reference is no attack: it shows where data lie, not how robust the model is",
    ),
    ANOTHER_IS_NEARER: Sign(
        f"another attack audited beside this one found a misclassified input more than {100 * BESIDE:.0f} % nearer",
        "what the other attack found is closer to the truth, so audit with that one or join both by +",
        0.05,
        "every input found is an upper bound, whichever attack found it; that more steps of one attack change nothing "
        "means little where another is already nearer",
    ),
}


@dataclass(frozen=True, slots=True)
class Alarm:
    """How many of a group's correctly classified samples show one sign that the attack was misled or too weak."""

    kind: Kind
    hits: int  # number of samples that show it
    of: int  # number of samples looked at
    share: Estimate  # hits / of, with its exact interval (Clopper and Pearson)
    threshold: float  # the alarm is raised above this share

    @property
    def raised(self) -> bool:
        """Whether the share exceeds the threshold."""
        return self.share.is_defined and self.share.value > self.threshold


def consequence(kind: Kind, groups: int = 1) -> str:
    """Say what an alarm means for the distances of the groups for which it was raised.

    >>> consequence(NOISE_IS_NEARER)
    'So the distances of this group may be too large: the attack missed what chance found.'
    """
    whose = "this group" if groups == 1 else "these groups"
    return f"So the distances of {whose} may be too large: {SIGNS[kind].consequence}."


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
    """Return every alarm that can be judged from the measurements of a group, raised or not.

    `audited` are the distances at the audited budget and `best` the smallest over all budgets. `slopes` are the
    distances that the first slope predicts, `noise` those that noise found, `unaided` those at the audited budget
    without references, and `others` the smallest that other attacks of the audit found; `inf` where there is none.
    Only samples that are classified correctly are counted.

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
    return tuple(_alarm(kind, seen[kind][counted], confidence) for kind in SIGNS if kind in seen)


def _alarm(kind: Kind, hit: Bools, confidence: float) -> Alarm:
    hits, of = int(hit.sum()), len(hit)
    if not of:
        share = Estimate.undefined("no sample of the group is classified correctly", Bound.EXACT)
    else:
        share = Estimate(hits / of, *binomial_interval(hits, of, confidence), Bound.EXACT)
    return Alarm(kind, hits, of, share, SIGNS[kind].threshold)
