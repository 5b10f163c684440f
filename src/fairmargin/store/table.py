"""Write tables as CSV files that are safe to open in a spreadsheet and to print in a terminal."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairmargin.errors import visible
from fairmargin.store.atomic import atomic_write_text

if TYPE_CHECKING:
    import pandas as pd

# Spreadsheets interpret a cell that begins with one of these characters as a formula; the last four are full-width
# forms. In locales where columns are separated by semicolons, a cell can also begin after a semicolon.
_FORMULA = re.compile("(^|;)(?=[\\s\u200c\u200d]*[=+\\-@\uff1d\uff0b\uff0d\uff20])")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def write_csv(path: Path, table: "pd.DataFrame") -> None:
    """Write a table as a CSV file atomically, without its index and with every text made safe by `cell`."""
    import pandas as pd

    texts = [name for name in table.columns if not pd.api.types.is_numeric_dtype(table[name])]
    safe = table.assign(**{name: table[name].astype(object).map(_cell) for name in texts})
    safe.columns = pd.Index([cell(str(name)) for name in safe.columns])
    atomic_write_text(path, safe.to_csv(index=False))


def cell(text: str) -> str:
    r"""Make a text safe: prefix formulas by an apostrophe, and escape control characters.

    Numbers do not change, also if they are names of groups.

    >>> cell("=1+1"), cell("-5"), cell("-5 to 0"), cell("F"), cell("a;@b")
    ("'=1+1", '-5', "'-5 to 0", 'F', "a;'@b")
    >>> cell("\u200c =1").startswith("'")
    True
    >>> print(cell("\x1b[2J"))
    \x1b[2J
    """
    shown = visible(text)
    return shown if _NUMBER.fullmatch(shown) else _FORMULA.sub(r"\1'", shown)


def _cell(value: Any) -> Any:
    return cell(value) if isinstance(value, str) else value
