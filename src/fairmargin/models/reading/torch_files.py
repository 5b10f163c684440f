"""Files of torch models: determine their kind and read them, without running untrusted code."""

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
_PICKLES = 5  # at the start of files by torch before 1.6: magic number, version, system, content, storage names


class TorchFile(Enum):
    """The kinds of files that hold torch models."""

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

# The endings of torch files; files without a fixed kind can hold weights, a whole module or TorchScript.
SUFFIXES = (*_BY_SUFFIX, ".pt", ".pth", ".th", ".ckpt", ".bin", ".tar")


def kind_of(path: Path) -> TorchFile:
    """Determine the kind of a file by its ending or, if that is not sufficient, by the file names in its archive."""
    if path.suffix.lower() in _BY_SUFFIX:
        return _BY_SUFFIX[path.suffix.lower()]
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.partition("/")[2] or name for name in archive.namelist()}
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return TorchFile.CHECKPOINT  # the format before torch 1.6, or a damaged file, which raises when it is read
    if "constants.pkl" in names or any(name.startswith("code/") for name in names):
        return TorchFile.TORCHSCRIPT
    if "archive_format" in names or "serialized_exported_program.json" in names:
        return TorchFile.EXPORTED
    return TorchFile.CHECKPOINT


def refuse(path: Path, what: str) -> UntrustedError:
    """Return the error for a file that can run code when it is read."""
    return UntrustedError(
        f"'{path}' holds {what}; reading it can run any code that its author put in. If you created it yourself, pass "
        f"--trust-model (trust=True). Otherwise {CONVERT}."
    )


def read_safetensors(path: Path) -> dict[str, Any]:
    """Read the tensors of a .safetensors file, by name."""
    from safetensors.torch import load_file

    try:
        return load_file(path, device="cpu")
    except Exception as error:  # the errors of safetensors, which is written in Rust, have no common class
        raise ModelError(
            f"'{path}' cannot be read as .safetensors ({_first_line(error)}). Is the download complete?"
        ) from None


def read_checkpoint(path: Path, *, trust: bool = False) -> Any:
    """Read a file written by `torch.save`.

    Guarantee: without `trust`, only tensors and plain containers are created (`weights_only`); other classes are
    refused, and the error names them.
    """
    import torch

    try:
        with warnings.catch_warnings(action="ignore"):  # warnings about the pickle; the error is more precise
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        classes = _classes_in(path, str(error))
        if not classes:
            raise _damaged(path, error) from None
        if not trust:
            raise refuse(path, f"pickled objects, not weights alone ({classes})") from None
    except Exception as error:  # damaged files raise different exceptions of zip, pickle and struct
        if not trust:
            raise _damaged(path, error) from None
    try:
        return torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:  # unpickling runs arbitrary code, which can raise anything
        raise ModelError(
            f"'{path}' cannot be unpickled here ({type(error).__name__}: {_first_line(error)}). It may be damaged, or "
            "need the modules that define its classes: to import net.py from this folder, put PYTHONPATH=. before "
            "the command."
        ) from error


def _damaged(path: Path, error: Exception) -> ModelError:
    return ModelError(
        f"'{path}' cannot be read as a torch checkpoint ({type(error).__name__}: {_first_line(error)}). Is the "
        "download complete, and written by `torch.save`?"
    )


def _classes_in(path: Path, message: str) -> str:
    """Return the names of classes and functions that a checkpoint would import, preferably those not in torch."""
    from torch.serialization import get_unsafe_globals_in_checkpoint

    try:
        found = sorted(get_unsafe_globals_in_checkpoint(str(path)))
    except Exception:  # not a zip archive: written by torch before 1.6, or by pickle
        found = sorted(set(_names_in_pickles(path)))
    found = [name for name in found if not name.startswith(_TORCH)] or found
    found = found or re.findall(r"GLOBAL ([\w.]+)", message)[:1]
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")


def _names_in_pickles(path: Path) -> Iterator[str]:
    """Yield the names that the pickles at the start of a file would import, without importing anything."""
    with path.open("rb") as stream, suppress(Exception):  # a damaged file, or the end of the pickles
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
    """Return the relevant line of an error, without torch's advice on its own options."""
    match = re.search(r"WeightsUnpickler error: (.+)", str(error))
    text = (match.group(1) if match else str(error) or "nothing there").strip().splitlines()[0]
    return "no tensors were found" if "weights_only" in text else text.rstrip(".")
