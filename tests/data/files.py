"""Small files that tests write: images, folders, archives, and pickles as Python 2 wrote them."""

import io
import struct
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

SHARED = Path(__file__).parents[3] / "shared" / "data"
shared = [  # marks of tests that read the real datasets
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data is not beside the project"),
]
Files = Mapping[str, bytes | str]


def picture(shade: int = 100, size: tuple[int, int] = (4, 4), mode: str = "RGB", kind: str = "PNG") -> bytes:
    """Return an image file of one shade; `size` is width × height."""
    grey = mode in ("L", "1", "P", "I;16")
    colour: int | tuple[int, ...] = shade if grey else (shade, 255 - shade, 7, 9)[: len(mode)]
    stream = io.BytesIO()
    Image.new(mode, size, colour).save(stream, kind)
    return stream.getvalue()


def noise(seed: int, size: int = 16, kind: str = "PNG") -> bytes:
    """Return an image file that no other seed gives."""
    stream = io.BytesIO()
    Image.fromarray(_random_pixels(seed, size)).save(stream, kind)
    return stream.getvalue()


def noise_as_numbers(seed: int, size: int = 16) -> np.ndarray:
    """Return the sample that a dataset makes of `noise(seed)`."""
    return np.moveaxis(_random_pixels(seed, size), 2, 0).astype(np.float32) / np.float32(255)


def _random_pixels(seed: int, size: int) -> np.ndarray:
    return np.random.RandomState(seed).randint(0, 256, (size, size, 3)).astype(np.uint8)


def write(folder: Path, files: Files) -> Path:
    """Write files into a folder and return the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_bytes(content))
    return folder


def pack(path: Path, files: Files) -> Path:
    """Write files into a zip archive, or a tar archive if the name says so, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return path
    mode = {".tar": "w", ".gz": "w:gz", ".xz": "w:xz", ".bz2": "w:bz2"}[path.suffix]
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(_bytes(content))
            tar.addfile(member, io.BytesIO(_bytes(content)))
    return path


def _bytes(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content


def python2_pickle(value: Any) -> bytes:
    """Return a pickle as Python 2 wrote it (protocol 2, texts as bytes), which Python 3 cannot write itself."""
    return b"\x80\x02" + _part(value) + b"."


def _part(value: Any) -> bytes:
    if isinstance(value, dict):
        return b"}(" + b"".join(_part(key) + _part(entry) for key, entry in value.items()) + b"u"
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
    dtype = b"cnumpy\ndtype\n" + _part(array.dtype.str[1:]) + b"K\x00K\x01\x87R(K\x03" + _part(array.dtype.str[0])
    dtype += b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    shape = b"(" + b"".join(map(_part, array.shape)) + b"t"
    return empty + b"(K\x01" + shape + dtype + b"\x89" + _part(array.tobytes()) + b"tb"
