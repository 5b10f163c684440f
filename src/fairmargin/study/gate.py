"""A condition that fails a pipeline: a small expression language over the columns of an audit's table.

    sigma_low < -0.2
    verdict == "less robust" and size >= 100
    abs(gap_to_rest) / robustness > 0.3

Names are columns; numbers, texts, comparisons (also chained), and, or, not, + − * /, abs, min, max. Nothing else: the
text is parsed, never run. Undefined values follow three-valued logic: `False and undefined` is False. So does the
verdict "not comparable" where it is compared with another verdict: whether the group is less robust is not known.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

from fairmargin.core.bound import Bound
from fairmargin.core.norm import Norm
from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError
from fairmargin.inference.estimate import NOT_COMPARABLE, VERDICTS

Value = float | str | bool | None  # None: undefined
Row: TypeAlias = Mapping[str, Any]  # one group: the name of a column, and its value

_PERCENT = 2  # limits of σ of this size and more are meant in per cent
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_WORDS: dict[type[ast.AST], str] = {
    ast.Call: "a call",
    ast.Attribute: "a dot",
    ast.Subscript: "square brackets",
    ast.Pow: "a power",
    ast.Lambda: "a lambda",
    ast.JoinedStr: "a formatted text",
    ast.ListComp: "a loop",
    ast.GeneratorExp: "a loop",
    ast.IfExp: "an if",
    ast.In: "the word in",
    ast.Is: "the word is",
}
_FUNCTIONS: dict[str, Callable[..., float]] = {"abs": abs, "min": min, "max": max}
_VOCABULARIES: dict[str, tuple[str, ...]] = {
    "verdict": VERDICTS,
    "bound": tuple(bound.value for bound in Bound),
    "norm": tuple(norm.value for norm in Norm),
}
_LONGEST = 1_000
_LARGEST = 10**300


@dataclass(frozen=True, slots=True)
class GateResult:
    """Which groups meet the condition, and for which it cannot be decided."""

    matching: list[Row]
    undefined: list[Row]


def gate(rows: Sequence[Row], condition: str, whole: Sequence[Row] | None = None) -> GateResult:
    """Apply a condition to every row of an audit's table; `whole` is the table of which the rows are a part.

    >>> rows = [{"group": "F", "sigma_low": -0.3}, {"group": "M", "sigma_low": 0.1}]
    >>> [row["group"] for row in gate(rows, "sigma_low < -0.2").matching]
    ['F']
    """
    tree = parse(condition, _columns(rows))
    _check_words(tree, rows if whole is None else whole, condition)
    answers = [evaluate(tree, row, condition) for row in rows]
    for answer in answers:
        if not isinstance(answer, bool) and answer is not None:
            raise InputError(
                f"The condition {condition!r} gives {answer!r}, not true or false. Compare it with something."
            )
    return GateResult(
        [row for row, answer in zip(rows, answers, strict=True) if answer is True],
        [row for row, answer in zip(rows, answers, strict=True) if answer is None],
    )


def columns_in(condition: str, rows: Sequence[Row]) -> list[str]:
    """Return the columns that a condition names, each once."""
    columns = _columns(rows)
    names = [node.id for node in ast.walk(parse(condition, columns)) if isinstance(node, ast.Name)]
    return [name for name in dict.fromkeys(names) if name in columns]


def _columns(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for row in rows for name in row))


def _check_words(tree: ast.expr, rows: Sequence[Row], condition: str) -> None:
    """Refuse a word that a column can never hold: it would make a gate that always passes."""
    columns = _columns(rows)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare) or not all(isinstance(op, (ast.Eq, ast.NotEq)) for op in node.ops):
            continue
        sides = [node.left, *node.comparators]
        names = [side.id for side in sides if isinstance(side, ast.Name)]
        for name, side in ((n, s) for n in names for s in sides):
            if not (isinstance(side, ast.Constant) and isinstance(side.value, str)) or name not in columns:
                continue
            values = dict.fromkeys(row[name] for row in rows if name in row)
            known = [*_VOCABULARIES.get(name, ()), *map(str, values)]
            if side.value not in known and not any(isinstance(value, int | float) for value in values):
                raise InputError(
                    f"{name!r} is never {side.value!r} in the condition {condition!r}. {suggest(side.value, known)}"
                )


def parse(condition: str, columns: tuple[str, ...]) -> ast.expr:
    """Return the syntax tree of a condition after checking that every part of it is allowed."""
    if len(condition) > _LONGEST:
        raise InputError(f"The condition has {len(condition):,} characters; at most {_LONGEST:,} are read.")
    try:
        tree = ast.parse(condition.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f" at position {error.offset}" if isinstance(error, SyntaxError) and error.offset else ""
        raise InputError(
            f"Cannot read the condition {condition!r}{where}. Write for instance: sigma_low < -0.2."
        ) from None
    for node in ast.walk(tree):
        _check(node, condition, columns)
        _check_share(node, condition)
    return tree


def _check_share(node: ast.AST, condition: str) -> None:
    """Refuse a limit of σ that no group can be below, such as -20 for 20 %."""
    match node:
        case ast.Compare(
            left=ast.Name(id=name),
            ops=[ast.Lt() | ast.LtE()],
            comparators=[ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=float() | int() as size))],
        ) if name.startswith("sigma") and size >= _PERCENT:
            raise InputError(
                f"The condition {condition!r} is never true, since σ is a share: -1 means that a group is always at 0. "
                "Write -0.2 for 20 %."
            )


def _check(node: ast.AST, condition: str, columns: tuple[str, ...]) -> None:
    plain = (ast.BoolOp, ast.And, ast.Or, ast.Compare, ast.BinOp, ast.UnaryOp, ast.Not, ast.USub, ast.UAdd, ast.Load)
    match node:
        case ast.Name(id=name) if name in columns or name in _FUNCTIONS:
            return
        case ast.Name(id=name):
            raise InputError(
                f"The condition {condition!r} names {name!r}, which is not a column. {suggest(name, columns)}"
            )
        case ast.Constant(value=bool() | float() | str()):
            return
        case ast.Constant(value=int() as whole):
            if abs(whole) > _LARGEST:
                raise InputError(f"A number in the condition {condition[:60]!r} is too large.")
            return
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS and args:
            if (len(args) == 1) != (name == "abs"):
                many = "one value" if name == "abs" else "two or more values"
                raise InputError(f"{name} takes {many}; given {len(args)} in the condition {condition!r}.")
            return
    if isinstance(node, plain) or type(node) in _COMPARE or type(node) in _ARITHMETIC:
        return
    raise InputError(
        f"The condition {condition!r} uses {_WORDS.get(type(node), 'something')} that is not allowed. Allowed are "
        "columns, numbers, texts, < <= > >= == !=, and, or, not, + - * /, abs, min, max."
    )


def evaluate(node: ast.expr, row: Row, condition: str) -> Value:
    """Return the value of a checked expression in one row; None where it is undefined."""
    match node:
        case ast.Constant(value=value):
            return value if isinstance(value, (bool, str)) else float(value)  # type: ignore[arg-type]
        case ast.Name(id=name) if name in row:
            return _defined(row[name])
        case ast.BoolOp(op=op, values=parts):
            return _logic(isinstance(op, ast.And), [_truth(evaluate(p, row, condition), condition) for p in parts])
        case ast.UnaryOp(op=ast.Not(), operand=part):
            truth = _truth(evaluate(part, row, condition), condition)
            return None if truth is None else not truth
        case ast.UnaryOp(op=op, operand=part):
            number = _number(evaluate(part, row, condition), condition)
            return number if number is None or isinstance(op, ast.UAdd) else -number
        case ast.BinOp(left=left, op=op, right=right):
            return _arithmetic(
                _ARITHMETIC[type(op)], [evaluate(side, row, condition) for side in (left, right)], condition
            )
        case ast.Call(func=ast.Name(id=name), args=args):
            return _arithmetic(_FUNCTIONS[name], [evaluate(a, row, condition) for a in args], condition)
        case ast.Compare(left=left, ops=ops, comparators=rights):
            sides = [evaluate(side, row, condition) for side in (left, *rights)]
            pairs = zip(ops, _with_unknown_verdicts((left, *rights), sides, row), strict=True)
            return _logic(True, [_compared(_COMPARE[type(op)], a, b, condition) for op, (a, b) in pairs])
    raise InputError(f"The condition {condition!r} cannot be evaluated.")


def _with_unknown_verdicts(nodes: Sequence[ast.expr], sides: Sequence[Value], row: Row) -> list[tuple[Value, Value]]:
    """Return the values on both sides of each comparison in a chain such as a < b < c.

    Both are None, which means undefined, where the verdict "not comparable" is compared with another verdict. Otherwise
    a gate on `verdict == "less robust"` would pass a group that could not be compared.
    """
    pairs = []
    for i, (left, right) in enumerate(pairwise(sides)):
        names = {node.id for node in nodes[i : i + 2] if isinstance(node, ast.Name)}
        unknown = "verdict" in names and row.get("verdict") == NOT_COMPARABLE and left != right
        pairs.append((None, None) if unknown else (left, right))
    return pairs


def _logic(conjunction: bool, parts: list[bool | None]) -> bool | None:
    """Return Kleene's `and` or `or`: undefined only where the undefined part could decide."""
    if (not conjunction) in parts:
        return not conjunction
    return None if None in parts else conjunction


def _compared(compare: Callable[[Any, Any], bool], left: Value, right: Value, condition: str) -> bool | None:
    if left is None or right is None:
        return None
    if isinstance(left, str) != isinstance(right, str):
        raise InputError(f"The condition {condition!r} compares a text with a number: {left!r} and {right!r}.")
    return compare(left, right)


def _arithmetic(operation: Callable[..., float], parts: list[Value], condition: str) -> float | None:
    numbers = [_number(part, condition) for part in parts]
    if any(number is None for number in numbers):
        return None
    try:
        return _as_float(operation(*numbers))
    except (ZeroDivisionError, OverflowError):
        return None


def _as_float(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _defined(value: Any) -> Value:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return value if isinstance(value, (str, bool)) else float(value)


def _number(value: Value, condition: str) -> float | None:
    if isinstance(value, (str, bool)):
        raise InputError(f"The condition {condition!r} calculates with {value!r}, which is not a number.")
    return value


def _truth(value: Value, condition: str) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise InputError(f"The condition {condition!r} uses {value!r} as true or false. Compare it with something.")
