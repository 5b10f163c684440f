"""What `fairmargin.training` refuses, before the first step of a training wherever that is possible."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fairmargin.core.domain import Domain
from fairmargin.core.partition import Partition
from fairmargin.data.dataset import Dataset
from fairmargin.errors import FairmarginError, InputError, ModelError
from fairmargin.study.schedule import parse_schedule
from fairmargin.training.catalog import METHODS, parse_method
from fairmargin.training.loop.loggers import logging_to
from fairmargin.training.methods.plain import ERM
from fairmargin.training.parts.batch import MOVED
from fairmargin.training.parts.losses import CrossEntropy
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.recipe import Part, Recipe, Term
from fairmargin.training.train import train
from tests.spec.refusals import Refusal
from tests.training.problems import blobs, tiny


def net(classes: int = 3, inputs: int = 3) -> nn.Module:
    module: nn.Module = tiny(classes=classes, inputs=inputs, dtype=torch.float32)
    return module


def no_step(*step: object) -> None:
    raise AssertionError(f"a step was made before the refusal: {step}")


def refused(words: str, error: type[FairmarginError] = InputError, field: str = "", **changes: Any) -> Refusal:
    """Return the refusal of a training with other arguments than usual, before its first step."""
    usual = {"model": net(), "dataset": blobs(), "method": ERM(), "epochs": 2, "progress": no_step}
    return Refusal(lambda _: train(**{**usual, **changes}), words, field, error)


def data(x: Any = None, y: Any = None, kind: Any = None, domain: Domain | None = None, count: int = 60) -> Dataset:
    """Return the usual samples with other inputs, labels, groups or another domain."""
    usual = blobs(count)
    return Dataset(
        usual.x if x is None else x,
        usual.y if y is None else y,
        {} if kind is None else {"kind": kind},
        usual.domain if domain is None else domain,
    )


def with_value(place: tuple[int, int], value: float, count: int, **changes: Any) -> Dataset:
    x = np.array(blobs(count).x, dtype=np.float64)
    x[place] = value
    return data(x, count=count, **changes)


ARGUMENTS = [
    *(refused("`epochs` must be a whole number, 1 or more", epochs=each) for each in (0, -1, 1.5, True, "3", None)),
    refused("`model` must be a torch module; given a str", ModelError, model="resnet"),
    refused("`dataset` must be a `fm.Dataset`", dataset=np.zeros((3, 3))),
    refused("given the class `ERM`", method=ERM),
    refused("`method` must be a training method", method="erm"),
    refused("`plan` must be a `fm.TrainingPlan`; given a dict", plan={"rate": 0.1}),
    refused("there is nothing to train", ModelError, model=nn.Flatten()),
    refused("there is nothing to train", ModelError, model=net().requires_grad_(False)),
    refused("cannot take samples of shape (3,)", ModelError, model=net(inputs=4)),
    refused("The data have 3 classes but the network gives 2 scores", model=net(classes=2)),
    refused("The data have 3 classes but the network gives 1 scores", model=net(classes=1)),
    refused(
        "The data have 3 classes but the network gives 5 scores",
        model=net(5),
        dataset=data(y=np.array(list("abc") * 20)),
    ),
    refused(
        "must return one score per class, shape (n, classes); it returned (6,)",
        ModelError,
        model=nn.Sequential(nn.Linear(3, 3), nn.Flatten(0)),
    ),
    refused("The data have one class only, [1]", dataset=data(y=np.ones(60, dtype=int))),
    *(
        refused(f"sample {row} has 1.5 in feature 1, outside [0, 1]", dataset=with_value((row, 1), 1.5, 1600))
        for row in (3, 59, 1500)
    ),
    refused("too large for the network's torch.float32", dataset=with_value((80, 0), 1e300, 90, domain=Domain())),
]

METHODS_ON_DATA = [
    *(
        refused("is larger than the box", method=parse_method(spelling))
        for spelling in (
            *(f"{name}:radius=2" for name in METHODS if "radius" in METHODS[name].__dataclass_fields__),
            "madry:radius=1.8,norm=l2",
        )
    ),
    refused("did you mean 8/255?", method=parse_method("fat:radius=8")),
    refused("did you mean 8/255?", plan=TrainingPlan(watch_radius=8), validation=blobs(9, 1)),
    refused(
        "'kind' has no group 'rear'. Did you mean 'rare'?",
        method=parse_method("adverm:group=rear"),
        partition="kind",
    ),
    refused("The data have no attribute 'kinds'. Did you mean 'kind'?", partition="kinds"),
    refused("has 3 samples but the data have 60", partition=Partition.by("kind", ["a", "b", "a"])),
    *(
        refused(
            "compares groups, and 'all' has one only: 'everyone'",
            method=parse_method(spelling),
            partition=Partition.by("all", ["everyone"] * 60),
        )
        for spelling in ("penalty", "fat:steps=1", "fat_trades:steps=1", "group_dro", "adverm", "farmur:steps=1")
    ),
    refused("works on linear models only", ModelError, method=METHODS["farmur"](estimator="exact_linear")),
]

other = blobs(30, 1)
crossed = blobs().partition("kind") & blobs().partition("class")
common = other.take(other.attributes["kind"] == "common")
on_validation = parse_method("farmur:found_on=validation")
VALIDATION = [
    refused(f"Validation data: {words}", partition="kind", validation=validation)
    for words, validation in (
        ("The data have no attribute 'kind'", data(count=30)),
        ("`y` holds labels that are not among", data(y=other.y + 1, kind=other.attributes["kind"], count=30)),
        ("`x` is outside the domain", data(np.asarray(other.x) + 1, kind=["rare"] * 30, domain=Domain(), count=30)),
    )
] + [
    refused("have a group 'new' of 'kind'", partition="kind", validation=data(kind=["new"] * 30, count=30)),
    refused("have shape (4,), the training data (3,)", validation=data(np.zeros((30, 4)), count=30)),
    refused("pass that of the validation data as `validation_partition`", partition=crossed, validation=other),
    refused("has 60 samples but", partition=crossed, validation=other, validation_partition=crossed),
    refused("`patience` stops a training by its results on validation data", plan=TrainingPlan(patience=2)),
    refused("looks for vulnerable groups on validation data, but none were given", method=on_validation),
    refused("no sample of group 'rare'", method=on_validation, partition="kind", validation=common),
]


class Returns:
    """A method whose recipe is given."""

    def __init__(self, recipe: Any) -> None:
        self._recipe = recipe

    def recipe(self, epoch: int, epochs: int) -> Any:
        return self._recipe


def one_term(**fields: Any) -> Returns:
    return Returns(Recipe.of(Term(**{"loss": CrossEntropy(), **fields})))


def in_a_step(words: str, error: type[FairmarginError] = ModelError, field: str = "", **changes: Any) -> Refusal:
    """Return a refusal that needs the first step."""
    return refused(words, error, field, progress=None, epochs=1, **changes)


OWN_METHODS = [
    refused("must return a `Recipe`; it returned None", method=Returns(None)),
    in_a_step("uses attacked inputs but the method has no adversary", method=one_term(loss=CrossEntropy(MOVED))),
    in_a_step(
        "is for the samples 'vulnerable', but its controller did not find them",
        method=Returns(Recipe((Part((Term(CrossEntropy()),), among="vulnerable"),))),
    ),
    in_a_step(
        "must return `Losses`, one number per sample; it returned a tensor of shape",
        method=one_term(loss=lambda views: views.scores("clean")),
    ),
    *(
        in_a_step(
            "the aggregate of the term 'mine', must return one number, a tensor of shape (); "
            f"it returned {returned}. Take a sum or a mean of it.",
            method=one_term(aggregate=aggregate, name="mine"),
            plan=TrainingPlan(batch=60),
        )
        for aggregate, returned in (
            (lambda losses, state: losses.values, "a tensor of shape (60,)"),
            (lambda losses, state: losses.by_group()[0], "a tensor of shape (3,)"),
            (lambda losses, state: 1.0, "a float"),
            (lambda losses, state: None, "a NoneType"),
        )
    ),
    in_a_step(
        "cannot be trained on a batch of 1; BatchNorm needs 2 samples or more",
        model=tiny(normed=True),
        plan=TrainingPlan(batch=1),
    ),
    in_a_step("`augmentation` is for images", InputError, "augmentation", plan=TrainingPlan(augmentation="flip")),
]


def logged(*kinds: str) -> Callable[[Path], None]:
    def call(folder: Path) -> None:
        with logging_to(kinds, folder, {}):
            no_step()

    return call


SETTINGS = [
    *(
        Refusal(lambda _, field=field, value=value: TrainingPlan(**{field: value}), words, field)  # type: ignore[misc]
        for field, value, words in (
            ("rate", 0, "`rate` must be a positive number"),
            ("rate", float("nan"), "`rate` must be a positive number"),
            ("optimizer", "sdg", "`optimizer` must be one of sgd, adam; given 'sdg'."),
            ("momentum", 1, "`momentum` must lie below 1"),
            ("average", 1.5, "`average` must lie below 1"),
            ("batch", 0, "`batch` must be a whole number"),
            ("augmentation", "flop", "`augmentation` must be one of none, flip, crop_flip; given 'flop'."),
            ("watch_radius", "8/0", "`watch_radius` cannot be divided by 0"),
            ("patience", -1, "`patience` must be a whole number, 0 or more"),
            ("keep_every", 2.5, "`keep_every` must be a whole number"),
            ("threads", -1, "`threads` must be 0 or more"),
            ("weight_decay", -1, "`weight_decay` must be a number, 0 or more"),
            ("schedule", 3, "`schedule` must be a text"),
        )
    ),
    *(
        Refusal(lambda _, spelling=spelling: parse_method(spelling), words, field)  # type: ignore[misc]
        for spelling, words, field in (
            ("trads", "Unknown method `trads`. Did you mean 'trades'?", ""),
            ("fat:weight=-1", "`weight` of `fat` must be a number, 0 or more; given -1.0", "weight"),
            ("fat:radius=0", "`radius` of `fat` must be a positive number", "radius"),
            ("fat:radius=inf", "`radius` must be finite", "radius"),
            ("fat:steps=0", "`steps` of `fat` must be a whole number, 1 or more", "steps"),
            ("fat:step=0", "`step` of `fat` must be a positive number", "step"),
            ("fat:norm=l1", "must be l2 or linf; given L1", "norm"),
            ("trades:beta=-1", "`beta` of `trades` must be a number, 0 or more", "beta"),
            ("penalty:loss=rump", "`loss` of `penalty` cannot be 'rump'. Did you mean 'ramp'?", "loss"),
            ("fat_trades:crafted_by=lk", "`crafted_by` of `fat_trades` cannot be 'lk'", "crafted_by"),
            ("farmur:since=2", "`since` of `farmur` must be a share, between 0 and 1; given 2.0", "since"),
            ("farmur:found_on=test", "`found_on` of `farmur` cannot be 'test'", "found_on"),
            ("farmur:estimator=plum", "Did you mean 'plumb'?", ""),
            ("farmur:samples=0", "`samples` of `farmur` must be a whole number", "samples"),
            ("adverm:radius=0", "`radius` of `adverm` must be a positive number", "radius"),
            ("adverm:temperature=-1", "`temperature` of `adverm` must be", "temperature"),
            ("gaussian:noise=0", "`noise` of `gaussian` must be a positive number", "noise"),
            ("smooth_adv:draws=0", "`draws` of `smooth_adv` must be a whole number", "draws"),
            ("group_dro:step=nan", "`step` of `group_dro` must be a number, 0 or more", "step"),
        )
    ),
    *(
        Refusal(lambda _, text=text: parse_schedule(text), words)  # type: ignore[misc]
        for text, words in (
            ("cosin", "Did you mean 'cosine'?"),
            ("steps", 'The schedule "steps" needs the shares'),
            ("cosine:0.5", 'The schedule "steps" needs the shares'),
            ("steps:1.5", "between 0 and 1; given [1.5]"),
            ("steps:half", "Cannot read the schedule 'steps:half'"),
        )
    ),
    Refusal(lambda _: TrainingPlan(watch="pdg"), "Did you mean 'pgd'?"),
    Refusal(logged("tensorbord"), "Did you mean 'tensorboard'"),
]

REFUSALS = [*ARGUMENTS, *METHODS_ON_DATA, *VALIDATION, *OWN_METHODS, *SETTINGS]
