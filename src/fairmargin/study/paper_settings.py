"""Settings of the trainings in papers, one row each. Settings that a paper does not name keep their defaults."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """Settings of the trainings of a paper.

    Parameters
    ----------
    title
        The paper, and for which data.
    fields
        Fields of `TrainOptions` that the paper names; all of these papers descend by SGD.
    """

    title: str
    fields: Mapping[str, Any]


def _paper(title: str, **fields: Any) -> PaperSettings:
    return PaperSettings(title, {"optimizer": "sgd", **fields})


# A further paper is one line here.
PAPERS: Mapping[str, PaperSettings] = {
    "nanda": _paper("Nanda 2020 and 2021", epochs=50, rate=5e-4, momentum=0.9, batch=28),
    "tran": _paper("Tran 2024, Fashion-MNIST and CIFAR", epochs=200, rate=0.1),
    "tran-faces": _paper("Tran 2024, UTKFace", epochs=70, rate=1e-3),
    # The rate is divided by 10 after 60 and 80 of the 120 epochs; fewer epochs keep the shares.
    "ma": _paper("Ma 2022 (FAT)", epochs=120, rate=0.1, momentum=0.9, weight_decay=2e-4, schedule="steps:0.5,0.6667"),
    "mousavi": _paper("Mousavi 2023 (FARMUR)", epochs=120, rate=0.1, batch=64),
}

STEPS = ("epochs", "rate", "optimizer", "momentum", "weight_decay", "batch", "schedule")
"""Fields of `TrainOptions` for the length of a training and its steps."""


def settings_of(paper: str) -> PaperSettings:
    """Return the settings of a paper by its short name.

    >>> settings_of("ma").fields["epochs"]
    120
    """
    if paper not in PAPERS:
        raise InputError(f"There are no settings of {paper!r}. {suggest(paper, PAPERS)}")
    return PAPERS[paper]


def settings_sentence(paper: str, given: Container[str], found: Mapping[str, Any]) -> str:
    """Return a sentence that lists the settings from a paper, those given by the user, and the defaults.

    Parameters
    ----------
    paper
        Short name of the paper.
    given
        Fields that the user gave.
    found
        Values of all `STEPS`.

    >>> print(settings_sentence("tran", {"epochs"}, {"epochs": 12, "rate": 0.1, "optimizer": "sgd"}))
    Settings of Tran 2024, Fashion-MNIST and CIFAR: rate 0.1, optimizer sgd. Given beside it: epochs 12.
    """
    known = settings_of(paper)
    told: dict[str, list[str]] = {"taken": [], "given": [], "usual": []}
    for name, value in ((name, found[name]) for name in STEPS if name in found):
        source = "given" if name in given else "taken" if name in known.fields else "usual"
        told[source].append(f"{name.replace('_', ' ')} {_spelled(value)}")
    heads = {"taken": f"Settings of {known.title}", "given": "Given beside it"}
    heads["usual"] = "Usual here, since the paper does not say"
    return " ".join(f"{heads[source]}: {', '.join(words)}." for source, words in told.items() if words)


def _spelled(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)
