"""Exact sums of powers, which merge to the last bit.

Every float is an integer multiple of 2⁻¹⁰⁷⁴. Sums of floats are therefore kept as integers of arbitrary size, in units
of 2⁻¹⁰⁷⁴, and rounded once at the end. The sums of parts of the data, computed in any order and on any machine, merge
to exactly those of the whole.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from fairmargin.core.arrays import Floats

ORDER = 4  # largest power
_UNIT = 1074  # every float is a multiple of 2 ** -_UNIT
_MANTISSA, _LOW = 53, 27  # bits of a float, and of the lower part of its mantissa
_AT_ONCE = 2**20  # sums of so many parts of mantissas are exact; limits the memory


@dataclass(frozen=True, slots=True)
class PowerSums:
    """Number of values and the exact sums of their powers (each power rounded to a float), in units of 2⁻¹⁰⁷⁴.

    >>> values = np.array([1e16, 1.0, -1e16, 0.1])
    >>> sums = PowerSums.of(values)
    >>> sums.rounded().tolist()[:2]
    [4.0, 1.1]
    >>> sums == PowerSums.of(values[3:]).merged(PowerSums.of(values[:3]))
    True
    """

    count: int
    sums: tuple[int, ...]  # of the powers 1, 2, 3 and 4

    @classmethod
    def of(cls, values: Floats) -> Self:
        """Sum the powers of finite values."""
        sums = [0] * ORDER
        for start in range(0, len(values), _AT_ONCE):
            part = values[start : start + _AT_ONCE]
            power = np.ones_like(part)
            for k in range(ORDER):
                power = power * part
                sums[k] += _exact_sum(power)
        return cls(len(values), tuple(sums))

    def merged(self, other: Self) -> Self:
        """Return the sums of both parts together."""
        merged = (own + more for own, more in zip(self.sums, other.sums, strict=True))
        return type(self)(self.count + other.count, tuple(merged))

    def rounded(self) -> Floats:
        """Return the number of values and the sums of their powers from 1 to 4, each rounded once."""
        return np.array([self.count, *(total / 2**_UNIT for total in self.sums)], dtype=np.float64)


def _exact_sum(values: Floats) -> int:
    """Return the exact sum of at most `_AT_ONCE` floats in units of 2⁻¹⁰⁷⁴."""
    if not len(values):
        return 0
    fraction, exponent = np.frexp(values)
    mantissa = np.ldexp(fraction, _MANTISSA)  # an integer
    high = np.floor(np.ldexp(mantissa, -_LOW))
    low = mantissa - np.ldexp(high, _LOW)
    lowest = int(exponent.min())
    # Mantissas are summed by their exponent, in two parts, so that the floats in which they are summed stay exact.
    highs, lows = (np.bincount(exponent - lowest, weights=part) for part in (high, low))
    total = 0
    for place in np.flatnonzero((highs != 0) | (lows != 0)).tolist():
        mantissas, shift = (int(highs[place]) << _LOW) + int(lows[place]), lowest + place - _MANTISSA + _UNIT
        total += mantissas << shift if shift >= 0 else mantissas >> -shift  # subnormal numbers end with zeros
    return total
