"""Images of another size."""

from types import ModuleType

import numpy as np
import numpy.typing as npt

from fairmargin.errors import InputError


def pillow() -> ModuleType:
    """`PIL.Image`, or a sentence that says how to get it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError(
            "To read or resize images, Fairmargin needs Pillow, which is not installed. Install it: "
            "pip install 'fairmargin[image]'"
        ) from error
    return Image


def resized(images: npt.NDArray[np.uint8], size: int | None) -> npt.NDArray[np.uint8]:
    """Images of size × size pixels: bilinear, with the averaging that shrinking needs (no aliasing).

    Images that have this size already, and all of them if `size` is None, are returned as they are.

    Parameters
    ----------
    images
        (n, channels, height, width) of uint8.
    size
        The new width and height.

    >>> resized(np.array([[[[0, 0, 200, 200]] * 4]], dtype=np.uint8), 2).tolist()
    [[[[29, 171], [29, 171]]]]
    """
    count, channels, height, width = images.shape
    if size is None or (height, width) == (size, size):
        return images
    image = pillow()
    result = np.empty((count, channels, size, size), dtype=np.uint8)
    for place in np.ndindex(count, channels):  # channel by channel: any number of them, and Pillow does the same
        plane = image.fromarray(np.ascontiguousarray(images[place]))
        result[place] = np.asarray(plane.resize((size, size), image.Resampling.BILINEAR))
    return result


def resizing_note(original: int, size: int | None) -> tuple[str, ...]:
    """The sentence for a report if images were resized, else none.

    >>> resizing_note(32, 64)
    ('Images were resized from 32×32 to 64×64 pixels (bilinear).',)
    """
    if size in (None, original):
        return ()
    return (f"Images were resized from {original}×{original} to {size}×{size} pixels (bilinear).",)
