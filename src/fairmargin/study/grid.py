"""Sections of a study of several models: data, models, trainings, audits and attacks, each by name."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self, TypeVar, cast

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from fairmargin.core.options import Listed, Options, Whole
from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError
from fairmargin.study.options import (
    AttackOptions,
    AuditedData,
    AuditedEpochs,
    AuditOptions,
    DataOptions,
    GroupOptions,
    ModelOptions,
    TrainOptions,
)

_Kind = TypeVar("_Kind", bound=Options)

AS_GIVEN = "as given"
"""The method of a model that is not trained."""

_SEEDS = "must be a list of different seeds, such as [0, 1, 2]"


class DataSection(DataOptions, GroupOptions, AuditedData):
    """`[data.NAME]`: samples, their groups, and the samples on which trained models are measured."""


class ModelSection(ModelOptions):
    """`[model.NAME]`: a model, which every `[train.…]` that applies trains unless it is fixed."""

    fixed: bool = False
    """Measure the model as it is, without training it."""
    data: Listed = ()
    """Names of the data that the model is for; all if left out."""


class TrainSection(TrainOptions):
    """`[train.NAME]`: a training method and its settings."""

    data: Listed = ()
    """Names of the data that the training is for; all if left out."""
    models: Listed = ()
    """Names of the models that the training is for; all if left out."""

    @model_validator(mode="after")
    def _check_model(self) -> Self:
        if self.arch:
            raise InputError('goes into a model\'s section, as in [model.mine] model = "arch:lenet5"', field="arch")
        return self


class Selection(Options):
    """The data, models and methods that a measurement is for."""

    data: Listed = ()
    """Names of the data that are measured; all if left out."""
    models: Listed = ()
    """Names of the models that are measured; all if left out."""
    methods: Listed = ()
    """Names of the `[train.…]` sections whose networks are measured; all if left out."""


class AuditSection(AuditOptions, AuditedEpochs, Selection):
    """`[audit.NAME]`: an audit, after the last epoch of every training unless `audit_epochs` says otherwise."""


class AttackSection(AttackOptions, AuditedEpochs, Selection):
    """`[attack.NAME]`: attacks at fixed radii, after the last epoch of every training unless `audit_epochs` says so."""

    @model_validator(mode="after")
    def _check_radius(self) -> Self:
        if not self.radius:
            raise InputError("is missing: how far may the attack go? For images for instance 4/255", field="radius")
        return self


def _seeds(value: Any) -> Any:
    # A single number could be meant as a seed or as a count.
    if not isinstance(value, list | tuple) or not value:
        raise InputError(_SEEDS)
    return tuple(value)


def _different(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(seeds)) < len(seeds):
        raise InputError(_SEEDS)
    return seeds


class Grid(Options):
    """Sections by name; a study runs every combination of data, model, training and seed that they allow."""

    SECTIONS: ClassVar[Mapping[str, type[Options]]] = {
        "data": DataSection,
        "model": ModelSection,
        "train": TrainSection,
        "audit": AuditSection,
        "attack": AttackSection,
    }

    seeds: Annotated[tuple[Annotated[Whole, Field(ge=0)], ...], BeforeValidator(_seeds), AfterValidator(_different)] = (
        0,
    )
    """Every model is trained once with each of these seeds."""
    data: Mapping[str, DataSection] = Field(default_factory=dict)
    """The `[data.NAME]` sections."""
    model: Mapping[str, ModelSection] = Field(default_factory=dict)
    """The `[model.NAME]` sections."""
    train: Mapping[str, TrainSection] = Field(default_factory=dict)
    """The `[train.NAME]` sections."""
    audit: Mapping[str, AuditSection] = Field(default_factory=dict)
    """The `[audit.NAME]` sections."""
    attack: Mapping[str, AttackSection] = Field(default_factory=dict)
    """The `[attack.NAME]` sections."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        for kind, example in (("data", "[data.digits]"), ("model", "[model.small_cnn]")):
            if not getattr(self, kind):
                raise InputError(f"There is no section [{kind}.…]: add one, for instance {example}.")
        if not self.audit and not self.attack:
            raise InputError("Nothing is measured: add a section [audit.…] or [attack.…].")
        if len({*self.audit, *self.attack}) < len(self.audit) + len(self.attack):
            (name, *_) = set(self.audit) & set(self.attack)
            raise InputError(f"[audit.{name}] and [attack.{name}] have the same name: rename one of them.")
        for kind in self.SECTIONS:
            if any(not name.strip() for name in getattr(self, kind)):
                raise InputError(f"A section [{kind}.…] has an empty name: name it.")
        self._check_selections()
        members = list(members_of(self))
        if not members:
            raise InputError("No model is used with any of the data: check the fields `data` and `models`.")
        for member in members:
            _check_measurements(member)
        return self

    def _check_selections(self) -> None:
        """Refuse names of sections that are not there."""
        known = {"data": [*self.data], "models": [*self.model], "methods": [*self.train]}
        for kind in ("model", "train", "audit", "attack"):
            for name, section in getattr(self, kind).items():
                for field, there in known.items():
                    if field in section.model_fields_set and not getattr(section, field, True):
                        raise InputError(f"[{kind}.{name}]: `{field}` is empty: leave it out to select all.")
                    for wanted in getattr(section, field, ()):
                        if wanted not in there and (field, wanted) != ("methods", AS_GIVEN):
                            raise InputError(f"[{kind}.{name}]: `{field}` names {wanted!r}. {suggest(wanted, there)}")


