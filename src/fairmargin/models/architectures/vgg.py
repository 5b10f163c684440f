"""VGG-13."""

from collections import OrderedDict
from collections.abc import Iterator

from torch import nn

from fairmargin.models.architectures.shape import Shape
from fairmargin.models.architectures.sizing import features_left


def vgg13(shape: Shape, classes: int) -> nn.Module:
    """Ten 3×3 convolutions in five stages, each ending with a pool, then one linear layer (Tran 2024).

    The five pools need 32×32 pixels: the paper leaves Fashion-MNIST out for that reason. It does not say which VGG-13;
    this is the form for small images, with BatchNorm and without the two hidden layers of 4,096: a choice of ours that
    fits the paper's learning rate of 0.1.

    Reference: Simonyan, Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", 2014,
    configuration B.
    """
    left = features_left("vgg13", _features, shape)
    classifier = nn.Sequential(nn.Flatten(), nn.Linear(left, classes))
    return nn.Sequential(OrderedDict(features=_features(shape[0]), classifier=classifier))


def _features(channels: int) -> nn.Sequential:
    return nn.Sequential(*_layers(channels))


def _layers(channels: int) -> Iterator[nn.Module]:
    for width in (64, 128, 256, 512, 512):
        for _ in range(2):
            yield nn.Conv2d(channels, width, 3, padding=1)
            yield nn.BatchNorm2d(width)
            yield nn.ReLU()
            channels = width
        yield nn.MaxPool2d(2)
