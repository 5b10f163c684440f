"""Checks of hyper-parameters, made when a method is created."""

import math
from collections.abc import Callable, Iterable
from typing import Any

from fairmargin.core.norm import Norm
from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError


def check_positive(owner: object, **given: float) -> None:
    """Refuse numbers that are not positive and finite."""
    _check(owner, given, "a positive number", lambda value: _is_number(value) and 0 < value < math.inf)


def check_not_negative(owner: object, **given: float) -> None:
    """Refuse numbers that are negative or not finite."""
    _check(owner, given, "a number, 0 or more", lambda value: _is_number(value) and 0 <= value < math.inf)


def check_share(owner: object, **given: float) -> None:
    """Refuse numbers outside of [0, 1]."""
    _check(owner, given, "a share, between 0 and 1", lambda value: _is_number(value) and 0 <= value <= 1)


def check_count(owner: object, **given: int) -> None:
    """Refuse counts that are not whole numbers of at least 1."""
    _check(owner, given, "a whole number, 1 or more", lambda value: _is_number(value, int) and value >= 1)


def check_choice(owner: object, known: Iterable[str], **given: str) -> None:
    """Refuse names that are not among the known ones."""
    names = list(known)
    for name, value in given.items():
        if value not in names:
            raise InputError(f"cannot be {value!r}. {suggest(str(value), names)}", field=name, of=type(owner).__name__)


def attack_norm(owner: object, norm: Norm | str) -> Norm:
    """Return the norm of an attack, L2 or L∞, parsed; refuse others."""
    parsed = Norm.parse(norm)
    if parsed not in (Norm.L2, Norm.LINF):
        raise InputError(f"must be l2 or linf; given {parsed}", field="norm", of=type(owner).__name__)
    return parsed


def _check(owner: object, given: dict[str, Any], expected: str, is_valid: Callable[[Any], bool]) -> None:
    """Refuse fields whose values are not valid."""
    for name, value in given.items():
        if not is_valid(value):
            raise InputError(f"must be {expected}", field=name, given=value, of=type(owner).__name__)


def _is_number(value: object, *kinds: type) -> bool:
    """Return whether the value is a number of these types, by default an int or a float; a bool is not."""
    return isinstance(value, kinds or (int, float)) and not isinstance(value, bool)