@dataclass(frozen=True, slots=True)
class Measurement:
    """An audit or an attack of a model.

    Parameters
    ----------
    name
        Name of its section.
    epochs
        Epochs of a training after which the network is measured; ignored for models that are not trained.
    options
        What is measured.
    """

    name: str
    epochs: tuple[str, ...]
    options: AuditOptions | AttackOptions


@dataclass(frozen=True, slots=True)
class Member:
    """One model of a study on one dataset, with its training if it has one.

    Parameters
    ----------
    data_name, model_name, method, seed
        Names of its sections and the seed of its training; empty, and None, in a study of a single model.
    data, groups, model, train
        Its options; `train` is None for a model that is measured as it is.
    audited
        The samples on which a trained model is measured.
    measurements
        What is measured on it.
    title
        Name for messages.
    """

    data_name: str
    model_name: str
    method: str
    seed: int
    data: DataOptions
    groups: GroupOptions
    model: ModelOptions
    train: TrainOptions | None
    audited: AuditedData
    measurements: tuple[Measurement, ...]

    @property
    def title(self) -> str:
        """Name for messages: "cifar10, small_cnn, fat, seed 0"."""
        seed = f"seed {self.seed}" if self.train is not None else ""
        return ", ".join(filter(None, (self.data_name, self.model_name, self.method, seed)))


def members_of(grid: Grid) -> Iterator[Member]:
    """Yield every model that the sections of a grid describe, in their order."""
    for data_name in grid.data:
        for model_name, model in grid.model.items():
            if not _applies(model.data, data_name):
                continue
            if model.fixed or not grid.train:
                yield _member(grid, data_name, model_name, AS_GIVEN, 0)
                continue
            for method, train in grid.train.items():
                if _applies(train.data, data_name) and _applies(train.models, model_name):
                    for seed in grid.seeds:
                        yield _member(grid, data_name, model_name, method, seed)


def _member(grid: Grid, data_name: str, model_name: str, method: str, seed: int) -> Member:
    data, train = grid.data[data_name], grid.train.get(method) if method != AS_GIVEN else None
    sections: dict[str, AuditSection | AttackSection] = {**grid.audit, **grid.attack}
    return Member(
        data_name,
        model_name,
        method,
        seed,
        data=part_of(data, DataOptions),
        groups=part_of(data, GroupOptions),
        model=part_of(grid.model[model_name], ModelOptions),
        train=None if train is None else part_of(train, TrainOptions),
        audited=part_of(data, AuditedData),
        measurements=tuple(
            Measurement(
                name,
                section.audit_epochs or ("last",),
                part_of(section, AttackOptions)
                if isinstance(section, AttackSection)
                else part_of(section, AuditOptions),
            )
            for name, section in sections.items()
            if _applies(section.data, data_name)
            and _applies(section.models, model_name)
            and _applies(section.methods, method)
        ),
    )


def _check_measurements(member: Member) -> None:
    """Refuse two measurements with the same name in the results, and options that do not go with the groups."""
    seen: dict[tuple[object, ...], str] = {}
    if member.groups.sample_weight:
        _check_weights(member)
    for measurement in member.measurements:
        options, epochs = measurement.options, measurement.epochs if member.train is not None else ("",)
        if isinstance(options, AttackOptions):
            section = f"[attack.{measurement.name}]"
            how: list[tuple[str, object]] = [(name, radius) for name in options.attack for radius in options.radius]
        else:
            section = f"[audit.{measurement.name}]"
            how = [(name, (options.norm, bool(options.precision))) for name in options.estimator]
            for field in ("control", "cluster", "sample_weight"):
                if options.precision and getattr(member.groups, field):
                    raise InputError(
                        f"{section}: `precision` does not go with `{field}` of [data.{member.data_name}] yet: leave "
                        "one of them out."
                    )
        for each in [(*means, epoch) for means in dict.fromkeys(how) for epoch in dict.fromkeys(epochs)]:
            if each in seen:
                raise InputError(
                    f"{seen[each]} and {section} both measure {member.title} by {each[0]}: leave it out of one of them."
                )
            seen[each] = section


def _check_weights(member: Member) -> None:
    """Refuse weights of samples with trainings and measurements that take every sample alike."""
    adequacy = [m.name for m in member.measurements if isinstance(m.options, AuditOptions) and m.options.adequacy]
    attacks = [
        measurement.name for measurement in member.measurements if isinstance(measurement.options, AttackOptions)
    ]
    why = (
        f"the training [train.{member.method}]"
        if member.train is not None
        else f"[attack.{attacks[0]}], whose robust accuracy counts samples"
        if attacks
        else f"`adequacy` of [audit.{adequacy[0]}]"
        if adequacy
        else ""
    )
    if why:
        raise InputError(f"[data.{member.data_name}]: `sample_weight` does not go with {why}: leave one of them out.")


def part_of(section: Options, kind: type[_Kind]) -> _Kind:
    """Return the fields of a section that are those of `kind`, as options of that kind."""
    return cast(_Kind, kind.model_construct(**{name: getattr(section, name) for name in kind.model_fields}))


def _applies(only: tuple[str, ...], name: str) -> bool:
    return not only or name in only
