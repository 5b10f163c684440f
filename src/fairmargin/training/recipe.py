"""The recipe of a training method: terms of the loss, adversary and controller. All methods share one loop."""

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from fairmargin.training.parts.aggregates import Aggregate, Mean
from fairmargin.training.parts.batch import Adversary
from fairmargin.training.parts.controllers import EVERYONE, Controller, Nothing
from fairmargin.training.parts.losses import SampleLoss


@dataclass(frozen=True, slots=True)
class Term:
    """One term of the loss: weight · aggregate(loss of each sample).

    Parameters
    ----------
    loss
        Function from the views of a batch to one loss per sample.
    aggregate
        Function that combines the losses to one number; by default their mean.
    weight
        Factor of the term.
    name
        Name of the term in the history.
    """

    loss: SampleLoss
    aggregate: Aggregate = field(default_factory=Mean)
    weight: float = 1.0
    name: str = "loss"


@dataclass(frozen=True, slots=True)
class Part:
    """Terms that are computed on batches of their own.

    Parameters
    ----------
    terms
        The terms; they are added.
    adversary
        Moves the inputs for losses that use moved inputs.
    among
        The samples of its batches: "everyone", or the "vulnerable" or the "robust" groups that the controller found.
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
        The parts; their losses are added. Most methods have one part.
    controller
        Keeps the state of the method between steps.
    """

    parts: tuple[Part, ...]
    controller: Controller = field(default_factory=Nothing)

    @classmethod
    def of(cls, *terms: Term, adversary: Adversary | None = None, controller: Controller | None = None) -> "Recipe":
        """Return a recipe of one part on all samples."""
        return cls((Part(terms, adversary),), controller or Nothing())


@runtime_checkable
class TrainingMethod(Protocol):
    """A frozen dataclass whose fields are the hyper-parameters and whose `recipe` describes the training."""

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """Return the recipe of an epoch, counted from 0, of `epochs` epochs."""
