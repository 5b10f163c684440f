"""The few ways in which Fairmargin says no.

Every error is a sentence for the person at the keyboard: what was expected, what was given, where, and what to do.
The command line prints the sentence and exits with code 2; a traceback means a defect of ours.
"""

import unicodedata

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


def _is_harmless(character: str) -> bool:
    # Other spaces than " " are not printable in Python's sense, but any terminal shows them.
    return character.isprintable() or character in _JOINERS or unicodedata.category(character) == "Zs"


class FairmarginError(ValueError):
    """Base of every error that a user can cause and mend. Its text is safe to print."""

    def __str__(self) -> str:
        return "\n".join(map(visible, super().__str__().split("\n")))


class InputError(FairmarginError):
    """Data, labels, groups or options that do not fit together."""


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
