"""The estimators by name, and their spelling in configuration files and on the command line."""

import re
from collections.abc import Mapping

from fairmargin.core.catalog import Catalog, Plain, split_options
from fairmargin.core.suggestion import there_are
from fairmargin.distances.combine import Tightest, check_joined, joined
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.errors import InputError

_PLUS = re.compile(r"\+(?=\s*[A-Za-z_])")  # only before a name: 1e+3 is a number

# A new estimator adds one line here: its name, the file that defines it and the class.
ESTIMATORS: Catalog[type] = Catalog(
    "estimator",
    "fairmargin.distances",
    {
        "exact_linear": "exact_linear:ExactLinear",
        "exact_tree": "exact_tree.estimator:ExactTree",
        "plumb": "plumb.estimator:Plumb",
        "deepfool": "searches.deepfool:DeepFool",
        "first_order": "proxies.first_order:FirstOrder",
        "softmax_margin": "proxies.softmax_margin:SoftmaxMargin",
        "last_two_radii": "proxies.last_two_radii:LastTwoRadii",
        "carlini_wagner": "searches.carlini_wagner:CarliniWagner",
        "ddn": "searches.ddn:DDN",
        "fmn": "searches.fmn:FMN",
        "alma": "searches.alma:ALMA",
        "verified": "verified:Verified",
        "smoothing": "smoothing.estimator:Smoothing",
        "smoothed_attack": "smoothing.attack:SmoothedAttack",
    },
)


# Proxies bound the distance on neither side, so they cannot be combined with others.
PROXIES = frozenset({"first_order", "softmax_margin", "last_two_radii"})
# Certificates are lower bounds: together with an attack they bracket the distance, but they cannot be joined with it.
CERTIFICATES = frozenset({"verified", "smoothing"})


def parse_estimator(text: str) -> DistanceEstimator:
    """Parse "name" or "name:field=value,field=value"; numbers may be fractions such as 4/255.

    Several estimators joined by + are the tightest of them.

    >>> parse_estimator("exact_linear:norm=linf")
    ExactLinear(norm=<Norm.LINF: 'linf'>)
    """
    parts = _PLUS.split(text)
    if text.strip().startswith("+") or text.strip().endswith("+"):
        raise InputError(f"{text!r}: expected an estimator on both sides of +, as in 'plumb+fmn:steps=50'.")
    if len(parts) > 1:
        return _joined(text, parts)
    name, given = split_options(text, "exact_linear:norm=linf")
    return build(name, given)


def build(name: str, given: Mapping[str, Plain]) -> DistanceEstimator:
    """Return the estimator of that name with these fields, given as plain values; the inverse of `describe`.

    >>> build("exact_linear", {"norm": "l1"})
    ExactLinear(norm=<Norm.L1: 'l1'>)
    """
    if not given and _PLUS.search(name):
        return parse_estimator(name)
    estimator: DistanceEstimator = ESTIMATORS.build(name, given)
    return estimator


def describe(estimator: DistanceEstimator) -> dict[str, Plain]:
    """Return the estimator's name and fields as plain values, for configuration files, manifests and store keys.

    >>> describe(build("exact_linear", {"norm": "linf"}))
    {'name': 'exact_linear', 'norm': 'linf'}
    """
    if isinstance(estimator, Tightest):
        return {"name": name_of(estimator)}
    return {"name": name_of(estimator), **ESTIMATORS.describe(estimator)}


def name_of(estimator: DistanceEstimator) -> str:
    """Return the estimator's name in the catalog; for `Tightest`, the spelling of its members with all fields.

    >>> name_of(build("exact_linear", {}))
    'exact_linear'
    """
    if isinstance(estimator, Tightest):
        return "+".join(map(_in_catalog, estimator.estimators))
    name = ESTIMATORS.name_of(estimator)
    if name is not None:
        return name
    raise InputError(
        f"`{type(estimator).__name__}` is not in the catalog of estimators, so its distances cannot be stored "
        f"by name. Measure with `fm.measure`, and audit or save the result. {there_are(ESTIMATORS)}"
    )


def _joined(text: str, parts: list[str]) -> Tightest:
    """Return the tightest of several estimators; refuse members whose distances cannot be combined."""
    members = [parse_estimator(part) for part in parts]
    for name in map(name_of, members):
        if name in PROXIES:
            raise InputError(
                f"{text!r}: `{name}` is a proxy, which bounds the distance on neither side, and cannot be joined by +. "
                "Leave it out, or add it as a separate --estimator."
            )
        if name in CERTIFICATES:
            raise InputError(
                f"{text!r}: `{name}` is a lower bound, and + joins upper bounds. Add it as a separate --estimator: "
                "an upper and a lower bound bracket the distance, and of several certificates the largest is used."
            )
    try:
        check_joined(members, [name_of(member) for member in members])
    except InputError as error:
        raise InputError(f"{text!r}: {error}") from None
    return Tightest(*members)


def spelled(estimator: DistanceEstimator) -> str:
    """Return name and settings of any estimator as a text, "" if its settings are unknown.

    Two estimators with equal texts measure the same. An estimator that is not in the catalog is described by its
    `repr`, unless that only shows an address in memory.

    >>> spelled(build("exact_linear", {"norm": "linf"}))
    'exact_linear:norm=linf'
    """
    if isinstance(estimator, Tightest):
        return joined(*map(spelled, estimator.estimators))
    if ESTIMATORS.name_of(estimator) is not None:
        return _in_catalog(estimator)
    text = repr(estimator)
    return "" if re.search(r" at 0x[0-9a-fA-F]+>", text) else text


def _in_catalog(estimator: DistanceEstimator) -> str:
    """Return the text from which `parse_estimator` builds this estimator."""
    settings = describe(estimator)
    name = settings.pop("name")
    return f"{name}:{','.join(f'{field}={value}' for field, value in settings.items())}" if settings else str(name)
