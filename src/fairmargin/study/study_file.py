"""Read a study from a TOML file: sections of data, models, trainings, audits and attacks.

Fields of a section are the options of the command line, with underscores. `[train]` holds what all `[train.NAME]`
share; so do the other sections. A section without further names is a single one.
"""

import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from fairmargin.core.options import Options, validated
from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError
from fairmargin.study.grid import Grid
from fairmargin.study.study import ARCHITECTURE, Study

_SUBJECTS = {"data": "data", "model": "model", "train": "method", "audit": "estimator", "attack": "attack"}
"""Field of each kind of section that its name stands for if it is left out."""
_NEEDED = ("data", "model")
"""Kinds of sections that are nothing without their subject."""
_PATHS = {
    "data": ("data", "audit_on", "labels", "training_data", "columns"),
    "model": ("model", "weights"),
    "train": ("validation",),
}
"""Fields that may hold a path, which is relative to the folder of the file. A name without / and . is no path: a folder
beside the file may be called as a dataset or a split."""
_OF_COLUMNS = ("columns", "bins")
"""Fields of `[data]` whose values are tables by the names of columns, and no sections."""
_SPELLINGS = {
    "train": ("method", "fat:weight=0.5"),
    "audit": ("estimator", "ddn:steps=50"),
    "attack": ("attack", "pgd:steps=20"),
}
_OLD = {"network": "model", "method": "train", "training": "train", "distance": "audit"}
"""Sections of version 0.1 and what they are called now."""


def read_study(path: Path | str, *, architectures: Collection[str] = ()) -> Study:
    """Return the study in a TOML file; paths in it are relative to its folder.

    Parameters
    ----------
    path
        Path of the file.
    architectures
        Names of the known architectures; others are refused. If empty, they are not checked.
    """
    path = Path(path)
    study = make_study(_content(path), path.name, path.resolve().parent)
    for name, section in (study.grid.model if study.grid is not None and architectures else {}).items():
        architecture = section.model.removeprefix(ARCHITECTURE)
        if section.model.startswith(ARCHITECTURE) and architecture not in architectures:
            known = suggest(architecture, architectures)
            raise InputError(f"{path.name}, [model.{name}]: Unknown architecture `{architecture}`. {known}")
    return study


def engine_of(path: Path | str) -> str:
    """Return the engine that a study file names as `engine`; empty if it names none.

    It is not a part of the study, because it does not change results.
    """
    engine = _content(Path(path)).get("engine", "")
    if not isinstance(engine, str):
        raise InputError("must be a text such as 'processes:workers=2'", field="engine", given=engine)
    return engine


def _content(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"There is no study {path}. Check the path.") from None
    except OSError as error:
        raise InputError(f"Cannot read the study {path}: {error.strerror or error}. Give a TOML file.") from None
    except UnicodeDecodeError:
        raise InputError(f"Cannot read the study {path}: it is not a text in UTF-8. Give a TOML file.") from None
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        raise InputError(f"{path} is not valid TOML: {said[:1].lower()}{said[1:]}.") from None


def make_study(content: Mapping[str, Any], where: str = "The study", folder: Path | None = None) -> Study:
    """Return a study from the content of a study file.

    Parameters
    ----------
    content
        Sections by kind and name, `[columns]` with rules for the columns of all data that have none of their own, and
        the fields `title`, `seeds` and `engine`; the last is for `engine_of`.
    where
        Name of the file, for errors.
    folder
        Folder to which paths are relative; the current one if None.

    >>> make_study({"data": {"digits": {}}, "model": {"logistic": {}}, "audit": {"exact_linear": {}}})
    Study(sections: 1 data, 1 model, 1 audit)
    >>> make_study({"seed": [1]}, "study.toml")
    Traceback (most recent call last):
    ...
    fairmargin.errors.InputError: study.toml: `seed` is unknown. Did you mean 'seeds'?
    """
    try:
        return _made(content, folder)
    except InputError as error:
        raise error.at(f"{where}{',' if str(error).startswith('[') else ':'} ") from None


