"""Networks of torchvision, with weights learnt on ImageNet where they can be had."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from torch import Tensor, nn

from fairmargin.core.suggestion import suggest
from fairmargin.errors import ModelError
from fairmargin.models.architectures.shape import Shape
from fairmargin.models.architectures.sizing import features_left
from fairmargin.models.architectures.weight_files import hub_file, read_state

_IMAGENET_CLASSES = 1000


@dataclass(frozen=True, slots=True)
class _Plan:
    """A network of torchvision: its name there, and where its first convolution and its last layer are."""

    function: str
    stem: str
    head: str


_PLANS: Mapping[str, _Plan] = {
    "alexnet": _Plan("alexnet", "features.0", "classifier.6"),
    "vgg19": _Plan("vgg19", "features.0", "classifier.6"),
    "vgg19_bn": _Plan("vgg19_bn", "features.0", "classifier.6"),
    "resnet18_imagenet": _Plan("resnet18", "conv1", "fc"),
    "resnet50_imagenet": _Plan("resnet50", "conv1", "fc"),
    "densenet121": _Plan("densenet121", "features.conv0", "classifier"),
    "squeezenet1_0": _Plan("squeezenet1_0", "features.0", "classifier.1"),  # a ReLU follows: its scores are ≥ 0
}


def pretrained(name: str, shape: Shape, classes: int, weights: str | Path | None = "imagenet") -> nn.Module:
    """A network of torchvision for images of that shape, with weights from a file or the hub.

    Guarantee: the last layer is a new one, drawn at random, only if the weights have another number of classes. For
    grey images the first convolution's weights are summed over colours: the network says of a grey image what it said
    of three equal channels. The networks expect normalised images: wrap them in
    `Normalized(…, IMAGENET_MEAN, IMAGENET_STD)`.

    Parameters
    ----------
    name
        One of the catalog's networks of torchvision, such as "resnet50_imagenet".
    shape
        Channels, height and width of one image.
    classes
        How many scores it gives.
    weights
        "imagenet" for torchvision's first weights (from torch's hub folder, or downloaded to it), the path of a file
        with a state dict, or None for random ones.
    """
    if name not in _PLANS:
        raise ModelError(f"`{name}` is no network of torchvision. {suggest(name, _PLANS)}")
    if len(shape) != 3:
        raise ModelError(f"`{name}` takes images, (channels, height, width); one sample has the shape {shape}.")
    plan, models = _PLANS[name], _torchvision_models(name)
    features_left(name, lambda channels: _built(models, plan, channels, _IMAGENET_CLASSES), shape)
    if weights is None:
        return _built(models, plan, shape[0], classes)
    path = imagenet_file(name) if weights == "imagenet" else Path(weights)
    network = _loaded(models, plan, name, path)
    return _with_classes(_with_channels(network, plan, shape[0], name), plan, classes)


def imagenet_file(name: str, *, fetch: bool = True) -> Path:
    """Return the file with the first weights of torchvision, from torch's hub folder or, with `fetch`, downloaded."""
    url: str = _torchvision_models(name).get_model_weights(_PLANS[name].function).IMAGENET1K_V1.url
    return hub_file(url, name, fetch=fetch)


def alexnet(shape: Shape, classes: int) -> nn.Module:
    """AlexNet with random weights; `pretrained("alexnet", …)` has those of ImageNet."""
    return pretrained("alexnet", shape, classes, None)


def vgg19(shape: Shape, classes: int) -> nn.Module:
    """VGG-19 with random weights."""
    return pretrained("vgg19", shape, classes, None)


def vgg19_bn(shape: Shape, classes: int) -> nn.Module:
    """VGG-19 with BatchNorm, random weights: what the published code of Nanda 2021 used."""
    return pretrained("vgg19_bn", shape, classes, None)


def resnet18_imagenet(shape: Shape, classes: int) -> nn.Module:
    """ResNet-18 for large images, random weights: what the published code of Nanda 2021 calls ResNet50."""
    return pretrained("resnet18_imagenet", shape, classes, None)


