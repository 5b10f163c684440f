"""The study: everything that decides an audit's result, in one frozen value."""

import math
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError

# A run folder may be audited again with other groups or settings; its samples and model are fixed.
MEASURED = ("model", "data", "root", "split", "label", "features", "scale", "bounds", "distances", "seed")


class Study(BaseModel):
    """What `fairmargin audit` does: measure a model on data, or read distances measured elsewhere, and compare groups.

    >>> Study(distances="table.csv", groups=("sex",)).measures
    False
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = ""
    trust_model: bool = False
    data: str = ""
    root: str = ""
    split: Literal["all", "train", "test"] = "all"
    label: str = ""
    features: tuple[str, ...] = ()
    scale: Literal["", "std", "none"] = ""
    bounds: tuple[float, float] | None = None
    estimators: tuple[str, ...] = ("exact_linear",)

    distances: str = ""
    distance_column: str = ""
    correct_column: str = ""
    bound: Literal["", "exact", "upper", "lower", "neither"] = ""
    norm: str = ""

    groups: tuple[str, ...] = ()
    cross: tuple[tuple[str, ...], ...] = ()
    merge_below: int = 0
    control: str = ""
    cluster: str = ""
    confidence: float = 0.95
    up_to: float = math.inf
    smallest_group: int = 30
    resamples: int = 2_000
    seed: int = 0
    title: str = ""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.distances and (self.model or self.data):
            raise ValueError("give either --distances, or --model with --data, not both")
        if not self.distances and not (self.model and self.data):
            missing = "--model" if self.data else "--data" if self.model else "--model with --data, or --distances"
            raise ValueError(f"what to audit is missing: give {missing}")
        return self

    @property
    def measures(self) -> bool:
        """Whether distances are measured here, rather than read."""
        return not self.distances

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that groups, controls or clusters, each once."""
        named = [*self.groups, *(name for cross in self.cross for name in cross), self.control, self.cluster]
        return tuple(dict.fromkeys(name for name in named if name))


def make_study(fields: Mapping[str, Any], where: str = "") -> Study:
    """A study from plain fields; what is wrong with them is said in one sentence.

    >>> make_study({"modle": "m.npz"})
    Traceback (most recent call last):
    ...
    fairmargin.errors.InputError: Unknown field `modle`. Did you mean 'model'?
    """
    prefix = f"{where}: " if where else ""
    for name in fields:
        if name not in Study.model_fields:
            hint = suggest(name, Study.model_fields).partition(" There are")[0]
            raise InputError(f"{prefix}Unknown field `{name}`. {hint}")
    try:
        return Study(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        message = str(first["msg"]).removeprefix("Value error, ")
        raise InputError(f"{prefix}{field + ': ' if field else ''}{message}.") from None


def differing(old: Study, new: Study) -> tuple[str, ...]:
    """The fields that decide what is measured and that differ between two studies."""
    return tuple(name for name in MEASURED if getattr(old, name) != getattr(new, name))
