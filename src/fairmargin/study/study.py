"""The study: everything that decides a run's results, in one frozen value."""

import hashlib
import json
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from fairmargin.core.options import Options, Whole
from fairmargin.errors import InputError
from fairmargin.study.options import (
    AttackOptions,
    AuditOptions,
    DataOptions,
    GroupOptions,
    ImportOptions,
    ModelOptions,
)

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

    >>> Study(imported=ImportOptions(distances="table.csv"), groups=GroupOptions(group="sex"), audit=AuditOptions())
    Study(imported: table.csv, by sex; audit)
    """

    data: DataOptions = DataOptions()
    model: ModelOptions = ModelOptions()
    imported: ImportOptions = ImportOptions()
    groups: GroupOptions = GroupOptions()
    audit: AuditOptions | None = None
    attack: AttackOptions | None = None

    @model_validator(mode="after")
    def _check_source(self) -> Self:
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
            for name in ("control", "cluster"):
                if getattr(self.groups, name):
                    raise InputError(
                        "does not go with {precision} yet: leave one of them out", field=name, others=("precision",)
                    )
        return self

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
    def key(self) -> str:
        """Hash of everything the study says."""
        text = json.dumps(self.plain(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def plain(self) -> dict[str, Any]:
        """Return what differs from the defaults as plain values; `Study(**plain)` is the study again."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def __repr__(self) -> str:
        source = (
            f"imported: {self.imported.distances}" if not self.measures else f"{self.model.model} on {self.data.data}"
        )
        by = ", ".join([*self.groups.group, *(" & ".join(names) for names in self.groups.cross)]) or "class"
        asked = " and ".join(name for name in ("audit", "attack") if getattr(self, name) is not None) or "nothing"
        return f"Study({source}, by {by}; {asked})"

    __str__ = __repr__


SOURCE = ("data", "model", "imported", "seed")
"""Parts of a study that decide what is measured. A run folder belongs to one source; everything else may change."""

_INERT = {"data": {"training_data"}, "model": {"device", "trust_model"}}


def differing(old: Study, new: Study) -> list[str]:
    """Return the fields of the source that differ between two studies, with both values."""
    found = []
    for section in ("model", "data", "imported"):
        before, after = getattr(old, section), getattr(new, section)
        for name in type(before).model_fields:
            if name not in _INERT.get(section, ()) and getattr(before, name) != getattr(after, name):
                found.append(f"{name} ({getattr(before, name)!r}, now {getattr(after, name)!r})")
    return found if old.seed == new.seed else [*found, f"seed ({old.seed}, now {new.seed})"]
