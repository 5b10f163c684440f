"""Results of simulations, kept in a folder outside of the repository, so that an interrupted run continues.

They belong to a version of the source code: after a change of the statistics or of the scenarios everything runs again.
"""

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_HERE = Path(__file__).parent
_SOURCES = (
    *sorted((ROOT / "src" / "fairmargin" / "inference").rglob("*.py")),
    ROOT / "src" / "fairmargin" / "analyses" / "audit.py",
    ROOT / "src" / "fairmargin" / "analyses" / "comparison.py",
    *(_HERE / f"{name}.py" for name in ("populations", "scenarios", "coverage", "real_distances")),
    *(_HERE / f"{name}_scenarios.py" for name in ("censored", "compare", "precision", "measure")),
)

Keep = Callable[[str, Callable[[], str]], str]  # (name, how to compute a text) -> the text


def folder() -> Path:
    """Return the folder of all results: `FAIRMARGIN_COVERAGE` if set."""
    return Path(os.environ.get("FAIRMARGIN_COVERAGE", Path.home() / ".cache" / "fairmargin-coverage"))


def file_of(name: str, ending: str) -> Path:
    """Return the file of a result of this version of the source code."""
    return folder() / _version() / f"{hashlib.sha256(name.encode()).hexdigest()[:12]}{ending}"


def kept(name: str, compute: Callable[[], str], ending: str = ".txt") -> str:
    """Return a text that is computed only if it is not kept."""
    file = file_of(name, ending)
    if not file.is_file():
        text, part = compute(), file.with_suffix(".part")
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.rename(file)
    return file.read_text(encoding="utf-8")


@cache
def _version() -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in _SOURCES)).hexdigest()[:12]
