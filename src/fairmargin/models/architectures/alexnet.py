"""AlexNet, and a narrow form of it for small images and small machines."""

from collections import OrderedDict
from collections.abc import Iterator

from torch import nn

from fairmargin.models.architectures.shape import Shape
from fairmargin.models.architectures.sizing import convolutional

_SMALLEST = 63  # pixels; the convolutions and pools of AlexNet would shrink smaller images to nothing
_RESIZED = (224, 224)


def alexnet(shape: Shape, classes: int) -> nn.Module:
    """Build AlexNet: five convolutions, three pools and three linear layers (Nanda 2021, Mousavi 2023).

    The widths are those of Krizhevsky 2014, and an average over 6 × 6 regions follows the convolutions, as in the
    public weights. Images with a side of less than 63 pixels are resized bilinearly to 224 × 224 by the first layer.
    The code published for Nanda 2021 has an option that resizes CIFAR-100 for AlexNet in the same way. Distances are
    measured before that layer, in the pixels of the given image.

    References
    ----------
    A. Krizhevsky, I. Sutskever, G. Hinton, "ImageNet Classification with Deep Convolutional Neural Networks", 2012.
    A. Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014.
    """
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    if min(shape[1:]) < _SMALLEST:
        parts["resize"] = nn.Upsample(_RESIZED, mode="bilinear", align_corners=False)
    parts["features"] = _features(shape[0])
    parts["avgpool"] = nn.AdaptiveAvgPool2d((6, 6))
    parts["flatten"] = nn.Flatten()
    parts["classifier"] = _classifier(256 * 6 * 6, 4096, classes)
    return nn.Sequential(parts)


def small_alexnet(shape: Shape, classes: int) -> nn.Module:
    """Build AlexNet a quarter as wide, with 3 × 3 convolutions that keep the size, for images of at least 8 × 8 pixels.

    Pools follow the first, second and fifth convolution, and dropout precedes both hidden linear layers, as in AlexNet,
    whose large kernels and strides suit images of 224 × 224 pixels.
    """
    return convolutional("small_alexnet", shape, _small_features, lambda left: _classifier(left, 256, classes))


def _features(channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, 64, 11, stride=4, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
    )


def _small_features(channels: int) -> Iterator[nn.Module]:
    for width, pooled in ((16, True), (48, True), (96, False), (64, False), (64, True)):
        yield nn.Conv2d(channels, width, 3, padding=1)
        yield nn.ReLU()
        if pooled:
            yield nn.MaxPool2d(2)
        channels = width


def _classifier(inputs: int, width: int, classes: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Dropout(), nn.Linear(inputs, width), nn.ReLU(),
        nn.Dropout(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, classes),
    )  # fmt: skip
