"""A number that does not exist, and why."""

import math


class Undefined(float):
    """NaN that knows its reason, so that an undefined value is never mistaken for 0.

    >>> value = Undefined("no correct sample in group 'F'")
    >>> math.isnan(value), value.reason
    (True, "no correct sample in group 'F'")
    """

    reason: str

    def __new__(cls, reason: str) -> "Undefined":
        """NaN, with a sentence."""
        self = super().__new__(cls, math.nan)
        self.reason = reason
        return self

    def __repr__(self) -> str:
        return f"Undefined({self.reason!r})"

    def __reduce__(self) -> tuple[type["Undefined"], tuple[str]]:
        return Undefined, (self.reason,)


def reason_of(value: float) -> str:
    """Why `value` is undefined; empty when it is a number, or a NaN without a reason."""
    return getattr(value, "reason", "")
