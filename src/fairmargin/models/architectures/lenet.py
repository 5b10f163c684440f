"""LeNet-5, and the network of a public pair of MNIST models that is named after it."""

from collections import OrderedDict

from torch import nn

from fairmargin.models.architectures.shape import Shape
from fairmargin.models.architectures.sizing import features_left


def lenet5(shape: Shape, classes: int) -> nn.Module:
    """Build LeNet-5: two 5 × 5 convolutions (6 and 16 wide), 120, 84, and one score per class (Mousavi 2023, MNIST).

    It has ReLU and max-pooling, as is usual today, instead of the sigmoids and trainable subsampling of 1998. The first
    convolution is padded by 2, so that images of 28 × 28 pixels fit the original, which takes 32 × 32.

    Reference: LeCun, Bottou, Bengio, Haffner, "Gradient-Based Learning Applied to Document Recognition", 1998.
    """
    left = features_left("lenet5", _features, shape)
    classifier = nn.Sequential(
        nn.Flatten(), nn.Linear(left, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, classes)
    )
    return nn.Sequential(OrderedDict(features=_features(shape[0]), classifier=classifier))


def mnist_cnn(shape: Shape, classes: int) -> nn.Module:
    """Build two padded 3 × 3 convolutions (32, 64), each with a pool, 200, and one score per class.

    Parameters have the names of the weights that the package `advertorch` 0.2.3 contains as "LeNet5Madry": one network
    trained plainly and one trained adversarially.
    """
    parts = _mnist_parts(shape[0])
    left = features_left("mnist_cnn", lambda channels: nn.Sequential(_mnist_parts(channels)), shape)
    parts["flatten"] = nn.Flatten()
    parts["linear1"] = nn.Linear(left, 200)
    parts["relu3"] = nn.ReLU()
    parts["linear2"] = nn.Linear(200, classes)
    return nn.Sequential(parts)


def _features(channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


def _mnist_parts(channels: int) -> OrderedDict[str, nn.Module]:
    return OrderedDict(
        conv1=nn.Conv2d(channels, 32, 3, padding=1),
        relu1=nn.ReLU(),
        pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(32, 64, 3, padding=1),
        relu2=nn.ReLU(),
        pool2=nn.MaxPool2d(2),
    )