def _made(content: Mapping[str, Any], folder: Path | None) -> Study:
    known = ("title", "seeds", "engine", "columns", *Grid.SECTIONS)
    for name in content:
        if name in _OLD:
            raise InputError(f"Sections [{name}.…] are called [{_OLD[name]}.…] now; CHANGELOG.md lists all new names.")
        if name not in known:
            raise InputError(f"is unknown. {_meant(name, known)}", field=name)
    rules = {"columns": content["columns"]} if "columns" in content else {}
    sections = {
        kind: dict(_sections(kind, content[kind], folder, rules if kind == "data" else {}))
        for kind in Grid.SECTIONS
        if kind in content
    }
    seeds = {"seeds": content["seeds"]} if "seeds" in content else {}
    grid = Grid(**sections, **seeds)
    title = content.get("title", "")
    if not isinstance(title, str):
        raise InputError("must be a text", field="title", given=title)
    return Study(title=title, grid=grid)


def _sections(kind: str, given: Any, folder: Path | None, default: Mapping[str, Any]) -> Iterator[tuple[str, Options]]:
    """Yield the sections of a kind by their names; fields of `default` are those of sections without them."""
    if not isinstance(given, Mapping):
        example = {"data": "digits", "model": "small_cnn", "train": "erm", "audit": "plumb", "attack": "pgd"}[kind]
        raise InputError(f"Write a section with a name, as in [{kind}.{example}]; given {kind} = {given!r}"[:300] + ".")
    of_all = {name for name, value in given.items() if not isinstance(value, Mapping)}
    of_all |= {name for name in _OF_COLUMNS if kind == "data" and name in given}
    shared = {**default, **{name: given[name] for name in given if name in of_all}}
    named = {name: value for name, value in given.items() if name not in of_all}
    for name, fields in named.items():
        yield (
            name,
            _section(kind, f"[{kind}.{name}]", {_SUBJECTS[kind]: _subject(kind, name), **shared, **fields}, folder),
        )
    if not named and (shared or kind not in _NEEDED):
        section = _section(kind, f"[{kind}]", shared, folder)
        yield _name_of(kind, section), section


def _subject(kind: str, name: str) -> str:
    return f"{ARCHITECTURE}{name}" if kind == "model" else name


def _name_of(kind: str, section: Any) -> str:
    """Return the name of a section that has none of its own."""
    if kind in ("audit", "attack"):
        return kind
    subject = str(getattr(section, _SUBJECTS[kind]))
    return subject.removeprefix(ARCHITECTURE) or kind


def _section(kind: str, where: str, fields: Mapping[str, Any], folder: Path | None) -> Options:
    model = Grid.SECTIONS[kind]
    try:
        for name in fields:
            if name in model.model_fields:
                continue
            owners = [other for other, section in Grid.SECTIONS.items() if name in section.model_fields]
            if owners:
                belongs = " and ".join(f"[{other}.…]" for other in owners)
                raise InputError(f"is unknown here: it belongs to {belongs}", field=name)
            if kind in _SPELLINGS:
                field, example = _SPELLINGS[kind]
                meant = _meant(name, model.model_fields, several=False)
                hint = f'Settings of the {field} stand in its spelling, as in {field} = "{example}"'
                raise InputError(f"is unknown. {meant}{hint}", field=name)
        if kind in _NEEDED and not fields.get(kind):
            raise InputError("is missing", field=kind)
        return validated(model, _placed(kind, fields, folder))
    except InputError as error:
        raise error.at(f"{where}: ") from None


def _placed(kind: str, fields: Mapping[str, Any], folder: Path | None) -> dict[str, Any]:
    """Return the fields with paths made absolute."""
    if folder is None:
        return dict(fields)
    found = dict(fields)
    for name in _PATHS.get(kind, ()):
        value = found.get(name)
        if isinstance(value, str) and ("/" in value or "." in value):
            file, colon, rest = value.rpartition(":") if value.rpartition(":")[0].endswith(".py") else (value, "", "")
            if (folder / file).exists():
                found[name] = f"{(folder / file).resolve()}{colon}{rest}"
    if kind == "data" and isinstance(root := found.get("root"), str) and root:
        found["root"] = str(folder / root)
    return found


def _meant(name: str, known: Any, *, several: bool = True) -> str:
    question, _, others = suggest(name, known).partition("There are: ")
    if question.strip():
        return question.strip() + ("" if several else " ")
    return f"There are: {others.rstrip('.')}" if several else ""
