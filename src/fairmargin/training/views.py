"""A batch as the network sees it in one step: clean, attacked, noisy. Each view is computed once, when asked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor, nn

from fairmargin.errors import ModelError
from fairmargin.training.batch import Batch, Space

CLEAN, MOVED = "clean", "moved"  # as given; as the adversary moved it


class Adversary(Protocol):
    """Moves the inputs of a batch before the network learns from them; a frozen dataclass."""

    def __call__(
        self, scores: Callable[[Tensor], Tensor], batch: Batch, space: Space, random: torch.Generator
    ) -> Tensor:
        """Inputs, (copies · n, *shape): a whole number of copies of the batch, one after the other.

        `scores` is the network in evaluation mode, whose parameters ask for no gradients.
        """


@dataclass(slots=True, eq=False)
class Views:
    """What the losses of one step have in common.

    Guarantee: BatchNorm sees each view once, in training mode. Attacks are crafted in evaluation mode, and leave the
    network's modes and its parameters' gradients alone.

    Parameters
    ----------
    module
        In training mode.
    batch
        The samples.
    space
        Where inputs may lie and how long a step is.
    random
        Where all randomness of the adversary comes from.
    adversary
        Makes the view `MOVED`; None if no loss looks at it.
    """

    module: nn.Module
    batch: Batch
    space: Space
    random: torch.Generator
    adversary: Adversary | None = None
    _scores: dict[str, Tensor] = field(default_factory=dict)
    _moved: Tensor | None = None

    def scores(self, view: str) -> Tensor:
        """(copies · n, classes) in training mode, differentiable in the parameters."""
        if view not in self._scores:
            if self.adversary is not None and self._moved is None:
                # First of all, whichever view is asked for: BatchNorm's running statistics are then those of the steps
                # before, and no graph of another view lies in memory meanwhile.
                self._moved = self._crafted(self.adversary)
            self._scores[view] = self._learned_from(view)
        return self._scores[view]

    @property
    def known(self) -> frozenset[str]:
        """The views that were looked at."""
        return frozenset(self._scores)

    @contextmanager
    def evaluating(self) -> Iterator[nn.Module]:
        """The network in evaluation mode, with BatchNorm's running statistics and without dropout."""
        modes = [(part, part.training) for part in self.module.modules()]
        try:
            self.module.eval()
            yield self.module
        finally:
            for part, mode in modes:
                part.training = mode

    def _learned_from(self, view: str) -> Tensor:
        inputs = self.batch.x if view == CLEAN else self._moved
        if inputs is None:
            raise ModelError("A loss looks at attacked inputs but the method has no adversary.")
        try:
            scores: Tensor = self.module(inputs)
        except ValueError as error:
            raise ModelError(
                f"The network cannot learn from a batch of {len(inputs)} ({str(error).rstrip('.')}). BatchNorm needs "
                "2 samples or more: raise `batch`, or merge small groups."
            ) from None
        return scores

    def _crafted(self, adversary: Adversary) -> Tensor:
        wishes = [(parameter, parameter.requires_grad) for parameter in self.module.parameters()]
        try:
            for parameter, _ in wishes:
                parameter.requires_grad_(False)  # an attack differentiates in the inputs: this spares it the rest
            with self.evaluating() as network:
                return adversary(network, self.batch, self.space, self.random).detach()
        finally:
            for parameter, wish in wishes:
                parameter.requires_grad_(wish)