def resnet50_imagenet(shape: Shape, classes: int) -> nn.Module:
    """ResNet-50 for large images, random weights."""
    return pretrained("resnet50_imagenet", shape, classes, None)


def densenet121(shape: Shape, classes: int) -> nn.Module:
    """DenseNet-121 with random weights."""
    return pretrained("densenet121", shape, classes, None)


def squeezenet1_0(shape: Shape, classes: int) -> nn.Module:
    """SqueezeNet 1.0 with random weights."""
    return pretrained("squeezenet1_0", shape, classes, None)


def _torchvision_models(name: str) -> ModuleType:
    try:
        from torchvision import models
    except (ImportError, RuntimeError, AttributeError) as error:  # after a first failure it fails in other ways
        raise ModelError(
            f"`{name}` is a network of torchvision, which cannot be imported ({error}). Install the build that belongs "
            "to your torch: `pip install torchvision --index-url https://download.pytorch.org/whl/cpu` beside a CPU "
            "build of torch. The one of PyPI is for CUDA and fails there, as an operator such as torchvision::nms does "
            "not exist."
        ) from None
    found: ModuleType = models
    return found


def _built(models: ModuleType, plan: _Plan, channels: int, classes: int) -> nn.Module:
    """The network with random weights, for so many channels and classes."""
    network: nn.Module = models.get_model(plan.function, weights=None, num_classes=classes)
    stem = _convolution(network, plan)
    if stem.in_channels != channels:
        network.set_submodule(plan.stem, _like(stem, channels))
    for layer in network.modules():
        if isinstance(layer, nn.ReLU | nn.Dropout):
            layer.inplace = False  # whoever looks at an inner layer's output must find it as it was
    return network


def _loaded(models: ModuleType, plan: _Plan, name: str, path: Path) -> nn.Module:
    """The network as the file has it: with its number of channels and of classes."""
    state = read_state(path)
    for key in (f"{plan.stem}.weight", f"{plan.head}.weight"):
        if key not in state:
            raise ModelError(f"{path} does not hold the weights of `{name}`: it has no `{key}`.")
    channels, classes = state[f"{plan.stem}.weight"].shape[1], state[f"{plan.head}.weight"].shape[0]
    network = _built(models, plan, channels, classes)
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"{path} does not hold the weights of `{name}`: {reason[:300]}") from None
    return network


def _with_channels(network: nn.Module, plan: _Plan, channels: int, name: str) -> nn.Module:
    stem = _convolution(network, plan)
    if stem.in_channels == channels:
        return network
    if channels != 1:
        raise ModelError(
            f"The weights of `{name}` are for images of {stem.in_channels} channels; given {channels}. Only grey "
            "images, of 1 channel, can take their place; `weights=None` begins with random weights for any number."
        )
    grey = _like(stem, 1)
    weights: dict[str, Tensor] = {**stem.state_dict(), "weight": stem.weight.detach().sum(dim=1, keepdim=True)}
    grey.load_state_dict(weights)
    network.set_submodule(plan.stem, grey)
    return network


def _with_classes(network: nn.Module, plan: _Plan, classes: int) -> nn.Module:
    head = network.get_submodule(plan.head)
    if isinstance(head, nn.Linear) and head.out_features != classes:
        network.set_submodule(plan.head, nn.Linear(head.in_features, classes))
    if isinstance(head, nn.Conv2d) and head.out_channels != classes:
        network.set_submodule(plan.head, nn.Conv2d(head.in_channels, classes, kernel_size=1))
    return network


def _convolution(network: nn.Module, plan: _Plan) -> nn.Conv2d:
    stem = network.get_submodule(plan.stem)
    assert isinstance(stem, nn.Conv2d)
    return stem


def _like(stem: nn.Conv2d, channels: int) -> nn.Conv2d:
    """A convolution as this one for another number of channels."""
    kernel, stride, padding = stem.kernel_size, stem.stride, stem.padding
    return nn.Conv2d(channels, stem.out_channels, kernel, stride, padding, bias=stem.bias is not None)  # type: ignore[arg-type]
