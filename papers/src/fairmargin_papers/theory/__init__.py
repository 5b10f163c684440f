"""Closed forms: two normal classes and a linear classifier, where robustness and fairness can be calculated.

>>> from fairmargin_papers.theory import GaussianPair
>>> round(GaussianPair(low=-1.0, high=1.0, spread=3.0).fair_threshold(), 3)
-0.5
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairmargin_papers.theory.gaussian_classes import GaussianClasses as GaussianClasses
    from fairmargin_papers.theory.gaussian_pair import GaussianPair as GaussianPair
    from fairmargin_papers.theory.generalisation import chance_beyond as chance_beyond
    from fairmargin_papers.theory.generalisation import mean_coin_gap as mean_coin_gap
    from fairmargin_papers.theory.statement import Statement as Statement

# Modules that define the public names, which are imported when they are first used.
_DEFINED_IN = {
    "GaussianClasses": "gaussian_classes",
    "GaussianPair": "gaussian_pair",
    "Statement": "statement",
    "chance_beyond": "generalisation",
    "mean_coin_gap": "generalisation",
}

__all__ = list(_DEFINED_IN)


def __getattr__(name: str) -> Any:
    if name in _DEFINED_IN:
        return getattr(import_module(f"fairmargin_papers.theory.{_DEFINED_IN[name]}"), name)
    raise AttributeError(f"module 'fairmargin_papers.theory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
