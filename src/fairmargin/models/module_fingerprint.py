"""Fingerprints of torch modules: hashes of everything in a module that determines its outputs."""

import dataclasses
import functools
import inspect
import re
from argparse import Namespace
from enum import Enum
from hashlib import sha256
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

# Attributes of every module: children and parameters (hashed by content), hooks and the mode.
_BOOKKEEPING = frozenset(vars(nn.Module())) | {"training"}
# Former modules of our own classes. Fingerprints are keys of stored distances, so they use the name under which a class
# was first fingerprinted. The source code of these classes is in fingerprints too: see `Normalized` and `Program`.
_DEFINED_BEFORE = {"fairmargin.models.reading.programs": "fairmargin.models.programs"}
_OF_A_FILE = re.compile(r"^(fairmargin_model_.*)_[0-9a-f]{12}$")
_PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, np.generic, Enum)


def module_fingerprint(module: nn.Module) -> str:
    """Compute a hash of structure, parameters, buffers, settings and code of a module and its parts.

    Guarantee: the hash does not depend on mode, gradients, hooks or memory addresses, so it is the same in another
    process. It does not cover functions from other modules that `forward` calls by name.

    >>> first, second = nn.Dropout(0.5), nn.Dropout(0.25)
    >>> module_fingerprint(first) == module_fingerprint(second)
    False
    >>> module_fingerprint(first) == module_fingerprint(nn.Dropout(0.5).eval())
    True
    """
    return _of_module(module, frozenset())


def _of_module(module: nn.Module, above: frozenset[int]) -> str:
    digest = sha256(str(module).encode())
    above = above | {id(part) for part in module.modules()}
    kinds = {kind for part in module.modules() for kind in type(part).__mro__}
    for kind in sorted(kinds, key=_name_of):
        digest.update(_code_of(kind).encode())
    for name, part in module.named_modules():
        program = getattr(part, "code", "")  # scripted and exported parts have code instead of a class of their own
        digest.update(f"{name} {_name_of(type(part))} {program if isinstance(program, str) else ''}".encode())
        for key, value in sorted(_settings_of(part).items()):
            if key not in _BOOKKEEPING:
                digest.update(f"{key}={_text_of(value, above)}".encode())
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        digest.update(f"{name}={_text_of(tensor, above)}".encode())
    return digest.hexdigest()


def _settings_of(part: nn.Module) -> dict[str, Any]:
    scripted = getattr(part, "_concrete_type", None)  # scripted modules do not store attributes in `vars`
    if scripted is None or not isinstance(part, torch.jit.ScriptModule):
        return vars(part)
    return {name: getattr(part, name) for name in scripted.get_attributes()}


def _text_of(value: Any, above: frozenset[int]) -> str:
    """Convert a value to a text that is the same in every process; `above` are the modules that contain it."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, Tensor):
        return f"{value.dtype} {tuple(value.shape)} {_bytes_of(value)}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    if isinstance(value, nn.Module):  # for instance in a list, where torch does not register it
        return "…" if id(value) in above else _of_module(value, above)
    if isinstance(value, dict):
        return str([(_text_of(key, above), _text_of(part, above)) for key, part in value.items()])
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}{[_text_of(part, above) for part in value]}"
    if isinstance(value, (set, frozenset)):
        return str(sorted(_text_of(part, above) for part in value))
    if isinstance(value, functools.partial):
        return _text_of((value.func, value.args, value.keywords), above)
    if isinstance(value, (SimpleNamespace, Namespace)) or (
        dataclasses.is_dataclass(value) and hasattr(value, "__dict__")
    ):
        return _name_of(type(value)) + ("" if isinstance(value, type) else _text_of(vars(value), above))
    if isinstance(value, MethodType):
        return _text_of(value.__func__, above)
    if isinstance(value, FunctionType):
        return _of_function(value, above)
    return _name_of(value if isinstance(value, (type, BuiltinFunctionType)) else type(value))


def _of_function(function: FunctionType, above: frozenset[int]) -> str:
    held = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    held = [part for part in held if part is not function]
    return f"{_name_of(function)} {_source_of(function)} {_text_of([*held, function.__defaults__], above)}"


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 — raises if the cell is empty
    except ValueError:
        return False
    return True


def _bytes_of(tensor: Tensor) -> str:
    try:
        whole = tensor.detach().to_dense() if tensor.layout is not torch.strided else tensor.detach()
        return sha256(whole.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()).hexdigest()
    except (RuntimeError, ValueError, TypeError, NotImplementedError):  # quantised, for instance
        return sha256(str(tensor.detach().cpu().tolist()).encode()).hexdigest()


def _name_of(thing: Any) -> str:
    # The name of a module read from a user's file contains a hash of its path, which is irrelevant for the outputs.
    module = _OF_A_FILE.sub(r"\1", str(getattr(thing, "__module__", "")))
    module = _DEFINED_BEFORE.get(module, module)
    return f"{module}.{getattr(thing, '__qualname__', type(thing).__qualname__)}"


def _code_of(kind: type) -> str:
    """Return the name of a class, with torch's version for its own classes and with the source code for all others."""
    name = _name_of(kind)
    if name.split(".")[0] == "torch":
        return f"{name} {torch.__version__}"
    return f"{name} {_source_of(kind)}"


def _source_of(thing: Any) -> str:
    """Return the source code of a class or function, or its bytecode if there is none, as in interactive sessions."""
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        functions = vars(thing).values() if isinstance(thing, type) else [thing]
        return str([_compiled(part.__code__) for part in functions if isinstance(part, FunctionType)])


def _compiled(code: CodeType) -> str:
    constants = [_compiled(part) if isinstance(part, CodeType) else repr(part) for part in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"
