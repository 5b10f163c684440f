"""The estimators by name, and their spelling in configuration files and on the command line."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum
from fractions import Fraction
from importlib import import_module
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from fairmargin.core.norm import Norm
from fairmargin.core.suggestion import suggest, there_are
from fairmargin.distances.combine import Tightest
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.errors import InputError

Plain = str | int | float | bool | None


class _Estimators(Mapping[str, type]):
    """Names to classes, each imported when it is first asked for: an exact audit of a linear model loads no torch."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self.places = dict(places)

    def __getitem__(self, name: str) -> type:
        if name not in self.places:
            raise KeyError(f"Unknown estimator `{name}`. {suggest(name, self.places)}")
        module, _, kind = self.places[name].partition(":")
        found: type = getattr(import_module(f"fairmargin.distances.{module}"), kind)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self.places  # Mapping would import the class to find out

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


_PLUS = re.compile(r"\+(?=\s*[A-Za-z_])")  # before a name: 1e+3 is a number

# A new estimator is one line here: its name, the file that defines it and the class.
ESTIMATORS = _Estimators(
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
    }
)


# These bound the distance on neither side, so that among several none is the tightest.
PROXIES = frozenset({"first_order", "softmax_margin", "last_two_radii"})
CERTIFICATES = frozenset({"verified", "smoothing"})  # audited beside an attack, they bracket; they do not sharpen it

_NAMES = {place.partition(":")[2]: name for name, place in ESTIMATORS.places.items()}
_CLASS = re.compile(rf"`({'|'.join(_NAMES)})`|(?<![`\w.])({'|'.join(_NAMES)})(?![`\w.(])")


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
    name, _, settings = text.partition(":")
    given: dict[str, Plain] = {}
    for setting in filter(None, (part.strip() for part in settings.split(","))):
        field, equals, value = setting.partition("=")
        if not equals:
            raise InputError(f"{text!r}: expected field=value, given {setting!r}, as in 'exact_linear:norm=linf'.")
        if field.strip() in given:
            raise InputError(f"{text!r}: the field `{field.strip()}` is given twice.")
        given[field.strip()] = value.strip()
    return build(name.strip(), given)


def build(name: str, given: Mapping[str, Plain]) -> DistanceEstimator:
    """The estimator of that name with those fields, from plain values; the inverse of `describe`.

    >>> build("exact_linear", {"norm": "l1"})
    ExactLinear(norm=<Norm.L1: 'l1'>)
    """
    if not given and _PLUS.search(name):
        return parse_estimator(name)
    if name not in ESTIMATORS:
        raise InputError(f"Unknown estimator `{name}`. {suggest(name, ESTIMATORS)}")
    estimator = ESTIMATORS[name]
    known = {field.name: field for field in fields(estimator)}
    for key in given:
        if key not in known:
            raise InputError(f"`{name}`: unknown field `{key}`. {suggest(key, known)}")
    for field in known.values():
        if field.name not in given and not _has_default(field):
            raise InputError(f"`{name}` needs the field `{field.name}`; write `{name}:{field.name}=…`.")
    hints = get_type_hints(estimator)
    typed = {key: _coerce(value, hints[key], f"`{name}`, field `{key}`") for key, value in given.items()}
    try:
        made: DistanceEstimator = estimator(**typed)
    except InputError as error:
        raise InputError(in_options(str(error))) from None
    return made


def in_options(sentence: str) -> str:
    """A sentence about estimators that names them as options do, and not by their classes.

    >>> in_options("`Plumb` cannot measure in L1; `steps` of DDN must be at least 1.")
    '`plumb` cannot measure in L1; `steps` of `ddn` must be at least 1.'
    """
    return _CLASS.sub(lambda found: f"`{_NAMES[found[1] or found[2]]}`", sentence)


def describe(estimator: DistanceEstimator) -> dict[str, Plain]:
    """The estimator's name and fields as plain values, for configuration files, manifests and store keys.

    >>> describe(build("exact_linear", {"norm": "linf"}))
    {'name': 'exact_linear', 'norm': 'linf'}
    """
    if isinstance(estimator, Tightest):
        return {"name": name_of(estimator)}
    values = {field.name: getattr(estimator, field.name) for field in fields(type(estimator))}  # type: ignore[arg-type]
    return {"name": name_of(estimator), **{k: v.value if isinstance(v, Enum) else v for k, v in values.items()}}


def name_of(estimator: DistanceEstimator) -> str:
    """The estimator's name in the catalog; of several joined by +, their spelling with all fields.

    >>> name_of(build("exact_linear", {}))
    'exact_linear'
    """
    if isinstance(estimator, Tightest):
        return "+".join(map(_spelled, estimator.estimators))
    kind = type(estimator)
    for name, place in ESTIMATORS.places.items():
        if f"{kind.__module__}:{kind.__name__}" == f"fairmargin.distances.{place}":
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
                f"{text!r}: `{name}` bounds the distance from below, and cannot be joined by + with what bounds it "
                "from above. Audit it beside the others by an --estimator of its own: together they bracket the truth."
            )
    try:
        return Tightest(*members)
    except InputError as error:
        raise InputError(f"{text!r}: {in_options(str(error))}") from None


def _spelled(estimator: DistanceEstimator) -> str:
    """The text from which `parse_estimator` makes this estimator again."""
    settings = describe(estimator)
    name = settings.pop("name")
    return f"{name}:{','.join(f'{field}={value}' for field, value in settings.items())}" if settings else str(name)


def _coerce(value: Plain, annotation: Any, where: str) -> Any:
    """The plain value as the type the field is annotated with."""
    if get_origin(annotation) in (Union, UnionType):
        options = get_args(annotation)
        if type(None) in options and (value is None or str(value).lower() in ("none", "")):
            return None
        (annotation,) = (option for option in options if option is not type(None))
    try:
        return _CONVERT[annotation](value)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except (ValueError, TypeError, KeyError, ZeroDivisionError):
        raise InputError(f"{where}: expected {_WORDS[annotation]}, given {value!r}.") from None


def _whole(value: Plain) -> int:
    number = _number(value)
    if not number.is_integer():
        raise ValueError(value)
    return int(number)


def _number(value: Plain) -> float:
    if isinstance(value, bool) or value is None:
        raise TypeError(value)
    return float(Fraction(value)) if isinstance(value, str) and "/" in value else float(value)


def _truth(value: Plain) -> bool:
    return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[str(value).strip().lower()]


_CONVERT: dict[Any, Any] = {int: _whole, float: _number, bool: _truth, str: str, Norm: Norm.parse}
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", Norm: "a norm"}


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING
