"""Exceptions that Fairmargin raises, and helpers that make their messages safe to print.

The message of every exception states what was expected, what was given, where, and what to do. The command line prints
the message and exits with code 2. A traceback on the command line is a bug in Fairmargin.
"""

import re
import sysconfig
import traceback
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Control characters from DEL on, line separators, direction marks and surrogates. JSON itself escapes the lower ones.
_UNSAFE_IN_JSON = "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
_JOINERS = "\u200c\u200d"  # zero-width joiners: invisible, but part of Persian words and of emoji


def visible(text: str) -> str:
    r"""Replace control characters, terminal escapes and direction overrides in a text by visible escape sequences.

    Names of groups, columns and files can come from an untrusted source. Printed unchanged, they could change the state
    of a terminal or hide text.

    >>> print(visible("a\x1b[31mb\u202ec"))
    a\x1b[31mb\u202ec
    >>> visible("Ελένη, O'Brien, 東京")
    "Ελένη, O'Brien, 東京"
    """
    if text.isprintable():
        return text
    return "".join(c if _is_harmless(c) else c.encode("unicode_escape").decode() for c in text)


def reason_of(error: BaseException) -> str:
    """Return the first line of an error's message without the full stop; its class if the message is empty.

    >>> reason_of(ValueError("No such layer.\\nDid you mean conv1?")), reason_of(KeyError())
    ('No such layer', 'KeyError')
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".")


def harmless_json(text: str) -> str:
    r"""Escape control characters and direction marks in a JSON text. The escaped text has the same meaning in JSON.

    >>> harmless_json('"a\x9bb\u202ec"')
    '"a\\u009bb\\u202ec"'
    """
    return re.sub(_UNSAFE_IN_JSON, lambda found: f"\\u{ord(found[0]):04x}", text)


def _is_harmless(character: str) -> bool:
    # `str.isprintable` rejects all spaces other than " ", but terminals display them without side effects.
    return character.isprintable() or character in _JOINERS or unicodedata.category(character) == "Zs"


class FairmarginError(ValueError):
    """Base class of all errors that a user can cause and correct. The message is safe to print in a terminal."""

    def __str__(self) -> str:
        return "\n".join(map(visible, super().__str__().split("\n")))


NOT_GIVEN = object()
"""Marks that an error does not state the given value; None can itself be a given value."""


class InputError(FairmarginError):
    """Raised when data, labels, groups or options do not fit together.

    Parameters
    ----------
    problem
        The complete message. With `field`, the part of the message after the field's name: "must be at least 1".
    field
        Name of the invalid parameter, option or key in Python. The user interface replaces it by the name that the user
        wrote (see `spelled`): `--up-to` on the command line, `[audit] up_to` in a study file.
    given
        The invalid value, which is appended to the message.
    others
        Names of other fields that occur in `problem` as `{name}` and are replaced in the same way as `field`.
    of
        Name of the class that `problem` is about, or to which the parameter `field` belongs. A catalog that created the
        object replaces it by the name of the catalog entry (see `about`).

    >>> str(InputError("must be at least 1", field="steps", given=0))
    '`steps` must be at least 1; given 0.'
    >>> error = InputError("goes with {precision}: leave it out", field="target", others=("precision",))
    >>> error.spelled(lambda field: "--" + field)
    '--target goes with --precision: leave it out.'
    >>> str(InputError("must be at least 1", field="steps", given=0, of="PGD").about("pgd"))
    '`steps` of `pgd` must be at least 1; given 0.'
    """

    place = ""
    """The file, section or model that the error concerns, see `at`."""
    column = ""
    """The column that was named and does not exist, if this is what the error says."""

    def __init__(
        self, problem: str, *, field: str = "", given: Any = NOT_GIVEN, others: tuple[str, ...] = (), of: str = ""
    ) -> None:
        self.problem, self.field, self.given, self.others, self.of = problem, field, given, others, of
        super().__init__(self.spelled(lambda name: f"`{name.rpartition('.')[2]}`"))

    def spelled(self, spell: Callable[[str], str]) -> str:
        """Return the message with the name of every field replaced by `spell(name)`, unless it is a key of a file."""
        if self.place:
            return str(self)
        text = self.problem
        if self.others:
            text = text.format(**{name: spell(name) for name in self.others})
        if self.of:  # a parameter of an object, not an option of the command line
            owner = self.of if self.field or self.of.startswith("`") else f"`{self.of}`"
            text = f"`{self.field}` of {owner} {text.rstrip('.')}" if self.field else f"{owner} {text.rstrip('.')}"
        elif self.field:
            text = f"{spell(self.field)} {text.rstrip('.')}"
        else:
            return text
        end = "" if text.endswith("?") else "."
        return f"{text}{end}" if self.given is NOT_GIVEN else f"{text}; given {self.given!r}."

    def within(self, section: str) -> "InputError":
        """Return the same error with the field prefixed by the section of the study file that contains it."""
        field = f"{section}.{self.field}" if self.field else ""
        return type(self)(self.problem, field=field, given=self.given, others=self.others, of=self.of)

    def about(self, name: str) -> "InputError":
        """Return the same error with the class name replaced by the name of its catalog entry."""
        if not self.of:
            return self
        return type(self)(self.problem, field=self.field, given=self.given, others=self.others, of=f"`{name}`")

    def at(self, place: str) -> "InputError":
        """Return the same error with the file, section or model that it concerns before the message.

        >>> error = InputError("must be at least 1", field="steps").at("[audit.ddn]: ")
        >>> str(error), error.field
        ('[audit.ddn]: `steps` must be at least 1.', 'steps')
        """
        found = type(self)(self.problem, field=self.field, given=self.given, others=self.others, of=self.of)
        found.place, found.args = place, (f"{place}{self}",)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self),)  # only the message is sent to another process


class MissingDataError(InputError):
    """Raised when the files of a dataset are not on this machine."""


class ModelError(FairmarginError):
    """Raised when a model cannot be read, or does not provide what an estimator or attack needs."""


class StoreError(FairmarginError):
    """Raised when a run folder cannot be read, written or continued."""


class UntrustedError(FairmarginError):
    """Raised when reading a file could run code and the file is not marked as trusted."""


@contextmanager
def exits_refused() -> Iterator[None]:
    """Raise an error if the code in the context tries to exit the program. Ctrl-C is passed on.

    A user's model or attack may call `sys.exit(0)`, which would end an unfinished audit with the exit code for success.
    Every exception that is not a subclass of `Exception` is treated in the same way.

    >>> with exits_refused():
    ...     raise SystemExit(0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    fairmargin.errors.FairmarginError: The code of a model, attack or dataset tried to end the program ...
    """
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        name, message = type(error).__name__, str(error)
        raise FairmarginError(
            f"The code of a model, attack or dataset tried to end the program ({name}{': ' if message else ''}{message}"
            f"{_place(error)}). Remove that call: the work is not finished."
        ) from error


def _place(error: BaseException) -> str:
    """Return the file and line that raised the error, if possible outside of the standard library."""
    library = sysconfig.get_paths()["stdlib"]
    frames = traceback.extract_tb(error.__traceback__)[1:]  # the first is the context manager above
    own = [f for f in frames if not f.filename.startswith((library, "<frozen")) or "site-packages" in f.filename]
    return f"; '{(own or frames)[-1].filename}', line {(own or frames)[-1].lineno}" if frames else ""
