"""The options of a study. Each field is an option of the command line, a key of study files and a Python argument."""

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, field_validator, model_validator

from fairmargin.core.norm import Norm
from fairmargin.core.options import (
    Bins,
    Bounds,
    ChosenRadii,
    Crosses,
    Listed,
    Names,
    Number,
    Numbers,
    OnCommandLine,
    Options,
    Radii,
    Radius,
    Whole,
)
from fairmargin.errors import InputError
from fairmargin.inference.settings import CompareOptions
from fairmargin.study.paper_settings import STEPS, settings_of, settings_sentence
from fairmargin.study.rules_file import plain_rules, rules_of
from fairmargin.study.schedule import Schedule, parse_schedule


def _schedule(value: Any) -> Any:
    if isinstance(value, Schedule):
        return value
    if not isinstance(value, str):
        raise InputError("must be a text such as 'cosine' or 'steps:0.5,0.75'")
    return parse_schedule(value)


def _column_rules(value: Any) -> Any:
    if isinstance(value, Mapping):
        return plain_rules(rules_of(value, "columns, "))
    if not isinstance(value, str):
        raise InputError("must be the path of a file of rules, or one table per column")
    return value


def _must(holds: Callable[[Any], bool], problem: str) -> AfterValidator:
    """Return a validator that refuses values for which `holds` is false."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise InputError(problem)
        return value

    return AfterValidator(check)


Count = Annotated[Whole, Field(ge=0)]
AtLeastOne = Annotated[Whole, _must(lambda value: value >= 1, "must be a whole number, 1 or more")]
NotBelowZero = Annotated[Whole, _must(lambda value: value >= 0, "must be a whole number, 0 or more")]
Positive = Annotated[Number, _must(lambda value: 0 < value < math.inf, "must be a positive number")]
NotNegative = Annotated[Number, _must(lambda value: 0 <= value < math.inf, "must be a number, 0 or more")]
ColumnRules = Annotated[
    str | Mapping[str, Mapping[str, Any]], BeforeValidator(_column_rules), OnCommandLine(metavar="FILE")
]
"""The path of a TOML file of rules for columns, or the rules themselves as plain values."""
Share = Annotated[NotNegative, _must(lambda value: value < 1, "must lie below 1")]
Rate = Annotated[Schedule, BeforeValidator(_schedule), PlainSerializer(str, return_type=str)]


class ColumnOptions(Options):
    """How the columns of a table may change, for models that take raw rows."""

    panel: ClassVar[str] = "Columns of a table"

    columns: ColumnRules = ""
    """Rules for columns (TOML): unit, range, step, direction, …; `fairmargin columns` writes a draft. For models of
    scikit-learn, XGBoost and LightGBM."""
    immutable: Names = ()
    """Columns that do not change: sex,race,age. Those that define the groups do not change anyway."""


class DataOptions(ColumnOptions):
    """The samples: a dataset of the catalog, a file, or a folder of images."""

    panel: ClassVar[str] = "Data"

    data: str = ""
    """Name of a dataset (`fairmargin data`), a file .npz, .csv or .parquet, or a folder or zip of images."""
    root: str = ""
    """Folder or archive of a named dataset's files."""
    split: Literal["", "all", "train", "test"] = ""
    """Part of a named dataset: all, train or test; all if left out, or train for a training."""
    task: str = ""
    """What is predicted, for datasets with several tasks."""
    size: Count = 0
    """Width and height to which images are resized; 0: as they are."""
    label: str = ""
    """Column of a table that holds the class."""
    features: Names = ()
    """Feature columns of a table; all but label and group columns if left out."""
    scale: Literal["", "std", "none"] = ""
    """Unit of length of each feature: std (its standard deviation; the default of tables) or none (its own unit)."""
    bounds: Bounds = None
    """Smallest and largest valid value of inputs: low,high, for instance 0,1."""
    labels: str = ""
    """Table (.csv, .parquet) with labels and attributes of a folder of images; without it, subfolders are classes."""
    image_column: str = ""
    """Column of `labels` with the names of the image files; "file" if left out."""
    class_names: Names = ()
    """Classes in the order of a network's outputs, where labels are names; sorted if left out."""
    per_group: Count = 0
    """Maximum number of samples of each value of the first group column (or of `by`); 0: all."""
    by: str = ""
    """Column whose values `per_group` counts; the first group column if left out."""
    training_data: str = ""
    """Data the model was trained on (a file, or NAME:SPLIT), to warn of samples that are part of it. For models of
    tables, units, steps, ranges and categories of columns are taken from it too."""


