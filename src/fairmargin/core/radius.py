"""Radius of a perturbation: a number, a fraction such as 4/255, or one number per sample."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.errors import InputError

MOST_CHOSEN = 100  # radii at which groups are compared


def as_number(value: Any) -> float:
    """Convert a number, or a text that may be a fraction, to a float.

    Raises TypeError, ValueError, OverflowError or ZeroDivisionError for other values.

    >>> as_number("1/4"), as_number("1e-2")
    (0.25, 0.01)
    """
    if isinstance(value, bool) or value is None:
        raise TypeError(value)
    return float(Fraction(value)) if isinstance(value, str) and "/" in value else float(value)


def parse_radius(value: Any) -> float:
    """Convert a number or a text to a radius, which is finite, not negative and in units of the domain's scale.

    >>> parse_radius("4/255") == 4 / 255
    True
    >>> parse_radius("8 pixels")
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: `radius` must be a number such as 0.1 or a fraction such as 4/255; given '8 pixels'.
    """
    try:
        top, slash, bottom = (value if isinstance(value, str) else "").partition("/")
        radius = as_number(f"{top.strip()}/{bottom.strip()}" if slash else value)
    except ZeroDivisionError:
        raise InputError("cannot be divided by 0", field="radius", given=value) from None
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            "must be a number such as 0.1 or a fraction such as 4/255", field="radius", given=value
        ) from None
    if not math.isfinite(radius):
        raise InputError("must be finite", field="radius", given=value)
    if radius < 0:
        raise InputError("must not be negative", field="radius", given=value)
    return radius


def as_radii(radius: Any, samples: int) -> Floats:
    """Return an array with one radius per sample, from a single radius (number or text) or one radius per sample.

    >>> as_radii("1/4", 2), as_radii([0.5, 1.0], 2)
    (array([0.25, 0.25]), array([0.5, 1. ]))
    """
    if isinstance(radius, str) or np.ndim(radius) == 0:
        return np.full(samples, parse_radius(radius.item() if hasattr(radius, "item") else radius))
    radii = np.array([parse_radius(each) for each in np.asarray(radius, dtype=object).tolist()], dtype=np.float64)
    if len(radii) != samples:
        raise InputError(
            f"`radius` has {len(radii):,} numbers but there are {samples:,} samples: give a single radius, or one "
            "per sample."
        )
    return radii


def chosen_radii(radii: Any) -> tuple[float, ...]:
    """Return different radii in ascending order, from one radius, several, or a text with commas.

    >>> chosen_radii("0.5, 1/4"), chosen_radii([2, 1, 2]), chosen_radii(())
    ((0.25, 0.5), (1.0, 2.0), ())
    """
    plain = radii.tolist() if hasattr(radii, "tolist") else radii
    if isinstance(plain, str):
        plain = [part for part in plain.split(",") if part.strip()]
    several = plain if isinstance(plain, (list, tuple, set, frozenset, range)) else [plain]
    try:
        found = tuple(sorted({parse_radius(each) for each in several}))
    except InputError as error:
        raise InputError(error.problem, field="radii", given=error.given) from None
    if len(found) > MOST_CHOSEN:
        raise InputError(
            f"must be at most {MOST_CHOSEN} radii: each makes the intervals of the others wider",
            field="radii",
            given=f"{len(found):,} radii",
        )
    return found


def spelled_radius(radius: float) -> str:
    """Return the text of a radius, as a fraction such as 8/255 if it is a multiple of 1/255 with a long decimal form.

    >>> spelled_radius(0.5), spelled_radius(8 / 255)
    ('0.5', '8/255')
    """
    steps = radius * 255
    if 1 <= round(steps) <= 254 and math.isclose(steps, round(steps), rel_tol=1e-9):
        return f"{round(steps)}/255" if len(f"{radius:.12g}") > 6 else f"{radius:g}"
    return f"{radius:.4g}"
