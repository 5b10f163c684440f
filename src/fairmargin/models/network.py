"""A model while it is being measured: scores that can be differentiated, a plain answer, and the space around them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fairmargin.core.domain import Domain
from fairmargin.errors import ModelError

TILE = 64  # on processors of today a batch below 16 gives other last bits than a full one; tiles of 64 never did


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """What a gradient-based estimator works with; `model.network(shape)` makes one for the time of a measurement.

    Samples are rows: (n, features) tensors of `dtype` on `device`. Both functions must be given exactly `tile` rows,
    which `fairmargin.perturbation.tiles` sees to.

    Parameters
    ----------
    scores
        Rows to one score per class, differentiable in the rows. It may be a faster copy of the model, whose
        answers differ in the last digits.
    plain
        The same by the model itself, not differentiable: what it says decides whether an input is misclassified. Far
        outside of what it was trained on its scores may overflow; `finite` refuses that for the samples themselves.
    tile
        How many rows a call takes.
    low, high
        Where each feature may lie; an immutable feature has both at ∓inf and `scale` 0.
    scale
        How long a step of length 1 is in each feature; 0 for one that cannot move.
    references
        Inputs, as rows, fixed in advance: where a search finds nothing, the way to the nearest of them that the model
        takes for another class is tried.
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
        """The kind of number that the model calculates with."""
        return self.scale.dtype

    @property
    def device(self) -> torch.device:
        """Where the model calculates."""
        return self.scale.device


def finite(scores: Tensor) -> Tensor:
    """The scores, if they are numbers."""
    if not torch.isfinite(scores).all():
        raise ModelError(
            "The model's scores hold NaN or infinity. Are its weights damaged, or its inputs not scaled as in training?"
        )
    return scores


def space(
    domain: Domain, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """`low`, `high` and `scale` of a domain as rows of one number per feature."""
    features = math.prod(shape)
    low, high, scale = (part.copy() for part in domain.flat(features))
    fixed = ~domain.movable(features)
    low[fixed], high[fixed], scale[fixed] = -math.inf, math.inf, 0.0
    lowest, highest, step = (torch.as_tensor(part, device=device).to(dtype) for part in (low, high, scale))
    return lowest, highest, step
