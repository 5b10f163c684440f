"""LeNet-5."""

from collections import OrderedDict

from torch import nn

from fairmargin.models.architectures.shape import Shape
from fairmargin.models.architectures.sizing import features_left


def lenet5(shape: Shape, classes: int) -> nn.Module:
    """Two 5×5 convolutions (6 and 16 wide), 120, 84, and one score per class (Mousavi 2023, MNIST).

    With ReLU and max-pooling as everyone writes it today, not the sigmoids and trainable subsampling of 1998; the first
    convolution is padded by 2, so that 28×28 images meet the 32×32 of the original.

    Reference: LeCun, Bottou, Bengio, Haffner, "Gradient-Based Learning Applied to Document Recognition", 1998.
    """
    left = features_left("lenet5", _features, shape)
    classifier = nn.Sequential(
        nn.Flatten(), nn.Linear(left, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, classes)
    )
    return nn.Sequential(OrderedDict(features=_features(shape[0]), classifier=classifier))


def _features(channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )
