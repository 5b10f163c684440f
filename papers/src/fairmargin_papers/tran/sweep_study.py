"""What is trained for Tran's claims about networks, at each scale: the sweeps over λ and the grid over (ε_*, λ)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fairmargin.runner.study_run import StudyRun
from fairmargin_papers.shared.paper import Assignment
from fairmargin_papers.shared.trained import run_grid, study_sections

RACE, AGE, OBJECTS, FASHION = "utkface-race", "utkface-age", "cifar10", "fashion-mnist"
CROSS_ENTROPY, RAMP, GROUP_LOSS = "cross_entropy", "ramp", "group_dro"
ATTACK = "rfgsm"
Methods = Mapping[str, str]
"""Spelling of every method by its name."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Data and a network, how it is trained plainly, and how what comes of it is trained on.

    Every network of a seed starts from the same plainly trained one. From random weights the ramp loss has no gradient
    where a margin is below 0, which is nearly everywhere, and a penalty of the printed size ends in one class.

    Parameters
    ----------
    name, title
        Of its folder, and for people.
    data, groups
        The section of the data, and the partition by which losses are pulled together and violations measured.
    network
        The architecture.
    start, training
        How it is trained plainly first, and then by each method.
    weights
        Every λ, the first of them 0.
    radii
        Of RFGSM.
    seeds
        Of the trainings.
    """

    name: str
    title: str
    data: Mapping[str, Any]
    groups: str
    network: str
    start: Mapping[str, Any]
    training: Mapping[str, Any]
    weights: tuple[float, ...]
    radii: tuple[str, ...]
    seeds: tuple[int, ...] = (0, 1, 2)


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """A sweep over λ.

    Parameters
    ----------
    subject
        On what.
    losses
        With which losses.
    estimator, measured
        How the distance to the boundary is measured, and on how many test samples of each group.
    pair
        The radius at which a pair of pictures is looked for; empty where it is not.
    """

    subject: Subject
    losses: tuple[str, ...]
    estimator: str
    measured: int
    pair: str = ""


@dataclass(frozen=True, slots=True)
class HardeningPlan:
    """A grid over λ and the radius trained with, ε_*, by so many steps of PGD."""

    subject: Subject
    trained_radii: tuple[str, ...]
    steps: int


def penalised(loss: str, weight: float) -> str:
    """Return the name of a method in a sweep.

    >>> penalised("ramp", 0.5)
    'ramp 0.5'
    """
    return f"{loss} {weight:g}"


def sweep_methods(plan: SweepPlan) -> Methods:
    """Return the methods of a sweep: the penalty at every λ with every loss, and the worst group's loss."""
    penalties = {
        penalised(loss, weight): f"penalty:weight={weight:g},loss={loss}"
        for loss in plan.losses
        for weight in plan.subject.weights
    }
    return {**penalties, GROUP_LOSS: GROUP_LOSS}


def hardening_methods(plan: HardeningPlan) -> Methods:
    """Fair and robust training at every ε_* and λ."""
    return {
        penalised(radius, weight): f"fair_robust:weight={weight:g},radius={radius},steps={plan.steps}"
        for radius in plan.trained_radii
        for weight in plan.subject.weights
    }


def starting_sections(subject: Subject) -> dict[str, Any]:
    """Return the study that trains the networks from which all others start."""
    return _sections(subject, subject.start, {"erm": "erm"}, subject.seeds, "", subject.radii[:1])


def following_sections(subject: Subject, methods: Methods, seed: int, weights: str) -> dict[str, Any]:
    """Return the study of the networks that start from a file of weights of one seed."""
    return _sections(subject, subject.training, methods, (seed,), weights, subject.radii)


def run_subject(assignment: Assignment, name: str, subject: Subject, methods: Methods) -> tuple[StudyRun, ...]:
    """Train plainly, then by every method from there; one grid a seed.

    Starts lie in one folder for all subjects, so that equal ones are trained once.
    """
    begun = run_grid(replace(assignment, folder=assignment.folder / "start"), starting_sections(subject))
    grids = []
    for trained in begun.networks():
        sections = following_sections(subject, methods, trained.seed, str(trained.weights()))
        grids.append(run_grid(replace(assignment, folder=assignment.folder / name / f"seed-{trained.seed}"), sections))
    return tuple(grids)


def _sections(
    subject: Subject,
    training: Mapping[str, Any],
    methods: Methods,
    seeds: tuple[int, ...],
    weights: str,
    radii: tuple[str, ...],
) -> dict[str, Any]:
    return study_sections(
        title=f"Tran 2024 on {subject.title}",
        data=subject.data,
        groups=[subject.groups],
        models={subject.network: {"model": f"arch:{subject.network}", "weights": weights}},
        training=training,
        methods={name: {"method": spelling} for name, spelling in methods.items()},
        attacks={ATTACK: {"radius": list(radii)}},
        seeds=seeds,
    )
