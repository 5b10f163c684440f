"""The sections of a study's file: what is measured on, what is trained and how, by what it is measured."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from fairmargin.attacks.catalog import ATTACKS, parse_attack
from fairmargin.core.catalog import Catalog, split_options
from fairmargin.core.radius import parse_radius, spelled_radius
from fairmargin.core.suggestion import suggest
from fairmargin.data.catalog import DATASETS
from fairmargin.distances.catalog import ESTIMATORS, parse_estimator
from fairmargin.errors import InputError
from fairmargin.models.architectures.catalog import ARCHITECTURES
from fairmargin.runner.trainer import WORDS
from fairmargin.training.catalog import METHODS, parse_method


def several(value: Any) -> Any:
    """One value stands for a list of it."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


Names = Annotated[tuple[str, ...], BeforeValidator(several)]
Numbers = Annotated[tuple[float, ...], BeforeValidator(several)]


class Section(BaseModel):
    """A section has a name, by which others speak of it; where only one of name and `subject` is given, it is both."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    subject: ClassVar[str]  # the field that says what the section is about
    noun: ClassVar[str]  # what that is in sentences

    name: str = ""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            raise InputError(f"expected fields such as {cls.subject} = …, given {given!r}.")
        held = cls._gathered(dict(given))
        for key in held:
            if key not in cls.model_fields:
                raise InputError(unknown_field(str(key), cls._known(held)))
        about, name = held.get(cls.subject), held.get("name")
        if not about and not name and not cls._speaks_for_itself(held):
            raise InputError(f'{cls.noun} is missing: write {cls.subject} = "…".')
        return {**held, cls.subject: about or name or "", "name": name or about or held.get("train", "")}

    @classmethod
    def _gathered(cls, given: dict[str, Any]) -> dict[str, Any]:
        return given

    @classmethod
    def _known(cls, _given: Mapping[str, Any]) -> list[str]:
        return list(cls.model_fields)

    @classmethod
    def _speaks_for_itself(cls, _given: Mapping[str, Any]) -> bool:
        return False


class _OfCatalog(Section):
    """A section about an entry of a catalog, whose fields may stand in the section itself."""

    catalog: ClassVar[Catalog[type]]

    @classmethod
    def _gathered(cls, given: dict[str, Any]) -> dict[str, Any]:
        """`estimator = "ddn"` with `steps = 50` is the same as `estimator = "ddn:steps=50"`."""
        about = str(given.get(cls.subject) or given.get("name") or "")
        moved = {name: given.pop(name) for name in cls._own(about) if name in given and name not in cls.model_fields}
        if moved:
            given[cls.subject] = _spelled(about, moved)
            given.setdefault("name", given[cls.subject])
        return given

    @classmethod
    def _known(cls, given: Mapping[str, Any]) -> list[str]:
        about = str(given.get(cls.subject) or given.get("name") or "")
        name = about.partition(":")[0].strip()
        if name and name not in cls.catalog:  # whose fields nobody knows: the name is what is wrong
            raise InputError(f"Unknown {cls.catalog.noun} `{name}`. {suggest(name, cls.catalog)}")
        return [*cls._own(about), *cls.model_fields]

    @classmethod
    def _own(cls, about: str) -> list[str]:
        name = about.partition(":")[0].strip()
        return [field.name for field in fields(cls.catalog[name])] if name in cls.catalog else []


class DataSection(Section):
    """`[[data]]`: what is trained on, and the test samples on which all is measured.

    Parameters
    ----------
    name, dataset
        What it is called here, and in the catalog.
    root, task, size
        See `fairmargin.load`.
    train, test, label, features
        Files of your own instead of a dataset, and their columns.
    train_per_group, test_per_group, by
        At most so many samples of each group of `by`; 0: all.
    validation
        The share of the training samples that is kept apart; 0: none.
    partitions
        Groups that are compared: attributes, "class", or crossed ones such as "race & sex".
    merge_below
        Groups smaller than this become one, "other".
    groups
        The partition that training methods speak of.
    mean, std
        Normalisation, as the first layer of every network: distances stay in the data's units.
    """

    subject, noun = "dataset", "a dataset's name"

    dataset: str
    root: str = ""
    task: str = ""
    size: int = Field(0, ge=0)
    train: str = ""
    test: str = ""
    label: str = ""
    features: Names = ()
    train_per_group: int = Field(0, ge=0)
    test_per_group: int = Field(0, ge=0)
    by: str = "class"
    validation: float = Field(0.1, ge=0, lt=1)
    partitions: Names = ("class",)
    merge_below: int = Field(0, ge=0)
    groups: str = "class"
    mean: Numbers = ()
    std: Numbers = ()

    @classmethod
    def _speaks_for_itself(cls, given: Mapping[str, Any]) -> bool:
        return bool(given.get("train"))

    @model_validator(mode="after")
    def _checked(self) -> Self:
        _both(self.mean, self.std)
        if not self.partitions:
            raise InputError('`partitions` is empty: name at least one, for instance "class".')
        if self.is_file:
            if not (self.train and self.test):
                raise InputError("files of your own are two: give `train` and `test`.")
            return self
        if self.dataset not in DATASETS:
            raise InputError(f"unknown dataset {self.dataset!r}. {suggest(self.dataset, DATASETS)}")
        card = DATASETS[self.dataset].card
        known = dict.fromkeys((*card.groups, "class"))
        for name in (*self.partitions, self.groups, self.by):
            for part in crossed(name):
                if part not in known:
                    raise InputError(f"{self.dataset} has no partition {part!r}. {suggest(part, known)}")
        if self.task and self.task not in card.tasks:
            there = suggest(self.task, card.tasks) if card.tasks else "It has one task only: leave it out."
            raise InputError(f"unknown task {self.task!r} of {self.dataset}. {there}")
        return self

    @property
    def is_file(self) -> bool:
        """Whether the samples come from files rather than from the catalog."""
        return bool(self.train or self.test)


class NetworkSection(Section):
    """`[[network]]`: an architecture that is trained by every method, or one with weights, which is only measured.

    Parameters
    ----------
    name, architecture
        What it is called here, and in the catalog.
    weights
        A file: the network is measured as it is, not trained.
    start
        A file of weights with which every training begins.
    mean, std
        Normalisation, instead of the data's.
    data
        For these data only; all if left out.
    """

    subject, noun = "architecture", "an architecture's name"

    architecture: str
    weights: str = ""
    start: str = ""
    mean: Numbers = ()
    std: Numbers = ()
    data: Names = ()

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if self.architecture not in ARCHITECTURES:
            raise InputError(f"unknown architecture {self.architecture!r}. {suggest(self.architecture, ARCHITECTURES)}")
        if self.weights and self.start:
            raise InputError("`weights` is for a network that is not trained, `start` for one that is: give one.")
        _both(self.mean, self.std)
        return self


class TrainingSection(BaseModel):
    """`[training]`: how all methods train, where a `[[method]]` does not say otherwise; see `TrainingPlan`.

    Parameters
    ----------
    settings_of
        A paper, from which all that is not said is taken.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    settings_of: str = ""
    epochs: int | None = Field(None, ge=1)
    rate: float | None = None
    optimizer: str | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    batch: int | None = None
    schedule: str | None = None
    augmentation: str | None = None
    average: float | None = None
    watch: str | None = None
    watch_radius: str | float | None = None
    watch_samples: int | None = None
    patience: int | None = None
    keep_every: int | None = None


