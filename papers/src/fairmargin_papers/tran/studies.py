"""The studies of Tran's networks at each scale: sweeps over the penalty λ, and grids over (ε_*, λ)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fairmargin.runner.study_run import StudyRun
from fairmargin_papers.shared.paper import Assignment, Scale
from fairmargin_papers.shared.trained import run_grid, study_sections

RACE, AGE, OBJECTS, FASHION = "utkface-race", "utkface-age", "cifar10", "fashion-mnist"
CROSS_ENTROPY, RAMP, GROUP_LOSS = "cross_entropy", "ramp", "group_dro"
ATTACK = "rfgsm"
Methods = Mapping[str, str]
"""Spelling of every method by its name."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Data and a network, with the settings of its plain training and of the trainings that continue from it.

    Every network of a seed starts from the same plainly trained one. With random initial weights the ramp loss has no
    gradient where a margin is below 0, which is nearly everywhere, and a penalty of the printed size leads to networks
    that predict a single class.
    """

    name: str  # of its folder
    title: str
    data: Mapping[str, Any]  # section of the data
    groups: str  # partition on which the penalty acts, and by which violations are measured
    network: str  # architecture
    start: Mapping[str, Any]  # settings of the plain training
    training: Mapping[str, Any]  # settings of the trainings that continue from it
    weights: tuple[float, ...]  # values of λ, of which the first is 0
    radii: tuple[str, ...]  # of RFGSM
    seeds: tuple[int, ...] = (0, 1, 2)


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """A sweep over λ."""

    subject: Subject
    losses: tuple[str, ...]
    estimator: str  # of the distance to the boundary
    measured: int  # number of test samples of each group on which distances are measured
    pair: str = ""  # radius at which an example for the pair of models is searched for; empty for no search


@dataclass(frozen=True, slots=True)
class HardeningPlan:
    """A grid over λ and the training radius ε_*."""

    subject: Subject
    trained_radii: tuple[str, ...]
    steps: int  # of PGD in training


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
    """Return the methods of a grid: fair and robust training at every ε_* and λ."""
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
    """Train plainly, then continue by every method, and return one run per seed.

    The plain trainings of all subjects share a folder, so that equal ones are trained once.
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


_BOTH = (CROSS_ENTROPY, RAMP)
_PUBLISHED = (0.0, 1.0, 2.0)  # printed values of λ
_COLOUR, _GREY = ("1/255", "2/255", "4/255"), ("2/255", "4/255", "8/255")


def _adam(epochs: int, batch: int = 128) -> dict[str, Any]:
    return {"epochs": epochs, "optimizer": "adam", "rate": 1e-3, "batch": batch}


def _digits(epochs: int) -> Subject:
    data = {"data": "digits", "per_group": 60, "audit_per_group": 12}
    start, training = {"epochs": 5, "rate": 0.1, "batch": 32}, _adam(epochs, 64)
    weights, radii, title = (0.0, 0.5), ("0.05", "0.1"), "digits of 8×8 pixels"
    return Subject("digits", title, data, "class", "small_cnn", start, training, weights, radii, (0, 1))


def _small(name: str, title: str, data: dict[str, Any], groups: str, network: str = "small_cnn") -> Subject:
    weights, radii = (0.0, 0.5, 1.0, 2.0), _GREY if network == "lenet5" else _COLOUR
    return Subject(name, title, data, groups, network, _adam(8), _adam(4), weights, radii, (0, 1, 2, 3, 4))


def _small_faces(name: str, title: str, task: str, per_gender: int) -> Subject:
    """Return a subject with faces drawn by gender, so that races and ages keep their shares, as in the paper."""
    size = {"size": 32, "per_group": per_gender, "audit_per_group": 500}
    return _small(name, title, {"data": "utkface", "task": task, "by": "gender", **size}, task)


def _small_fashion(per_class: int) -> Subject:
    data = {"data": "fashion-mnist", "per_group": per_class, "audit_per_group": 100}
    return _small(FASHION, "Fashion-MNIST", data, "class", "lenet5")


def _large(name: str, title: str, data: dict[str, Any], network: str = "vgg13") -> Subject:
    settings = {"settings_of": "tran-faces" if data["data"] == "utkface" else "tran"}
    groups, radii = data.get("task", "class"), _COLOUR if network == "vgg13" else _GREY
    return Subject(name, title, data, groups, network, {**settings, "epochs": 10}, settings, _PUBLISHED, radii)


def _small_grid(subject: Subject, *radii: str) -> HardeningPlan:
    return HardeningPlan(replace(subject, weights=_PUBLISHED, radii=radii), radii, 3)


_BY_RACE, _BY_AGE = "UTKFace by race", "UTKFace by age in decades"
_LARGE_RACE = _large(RACE, _BY_RACE, {"data": "utkface", "task": "race"})
_SMALL_OBJECTS = {"data": "cifar10", "per_group": 1_000, "audit_per_group": 100}

SWEEPS: Mapping[Scale, tuple[SweepPlan, ...]] = {
    "smoke": (SweepPlan(_digits(2), _BOTH, "plumb:steps=4", 4, pair="0.1"),),
    "laptop": (
        SweepPlan(_small_faces(RACE, _BY_RACE, "race", 5_000), _BOTH, "plumb:steps=12", 40),
        SweepPlan(_small_faces(AGE, _BY_AGE, "age9", 5_000), (CROSS_ENTROPY,), "plumb:steps=12", 20, pair="2/255"),
        SweepPlan(_small_fashion(1_000), _BOTH, "plumb:steps=12", 20),
        SweepPlan(_small(OBJECTS, "CIFAR-10", _SMALL_OBJECTS, "class"), _BOTH, "plumb:steps=12", 20),
    ),
    "paper": (
        SweepPlan(_LARGE_RACE, _BOTH, "plumb:steps=40", 200),
        SweepPlan(
            _large(AGE, _BY_AGE, {"data": "utkface", "task": "age9"}), _BOTH, "plumb:steps=40", 200, pair="2/255"
        ),
        # VGG-13 does not accept 28×28 pixels; the paper uses its CNN there.
        SweepPlan(_large(FASHION, "Fashion-MNIST", {"data": "fashion-mnist"}, "cnn6"), _BOTH, "plumb:steps=40", 100),
        SweepPlan(_large(OBJECTS, "CIFAR-10", {"data": "cifar10"}), _BOTH, "plumb:steps=40", 100),
    ),
}
"""The sweeps over λ of each scale."""

GRIDS: Mapping[Scale, tuple[HardeningPlan, ...]] = {
    "smoke": (HardeningPlan(_digits(1), ("0.02", "0.1"), 2),),
    "laptop": (
        _small_grid(_small_faces(RACE, _BY_RACE, "race", 2_500), "2/255", "4/255", "8/255"),
        _small_grid(_small_fashion(500), "4/255", "8/255", "16/255"),
    ),
    "paper": (HardeningPlan(_LARGE_RACE, ("1/255", "2/255", "4/255", "8/255"), 10),),
}
"""The grids over (ε_*, λ) of each scale."""
