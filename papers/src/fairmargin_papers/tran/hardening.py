"""Fair and robust training: errors over the grid of the training radius ε_* and the penalty λ."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Bools, Floats
from fairmargin.core.radius import parse_radius
from fairmargin_papers.shared.claims import Claim, Decision, by_all, directed
from fairmargin_papers.shared.measures import boundary_error, parity_violation
from fairmargin_papers.shared.paper import Assignment
from fairmargin_papers.shared.trained import SeedMean, slope_over_seeds
from fairmargin_papers.tran.studies import RACE, HardeningPlan, hardening_methods, penalised, run_subject
from fairmargin_papers.tran.sweep import collapsed, predictions

_PERCENT = 100.0


@dataclass(frozen=True, slots=True, eq=False)
class Hardened:
    """Errors of the networks of a grid, in arrays of shape (seeds, training radii, values of λ)."""

    plan: HardeningPlan
    natural: Floats
    violation: Floats
    robust: Floats  # with a fourth axis for the radii of the attack
    collapsed: Bools  # networks that predict nearly always one class, or are hardly better than guessing
    trained_on: int  # number of training samples
    tested_on: int  # number of test samples

    @property
    def title(self) -> str:
        """Display name of the data."""
        return self.plan.subject.title

    @property
    def sound(self) -> dict[float, int]:
        """Positions of the values of λ at which no network collapsed."""
        gone = np.asarray(self.collapsed.any(axis=(0, 1)))
        return {weight: i for i, weight in enumerate(self.plan.subject.weights) if not gone[i]}


def run_hardening(assignment: Assignment, plan: HardeningPlan) -> Hardened:
    """Train and attack all networks of the grid."""
    grids = run_subject(assignment, f"fair-and-robust-{plan.subject.name}", plan.subject, hardening_methods(plan))
    partition, classes = (grids[0].partition(None, name) for name in (plan.subject.groups, "class"))
    said = predictions(grids)
    natural, violation, robust, gone = [], [], [], []
    for seed, grid in zip(plan.subject.seeds, grids, strict=True):
        for radius in plan.trained_radii:
            for weight in plan.subject.weights:
                method = penalised(radius, weight)
                outcomes = [grid.outcome(method=method, radius=each) for each in plan.subject.radii]
                natural.append(1 - outcomes[0].correct.mean())
                violation.append(max(parity_violation(outcomes[0].correct, partition).values()))
                robust.append(
                    [1 - each.correct.mean() + boundary_error(each.correct, each.unreached) for each in outcomes]
                )
                gone.append(collapsed(said[seed, method], outcomes[0].correct, classes))
    shape = len(grids), len(plan.trained_radii), len(plan.subject.weights)
    trained = grids[0].training()
    return Hardened(
        plan,
        np.reshape(natural, shape),
        np.reshape(violation, shape),
        np.reshape(robust, (*shape, -1)),
        np.reshape(gone, shape),
        len(trained.training),
        len(grids[0].dataset()),
    )


def hardening_rows(claims: Mapping[int, Claim], found: Hardened) -> list[Claim]:
    """Return one row per half of the claim, over every λ at which no network collapsed."""
    claim, plan = claims[13], found.plan
    shown = plan.subject.name == RACE
    texts = (
        f"A larger training radius gives a lower robust error for every λ: {found.title}.",
        f"A larger training radius gives a higher natural error: {found.title}.",
    )
    if not found.sound:
        return [claim.found("networks collapsed", "undecided", text=text, remark=_left_out(found)) for text in texts]
    falls, rises = by_weight(found, found.robust.mean(axis=3)), by_weight(found, found.natural)
    pooled = slope_over_seeds(_shares(plan), _PERCENT * found.natural[:, :, list(found.sound.values())].mean(axis=2))
    span = f"ε_* from {plan.trained_radii[0]} to {plan.trained_radii[-1]}"
    worst = max(falls.values(), key=lambda each: each.high)
    remark = (
        f"Robust errors by RFGSM, mean over ε = {', '.join(plan.subject.radii)}; changes on a fitted line."
        " “For every λ”: each λ has its own interval, and all must lie below 0; the one shown is that of "
        f"the highest. The paper has UTKFace by race and VGG-13. {_left_out(found)}"
    )
    return [
        claim.found(
            f"robust error, {span}: " + "; ".join(f"λ = {w:g}: {s.signed(1)} points" for w, s in falls.items()),
            Decision(by_all([directed(each, "below").verdict for each in falls.values()]), worst.interval),
            text=texts[0],
            printed="Figure 7" if shown else "",
            remark=remark,
        ),
        claim.found(
            f"natural error, {span}: {pooled.signed(1)} points, mean over λ ("
            + "; ".join(f"λ = {w:g}: {s.signed(1)}" for w, s in rises.items())
            + ")",
            directed(pooled, "above"),
            text=texts[1],
            printed="Figure 6" if shown else "",
            remark=_left_out(found),
        ),
    ]


def by_weight(found: Hardened, values: Floats) -> dict[float, SeedMean]:
    """Return the change of a number from the least to the largest ε_*, in points, for every sound λ."""
    return {
        weight: slope_over_seeds(_shares(found.plan), _PERCENT * values[:, :, i]) for weight, i in found.sound.items()
    }


def _left_out(found: Hardened) -> str:
    gone = [
        f"λ = {weight:g} ({found.collapsed[:, :, i].sum()} of {found.collapsed[:, :, i].size} networks)"
        for i, weight in enumerate(found.plan.subject.weights)
        if weight not in found.sound
    ]
    return f"Left out, collapsed: {', '.join(gone)}." if gone else ""


def _shares(plan: HardeningPlan) -> list[float]:
    radii = [parse_radius(radius) for radius in plan.trained_radii]
    return [radius / (radii[-1] - radii[0]) for radius in radii]