class ModelOptions(Options):
    """Options that name a classifier and say how it is loaded."""

    panel: ClassVar[str] = "Model"

    model: str = ""
    """A file (.npz with weight and bias, .onnx, .skops, .joblib, .pkl, .pt, .pt2, .json and .ubj of XGBoost, .txt of
    LightGBM), an import path (package.module:name or path/to/file.py:name), or arch:NAME with weights. See `fairmargin
    list architectures`."""
    weights: str = ""
    """Weights of a torch network: .safetensors, or a checkpoint of tensors (.pt, .pth, .th, .ckpt)."""
    mean: Numbers = ()
    """Means by which the network's inputs are normalised: 0.485,0.456,0.406, or one number.
    Distances stay in the data's units."""
    std: Numbers = ()
    """Standard deviations by which the network's inputs are normalised."""
    trust_model: bool = False
    """Read model files that can run code (.joblib, .pkl, .pt2, whole torch modules). Only if you made them yourself."""
    device: str = ""
    """Device of a network: cpu, cuda, …; a GPU if there is one."""
    tile: Count = 0
    """Number of samples that a network processes at once; 0: 64. Fewer where memory is short."""

    @model_validator(mode="after")
    def _check_normalisation(self) -> Self:
        if bool(self.mean) != bool(self.std):
            given, other, example = ("mean", "std", "1") if self.mean else ("std", "mean", "0")
            raise InputError(
                f"is given without {{{other}}}: give both ({{{other}}} {example})", field=given, others=(other,)
            )
        return self


class ImportOptions(Options):
    """Distances measured elsewhere."""

    panel: ClassVar[str] = "Distances measured elsewhere"

    distances: str = ""
    """Table of distances (.csv, .parquet, .npz), or a run folder."""
    distance_column: str = ""
    """Column with the distance; of a run folder with several estimators, the estimator."""
    correct_column: str = ""
    """Column that says whether the sample is classified correctly."""
    id: str = ""
    """Column with an id of its own for every sample, by which `compare` pairs two runs."""
    bound: Literal["", "exact", "upper", "lower", "neither"] = ""
    """Side of the truth on which the distances lie: exact, upper (attacks), lower (certificates), neither."""


class GroupOptions(Options):
    """The groups that are compared."""

    panel: ClassVar[str] = "Groups"

    group: Listed = ()
    """Column whose values are the groups; may be repeated. The class if left out."""
    cross: Crosses = ()
    """Columns to intersect: race,sex; may be repeated."""
    merge_below: Count = 0
    """Merge groups smaller than this into "other"."""
    control: str = ""
    """Compare groups inside the values of this column, usually the class."""
    cluster: str = ""
    """Column with an id per person, where samples are not independent."""
    sample_weight: str = ""
    """Column with a weight per sample, where samples stand for unequal parts of the population; only ratios matter."""
    bins: Bins = ()
    """Edges between groups by numbers: age=30,45,60; may be repeated."""

    @property
    def named_columns(self) -> tuple[str, ...]:
        """Every column that groups, controls, clusters or weights, each once."""
        crossed = (name for cross in self.cross for name in cross)
        named = [*self.group, *crossed, self.control, self.cluster, self.sample_weight]
        return tuple(dict.fromkeys(name for name in named if name))


