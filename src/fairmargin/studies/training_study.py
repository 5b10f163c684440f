"""What `fairmargin train` is asked: data and network, a method, how long, what is watched and audited."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fairmargin.attacks.catalog import parse_attack
from fairmargin.core.catalog import split_options
from fairmargin.core.options import validated
from fairmargin.core.radius import parse_radius
from fairmargin.core.suggestion import suggest
from fairmargin.data.card import SPLITS
from fairmargin.data.catalog import DATASETS
from fairmargin.errors import InputError, ModelError
from fairmargin.models.architectures.catalog import ARCHITECTURES
from fairmargin.study.options import DataOptions, GroupOptions, ModelOptions
from fairmargin.training.catalog import METHODS, describe_method
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.recipe import TrainingMethod

ARCHITECTURE = "arch:"
VALIDATION = "validation"


class Subject(ModelOptions, DataOptions, GroupOptions):
    """Data, network and groups of a training; the network's weights are a warm start."""


@dataclass(frozen=True, slots=True)
class EpochQuestion:
    """Which epochs are audited afterwards, and how.

    Parameters
    ----------
    epochs
        "first", "middle", "last", "best", or numbers of kept epochs; empty: none.
    on
        A split of the dataset, a file, or "validation"; empty: the split "test".
    estimators
        As options spell them; `plumb` if left out.
    per_group
        At most so many samples of each group; 0: all.
    confidence, resamples
        Of the intervals.
    """

    epochs: tuple[str, ...] = ()
    on: str = ""
    estimators: tuple[str, ...] = ()
    per_group: int = 0
    confidence: float = 0.95
    resamples: int = 2_000


@dataclass(frozen=True, slots=True)
class TrainingStudy:
    """Everything that decides a training, and what is looked at afterwards.

    Parameters
    ----------
    subject
        Data, groups and network, as an audit names them; the network's weights are a warm start.
    method, epochs, plan
        See `fairmargin.train`.
    validation
        A share of the training data, a split, a file, or "0" for none.
    question
        Which epochs are audited.
    logs
        Names of `LOGGERS`.
    """

    subject: Subject
    method: TrainingMethod
    epochs: int
    plan: TrainingPlan = field(default_factory=TrainingPlan)
    validation: str = "0.1"
    question: EpochQuestion = field(default_factory=EpochQuestion)
    logs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise InputError(f"--epochs must be 1 or more; given {self.epochs}.")
        if self.subject.group and self.subject.cross:
            group, crossed = self.subject.group[0], self.subject.cross[0]
            all_crossed = "" if group in crossed else f", or cross all of them: --cross {','.join((*crossed, group))}"
            raise InputError(
                f"--group {group} and --cross {','.join(crossed)} both name the groups, and a training has one "
                f"partition. Leave one of them out{all_crossed}."
            )
        if self.share == 0 and self.plan.patience:
            raise InputError(
                "--patience watches validation data, and --validation 0 leaves none. Leave one of them out."
            )
        if self.share == 0 and VALIDATION in (self.question.on, getattr(self.method, "found_on", "")):
            raise InputError("Validation data are asked for, and --validation 0 leaves none. Give a share such as 0.1.")

    @property
    def share(self) -> float | None:
        """The share of the training data that is kept for validation; None where validation has data of its own."""
        text = self.validation.strip()
        if text in SPLITS:
            return None
        try:
            share = float(text)
        except ValueError:
            return None
        if not 0 <= share < 1:
            raise InputError(f"--validation is a share of the training data, from 0 to below 1; given {text}.")
        return share

    @property
    def groups(self) -> str:
        """The name of the partition."""
        if self.subject.cross:
            return " & ".join(self.subject.cross[0])
        named = self.subject.group[0] if self.subject.group else "class"
        return "class" if named == self.subject.label else named

    def deciding(self) -> dict[str, object]:
        """What another training in the same folder would differ in, by the names of the options."""
        names = ("model", "mean", "std", "data", "split", "task", "size", "per_group", "group", "cross", "features")
        said = {name: getattr(self.subject, name) for name in names}
        plan = {name: getattr(self.plan, name) for name in TrainingPlan.__dataclass_fields__}
        method = {"method": ", ".join(f"{k}={v}" for k, v in describe_method(self.method).items())}
        return {**method, "epochs": self.epochs, **said, **plan, "validation": self.validation}


def make_subject(arch: str, fields: Mapping[str, object]) -> Subject:
    """Data and network; the training split of a named dataset unless another is asked for.

    >>> make_subject("lenet", {"data": "digits"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    fairmargin.errors.ModelError: Unknown architecture `lenet`. Did you mean 'lenet5'? There are: logistic, ...
    """
    model = str(fields.get("model", ""))
    if arch and model:
        raise InputError("Give --arch, or --model for a network of your own, not both.")
    if not arch and not model:
        raise InputError("What is to be trained? Give --arch, as in --arch lenet5, or --model path/to/file.py:make.")
    if not fields.get("data"):
        raise InputError("What is to be trained on? Give --data: a dataset's name, a file, or a folder of images.")
    name = arch or model.removeprefix(ARCHITECTURE)
    if (arch or model.startswith(ARCHITECTURE)) and name not in ARCHITECTURES:
        raise ModelError(f"Unknown architecture `{name}`. {suggest(name, ARCHITECTURES)}")
    split = fields.get("split") or ("train" if fields["data"] in DATASETS else "all")
    return validated(Subject, {**fields, "model": f"{ARCHITECTURE}{arch}" if arch else model, "split": split})


def make_method(text: str, settings: Sequence[str]) -> TrainingMethod:
    """A method of the catalog from its name and fields spelled "field=value".

    >>> make_method("fat", ["weight=0.5", "radius=4/255"]).weight
    0.5
    """
    name, given = split_options(text, "fat:weight=0.5")
    for setting in settings:
        field_name, equals, value = (part.strip() for part in setting.partition("="))
        if not equals or not field_name:
            raise InputError(f"--set takes field=value, as in --set weight=0.5; given {setting!r}.")
        if field_name in given:
            raise InputError(f"--set: the field `{field_name}` is given twice.")
        given[field_name] = value
    made: TrainingMethod = METHODS.build(name, given)
    return made


def watching(method: TrainingMethod, attack: str = "", radius: str = "") -> tuple[str, float]:
    """The attack that validation data are watched with, and its radius: the method's own if nothing else is said.

    Methods whose radius is in no norm of an attack have none to watch; then it is 0, and accuracy alone is watched.

    >>> watching(make_method("madry", ["radius=0.1", "norm=l2"]))
    ('pgd:steps=10,norm=l2', 0.1)
    """
    norm = getattr(method, "norm", None)
    text = attack or TrainingPlan().watch + ("" if norm is None else f",norm={norm.value}")
    same = norm is not None and parse_attack(text).norm == norm
    return text, parse_radius(radius) if radius else float(getattr(method, "radius", 0.0)) if same else 0.0
