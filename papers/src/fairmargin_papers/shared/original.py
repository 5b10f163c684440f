"""The scale "paper": check that all data, networks and weights are available, and describe what a run used."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fairmargin.core.progress import Progress, silent
from fairmargin.core.radius import spelled_radius
from fairmargin.data.catalog import DATASETS, load
from fairmargin.errors import FairmarginError, InputError, MissingDataError, ModelError
from fairmargin.models.architectures.catalog import build_architecture
from fairmargin.models.architectures.pretrained import imagenet_file
from fairmargin.runner.networks import Model
from fairmargin.runner.study_run import StudyRun
from fairmargin.study.options import AttackOptions, AuditOptions
from fairmargin.study.paper_settings import STEPS
from fairmargin.study.study import ARCHITECTURE
from fairmargin.training.catalog import describe_method

_CLASSES = 10  # any number, because whether a network can be built does not depend on it


@dataclass(frozen=True, slots=True)
class Original:
    """A study of the scale "paper", before it is run."""

    sections: Mapping[str, Any]  # content of its file
    pretrained: tuple[str, ...] = ()  # architectures that start with weights trained on ImageNet


def check_available(paper: str, studies: Sequence[Original], root: Path | None, progress: Progress = silent) -> None:
    """Raise an error that lists all data, networks and weights that the studies name and that are not available."""
    missing = [*_missing_data(studies, root, progress), *_missing_networks(studies)]
    missing += _missing_weights(studies, fetch=not missing)
    if missing:
        raise InputError(
            f"`--scale paper` of {paper} cannot start, because these are missing: {'; '.join(missing)}. Provide them "
            "(datasets with --root), or use --scale laptop, whose page lists its smaller networks and data."
        )


def _missing_data(studies: Sequence[Original], root: Path | None, progress: Progress) -> Iterator[str]:
    asked = {(data["data"], data.get("size")): None for each in studies for data in each.sections["data"].values()}
    told: set[str] = set()
    for name, size in asked:
        card = DATASETS[name].card
        official = bool(card.shape) and size in (None, card.shape[-1])
        try:
            found = load(name, root=root, size=None if official else size, progress=progress)
        except MissingDataError:
            lack = f"{name} (no files)"
        except FairmarginError as error:
            lack = f"{name} ({_clause(error)})"
        else:
            lack = ""
            if len(found) < card.samples:
                lack = f"{name} with all of its {card.samples:,} samples (here: {len(found):,})"
            elif official and found.x.shape[-1] < card.shape[-1]:
                lack = f"{name} in pictures of {card.shape[-1]} pixels (here: {found.x.shape[-1]})"
        if lack and lack not in told:
            told.add(lack)
            yield lack


def _missing_networks(studies: Sequence[Original]) -> list[str]:
    """Name the networks that cannot be built for their data, grouped by reason and data."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, data in dict.fromkeys(_named(studies)):
        try:
            with torch.device("meta"):  # only shapes are calculated
                build_architecture(name, _shape(*data), _CLASSES)
        except ModelError as error:
            reasons.setdefault((name, _clause(error).replace(f"`{name}`", "it")), []).append(data[0])
    together: dict[tuple[str, str], list[str]] = {}
    for (name, reason), places in reasons.items():
        together.setdefault((", ".join(dict.fromkeys(places)), reason), []).append(name)
    return [f"{', '.join(names)} on {where} ({reason})" for (where, reason), names in together.items()]


def _named(studies: Sequence[Original]) -> Iterator[tuple[str, tuple[str, int | None]]]:
    for each in studies:
        models = (str(section["model"]).removeprefix(ARCHITECTURE) for section in each.sections["model"].values())
        networks = [*models, *each.pretrained]
        for data in each.sections["data"].values():
            if DATASETS[data["data"]].card.shape:
                yield from ((name, (data["data"], data.get("size"))) for name in networks)


