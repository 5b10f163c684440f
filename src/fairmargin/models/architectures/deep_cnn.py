"""The two deep convolutional networks that Nanda 2021 trains from scratch on CIFAR."""

from collections import OrderedDict
from collections.abc import Iterator

from torch import nn

from fairmargin.models.architectures.initialisation import he_initialised
from fairmargin.models.architectures.shape import Shape
from fairmargin.models.architectures.sizing import features_left

# Stages end with a pool. A stage is (width, dropout after it) per convolution; 0 for none.
_STAGES = (
    ((64, 0.3), (64, 0.0)),
    ((128, 0.4), (128, 0.0)),
    ((256, 0.4), (256, 0.4), (256, 0.0)),
    ((512, 0.4), (512, 0.4), (512, 0.0)),
    ((512, 0.4), (512, 0.4), (512, 0.0)),
)
# The same for CIFAR-100: (width, padding) per convolution.
_STAGES_CIFAR100 = (
    ((128, 1), (128, 1)),
    ((256, 1), (256, 1)),
    ((512, 1), (512, 1)),
    ((1024, 0),),
)


def deep_cnn(shape: Shape, classes: int) -> nn.Module:
    """Build thirteen convolutions with BatchNorm (ε = 10⁻³) and dropout, then 512 and one score per class.

    Reference: Zagoruyko, "92.45 % on CIFAR-10 in Torch", torch.ch 2015; Nanda 2021, Deep CNN.
    """
    left = features_left("deep_cnn", _features, shape)
    classifier = nn.Sequential(
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(left, 512),
        nn.BatchNorm1d(512),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(512, classes),
    )
    return he_initialised(nn.Sequential(OrderedDict(features=_features(shape[0]), classifier=classifier)))


def deep_cnn_cifar100(shape: Shape, classes: int) -> nn.Module:
    """Build seven convolutions whose BatchNorm has no weights, then one linear layer (Nanda 2021, CIFAR-100)."""
    left = features_left("deep_cnn_cifar100", _features_cifar100, shape)
    classifier = nn.Sequential(nn.Flatten(), nn.Linear(left, classes))
    return nn.Sequential(OrderedDict(features=_features_cifar100(shape[0]), classifier=classifier))


def _features(channels: int) -> nn.Sequential:
    return nn.Sequential(*_layers(channels))


def _layers(channels: int) -> Iterator[nn.Module]:
    for stage in _STAGES:
        for width, dropout in stage:
            yield nn.Conv2d(channels, width, 3, padding=1)
            yield nn.BatchNorm2d(width, eps=1e-3)
            yield nn.ReLU()
            if dropout:
                yield nn.Dropout(dropout)
            channels = width
        yield nn.MaxPool2d(2)


def _features_cifar100(channels: int) -> nn.Sequential:
    return nn.Sequential(*_layers_cifar100(channels))


def _layers_cifar100(channels: int) -> Iterator[nn.Module]:
    for stage in _STAGES_CIFAR100:
        for width, padding in stage:
            yield nn.Conv2d(channels, width, 3, padding=padding)
            yield nn.BatchNorm2d(width, affine=False)
            yield nn.ReLU()
            channels = width
        yield nn.MaxPool2d(2)
