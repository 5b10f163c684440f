"""Networks without shortcuts: logistic regression, and convolutions followed by linear layers."""

import math
from collections import OrderedDict
from collections.abc import Iterator

from torch import nn

from fairmargin.models.architectures.initialisation import he_initialised
from fairmargin.models.architectures.shape import Shape
from fairmargin.models.architectures.sizing import convolutional, features_left

# Stages of the deep CNN end with a pool. A stage is (width, dropout after it) per convolution; 0 for none.
_STAGES = (
    ((64, 0.3), (64, 0.0)),
    ((128, 0.4), (128, 0.0)),
    ((256, 0.4), (256, 0.4), (256, 0.0)),
    ((512, 0.4), (512, 0.4), (512, 0.0)),
    ((512, 0.4), (512, 0.4), (512, 0.0)),
)
# The same for CIFAR-100: (width, padding) per convolution.
_STAGES_CIFAR100 = (((128, 1), (128, 1)), ((256, 1), (256, 1)), ((512, 1), (512, 1)), ((1024, 0),))


def logistic(shape: Shape, classes: int) -> nn.Module:
    """Build one linear layer on the flattened sample, of any shape (Nanda 2021, the first model of its experiments).

    >>> logistic((3, 32, 32), 10)
    Sequential(
      (flatten): Flatten(start_dim=1, end_dim=-1)
      (linear): Linear(in_features=3072, out_features=10, bias=True)
    )
    """
    return nn.Sequential(OrderedDict(flatten=nn.Flatten(), linear=nn.Linear(math.prod(shape), classes)))


def small_cnn(shape: Shape, classes: int) -> nn.Module:
    """Build two convolutions (16 and 32 channels) and two linear layers (64 units, one score per class).

    This network is not from a paper. Images must have at least 4 × 4 pixels.
    """
    return convolutional(
        "small_cnn",
        shape,
        lambda channels: _pooled(channels, (16, 32)),
        lambda left: (nn.Linear(left, 64), nn.ReLU(), nn.Linear(64, classes)),
    )


def cnn6(shape: Shape, classes: int) -> nn.Module:
    """Build three convolutions (32, 64 and 128 channels) and three linear layers (256, 128, one score per class).

    Tran 2024, "CNN": "3 convolutional layers followed by 3 fully connected layers". The paper gives no sizes; we
    chose these.
    """
    return convolutional(
        "cnn6",
        shape,
        lambda channels: _pooled(channels, (32, 64, 128)),
        lambda left: (nn.Linear(left, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, classes)),
    )


