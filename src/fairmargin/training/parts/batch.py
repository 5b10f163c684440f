"""The data of one training step: a batch, the network's outputs for it, and the losses of its samples."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor, nn

from fairmargin.errors import ModelError


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Samples, their labels and their groups.

    Parameters
    ----------
    x
        Samples, shape (n, *shape).
    y
        Positions of the classes, shape (n,).
    groups
        Positions of the groups in the partition, shape (n,).
    names
        Names of the partition's groups; a batch need not hold all of them.
    """

    x: Tensor
    y: Tensor
    groups: Tensor
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """Limits and scale of the inputs: tensors of a sample's shape.

    Parameters
    ----------
    low, high
        The smallest and largest value of each feature.
    scale
        The length in each feature that counts as 1.
    """

    low: Tensor
    high: Tensor
    scale: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """One loss per sample, for all samples of a batch or for some.

    Parameters
    ----------
    values
        Losses, shape (m,), differentiable.
    groups
        Positions of the groups of these samples, shape (m,).
    names
        Names of all groups.
    """

    values: Tensor
    groups: Tensor
    names: tuple[str, ...]

    def by_group(self) -> tuple[Tensor, Tensor]:
        """Return the mean of each group, 0 for a group without samples, and the number of samples of each group.

        >>> losses = Losses(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 2]), ("a", "b", "c"))
        >>> [part.tolist() for part in losses.by_group()]
        [[2.0, 0.0, 5.0], [2.0, 0.0, 1.0]]
        """
        nothing = self.values.new_zeros(len(self.names))
        counts = nothing.index_add(0, self.groups, torch.ones_like(self.values))
        return nothing.index_add(0, self.groups, self.values) / counts.clamp(min=1), counts


CLEAN, MOVED = "clean", "moved"
"""The views of a batch: the inputs as given, and as the adversary moved them."""


class Adversary(Protocol):
    """Moves the inputs of a batch before the network is trained on them; a frozen dataclass."""

    def __call__(
        self, scores: Callable[[Tensor], Tensor], batch: Batch, space: Space, random: torch.Generator
    ) -> Tensor:
        """Return moved inputs, shape (copies · n, *shape): whole copies of the batch, one after the other.

        `scores` is the network in evaluation mode, whose parameters need no gradients.
        """


@dataclass(slots=True, eq=False)
class Views:
    """The network's outputs for one batch, shared by all losses of a step. Each view is computed once.

    Guarantee: BatchNorm sees each view once, in training mode. Attacks are made in evaluation mode and do not change
    the network's modes or its parameters' gradients.

    Parameters
    ----------
    module
        The network, in training mode.
    batch
        The samples.
    space
        Limits and scale of the inputs.
    random
        Random numbers of the adversary.
    adversary
        Makes the view `MOVED`; None if no loss uses it.
    """

    module: nn.Module
    batch: Batch
    space: Space
    random: torch.Generator
    adversary: Adversary | None = None
    _scores: dict[str, Tensor] = field(default_factory=dict)
    _moved: Tensor | None = None

    def scores(self, view: str) -> Tensor:
        """Return the scores of a view, shape (copies · n, classes), in training mode and differentiable."""
        if view not in self._scores:
            if self.adversary is not None and self._moved is None:
                # Before any view: BatchNorm's running statistics are then those of the previous steps, and no graph of
                # another view is in memory.
                self._moved = self._move(self.adversary)
            self._scores[view] = self._train_scores(view)
        return self._scores[view]

    @property
    def known(self) -> frozenset[str]:
        """The views that were computed."""
        return frozenset(self._scores)

    @contextmanager
    def evaluating(self) -> Iterator[nn.Module]:
        """Yield the network in evaluation mode, with BatchNorm's running statistics and without dropout."""
        modes = [(part, part.training) for part in self.module.modules()]
        try:
            self.module.eval()
            yield self.module
        finally:
            for part, mode in modes:
                part.training = mode

    def _train_scores(self, view: str) -> Tensor:
        """Return the scores of a view in training mode."""
        inputs = self.batch.x if view == CLEAN else self._moved
        if inputs is None:
            raise ModelError("A loss uses attacked inputs but the method has no adversary. Add one to its recipe.")
        try:
            scores: Tensor = self.module(inputs)
        except ValueError as error:
            raise ModelError(
                f"The network cannot be trained on a batch of {len(inputs)} ({str(error).rstrip('.')}). BatchNorm "
                "needs 2 samples or more. Raise `batch`, or merge small groups."
            ) from None
        return scores

    def _move(self, adversary: Adversary) -> Tensor:
        """Return the inputs that the adversary moved, without gradients for the network's parameters."""
        needed = [(parameter, parameter.requires_grad) for parameter in self.module.parameters()]
        try:
            for parameter, _ in needed:
                parameter.requires_grad_(False)  # an attack needs gradients of the inputs only
            with self.evaluating() as network:
                return adversary(network, self.batch, self.space, self.random).detach()
        finally:
            for parameter, before in needed:
                parameter.requires_grad_(before)
