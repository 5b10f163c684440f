"""SqueezeNet: few parameters, by squeezing channels before each 3 × 3 convolution."""

from collections import OrderedDict
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairmargin.models.architectures.shape import Shape
from fairmargin.models.architectures.sizing import features_left

# Channels of the Fire modules after the first, second and third pool: (squeezed, expanded by each of two convolutions).
_FIRES = (
    ((16, 64), (16, 64), (32, 128)),
    ((32, 128), (48, 192), (48, 192), (64, 256)),
    ((64, 256),),
)


def squeezenet1_0(shape: Shape, classes: int) -> nn.Module:
    """Build SqueezeNet 1.0 with random weights (Nanda 2021).

    The scores are averages behind a ReLU, as published, and hence never negative.

    Reference: Iandola, Han, Moskewicz, Ashraf, Dally, Keutzer, "SqueezeNet: AlexNet-level accuracy with 50x fewer
    parameters and <0.5MB model size", 2016.
    """
    features_left("squeezenet1_0", _features, shape)  # refuses images that are too small
    features, last = nn.Sequential(*_features(shape[0])), nn.Conv2d(512, classes, 1)
    for layer in (*features.modules(), last):
        if isinstance(layer, nn.Conv2d):
            if layer is last:
                nn.init.normal_(layer.weight, 0.0, 0.01)
            else:
                nn.init.kaiming_uniform_(layer.weight)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
    classifier = nn.Sequential(nn.Dropout(), last, nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    return nn.Sequential(OrderedDict(features=features, classifier=classifier, flatten=nn.Flatten()))


class Fire(nn.Module):
    """Squeeze the channels by a 1 × 1 convolution, then expand them by 1 × 1 and by 3 × 3 convolutions.

    Parameters
    ----------
    channels
        Number of channels of the input.
    squeezed
        Number of channels in between.
    expanded
        Number of channels that each of the two expansions returns, one after the other.
    """

    def __init__(self, channels: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, squeezed, 1)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return both expansions, concatenated."""
        inner = functional.relu(self.squeeze(x))
        return torch.cat((functional.relu(self.expand1x1(inner)), functional.relu(self.expand3x3(inner))), 1)


def _features(channels: int) -> Iterator[nn.Module]:
    yield nn.Conv2d(channels, 96, 7, stride=2)
    yield nn.ReLU()
    before = 96
    for stage in _FIRES:
        yield nn.MaxPool2d(3, 2, ceil_mode=True)
        for squeezed, expanded in stage:
            yield Fire(before, squeezed, expanded)
            before = 2 * expanded
