"""How far samples lie from the boundary whatever their label: the distance of Tran's theorems, and its stand-in."""

from collections.abc import Mapping, Sequence

import numpy as np

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.distances import Distances
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
from fairmargin_papers.shared.paper import Assignment

Place = tuple[int, str]  # seed and method


def predictions(grids: Sequence[StudyRun]) -> dict[Place, Ints]:
    """What every network says of the test samples."""
    return {
        (trained.seed, trained.method): trained.classifier().predict(grid.dataset().x)
        for grid in grids
        for trained in grid.networks()
    }


def margins(grids: Sequence[StudyRun], said: Mapping[Place, Ints]) -> dict[Place, Floats]:
    """p₍₁₎ − p₍₂₎ of every test sample, misclassified ones too, as Tran plots it; `said` are the predictions."""
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
    """Distances of some test samples of each group, measured with the prediction as label: E[Δ] is over all samples.

    Kept in the folder of the assignment, and measured where its engine runs. Where nothing was found the distance is
    at least as far as was looked, and that is given.

    Parameters
    ----------
    assignment
        Of the sweep.
    grids
        One a seed, on the same data.
    estimator
        As options spell it.
    per_group, groups
        How many samples of each group of which partition.
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
        measure = Measurer(folder, assignment.engine, assignment.tell)
        found = measure.carry_out([[plan] for plan in plans.values()], "measuring distances to the boundary")
    return some, {place: _values(each.distances) for place, each in zip(plans, found, strict=True)}


def _plan(model: Classifier, some: Dataset, estimator: str, references: References) -> ShardPlan:
    said = model.predict(some.x)
    # Labels are part of a dataset's fingerprint, and so of the name under which a distance is kept.
    labelled = Dataset(some.x, said, domain=some.domain, name=some.name)
    subject = Subject(model, labelled, said, references=references)
    (plan,) = estimator_plans(subject, parse_estimator(estimator))
    return ShardPlan(plan.tasks, {"estimator": estimator, "label": "predicted"})


def _values(found: Distances) -> Floats:
    return found.values if found.tried is None else np.where(np.isinf(found.values), found.tried, found.values)
