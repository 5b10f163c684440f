"""Rules of the columns of a table as TOML: one table per column, whose keys are the fields of `fm.Column`."""

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from fairmargin.core.column import Column, TableColumn
from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError

_FIELDS = tuple(field.name for field in fields(Column))
_MOST_VALUES = 50  # more numbers are not listed one by one
_EXAMPLE = 'one table per column, as in [age] with the line direction = "up"'


def read_rules(path: Path | str) -> dict[str, Column]:
    """Return the rules in a TOML file, by the names of the columns.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "rules.toml"
    ...     _ = file.write_text('[age]\\nunit = 10\\ndirection = "up"\\n["native country"]\\nimmutable = true\\n')
    ...     rules = read_rules(file)
    >>> rules["age"].unit, list(rules)
    (10.0, ['age', 'native country'])
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"There is no file of rules {path} (looked in {Path.cwd()}). Check the path.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; expected a TOML file of rules for columns.") from None
    except OSError as error:
        raise InputError(f"Cannot read the rules {path}: {error.strerror or error}. Give a TOML file.") from None
    except UnicodeDecodeError:
        raise InputError(f"Cannot read the rules {path}: it is not a text in UTF-8. Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        raise InputError(f"{path} is not valid TOML: {said[:1].lower()}{said[1:]}.") from None
    return rules_of(content, f"{path.name}, ")


def rules_of(tables: Any, where: str = "") -> dict[str, Column]:
    """Return rules given as plain values, by the names of the columns; errors begin with `where` and the column.

    >>> rules_of({"age": {"steps": 1}}, "rules.toml, ")
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: rules.toml, [age]: `steps` is unknown. Did you mean 'step'?
    """
    if not isinstance(tables, Mapping):
        raise InputError(f"must be a file of rules, or {_EXAMPLE}", field="columns", given=tables)
    return {str(name): _rule(rule, f"{where}[{name}]: ") for name, rule in tables.items()}


def plain_rules(rules: Mapping[str, Column]) -> dict[str, dict[str, Any]]:
    """Return rules as plain values, from which `rules_of` makes the same rules again.

    >>> plain_rules({"age": Column(unit=10)})
    {'age': {'unit': 10.0}}
    """
    default = Column()
    return {
        name: {
            field: list(value) if field == "values" else value
            for field in _FIELDS
            if (value := getattr(rule, field)) != getattr(default, field)
        }
        for name, rule in rules.items()
    }


def _rule(given: Any, where: str) -> Column:
    if isinstance(given, Column):
        return given
    if not isinstance(given, Mapping):
        raise InputError(f"Expected {_EXAMPLE}; given {given!r}.").at(where)
    for name, value in given.items():
        if name not in _FIELDS:
            question = suggest(str(name), _FIELDS)
            nested = " The name of a column with a dot needs quotes." if isinstance(value, Mapping) else ""
            raise InputError(
                f"is unknown. {question.partition(' There are: ')[0] if '?' in question else question}{nested}",
                field=str(name),
            ).at(where)
    try:
        return Column(**given)
    except InputError as error:  # the class is not what the user wrote
        raise InputError(error.problem, field=error.field, given=error.given).at(where) from None


# Writing --------------------------------------------------------------------------------------------------------------


def table_text(name: str, values: Mapping[str, Any], comments: Mapping[str, str], about: Sequence[str] = ()) -> str:
    """Return the TOML table of a column.

    Parameters
    ----------
    name
        Name of the column.
    values
        The fields of the rule.
    comments
        A comment behind a field, or on a line of its own if the field is not among `values`.
    about
        Comments below the name.

    >>> print(table_text("age", {"step": 1.0}, {"step": "whole years", "cost": "not for numbers"}))
    [age]
    step = 1  # whole years
    # not for numbers
    """
    lines = [f"[{_key(name)}]", *(f"# {_line(each)}" for each in about)]
    for field, value in values.items():
        comment = f"  # {_line(comments[field])}" if field in comments else ""
        lines.append(f"{field} = {toml_value(value)}{comment}")
    lines += [f"# {_line(comment)}" for field, comment in comments.items() if field not in values]
    return "\n".join(lines)


def fields_of(column: TableColumn) -> dict[str, Any]:
    """Return the fields of a rule with which a column is measured in the same units elsewhere.

    Categories are left out, except those of ordered columns: another table may have others.
    """
    found: dict[str, Any]
    if not column.is_number:
        values = [column.categories[place] for place in column.reachable] if column.ordered else None
        found = {"kind": column.kind, "ordered": column.ordered or None, "values": values, "cost": column.cost}
    else:
        few = column.allowed is not None and len(column.allowed) <= _MOST_VALUES
        plausible = "observed" if column.allowed is not None and not few else "zero_or_at_least" if column.gap else None
        found = {
            "kind": column.kind,
            "unit": column.unit,
            "label": column.label or None,
            "low": column.low if math.isfinite(column.low) else None,
            "high": column.high if math.isfinite(column.high) else None,
            "step": column.step,
            "direction": None if column.direction == "both" else column.direction,
            "values": column.allowed.tolist() if column.allowed is not None and few else None,
            "plausible": plausible,
        }
    return {name: value for name, value in {**found, "immutable": column.immutable}.items() if value is not None}


def rules_text(columns: Sequence[TableColumn]) -> str:
    """Return the rules of all columns as a file with which another table is measured in the same units."""
    head = (
        "# The rules by which the columns of this run changed, with everything that was chosen from the data. With\n"
        "# `fairmargin audit --columns` and this file, another table is measured in the same units.\n"
    )
    return "\n".join([head, *(table_text(each.name, fields_of(each), {}) + "\n" for each in columns)])


def toml_value(value: Any) -> str:
    """Return a value as TOML writes it; numbers without a fraction as whole numbers.

    >>> toml_value("a \\"b\\""), toml_value([1.0, 0.5]), toml_value(True), toml_value(float("inf"))
    ('"a \\\\"b\\\\""', '[1, 0.5]', 'true', 'inf')
    """
    value = value.item() if hasattr(value, "item") else value  # numbers of numpy
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, int | float):
        whole = math.isfinite(value) and value == int(value) and abs(value) < 2**53
        return str(int(value)) if whole else repr(value)
    # JSON escapes everything that TOML does, but for the character DEL.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else toml_value(name)


def _line(text: str) -> str:
    """Return a comment without line breaks and control characters, which TOML does not allow there."""
    return "".join(c if c.isprintable() else " " for c in text)
