"""Tiny images that tests write in the layouts of real datasets."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image


def picture(shade: int = 100, size: tuple[int, int] = (4, 4), mode: str = "RGB", kind: str = "PNG") -> bytes:
    """An image file of one shade; `size` is width × height."""
    colour: int | tuple[int, ...] = (
        shade if mode in ("L", "1", "P", "I;16") else (shade, 255 - shade, 7, 9)[: len(mode)]
    )
    stream = io.BytesIO()
    Image.new(mode, size, colour).save(stream, kind)
    return stream.getvalue()


def noise(seed: int, size: int = 16) -> bytes:
    """A lossless image that no other seed makes."""
    stream = io.BytesIO()
    pixels = np.random.RandomState(seed).randint(0, 256, (size, size, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def write(folder: Path, files: Mapping[str, bytes | str]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def pack(path: Path, files: Mapping[str, bytes | str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path
