"""Pure functions of distances and groups: how robust is each group, and is it less so than the rest?

>>> from fairmargin import metrics
>>> metrics.holm.__name__
'holm'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairmargin.metrics.accuracy import accuracy_by_group as accuracy_by_group
    from fairmargin.metrics.accuracy import accuracy_gap as accuracy_gap
    from fairmargin.metrics.accuracy import accuracy_variance as accuracy_variance
    from fairmargin.metrics.accuracy import accuracy_variation as accuracy_variation
    from fairmargin.metrics.accuracy import boundary_error as boundary_error
    from fairmargin.metrics.accuracy import error_split as error_split
    from fairmargin.metrics.accuracy import error_split_by_group as error_split_by_group
    from fairmargin.metrics.accuracy import natural_error as natural_error
    from fairmargin.metrics.accuracy import parity_violation as parity_violation
    from fairmargin.metrics.accuracy import robust_error as robust_error
    from fairmargin.metrics.agreement import sign_agreement as sign_agreement
    from fairmargin.metrics.bias import largest_robustness_bias as largest_robustness_bias
    from fairmargin.metrics.bias import median_distance as median_distance
    from fairmargin.metrics.bias import overall_robustness as overall_robustness
    from fairmargin.metrics.bias import relative_robustness_variance as relative_robustness_variance
    from fairmargin.metrics.bias import robustness as robustness
    from fairmargin.metrics.bias import robustness_bias as robustness_bias
    from fairmargin.metrics.bias import robustness_variance as robustness_variance
    from fairmargin.metrics.bias import sigma as sigma
    from fairmargin.metrics.bias import sigma_parts as sigma_parts
    from fairmargin.metrics.bias import worst_group as worst_group
    from fairmargin.metrics.certificates import certified_accuracy as certified_accuracy
    from fairmargin.metrics.certificates import certified_mean as certified_mean
    from fairmargin.metrics.certificates import false_certificates as false_certificates
    from fairmargin.metrics.certified import Certified as Certified
    from fairmargin.metrics.certified import certify_groups as certify_groups
    from fairmargin.metrics.exact_intervals import binomial_interval as binomial_interval
    from fairmargin.metrics.exact_intervals import kolmogorov_band as kolmogorov_band
    from fairmargin.metrics.permutation import holm as holm
    from fairmargin.metrics.permutation import largest_bias_test as largest_bias_test
    from fairmargin.metrics.robust_accuracy import RobustAccuracy as RobustAccuracy
    from fairmargin.metrics.spread import accuracy_gap_interval as accuracy_gap_interval
    from fairmargin.metrics.spread import accuracy_variance_interval as accuracy_variance_interval
    from fairmargin.metrics.undefined import Undefined as Undefined
    from fairmargin.metrics.under_attack import accuracy_under_attack as accuracy_under_attack

# Room -> what it gives; resolved when first used, as in the package itself.
_ROOMS = {
    "accuracy": (
        "accuracy_by_group accuracy_gap accuracy_variance accuracy_variation boundary_error error_split "
        "error_split_by_group natural_error parity_violation robust_error"
    ),
    "agreement": "sign_agreement",
    "bias": (
        "largest_robustness_bias median_distance overall_robustness relative_robustness_variance robustness "
        "robustness_bias robustness_variance sigma sigma_parts worst_group"
    ),
    "certificates": "certified_accuracy certified_mean false_certificates",
    "certified": "Certified certify_groups",
    "exact_intervals": "binomial_interval kolmogorov_band",
    "permutation": "holm largest_bias_test",
    "robust_accuracy": "RobustAccuracy",
    "spread": "accuracy_gap_interval accuracy_variance_interval",
    "under_attack": "accuracy_under_attack",
    "undefined": "Undefined",
}
_DEFINED_IN = {name: room for room, names in _ROOMS.items() for name in names.split()}

__all__ = list(_DEFINED_IN)


def __getattr__(name: str) -> Any:
    if name in _DEFINED_IN:
        return getattr(import_module(f"fairmargin.metrics.{_DEFINED_IN[name]}"), name)
    if name in _ROOMS:
        return import_module(f"fairmargin.metrics.{name}")
    raise AttributeError(f"module 'fairmargin.metrics' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
