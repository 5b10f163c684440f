"""The tasks of a study: every network to be trained once, and all that is measured on it; each named by a hash.

A task's key says all that the study says about what decides its result, so that a change of one estimator is a change
of its tasks alone. Data are named there, not hashed: whether they are still the same is looked at when it is run.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from fairmargin.attacks.catalog import describe_attack, parse_attack
from fairmargin.attacks.protocol import Attack
from fairmargin.core.keys import content_hash
from fairmargin.core.radius import spelled_radius
from fairmargin.core.suggestion import suggest
from fairmargin.distances.catalog import describe, parse_estimator
from fairmargin.distances.combine import Tightest
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.errors import InputError
from fairmargin.studies.study_file import StudyFile, applies
from fairmargin.studies.study_sections import AttackSection, DataSection, DistanceSection, NetworkSection
from fairmargin.studies.study_training import LAST, Settings
from fairmargin.training.catalog import describe_method

TRAIN, MEASURE, ATTACK = "train", "measure", "attack"
GIVEN = "as given"  # the method of a network that comes with its weights
_SOURCE = ("dataset", "label", "features", "task", "size")
_TRAINING = ("train", "train_per_group", "by", "validation")
_TEST = ("test", "test_per_group", "by")


@dataclass(frozen=True, slots=True)
class Cell:
    """One network of the grid: data, architecture, method and seed, with all that its training is told.

    Parameters
    ----------
    data, network
        Their sections.
    method
        The method's name; "as given" for a network that comes with its weights.
    seed
        Of the training.
    settings
        How it is trained; None if it is not.
    groups
        The partition that the method speaks of.
    threads
        With how many threads.
    """

    data: DataSection
    network: NetworkSection
    method: str
    seed: int
    settings: Settings | None
    groups: str
    threads: int = 1

    @property
    def name(self) -> str:
        """For people: "cifar10, small_cnn, fat, seed 0"."""
        trained = () if self.settings is None else (f"seed {self.seed}",)
        return ", ".join((self.data.name, self.network.name, self.method, *trained))

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of the first layer; empty for none."""
        own = self.network if self.network.mean else self.data
        return own.mean, own.std

    def parts(self) -> dict[str, Any]:
        """All that the study says about what decides the network's weights."""
        wanted = (*_SOURCE, *(_TRAINING if self.settings else ()))
        parts = {f"data.{name}": getattr(self.data, name) for name in wanted}
        mean, std = self.normalisation
        parts |= {"architecture": self.network.architecture, "mean": mean, "std": std}
        if self.settings is None:
            return parts | {"weights": self.network.weights}
        return parts | {
            "start": self.network.start,
            "groups": self.groups,
            "method": describe_method(self.settings.method),
            "epochs": self.settings.epochs,
            # `threads` stands below: keys are the same as before a plan had it.
            "plan": self.settings.plan.model_dump(mode="json", exclude={"threads"}),
            "seed": self.seed,
            "threads": self.threads,
        }

    @property
    def key(self) -> str:
        """A hash of `parts`."""
        return content_hash(self.parts())


@dataclass(frozen=True, slots=True)
class Measure:
    """What is measured on a network at an epoch: distances by an estimator, or an attack at a radius.

    Parameters
    ----------
    section
        What asked for it.
    epoch
        A number, "last" or "best".
    words
        All that the epoch was asked as.
    radius
        Of an attack.
    """

    section: DistanceSection | AttackSection
    epoch: str
    words: tuple[str, ...]
    radius: float = 0.0

    @property
    def kind(self) -> str:
        """ "measure" or "attack"."""
        return ATTACK if isinstance(self.section, AttackSection) else MEASURE

    @property
    def name(self) -> str:
        """For people: "deepfool at the last epoch"."""
        at = f"epoch {self.epoch}" if self.epoch.isdigit() else f"the {self.epoch} epoch"
        named = self.section.name
        return f"{named} at radius {spelled_radius(self.radius)}, {at}" if self.radius else f"{named}, {at}"

    @property
    def means(self) -> DistanceEstimator | Attack:
        """The estimator or the attack."""
        section = self.section
        return (
            parse_attack(section.attack) if isinstance(section, AttackSection) else parse_estimator(section.estimator)
        )

    def parts(self) -> dict[str, Any]:
        """All that the study says about what decides the result, the network apart."""
        if isinstance(self.section, AttackSection):
            attack = parse_attack(self.section.attack)
            about = {"attack": describe_attack(attack), "radius": self.radius, "revision": type(attack).revision}
            return about | {"epoch": self.epoch}
        estimator = parse_estimator(self.section.estimator)
        members = estimator.estimators if isinstance(estimator, Tightest) else (estimator,)
        revisions = [type(member).revision for member in members]
        return {"estimator": [describe(m) for m in members], "revision": revisions, "epoch": self.epoch}


