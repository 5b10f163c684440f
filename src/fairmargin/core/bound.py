"""On which side of the truth an estimate lies, and what arithmetic does to it."""

from enum import Enum

from fairmargin.errors import InputError


class Bound(Enum):
    """The direction of error of a number, with its algebra.

    EXACT is neutral. Negation swaps UPPER and LOWER. Sums, means and min(·, T) keep the direction; UPPER + LOWER is
    NEITHER. A quotient of positives: UPPER/LOWER is UPPER, LOWER/UPPER is LOWER, like/like is NEITHER.

    >>> Bound.UPPER - Bound.UPPER
    <Bound.NEITHER: 'neither'>
    >>> Bound.UPPER / Bound.LOWER
    <Bound.UPPER: 'upper'>
    """

    EXACT = "exact"
    UPPER = "upper"
    LOWER = "lower"
    NEITHER = "neither"

    def __neg__(self) -> "Bound":
        return {Bound.UPPER: Bound.LOWER, Bound.LOWER: Bound.UPPER}.get(self, self)

    def __add__(self, other: "Bound") -> "Bound":
        if self is Bound.EXACT or self is other:
            return other
        return self if other is Bound.EXACT else Bound.NEITHER

    def __sub__(self, other: "Bound") -> "Bound":
        return self + (-other)

    def __truediv__(self, other: "Bound") -> "Bound":
        """The bound of a quotient of positive numbers; enlarging the divisor lowers the quotient."""
        return self + (-other)

    @classmethod
    def parse(cls, text: "str | Bound") -> "Bound":
        """A bound from its name."""
        try:
            return text if isinstance(text, Bound) else cls(str(text).strip().lower())
        except ValueError:
            raise InputError(f"Unknown bound {text!r}. Expected one of exact, upper, lower, neither.") from None

    def of_spread(self) -> "Bound":
        """The bound of an absolute value, a variance or max − min of such numbers."""
        return Bound.EXACT if self is Bound.EXACT else Bound.NEITHER

    @property
    def words(self) -> str:
        """How a report names distances of this kind.

        >>> Bound.UPPER.words
        'upper bounds (attacks)'
        """
        return {
            Bound.EXACT: "exact distances",
            Bound.UPPER: "upper bounds (attacks)",
            Bound.LOWER: "lower bounds (certificates)",
            Bound.NEITHER: "a proxy that bounds the distance on neither side",
        }[self]