class MethodSection(_OfCatalog, TrainingSection):
    """`[[method]]`: a training method with its fields, and where it differs from `[training]`.

    Parameters
    ----------
    name, method
        What it is called here, and the method as options spell it; its fields may also stand in the section.
    groups
        The partition that it speaks of, instead of the data's.
    data, networks
        For these only; all if left out.
    """

    subject, noun, catalog = "method", "a training method's name", METHODS

    method: str
    groups: str = ""
    data: Names = ()
    networks: Names = ()

    @model_validator(mode="after")
    def _checked(self) -> Self:
        parse_method(self.method)
        return self


class _Measuring(_OfCatalog):
    epochs: Names = ("last",)
    data: Names = ()
    networks: Names = ()
    methods: Names = ()

    @field_validator("epochs", mode="before")
    @classmethod
    def _epochs(cls, given: Any) -> tuple[str, ...]:
        words = tuple(str(each) for each in several(given) if not isinstance(each, bool))
        if not words:
            raise InputError(f"`epochs` is empty. {suggest('', WORDS)}")
        for word in words:
            if word not in WORDS and not (word.isdigit() and int(word)):
                raise InputError(f"`epochs`: what is {word!r}? {suggest(word, WORDS)} Or give an epoch's number.")
        return tuple(dict.fromkeys(words))


