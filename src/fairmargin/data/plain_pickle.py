"""Pickles that hold data and nothing else.

A pickle is a program: reading one with `pickle.load` runs whatever its author wrote. The reader here has the words of
that language that make plain containers and numpy arrays, and no others. Nor does it hand the pickle's numbers to
numpy's own `__setstate__`, which trusts them: arrays are made from checked shapes, types and lengths.
"""

import io
import math
import pickle
import pickletools
import re
from collections.abc import Callable
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from fairmargin.errors import InputError, UntrustedError

_SIMPLE = (str, bytes, int, float, bool, type(None))
_DTYPE = re.compile(r"[biufc](1|2|4|8|16)|[SU]\d{1,9}")  # numbers and text; no objects, no records
_BYTE_ORDERS = ("|", "<", ">", "=")
# Words of the language that make objects of classes, or fetch things from outside the file.
_OBJECTS = ("INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BYTEARRAY8")
_OUTSIDE = ("EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID", "NEXT_BUFFER", "READONLY_BUFFER")
_MEMO = ("PUT", "BINPUT", "LONG_BINPUT")


def read_plain_pickle(content: bytes, where: str, encoding: Literal["bytes", "latin1"] = "bytes") -> Any:
    """What a pickle holds, if that is dict, list, tuple, set, str, bytes, numbers, None and numpy arrays of numbers.

    Guarantee: nothing of the pickle is executed; it can call no function but those that make these things, and change
    no attribute of anything. Arrays are read-only.

    Parameters
    ----------
    content
        The pickle, of any protocol.
    where
        The file, for the sentence if it is refused.
    encoding
        What the texts of Python 2 become: "bytes" as they are, or "latin1" text.

    >>> read_plain_pickle(pickle.dumps({"data": np.arange(3)}), "numbers")["data"].tolist()
    [0, 1, 2]
    >>> read_plain_pickle(pickle.dumps(print), "greeting")
    Traceback (most recent call last):
        ...
    fairmargin.errors.UntrustedError: greeting asks for builtins.print, which could run foreign code; ...
    """
    try:
        _check_words(content, where)
        return _finished(_Reader(content, where, encoding).load(), where, {})
    except UntrustedError:
        raise
    except Exception as error:  # a damaged pickle fails in any way a stack machine can
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(
            f"{where} cannot be read as a pickle ({reason}). It may be damaged: fetch it again."
        ) from error


def _check_words(content: bytes, where: str) -> None:
    for count, (word, argument, _) in enumerate(pickletools.genops(content)):
        if word.name in (*_OBJECTS, *_OUTSIDE):
            raise _refused(where, f"the pickle instruction {word.name}")
        # Memos are numbered from 0 or 1 on; a huge number would have a table of that size made.
        if word.name in _MEMO and argument is not None and int(argument) > count + 1:
            raise pickle.UnpicklingError(f"memo {argument} out of order")


def _refused(where: str, what: str) -> UntrustedError:
    return UntrustedError(
        f"{where} asks for {what}, which could run foreign code; only plain containers and numpy arrays are read. "
        "Nothing was run. Fetch the file from its makers."
    )


class _Reader(pickle.Unpickler):
    def __init__(self, content: bytes, where: str, encoding: str) -> None:
        super().__init__(io.BytesIO(content), encoding=encoding)
        self._where = where

    def find_class(self, module: str, name: str) -> Any:
        # By exact name: a dotted one, as protocol 4 allows, is in no table.
        if (module, name) not in _ADMITTED:
            raise _refused(self._where, f"{module}.{name}")
        return _Word(f"{module}.{name}", _ADMITTED[module, name])


class _Word:
    """A name that a pickle may mention. Not the function itself, whose attributes a pickle could set."""

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
        shape, kind, by_column, content = state[-4:]  # some old ones lack the version in front
        if not isinstance(kind, _Dtype) or not isinstance(content, (bytes, str)):
            raise pickle.UnpicklingError("array of objects")
        raw = content.encode("latin1") if isinstance(content, str) else content
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
    """How Python 3 spells bytes for Python 2."""
    if _text(encoding) not in ("latin1", "latin-1") or not isinstance(text, str):
        raise pickle.UnpicklingError(f"text encoded as {encoding!r}")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    return b""


def _set(members: Any) -> set[Any]:
    return set(members)


def _mentioned(*_: Any) -> NoReturn:
    raise pickle.UnpicklingError("numpy.ndarray called")  # it is only ever an argument of _reconstruct


_NUMPY_CORES = ("numpy.core.multiarray", "numpy._core.multiarray")
_BUILTINS = ("__builtin__", "builtins")  # of Python 2 and 3
_ADMITTED: dict[tuple[str, str], Callable[..., Any]] = {
    **{(core, "_reconstruct"): _Array for core in _NUMPY_CORES},
    **{(core, "scalar"): _Scalar for core in _NUMPY_CORES},
    ("numpy", "ndarray"): _mentioned,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
    **{(builtins, "set"): _set for builtins in _BUILTINS},
    **{(builtins, "bytes"): _no_bytes for builtins in _BUILTINS},
}


def _text(word: Any) -> str:
    return word.decode("latin1") if isinstance(word, bytes) else str(word)


def _finished(part: Any, where: str, seen: dict[int, Any]) -> Any:
    """The same containers with arrays where arrays were being made; anything else in them is refused."""
    if isinstance(part, _SIMPLE):
        return part
    if id(part) in seen:  # shared parts are visited once, else a small pickle could stand for a huge tree
        return seen[id(part)][1]
    whole: Any
    if isinstance(part, _Array) and part.array is not None:
        whole = part.array[()] if isinstance(part, _Scalar) else part.array
    elif type(part) is dict:
        whole = {_finished(key, where, seen): _finished(value, where, seen) for key, value in part.items()}
    elif type(part) in (list, tuple, set):
        whole = type(part)(_finished(member, where, seen) for member in part)
    else:
        what = part.name if isinstance(part, _Word) else type(part).__name__.lstrip("_").lower()
        raise pickle.UnpicklingError(f"a {what} that stands alone")
    seen[id(part)] = (part, whole)  # the part is kept too, so that its id stays its own
    return whole
