"""A sweep over the penalty λ: errors, violations of accuracy parity and distances of every network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.data.dataset import Dataset
from fairmargin.distances.catalog import parse_estimator
from fairmargin.distances.measure import measure
from fairmargin.distances.proxies.softmax_margin import SoftmaxMargin
from fairmargin.models.protocol import Classifier
from fairmargin.models.references import References
from fairmargin.runner.cases import Subject
from fairmargin.runner.measurer import Measurer, ShardPlan, estimator_plans
from fairmargin.runner.study_run import StudyRun
from fairmargin.study.run_folder import RunFolder
from fairmargin_papers.shared.measures import accuracy_by_group, boundary_error, parity_violation
from fairmargin_papers.shared.paper import Assignment
from fairmargin_papers.shared.trained import BETTER_THAN_GUESSING
from fairmargin_papers.tran.studies import GROUP_LOSS, SweepPlan, penalised, run_subject, sweep_methods

COLLAPSED = 0.95  # a network that predicts one class for more than this share of the samples has learned nothing
Place = tuple[int, str]  # seed and method


def predictions(grids: Sequence[StudyRun]) -> dict[Place, Ints]:
    """Return the predictions of every network for the test samples."""
    return {
        (trained.seed, trained.method): trained.classifier().predict(grid.dataset().x)
        for grid in grids
        for trained in grid.networks()
    }


def margins(grids: Sequence[StudyRun], said: Mapping[Place, Ints]) -> dict[Place, Floats]:
    """Return p₍₁₎ − p₍₂₎ of every test sample, correct or not, as in the paper's plots; `said` are the predictions."""
    found = {}
    for grid in grids:
        x = np.asarray(grid.dataset().x[:])
        for trained in grid.networks():
            place = trained.seed, trained.method
            found[place] = measure(trained.classifier(), x, said[place], SoftmaxMargin(), progress=False).values
    return found


def boundary_distances(
    assignment: Assignment, grids: Sequence[StudyRun], estimator: str, per_group: int, groups: str
) -> tuple[Dataset, dict[Place, Floats]]:
    """Measure distances of `per_group` test samples of each group, with the prediction as label.

    Distances are stored in the folder of the assignment. If no boundary was found, the largest radius that was searched
    is returned. Labels are predictions because the E[Δ] of the theorems is over all samples, correct or not.
    """
    some = grids[0].dataset().sample(per_group, groups)
    references = grids[0].references()
    plans = {
        (trained.seed, trained.method): _plan(trained.classifier(), some, estimator, references)
        for grid in grids
        for trained in grid.networks()
    }
    folder = RunFolder(assignment.folder / "distances")
    with folder.store.lock():
        measure = Measurer(folder, assignment.engine, assignment.progress)
        found = measure.carry_out([[plan] for plan in plans.values()], "measuring distances to the boundary")
    return some, {place: _values(each.distances) for place, each in zip(plans, found, strict=True)}


def _plan(model: Classifier, some: Dataset, estimator: str, references: References) -> ShardPlan:
    said = model.predict(some.x)
    # Labels are part of the fingerprint of a dataset, and so of the key under which a distance is stored.
    labelled = Dataset(some.x, said, domain=some.domain, name=some.name)
    subject = Subject(model, labelled, said, references=references)
    (plan,) = estimator_plans(subject, parse_estimator(estimator))
    return ShardPlan(plan.tasks, {"estimator": estimator, "label": "predicted"})


def _values(found: Distances) -> Floats:
    return found.values if found.tried is None else np.where(np.isinf(found.values), found.tried, found.values)


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """Measurements along λ with one loss, in arrays with one row per seed and one column per λ."""

    weights: tuple[float, ...]  # values of λ
    natural: Floats  # share of misclassified samples
    violation: Floats  # largest |err_a − err|
    margin: Floats  # mean softmax margin of all samples
    distance: Floats  # mean L2 distance to the boundary of all samples, whatever their label
    boundary: Floats  # share that is correct but not under RFGSM, with a third axis for the radii
    collapsed: Bools  # networks that predict nearly always one class, or are hardly better than guessing

    @property
    def sound(self) -> tuple[int, ...]:
        """Columns in which no seed collapsed."""
        return tuple(np.flatnonzero(~self.collapsed.any(axis=0)).tolist())

    @property
    def fair(self) -> tuple[int, ...]:
        """Sound columns with λ > 0; none if the column of λ = 0, with which they are compared, is not sound."""
        return tuple(i for i in self.sound if self.weights[i] > 0) if 0 in self.sound else ()


@dataclass(frozen=True, slots=True, eq=False)
class GroupNumbers:
    """Accuracy and mean distance of each group, means over seeds, by method."""

    labels: tuple[str, ...]
    accuracy: Mapping[str, Floats]
    distance: Mapping[str, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """Results of a sweep: measurements along λ for each loss, those of training by the worst group, and those by group.

    `group_loss` has a single column, because training by the worst group's loss has no λ.
    """

    plan: SweepPlan
    curves: Mapping[str, Curves]
    group_loss: Curves
    groups: GroupNumbers
    trained_on: int
    tested_on: int
    measured_on: int

    @property
    def title(self) -> str:
        """Display name of the data."""
        return self.plan.subject.title


def run_sweep(assignment: Assignment, plan: SweepPlan) -> tuple[Sweep, tuple[StudyRun, ...]]:
    """Train and measure all networks of a sweep, and return the results and the runs, one per seed."""
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
    """Return whether a network predicts one class for nearly every sample, or is hardly better than guessing.

    Samples that are misclassified without an attack have no boundary error, so that such a network would wrongly seem
    robust.

    >>> half, classes = np.array([0, 1, 0, 1]), Partition.by("class", [0, 0, 1, 1])
    >>> collapsed(half, half == classes.membership, classes), collapsed(half, np.array([True] * 4), classes)
    (True, False)
    """
    same = bool(np.bincount(answers).max() > COLLAPSED * len(answers))
    shares = list(accuracy_by_group(correct, classes).values())
    return same or float(np.mean(shares)) < BETTER_THAN_GUESSING / len(shares)


def as_many(few: Partition, whole: Partition) -> Floats:
    """Return weights of a few samples that give each group the share that it has in all samples.

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
    assert grid.study.grid is not None
    (attack,) = grid.study.grid.attack.values()
    return np.asarray(grid.outcome(method=method, radius=attack.radius[0]).correct)


def _boundary(grid: StudyRun, method: str, radius: str) -> float:
    outcome = grid.outcome(method=method, radius=radius)
    return boundary_error(outcome.correct, outcome.unreached)
