"""The estimators by name, and their spelling in configuration files and on the command line."""

import re
from collections.abc import Mapping

from fairmargin.core.catalog import Catalog, Plain, split_options
from fairmargin.core.suggestion import there_are
from fairmargin.distances.combine import Tightest, check_joined, joined
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.errors import InputError

_PLUS = re.compile(r"\+(?=\s*[A-Za-z_])")  # before a name: 1e+3 is a number

# A new estimator is one line here: its name, the file that defines it and the class.
ESTIMATORS: Catalog[type] = Catalog(
    "estimator",
    "fairmargin.distances",
    {
        "exact_linear": "exact_linear:ExactLinear",
        "plumb": "plumb:Plumb",
        "deepfool": "deepfool:DeepFool",
        "first_order": "first_order:FirstOrder",
        "softmax_margin": "softmax_margin:SoftmaxMargin",
        "last_two_radii": "last_two_radii:LastTwoRadii",
        "carlini_wagner": "carlini_wagner:CarliniWagner",
        "ddn": "ddn:DDN",
        "fmn": "fmn:FMN",
        "alma": "alma:ALMA",
        "verified": "verified:Verified",
        "smoothing": "smoothing:Smoothing",
        "smoothed_attack": "smoothed_attack:SmoothedAttack",
    },
)


# These bound the distance on neither side, so that among several none is the tightest.
PROXIES = frozenset({"first_order", "softmax_margin", "last_two_radii"})
CERTIFICATES = frozenset({"verified", "smoothing"})  # audited beside an attack, they bracket; they do not sharpen it


def parse_estimator(text: str) -> DistanceEstimator:
    """An estimator from "name" or "name:field=value,field=value"; numbers may be fractions such as 4/255.

    Several joined by + are the tightest of them.

    >>> parse_estimator("exact_linear:norm=linf")
    ExactLinear(norm=<Norm.LINF: 'linf'>)
    """
    several = _PLUS.split(text)
    if text.strip().startswith("+") or text.strip().endswith("+"):
        raise InputError(f"{text!r}: expected an estimator on both sides of +, as in 'plumb+fmn:steps=50'.")
    if len(several) > 1:
        return _joined(text, several)
    name, given = split_options(text, "exact_linear:norm=linf")
    return build(name, given)


def build(name: str, given: Mapping[str, Plain]) -> DistanceEstimator:
    """The estimator of that name with those fields, from plain values; the inverse of `describe`.

    >>> build("exact_linear", {"norm": "l1"})
    ExactLinear(norm=<Norm.L1: 'l1'>)
    """
    if not given and _PLUS.search(name):
        return parse_estimator(name)
    made: DistanceEstimator = ESTIMATORS.build(name, given)
    return made


def describe(estimator: DistanceEstimator) -> dict[str, Plain]:
    """The estimator's name and fields as plain values, for configuration files, manifests and store keys.

    >>> describe(build("exact_linear", {"norm": "linf"}))
    {'name': 'exact_linear', 'norm': 'linf'}
    """
    if isinstance(estimator, Tightest):
        return {"name": name_of(estimator)}
    return {"name": name_of(estimator), **ESTIMATORS.describe(estimator)}


def name_of(estimator: DistanceEstimator) -> str:
    """The estimator's name in the catalog; of several joined by +, their spelling with all fields.

    >>> name_of(build("exact_linear", {}))
    'exact_linear'
    """
    if isinstance(estimator, Tightest):
        return "+".join(map(_in_catalog, estimator.estimators))
    name = ESTIMATORS.name_of(estimator)
    if name is not None:
        return name
    raise InputError(
        f"`{type(estimator).__name__}` is not in the catalog of estimators, and nothing can be kept under its name: "
        f"measure with `fm.measure`, and audit or save what that returns. {there_are(ESTIMATORS)}"
    )


def _joined(text: str, several: list[str]) -> Tightest:
    """Estimators joined by +, after looking that their distances can be combined: not when all are measured."""
    members = [parse_estimator(part) for part in several]
    for name in map(name_of, members):
        if name in PROXIES:
            raise InputError(
                f"{text!r}: `{name}` is a proxy, which bounds the distance on neither side, and cannot be joined by +. "
                "Leave it out, or audit it beside the others by an --estimator of its own."
            )
        if name in CERTIFICATES:
            raise InputError(
                f"{text!r}: `{name}` bounds the distance from below, and + joins what bounds it from above. Audit it "
                "beside the others by an --estimator of its own: together they bracket the truth, of several "
                "certificates by the best."
            )
    try:
        check_joined(members, [name_of(member) for member in members])
    except InputError as error:
        raise InputError(f"{text!r}: {error}") from None
    return Tightest(*members)


def spelled(estimator: DistanceEstimator) -> str:
    """Return name and settings of any estimator as a text, "" where they cannot be told.

    Two estimators with equal texts measure alike. An estimator that is not in the catalog is described by its `repr`,
    unless that only names an address in memory.

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
    """The text from which `parse_estimator` makes this estimator again."""
    settings = describe(estimator)
    name = settings.pop("name")
    return f"{name}:{','.join(f'{field}={value}' for field, value in settings.items())}" if settings else str(name)
