"""The few ways in which Fairmargin says no.

Every error is a sentence for the person at the keyboard: what was expected, what was given, where, and what to do.
The command line prints the sentence and exits with code 2; a traceback means a defect of ours.
"""

import re
import sysconfig
import traceback
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# From DEL on: control characters, separators of lines, direction marks, halves of surrogate pairs. JSON escapes others.
_OBEYED_IN_JSON = "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
_JOINERS = "\u200c\u200d"  # invisible, but part of Persian words and of emoji


def visible(text: str) -> str:
    """Replace control characters, terminal escapes and direction overrides in a text by escapes that one can see.

    Names of groups, columns and files may come from a stranger; printed as they are, they could command a terminal.

    >>> print(visible("a\\x1b[31mb\\u202ec"))
    a\\x1b[31mb\\u202ec
    >>> visible("Ελένη, O'Brien, 東京")
    "Ελένη, O'Brien, 東京"
    """
    if text.isprintable():
        return text
    return "".join(c if _is_harmless(c) else c.encode("unicode_escape").decode() for c in text)


def harmless_json(text: str) -> str:
    """Write what a terminal would obey inside the strings of a JSON text as escapes, which mean the same to JSON.

    >>> harmless_json('"a\\x9bb\\u202ec"')
    '"a\\\\u009bb\\\\u202ec"'
    """
    return re.sub(_OBEYED_IN_JSON, lambda found: f"\\u{ord(found[0]):04x}", text)


def _is_harmless(character: str) -> bool:
    # Other spaces than " " are not printable in Python's sense, but any terminal shows them.
    return character.isprintable() or character in _JOINERS or unicodedata.category(character) == "Zs"


class FairmarginError(ValueError):
    """Base of every error that a user can cause and mend. Its text is safe to print."""

    def __str__(self) -> str:
        return "\n".join(map(visible, super().__str__().split("\n")))


NOT_GIVEN = object()
"""In place of a value that an error does not name."""


class InputError(FairmarginError):
    """Raised when data, labels, groups or options do not fit together.

    Parameters
    ----------
    problem
        The whole sentence; with `field`, what follows the field's name: "must be at least 1".
    field
        The parameter, option or key that is wrong, as Python spells it. The outermost layer spells it for the user
        (`spelled`): `--up-to` on the command line, `[audit] up_to` in a study file.
    given
        The value that was given.
    others
        Further fields that `problem` names as `{name}`.
    of
        Class that `problem` is about, or whose parameter `field` is; a catalog that made the object replaces it by the
        name of its entry (`about`).

    >>> str(InputError("must be at least 1", field="steps", given=0))
    '`steps` must be at least 1; given 0.'
    >>> error = InputError("goes with {precision}: leave it out", field="target", others=("precision",))
    >>> error.spelled(lambda field: "--" + field)
    '--target goes with --precision: leave it out.'
    >>> str(InputError("must be at least 1", field="steps", given=0, of="PGD").about("pgd"))
    '`steps` of `pgd` must be at least 1; given 0.'
    """

    def __init__(
        self, problem: str, *, field: str = "", given: Any = NOT_GIVEN, others: tuple[str, ...] = (), of: str = ""
    ) -> None:
        self.problem, self.field, self.given, self.others, self.of = problem, field, given, others, of
        super().__init__(self.spelled(lambda name: f"`{name.rpartition('.')[2]}`"))

    def spelled(self, spell: Callable[[str], str]) -> str:
        """Return the sentence with every field spelled by `spell`."""
        text = self.problem
        if self.others:
            text = text.format(**{name: spell(name) for name in self.others})
        if self.of:  # a parameter of an object, not an option
            owner = self.of if self.field or self.of.startswith("`") else f"`{self.of}`"
            text = f"`{self.field}` of {owner} {text.rstrip('.')}" if self.field else f"{owner} {text.rstrip('.')}"
        elif self.field:
            text = f"{spell(self.field)} {text.rstrip('.')}"
        else:
            return text
        end = "" if text.endswith("?") else "."
        return f"{text}{end}" if self.given is NOT_GIVEN else f"{text}; given {self.given!r}."

    def within(self, section: str) -> "InputError":
        """Return the same error about a field of this section of a study."""
        field = f"{section}.{self.field}" if self.field else ""
        return type(self)(self.problem, field=field, given=self.given, others=self.others, of=self.of)

    def about(self, name: str) -> "InputError":
        """Return the same error with the object named as its catalog does."""
        if not self.of:
            return self
        return type(self)(self.problem, field=self.field, given=self.given, others=self.others, of=f"`{name}`")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self),)  # in another process the sentence is enough


class MissingDataError(InputError):
    """The files of a dataset are not on this machine."""


class UnreachedError(FairmarginError):
    """An average was asked over samples some of which have no finite distance."""


class ModelError(FairmarginError):
    """A model that cannot be read, or that lacks what an estimator needs."""


class StoreError(FairmarginError):
    """A run folder that cannot be read, written or continued."""


class UntrustedError(FairmarginError):
    """A file whose reading could run foreign code, and nobody said that it is trusted."""


@contextmanager
def exits_refused() -> Iterator[None]:
    """Raise an error if the code inside tries to end the program; Ctrl-C passes.

    A user's model or attack may call `sys.exit(0)`, which would otherwise end an unfinished audit as a success.
    Every exception that is not an `Exception` is treated in the same way.

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
        name, said = type(error).__name__, str(error)
        raise FairmarginError(
            f"The code of a model, attack or dataset tried to end the program ({name}{': ' if said else ''}{said}"
            f"{_place(error)}). Remove that call: the work is not finished."
        ) from error


def _place(error: BaseException) -> str:
    """Return where the error was raised, outside of the standard library if possible."""
    library = sysconfig.get_paths()["stdlib"]
    frames = traceback.extract_tb(error.__traceback__)[1:]  # the first is the context manager above
    own = [f for f in frames if not f.filename.startswith((library, "<frozen")) or "site-packages" in f.filename]
    return f"; '{(own or frames)[-1].filename}', line {(own or frames)[-1].lineno}" if frames else ""
