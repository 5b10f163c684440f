"""The studies of Tran's networks at each scale: sweeps over the penalty λ, and grids over (ε_*, λ)."""

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
_PUBLISHED = (0.0, 1.0, 2.0)  # λ
_WEIGHTS = (0.0, 0.5, 1.0, 2.0)
_COLOUR, _GREY = ("1/255", "2/255", "4/255"), ("2/255", "4/255", "8/255")


def sweeps(assignment: Assignment) -> tuple[SweepPlan, ...]:
    """Return the sweeps over λ of a scale."""
    return assignment.by_scale(_smoke, _laptop, paper_sweeps)()


def hardenings(assignment: Assignment) -> tuple[HardeningPlan, ...]:
    """Return the grids over (ε_*, λ) of a scale."""
    return assignment.by_scale(_smoke_grids, _laptop_grids, paper_hardenings)()


def _smoke() -> tuple[SweepPlan, ...]:
    return (SweepPlan(_digits((0.0, 0.5), 2), _BOTH, "plumb:steps=4", 4, pair="0.1"),)


def _smoke_grids() -> tuple[HardeningPlan, ...]:
    return (HardeningPlan(_digits((0.0, 0.5), 1), ("0.02", "0.1"), 2),)


def _digits(weights: tuple[float, ...], epochs: int) -> Subject:
    data = {"data": "digits", "per_group": 60, "audit_per_group": 12}
    start, training = {"epochs": 5, "rate": 0.1, "batch": 32}, {**_briefly(epochs), "batch": 64}
    return Subject(
        "digits", "digits of 8×8 pixels", data, "class", "small_cnn", start, training, weights, ("0.05", "0.1"), (0, 1)
    )


def _briefly(epochs: int) -> dict[str, Any]:
    return {"epochs": epochs, "optimizer": "adam", "rate": 1e-3, "batch": 128}


def _laptop() -> tuple[SweepPlan, ...]:
    plumb, objects = "plumb:steps=12", {"data": "cifar10", "per_group": 1_000, "audit_per_group": 100}
    age = _small(AGE, "UTKFace by age in decades", _faces("age9", 5_000), "age9")
    return (
        SweepPlan(_race(5_000), _BOTH, plumb, 40),
        SweepPlan(age, (CROSS_ENTROPY,), plumb, 20, pair="2/255"),
        SweepPlan(_fashion(1_000), _BOTH, plumb, 20),
        SweepPlan(_small(OBJECTS, "CIFAR-10", objects, "class"), _BOTH, plumb, 20),
    )


def _laptop_grids() -> tuple[HardeningPlan, ...]:
    found = []
    for subject, radii in ((_race(2_500), ("2/255", "4/255", "8/255")), (_fashion(500), ("4/255", "8/255", "16/255"))):
        found.append(HardeningPlan(replace(subject, weights=_PUBLISHED, radii=radii), radii, 3))
    return tuple(found)


def _race(per_gender: int) -> Subject:
    return _small(RACE, "UTKFace by race", _faces("race", per_gender), "race")


def _faces(task: str, per_gender: int) -> dict[str, Any]:
    """Return data drawn by gender, so that races and ages keep their shares, which are as unequal as in the paper."""
    size = {"size": 32, "per_group": per_gender, "audit_per_group": 500}
    return {"data": "utkface", "task": task, "by": "gender", **size}


def _fashion(per_class: int) -> Subject:
    data = {"data": "fashion-mnist", "per_group": per_class, "audit_per_group": 100}
    return replace(_small(FASHION, "Fashion-MNIST", data, "class"), network="lenet5", radii=_GREY)


def _small(name: str, title: str, data: dict[str, Any], groups: str) -> Subject:
    return Subject(name, title, data, groups, "small_cnn", _briefly(8), _briefly(4), _WEIGHTS, _COLOUR, (0, 1, 2, 3, 4))


def _paper_subject(name: str, title: str, data: dict[str, Any], network: str, radii: tuple[str, ...]) -> Subject:
    settings = "tran-faces" if data["data"] == "utkface" else "tran"
    groups = data.get("task", "class")
    return Subject(
        name,
        title,
        data,
        groups,
        network,
        {"settings_of": settings, "epochs": 10},
        {"settings_of": settings},
        _PUBLISHED,
        radii,
    )


def paper_sweeps() -> tuple[SweepPlan, ...]:
    """Return the sweeps of the scale "paper"."""
    race = _paper_race()
    age = _paper_subject(AGE, "UTKFace by age in decades", {"data": "utkface", "task": "age9"}, "vgg13", _COLOUR)
    # VGG-13 does not accept 28×28 pixels; the paper uses its CNN there.
    fashion = _paper_subject(FASHION, "Fashion-MNIST", {"data": "fashion-mnist"}, "cnn6", _GREY)
    cifar = _paper_subject(OBJECTS, "CIFAR-10", {"data": "cifar10"}, "vgg13", _COLOUR)
    plumb = "plumb:steps=40"
    return (
        SweepPlan(race, _BOTH, plumb, 200),
        SweepPlan(age, _BOTH, plumb, 200, pair="2/255"),
        SweepPlan(fashion, _BOTH, plumb, 100),
        SweepPlan(cifar, _BOTH, plumb, 100),
    )


def paper_hardenings() -> tuple[HardeningPlan, ...]:
    """Return the grids of the scale "paper"."""
    return (HardeningPlan(_paper_race(), ("1/255", "2/255", "4/255", "8/255"), 10),)


def _paper_race() -> Subject:
    return _paper_subject(RACE, "UTKFace by race", {"data": "utkface", "task": "race"}, "vgg13", _COLOUR)
