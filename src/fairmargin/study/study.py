"""The study: everything that decides the results of a run, as one frozen value."""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from fairmargin.core.options import Options, Whole
from fairmargin.errors import InputError
from fairmargin.study.grid import Grid, Measurement, Member, members_of
from fairmargin.study.options import (
    AttackOptions,
    AuditOptions,
    DataOptions,
    EpochOptions,
    GroupOptions,
    ImportOptions,
    ModelOptions,
    TrainOptions,
)
from fairmargin.study.schedule import Schedule

ARCHITECTURE = "arch:"
"""Prefix of the name of an architecture where a model is named."""

GIVEN = "given in Python"
"""What a study holds in place of a model or data that were passed as objects, followed by their fingerprint."""


class RunOptions(Options):
    """Options of every run that decide its numbers and its title."""

    panel: ClassVar[str] = "Run"

    seed: Annotated[Whole, Field(ge=0)] = 0
    """The same seed gives the same numbers."""
    title: str = ""
    """Title of the report."""


class Study(RunOptions):
    """What a run computes: an audit, attacks, or both, of one model on one dataset, or of imported distances.

    With `train`, the model is trained on `data` first, and an audit is one of its epochs. With `grid`, several models,
    trained or not, are measured on several data; then all other parts but the title are left out.

    >>> Study(imported=ImportOptions(distances="table.csv"), groups=GroupOptions(group="sex"), audit=AuditOptions())
    Study(imported: table.csv, by sex; audit)
    """

    data: DataOptions = DataOptions()
    model: ModelOptions = ModelOptions()
    imported: ImportOptions = ImportOptions()
    groups: GroupOptions = GroupOptions()
    train: TrainOptions | None = None
    epochs: EpochOptions = EpochOptions()
    audit: AuditOptions | None = None
    attack: AttackOptions | None = None
    grid: Grid | None = None

    @model_validator(mode="before")
    @classmethod
    def _name_architecture(cls, given: Any) -> Any:
        """Replace the option `arch` by the model "arch:NAME", so that one field names the network."""
        train = given.get("train") if isinstance(given, Mapping) else None
        if not isinstance(train, TrainOptions) or not train.arch:
            return given
        model = given.get("model", ModelOptions())
        if model.model:
            raise InputError("Give {arch}, or {model} for a network of your own, not both.", others=("arch", "model"))
        named = model.model_copy(update={"model": f"{ARCHITECTURE}{train.arch}"})
        return {**given, "model": named, "train": train.model_copy(update={"arch": ""})}

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if self.grid is not None:
            others = [name for name in self.model_fields_set - {"grid", "title"} if getattr(self, name) is not None]
            if others:
                raise InputError(f"A study of several models has sections only; given also {', '.join(others)}.")
            return self
        if self.train is not None:
            self._check_training()
            return self
        if self.epochs != EpochOptions():
            raise InputError(
                "{audit_epochs} are epochs of a training, but nothing is trained: leave it out.",
                others=("audit_epochs",),
            )
        imported, data, model = self.imported.distances, self.data.data, self.model.model
        if imported and (model or data):
            raise InputError(
                "goes without {model} and {data}: give either distances measured elsewhere, or a model with data",
                field="distances",
                others=("model", "data"),
            )
        if not imported and not (model and data):
            missing = ("model",) if data else ("data",) if model else ("model", "data", "distances")
            text = "{model} with {data}, or {distances}" if len(missing) == 3 else f"{{{missing[0]}}}"
            if self.audit is None:  # distances alone cannot be attacked
                text = text.removesuffix(", or {distances}")
            raise InputError(f"What to measure is missing: give {text}.", others=missing)
        self._refuse_idle()
        if self.attack is not None and imported:
            raise InputError("Attacks need a model and data; distances alone cannot be attacked.")
        if self.audit is not None and self.audit.precision:
            for name in ("control", "cluster", "sample_weight"):
                if getattr(self.groups, name):
                    raise InputError(
                        "does not go with {precision} yet: leave one of them out", field=name, others=("precision",)
                    )
        if self.groups.sample_weight:
            self._check_weights()
        return self

    def _check_weights(self) -> None:
        """Refuse weights of samples with measurements that take every sample alike."""
        if self.attack is not None:
            raise InputError(
                "does not go with attacks, whose robust accuracy counts samples: leave it out", field="sample_weight"
            )
        if self.audit is not None and self.audit.adequacy:
            raise InputError(
                "does not go with {adequacy}, which looks at some samples of each group: leave one of them out",
                field="sample_weight",
                others=("adequacy",),
            )

    def _check_training(self) -> None:
        """Refuse what does not go with a training."""
        if not self.model.model:
            raise InputError(
                "What is to be trained? Give {arch}, as in {arch} lenet5, or {model} path/to/file.py:make.",
                others=("arch", "model"),
            )
        if not self.data.data:
            raise InputError(
                "What is to be trained on? Give {data}: a dataset's name, a file, or a folder of images.",
                others=("data",),
            )
        self._refuse_idle()
        if self.data.training_data:
            raise InputError("does not go with a training: leave it out", field="training_data")
        if self.groups.sample_weight:
            raise InputError(
                "does not go with a training, which takes every sample alike: audit the trained network with it",
                field="sample_weight",
            )
        asked = self.audit is not None or self.epochs != EpochOptions()
        if asked and not self.epochs.audit_epochs:
            raise InputError(
                "Options of an audit are given, but not the epochs that it measures: add {audit_epochs}, for instance "
                "first,middle,last.",
                others=("audit_epochs",),
            )
        if self.attack is not None and not self.epochs.audit_epochs:
            raise InputError(
                "Options of an attack are given, but not the epochs that it measures: add {audit_epochs}, for instance "
                "last.",
                others=("audit_epochs",),
            )

    def _refuse_idle(self) -> None:
        """Refuse options of the source that is not used."""
        measured: tuple[Options, ...] = (self.data, self.model)
        idle: tuple[Options, ...] = measured if self.imported.distances else (self.imported,)
        extra = ("estimator", "adequacy", "precision", "target") if self.imported.distances else ()
        named = [(each, name) for each in idle for name in type(each).model_fields]
        named += [(self.audit, name) for name in extra if self.audit is not None]
        for options, name in named:
            if getattr(options, name) != type(options).model_fields[name].default:
                others = ("distances",) if not self.imported.distances else ("model", "data")
                text = "{distances}" if others == ("distances",) else "{model} with {data}"
                raise InputError(f"goes with {text} and has no effect here: leave it out", field=name, others=others)

    @property
    def measures(self) -> bool:
        """Whether distances are measured here, rather than imported."""
        return not self.imported.distances

    @property
    def members(self) -> tuple[Member, ...]:
        """Every model that is trained or measured, with its data; imported distances are one without a model."""
        if self.grid is not None:
            return tuple(members_of(self.grid))
        asked = [("audit", self.audit), ("attack", self.attack)]
        return (
            Member(
                *("", "", ""),
                seed=self.seed,
                data=self.data,
                groups=self.groups,
                model=self.model,
                train=self.train,
                audited=self.epochs,
                measurements=tuple(
                    Measurement(name, self.epochs.audit_epochs, options)
                    for name, options in asked
                    if options is not None
                ),
            ),
        )

    @property
    def key(self) -> str:
        """Hash of all fields of the study."""
        text = json.dumps(self.plain(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def __repr__(self) -> str:
        if self.grid is not None:
            kinds = (f"{len(found)} {kind}" for kind in Grid.SECTIONS if (found := getattr(self.grid, kind)))
            return f"Study(sections: {', '.join(kinds)})"
        source = (
            f"imported: {self.imported.distances}" if not self.measures else f"{self.model.model} on {self.data.data}"
        )
        by = ", ".join([*self.groups.group, *(" & ".join(names) for names in self.groups.cross)]) or "class"
        parts = [name for name in ("train", "audit", "attack") if getattr(self, name) is not None]
        asked = " and ".join(parts) or "nothing"
        return f"Study({source}, by {by}; {asked})"

    __str__ = __repr__


# Fields that do not decide what is measured. A run folder belongs to one source; everything else may change.
_INERT = {"data": {"training_data"}, "model": {"device", "trust_model"}, "train": {"settings_of", "beside", "log"}}


def differing(old: Study, new: Study) -> list[str]:
    """Return the fields of the source that differ between two studies, with both values.

    Studies of several models share a folder, whatever their sections: each of their results names its source.
    """
    if old.grid is not None and new.grid is not None:
        return []
    if old.grid is not None or new.grid is not None:
        kinds = [f"{'several models' if study.grid else 'one model'}" for study in (old, new)]
        return [f"what is measured ({kinds[0]}, now {kinds[1]})"]
    found = []
    for section in ("model", "data", "imported"):
        before, after = getattr(old, section), getattr(new, section)
        for name in type(before).model_fields:
            if name not in _INERT.get(section, ()) and getattr(before, name) != getattr(after, name):
                found.append(f"{name} ({getattr(before, name)!r}, now {getattr(after, name)!r})")
    found = found if old.seed == new.seed else [*found, f"seed ({old.seed}, now {new.seed})"]
    return [*found, *_differing_trainings(old, new)]


def _differing_trainings(old: Study, new: Study) -> list[str]:
    if old.train is None or new.train is None:
        kinds = [f"a {'training' if study.train else 'finished model'}" for study in (old, new)]
        return [] if old.train is new.train else [f"what is measured ({kinds[0]}, now {kinds[1]})"]
    pairs: list[tuple[Options, Options, str]] = [(old.groups, new.groups, name) for name in ("group", "cross")]
    names = [name for name in TrainOptions.model_fields if name not in _INERT["train"]]
    pairs += [(old.train, new.train, name) for name in names]
    return [
        f"{name} ({_text(getattr(before, name))}, now {_text(getattr(after, name))})"
        for before, after, name in pairs
        if getattr(before, name) != getattr(after, name)
    ]


def _text(value: Any) -> str:
    return str(value) if isinstance(value, int | float | Schedule) else repr(value)
