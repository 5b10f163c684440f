"""How often a model is asked: rows forward and rows backward, counted at the module, whoever asks."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


@dataclass(slots=True)
class Passes:
    """Rows that went through a module so far; a sample asked twice counts twice, and padding counts too."""

    forward: int = 0
    backward: int = 0

    def watch(self, rows: int, scores: Tensor) -> None:
        """Count a forward pass, and every backward pass that will go through its scores."""
        self.forward += rows
        if scores.requires_grad:
            # Under a batched gradient (vmap) the hook sees all of it at once: rows × as many as there are.
            scores.register_hook(lambda gradient: self._back(rows, gradient, scores.numel()))

    def _back(self, rows: int, gradient: Tensor, usual: int) -> None:
        self.backward += rows * max(1, gradient.numel() // max(1, usual))


@contextmanager
def counted(model: nn.Module) -> Iterator[Passes]:
    """The passes of a module for as long as the context lasts."""
    passes = Passes()

    def hook(module: nn.Module, given: tuple[Any, ...], scores: Tensor) -> None:
        passes.watch(len(given[0]), scores)

    handle = model.register_forward_hook(hook)
    try:
        yield passes
    finally:
        handle.remove()