def _missing_weights(studies: Sequence[Original], *, fetch: bool) -> list[str]:
    """Name the networks whose ImageNet weights are missing; `fetch` allows downloads."""
    lacking, reason = [], ""
    for name in dict.fromkeys(name for each in studies for name in each.pretrained):
        try:
            imagenet_file(name, fetch=fetch)
        except ModelError as error:
            lacking.append(name)
            reason = reason or _clause(error)
    return [f"the weights learnt on ImageNet of {', '.join(lacking)} ({reason})"] if lacking else []


def _shape(dataset: str, size: int | None) -> tuple[int, ...]:
    channels, *sides = DATASETS[dataset].card.shape
    return (channels, *(size or side for side in sides))


def _clause(error: Exception) -> str:
    """Return the first sentence of an error without its full stop."""
    return str(error).split(". ")[0].rstrip(".")


def used_in(run: StudyRun) -> tuple[str, tuple[int, ...]]:
    """Return a description of the data, networks and settings of a finished study, and the seeds of its networks.

    Everything is read from the run and not from the study file: numbers of samples are counted, and settings that the
    study takes from a paper are listed with their values.
    """
    models = run.networks()
    by_data = {model.data: model for model in models}
    networks = dict.fromkeys(
        f"{model.architecture}{' begun with given weights' if model.begun else ''}" for model in models
    )
    jobs = [model.prepared.job for model in models if model.prepared is not None]
    trainings = dict.fromkeys(f"{job.epochs} epochs, {_descent(job.plan)}" for job in jobs)
    options = list(dict.fromkeys(each.options for model in models for each in model.member.measurements))
    estimators = [name for each in options if isinstance(each, AuditOptions) for name in each.estimator]
    attacks = [(name, each.radius) for each in options if isinstance(each, AttackOptions) for name in each.attack]
    said = [
        f"data: {'; '.join(map(_used_data, by_data.values()))}",
        f"networks: {', '.join(networks)}",
        f"methods: {', '.join(dict.fromkeys(map(_method, models)))}",
        *([f"training: {' / '.join(trainings)}"] if trainings else []),
        *([f"distances by {', '.join(dict.fromkeys(estimators))}"] if estimators else []),
        *(f"attack {name} at {', '.join(map(spelled_radius, radii))}" for name, radii in attacks),
    ]
    return "; ".join(said), tuple(sorted({model.seed for model in models}))


def _used_data(model: Model) -> str:
    options, test = model.member.data, model.dataset
    trained = 0 if model.prepared is None else len(model.prepared.job.data.training)
    assert test is not None
    whole = DATASETS[options.data].card.samples if options.data in DATASETS else 0
    shape = "×".join(map(str, test.x.shape[1:]))
    part = trained + len(test)
    complete = "" if not whole else ", complete" if part >= whole else f", a subset: {part:,} of {whole:,}"
    return f"{options.data}, {trained:,} training and {len(test):,} test samples of shape {shape}{complete}"


def _method(model: Model) -> str:
    """Return the name of a method with its settings."""
    if model.prepared is None:
        return model.method
    said = [f"{name} {_spelled(value)}" for name, value in describe_method(model.prepared.job.method).items()]
    return f"{model.method} ({', '.join(said[1:])})" if said[1:] else model.method


def _descent(plan: Any) -> str:
    names = [name for name in (*STEPS, "augmentation") if hasattr(plan, name)]
    return ", ".join(f"{name.replace('_', ' ')} {_spelled(getattr(plan, name))}" for name in names)


def _spelled(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else str(getattr(value, "spelling", value))


def sentences(used: Sequence[tuple[str, tuple[int, ...]]], differences: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence on what each study used, and one on each difference from the printed experiments.

    Studies that differ only in their seeds share a sentence.

    >>> sentences([("data: a", (0,)), ("data: a", (1,))], ["Two seeds."])
    ('Used: data: a; seeds 0, 1.', 'Different from print: Two seeds.')
    """
    seeds: dict[str, list[int]] = {}
    for text, some in used:
        seeds.setdefault(text, []).extend(some)
    found = [f"Used: {text}; seeds {', '.join(map(str, sorted(set(some))))}." for text, some in seeds.items()]
    return (*found, *(f"Different from print: {each}" for each in differences))
