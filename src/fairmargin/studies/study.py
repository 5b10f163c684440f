"""The study: everything that decides an audit's result, in one frozen value."""

import math
from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError

# A run folder may be audited again with other groups or settings; its samples and model are fixed.
MEASURED = (
    "model",
    "weights",
    "mean",
    "std",
    "tile",
    "data",
    "root",
    "split",
    "task",
    "size",
    "labels",
    "image_column",
    "class_names",
    "per_group",
    "label",
    "features",
    "scale",
    "bounds",
    "distances",
    "seed",
)


# Options that only one of the two sources understands.
FOR_MODELS = (
    "trust_model",
    "weights",
    "mean",
    "std",
    "device",
    "tile",
    "root",
    "task",
    "size",
    "labels",
    "image_column",
    "class_names",
    "per_group",
    "training_data",
    "label",
    "features",
    "scale",
    "bounds",
    "estimators",
    "adequacy",
    "precision",
    "target",
)
FOR_TABLES = ("distance_column", "correct_column", "id", "bound", "norm")


class Study(BaseModel):
    """What `fairmargin audit` does: measure a model on data, or read distances measured elsewhere, and compare groups.

    >>> Study(distances="table.csv", groups=("sex",)).measures
    False
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = ""
    trust_model: bool = False
    weights: str = ""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    device: str = ""
    tile: int = Field(0, ge=0)
    data: str = ""
    root: str = ""
    split: Literal["all", "train", "test"] = "all"
    task: str = ""
    size: int = Field(0, ge=0)
    labels: str = ""
    image_column: str = ""
    class_names: tuple[str, ...] = ()
    per_group: int = Field(0, ge=0)
    training_data: str = ""
    label: str = ""
    features: tuple[str, ...] = ()
    scale: Literal["", "std", "none"] = ""
    bounds: tuple[float, float] | None = None
    estimators: tuple[str, ...] = ()
    adequacy: bool = False
    adequacy_samples: int = Field(64, ge=10)
    precision: float = 0.0
    target: Literal["", "population", "samples"] = ""

    distances: str = ""
    distance_column: str = ""
    correct_column: str = ""
    id: str = ""
    bound: Literal["", "exact", "upper", "lower", "neither"] = ""
    norm: str = ""

    groups: tuple[str, ...] = ()
    cross: tuple[tuple[str, ...], ...] = ()
    merge_below: int = Field(0, ge=0)
    control: str = ""
    cluster: str = ""
    confidence: float = 0.95
    up_to: float = math.inf
    smallest_group: int = 30
    resamples: int = 2_000
    seed: int = Field(0, ge=0)
    title: str = ""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.distances and (self.model or self.data):
            raise ValueError("Give either --distances, or --model with --data, not both")
        if not self.distances and not (self.model and self.data):
            missing = "--model" if self.data else "--data" if self.model else "--model with --data, or --distances"
            raise ValueError(f"What to audit is missing: give {missing}")
        idle = [name for name in (FOR_MODELS if self.distances else FOR_TABLES) if getattr(self, name)]
        if idle:
            other = "--model with --data" if self.distances else "--distances"
            raise ValueError(f"{option_of(idle[0])} goes with {other}, and says nothing here: leave it out")
        if not self.adequacy and self.adequacy_samples != type(self).model_fields["adequacy_samples"].default:
            raise ValueError("--adequacy-samples goes with --adequacy, and says nothing here: leave it out, or add it")
        self._check_precision()
        if bool(self.mean) != bool(self.std):
            given, other = ("--mean", "--std") if self.mean else ("--std", "--mean")
            raise ValueError(f"{given} is given without {other}: give both ({'--std 1' if self.mean else '--mean 0'})")
        for names in self.cross:
            if len(set(names)) < max(2, len(names)):
                raise ValueError(
                    f"--cross takes two or more different columns, as in race,sex; given {','.join(names)}"
                )
        return self

    def _check_precision(self) -> None:
        if self.target and not self.precision:
            raise ValueError("--target goes with --precision, and says nothing here: leave it out, or add --precision")
        if not self.precision:
            return
        if not 0 < self.precision < 1:
            raise ValueError(
                f"--precision is half the width of σ's interval, between 0 and 1, as in 0.03; given {self.precision:g}"
            )
        if len(self.estimators) > 1:
            raise ValueError("--precision takes one --estimator, the reference; it finds a cheap one by itself")
        for name in ("adequacy", "control", "cluster"):
            if getattr(self, name):
                raise ValueError(f"{option_of(name)} does not go with --precision yet: leave one of them out")

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
        raise InputError(f"{prefix}{_sentence(error.errors()[0], fields)}.") from None


def option_of(field: str) -> str:
    """A field as it is spelled on the command line.

    >>> option_of("merge_below"), option_of("groups")
    ('--merge-below', '--group')
    """
    singular = {"groups": "group", "estimators": "estimator"}
    return "--" + singular.get(field, field).replace("_", "-")


def _sentence(problem: Any, fields: Mapping[str, Any]) -> str:
    """What pydantic found, in our words."""
    message = str(problem["msg"]).removeprefix("Value error, ")
    if not problem["loc"]:
        return message
    name = str(problem["loc"][0])
    given = f"{option_of(name)}: given {fields.get(name)!r}"
    if problem["type"] == "greater_than_equal":
        return f"{given}, expected {problem['ctx']['ge']} or more"
    if problem["type"] == "literal_error":
        allowed = [v for v in get_args(Study.model_fields[name].annotation) if v]
        return f"{given}, expected one of {', '.join(allowed)}"
    return f"{given}. {message}"


def differing(old: Study, new: Study) -> tuple[str, ...]:
    """The fields that decide what is measured and that differ between two studies."""
    return tuple(name for name in MEASURED if getattr(old, name) != getattr(new, name))
