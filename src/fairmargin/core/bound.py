"""The direction of error of an estimate (upper bound, lower bound, exact, neither), and its arithmetic."""

from enum import Enum

from fairmargin.errors import InputError


class Bound(Enum):
    """Direction of error of a number, with the arithmetic of such directions.

    UPPER marks a number that is at least the true value, LOWER one that is at most the true value. EXACT is the neutral
    element of all operations. Negation swaps UPPER and LOWER. Sums, means and min(·, T) keep the direction, and
    UPPER + LOWER is NEITHER. For a quotient of positive numbers, UPPER / LOWER is UPPER, LOWER / UPPER is LOWER, and
    the quotient of two bounds of the same direction is NEITHER.

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
        """Return the bound of a quotient of positive numbers. A larger divisor makes the quotient smaller."""
        return self + (-other)

    @classmethod
    def parse(cls, text: "str | Bound") -> "Bound":
        """Return the bound of this name: exact, upper, lower or neither."""
        try:
            return text if isinstance(text, Bound) else cls(str(text).strip().lower())
        except ValueError:
            raise InputError(f"Unknown bound {text!r}. Expected one of exact, upper, lower, neither.") from None

    def of_spread(self) -> "Bound":
        """Return the bound of an absolute value, a variance or a difference max − min of numbers with this bound."""
        return Bound.EXACT if self is Bound.EXACT else Bound.NEITHER

    @property
    def words(self) -> str:
        """Description of distances with this bound, as used in reports.

        >>> Bound.UPPER.words
        'upper bounds (attacks)'
        """
        return {
            Bound.EXACT: "exact distances",
            Bound.UPPER: "upper bounds (attacks)",
            Bound.LOWER: "lower bounds (certificates)",
            Bound.NEITHER: "a proxy that bounds the distance on neither side",
        }[self]
