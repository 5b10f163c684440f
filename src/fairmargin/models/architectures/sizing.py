"""Networks for images of other sizes than the paper's, and for images given as flat rows."""

import math
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from fairmargin.errors import ModelError
from fairmargin.models.architectures.shape import Shape

_LARGEST = 512  # the largest side tried when looking for the smallest that works


def convolutional(
    name: str,
    shape: Shape,
    features: Callable[[int], Iterable[nn.Module]],
    classifier: Callable[[int], Iterable[nn.Module]],
) -> nn.Sequential:
    """Build `features` for a number of channels, and behind them a `classifier` for as many numbers as they return.

    >>> convolutional("linear", (1, 2, 2), lambda channels: [nn.AvgPool2d(2)], lambda left: [nn.Linear(left, 3)])
    Sequential(
      (features): Sequential(
        (0): AvgPool2d(kernel_size=2, stride=2, padding=0)
      )
      (classifier): Sequential(
        (0): Flatten(start_dim=1, end_dim=-1)
        (1): Linear(in_features=1, out_features=3, bias=True)
      )
    )
    """
    # The order in which the parts are built decides which random weights a seed gives.
    last = nn.Sequential(nn.Flatten(), *classifier(features_left(name, features, shape)))
    return nn.Sequential(OrderedDict(features=nn.Sequential(*features(shape[0])), classifier=last))


def features_left(name: str, layers: Callable[[int], Iterable[nn.Module]], shape: Shape) -> int:
    """Count the numbers that the layers return for one image: the inputs of a linear layer behind them.

    Only shapes are calculated, on torch's meta device, which takes no memory and no random numbers. Images that a layer
    would shrink to nothing are refused with an error that names the smallest size.

    Parameters
    ----------
    name
        Name of the network in that error.
    layers
        Function that builds the layers for a number of channels.
    shape
        Channels, height and width of one image.

    >>> features_left("pooled", lambda channels: [nn.Conv2d(channels, 8, 3), nn.MaxPool2d(2)], (3, 10, 10))
    128
    """
    with torch.device("meta"):
        trial = nn.Sequential(*layers(shape[0])).eval()
    left = _left(trial, shape)
    if left is None:
        smallest = _smallest(trial, shape[0])
        if smallest > _LARGEST:
            raise ModelError(f"`{name}` cannot take images with {shape[0]} channels, of no size up to {_LARGEST}.")
        raise ModelError(
            f"`{name}` needs images of at least {smallest}×{smallest} pixels; given {shape[1]}×{shape[2]}, which one "
            f"of its layers would shrink to nothing. Load the images larger, or take {_for_small_images(name)}."
        )
    return left


def _for_small_images(name: str) -> str:
    """Name other networks, which take small images."""
    others = " or ".join(f"`{other}`" for other in ("small_cnn", "resnet8") if other != name)
    return f"a network for small images such as {others}"


def _smallest(layers: nn.Module, channels: int) -> int:
    """Find the smallest side of a square image that the layers take, by bisection: they also take all larger ones."""
    sides = range(1, _LARGEST + 1)
    return 1 + bisect_left(sides, True, key=lambda side: _left(layers, (channels, side, side)) is not None)


def _left(layers: nn.Module, shape: Shape) -> int | None:
    try:
        with torch.no_grad():
            out: Tensor = layers(torch.zeros(1, *shape, device="meta"))
    except RuntimeError:  # a kernel larger than its input, or an output without pixels
        return None
    return math.prod(out.shape) or None


# The source text of a class of ours is part of the fingerprint of a network: see the comment in resnet.py.
# ruff: disable[D401]
class Unflattened(nn.Module):
    """A network for images that takes them as flat rows.

    Guarantee: its state dict has the network's own names, so that the same weights fit flat and unflattened samples.

    Parameters
    ----------
    network
        Takes images.
    shape
        Channels, height and width of one image.

    >>> tuple(Unflattened(nn.Conv2d(1, 2, 3), (1, 8, 8))(torch.zeros(5, 64)).shape)
    (5, 2, 6, 6)
    >>> list(Unflattened(nn.Conv2d(1, 2, 3), (1, 8, 8)).state_dict())
    ['weight', 'bias']
    """

    def __init__(self, network: nn.Module, shape: Shape) -> None:
        super().__init__()
        self.unflatten = nn.Unflatten(1, shape)
        self.network = network
        self.register_state_dict_post_hook(_without_prefix)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_with_prefix)  # type: ignore[no-untyped-call]

    def forward(self, x: Tensor) -> Tensor:
        """The network's answer to the rows as images."""
        out: Tensor = self.network(self.unflatten(x))
        return out


# ruff: enable[D401]


def _without_prefix(_: nn.Module, state: dict[str, Any], prefix: str, __: dict[str, Any]) -> None:
    for key in [key for key in state if key.startswith(f"{prefix}network.")]:
        state[prefix + key.removeprefix(f"{prefix}network.")] = state.pop(key)


def _with_prefix(
    _: nn.Module,
    state: dict[str, Any],
    prefix: str,
    metadata: dict[str, Any],
    strict: bool,
    missing: list[str],
    unexpected: list[str],
    errors: list[str],
) -> None:
    for key in [key for key in state if key.startswith(prefix)]:
        state[f"{prefix}network.{key.removeprefix(prefix)}"] = state.pop(key)
