"""VGG: 3 × 3 convolutions in five stages, each of which ends with a pool."""

from collections import OrderedDict
from collections.abc import Iterator

from torch import nn

from fairmargin.models.architectures.initialisation import he_initialised
from fairmargin.models.architectures.shape import Shape
from fairmargin.models.architectures.sizing import convolutional, features_left

_WIDTHS = (64, 128, 256, 512, 512)
# How many convolutions each stage has: configurations B and E of the paper.
_VGG13 = (2, 2, 2, 2, 2)
_VGG19 = (2, 2, 4, 4, 4)


def vgg13(shape: Shape, classes: int) -> nn.Module:
    """Build ten 3 × 3 convolutions in five stages, then one linear layer (Tran 2024).

    The five pools need images of at least 32 × 32 pixels, which is why the paper leaves Fashion-MNIST out. It does not
    say which VGG-13 it uses. This one is the usual form for small images, with BatchNorm and without the two hidden
    layers of 4,096; we chose it because it fits the paper's learning rate of 0.1.

    Reference: Simonyan, Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", 2014,
    configuration B.
    """
    return convolutional(
        "vgg13",
        shape,
        lambda channels: _layers(channels, _VGG13, normalized=True),
        lambda left: (nn.Linear(left, classes),),
    )


def vgg19(shape: Shape, classes: int) -> nn.Module:
    """Build VGG-19 with random weights (Nanda 2021)."""
    return _vgg19("vgg19", shape, classes, normalized=False)


def vgg19_bn(shape: Shape, classes: int) -> nn.Module:
    """Build VGG-19 with BatchNorm and random weights, which the published code of Nanda 2021 uses."""
    return _vgg19("vgg19_bn", shape, classes, normalized=True)


def _vgg19(name: str, shape: Shape, classes: int, *, normalized: bool) -> nn.Module:
    """Build configuration E of Simonyan and Zisserman for images of any size from 32 × 32 pixels.

    Averages over 7 × 7 regions follow the convolutions, as in the public weights. Convolutions begin with He's
    variance, linear layers with N(0, 0.01²) as in the paper.
    """

    def features(channels: int) -> Iterator[nn.Module]:
        return _layers(channels, _VGG19, normalized=normalized)

    features_left(name, features, shape)  # refuses images that are too small
    parts = OrderedDict(
        features=nn.Sequential(*features(shape[0])),
        avgpool=nn.AdaptiveAvgPool2d((7, 7)),
        flatten=nn.Flatten(),
        classifier=nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096), nn.ReLU(), nn.Dropout(),
            nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(),
            nn.Linear(4096, classes),
        ),
    )  # fmt: skip
    network = he_initialised(nn.Sequential(parts))
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, 0.0, 0.01)
            nn.init.zeros_(layer.bias)
    return network


def _layers(channels: int, convolutions: tuple[int, ...], *, normalized: bool) -> Iterator[nn.Module]:
    for width, count in zip(_WIDTHS, convolutions, strict=True):
        for _ in range(count):
            yield nn.Conv2d(channels, width, 3, padding=1)
            if normalized:
                yield nn.BatchNorm2d(width)
            yield nn.ReLU()
            channels = width
        yield nn.MaxPool2d(2)
