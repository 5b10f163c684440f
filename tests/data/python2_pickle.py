"""Pickles as Python 2 wrote them (protocol 2, texts as bytes), which Python 3 cannot write itself."""

import struct
from typing import Any

import numpy as np


def python2_pickle(value: Any) -> bytes:
    return b"\x80\x02" + _part(value) + b"."


def _part(value: Any) -> bytes:
    if isinstance(value, dict):
        pairs = b"".join(_part(key) + _part(entry) for key, entry in value.items())
        return b"}(" + pairs + b"u"
    if isinstance(value, list):
        return b"](" + b"".join(map(_part, value)) + b"e"
    if isinstance(value, (str, bytes)):
        text = value.encode("latin1") if isinstance(value, str) else value
        return b"U" + bytes([len(text)]) + text if len(text) < 256 else b"T" + struct.pack("<i", len(text)) + text
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    if isinstance(value, np.ndarray):
        return _array(value)
    raise TypeError(type(value))


def _array(array: np.ndarray) -> bytes:
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n(K\x00tU\x01b\x87R"
    code = _part(array.dtype.str[1:])
    dtype = b"cnumpy\ndtype\n" + code + b"K\x00K\x01\x87R(K\x03" + _part(array.dtype.str[0])
    dtype += b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    shape = b"(" + b"".join(map(_part, array.shape)) + b"t"
    return empty + b"(K\x01" + shape + dtype + b"\x89" + _part(array.tobytes()) + b"tb"
