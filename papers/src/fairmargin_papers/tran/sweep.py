"""A sweep over the penalty λ: errors, violation of accuracy parity and distances of every network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.core.partition import Partition
from fairmargin.runner.study_run import StudyRun
from fairmargin_papers.shared.measures import accuracy_by_group, boundary_error, parity_violation
from fairmargin_papers.shared.paper import Assignment
from fairmargin_papers.shared.trained import BETTER_THAN_GUESSING
from fairmargin_papers.tran.sweep_distances import Place, boundary_distances, margins, predictions
from fairmargin_papers.tran.sweep_study import GROUP_LOSS, SweepPlan, penalised, run_subject, sweep_methods

COLLAPSED = 0.95  # a network that gives one answer to more than this share of the samples has learned nothing


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """What was measured along λ with one loss: a row a seed, a column for each λ.

    Parameters
    ----------
    weights
        Every λ.
    natural, violation
        The share of misclassified samples, and the largest |err_a − err|.
    margin, distance
        The mean softmax margin and the mean distance to the boundary (L2), of all samples, whatever their label.
    boundary
        The share that is right but not under RFGSM; a third axis for the radii.
    collapsed
        Networks that give one answer to nearly everything, or are hardly better than chance.
    """

    weights: tuple[float, ...]
    natural: Floats
    violation: Floats
    margin: Floats
    distance: Floats
    boundary: Floats
    collapsed: Bools

    @property
    def sound(self) -> tuple[int, ...]:
        """The columns in which no seed collapsed."""
        return tuple(np.flatnonzero(~self.collapsed.any(axis=0)).tolist())

    @property
    def fair(self) -> tuple[int, ...]:
        """The sound columns with λ > 0, if λ = 0 is sound too: otherwise there is nothing to compare them with."""
        return tuple(i for i in self.sound if self.weights[i] > 0) if 0 in self.sound else ()


@dataclass(frozen=True, slots=True, eq=False)
class GroupNumbers:
    """Accuracy and mean distance of each group, means over seeds, by method."""

    labels: tuple[str, ...]
    accuracy: Mapping[str, Floats]
    distance: Mapping[str, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """A finished sweep: curves by loss, those of the worst group's loss (one column), and numbers by group."""

    plan: SweepPlan
    curves: Mapping[str, Curves]
    group_loss: Curves
    groups: GroupNumbers
    trained_on: int
    tested_on: int
    measured_on: int

    @property
    def title(self) -> str:
        """Of its data."""
        return self.plan.subject.title


def run_sweep(assignment: Assignment, plan: SweepPlan) -> tuple[Sweep, tuple[StudyRun, ...]]:
    """Train and measure all networks of a sweep; the grids, one a seed, are for whoever wants the networks."""
    grids = run_subject(assignment, plan.subject.name, plan.subject, sweep_methods(plan))
    here = replace(assignment, folder=assignment.folder / plan.subject.name)
    said = predictions(grids)
    lead = margins(grids, said)
    some, far = boundary_distances(here, grids, plan.estimator, plan.measured, plan.subject.groups)
    partition = grids[0].partition(None, plan.subject.groups)
    few = some.partition(plan.subject.groups)
    mean_far = {place: float(np.average(values, weights=as_many(few, partition))) for place, values in far.items()}
    measured = said, {place: float(values.mean()) for place, values in lead.items()}, mean_far
    weights = plan.subject.weights
    curves = {
        loss: _curves(grids, weights, [penalised(loss, weight) for weight in weights], plan, measured)
        for loss in plan.losses
    }
    group_loss = _curves(grids, (0.0,), [GROUP_LOSS], plan, measured)
    groups = _by_group(grids, plan, partition, few, far)
    size = len(grids[0].training().training)
    return Sweep(plan, curves, group_loss, groups, size, len(grids[0].dataset()), len(some)), grids


def collapsed(answers: Ints, correct: Bools, classes: Partition) -> bool:
    """Whether one answer is given to nearly every sample, or classes are right hardly more often than by chance.

    What is misclassified already cannot be lost to an attack: such a network has next to no boundary error, and
    the praise would be for that.

    >>> half, classes = np.array([0, 1, 0, 1]), Partition.by("class", [0, 0, 1, 1])
    >>> collapsed(half, half == classes.membership, classes), collapsed(half, np.array([True] * 4), classes)
    (True, False)
    """
    same = bool(np.bincount(answers).max() > COLLAPSED * len(answers))
    shares = list(accuracy_by_group(correct, classes).values())
    return same or float(np.mean(shares)) < BETTER_THAN_GUESSING / len(shares)


def as_many(few: Partition, whole: Partition) -> Floats:
    """Weights by which each group counts among a few samples as it does among all.

    >>> whole = Partition.by("sex", ["F", "M", "M", "M"])
    >>> as_many(Partition.by("sex", ["M", "F", "F"]), whole).tolist()
    [0.75, 0.125, 0.125]
    """
    shares = {label: mask.mean() for label, mask in whole}
    weights = np.zeros(len(few.membership))
    for label, mask in few:
        weights[mask] = shares[label] / mask.sum()
    return weights


def _by_group(
    grids: Sequence[StudyRun], plan: SweepPlan, partition: Partition, few: Partition, far: Mapping[Place, Floats]
) -> GroupNumbers:
    accuracy, distance = {}, {}
    for method in dict.fromkeys(method for _, method in far):
        right = [list(accuracy_by_group(_correct(grid, method), partition).values()) for grid in grids]
        away = [[far[seed, method][mask].mean() for _, mask in few] for seed in plan.subject.seeds]
        accuracy[method], distance[method] = np.mean(right, axis=0), np.mean(away, axis=0)
    return GroupNumbers(partition.labels, accuracy, distance)


def _curves(
    grids: Sequence[StudyRun],
    weights: tuple[float, ...],
    methods: Sequence[str],
    plan: SweepPlan,
    by_place: tuple[Mapping[Place, Ints], Mapping[Place, float], Mapping[Place, float]],
) -> Curves:
    said, lead, far = by_place
    seeds, radii = plan.subject.seeds, plan.subject.radii
    partition, classes = (grids[0].partition(None, name) for name in (plan.subject.groups, "class"))

    def table(of: Mapping[Place, float]) -> Floats:
        return np.array([[of[seed, method] for method in methods] for seed in seeds])

    correct = [[_correct(grid, method) for method in methods] for grid in grids]
    return Curves(
        weights,
        np.array([[1 - hits.mean() for hits in row] for row in correct]),
        np.array([[max(parity_violation(hits, partition).values()) for hits in row] for row in correct]),
        table(lead),
        table(far),
        np.array([[[_boundary(grid, method, radius) for radius in radii] for method in methods] for grid in grids]),
        np.array(
            [
                [collapsed(said[seed, method], hits, classes) for method, hits in zip(methods, row, strict=True)]
                for seed, row in zip(seeds, correct, strict=True)
            ]
        ),
    )


def _correct(grid: StudyRun, method: str) -> Bools:
    return np.asarray(grid.outcome(method=method, radius=_first_radius(grid)).correct)


def _first_radius(grid: StudyRun) -> float:
    assert grid.study.grid is not None
    (attack,) = grid.study.grid.attack.values()
    return attack.radius[0]


def _boundary(grid: StudyRun, method: str, radius: str) -> float:
    outcome = grid.outcome(method=method, radius=radius)
    return boundary_error(outcome.correct, outcome.unreached)
