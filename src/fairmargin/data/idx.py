"""The idx format of MNIST: a magic number, the lengths of the axes, then bytes."""

import gzip
import io
import math
import zlib
from hashlib import md5
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairmargin.errors import InputError

_GZIP = b"\x1f\x8b"
_UNSIGNED_BYTE = 8
_LARGEST = 2**31


class Idx(NamedTuple):
    """An array, and the md5 sum of its file once unpacked: the same whether it was gzipped, and how."""

    array: npt.NDArray[np.uint8]
    md5: str


def read_idx(content: bytes, where: str, axes: int) -> Idx:
    """The bytes of an idx file, gzipped or not.

    Guarantee: no more is unpacked than the file's own header announces.

    Parameters
    ----------
    content
        The file.
    where
        Its name, for the sentence if it cannot be read.
    axes
        How many axes are expected: 3 for images, 1 for labels.

    >>> read_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9]), "labels", 1).array.tolist()
    [7, 8, 9]
    """
    unpack = content.startswith(_GZIP)
    try:
        with gzip.open(io.BytesIO(content)) if unpack else io.BytesIO(content) as stream:
            head = stream.read(4 + 4 * axes)
            lengths = _lengths(head, where, axes)
            expected = math.prod(lengths)
            body = stream.read(expected + 1)  # one more, to see that there is none; gzip then checks its sum too
    except (OSError, EOFError, zlib.error) as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise InputError(f"{where} cannot be unpacked ({reason}). It may be cut short: fetch it again.") from error
    if len(body) < expected:
        raise InputError(
            f"{where} is cut short: {len(body):,} bytes of data where its header announces "
            f"{' × '.join(f'{length:,}' for length in lengths)}. Fetch it again."
        )
    if len(body) > expected:
        raise InputError(f"{where} goes on after the {expected:,} bytes that its header announces. Fetch it again.")
    digest = md5(head + body, usedforsecurity=False).hexdigest()
    return Idx(np.frombuffer(body, dtype=np.uint8).reshape(lengths), digest)


def _lengths(head: bytes, where: str, axes: int) -> list[int]:
    """The lengths of the axes, from a header that is what it should be."""
    expected, given = bytes([0, 0, _UNSIGNED_BYTE, axes]), head[:4]
    if given != expected:
        begins = f"{int.from_bytes(given, 'big'):,}" if len(given) == len(expected) else "nothing"
        raise InputError(
            f"{where} is no idx file of {'images' if axes == 3 else 'labels'}: it should begin with the magic number "
            f"{int.from_bytes(expected, 'big'):,} but begins with {begins}."
        )
    if len(head) < 4 + 4 * axes:
        raise InputError(f"{where} is cut short within its header. Fetch it again.")
    lengths = [int(length) for length in np.frombuffer(head[4:], dtype=">u4")]
    if math.prod(lengths) > _LARGEST:
        raise InputError(
            f"{where} announces {math.prod(lengths):,} bytes, more than any such file has. Fetch it again."
        )
    return lengths
