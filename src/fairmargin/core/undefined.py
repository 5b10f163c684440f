"""Undefined numbers: NaN with the reason why a value does not exist."""

import math


class Undefined(float):
    """NaN with a reason that states why a value is undefined.

    Parameters
    ----------
    reason
        Why the value does not exist, as a part of a sentence.

    >>> value = Undefined("no correct sample in group 'F'")
    >>> math.isnan(value), value.reason
    (True, "no correct sample in group 'F'")
    """

    reason: str

    def __new__(cls, reason: str) -> "Undefined":
        """Create a NaN with a reason."""
        self = super().__new__(cls, math.nan)
        self.reason = reason
        return self

    def __repr__(self) -> str:
        return f"Undefined({self.reason!r})"

    def __reduce__(self) -> tuple[type["Undefined"], tuple[str]]:
        return Undefined, (self.reason,)


def reason_of(value: float) -> str:
    """Return why `value` is undefined; an empty text if it is a number, or a NaN without a reason."""
    return getattr(value, "reason", "")
