"""Tran's closed forms against an audit of samples."""

import numpy as np

from fairmargin.analyses.audit import audit
from fairmargin.analyses.comparison import compare
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.inference.settings import AuditSettings
from fairmargin.models.linear import LinearClassifier
from fairmargin_papers.shared.claims import Claim, by_direction, by_settings, limits_of
from fairmargin_papers.shared.paper import Assignment
from fairmargin_papers.shared.settings import Tally
from fairmargin_papers.shared.theory_pictures import thresholds_of
from fairmargin_papers.theory.gaussian_pair import GaussianPair

# Chosen by the closed forms so that 2,000 samples can tell the thresholds apart.
_SAMPLED, _SAMPLED_RADIUS = GaussianPair(0.0, 4.0, 3.0), 0.8
_SURE = 0.999  # of the intervals that closed forms must lie in: several are looked at together


def sampled(assignment: Assignment, samples: int) -> list[Claim]:
    """Mean distances of the same samples at the three thresholds: their order, and whether closed forms agree."""
    x, y = _SAMPLED.sample(samples, seed=0)
    classes = Partition.by("class", np.where(y > 0, "+", "−"))
    everyone = Partition.by("all", np.repeat("all", samples))
    plan = AuditSettings(confidence=_SURE, resamples=assignment.by_scale(500, 2_000, 2_000))
    found: dict[str, Distances] = {}
    inside = Tally(0, 0)
    for done, (name, at) in enumerate(thresholds_of(_SAMPLED, _SAMPLED_RADIUS).items()):
        assignment.tell("tran: thresholds audited", done, 3)
        model = LinearClassifier([[0.0], [1.0]], [0.0, -at])
        found[name] = measure(model, x, model.predict(x), ExactLinear(), progress=False)
        truth = dict(zip("+−", map(float, map(np.asarray, _SAMPLED.mean_distance_by_class(at))), strict=True))
        for row in audit(found[name], classes, plan):
            low, high = limits_of(row.robustness)
            inside = Tally(inside.holding + (low <= truth[row.group] <= high), inside.of + 1)
    assignment.tell("tran: thresholds audited", 3, 3)
    claim, rows = assignment.claims[5], []
    for letter, (larger, smaller) in zip("bc", (("robust", "natural"), ("natural", "fair")), strict=True):
        change = compare(found[smaller], found[larger], everyone, AuditSettings(resamples=plan.resamples))["all"].change
        rows.append(
            claim.found(
                f"{larger} − {smaller}: {change.value:+.4f}".replace("-", "−"),
                by_direction(limits_of(change), "above"),
                interval=limits_of(change),
                letter=letter,
                text=f"(ours) From samples: mean distances are larger at the {larger} than at the {smaller} threshold.",
                printed=f"closed form {_gain(larger, smaller):+.4f}".replace("-", "−"),
                remark="The same samples at both thresholds, paired; 95 % interval.",
            )
        )
    rows.append(
        claim.found(
            f"{inside.holding} of {inside.of} inside their {_SURE:.1%} intervals",
            by_settings(inside.holding, inside.of),
            letter="d",
            text="(ours) Closed forms agree with an audit of samples: mean distances of both classes at three "
            "thresholds.",
            printed="",
        )
    )
    return rows


def _gain(larger: str, smaller: str) -> float:
    at = thresholds_of(_SAMPLED, _SAMPLED_RADIUS)
    first, second = (float(np.asarray(_SAMPLED.mean_distance(at[name]))) for name in (larger, smaller))
    return first - second