@dataclass(frozen=True, slots=True)
class GridTask:
    """One thing to be done.

    Parameters
    ----------
    kind
        "train", "measure" or "attack".
    name
        For people.
    key
        A hash of all that the study says about what decides the result.
    needs
        Keys of tasks that come before.
    passes
        A rough number of passes through the network that it takes for each sample.
    cell, measure
        What it is about; nothing is measured in a training.
    """

    kind: str
    name: str
    key: str
    needs: tuple[str, ...]
    passes: float
    cell: Cell
    measure: Measure | None = None


def plan_study(study: StudyFile) -> tuple[GridTask, ...]:
    """Every task of a study, a training before what is measured on its network; tasks of one key are done once.

    >>> study = StudyFile.model_validate({"data": {"digits": {}}, "network": {"logistic": {}}, "seeds": [0, 1],
    ...     "method": {"erm": {"epochs": 2}}, "distance": {"exact_linear": {}}})
    >>> [(task.kind, task.name) for task in plan_study(study)][1]
    ('measure', 'digits, logistic, erm, seed 0: exact_linear, the last epoch')
    """
    found: list[GridTask] = []
    for cell in cells_of(study):
        needs: tuple[str, ...] = ()
        if cell.settings is not None:
            training = GridTask(TRAIN, cell.name, cell.key, (), _training_passes(cell.settings), cell)
            found.append(training)
            needs = (training.key,)
        for measure in measures_of(study, cell):
            key = measure_key(cell, measure)
            name = f"{cell.name}: {measure.name}"
            task = GridTask(measure.kind, name, key, needs, _measuring_passes(measure.means), cell, measure)
            found.append(task)
    return tuple(found)


def measure_key(cell: Cell, measure: Measure) -> str:
    """The key of the task that measures this on that network."""
    test = {f"test.{name}": getattr(cell.data, name) for name in _TEST}
    return content_hash({"network": cell.key, **test, **measure.parts()})


def cells_of(study: StudyFile) -> tuple[Cell, ...]:
    """Every network of the study, in the order of its sections."""
    found: dict[tuple[str, str, str, int], Cell] = {}
    for cell in _cells(study):
        place = (cell.data.name, cell.network.name, cell.method, cell.seed)
        if place in found:
            raise InputError(f"two networks are called {cell.name!r}: give sections a `name` of their own.")
        found[place] = cell
    if not found:
        raise InputError("no network goes with any of the data: look at the fields `data` and `networks`.")
    return tuple(found.values())


def _cells(study: StudyFile) -> Iterator[Cell]:
    for data in study.data:
        for network in (each for each in study.network if applies(each.data, data.name)):
            if network.weights:
                yield Cell(data, network, GIVEN, 0, None, data.groups, study.threads)
                continue
            for method in study.method:
                if applies(method.data, data.name) and applies(method.networks, network.name):
                    settings, groups = study.settings(method), method.groups or data.groups
                    for seed in study.seeds:
                        yield Cell(data, network, method.name, seed, settings.with_seed(seed), groups, study.threads)


def measures_of(study: StudyFile, cell: Cell) -> tuple[Measure, ...]:
    """All that is measured on a network, each epoch once, whatever it was asked as."""
    found: dict[tuple[str, str, float, str], Measure] = {}
    sections: tuple[DistanceSection | AttackSection, ...] = (*study.distance, *study.attack)
    for section in sections:
        if not (
            applies(section.data, cell.data.name)
            and applies(section.networks, cell.network.name)
            and applies(section.methods, cell.method)
        ):
            continue
        for word in section.epochs:
            epoch = epoch_of(cell, word)
            for radius in section.radius if isinstance(section, AttackSection) else (0.0,):
                place = (type(section).__name__, section.name, radius, epoch)
                known = found.get(place, Measure(section, epoch, (), radius))
                found[place] = replace(known, words=(*known.words, word))
    return tuple(found.values())


def epoch_of(cell: Cell, word: str | int) -> str:
    """The epoch that a word or number means for a network; one that was not trained has only its last."""
    if cell.settings is None:
        return LAST
    text = str(word)
    if not text.isdigit() and text not in ("first", "middle", "last", "best"):
        raise InputError(f"what epoch is {text!r}? {suggest(text, ('first', 'middle', 'last', 'best'))}")
    return cell.settings.epoch(text, cell.data.validation > 0)


def _training_passes(settings: Settings) -> float:
    """A step forward and back for each epoch, and one for each step of the adversary."""
    return float(settings.epochs * (1 + int(getattr(settings.method, "steps", 0))))


def _measuring_passes(means: DistanceEstimator | Attack) -> float:
    """Rough: so many steps, times what is tried again and again. Searches for many classes end after a few steps."""
    if isinstance(means, Tightest):
        return sum(map(_measuring_passes, means.estimators))
    fields = {name: getattr(means, name) for name in means.__dataclass_fields__}  # type: ignore[union-attr]
    if "draws" in fields:
        return float(fields["draws"]) * float(fields.get("steps", 1)) / 3  # forward only
    passes = float(fields.get("steps", fields.get("queries", 1)))
    for name in ("searches", "restarts"):
        passes *= float(fields.get(name, 1))
    return max(1.0, min(passes, 40.0) if "rivals" in fields else passes)
