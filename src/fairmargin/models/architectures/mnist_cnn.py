"""The network of a public pair of MNIST models, one trained plainly and one adversarially."""

from collections import OrderedDict

from torch import nn

from fairmargin.models.architectures.shape import Shape
from fairmargin.models.architectures.sizing import features_left


def mnist_cnn(shape: Shape, classes: int) -> nn.Module:
    """Two padded 3×3 convolutions (32, 64), each with a pool, 200, and one score per class.

    Parameters are named as in the weights that the package `advertorch` 0.2.3 ships under the name "LeNet5Madry".
    """
    parts = _features(shape[0])
    left = features_left("mnist_cnn", lambda channels: nn.Sequential(_features(channels)), shape)
    parts["flatten"] = nn.Flatten()
    parts["linear1"] = nn.Linear(left, 200)
    parts["relu3"] = nn.ReLU()
    parts["linear2"] = nn.Linear(200, classes)
    return nn.Sequential(parts)


def _features(channels: int) -> OrderedDict[str, nn.Module]:
    return OrderedDict(
        conv1=nn.Conv2d(channels, 32, 3, padding=1),
        relu1=nn.ReLU(),
        pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(32, 64, 3, padding=1),
        relu2=nn.ReLU(),
        pool2=nn.MaxPool2d(2),
    )
