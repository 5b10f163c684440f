"""One step of training: views, losses, their sum, one step down."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fairmargin.errors import ModelError
from fairmargin.training.aggregates import State
from fairmargin.training.batch import Batch, Losses, Space
from fairmargin.training.controllers import Controller
from fairmargin.training.recipe import Part, Recipe, Term
from fairmargin.training.views import CLEAN, MOVED, Views


@dataclass(frozen=True, slots=True, eq=False)
class Summed:
    """What a step came to.

    Parameters
    ----------
    total
        What is descended, differentiable.
    terms
        Name and value of each term, with its weight.
    state
        What the controller remembers now.
    right, seen
        Of each group, how many samples were classified correctly as they were shown, and how many were shown.
    """

    total: Tensor
    terms: tuple[tuple[str, float], ...]
    state: State
    right: Tensor
    seen: Tensor


def sum_up(
    module: nn.Module, recipe: Recipe, batches: tuple[Batch, ...], state: State, space: Space, random: torch.Generator
) -> Summed:
    """The loss of one step; each view of each batch, and each sample loss, is computed once.

    Parameters
    ----------
    module
        In training mode.
    recipe
        What the method does now.
    batches
        One for each of its parts.
    state
        What the controller remembers.
    space
        Where inputs may lie.
    random
        Of the adversary.
    """
    total, terms = torch.zeros((), device=space.scale.device, dtype=space.scale.dtype), []
    right, seen = torch.zeros(2, len(batches[0].names), dtype=torch.int64)
    for number, (part, batch) in enumerate(zip(recipe.parts, batches, strict=True)):
        if not len(batch):  # nobody is left to this part
            terms += [(term.name, 0.0) for term in part.terms]
            continue
        views = Views(module, batch, space, random, part.adversary)
        controller = recipe.controller if number == 0 else None
        values, state = _values(part, views, state, controller)
        total = total + sum(values)
        terms += [(term.name, float(value.detach())) for term, value in zip(part.terms, values, strict=True)]
        shown = _answers(views)
        right += torch.bincount(batch.groups[shown == batch.y], minlength=len(batch.names)).cpu()
        seen += torch.bincount(batch.groups, minlength=len(batch.names)).cpu()
    return Summed(total, tuple(terms), state, right, seen)


def _values(part: Part, views: Views, state: State, controller: Controller | None) -> tuple[list[Tensor], State]:
    known: dict[Any, Losses] = {}
    values = []
    for term in part.terms:
        if term.loss not in known:
            known[term.loss] = _checked_losses(term, views)
            if controller is not None and len(known) == 1:
                state = controller.after_losses(state, known[term.loss])
        values.append(term.weight * _checked_value(term, term.aggregate(known[term.loss], state)))
    return values, state


def _checked_losses(term: Term, views: Views) -> Losses:
    """The losses of the samples, or a sentence about what a loss of one's own returned instead."""
    losses = term.loss(views)
    if not isinstance(losses, Losses):
        raise ModelError(
            f"`{_name(term.loss)}`, the loss of the term {term.name!r}, must return `Losses`, one number a "
            f"sample; it returned {_told(losses)}."
        )
    return losses


def _checked_value(term: Term, value: object) -> Tensor:
    """The number that an aggregate made of the losses, or a sentence about what it returned instead."""
    if not isinstance(value, Tensor) or value.ndim:
        raise ModelError(
            f"`{_name(term.aggregate)}`, the aggregate of the term {term.name!r}, must return one number, a "
            f"tensor of shape (); it returned {_told(value)}. Take a sum or a mean of it."
        )
    return value


def _name(piece: object) -> str:
    """Of a class's object or of a function."""
    return str(getattr(piece, "__name__", type(piece).__name__))


def _told(returned: object) -> str:
    if isinstance(returned, Tensor):
        return f"a tensor of shape {tuple(returned.shape)}"
    return f"a {type(returned).__name__}"


def _answers(views: Views) -> Tensor:
    """The class that each sample was taken for, in the view that the network learned from most closely."""
    for view in (CLEAN, MOVED):
        if view in views.known:
            return views.scores(view)[: len(views.batch)].detach().argmax(dim=1)
    raise ModelError("The method has no loss that looks at the network's scores.")
