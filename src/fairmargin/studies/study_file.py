"""A study as a file: data × networks × methods × seeds, measured by estimators and attacks at some epochs.

It is TOML. Sections may be written as `[[distance]]`, or with their name as `[distance.ddn]`.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError
from fairmargin.inference.settings import AuditSettings
from fairmargin.store.atomic import atomic_write_text
from fairmargin.studies.study_sections import (
    AttackSection,
    DataSection,
    DistanceSection,
    MethodSection,
    NetworkSection,
    Section,
    TrainingSection,
    several,
    unknown_field,
)
from fairmargin.studies.study_training import Settings, settings_of

SECTIONS: Mapping[str, type[Section]] = {
    "data": DataSection,
    "network": NetworkSection,
    "method": MethodSection,
    "distance": DistanceSection,
    "attack": AttackSection,
}
_EXAMPLES = {"data": "[data.digits]", "network": "[network.small_cnn]"}
_EXPECTED = {
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number of fewer digits",
    "float_parsing": "a number",
}
_ONLY = ("data", "networks", "methods")  # fields by which a section is for some of the others
_PATHS = {"data": ("root", "train", "test"), "network": ("weights", "start")}


class StudyFile(BaseModel):
    """Everything that a study asks for.

    Parameters
    ----------
    title
        For reports.
    seeds
        Every network is trained with each of them.
    threads
        Of each training. It is fixed because the last bits of a network depend on it: several networks at a time
        (`--engine processes`) use a machine better than several threads.
    confidence, resamples, smallest_group
        Of the comparison of groups; see `AuditSettings`.
    training
        How all methods train.
    data, network, method, distance, attack
        The sections.

    >>> study = StudyFile.model_validate({"data": [{"name": "digits"}], "network": [{"architecture": "small_cnn"}],
    ...     "method": [{"method": "erm", "epochs": 2}], "distance": {"ddn": {"steps": 20}}})
    >>> study.distance[0].estimator
    'ddn:steps=20'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str = ""
    seeds: tuple[int, ...] = (0,)
    threads: int = Field(1, ge=1)
    confidence: float = 0.95
    resamples: int = 2_000
    smallest_group: int = 30
    training: TrainingSection = TrainingSection()
    data: tuple[DataSection, ...] = ()
    network: tuple[NetworkSection, ...] = ()
    method: tuple[MethodSection, ...] = ()
    distance: tuple[DistanceSection, ...] = ()
    attack: tuple[AttackSection, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            raise InputError(f"A study is a table of sections; given a {type(given).__name__}.")
        for name in given:
            if name not in cls.model_fields:
                raise InputError(unknown_field(str(name), cls.model_fields))
        fields = dict(given)
        for name, kind in SECTIONS.items():
            if name in fields:
                fields[name] = tuple(_made(kind, where, each) for where, each in _listed(name, fields[name]))
        seeds = fields.get("seeds", ())
        if not isinstance(seeds, list | tuple):  # 3 may be meant as a seed or as so many
            raise InputError(f"`seeds` is a list of them, such as [0, 1, 2]; given {seeds!r}.")
        _check_truths(fields, StudyFile)
        if "training" in fields and not isinstance(fields["training"], TrainingSection):
            fields["training"] = _made(TrainingSection, "[training]", fields["training"])
        return fields

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        self.audit_plan()
        for name in ("data", "network"):
            if not getattr(self, name):
                raise InputError(f"there is no section [{name}.…]: add one, for instance {_EXAMPLES[name]}.")
        if not self.seeds or min(self.seeds) < 0 or len(set(self.seeds)) < len(self.seeds):
            raise InputError(f"`seeds` are different numbers, 0 or more, at least one; given {list(self.seeds)}.")
        if not self.method and not all(network.weights for network in self.network):
            raise InputError("there is no [[method]] by which to train: add one, or give every network its `weights`.")
        if not self.distance and not self.attack:
            raise InputError("nothing is measured: add a [[distance]] or an [[attack]].")
        self._check_names()
        self._check_methods()
        return self

    def settings(self, method: MethodSection) -> Settings:
        """How a method trains."""
        try:
            return settings_of(method, self.training)
        except InputError as error:
            said = str(error).replace(" of TrainingPlan", "")
            shared = any(f"`{name}`" in said and getattr(method, name) is None for name in _training_of(self.training))
            raise InputError(f"{'[training]' if shared else f'[[method]] {method.name}'}: {said}") from None

    def _check_methods(self) -> None:
        """Whether every method has all its settings, and keeps the epochs that are to be measured."""
        for method in self.method:
            settings = self.settings(method)
            for data in self.data:
                if applies(method.data, data.name):
                    self._check_epochs(method, settings, data)

    def _check_epochs(self, method: MethodSection, settings: Settings, data: DataSection) -> None:
        if settings.plan.patience and not data.validation:
            raise InputError(f"[[method]] {method.name}: `patience` watches validation data, and {data.name} has none.")
        for section in (*self.distance, *self.attack):
            if applies(section.data, data.name) and applies(section.methods, method.name):
                for word in section.epochs:
                    try:
                        settings.epoch(word, data.validation > 0)
                    except InputError as error:
                        kind = "distance" if isinstance(section, DistanceSection) else "attack"
                        where = f"[[{kind}]] {section.name}, `epochs`, of the method {method.name}"
                        raise InputError(f"{where}: {error}") from None

    def _check_names(self) -> None:
        """Whether all that is named is there."""
        known = {"data": self.data, "networks": self.network, "methods": self.method}
        names = {field: {section.name for section in sections} for field, sections in known.items()}
        for kind in SECTIONS:
            for section in getattr(self, kind):
                for field in _ONLY:
                    for name in () if kind == field else getattr(section, field, ()):
                        if name not in names[field]:
                            hint = suggest(name, sorted(names[field]))
                            raise InputError(f"[[{kind}]] {section.name}: `{field}` names {name!r}. {hint}")
        for kind in ("data", "distance", "attack"):
            found = [section.name for section in getattr(self, kind)]
            twice = [name for name in dict.fromkeys(found) if found.count(name) > 1]
            if twice:
                raise InputError(f"two [[{kind}]] are called {twice[0]!r}: give each a `name` of its own.")

    def audit_plan(self) -> AuditSettings:
        """How groups are compared."""
        return AuditSettings(
            confidence=self.confidence, resamples=self.resamples, smallest_group=self.smallest_group, seed=0
        )


def _training_of(section: TrainingSection) -> tuple[str, ...]:
    """The fields that `[training]` gives a value."""
    return tuple(name for name in type(section).model_fields if getattr(section, name) not in (None, ""))


def applies(only: Sequence[str], name: str) -> bool:
    """Whether a section that may be for some only is for that one."""
    return not only or name in only


def make_study_file(fields: Mapping[str, Any], where: str = "The study") -> StudyFile:
    """A study from plain fields; what is wrong with them is said in one sentence, after `where`.

    >>> make_study_file({"seed": [1]}, "study.toml")
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: study.toml: unknown field `seed`. Did you mean `seeds`?
    """
    try:
        return StudyFile.model_validate(fields)
    except ValidationError as error:
        said = _sentence(error)
    except InputError as error:
        said = str(error)
    raise InputError(f"{where}{',' if said.startswith('[') else ':'} {said}")


def read_study(path: Path | str) -> StudyFile:
    """The study in a TOML file; paths in it are relative to its folder."""
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"There is no study {path}. Check the path.") from None
    except OSError as error:
        raise InputError(f"Cannot read the study {path}: {error.strerror or error}. Give a file of TOML.") from None
    except UnicodeDecodeError:
        raise InputError(f"Cannot read the study {path}: it is no text in UTF-8. Give a file of TOML.") from None
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        raise InputError(f"{path} is no TOML: {said[:1].lower()}{said[1:]}.") from None
    study = make_study_file(content, path.name)
    return study.model_copy(update={name: _placed(getattr(study, name), path, name) for name in _PATHS})


