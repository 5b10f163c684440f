"""Base class and field types of options: pydantic models whose fields describe what a run does.

Each field is declared once, by its name, type, default and docstring. From this declaration `fairmargin.cli.options`
creates the command-line option, and `fairmargin.study.study` reads and writes the key of the study file (TOML).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from fairmargin.core.radius import as_number, chosen_radii, parse_radius
from fairmargin.core.suggestion import suggest
from fairmargin.errors import NOT_GIVEN, InputError

_Kind = TypeVar("_Kind", bound="Options")
STORED_BELOW = 2**63
"""Records store numbers below this limit, so that each fits into an integer of 64 bits."""
_EXPECTED = {
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_type": "must be a whole number",
    "int_parsing_size": "must be a whole number of fewer digits",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be a text",
    "missing": "is missing",
}


class Options(BaseModel):
    """Base class of all options: immutable, refuses unknown fields, documents each field by the docstring below it."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        ser_json_inf_nan="strings",
        arbitrary_types_allowed=True,
    )
    panel: ClassVar[str] = "Options"
    """Heading of the group of options in the output of `--help`."""

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise input_error(error, type(self)) from None

    def plain(self) -> dict[str, Any]:
        """Return what differs from the defaults as plain values; the class makes the same options of them again."""
        return self.model_dump(mode="json", exclude_defaults=True)


@dataclass(frozen=True, slots=True)
class OnCommandLine:
    """Appearance of a field on the command line, where it does not follow from the field's type.

    Parameters
    ----------
    repeat
        Whether the option is given several times, once per value. Otherwise several values are separated by commas.
    hidden
        Whether the field has no command-line option and can be set in study files and Python only.
    metavar
        Placeholder of the value in the output of `--help`.
    """

    repeat: bool = False
    hidden: bool = False
    metavar: str = ""


