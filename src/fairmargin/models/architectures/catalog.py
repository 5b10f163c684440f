"""The networks of the papers by name. Loading this module loads no torch: a network is imported to build it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairmargin.core.catalog import Catalog, imported
from fairmargin.errors import ModelError
from fairmargin.models.architectures.shape import Shape, checked_shape, image_shape

if TYPE_CHECKING:
    from torch import nn

Build = Callable[[Shape, int], "nn.Module"]


@dataclass(frozen=True, slots=True)
class PublicWeights:
    """Weights that PyTorch publishes, learned on the 1,000 classes of ImageNet.

    They are those that torchvision calls "IMAGENET1K_V1".

    Parameters
    ----------
    url
        Address of the file, a state dict.
    sha256
        First digits of the file's SHA-256; PyTorch publishes no more than these, as a part of the file's name.
    stem, head
        Names of the first convolution and of the last layer, which depend on the number of channels and of classes.
    """

    url: str
    sha256: str
    stem: str
    head: str


@dataclass(frozen=True, slots=True)
class Architecture:
    """A network that can be built for samples of a shape and a number of classes.

    Parameters
    ----------
    title
        One line, with the paper.
    place
        "file:function" of this folder; imported when the network is built.
    published
        The shape of one sample in the paper.
    images
        Whether it takes images only.
    weights
        Public weights of the network, if there are any (see `pretrained`).
    """

    title: str
    place: str
    published: str
    images: bool = True
    weights: PublicWeights | None = None

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """Build the network for (channels, height, width) of one image; it returns (n, classes) scores."""
        build: Build = imported(__package__, self.place)
        return build(shape, classes)


def _imagenet(title: str, place: str, file: str, stem: str, head: str) -> Architecture:
    """Return an entry with public weights, whose file name ends with the first digits of its hash."""
    url = f"https://download.pytorch.org/models/{file}.pth"
    return Architecture(title, place, "3×224×224", weights=PublicWeights(url, file.rpartition("-")[2], stem, head))


# A new network is one entry here, and its function in a file beside this one.
ARCHITECTURES: Catalog[Architecture] = Catalog(
    "architecture",
    "fairmargin.models.architectures",
    {
        "logistic": Architecture("Multinomial logistic regression (Nanda 2021)", "plain:logistic", "any", images=False),
        "deep_cnn": Architecture("Deep CNN of torch.ch (Nanda 2021)", "plain:deep_cnn", "3×32×32"),
        "deep_cnn_cifar100": Architecture("Deep CNN for CIFAR-100 (Nanda 2021)", "plain:deep_cnn_cifar100", "3×32×32"),
        "pyramidnet110": Architecture("PyramidNet α=64, depth 110 (Nanda 2021)", "pyramid:pyramidnet110", "3×32×32"),
        "pyramidnet164": Architecture(
            "PyramidNet α=48, depth 164, bottlenecks (Nanda 2021)", "pyramid:pyramidnet164", "3×32×32"
        ),
        "utk_cnn": Architecture("UTK Classifier (Nanda 2021, Mousavi 2023)", "plain:utk_cnn", "3×200×200"),
        "adience_cnn": Architecture("Adience Classifier (Nanda 2021)", "plain:adience_cnn", "3×224×224"),
        "alexnet": _imagenet(
            "AlexNet (Nanda 2021, Mousavi 2023)",
            "alexnet:alexnet",
            "alexnet-owt-7be5be79",
            "features.0",
            "classifier.6",
        ),
        "vgg19": _imagenet("VGG-19 (Nanda 2021)", "vgg:vgg19", "vgg19-dcbb9e9d", "features.0", "classifier.6"),
        "vgg19_bn": _imagenet(
            "VGG-19 with BatchNorm (Nanda 2021's code, there called VGG)",
            "vgg:vgg19_bn",
            "vgg19_bn-c79401a0",
            "features.0",
            "classifier.6",
        ),
        "resnet50_imagenet": _imagenet(
            "ResNet-50 with the stem for ImageNet (Nanda 2021)",
            "resnet:resnet50_imagenet",
            "resnet50-0676ba61",
            "conv1",
            "fc",
        ),
        "resnet18_imagenet": _imagenet(
            "ResNet-18 with the stem for ImageNet (Nanda 2021's code, there ResNet-50)",
            "resnet:resnet18_imagenet",
            "resnet18-f37072fd",
            "conv1",
            "fc",
        ),
        "densenet121": _imagenet(
            "DenseNet-121 (Nanda 2021)", "densenet:densenet121", "densenet121-a639ec97", "features.conv0", "classifier"
        ),
        "squeezenet1_0": _imagenet(
            "SqueezeNet 1.0 (Nanda 2021)",
            "squeezenet:squeezenet1_0",
            "squeezenet1_0-b66bff10",
            "features.0",
            "classifier.1",
        ),
        "lenet5": Architecture("LeNet-5 (Mousavi 2023)", "plain:lenet5", "1×28×28"),
        "resnet18": Architecture(
            "ResNet-18 with the stem for CIFAR (Ma 2022, Mousavi 2023)", "resnet:resnet18", "3×32×32"
        ),
        "resnet50": Architecture(
            "ResNet-50 with the stem for CIFAR (Ma 2022, Tran 2024)", "resnet:resnet50", "3×32×32"
        ),
        "wrn32_10": Architecture("Wide ResNet-32-10 (Ma 2022)", "wide_resnet:wrn32_10", "3×32×32"),
        "vgg13": Architecture("VGG-13 for small images (Tran 2024)", "vgg:vgg13", "3×32×32"),
        "cnn6": Architecture("Three convolutions, three linear layers (Tran 2024)", "plain:cnn6", "3×32×32"),
        "small_cnn": Architecture("Two convolutions, for laptops (ours)", "plain:small_cnn", "any image"),
        "small_alexnet": Architecture(
            "AlexNet, a quarter as wide, for laptops (after Krizhevsky 2014)", "alexnet:small_alexnet", "1×28×28"
        ),
        "resnet8": Architecture("ResNet-8, for laptops (after He 2016)", "resnet:resnet8", "3×32×32"),
        "resnet20": Architecture("ResNet-20 for CIFAR (He 2016)", "resnet:resnet20", "3×32×32"),
        "resnet32": Architecture("ResNet-32 for CIFAR (He 2016)", "resnet:resnet32", "3×32×32"),
        "resnet56": Architecture("ResNet-56 for CIFAR (He 2016)", "resnet:resnet56", "3×32×32"),
        "mnist_cnn": Architecture(
            "MNIST CNN of advertorch's public weights (LeNet5Madry)", "plain:mnist_cnn", "1×28×28"
        ),
    },
)


def build_architecture(name: str, shape: Sequence[int], classes: int) -> nn.Module:
    """Build a network of the catalog for samples of that shape, with random weights (`torch.manual_seed`).

    The module takes (n, *shape) and returns (n, classes). A network for images also takes flat samples of s² numbers,
    as grey s × s images. Shapes and numbers of classes for which it cannot be built raise a `ModelError`.

    Parameters
    ----------
    name
        A name of `ARCHITECTURES` (`fairmargin list architectures`).
    shape
        Shape of one sample: (channels, height, width), or (features,).
    classes
        Number of scores that it returns.

    >>> import torch
    >>> network = build_architecture("small_cnn", (64,), 10)
    >>> tuple(network(torch.zeros(5, 64)).shape)
    (5, 10)
    >>> build_architecture("lenet", (1, 28, 28), 10)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    fairmargin.errors.ModelError: Unknown architecture `lenet`. Did you mean 'lenet5'? There are: logistic, ...
    """
    architecture = ARCHITECTURES.find(name, ModelError)
    if isinstance(classes, bool) or not isinstance(classes, int) or classes < 2:
        raise ModelError(f"`{name}` needs a whole number of classes, at least 2; given {classes!r}.")
    given = checked_shape(shape)
    if not architecture.images:
        return architecture.build(given, classes)
    image = image_shape(name, given)
    network = architecture.build(image, classes)
    if image == given:
        return network
    from fairmargin.models.architectures.sizing import Unflattened

    return Unflattened(network, image)
