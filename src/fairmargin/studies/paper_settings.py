"""How long and how fast the papers train: one row each. What a paper leaves open is left to the usual default."""

from collections.abc import Mapping
from dataclasses import dataclass

from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.schedules import Schedule, parse_schedule


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """Settings of a training; None where the paper does not say.

    Parameters
    ----------
    title
        Whose, and for which data.
    epochs, rate, momentum, weight_decay, batch, schedule
        See `TrainingPlan`; all of these papers descend by SGD.
    """

    title: str
    epochs: int
    rate: float
    momentum: float | None = None
    weight_decay: float | None = None
    batch: int | None = None
    schedule: str | None = None


_OPTIMIZER = "sgd"  # of all of them

# A further paper is one line here.
PAPERS: Mapping[str, PaperSettings] = {
    "nanda": PaperSettings("Nanda 2020 and 2021", 50, 5e-4, momentum=0.9, batch=28),
    "tran": PaperSettings("Tran 2024, Fashion-MNIST and CIFAR", 200, 0.1),
    "tran-faces": PaperSettings("Tran 2024, UTKFace", 70, 1e-3),
    # The rate is divided by 10 after 60 and 80 of the 120 epochs; fewer epochs keep the shares.
    "ma": PaperSettings("Ma 2022 (FAT)", 120, 0.1, momentum=0.9, weight_decay=2e-4, schedule="steps:0.5,0.6667"),
    "mousavi": PaperSettings("Mousavi 2023 (FARMUR)", 120, 0.1, batch=64),
}


def settings_of(paper: str) -> PaperSettings:
    """The settings of a paper by its short name.

    >>> settings_of("ma").epochs
    120
    """
    if paper not in PAPERS:
        raise InputError(f"There are no settings of {paper!r}. {suggest(paper, PAPERS)}")
    return PAPERS[paper]


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a person said about steps and length; None where nothing was said."""

    epochs: int | None = None
    rate: float | None = None
    optimizer: str | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    batch: int | None = None
    schedule: str | None = None


@dataclass(frozen=True, slots=True)
class Descent:
    """How long is trained, and by which steps: every question answered."""

    epochs: int
    rate: float
    optimizer: str
    momentum: float
    weight_decay: float
    batch: int
    schedule: Schedule


def settings_sentence(wishes: Wishes, paper: str) -> str:
    """What was taken from a paper, what was said beside it, and what it leaves open.

    >>> print(settings_sentence(Wishes(epochs=12), "tran"))  # doctest: +NORMALIZE_WHITESPACE
    Settings of Tran 2024, Fashion-MNIST and CIFAR: rate 0.1, optimizer sgd. Given beside it: epochs 12. Usual here,
    since the paper does not say: momentum 0.9, weight decay 0, batch 128, schedule constant.
    """
    known, found = settings_of(paper), descent(wishes, paper)
    told: dict[str, list[str]] = {"taken": [], "given": [], "usual": []}
    for name in Descent.__dataclass_fields__:
        given, printed = getattr(wishes, name), getattr(known, name, _OPTIMIZER)
        source = "given" if given is not None else "taken" if printed is not None else "usual"
        told[source].append(f"{name.replace('_', ' ')} {_spelled(getattr(found, name))}")
    heads = {"taken": f"Settings of {known.title}", "given": "Given beside it"}
    heads["usual"] = "Usual here, since the paper does not say"
    return " ".join(f"{heads[source]}: {', '.join(words)}." for source, words in told.items() if words)


def _spelled(value: object) -> str:
    if isinstance(value, Schedule):
        return value.spelling
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def descent(wishes: Wishes, paper: str = "") -> Descent:
    """What was said, else what the paper says, else the usual.

    >>> descent(Wishes(epochs=12), "ma")  # doctest: +ELLIPSIS
    Descent(epochs=12, rate=0.1, optimizer='sgd', momentum=0.9, weight_decay=0.0002, batch=128, schedule=Schedule(...))
    """
    known, usual = settings_of(paper) if paper else None, TrainingPlan()

    def first(name: str) -> object:
        for source in (wishes, known, usual):
            found = getattr(source, name, None)
            if found is not None:
                return found
        raise InputError("How long is to be trained? Give --epochs, or --settings-of a paper.")

    schedule = first("schedule")
    found = {name: first(name) for name in Descent.__dataclass_fields__ if name != "schedule"}
    return Descent(**found, schedule=parse_schedule(schedule) if isinstance(schedule, str) else schedule)  # type: ignore[arg-type]
