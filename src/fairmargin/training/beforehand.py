"""What is refused before the first step: better now than after hours of training."""

import math
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from fairmargin.attacks.catalog import parse_attack
from fairmargin.attacks.outcomes import check_radius
from fairmargin.attacks.protocol import check_attack
from fairmargin.core.norm import Norm
from fairmargin.core.suggestion import suggest
from fairmargin.data.dataset import Dataset
from fairmargin.distances.measure import check_samples
from fairmargin.errors import FairmarginError, InputError, ModelError
from fairmargin.models.torch_model import undisturbed
from fairmargin.training.material import as_tensor
from fairmargin.training.recipe import Recipe, TrainingMethod
from fairmargin.training.watching import Watch


@runtime_checkable
class Reaching(Protocol):
    """A loss or an adversary that speaks of a radius: one that is larger than the domain's box is refused."""

    radius: float
    norm: Norm


@runtime_checkable
class Naming(Protocol):
    """An aggregate that speaks of one group: a name that the partition does not have is refused."""

    group: str | None


@runtime_checkable
class Surveying(Protocol):
    """A controller that will have distances measured: whether they can be is tried on one sample of each group."""

    on: str
    estimator: str


def check_arguments(model: object, dataset: object, method: object, epochs: object) -> None:
    """Refuse what is not what it should be."""
    if not isinstance(model, nn.Module):
        raise ModelError(f"`model` must be a torch module; given a {type(model).__name__}.")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ModelError("The network has no parameter that asks for a gradient: there is nothing to train.")
    if not isinstance(dataset, Dataset):
        raise InputError(
            f"`dataset` must be a `fm.Dataset` (samples, labels, attributes, domain); given a {type(dataset).__name__}."
        )
    if isinstance(method, type) or not isinstance(method, TrainingMethod):
        given = f"the class `{method.__name__}`" if isinstance(method, type) else repr(method)
        raise InputError(f"`method` must be a training method such as `fm.METHODS['fat'](weight=0.5)`; given {given}.")
    if not isinstance(epochs, int) or isinstance(epochs, bool) or epochs < 1:
        raise InputError(f"`epochs` must be a whole number, 1 or more; given {epochs!r}.")


def scores_of(model: nn.Module, dataset: Dataset) -> int:
    """How many scores the network gives, found by asking it about two samples."""
    two = as_tensor(dataset.x[:2], next(model.parameters()))
    try:
        with undisturbed(model), torch.no_grad():
            scores = model(two)
    except FairmarginError:
        raise
    except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
        first = (str(error) or type(error).__name__).strip().splitlines()[0].rstrip(".")
        raise ModelError(
            f"The network cannot take samples of shape {tuple(two.shape[1:])} ({first}). Is that the shape it was made "
            "for? Images are (channels, height, width)."
        ) from None
    if not isinstance(scores, torch.Tensor) or scores.ndim != 2 or len(scores) != len(two):
        shape: Any = tuple(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
        raise ModelError(f"The network must return one score per class, shape (n, classes); it returned {shape}.")
    return int(scores.shape[1])


def check_method(method: TrainingMethod, epochs: int, model: nn.Module, watch: Watch) -> None:
    """Refuse a method that would fail on these data, in its first epoch or in a later one."""
    recipes: list[Recipe] = []
    for epoch in range(epochs):
        recipe = method.recipe(epoch, epochs)
        if not isinstance(recipe, Recipe):
            raise InputError(f"`recipe` of {type(method).__name__} must return a `Recipe`; it returned {recipe!r}.")
        if recipe not in recipes:
            recipes.append(recipe)
            _check_recipe(recipe, watch)
    groups = watch.training[1]
    for recipe in recipes:
        terms = [term for part in recipe.parts for term in part.terms]
        compares = any(getattr(term.aggregate, "compares_groups", False) for term in terms)
        if len(groups.labels) < 2 and (compares or isinstance(recipe.controller, Surveying)):
            raise InputError(
                f"{type(method).__name__} compares groups, and {groups.name!r} has one only: {groups.labels[0]!r}. Use "
                "another partition, or a method that compares none, such as `erm` or `madry`."
            )
        if isinstance(recipe.controller, Surveying):
            watch.survey(model, recipe.controller.on, recipe.controller.estimator, per_group=1)
            return


def _check_recipe(recipe: Recipe, watch: Watch) -> None:
    dataset, partition = watch.training
    for part in recipe.parts:
        for spoken in (part.adversary, *(term.loss for term in part.terms)):
            if isinstance(spoken, Reaching):
                check_radius(dataset.domain, spoken.norm, spoken.radius, math.prod(dataset.x.shape[1:]))
        for term in part.terms:
            group = term.aggregate.group if isinstance(term.aggregate, Naming) else None
            if group is not None and group not in partition.labels:
                raise InputError(f"{partition.name!r} has no group {group!r}. {suggest(group, partition.labels)}")


def check_watch(watch: Watch, model: nn.Module, patience: int) -> None:
    """Refuse validation data, or a wish about them, that could not be looked at after an epoch."""
    if watch.validation is None:
        if patience:
            raise InputError(
                "`patience` stops a training by what it sees on validation data, and there are none: give some."
            )
        return
    dataset, _ = watch.validation
    own, there = (tuple(map(int, each.x.shape[1:])) for each in (watch.training[0], dataset))
    if own != there:
        raise InputError(f"The validation data are of shape {there}, those to train on of shape {own}.")
    classifier = watch.classifier(model)
    try:
        check_samples(classifier, dataset.x, dataset.y)
    except InputError as error:
        raise InputError(f"Validation data: {error}") from None
    if watch.radius:
        attack = parse_attack(watch.attack)
        check_attack(classifier, attack)
        check_radius(classifier.domain, attack.norm, watch.radius, math.prod(there))
