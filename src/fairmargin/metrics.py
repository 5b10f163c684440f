"""Temporary names of functions that moved to `inference` and `analyses`. They will be removed in the next version.

>>> from fairmargin import metrics
>>> metrics.holm.__name__
'holm'
"""

from importlib import import_module
from typing import Any

_PLACES = {
    "fairmargin.analyses.certified": "Certified certified_accuracy certified_mean certify_groups false_certificates",
    "fairmargin.analyses.robust_accuracy": "RobustAccuracy accuracy_under_attack",
    "fairmargin.core.undefined": "Undefined",
    "fairmargin.inference.measures": (
        "accuracy_by_group error_split largest_robustness_bias parity_violation robustness_bias sigma sign_agreement"
    ),
    "fairmargin.inference.permutation": "holm largest_bias_test",
    "fairmargin.inference.shares": "binomial_interval kolmogorov_band",
}
_DEFINED_IN = {name: place for place, names in _PLACES.items() for name in names.split()}

__all__ = list(_DEFINED_IN)


def __getattr__(name: str) -> Any:
    if name in _DEFINED_IN:
        return getattr(import_module(_DEFINED_IN[name]), name)
    raise AttributeError(f"module 'fairmargin.metrics' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