def _texts(value: Any) -> Any:
    """Split a text at its commas. Lists and tuples are not split."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _listed(value: Any) -> Any:
    """Wrap a single value into a tuple; return an empty tuple for None and the empty text."""
    return tuple(value) if isinstance(value, list | tuple) else () if value in ("", None) else (value,)


def _numbers(value: Any) -> Any:
    try:
        return tuple(as_number(part) for part in _texts(value))
    except (ValueError, TypeError, ZeroDivisionError):
        raise InputError("must be numbers separated by commas, as in 0.485,0.456,0.406") from None


def _bounds(value: Any) -> Any:
    if value in ("", None):
        return None
    try:
        low, high = (float(part) for part in _texts(value))
    except (ValueError, TypeError):
        raise InputError("must be two numbers, low and high, separated by a comma, as in 0,1 or -inf,inf") from None
    if low > high:
        raise InputError("must be two numbers, low and high, in this order, as in 0,1")
    return low, high


def _crossed(value: Any) -> Any:
    """Read each text "race,sex" as an intersection of columns. A flat list of names is a single intersection."""
    given = _listed(value)
    if given and all(isinstance(part, str) and "," not in part for part in given) and not isinstance(value, str):
        given = (given,)
    found = tuple(_texts(part) for part in given)
    for names in found:
        if len(set(names)) < max(2, len(names)):
            raise InputError("must name two or more different columns, as in race,sex", given=",".join(names))
    return found


def _bins(value: Any) -> Any:
    """Read each text "age=30,45,60" as a column and its edges; a dict gives the edges by the names of columns."""
    problem = "must be rising numbers, the edges between groups, as in age=30,45,60"
    found: dict[str, tuple[float, ...]] = {}
    for each in value.items() if isinstance(value, Mapping) else _listed(value):
        name, edges = (part.strip() for part in each.rpartition("=")[::2]) if isinstance(each, str) else each
        if name in found:
            raise InputError(f"gives the edges of {name!r} twice: give them once")
        try:
            numbers = tuple(float(number) for number in _texts(edges))
        except (TypeError, ValueError):
            numbers = ()
        rising = all(low < high for low, high in pairwise(numbers)) and all(map(math.isfinite, numbers))
        if not name or not numbers or not rising:
            given = edges if isinstance(edges, str) else ",".join(map(str, _listed(edges)))
            raise InputError(problem, given=f"{name}={given}" if name else given)
        found[str(name)] = numbers
    return tuple(found.items())


def _radii(value: Any) -> Any:
    found = tuple(dict.fromkeys(_radius(part) for part in _listed(value)))
    if 0 in found:
        raise InputError("must be above 0: with radius 0 no input can change, and robust accuracy equals accuracy")
    return found


def _chosen_radii(value: Any) -> Any:
    try:
        found = chosen_radii(value)
    except InputError as error:
        raise InputError(error.problem, given=error.given) from None
    return tuple(map(_radius, found))


def _number(value: Any) -> Any:
    """Read fractions such as 4/255. Refuse booleans, which Python would convert to 0 and 1."""
    if isinstance(value, bool):
        raise InputError("must be a number")
    if isinstance(value, str) and "/" in value:
        return _radius(value)
    return value


def _radius(value: Any) -> float:
    """Read a radius. Errors do not name the field "radius", because the option may have another name."""
    try:
        radius = parse_radius(value)
    except InputError as error:
        raise InputError(error.problem, given=error.given) from None
    if radius >= STORED_BELOW:
        raise InputError("must be below 2**63")
    return radius


def _whole(value: Any) -> Any:
    if isinstance(value, bool):
        raise InputError("must be a whole number")
    return value


def _storable(value: int) -> int:
    if abs(value) >= STORED_BELOW:
        raise InputError("must be a whole number below 2**63")
    return value


Whole = Annotated[int, BeforeValidator(_whole), AfterValidator(_storable)]
Number = Annotated[float, BeforeValidator(_number)]
Names = Annotated[tuple[str, ...], BeforeValidator(_texts), OnCommandLine(metavar="NAME,…")]
"""Names, which are separated by commas on the command line."""
Numbers = Annotated[tuple[float, ...], BeforeValidator(_numbers), OnCommandLine(metavar="NUMBER,…")]
Listed = Annotated[tuple[str, ...], BeforeValidator(_listed), OnCommandLine(repeat=True)]
"""Texts, for which the option is repeated on the command line."""
Crosses = Annotated[
    tuple[tuple[str, ...], ...], BeforeValidator(_crossed), OnCommandLine(repeat=True, metavar="NAME,NAME")
]
Bins = Annotated[
    tuple[tuple[str, tuple[float, ...]], ...],
    BeforeValidator(_bins),
    OnCommandLine(repeat=True, metavar="NAME=NUMBER,…"),
]
"""Names of columns, each with the rising edges between groups by its numbers."""
Bounds = Annotated[tuple[float, float] | None, BeforeValidator(_bounds), OnCommandLine(metavar="LOW,HIGH")]
Radius = Annotated[float, BeforeValidator(_radius), OnCommandLine(metavar="RADIUS")]
Radii = Annotated[tuple[float, ...], BeforeValidator(_radii), OnCommandLine(repeat=True, metavar="RADIUS")]

ChosenRadii = Annotated[tuple[float, ...], BeforeValidator(_chosen_radii), OnCommandLine(metavar="RADIUS,…")]
"""Radii in ascending order, which are separated by commas on the command line; 0 is allowed."""


def validated(kind: type[_Kind], fields: Mapping[str, Any]) -> _Kind:
    """Create options from plain values; raise an `InputError` that names the invalid field.

    >>> class Example(Options):
    ...     steps: Whole = 1
    >>> validated(Example, {"step": 2})
    Traceback (most recent call last):
    ...
    fairmargin.errors.InputError: `step` is unknown. Did you mean 'steps'?
    >>> validated(Example, {"steps": "two"})
    Traceback (most recent call last):
    ...
    fairmargin.errors.InputError: `steps` must be a whole number; given 'two'.
    """
    for name in fields:
        if name not in kind.model_fields:
            raise InputError(f"is unknown. {_meant(str(name), kind.model_fields)}", field=str(name))
    return kind(**fields)


def input_error(error: ValidationError, kind: type[BaseModel]) -> InputError:
    """Convert the first problem that pydantic reports to an `InputError` that names the field."""
    problem = error.errors()[0]
    place = [str(part) for part in problem["loc"] if not isinstance(part, int)]
    names = [part for part in place if part.replace("_", "").isalnum() and part.islower()]
    if problem["type"] == "extra_forbidden":  # the unknown name can be any text, which the filter above removes
        names = [*(name for name in names if name != place[-1]), place[-1]]
    field = ".".join(names[:2])
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        if cause.place:
            return cause
        if cause.field:
            return cause.within(field) if field else cause
        if cause.problem[:1].isupper():  # a complete message
            return cause
        given = problem["input"] if cause.given is NOT_GIVEN else cause.given
        return InputError(cause.problem, field=field, given=given, others=cause.others)
    given = problem["input"]
    match problem["type"]:
        case "extra_forbidden":
            return InputError(f"is unknown. {_meant(names[-1], _fields_at(kind, names[:-1]))}", field=field)
        case "literal_error":
            return InputError(f"must be one of {_choices(problem['ctx']['expected'])}", field=field, given=given)
        case "greater_than_equal":
            return InputError(f"must be {problem['ctx']['ge']} or more", field=field, given=given)
        case "missing":
            return InputError("is missing", field=field)
        case kind_of_problem if kind_of_problem in _EXPECTED:
            return InputError(_EXPECTED[kind_of_problem], field=field, given=given)
    message = str(problem["msg"]).removeprefix("Value error, ")
    return InputError(message[:1].lower() + message[1:], field=field, given=given)


def _meant(name: str, known: Iterable[str]) -> str:
    """Return a question with the most similar known name, or else the list of known names."""
    question, _, others = suggest(name, known).partition("There are: ")
    return question.strip() or f"There are: {others.rstrip('.')}"


def _choices(expected: str) -> str:
    """Return pydantic's list of choices without quotes and without the empty text, which stands for "not given"."""
    choices = [choice.strip().strip("'") for choice in expected.replace(" or ", ", ").split(",")]
    return ", ".join(filter(None, choices))


def _fields_at(kind: type[BaseModel], path: list[str]) -> list[str]:
    """Return the field names of the nested model that a path of field names leads to."""
    for name in path:
        annotation = kind.model_fields[name].annotation if name in kind.model_fields else None
        kinds = [each for each in (annotation, *get_args(annotation)) if isinstance(each, type)]
        kind = next((each for each in kinds if issubclass(each, BaseModel)), kind)
    return list(kind.model_fields)
