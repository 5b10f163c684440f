"""A safe reader of pickles that contain only data.

A pickle is a program: `pickle.load` runs whatever its author wrote. This reader supports only the instructions and
functions that create plain containers and numpy arrays. It does not call numpy's own `__setstate__`, which trusts its
arguments: arrays are created from checked shapes, types and lengths.
"""

import io
import math
import pickle
import pickletools
import re
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from fairmargin.errors import InputError, UntrustedError

_SIMPLE = (str, bytes, int, float, bool, type(None))
_DTYPE = re.compile(r"[biufc](1|2|4|8|16)|[SU]\d{1,9}")  # numbers and text; no objects or records
_BYTE_ORDERS = ("|", "<", ">", "=")
# Instructions that create instances of classes, or load objects from outside of the file.
_OBJECTS = ("INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BYTEARRAY8")
_OUTSIDE = ("EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID", "NEXT_BUFFER", "READONLY_BUFFER")
_MEMO = ("PUT", "BINPUT", "LONG_BINPUT")


def read_plain_pickle(content: bytes, where: str) -> Any:
    """Read a pickle of dict, list, tuple, set, str, bytes, numbers, None and numpy arrays of numbers or text.

    Guarantee: the pickle cannot call any function except those that create these objects, and cannot change attributes.
    Arrays are read-only; strings of Python 2 become bytes.

    Parameters
    ----------
    content
        The pickle, in any protocol.
    where
        Name of the file, for error messages.

    >>> read_plain_pickle(pickle.dumps({"data": np.arange(3)}), "numbers")["data"].tolist()
    [0, 1, 2]
    >>> read_plain_pickle(pickle.dumps(print), "greeting")
    Traceback (most recent call last):
        ...
    fairmargin.errors.UntrustedError: greeting asks for builtins.print, which could run untrusted code; ...
    """
    try:
        _check_instructions(content, where)
        return _with_arrays(_Reader(content, where).load(), where, {})
    except UntrustedError:
        raise
    except Exception as error:  # a damaged pickle can raise any exception
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(
            f"{where} cannot be read as a pickle ({reason}). It may be damaged: download it again."
        ) from error


def _check_instructions(content: bytes, where: str) -> None:
    for count, (instruction, argument, _) in enumerate(pickletools.genops(content)):
        if instruction.name in (*_OBJECTS, *_OUTSIDE):
            raise _refused(where, f"the pickle instruction {instruction.name}")
        # Memos are numbered consecutively; a huge number would allocate a table of that size.
        if instruction.name in _MEMO and argument is not None and int(argument) > count + 1:
            raise pickle.UnpicklingError(f"memo {argument} out of order")


def _refused(where: str, what: str) -> UntrustedError:
    return UntrustedError(
        f"{where} asks for {what}, which could run untrusted code; only plain containers and numpy arrays are read. "
        "Nothing was run. Download the file from its authors."
    )


class _Reader(pickle.Unpickler):
    def __init__(self, content: bytes, where: str) -> None:
        super().__init__(io.BytesIO(content), encoding="bytes")
        self._where = where

    def find_class(self, module: str, name: str) -> Any:
        # Exact names only: protocol 4 allows dotted names, which are never in the table.
        if (module, name) not in _ADMITTED:
            raise _refused(self._where, f"{module}.{name}")
        return _Callable(f"{module}.{name}", _ADMITTED[module, name])


class _Callable:
    """Stand-in for a function that a pickle may call, so that the pickle cannot set attributes of the function."""

    __slots__ = ("make", "name")

    def __init__(self, name: str, make: Callable[..., Any]) -> None:
        self.name, self.make = name, make

    def __call__(self, *arguments: Any) -> Any:
        return self.make(*arguments)

    def __setstate__(self, state: Any) -> NoReturn:
        raise pickle.UnpicklingError(f"a state for {self.name}")


class _Dtype:
    __slots__ = ("code", "dtype")

    def __init__(self, code: Any, *_: Any) -> None:
        self.code = _text(code)
        if not _DTYPE.fullmatch(self.code):
            raise pickle.UnpicklingError(f"array of type {self.code!r}, neither numbers nor text")
        self.dtype = np.dtype(self.code)

    def __setstate__(self, state: Any) -> None:
        _, order, *rest = state
        if any(part is not None for part in rest[:3]) or _text(order) not in _BYTE_ORDERS:
            raise pickle.UnpicklingError("array of records")
        self.dtype = np.dtype(_text(order).replace("|", "") + self.code)


class _Array:
    __slots__ = ("array",)

    def __init__(self, *_: Any) -> None:
        self.array: npt.NDArray[Any] | None = None

    def __setstate__(self, state: Any) -> None:
        shape, kind, by_column, raw = state[-4:]  # old pickles may lack the version at the beginning
        if not isinstance(kind, _Dtype) or not isinstance(raw, bytes):
            raise pickle.UnpicklingError("array of objects")
        if not all(type(length) is int and length >= 0 for length in shape):
            raise pickle.UnpicklingError(f"array of shape {shape!r}")
        if math.prod(shape) * kind.dtype.itemsize != len(raw):
            raise pickle.UnpicklingError(f"array of shape {shape!r} in {len(raw):,} bytes")
        flat = np.frombuffer(raw, dtype=kind.dtype) if raw else np.empty(0, dtype=kind.dtype)
        self.array = flat.reshape(shape, order="F" if by_column else "C")


class _Scalar(_Array):
    __slots__ = ()

    def __init__(self, kind: Any, content: Any) -> None:
        super().__init__()
        self.__setstate__(((), kind, False, content))


def _encode(text: Any, encoding: Any) -> bytes:
    """Replace `codecs.encode`, which Python 3 uses to pickle bytes for Python 2."""
    if _text(encoding) not in ("latin1", "latin-1") or not isinstance(text, str):
        raise pickle.UnpicklingError(f"text encoded as {encoding!r}")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    return b""


def _set(members: Any) -> set[Any]:
    return set(members)


def _not_callable(*_: Any) -> NoReturn:
    raise pickle.UnpicklingError("numpy.ndarray called")  # valid pickles use it only as an argument of _reconstruct


_NUMPY_CORES = ("numpy.core.multiarray", "numpy._core.multiarray")
_BUILTINS = ("__builtin__", "builtins")  # of Python 2 and 3
_ADMITTED: dict[tuple[str, str], Callable[..., Any]] = {
    **{(core, "_reconstruct"): _Array for core in _NUMPY_CORES},
    **{(core, "scalar"): _Scalar for core in _NUMPY_CORES},
    ("numpy", "ndarray"): _not_callable,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
    **{(builtins, "set"): _set for builtins in _BUILTINS},
    **{(builtins, "bytes"): _no_bytes for builtins in _BUILTINS},
}


def _text(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def _with_arrays(part: Any, where: str, seen: dict[int, Any]) -> Any:
    """Return the same containers with numpy arrays in place of stand-ins; other objects in them are refused."""
    if isinstance(part, _SIMPLE):
        return part
    if id(part) in seen:  # visit shared parts once; otherwise a small pickle could expand to a huge tree
        return seen[id(part)][1]
    whole: Any
    if isinstance(part, _Array) and part.array is not None:
        whole = part.array[()] if isinstance(part, _Scalar) else part.array
    elif type(part) is dict:
        whole = {_with_arrays(key, where, seen): _with_arrays(value, where, seen) for key, value in part.items()}
    elif type(part) in (list, tuple, set):
        whole = type(part)(_with_arrays(member, where, seen) for member in part)
    else:
        what = part.name if isinstance(part, _Callable) else type(part).__name__.lstrip("_").lower()
        raise pickle.UnpicklingError(f"a {what} that stands alone")
    seen[id(part)] = (part, whole)  # keep a reference to the part, so that its id is not reused
    return whole
