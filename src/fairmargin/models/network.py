"""Models opened for gradient-based estimators: differentiable scores, final scores, and the domain as tensors."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fairmargin.core.domain import Domain
from fairmargin.errors import ModelError

TILE = 64  # on current processors, batches below 16 differ from larger ones in the last bits; 64 was always stable


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """The interface of a model for gradient-based estimators; `model.network(shape)` opens one for a measurement.

    Samples are rows: (n, features) tensors of `dtype` on `device`. Both functions must be called with exactly `tile`
    rows, which `fairmargin.perturbation.tiles` ensures.

    Parameters
    ----------
    scores
        Function from rows to one score per class, differentiable in the rows. It may use a faster copy of the model
        that differs in the last digits.
    plain
        Function from rows to the scores of the original model, not differentiable. It decides whether an input is
        misclassified. Scores can overflow far from the training data; `finite` checks those of the samples.
    classes
        Number of classes.
    tile
        Number of rows per call.
    low, high
        Bounds of each feature; an immutable feature has the bounds ∓inf and `scale` 0.
    scale
        Scale of each feature; 0 for immutable features.
    references
        Fixed inputs, as rows. If a search finds nothing, it tries the line to the nearest of them that the model
        assigns to another class.
    """

    scores: Callable[[Tensor], Tensor]
    plain: Callable[[Tensor], Tensor]
    classes: int
    tile: int
    low: Tensor
    high: Tensor
    scale: Tensor
    references: Tensor | None = None

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of the model."""
        return self.scale.dtype

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self.scale.device


def finite(scores: Tensor) -> Tensor:
    """Return the scores unchanged after checking that they are finite."""
    if not torch.isfinite(scores).all():
        raise ModelError(
            "The model's scores hold NaN or infinity. Are its weights damaged, or its inputs not scaled as in training?"
        )
    return scores


def padded(rows: Tensor, size: int) -> Tensor:
    """Return a tile of this size: the rows, followed by copies of the last one."""
    return torch.cat([rows, rows[-1:].expand(size - len(rows), *rows.shape[1:])]) if len(rows) < size else rows


def rows_of(network: Network, x: npt.NDArray[Any]) -> Tensor:
    """Convert samples to rows with the device and the floating-point type of a network."""
    kind = np.float64 if network.dtype is torch.float64 else np.float32
    with np.errstate(over="ignore"):  # numbers too large for float32 become infinity, which shows in the scores
        held = np.array(x, dtype=kind)
    return torch.as_tensor(held, device=network.device).to(network.dtype).flatten(1)


def example_of(model: nn.Module) -> Tensor:
    """Return a parameter or buffer with the device and the floating-point type that inputs of the model must have."""
    tensors = (*model.parameters(), *model.buffers())
    return next((tensor for tensor in tensors if tensor.is_floating_point()), torch.empty(0))


def space(
    domain: Domain, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Convert a domain to the tensors `low`, `high` and `scale` with one number per feature."""
    features = math.prod(shape)
    low, high, scale = (part.copy() for part in domain.flat(features))
    fixed = ~domain.movable(features)
    low[fixed], high[fixed], scale[fixed] = -math.inf, math.inf, 0.0
    lowest, highest, step = (torch.as_tensor(part, device=device).to(dtype) for part in (low, high, scale))
    return lowest, highest, step
