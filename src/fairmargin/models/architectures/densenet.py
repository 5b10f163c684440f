"""DenseNet: every layer sees the outputs of all layers before it in its block."""

from collections import OrderedDict

import torch
from torch import Tensor, nn

from fairmargin.models.architectures.shape import Shape
from fairmargin.models.architectures.sizing import features_left

_STEM = 64
_GROWTH = 32  # channels that a layer adds
_INNER = 4 * _GROWTH  # channels between the two convolutions of a layer
_LAYERS = (6, 12, 24, 16)  # in each block


def densenet121(shape: Shape, classes: int) -> nn.Module:
    """Build DenseNet-121 with random weights: 120 convolutions and a linear layer (Nanda 2021).

    It is the DenseNet-BC of the paper's table for ImageNet: bottlenecks of 4 × 32 channels, and transitions that halve
    the channels and the size.

    Reference: Huang, Liu, van der Maaten, Weinberger, "Densely Connected Convolutional Networks", CVPR 2017.
    """
    features_left("densenet121", _features, shape)  # refuses images that are too small
    features = _features(shape[0])
    width = _STEM
    for count in _LAYERS[:-1]:
        width = (width + count * _GROWTH) // 2
    classifier = nn.Linear(width + _LAYERS[-1] * _GROWTH, classes)
    for layer in features.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight)
    nn.init.zeros_(classifier.bias)
    return nn.Sequential(
        OrderedDict(
            features=features,
            relu=nn.ReLU(),
            avgpool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            classifier=classifier,
        )
    )


class DenseLayer(nn.Sequential):
    """Add new channels, calculated from all channels, behind those that there are.

    Parameters
    ----------
    channels
        Number of channels of the input.
    """

    def __init__(self, channels: int) -> None:
        super().__init__(
            OrderedDict(
                norm1=nn.BatchNorm2d(channels),
                relu1=nn.ReLU(),
                conv1=nn.Conv2d(channels, _INNER, 1, bias=False),
                norm2=nn.BatchNorm2d(_INNER),
                relu2=nn.ReLU(),
                conv2=nn.Conv2d(_INNER, _GROWTH, 3, padding=1, bias=False),
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the input's channels and the new ones."""
        added = x
        for layer in self:
            added = layer(added)
        return torch.cat((x, added), 1)


def _features(channels: int) -> nn.Sequential:
    parts: OrderedDict[str, nn.Module] = OrderedDict(
        conv0=nn.Conv2d(channels, _STEM, 7, stride=2, padding=3, bias=False),
        norm0=nn.BatchNorm2d(_STEM),
        relu0=nn.ReLU(),
        pool0=nn.MaxPool2d(3, 2, padding=1),
    )
    width = _STEM
    for number, count in enumerate(_LAYERS, 1):
        layers = {f"denselayer{place + 1}": DenseLayer(width + place * _GROWTH) for place in range(count)}
        parts[f"denseblock{number}"] = nn.Sequential(OrderedDict(layers))
        width += count * _GROWTH
        if number < len(_LAYERS):
            parts[f"transition{number}"] = _transition(width)
            width //= 2
    parts["norm5"] = nn.BatchNorm2d(width)
    return nn.Sequential(parts)


def _transition(width: int) -> nn.Sequential:
    """Build the layer between two blocks, which halves channels and size."""
    return nn.Sequential(
        OrderedDict(
            norm=nn.BatchNorm2d(width),
            relu=nn.ReLU(),
            conv=nn.Conv2d(width, width // 2, 1, bias=False),
            pool=nn.AvgPool2d(2),
        )
    )
