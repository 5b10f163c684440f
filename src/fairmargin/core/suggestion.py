"""Suggestions for misspelt names in error messages."""

from collections.abc import Iterable
from difflib import get_close_matches

_CUTOFF = 0.65  # similarity: "occupation" and "education" have 0.63, "sxe" and "sex" 0.67
_SHORTEST_BEGINNING = 3  # a shorter text is the beginning of many names by chance
_SHOWN = 30  # maximum number of names listed; further names are counted


def suggest(given: str, known: Iterable[str]) -> str:
    """Return a question with the known name most similar to `given`, if there is one, and the list of known names.

    >>> suggest("sxe", ["sex", "race"])
    "Did you mean 'sex'? There are: sex, race."
    >>> suggest("occupation", ["age", "education"])
    'There are: age, education.'
    >>> suggest("resnet18", ["alexnet", "resnet18_imagenet"])
    "Did you mean 'resnet18_imagenet'? There are: alexnet, resnet18_imagenet."
    """
    names = list(dict.fromkeys(map(str, known)))
    by_lower = {name.lower(): name for name in names}
    close = get_close_matches(given.lower(), by_lower, n=1, cutoff=_CUTOFF)
    if not close and len(given) >= _SHORTEST_BEGINNING:
        close = [name for name in by_lower if name.startswith(given.lower())]
    question = f"Did you mean {by_lower[close[0]]!r}? " if close else ""
    return question + there_are(names)


def there_are(known: Iterable[str]) -> str:
    """Return a sentence that lists the known names, at most 30 of them."""
    names = list(map(str, known))
    if not names:
        return "There are none."
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"There are: {', '.join(names[:_SHOWN])}{more}."
