"""The helping half of an error about a name."""

from collections.abc import Iterable
from difflib import get_close_matches

_SHOWN = 30  # names listed before the rest is only counted


def suggest(given: str, known: Iterable[str]) -> str:
    """Suggest what the writer of `given` may have meant, and list what there is.

    >>> suggest("sxe", ["sex", "race"])
    "Did you mean 'sex'? There are: sex, race."
    """
    names = list(dict.fromkeys(map(str, known)))
    by_lower = {name.lower(): name for name in names}
    close = get_close_matches(given.lower(), by_lower, n=1)
    question = f"Did you mean {by_lower[close[0]]!r}? " if close else ""
    return question + there_are(names)


def there_are(known: Iterable[str]) -> str:
    """List names in a sentence, cut where it gets long."""
    names = list(map(str, known))
    if not names:
        return "There are none."
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"There are: {', '.join(names[:_SHOWN])}{more}."