def write_study(study: StudyFile, path: Path) -> None:
    """The study as TOML, which `read_study` reads again; every path in it is absolute."""
    atomic_write_text(path, as_toml(study))


def as_toml(study: StudyFile) -> str:
    """What differs from the defaults, section by section."""
    content = study.model_dump(exclude_defaults=True, mode="json")
    tables = {name: content.pop(name) for name in ("training", *SECTIONS) if name in content}
    lines = list(_lines(content))
    for name, sections in tables.items():
        for section in sections if isinstance(sections, list) else [sections]:
            head = f"[[{name}]]" if isinstance(sections, list) else f"[{name}]"
            lines += ["", head, *_lines(section)]
    return "\n".join(lines).lstrip("\n") + "\n"


def _lines(fields: Mapping[str, Any]) -> Iterator[str]:
    # A JSON text, number, truth or list of these is TOML too; only DEL must be escaped there.
    for name, value in fields.items():
        yield f"{name} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")


def _listed(name: str, given: Any) -> Iterator[tuple[str, Any]]:
    """Each section with the place at which it stands: of `[[name]]`, `[name.other]` or `[name]`."""
    if isinstance(given, Mapping):
        if given and all(isinstance(each, Mapping) for each in given.values()):
            for key, each in given.items():
                yield f"[{name}.{key}]", {"name": key, **each}
            return
        yield f"[{name}]", given
        return
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise InputError(f"[[{name}]] is a section with fields; given {name} = {given!r}.")
    for number, each in enumerate(given, 1):
        yield f"[[{name}]] {number}" if len(given) > 1 else f"[[{name}]]", each


