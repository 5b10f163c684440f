"""Command-line options made from the fields of options models, and those that several commands share.

A command is a function whose parameters are options models (`DataOptions`, `AuditOptions`, …) and plain typer
parameters. `command` turns each field of a model into one option: its name, type, default and docstring are declared
once, in the model.
"""

import functools
import inspect
import math
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import typer
from pydantic.fields import FieldInfo

from fairmargin.cli.console import option_name
from fairmargin.core.options import OnCommandLine, Options

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no table.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output, nothing else.")]
Run = Annotated[Path, typer.Argument(help="Folder of a run.")]
Out = Annotated[Path, typer.Option(help="Folder of the run. Interrupted and run again, the command continues there.")]
Plan = Annotated[
    bool, typer.Option("--plan", help="Only estimate passes, time, memory and disk, from a trial on a few samples.")
]
Engine = Annotated[
    str,
    typer.Option(help="Where tasks run: serial, processes:workers=2 or ray:address=auto. The numbers are the same."),
]

_Result = TypeVar("_Result")
_METAVARS: Mapping[Any, str] = {int: "INTEGER", float: "NUMBER", str: "TEXT"}


def command(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Return the function with one option per field of every options model among its parameters."""
    hints = get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    models = {name: hints[name] for name in signature.parameters if _is_options(hints[name])}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if name in models:
            parameters += [_parameter(field, info, models[name]) for field, info in shown_fields(models[name])]
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(function)
    def with_models(**given: Any) -> _Result:
        made = {}
        for name, model in models.items():
            fields = {field: given.pop(field) for field, _ in shown_fields(model)}
            made[name] = model(**{field: value for field, value in fields.items() if value not in (None, [], False)})
        return function(**given, **made)

    ordered = sorted(parameters, key=lambda p: p.default is not inspect.Parameter.empty)
    with_models.__signature__ = signature.replace(parameters=ordered)  # type: ignore[attr-defined]
    with_models.__annotations__ = {p.name: p.annotation for p in ordered}
    return with_models


def shown_fields(model: type[Options]) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the fields of a model that are options of the command line, its own before those that it inherits."""
    kinds = model.__mro__
    for name, info in sorted(model.model_fields.items(), key=lambda item: kinds.index(_declaring(item[0], model))):
        if not _how(info).hidden:
            yield name, info


def _parameter(name: str, info: FieldInfo, model: type[Options]) -> inspect.Parameter:
    how, kind = _how(info), _kind(info.annotation)
    option: Any = typer.Option(
        option_name(name),
        help=" ".join((info.description or "").split()),
        rich_help_panel=_declaring(name, model).panel,
        metavar=None if kind is bool else how.metavar or _metavar(info.annotation),
        show_default=_shown_default(info) if kind is not bool else False,
    )
    annotation: Any = bool if kind is bool else list[str] | None if how.repeat else str | None
    default: Any = False if kind is bool else None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, option]
    )


def _declaring(name: str, model: type[Options]) -> type[Options]:
    """Return the class that declares a field: the model or the nearest one from which it inherits the field."""
    return next(kind for kind in model.__mro__ if name in vars(kind).get("__annotations__", {}))


def _shown_default(info: FieldInfo) -> str | bool:
    default = info.default
    if (
        isinstance(default, bool)
        or default in ((), "", None, 0)
        or (isinstance(default, float) and math.isinf(default))
    ):
        return False
    return f"{default:,}" if isinstance(default, int) else str(default)


def _how(info: FieldInfo) -> OnCommandLine:
    return next((each for each in info.metadata if isinstance(each, OnCommandLine)), OnCommandLine())


def _kind(annotation: Any) -> Any:
    """Return the type of a field without None."""
    if get_origin(annotation) in (Union, types.UnionType):
        return next(each for each in get_args(annotation) if each is not type(None))
    return annotation


def _metavar(annotation: Any) -> str:
    kind = _kind(annotation)
    if get_origin(kind) is Literal:
        return "|".join(str(each) for each in get_args(kind) if each)
    return _METAVARS.get(kind, "TEXT")


def _is_options(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Options)
