"""What is compiled when it is used for the first time on a machine."""

from typing import Any

from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.models.tables.classifier import TableClassifier

COMPILING = "Compiling the search (once on this machine, about half a minute)…"


def first_use(estimator: DistanceEstimator, model: Any) -> str:
    """Return a sentence if a measurement begins with the compilation of its search; "" if it does not.

    Parameters
    ----------
    estimator
        The estimator, or the tightest of several.
    model
        The model that it measures.
    """
    searches: list[Any] = []
    for each in getattr(estimator, "estimators", (estimator,)):
        if each.needs == "trees":
            from fairmargin.distances.exact_tree.search import search

            searches.append(search)
        elif each.needs == "linear" and isinstance(model, TableClassifier):
            from fairmargin.distances.linear_tables.search import nearest_rows

            searches.append(nearest_rows)
    return "" if all(map(is_compiled, searches)) else COMPILING


def is_compiled(function: Any) -> bool:
    """Return whether numba has machine code of a function: in this process, or on disk for its present source."""
    if getattr(function, "signatures", True):
        return True  # also if compilation is switched off, which makes it an ordinary function
    try:
        return bool(function._cache._cache_file._load_index())
    except (AttributeError, OSError, ValueError, EOFError):  # numba keeps no machine code, or stores it in another way
        return True