def _made(kind: type[Section] | type[TrainingSection], where: str, fields: Any) -> Any:
    if isinstance(fields, kind):
        return fields
    if kind is TrainingSection and isinstance(fields, Mapping):
        for name in fields:
            if name not in kind.model_fields:
                raise InputError(f"{where}: {unknown_field(str(name), kind.model_fields)}")
    try:
        if isinstance(fields, Mapping):
            _check_truths(fields, kind)
            for name in _ONLY:
                if name in kind.model_fields and fields.get(name) == []:
                    raise InputError(f"`{name}` is empty, so that the section is for none: leave it out for all.")
        return kind.model_validate(fields)
    except ValidationError as error:
        raise InputError(f"{where}: {_sentence(error)}") from None
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _check_truths(fields: Mapping[str, Any], kind: type[BaseModel]) -> None:
    """Refuse true and false where a number is expected: Python would take them for 1 and 0."""
    for name, value in fields.items():
        known = kind.model_fields.get(name)
        asked = known is None or "bool" in str(known.annotation)
        if not asked and any(isinstance(each, bool) for each in several(value)):
            raise InputError(f"`{name}` is no question of true or false; given {str(value).lower()}.")


def _sentence(error: ValidationError) -> str:
    """The first thing that pydantic found, in our words."""
    problem = error.errors()[0]
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "value_error":
        return message
    field = ".".join(map(str, problem["loc"][:1]))
    if problem["type"] == "missing":
        return f"`{field}` is missing."
    if problem["type"] in _EXPECTED:
        return f"`{field}`: expected {_EXPECTED[problem['type']]}; given {problem['input']!r}."
    return f"`{field}`: {message[:1].lower()}{message[1:]}; given {problem['input']!r}."


def _placed(sections: Sequence[Section], path: Path, name: str) -> tuple[Section, ...]:
    folder = path.resolve().parent
    return tuple(
        section.model_copy(
            update={field: str(folder / given) for field in _PATHS[name] if (given := getattr(section, field))}
        )
        for section in sections
    )
