"""Checks before the first step of a training: invalid arguments are refused, and settings worth knowing are noted."""

import math
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from fairmargin.attacks.catalog import parse_attack
from fairmargin.attacks.outcomes import check_radius
from fairmargin.attacks.protocol import check_attack
from fairmargin.attacks.robust_accuracy import unseen_classes
from fairmargin.core.arrays import Ints
from fairmargin.core.norm import Norm
from fairmargin.core.suggestion import suggest
from fairmargin.data.dataset import Dataset
from fairmargin.distances.measure import check_samples
from fairmargin.errors import FairmarginError, InputError, ModelError
from fairmargin.models.torch_model import undisturbed
from fairmargin.training.loop.data import as_tensor
from fairmargin.training.loop.validation import Watch
from fairmargin.training.recipe import Recipe, TrainingMethod


@runtime_checkable
class HasRadius(Protocol):
    """A loss or an adversary with a radius, which must not be larger than the domain."""

    radius: float
    norm: Norm


@runtime_checkable
class MeasuresGroups(Protocol):
    """A controller that measures distances, which is tried on one sample of each group."""

    on: str
    estimator: str


def check_arguments(model: object, dataset: object, method: object, epochs: object) -> None:
    """Refuse arguments of `train` of a wrong type."""
    if not isinstance(model, nn.Module):
        raise ModelError(f"`model` must be a torch module; given a {type(model).__name__}.")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ModelError("The network has no parameter that requires a gradient, so there is nothing to train.")
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
    """Return the number of scores of the network, found by evaluating it on two samples."""
    two = as_tensor(dataset.x[:2], next(model.parameters()))
    try:
        with undisturbed(model), torch.no_grad():
            scores = model(two)
    except FairmarginError:
        raise
    except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
        first = (str(error) or type(error).__name__).strip().splitlines()[0].rstrip(".")
        raise ModelError(
            f"The network cannot take samples of shape {tuple(two.shape[1:])} ({first}). Check the shape it was built "
            "for; images are (channels, height, width)."
        ) from None
    if not isinstance(scores, torch.Tensor) or scores.ndim != 2 or len(scores) != len(two):
        shape: Any = tuple(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
        raise ModelError(f"The network must return one score per class, shape (n, classes); it returned {shape}.")
    return int(scores.shape[1])


def check_method(method: TrainingMethod, epochs: int, model: nn.Module, watch: Watch) -> None:
    """Refuse a method that would fail on these data, in any epoch."""
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
        if len(groups.labels) < 2 and (compares or isinstance(recipe.controller, MeasuresGroups)):
            raise InputError(
                f"{type(method).__name__} compares groups, and {groups.name!r} has one only: {groups.labels[0]!r}. Use "
                "another partition, or a method that does not compare groups, such as `erm` or `madry`."
            )
        if isinstance(recipe.controller, MeasuresGroups):
            watch.survey(model, recipe.controller.on, recipe.controller.estimator, per_group=1)
            return


def _check_recipe(recipe: Recipe, watch: Watch) -> None:
    """Refuse a recipe with a radius that is too large or a group that does not exist."""
    dataset, partition = watch.training
    for part in recipe.parts:
        for piece in (part.adversary, *(term.loss for term in part.terms)):
            if isinstance(piece, HasRadius):
                check_radius(dataset.domain, piece.norm, piece.radius, math.prod(dataset.x.shape[1:]))
        for term in part.terms:
            group: str | None = getattr(term.aggregate, "group", None)
            if group is not None and group not in partition.labels:
                raise InputError(f"{partition.name!r} has no group {group!r}. {suggest(group, partition.labels)}")


def check_watch(watch: Watch, model: nn.Module, patience: int) -> None:
    """Refuse validation data or settings with which the network could not be evaluated after an epoch."""
    if watch.validation is None:
        if patience:
            raise InputError(
                "`patience` stops a training by its results on validation data, but none were given. Give `validation`."
            )
        return
    dataset, _ = watch.validation
    own, there = (tuple(map(int, each.x.shape[1:])) for each in (watch.training[0], dataset))
    if own != there:
        raise InputError(f"The validation data have shape {there}, the training data {own}.")
    classifier = watch.classifier(model)
    try:
        check_samples(classifier, dataset.x, dataset.y)
    except InputError as error:
        raise InputError(f"Validation data: {error}") from None
    if watch.radius:
        attack = parse_attack(watch.attack)
        check_attack(classifier, attack)
        check_radius(classifier.domain, attack.norm, watch.radius, math.prod(there))


def notes_on(method: TrainingMethod, watch: Watch, positions: Ints) -> tuple[str, ...]:
    """Return notes on settings without effect, outputs without training samples, and groups without validation data."""
    remark = getattr(method, "remark", "")  # a sentence about the method's settings
    unseen = unseen_classes(watch.classes, positions, "the training data")
    return (*filter(None, [remark]), *unseen, *_unwatched(watch))


def _unwatched(watch: Watch) -> tuple[str, ...]:
    """Return a note if the validation data lack some groups of the training data."""
    if watch.validation is None:
        return ()
    groups, validation_groups = watch.training[1], watch.validation[1]
    present = {label for label, mask in validation_groups if mask.any()}
    absent = [repr(label) for label, mask in groups if mask.any() and label not in present]
    if not absent:
        return ()
    named = ", ".join(absent[:5]) + (f" and {len(absent) - 5:,} more" if len(absent) > 5 else "")
    return (
        f"The validation data have no sample of {named} ({groups.name}): the worst group there, by which the best "
        "epoch is chosen, is the worst of the others.",
    )
