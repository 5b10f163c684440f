"""Checks of hyper-parameters, made when a method is created."""

import math
from collections.abc import Iterable

from fairmargin.core.norm import Norm
from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError


def check_positive(owner: object, **given: float) -> None:
    """Refuse numbers that are not positive and finite."""
    for name, value in given.items():
        if not _is_number(value) or not 0 < value < math.inf:
            raise InputError("must be a positive number", field=name, given=value, of=type(owner).__name__)


def check_not_negative(owner: object, **given: float) -> None:
    """Refuse numbers that are negative or not finite."""
    for name, value in given.items():
        if not _is_number(value) or not 0 <= value < math.inf:
            raise InputError("must be a number, 0 or more", field=name, given=value, of=type(owner).__name__)


def check_share(owner: object, **given: float) -> None:
    """Refuse numbers outside of [0, 1]."""
    for name, value in given.items():
        if not _is_number(value) or not 0 <= value <= 1:
            raise InputError("must be a share, between 0 and 1", field=name, given=value, of=type(owner).__name__)


def check_count(owner: object, **given: int) -> None:
    """Refuse counts that are not whole numbers of at least 1."""
    for name, value in given.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError("must be a whole number, 1 or more", field=name, given=value, of=type(owner).__name__)


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


def _is_number(value: object) -> bool:
    """Return whether the value is an int or a float."""
    return isinstance(value, int | float) and not isinstance(value, bool)
