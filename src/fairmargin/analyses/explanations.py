"""Explanations on the page: what curves, σ, verdicts and bounds mean."""

from collections.abc import Iterable, Mapping

from fairmargin.analyses.cells import MARKS
from fairmargin.core.bound import Bound
from fairmargin.inference.estimate import (
    FEWEST_FOR_VERDICT,
    LESS_ROBUST,
    MORE_ROBUST,
    NO_DIFFERENCE,
    NO_VERDICT,
    NOT_COMPARABLE,
    TOO_FEW,
)
from fairmargin.presentation.section import (
    Explanation,
)

VERDICT_MEANINGS = {
    LESS_ROBUST: "The group lies closer to the boundary than the rest, by more than chance explains.",
    MORE_ROBUST: "The group lies farther from the boundary than the rest, by more than chance explains.",
    NO_DIFFERENCE: (
        "The difference could be chance. This is no proof of equality: the interval shows which differences remain "
        "possible."
    ),
    TOO_FEW: (
        "The group, or its rest, has fewer effective samples than the audit asks for (below the size where samples "
        "have weights or form clusters). An interval may be shown; nothing is claimed."
    ),
    NO_VERDICT: (
        f"The group, or its rest, has fewer than {FEWEST_FOR_VERDICT} effective samples: enough for an interval, but "
        "tests of so few skewed distances raise too many false alarms. Nothing is claimed."
    ),
    NOT_COMPARABLE: (
        "There is no one to compare with: no sample outside the group, or, where groups are compared within the values "
        "of another attribute, one side is lacking there for more than a fifth of the samples. Or searches "
        "ended early: more than 1 % of one side count beyond the radius up to which enough is known or, in an audit to "
        "a precision, the shortest search forces a cap on all distances that cuts more than a fifth of them."
    ),
}

BOUND_MEANINGS = {
    Bound.EXACT: (
        "Exact distances: the shortest perturbation that changes the answer was computed, not searched for. "
        "Differences between groups are differences of the model on these samples."
    ),
    Bound.UPPER: (
        "Upper bounds: an attack found a misclassified input at this distance, so the boundary is at most this far "
        "away, and perhaps nearer. A gap between two upper bounds orders nothing by itself: an attack that works less "
        "well on one group could pass for unfairness. Check with a second, stronger attack, or with a lower bound."
    ),
    Bound.LOWER: (
        "Lower bounds: it is certified that nothing within this distance changes the answer; the boundary may be much "
        "farther away. A gap between two lower bounds orders nothing by itself either: a certificate that is looser "
        "for one group could pass for unfairness. A lower and an upper bound together bracket the truth."
    ),
    Bound.NEITHER: (
        "A proxy: the number tends to follow the distance but may lie on either side of it. It serves to compare "
        "quickly, and proves nothing about how far the boundary is."
    ),
}

SIGMA_MEANING = (
    "σ compares a group’s mean distance with that of everyone else: σ = −30 % says that on average its samples lie "
    "30 % closer to the decision boundary than everyone else’s, so a smaller perturbation suffices to fool the model "
    "about them. σ = 0 is equality. Misclassified samples count with distance 0."
)

CURVE_READING = (
    "Each curve starts at the left with the share of a group’s samples that are classified correctly when nothing is "
    "disturbed. Going right, the allowed perturbation grows, and the curve falls as samples can be made to fail. A "
    "curve that falls earlier belongs to a group that is easier to fool; the area below a curve is the group’s mean "
    "distance. The shaded band is where the curve of the whole population plausibly lies."
)

VARIANCE_READING = (
    "V_f grows with the square of the distances: a model that is more robust for everyone has a larger V_f. To "
    "compare models, look at the relative one, V_f / Rob(f)²."
)

CURVES_TOPIC, SIGMA_TOPIC, VERDICTS_TOPIC, BOUNDS_TOPIC = (
    "The curves",
    "σ, the relative distance",
    "The verdicts",
    "What the bounds mean",
)
"""Topics of explanations on the page."""


def verdicts_explained(meanings: Mapping[str, str] = VERDICT_MEANINGS) -> tuple[Explanation, ...]:
    """Return what every verdict means."""
    return tuple(Explanation(VERDICTS_TOPIC, text, verdict, MARKS[verdict]) for verdict, text in meanings.items())


def bounds_explained(bounds: Iterable[Bound]) -> tuple[Explanation, ...]:
    """Return what these kinds of distances are."""
    return tuple(Explanation(BOUNDS_TOPIC, BOUND_MEANINGS[bound], bound.words) for bound in bounds)
