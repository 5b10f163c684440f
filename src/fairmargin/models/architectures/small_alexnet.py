"""AlexNet for small images and small machines."""

from collections import OrderedDict
from collections.abc import Iterator

from torch import nn

from fairmargin.models.architectures.shape import Shape
from fairmargin.models.architectures.sizing import features_left


def small_alexnet(shape: Shape, classes: int) -> nn.Module:
    """AlexNet's five convolutions and three linear layers, a quarter as wide, for images from 8×8 on.

    Pools follow the first, second and fifth convolution, and dropout precedes both hidden linear layers, as in the
    original. Its large kernels and strides suit 224×224 pixels: here all convolutions are 3×3 and keep the size.

    Reference: Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014, whose widths
    torchvision takes too.
    """
    left = features_left("small_alexnet", _features, shape)
    classifier = nn.Sequential(
        nn.Flatten(),
        nn.Dropout(), nn.Linear(left, 256), nn.ReLU(),
        nn.Dropout(), nn.Linear(256, 256), nn.ReLU(),
        nn.Linear(256, classes),
    )  # fmt: skip
    return nn.Sequential(OrderedDict(features=_features(shape[0]), classifier=classifier))


def _features(channels: int) -> nn.Sequential:
    return nn.Sequential(*_layers(channels))


def _layers(channels: int) -> Iterator[nn.Module]:
    for width, pooled in ((16, True), (48, True), (96, False), (64, False), (64, True)):
        yield nn.Conv2d(channels, width, 3, padding=1)
        yield nn.ReLU()
        if pooled:
            yield nn.MaxPool2d(2)
        channels = width
