"""Pure functions of distances and groups: how robust is each group, and is it less so than the rest?

>>> from fairmargin import metrics
>>> metrics.holm.__name__
'holm'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairmargin.analyses.certified import Certified as Certified
    from fairmargin.analyses.certified import certify_groups as certify_groups
    from fairmargin.analyses.robust_accuracy import RobustAccuracy as RobustAccuracy
    from fairmargin.analyses.robust_accuracy import accuracy_under_attack as accuracy_under_attack
    from fairmargin.core.undefined import Undefined as Undefined
    from fairmargin.inference.accuracy import accuracy_by_group as accuracy_by_group
    from fairmargin.inference.accuracy import accuracy_gap as accuracy_gap
    from fairmargin.inference.accuracy import accuracy_variance as accuracy_variance
    from fairmargin.inference.accuracy import accuracy_variation as accuracy_variation
    from fairmargin.inference.accuracy import boundary_error as boundary_error
    from fairmargin.inference.accuracy import error_split as error_split
    from fairmargin.inference.accuracy import error_split_by_group as error_split_by_group
    from fairmargin.inference.accuracy import natural_error as natural_error
    from fairmargin.inference.accuracy import parity_violation as parity_violation
    from fairmargin.inference.accuracy import robust_error as robust_error
    from fairmargin.inference.agreement import sign_agreement as sign_agreement
    from fairmargin.inference.bias import largest_robustness_bias as largest_robustness_bias
    from fairmargin.inference.bias import median_distance as median_distance
    from fairmargin.inference.bias import overall_robustness as overall_robustness
    from fairmargin.inference.bias import relative_robustness_variance as relative_robustness_variance
    from fairmargin.inference.bias import robustness as robustness
    from fairmargin.inference.bias import robustness_bias as robustness_bias
    from fairmargin.inference.bias import robustness_variance as robustness_variance
    from fairmargin.inference.bias import sigma as sigma
    from fairmargin.inference.bias import sigma_parts as sigma_parts
    from fairmargin.inference.bias import worst_group as worst_group
    from fairmargin.inference.certificates import certified_accuracy as certified_accuracy
    from fairmargin.inference.certificates import certified_mean as certified_mean
    from fairmargin.inference.certificates import false_certificates as false_certificates
    from fairmargin.inference.exact_intervals import binomial_interval as binomial_interval
    from fairmargin.inference.exact_intervals import kolmogorov_band as kolmogorov_band
    from fairmargin.inference.permutation import holm as holm
    from fairmargin.inference.permutation import largest_bias_test as largest_bias_test
    from fairmargin.inference.spread import accuracy_gap_interval as accuracy_gap_interval
    from fairmargin.inference.spread import accuracy_variance_interval as accuracy_variance_interval

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
_PLACES = {
    "accuracy": "fairmargin.inference.accuracy",
    "agreement": "fairmargin.inference.agreement",
    "bias": "fairmargin.inference.bias",
    "certificates": "fairmargin.inference.certificates",
    "certified": "fairmargin.analyses.certified",
    "exact_intervals": "fairmargin.inference.exact_intervals",
    "permutation": "fairmargin.inference.permutation",
    "robust_accuracy": "fairmargin.analyses.robust_accuracy",
    "spread": "fairmargin.inference.spread",
    "under_attack": "fairmargin.analyses.robust_accuracy",
    "undefined": "fairmargin.core.undefined",
}
_DEFINED_IN = {name: _PLACES[room] for room, names in _ROOMS.items() for name in names.split()}

__all__ = list(_DEFINED_IN)


def __getattr__(name: str) -> Any:
    if name in _DEFINED_IN:
        return getattr(import_module(_DEFINED_IN[name]), name)
    raise AttributeError(f"module 'fairmargin.metrics' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
