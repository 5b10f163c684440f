"""A training method as a row of a table: terms, adversary, controller. The loop is the same for all."""

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from fairmargin.training.aggregates import Aggregate, Mean
from fairmargin.training.controllers import EVERYONE, Controller, Nothing
from fairmargin.training.losses import SampleLoss
from fairmargin.training.views import Adversary


@dataclass(frozen=True, slots=True)
class Term:
    """weight · aggregate(loss of each sample).

    Parameters
    ----------
    loss
        One number a sample.
    aggregate
        How they become one; the mean if left out.
    weight
        A factor.
    name
        What the history calls it.
    """

    loss: SampleLoss
    aggregate: Aggregate = field(default_factory=Mean)
    weight: float = 1.0
    name: str = "loss"


@dataclass(frozen=True, slots=True)
class Part:
    """Terms on batches of their own.

    Parameters
    ----------
    terms
        Summed up.
    adversary
        Moves the inputs for those losses that look at moved ones.
    among
        Whom its batches are drawn from: "everyone", or by the controller's finding the "vulnerable" or the "robust".
    """

    terms: tuple[Term, ...]
    adversary: Adversary | None = None
    among: str = EVERYONE


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a method does in an epoch.

    Parameters
    ----------
    parts
        The losses of all parts are added; most methods have one part.
    controller
        What is remembered between steps.
    """

    parts: tuple[Part, ...]
    controller: Controller = field(default_factory=Nothing)

    @classmethod
    def of(cls, *terms: Term, adversary: Adversary | None = None, controller: Controller | None = None) -> "Recipe":
        """A recipe of one part that everyone belongs to."""
        return cls((Part(terms, adversary),), controller or Nothing())


@runtime_checkable
class TrainingMethod(Protocol):
    """A frozen dataclass: its fields are the hyper-parameters, and `recipe` says what is done with them."""

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """What is done in an epoch, counted from 0, of so many."""
