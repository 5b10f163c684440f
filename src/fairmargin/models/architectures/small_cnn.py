"""Small convolutional networks: that of Tran 2024, and a smaller one for laptops."""

from collections import OrderedDict
from collections.abc import Iterator

from torch import nn

from fairmargin.models.architectures.shape import Shape
from fairmargin.models.architectures.sizing import features_left


def cnn6(shape: Shape, classes: int) -> nn.Module:
    """Build three convolutions (32, 64, 128) and three linear layers (256, 128, one score per class).

    Tran 2024, "CNN": "3 convolutional layers followed by 3 fully connected layers". The paper gives no sizes; we
    chose these.
    """
    left = features_left("cnn6", _three, shape)
    classifier = nn.Sequential(
        nn.Flatten(), nn.Linear(left, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, classes)
    )
    return nn.Sequential(OrderedDict(features=_three(shape[0]), classifier=classifier))


def small_cnn(shape: Shape, classes: int) -> nn.Module:
    """Build two convolutions (16, 32), 64, and one score per class: our own, for images of at least 4 × 4 pixels."""
    left = features_left("small_cnn", _two, shape)
    classifier = nn.Sequential(nn.Flatten(), nn.Linear(left, 64), nn.ReLU(), nn.Linear(64, classes))
    return nn.Sequential(OrderedDict(features=_two(shape[0]), classifier=classifier))


def _three(channels: int) -> nn.Sequential:
    return nn.Sequential(*_convolutions(channels, (32, 64, 128)))


def _two(channels: int) -> nn.Sequential:
    return nn.Sequential(*_convolutions(channels, (16, 32)))


def _convolutions(channels: int, widths: tuple[int, ...]) -> Iterator[nn.Module]:
    """Yield 3 × 3 convolutions, each followed by a 2 × 2 pool."""
    for width in widths:
        yield nn.Conv2d(channels, width, 3, padding=1)
        yield nn.ReLU()
        yield nn.MaxPool2d(2)
        channels = width
