"""Hyper-parameters that lead nowhere are refused where a method is made, in a sentence."""

import math
from collections.abc import Iterable

from fairmargin.core.norm import Norm
from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError


def positive(owner: object, **given: float) -> None:
    """Refuse numbers that are not above 0."""
    for name, value in given.items():
        if not _is_number(value) or not 0 < value < math.inf:
            raise InputError("must be a positive number", field=name, given=value, of=type(owner).__name__)


def not_negative(owner: object, **given: float) -> None:
    """Refuse numbers below 0."""
    for name, value in given.items():
        if not _is_number(value) or not 0 <= value < math.inf:
            raise InputError("must be a number, 0 or more", field=name, given=value, of=type(owner).__name__)


def share(owner: object, **given: float) -> None:
    """Refuse what is no share of a whole."""
    for name, value in given.items():
        if not _is_number(value) or not 0 <= value <= 1:
            raise InputError("is a share, between 0 and 1", field=name, given=value, of=type(owner).__name__)


def at_least_one(owner: object, **given: int) -> None:
    """Refuse counts below 1."""
    for name, value in given.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError("must be a whole number, 1 or more", field=name, given=value, of=type(owner).__name__)


def among(owner: object, known: Iterable[str], **given: str) -> None:
    """Refuse words that mean nothing here."""
    names = list(known)
    for name, value in given.items():
        if value not in names:
            raise InputError(f"cannot be {value!r}. {suggest(str(value), names)}", field=name, of=type(owner).__name__)


def norm_of(owner: object, norm: Norm | str) -> Norm:
    """The norm of an attack, L2 or L∞."""
    parsed = Norm.parse(norm)
    if parsed not in (Norm.L2, Norm.LINF):
        raise InputError(f"is that of an attack, l2 or linf; given {parsed}", field="norm", of=type(owner).__name__)
    return parsed


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
