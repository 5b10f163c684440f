"""Files of weights for the networks of torchvision: found, fetched and read without running code."""

import re
from pathlib import Path
from urllib.request import Request, urlopen

import torch
from torch import Tensor

from fairmargin.errors import ModelError, UntrustedError
from fairmargin.models.torch_files import read_checkpoint, read_safetensors

_WAIT = 20  # seconds for the server's first answer; a network that swallows packets must not look like a long download


def hub_file(url: str, name: str, *, fetch: bool = True) -> Path:
    """Return the file behind an address of torch's hub, from the hub folder or, with progress, downloaded to it.

    Guarantee: a download is checked against the hash in its name and is there whole or not at all. Without a network a
    sentence says which file to put where; so it does without `fetch`, if the file is not in the hub folder.
    """
    file = url.rsplit("/", 1)[-1]
    path = Path(torch.hub.get_dir()) / "checkpoints" / file
    if path.is_file():
        return path
    if not fetch:
        raise ModelError(f"The file {file} with the weights of `{name}` is not in {path.parent}. Put it there.")
    digest = re.search(r"-([0-9a-f]{8,})\.", file)
    try:
        with urlopen(Request(url, method="HEAD"), timeout=_WAIT):
            path.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(url, str(path), digest[1] if digest else None)
    except (OSError, RuntimeError) as error:  # RuntimeError: the hash is another
        raise ModelError(
            f"The weights of `{name}` could not be fetched from {url} ({error}). Put the file {file} into "
            f"{path.parent}, or pass its path as `weights`; `weights=None` begins with random ones."
        ) from None
    return path


def read_state(path: Path) -> dict[str, Tensor]:
    """Read the state dict in a .safetensors file or a checkpoint of torch; nothing else is unpickled.

    A checkpoint may keep it under "state_dict", and its names may begin with "module." (DataParallel).
    """
    if not path.is_file():
        raise ModelError(f"There is no file of weights {path}. Give the path of a .safetensors, .pt or .pth file.")
    try:
        state: object = read_safetensors(path) if path.suffix == ".safetensors" else read_checkpoint(path)
    except UntrustedError:  # whose sentence says how to trust a file, which is not possible here
        raise UntrustedError(
            f"'{path}' holds pickled objects, whose reading could run code, and not weights alone. Save "
            "`model.state_dict()` instead."
        ) from None
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ModelError(f"{path} holds no state dict: expected names and tensors, found a {type(state).__name__}.")
    return {_modern(str(key).removeprefix("module.")): value for key, value in state.items()}


def _modern(key: str) -> str:
    """Rename layers of DenseNet, whose weights on the hub are older than its names: `norm.1` is `norm1` today."""
    return re.sub(r"\.(norm|conv)\.([12])\.", r".\1\2.", key)