class DistanceSection(_Measuring):
    """`[[distance]]`: an estimator, by which the distances of all test samples are measured.

    Parameters
    ----------
    name, estimator
        What it is called here, and the estimator as options spell it; its fields may also stand in the section.
    epochs
        "first", "middle", "last", "best", or numbers of kept epochs.
    data, networks, methods
        For these only; all if left out.
    """

    subject, noun, catalog = "estimator", "an estimator's name", ESTIMATORS

    estimator: str

    @model_validator(mode="after")
    def _checked(self) -> Self:
        parse_estimator(self.estimator)
        return self


class AttackSection(_Measuring):
    """`[[attack]]`: an attack at one radius or at several.

    Parameters
    ----------
    name, attack
        What it is called here, and the attack as options spell it; its fields may also stand in the section.
    radius
        Numbers, or texts such as "8/255".
    epochs, data, networks, methods
        As for `[[distance]]`.
    """

    subject, noun, catalog = "attack", "an attack's name", ATTACKS

    attack: str
    radius: tuple[float, ...]

    @field_validator("radius", mode="before")
    @classmethod
    def _radii(cls, given: Any) -> tuple[float, ...]:
        radii = tuple(dict.fromkeys(map(parse_radius, several(given))))
        if not radii or 0 in radii:
            raise InputError('`radius` must be above 0: at 0 nothing is attacked. Give for instance "8/255".')
        return radii

    @model_validator(mode="after")
    def _checked(self) -> Self:
        parse_attack(self.attack)
        return self

    def at(self, radius: float) -> str:
        """The attack at one of its radii, in words."""
        return f"{self.name} at {spelled_radius(radius)}"


def unknown_field(name: str, known: Iterable[str]) -> str:
    """What to say of a field that there is not: what was meant, or else what there is.

    >>> unknown_field("step", ["steps", "norm"])
    'unknown field `step`. Did you mean `steps`?'
    """
    meant, _, _ = suggest(name, known).partition(" There are")
    return f"unknown field `{name}`. {meant}".replace("'", "`")


def crossed(name: str) -> tuple[str, ...]:
    """The parts of a partition's name.

    >>> crossed("race & sex")
    ('race', 'sex')
    """
    return tuple(part.strip() for part in name.split("&"))


def _both(mean: Sequence[float], std: Sequence[float]) -> None:
    if bool(mean) != bool(std):
        given, other = ("mean", "std") if mean else ("std", "mean")
        raise InputError(f"`{given}` is given without `{other}`: give both.")


def _spelled(about: str, beside: Mapping[str, Any]) -> str:
    name, given = split_options(about, "ddn:steps=50")
    twice = [field for field in beside if field in given]
    if twice:
        raise InputError(f"the field `{twice[0]}` is given twice, in {about!r} and beside it.")
    return f"{name}:{','.join(f'{field}={value}' for field, value in {**given, **beside}.items())}"