class AuditOptions(CompareOptions):
    """What an audit measures, and how it compares groups."""

    panel: ClassVar[str] = "Measuring"

    estimator: Listed = ()
    """NAME or NAME:key=value,…, as in plumb:steps=20; may be repeated. See `fairmargin list estimators`."""
    norm: Literal["", "l1", "l2", "linf"] = ""
    """Norm of estimators that name none, or of imported distances."""
    adequacy: bool = False
    """Also check whether attacks were strong enough: some samples of each group at a quarter to four times the steps,
    with alarms for masked gradients. Can be added to a finished run."""
    adequacy_samples: Annotated[Whole, Field(ge=10)] = 64
    """Maximum number of samples of each group that the check of adequacy looks at; 10 or more."""
    precision: Number = 0.0
    """Measure no more samples than it takes to know every group's σ to ± this, as in 0.03: a cheap estimator on many,
    `estimator` on few. Prints what that saved."""
    examples: Count = 0
    """For models of tables: also show the nearest changes of this many single rows of each group, with their numbers.
    These are persons: share such a page with care."""
    radii: ChosenRadii = ()
    """Radii at which the shares of samples that withstand are compared, as in 0.5,1,2; choose them before you look at
    the data. Curves are compared at all radii anyway."""
    target: Literal["", "population", "samples"] = ""
    """What the precision is about: population (the samples were drawn from it) or samples (these alone)."""

    @field_validator("norm", mode="before")
    @classmethod
    def _read_norm(cls, value: object) -> object:
        """Accept a `Norm` beside its name."""
        return value.value if isinstance(value, Norm) else value

    @field_validator("precision", mode="before")
    @classmethod
    def _check_precision(cls, value: object) -> object:
        number = float(value) if isinstance(value, int | float | str) and str(value).strip() else value
        if isinstance(value, str | int) and number == 0 and not isinstance(value, bool):
            raise InputError("must lie between 0 and 1, as in 0.03. Leave it out for a full audit")
        if isinstance(number, float) and number and not 0 < number < 1:
            raise InputError("is half the width of σ's interval and must lie between 0 and 1, as in 0.03")
        return value

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        default = type(self).model_fields["adequacy_samples"].default
        if not self.adequacy and self.adequacy_samples != default:
            raise InputError(
                "goes with {adequacy} and has no effect here: leave it out, or add {adequacy}",
                field="adequacy_samples",
                others=("adequacy",),
            )
        if self.target and not self.precision:
            raise InputError(
                "goes with {precision} and has no effect here: leave it out, or add {precision}",
                field="target",
                others=("precision",),
            )
        if self.precision and len(self.estimator) > 1:
            raise InputError(
                "takes one {estimator}, the reference; it finds a cheap one by itself",
                field="precision",
                others=("estimator",),
            )
        if self.precision and self.radii:
            raise InputError(
                "are for the curves of all samples, and {precision} measures some of them: leave one of them out",
                field="radii",
                others=("precision",),
            )
        if self.precision and self.adequacy:
            raise InputError(
                "does not go with {precision} yet: leave one of them out", field="adequacy", others=("precision",)
            )
        return self


class AttackOptions(CompareOptions):
    """The attacks at fixed radii."""

    panel: ClassVar[str] = "Attacking"

    attack: Listed = ()
    """NAME or NAME:key=value,…, as in pgd:steps=40,norm=l2; may be repeated. pgd if left out. See `fairmargin list
    attacks`."""
    radius: Radii = ()
    """How far the attack may go, as in 4/255 or 0.5; may be repeated."""
    up_to: Annotated[Number, OnCommandLine(hidden=True)] = float("inf")
    """Not used by attacks, whose radius is the cap."""


class AuditedEpochs(Options):
    """The epochs of a training that are measured."""

    panel: ClassVar[str] = "Auditing epochs"

    audit_epochs: Names = ()
    """Audit the network as it was at these epochs: first,middle,last,best, or numbers of kept epochs."""

    @field_validator("audit_epochs", mode="before")
    @classmethod
    def _read_numbers(cls, value: Any) -> Any:
        """Accept numbers beside names, as a study file may hold them."""
        several = value if isinstance(value, list | tuple) else (value,)
        if any(isinstance(each, bool) for each in several):
            raise InputError("must be first, middle, last, best, or numbers of kept epochs")
        return value if isinstance(value, str) else tuple(map(str, several))


class AuditedData(Options):
    """The samples on which a trained network is measured."""

    panel: ClassVar[str] = "Auditing epochs"

    audit_on: str = ""
    """Samples on which epochs are audited: a split, a file, or validation; the split test if left out."""
    audit_per_group: Count = 0
    """Maximum number of audited samples of each group; 0: all."""


class EpochOptions(AuditedEpochs, AuditedData):
    """When a training is audited, and on what."""

    panel: ClassVar[str] = "Auditing epochs"


