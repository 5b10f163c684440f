"""Measure every model of a study without comparing groups, for papers and other programs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.core.progress import Progress, silent
from fairmargin.core.radius import parse_radius
from fairmargin.core.suggestion import suggest
from fairmargin.data.dataset import Dataset
from fairmargin.engine.task import Engine, session_of
from fairmargin.errors import InputError
from fairmargin.models.references import References
from fairmargin.runner.cases import partitions_of
from fairmargin.runner.measurer import Measured, Measurer, TaskError
from fairmargin.runner.networks import Failure, Model, Models, Place, prepare_models
from fairmargin.runner.trainer import columns_of
from fairmargin.runner.training_data import DataLoader, TrainingData
from fairmargin.study.options import AttackOptions, GroupOptions
from fairmargin.study.record import RunRecord
from fairmargin.study.run_folder import RunFolder
from fairmargin.study.study import Study


@dataclass(frozen=True, slots=True, eq=False)
class StudyRun:
    """The models of a study, trained and measured.

    Parameters
    ----------
    study, folder
        The study, and the folder of its shards and trainings.
    models
        Its models, and the failures.
    measured
        The measurements on each model, by the position of the model.
    """

    study: Study
    folder: RunFolder
    models: Models
    measured: Mapping[int, Mapping[Place, Measured]]

    @property
    def failures(self) -> list[Failure]:
        """Trainings and measurements that failed."""
        return self.models.failures

    def networks(self) -> tuple[Model, ...]:
        """Return all models except those whose training failed, in the order of the study."""
        return tuple(model for model in self.models.models if model.given or model.trained)

    def dataset(self, data: str | None = None) -> Dataset:
        """Return the samples on which the models of some data are measured."""
        dataset = self._of_data(data).dataset
        assert dataset is not None
        return dataset

    def training(self, data: str | None = None) -> TrainingData:
        """Return the samples on which the models of some data are trained."""
        model = self._of_data(data)
        if model.prepared is None:
            raise InputError(f"{model.member.title} is not trained.")
        return model.prepared.job.data

    def references(self, data: str | None = None) -> References:
        """Return the references of searches on some data."""
        network = next(n for n in self.networks() if n is self._of_data(data))
        return self.models.load.references(network.case().measured)

    def partition(self, data: str | None, name: str) -> Partition:
        """Return groups of these samples by a column, or by an intersection written "race & sex"."""
        member = self._of_data(data).member
        parts = tuple(part.strip() for part in name.split("&"))
        groups = GroupOptions(cross=(parts,)) if len(parts) > 1 else GroupOptions(group=parts)
        groups = groups.model_copy(update={"merge_below": member.groups.merge_below})
        (found,) = partitions_of(groups, columns_of(member.data, self.dataset(data)), member.data_name)
        return found

    def distances(
        self,
        *,
        data: str | None = None,
        model: str | None = None,
        method: str | None = None,
        seed: int | None = None,
        epoch: str | int = "last",
        estimator: str | None = None,
    ) -> Distances:
        """Return the distances of all samples; arguments may be left out if the study leaves no choice.

        `estimator` is its spelling, or the name of its section.
        """
        return self._measured(data, model, method, seed, str(epoch), estimator, None, attack=False)

    def outcome(
        self,
        *,
        data: str | None = None,
        model: str | None = None,
        method: str | None = None,
        seed: int | None = None,
        epoch: str | int = "last",
        attack: str | None = None,
        radius: str | float | None = None,
    ) -> Distances:
        """Return the outcome of an attack on all samples, as `attack_shard` gives it; `inf` where it found nothing."""
        return self._measured(data, model, method, seed, str(epoch), attack, radius, attack=True)

    def _measured(
        self,
        data: str | None,
        name: str | None,
        method: str | None,
        seed: int | None,
        epoch: str,
        by: str | None,
        radius: str | float | None,
        *,
        attack: bool,
    ) -> Distances:
        position = self._position(data, name, method, seed)
        model = self.models.models[position]
        kinds = {m.name: isinstance(m.options, AttackOptions) for m in model.member.measurements}
        places = [place for place in self.measured.get(position, {}) if kinds[place.section] == attack]
        known = list(dict.fromkeys(place.section for place in places))
        if by is not None:
            places = [place for place in places if by in (place.section, place.name)]
        if not places:
            why = next((each.reason for each in self.failures if each.title.startswith(model.member.title)), "")
            hint = suggest(by or "", known) if known else why
            raise InputError(f"{model.member.title} has no result of {by or 'anything'}. {hint}")
        if radius is not None:
            length = parse_radius(radius)
            there = ", ".join(dict.fromkeys(f"{place.radius:.6g}" for place in places))
            places = [place for place in places if abs(place.radius - length) <= 1e-9 * length]
            if not places:
                raise InputError(f"{model.member.title} was not attacked at radius {radius}. There are: {there}.")
        there = ", ".join(dict.fromkeys(place.epoch for place in places))
        if model.prepared is not None:
            places = [place for place in places if epoch in _words(place.epoch)]
        if not places:
            raise InputError(f"{model.member.title} was not measured at the epoch {epoch!r}. There are: {there}.")
        if len(places) > 1:
            raise InputError(
                f"{len(places)} results of {model.member.title} match: name the estimator, or attack and radius."
            )
        return self.measured[position][places[0]].distances

    def _position(self, data: str | None, name: str | None, method: str | None, seed: int | None) -> int:
        """Return the position of the only model that fits."""
        found = list(enumerate(each.member for each in self.models.models))
        asked: dict[str, Any] = {"data_name": data, "model_name": name, "method": method, "seed": seed}
        for field, wanted in asked.items():
            if wanted is None:
                continue
            known = dict.fromkeys(str(getattr(member, field)) for _, member in found)
            found = [(i, m) for i, m in found if getattr(m, field) == wanted or (field == "seed" and m.train is None)]
            if not found:
                what = field.removesuffix("_name")
                raise InputError(f"The study has no model of {what} {wanted!r}. {suggest(str(wanted), known)}")
        if len(found) > 1:
            some = "; ".join(member.title for _, member in found[:3])
            raise InputError(f"{len(found)} models match ({some} …): give data, model, method and seed.")
        return found[0][0]

    def _of_data(self, data: str | None) -> Model:
        names = dict.fromkeys(model.member.data_name for model in self.models.models)
        if data is None and len(names) > 1:
            raise InputError(f"The study has several data; name one of {', '.join(names)}.")
        for model in self.models.models:
            if data in (None, model.member.data_name):
                return model
        raise InputError(f"The study has no data {data!r}. {suggest(str(data), names)}")


def measure_study(study: Study, folder: RunFolder, engine: Engine, progress: Progress = silent) -> StudyRun:
    """Train and measure every model of a study of several, without comparing groups.

    Guarantee: interrupted or killed, the same call continues and ends with the same numbers, in any engine.
    """
    models = prepare_models(study, DataLoader(progress))
    with session_of(engine) as workers, folder.claimed(RunRecord(study=study)):
        models.train(folder.path, workers, progress)
        measure = Measurer(folder, workers, progress)
        positions = {id(model): i for i, model in enumerate(models.models)}
        found: dict[int, dict[Place, Measured]] = {}
        for stage, requests in models.measured(measure):
            for place, plans in requests.items():
                try:
                    (measured,) = measure.carry_out([plans], "measuring")
                except TaskError as error:
                    models.fail(f"{stage.model.member.title}: {place.name}", error)
                else:
                    found.setdefault(positions[id(stage.model)], {})[place] = measured
    return StudyRun(study, folder, models, found)


def _words(epoch: str) -> list[str]:
    """Return the number of an epoch and the names by which it was requested."""
    return epoch.replace("(", "").replace(")", "").replace(",", "").split()
