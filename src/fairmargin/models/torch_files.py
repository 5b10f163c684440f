"""What torch files hold: told by a look inside that runs nothing, then read."""

import pickle
import pickletools
import re
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any

from fairmargin.errors import ModelError, UntrustedError

CONVERT = (
    'ask for the weights alone, written with `torch.save(model.state_dict(), "weights.pt")` or as .safetensors, and '
    "name the network: --model arch:NAME --weights weights.pt"
)


_TORCH = ("torch.", "collections.")
_PICKLES = 5  # at the beginning of a file by torch before 1.6: number, version, system, content, names of storages


class TorchFile(Enum):
    """The kinds of file in which torch models travel."""

    SAFETENSORS = "a .safetensors file"
    CHECKPOINT = "a checkpoint"
    TORCHSCRIPT = "a TorchScript program"
    EXPORTED = "an exported program (torch.export)"


_BY_SUFFIX = {
    ".safetensors": TorchFile.SAFETENSORS,
    ".pt2": TorchFile.EXPORTED,
    ".ts": TorchFile.TORCHSCRIPT,
    ".jit": TorchFile.TORCHSCRIPT,
    ".torchscript": TorchFile.TORCHSCRIPT,
}

# Files with these names are torch's; any of the last kind may hold weights, a whole module or TorchScript.
SUFFIXES = (*_BY_SUFFIX, ".pt", ".pth", ".th", ".ckpt", ".bin", ".tar")


def kind_of(path: Path) -> TorchFile:
    """The kind of a file by its name or, where that leaves it open, by the names inside its archive."""
    if path.suffix.lower() in _BY_SUFFIX:
        return _BY_SUFFIX[path.suffix.lower()]
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.partition("/")[2] or name for name in archive.namelist()}
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return TorchFile.CHECKPOINT  # the format before torch 1.6, or a damaged file: its reader will say
    if "constants.pkl" in names or any(name.startswith("code/") for name in names):
        return TorchFile.TORCHSCRIPT
    if "archive_format" in names or "serialized_exported_program.json" in names:
        return TorchFile.EXPORTED
    return TorchFile.CHECKPOINT


def refuse(path: Path, what: str) -> UntrustedError:
    """The sentence for a file that can run code when it is read."""
    return UntrustedError(
        f"'{path}' holds {what}; reading it can run any code that its maker put in. If you made it yourself, pass "
        f"--trust-model (trust=True). Otherwise {CONVERT}."
    )


def read_safetensors(path: Path) -> dict[str, Any]:
    """The tensors of a .safetensors file by name; it can hold nothing else."""
    from safetensors.torch import load_file

    try:
        return load_file(path, device="cpu")
    except Exception as error:  # the errors of safetensors' Rust half have no common class
        raise ModelError(
            f"'{path}' cannot be read as .safetensors ({_first_line(error)}). Is the download complete?"
        ) from None


def read_checkpoint(path: Path, *, trust: bool = False) -> Any:
    """What `torch.save` wrote.

    Guarantee: without `trust` only tensors and plain containers are made (`weights_only`); anything else is refused,
    named.
    """
    import torch

    try:
        with warnings.catch_warnings(action="ignore"):  # about the pickle inside: the error will say it better
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        classes = _classes_in(path, str(error))
        if not classes:
            raise _damaged(path, error) from None
        if not trust:
            raise refuse(path, f"pickled objects, not weights alone ({classes})") from None
    except Exception as error:  # damaged files fail in many ways, of zip, pickle and struct
        if not trust:
            raise _damaged(path, error) from None
    try:
        return torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:  # unpickling runs foreign code, which may raise anything
        raise ModelError(
            f"'{path}' cannot be unpickled here ({type(error).__name__}: {_first_line(error)}). It may be damaged, or "
            "need the modules that define its classes: a file net.py in this folder is found with PYTHONPATH=. before "
            "the command."
        ) from error


def _damaged(path: Path, error: Exception) -> ModelError:
    return ModelError(
        f"'{path}' cannot be read as a torch checkpoint ({type(error).__name__}: {_first_line(error)}). Is the "
        "download complete, and written by `torch.save`?"
    )


def _classes_in(path: Path, message: str) -> str:
    """The names of classes and functions that a checkpoint would import, torch's own layers left out if possible."""
    from torch.serialization import get_unsafe_globals_in_checkpoint

    try:
        found = sorted(get_unsafe_globals_in_checkpoint(str(path)))
    except Exception:  # no zip archive, as torch wrote them until 1.5 and pickle writes them today
        found = sorted(set(_names_in_pickles(path)))
    found = [name for name in found if not name.startswith(_TORCH)] or found
    found = found or re.findall(r"GLOBAL ([\w.]+)", message)[:1]
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")


def _names_in_pickles(path: Path) -> Iterator[str]:
    """What the pickles at the beginning of a file would import, read as text: nothing is imported."""
    with path.open("rb") as stream, suppress(Exception):  # damaged, or the numbers behind the pickles are reached
        for _ in range(_PICKLES):
            words = ["?", "?"]
            for operation, argument, _ in pickletools.genops(stream):
                if operation.name in ("GLOBAL", "INST"):
                    yield str(argument).replace(" ", ".")
                elif operation.name == "STACK_GLOBAL":
                    yield f"{words[-2]}.{words[-1]}"
                elif isinstance(argument, str):
                    words.append(argument)


def _first_line(error: Exception) -> str:
    """The point of an error; torch surrounds it with advice that is not ours to give."""
    said = re.search(r"WeightsUnpickler error: (.+)", str(error))
    text = (said.group(1) if said else str(error) or "nothing there").strip().splitlines()[0]
    return "no tensors were found" if "weights_only" in text else text.rstrip(".")