class DescentOptions(Options):
    """Settings of gradient descent: steps, batches, validation and kept weights."""

    panel: ClassVar[str] = "Steps"

    rate: Positive = 0.01
    """Learning rate."""
    optimizer: Literal["sgd", "adam"] = "sgd"
    """Optimizer: sgd or adam."""
    momentum: Share = 0.9
    """Momentum of sgd."""
    weight_decay: NotNegative = 0.0
    """Weight decay of the optimizer."""
    batch: AtLeastOne = 128
    """Number of samples of a step."""
    schedule: Rate = Schedule()
    """How the rate changes: constant, cosine, or steps:0.5,0.75, a tenth after each of these shares of the epochs."""
    augmentation: Literal["none", "flip", "crop_flip"] = "none"
    """Augmentation of images: none, flip (left and right), or crop_flip (also moved by up to 4 pixels)."""
    average: Share = 0.0
    """Decay of a moving average of the weights, as in 0.999; 0: none. The average is what is validated and kept."""
    watch_samples: AtLeastOne = 200
    """Maximum number of validation samples of each group that are evaluated between epochs."""
    patience: NotBelowZero = 0
    """Stop after this many epochs in which the worst group did not become better on validation data; 0: never."""
    keep_every: NotBelowZero = 0
    """Number of epochs between weights that are kept besides the first, middle, last and best; 0: only these."""

    def descent(self) -> dict[str, Any]:
        """Return the settings of the descent by name."""
        return {name: getattr(self, name) for name in DescentOptions.model_fields}


class TrainOptions(DescentOptions):
    """How a network is trained.

    >>> options = TrainOptions(method="fat", settings_of="ma", epochs=12)
    >>> options.epochs, options.rate, str(options.schedule)
    (12, 0.1, 'steps:0.5,0.6667')
    """

    panel: ClassVar[str] = "Training"

    arch: str = ""
    """Architecture by its name, see `fairmargin list architectures`; the same as `model` = arch:NAME."""
    method: str = "erm"
    """Name of a training method; see `fairmargin list methods`."""
    set: Listed = ()
    """field=value of the method, as in weight=0.5 or radius=4/255; may be repeated."""
    settings_of: str = ""
    """Epochs, rate, batch and schedule of a paper: nanda, tran, tran-faces, ma or mousavi. Options that are given too
    take precedence."""
    beside: Annotated[tuple[str, ...] | None, OnCommandLine(hidden=True)] = None
    """Names of the fields that were given beside `settings_of`."""
    epochs: Annotated[Whole, Field(ge=1)] = 0
    """Number of epochs: how often each sample is used."""
    validation: str = "0.1"
    """Data for validation between epochs: a share of each class, a split, a file, or 0 for none."""
    watch: str = ""
    """Attack on validation data, NAME or NAME:key=value,…; pgd:steps=10 in the method's norm if left out."""
    watch_radius: Annotated[Radius | None, OnCommandLine(metavar="RADIUS")] = None
    """Radius of that attack, as in 4/255; the method's own if left out. 0: no attack."""
    method_groups: str = ""
    """Groups that the method treats: a column, or "race & sex"; the first groups that are compared if left out."""
    threads: Annotated[Whole, Field(ge=1)] = 1
    """Number of threads of the training. It is fixed because the last bits of the weights depend on it."""
    log: Listed = ()
    """Also log to tensorboard or mlflow; may be repeated."""

    @model_validator(mode="before")
    @classmethod
    def _take_from_paper(cls, given: Any) -> Any:
        """Fill in the settings of a paper; fields that the user gave stay, also when they are read from a record."""
        if not isinstance(given, Mapping) or not given.get("settings_of"):
            return given
        known = settings_of(str(given["settings_of"])).fields
        own = given.get("beside")
        own = tuple(name for name in STEPS if name in given) if own is None else own
        return {**{name: value for name, value in known.items() if name not in own}, **given, "beside": own}

    @field_validator("validation", mode="before")
    @classmethod
    def _read_share(cls, value: Any) -> Any:
        """Accept a number, as a study file may hold it."""
        return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if not self.epochs:
            raise InputError(
                "The number of epochs is missing: give {epochs}, or {settings_of} a paper.",
                others=("epochs", "settings_of"),
            )
        if self.share == 0 and self.patience:
            raise InputError(
                "watches validation data, and {validation} 0 leaves none. Leave one of them out",
                field="patience",
                others=("validation",),
            )
        return self

    @property
    def share(self) -> float | None:
        """The share of the training data that is kept for validation; None where validation has data of its own."""
        try:
            share = float(self.validation)
        except ValueError:
            return None
        if not 0 <= share < 1:
            raise InputError(
                "is a share of the training data, from 0 to below 1", field="validation", given=self.validation
            )
        return share

    @property
    def settings_sentence(self) -> str:
        """Sentence about the settings taken from a paper; empty without a paper."""
        values = {name: getattr(self, name) for name in STEPS}
        return settings_sentence(self.settings_of, self.beside or (), values) if self.settings_of else ""
