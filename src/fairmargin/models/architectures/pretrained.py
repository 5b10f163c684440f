"""Networks with weights learned on ImageNet, or with those of a file."""

import re
from pathlib import Path
from textwrap import shorten
from urllib.request import Request, urlopen

import torch
from torch import Tensor, nn

from fairmargin.core.suggestion import suggest
from fairmargin.errors import ModelError, UntrustedError
from fairmargin.models.architectures.catalog import ARCHITECTURES, Architecture, PublicWeights
from fairmargin.models.architectures.shape import Shape
from fairmargin.models.reading.torch_files import read_checkpoint, read_safetensors

_WAIT = 20  # seconds for the server's first answer; a connection without an answer must not look like a long download


def pretrained(name: str, shape: Shape, classes: int, weights: str | Path | None = "imagenet") -> nn.Module:
    """Build a network for images of that shape, with public weights or those of a file.

    The last layer is replaced by a random one if the weights have another number of classes. For grey images the
    weights of the first convolution are summed over colors, so that a grey image has the scores of an image with three
    equal channels. The networks expect normalized images: wrap them in
    `Normalized(…, IMAGENET_MEAN, IMAGENET_STD)`.

    Parameters
    ----------
    name
        A network of the catalog with public weights, such as "resnet50_imagenet".
    shape
        Channels, height and width of one image.
    classes
        Number of scores that it returns.
    weights
        "imagenet" for weights learned on ImageNet (see `imagenet_file`), the path of a file with a state dict, or None
        for random ones.
    """
    architecture, public = _with_public_weights(name)
    if len(shape) != 3:
        raise ModelError(f"`{name}` takes images, (channels, height, width); one sample has the shape {shape}.")
    if weights is None:
        return architecture.build(shape, classes)
    with torch.device("meta"):  # a size that the network does not take is refused before anything is downloaded
        architecture.build(shape, classes)
    path = imagenet_file(name) if weights == "imagenet" else Path(weights)
    network = _loaded(name, architecture, public, shape, path)
    return _with_classes(_with_channels(network, public, shape[0], name), public, classes)


def imagenet_file(name: str, *, fetch: bool = True) -> Path:
    """Return the file with a network's public weights, from the folder of torch's hub or downloaded to it.

    A download shows its progress, and the file appears in the folder only when it is complete and its SHA-256 has the
    digits of the catalog.

    Parameters
    ----------
    name
        A network of the catalog with public weights.
    fetch
        Whether to download a file that is not there; otherwise it is a `ModelError`, which names file and folder.
    """
    _, public = _with_public_weights(name)
    path = Path(torch.hub.get_dir()) / "checkpoints" / public.url.rsplit("/", 1)[-1]
    if path.is_file():
        return path
    if not fetch:
        raise ModelError(
            f"The file {path.name} with the weights of `{name}` is not in {path.parent}. Download it from {public.url} "
            "and put it there."
        )
    try:
        with urlopen(Request(public.url, method="HEAD"), timeout=_WAIT):
            path.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(public.url, str(path), public.sha256)
    except (OSError, RuntimeError) as error:  # RuntimeError: the hash differs
        raise ModelError(
            f"The weights of `{name}` could not be downloaded from {public.url} ({error}). Put the file {path.name} "
            f"into {path.parent}, or pass its path as `weights`; `weights=None` draws random ones."
        ) from None
    return path


def read_state(path: Path) -> dict[str, Tensor]:
    """Read the state dict in a .safetensors file or a checkpoint of torch; no other objects are unpickled.

    A checkpoint may keep it under "state_dict", and its names may have the prefix "module." (DataParallel).
    """
    if not path.is_file():
        raise ModelError(f"There is no file of weights {path}. Give the path of a .safetensors, .pt or .pth file.")
    try:
        state: object = read_safetensors(path) if path.suffix == ".safetensors" else read_checkpoint(path)
    except UntrustedError:  # its message explains how to trust a file, which is not possible here
        raise UntrustedError(
            f"'{path}' holds pickled objects, whose reading could run code, and not weights alone. Save "
            "`model.state_dict()` instead."
        ) from None
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ModelError(f"{path} holds no state dict: expected names and tensors, found a {type(state).__name__}.")
    return {_current_name(str(key).removeprefix("module.")): value for key, value in state.items()}


def _current_name(key: str) -> str:
    """Rename layers of DenseNet, whose public weights are older than its names: `norm.1` is `norm1` today."""
    return re.sub(r"\.(norm|conv)\.([12])\.", r".\1\2.", key)


def _with_public_weights(name: str) -> tuple[Architecture, PublicWeights]:
    """Find a network of the catalog that has public weights."""
    entry = ARCHITECTURES.get(name)
    if entry is None or entry.weights is None:
        those = [each for each, known in ARCHITECTURES.items() if known.weights is not None]
        raise ModelError(f"There are no weights learned on ImageNet for `{name}`. {suggest(name, those)}")
    return entry, entry.weights


def _loaded(name: str, architecture: Architecture, public: PublicWeights, shape: Shape, path: Path) -> nn.Module:
    """Build the network for as many channels and classes as the file has, and load the file."""
    state = read_state(path)
    for key in (f"{public.stem}.weight", f"{public.head}.weight"):
        if key not in state:
            raise ModelError(f"{path} does not hold the weights of `{name}`: it has no `{key}`.")
        if state[key].dim() < 2:
            raise ModelError(f"{path} does not hold the weights of `{name}`: it has no `{key}` of at least two axes.")
    channels, classes = state[f"{public.stem}.weight"].shape[1], state[f"{public.head}.weight"].shape[0]
    network = architecture.build((channels, *shape[1:]), classes)
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        reason = shorten(str(error), 300, placeholder=" …")
        raise ModelError(f"{path} does not hold the weights of `{name}`: {reason.rstrip('.')}.") from None
    return network


def _with_channels(network: nn.Module, public: PublicWeights, channels: int, name: str) -> nn.Module:
    stem = network.get_submodule(public.stem)
    assert isinstance(stem, nn.Conv2d)
    if stem.in_channels == channels:
        return network
    if channels != 1:
        raise ModelError(
            f"The weights of `{name}` are for images of {stem.in_channels} channels; given {channels}. They can be "
            "adapted to grey images, of 1 channel, only; `weights=None` draws random weights for any number."
        )
    stem.in_channels = 1
    stem.weight = nn.Parameter(stem.weight.detach().sum(dim=1, keepdim=True))
    return network


def _with_classes(network: nn.Module, public: PublicWeights, classes: int) -> nn.Module:
    head = network.get_submodule(public.head)
    if isinstance(head, nn.Linear) and head.out_features != classes:
        network.set_submodule(public.head, nn.Linear(head.in_features, classes))
    if isinstance(head, nn.Conv2d) and head.out_channels != classes:
        network.set_submodule(public.head, nn.Conv2d(head.in_channels, classes, kernel_size=1))
    return network
