"""The shape of one sample, checked. This module loads no torch, so that the catalog need not."""

import math
from collections.abc import Sequence

from fairmargin.errors import ModelError

Shape = tuple[int, ...]


def checked_shape(shape: Sequence[int]) -> Shape:
    """Return the shape as a tuple of positive whole numbers, or raise an error that explains what is wrong with it.

    >>> checked_shape([3, 32, 32])
    (3, 32, 32)
    """
    sides = tuple(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else ()
    if not sides or any(isinstance(side, bool) or not isinstance(side, int) or side < 1 for side in sides):
        raise ModelError(
            f"The shape of one sample must be positive whole numbers, such as (3, 32, 32) or (64,); given {shape!r}."
        )
    return sides


def image_shape(name: str, shape: Shape) -> Shape:
    """Return (channels, height, width) for samples of that shape; a flat sample of s² numbers is a grey s × s image.

    >>> image_shape("lenet5", (784,))
    (1, 28, 28)
    """
    if len(shape) == 3:
        return shape
    if len(shape) == 1 and (side := math.isqrt(shape[0])) ** 2 == shape[0]:
        return (1, side, side)
    if len(shape) == 2:
        advice = f"For grey images add an axis of one channel, (1, {shape[0]}, {shape[1]}): `x[:, None]`."
    elif len(shape) == 1:
        advice = f"{shape[0]:,} numbers are no square grey image. For tables take `logistic`, or reshape `x` to images."
    else:
        advice = "Reshape `x` to (samples, channels, height, width)."
    raise ModelError(f"`{name}` takes images, (channels, height, width); one sample has the shape {shape}. {advice}")
