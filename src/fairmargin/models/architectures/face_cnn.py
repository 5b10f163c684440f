"""The two networks for faces that Nanda 2021 trains from scratch."""

from collections import OrderedDict
from collections.abc import Iterator

from torch import nn

from fairmargin.models.architectures.shape import Shape
from fairmargin.models.architectures.sizing import features_left


def utk_cnn(shape: Shape, classes: int) -> nn.Module:
    """Build two convolutions (7 × 7, 5 × 5; each with dropout and a pool), 256 and one score per class.

    Nanda 2021 and Mousavi 2023 use it for UTKFace. For images of 200 × 200 pixels, as in the first paper, the
    convolutions return 153,664 numbers.
    """
    left = features_left("utk_cnn", _utk_features, shape)
    classifier = nn.Sequential(nn.Flatten(), nn.Linear(left, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, classes))
    return nn.Sequential(OrderedDict(features=_utk_features(shape[0]), classifier=classifier))


def adience_cnn(shape: Shape, classes: int) -> nn.Module:
    """Build three convolutions with BatchNorm and overlapping pools, 512, 512 and one score per class.

    Nanda 2021 uses it for Adience. For the paper's images of 224 × 224 pixels the convolutions return 221,184 numbers,
    which makes 114 million weights, 456 MB.
    Reference for the order of the layers: Levi, Hassner, "Age and Gender Classification using Convolutional Neural
    Networks", CVPR workshops 2015.
    """
    left = features_left("adience_cnn", _adience_features, shape)
    classifier = nn.Sequential(
        nn.Flatten(),
        nn.Linear(left, 512),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(512, 512),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(512, classes),
    )
    return nn.Sequential(OrderedDict(features=_adience_features(shape[0]), classifier=classifier))


def _utk_features(channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, 32, 7, padding=2),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.MaxPool2d(2),
    )


def _adience_features(channels: int) -> nn.Sequential:
    return nn.Sequential(*_adience_layers(channels))


def _adience_layers(channels: int) -> Iterator[nn.Module]:
    for width, kernel in ((96, 7), (256, 5), (384, 3)):
        yield nn.Conv2d(channels, width, kernel)
        yield nn.BatchNorm2d(width)
        yield nn.ReLU()
        yield nn.MaxPool2d(3, 2)
        channels = width