def _pooled(channels: int, widths: tuple[int, ...]) -> Iterator[nn.Module]:
    """Yield 3 × 3 convolutions, each followed by a 2 × 2 pool."""
    for width in widths:
        yield from (nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        channels = width


def lenet5(shape: Shape, classes: int) -> nn.Module:
    """Build LeNet-5: two 5 × 5 convolutions (6 and 16 channels) and three linear layers (120, 84, one score per class).

    Mousavi 2023 uses it for MNIST.
    It has ReLU and max-pooling, as is usual today, instead of the sigmoids and trainable subsampling of 1998. The first
    convolution is padded by 2, so that images of 28 × 28 pixels fit the original, which takes 32 × 32.

    Reference: LeCun, Bottou, Bengio, Haffner, "Gradient-Based Learning Applied to Document Recognition", 1998.
    """

    def features(channels: int) -> Iterator[nn.Module]:
        yield from (nn.Conv2d(channels, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
        yield from (nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2))

    return convolutional(
        "lenet5",
        shape,
        features,
        lambda left: (nn.Linear(left, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, classes)),
    )


def mnist_cnn(shape: Shape, classes: int) -> nn.Module:
    """Build two padded 3 × 3 convolutions (32 and 64 channels), each with a pool, and two linear layers (200, classes).

    Parameters have the names of the weights that the package `advertorch` 0.2.3 contains as "LeNet5Madry": one network
    trained plainly and one trained adversarially.
    """
    left = features_left("mnist_cnn", lambda channels: _pooled(channels, (32, 64)), shape)
    names = ("conv1", "relu1", "pool1", "conv2", "relu2", "pool2")
    parts = OrderedDict(zip(names, _pooled(shape[0], (32, 64)), strict=True))
    parts |= OrderedDict(
        flatten=nn.Flatten(), linear1=nn.Linear(left, 200), relu3=nn.ReLU(), linear2=nn.Linear(200, classes)
    )
    return nn.Sequential(parts)


def deep_cnn(shape: Shape, classes: int) -> nn.Module:
    """Build thirteen convolutions with BatchNorm (ε = 10⁻³) and dropout, then two linear layers (512, classes).

    Reference: Zagoruyko, "92.45 % on CIFAR-10 in Torch", torch.ch 2015; Nanda 2021, Deep CNN.
    """

    def features(channels: int) -> Iterator[nn.Module]:
        for stage in _STAGES:
            for width, dropout in stage:
                yield from (nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width, eps=1e-3), nn.ReLU())
                if dropout:
                    yield nn.Dropout(dropout)
                channels = width
            yield nn.MaxPool2d(2)

    def classifier(left: int) -> Iterator[nn.Module]:
        yield from (nn.Dropout(0.5), nn.Linear(left, 512), nn.BatchNorm1d(512), nn.ReLU())
        yield from (nn.Dropout(0.5), nn.Linear(512, classes))

    return he_initialised(convolutional("deep_cnn", shape, features, classifier))


def deep_cnn_cifar100(shape: Shape, classes: int) -> nn.Module:
    """Build seven convolutions whose BatchNorm has no weights, then one linear layer (Nanda 2021, CIFAR-100)."""

    def features(channels: int) -> Iterator[nn.Module]:
        for stage in _STAGES_CIFAR100:
            for width, padding in stage:
                yield nn.Conv2d(channels, width, 3, padding=padding)
                yield from (nn.BatchNorm2d(width, affine=False), nn.ReLU())
                channels = width
            yield nn.MaxPool2d(2)

    return convolutional("deep_cnn_cifar100", shape, features, lambda left: (nn.Linear(left, classes),))


def utk_cnn(shape: Shape, classes: int) -> nn.Module:
    """Build two convolutions (7 × 7, 5 × 5; each with dropout and a pool) and two linear layers (256, classes).

    Nanda 2021 and Mousavi 2023 use it for UTKFace. For images of 200 × 200 pixels, as in the first paper, the
    convolutions return 153,664 numbers.
    """

    def features(channels: int) -> Iterator[nn.Module]:
        for width, kernel in ((32, 7), (64, 5)):
            yield nn.Conv2d(channels, width, kernel, padding=2)
            yield from (nn.ReLU(), nn.Dropout(0.3), nn.MaxPool2d(2))
            channels = width

    return convolutional(
        "utk_cnn",
        shape,
        features,
        lambda left: (nn.Linear(left, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, classes)),
    )


def adience_cnn(shape: Shape, classes: int) -> nn.Module:
    """Build three convolutions with BatchNorm and overlapping pools, then three linear layers (512, 512, classes).

    Nanda 2021 uses it for Adience. For the paper's images of 224 × 224 pixels the convolutions return 221,184 numbers,
    which makes 114 million weights, 456 MB.
    Reference for the order of the layers: Levi, Hassner, "Age and Gender Classification using Convolutional Neural
    Networks", CVPR workshops 2015.
    """

    def features(channels: int) -> Iterator[nn.Module]:
        for width, kernel in ((96, 7), (256, 5), (384, 3)):
            yield nn.Conv2d(channels, width, kernel)
            yield from (nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2))
            channels = width

    def classifier(left: int) -> Iterator[nn.Module]:
        for width in (left, 512):
            yield from (nn.Linear(width, 512), nn.ReLU(), nn.Dropout(0.5))
        yield nn.Linear(512, classes)

    return convolutional("adience_cnn", shape, features, classifier)
