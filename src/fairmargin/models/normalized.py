"""Normalisation as the first layer of a model, so that distances are in the units of the inputs."""

from typing import Any

import torch
from torch import Tensor, fx, nn

from fairmargin.errors import ModelError
from fairmargin.models.network import example_of as _example_of

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


# The source code of this class, including its docstrings, is part of the fingerprints of models, and stored distances
# are found by these fingerprints. Do not edit the class.
class Normalized(nn.Module):
    """A module after (x − mean) / std.

    Guarantee: `mean` and `std` are where the model is and of its kind of number. They are buffers, but no part of the
    state dict: weights are saved without them, and they are given anew with each use. So load weights into the model
    first, then wrap it; the wrapped state dict has the model's names behind "model.".

    Parameters
    ----------
    model
        What expects normalised inputs.
    mean, std
        A number, or one a channel: the second axis of (n, channels, height, width), the features of (n, features).

    >>> Normalized(nn.Identity(), 0.5, 0.25)(torch.tensor([[1.0]]))
    tensor([[2.]])
    >>> Normalized(nn.Identity(), (0.0, 1.0), (1.0, 0.0))
    Traceback (most recent call last):
        ...
    fairmargin.errors.ModelError: `std` of a normalisation must be greater than 0; given 0 in place 1 of 2.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, model: nn.Module, mean: Any, std: Any) -> None:
        super().__init__()
        offset, spread = _numbers(mean, "mean"), _numbers(std, "std")
        if (spread <= 0).any():
            place = int((spread <= 0).nonzero()[0])
            raise ModelError(
                f"`std` of a normalisation must be greater than 0; given {spread[place]:g} in place {place} of "
                f"{len(spread)}."
            )
        if 1 not in (len(offset), len(spread)) and len(offset) != len(spread):
            raise ModelError(
                f"`mean` of a normalisation has {len(offset)} numbers but `std` has {len(spread)}. Give one number, or "
                "one a channel, for each."
            )
        self.model = model
        like = _example_of(model)
        self.register_buffer("mean", offset.to(like.device, like.dtype), persistent=False)
        self.register_buffer("std", spread.to(like.device, like.dtype), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """The model's scores of un-normalised inputs."""
        if not isinstance(x, fx.Proxy):  # while a graph is traced there is no input to look at
            self._check(x)
        # Channels go last and come back, so that one expression serves images and tables and can be traced.
        scores: Tensor = self.model(((x.movedim(1, -1) - self.mean) / self.std).movedim(-1, 1))
        return scores

    def extra_repr(self) -> str:
        """The numbers if they are few, for `repr`."""
        shown = [("mean", self.mean), ("std", self.std)]
        return ", ".join(f"{name}={part.tolist() if len(part) <= 4 else f'[{len(part)}]'}" for name, part in shown)

    def _check(self, x: Tensor) -> None:
        if x.dim() < 2:
            raise ModelError(
                f"A normalised model takes (n, channels, …), one sample along the first axis; given {tuple(x.shape)}."
            )
        count = max(len(self.mean), len(self.std))
        if count not in (1, x.shape[1]):
            raise ModelError(
                f"The normalisation has {count} numbers but a sample has {x.shape[1]} channels (shape "
                f"{tuple(x.shape[1:])}). Give one number, or one a channel."
            )


def _numbers(values: Any, name: str) -> Tensor:
    try:
        numbers = torch.as_tensor(values, dtype=torch.float64).reshape(-1)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ModelError(f"`{name}` of a normalisation must hold numbers; {error}.") from None
    if not len(numbers) or not torch.isfinite(numbers).all():
        raise ModelError(f"`{name}` of a normalisation must hold finite numbers; given {values!r}.")
    return numbers.detach().clone()
