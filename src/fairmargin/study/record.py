"""The record of a run: its study, its results, and how they were computed."""

import platform
from collections.abc import Callable, Iterator
from html import escape
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator

from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError
from fairmargin.presentation.html import section_html
from fairmargin.study.study import Study
from fairmargin.version import __version__

_PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "torch")
_BY_PARTITION = ("audit", "precision", "robust_accuracy", "comparison")
"""Kinds of results that `record["sex"]` can return; the first kind that the run has is returned."""
_KINDS: dict[str, type] = {
    **dict.fromkeys(("confidence", "up_to", "alpha"), float),
    **dict.fromkeys(("smallest_group", "resamples", "seed", "merge_below"), int),
    **dict.fromkeys(("control", "cluster", "sample_weight"), str),
    "radii": list,
}
"""Types of the settings of a result."""


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Provenance(_Stored):
    """How a run was made: command, date, model, data and versions."""

    command: str = ""
    """The command line, if there was one."""
    created: str = ""
    """Date and time in UTC."""
    model: str = ""
    """The model, for the report."""
    data: str = ""
    """The samples, for the report."""
    samples: str = ""
    """Fingerprint of the samples; empty for imported distances."""
    domain: str = ""
    """Fingerprint of the bounds and scale of inputs."""
    classifier: str = ""
    """Fingerprint of the model; empty for imported distances."""
    references: str = ""
    """Fingerprint of the references of searches; empty if no estimator searched by gradients."""
    versions: dict[str, str] = {}
    """Versions of the packages on which the numbers depend."""

    @property
    def source(self) -> tuple[str, str, str]:
        """Fingerprints of model, samples and domain. Results with different sources do not belong together."""
        return self.classifier, self.samples, self.domain


class About(_Stored):
    """What a result is about."""

    partition: str = ""
    """The partition whose groups are compared."""
    estimator: str = ""
    """The estimator, or several between which a bracket lies."""
    attack: str = ""
    """The attack, or several together."""
    radius: Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)] | None = None
    """Radius of the attack."""
    model: str = ""
    """The model, where a run has several."""
    data: str = ""
    """The data, where a run has several."""
    method: str = ""
    """The training method, where a run has several; "as given" for a model that was not trained."""
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] | None = None
    """Seed of a training, where a run has several."""
    epoch: str = ""
    """Epoch of a training by number, with the names by which it was requested: "20 (last, best)"."""

    def __str__(self) -> str:
        parts = (
            *(self.data, self.model, self.method),
            "" if self.seed is None else f"seed {self.seed}",
            self.estimator or self.attack,
            "" if self.radius is None else f"radius {self.radius:.4g}",
            f"epoch {self.epoch}" if self.epoch else "",
            f"by {self.partition}" if self.partition else "",
        )
        return ", ".join(filter(None, parts))


class StoredResult(_Stored):
    """Description of a result: its kind, what it is about, and where it is stored."""

    kind: str
    """Name in `fairmargin.analyses.catalog.RESULTS`."""
    about: About
    shards: tuple[tuple[str, ...], ...] = ()
    """Keys of the shards of every `Distances` that the result follows from."""
    key: Annotated[str, Field(pattern="^[0-9A-Za-z_-]*$")] = ""
    """The result is in results/<key>.json."""
    settings: dict[str, Any] = {}
    """Arguments of the analysis that are not part of `about`."""

    @field_validator("settings")
    @classmethod
    def _check_settings(cls, settings: dict[str, Any]) -> dict[str, Any]:
        for name, value in settings.items():
            if not _is(_KINDS.get(name, object), value):
                raise ValueError(f"{name} is {value!r}"[:100])
        return settings


class RunRecord(_Stored):
    """The study and the results of a run; `fm.audit_model` returns it, and a run folder stores it.

    `record["sex"]` is the result for the groups of that partition. If a study names several estimators or attacks,
    `record.select(partition="sex", estimator="plumb")` selects one.
    """

    version: Literal[1] = 1
    """Version of this format."""
    status: Literal["running", "finished", "failed"] = "running"
    """A run that was interrupted stays "running"; the same command continues it."""
    study: Study
    """The study that was carried out."""
    provenance: Provenance = Provenance()
    """How the run was made."""
    notes: tuple[str, ...] = ()
    """Sentences for the reader about data, model and measurement."""
    failures: tuple[str, ...] = ()
    """What could not be computed, and why."""
    results: tuple[StoredResult, ...] = ()
    """What was computed, in the order in which it is shown."""
    meanings: tuple[tuple[str, str], ...] = ()
    """Names of methods, estimators and attacks in a study of several models, each with its meaning."""

    _load: Callable[[StoredResult], Any] | None = PrivateAttr(None)

    def reading(self, load: Callable[[StoredResult], Any]) -> "RunRecord":
        """Return the record with a function that reads a result when it is first needed."""
        found = self.model_copy()
        found._load = load
        return found

    def result(self, stored: StoredResult) -> Any:
        """Return the result that a record names."""
        if self._load is None:
            raise InputError("This record was read without its results. Read the run folder, with RunFolder(…).read().")
        return self._load(stored)

    def of_kind(self, *kinds: str) -> Iterator[tuple[StoredResult, Any]]:
        """Yield every result of these kinds, with what it is about."""
        for stored in self.results:
            if stored.kind in kinds:
                yield stored, self.result(stored)

    def __getitem__(self, partition: str) -> Any:
        return self.select(partition=partition)

    def select(
        self,
        *,
        partition: str | None = None,
        estimator: str | None = None,
        attack: str | None = None,
        radius: float | None = None,
        epoch: str | int | None = None,
        data: str | None = None,
        model: str | None = None,
        method: str | None = None,
        seed: int | None = None,
        kind: str | None = None,
    ) -> Any:
        """Return the only result that fits the arguments.

        Parameters
        ----------
        partition
            The groups, for instance "sex" or "race & sex"; may be left out if there is one partition.
        estimator, attack, radius
            What was measured, as in `record.results`; the name without settings is sufficient.
        epoch
            Epoch of a training, by number or name: 1, "first", "best".
        data, model, method, seed
            In a study of several models, the names of the sections and the seed of the training.
        kind
            Kind of the result, for instance "audit" or "bracket"; by default the groups compared by distances, or else
            by robust accuracy.
        """
        kinds = (kind,) if kind else tuple(k for k in _BY_PARTITION if any(r.kind == k for r in self.results))[:1]
        among = [each for each in self.results if each.kind in kinds]
        if not among:
            what = f"of kind {kind!r}" if kind else "by groups"
            raise InputError(f"The run has no result {what}. {_there_are(r.kind for r in self.results)}")
        asked = {"partition": partition, "estimator": estimator, "attack": attack}
        asked |= {"data": data, "model": model, "method": method, "seed": None if seed is None else str(seed)}
        for name, wanted in asked.items():
            if wanted is None:
                continue
            values = dict.fromkeys(str(getattr(each.about, name)) for each in among)
            same = [each for each in among if str(getattr(each.about, name)) == wanted]
            same = same or [each for each in among if str(getattr(each.about, name)).partition(":")[0] == wanted]
            if not same:
                raise InputError(f"The run has no {name} {wanted!r}. {suggest(str(wanted), values)}")
            among = same
        if radius is not None:
            among = [
                each for each in among if each.about.radius is not None and abs(each.about.radius - radius) < 1e-12
            ]
            if not among:
                raise InputError(f"The run has no attack at radius {radius:g}.")
        if epoch is not None:
            named = [(each, each.about.epoch.replace("(", "").replace(")", "").replace(",", "")) for each in among]
            if not any(str(epoch) in words.split() for _, words in named):
                raise InputError(
                    f"The run has no epoch {str(epoch)!r}. {_there_are(each.about.epoch for each in among)}"
                )
            among = [each for each, words in named if str(epoch) in words.split()]
        if len(among) > 1:
            some = "; ".join(str(each.about) for each in among[:4])
            raise InputError(
                f"{len(among)} results match ({some}{' …' if len(among) > 4 else ''}). Select one: "
                "record.select(partition=…, estimator=…)."
            )
        return self.result(among[0])

    @property
    def partitions(self) -> tuple[str, ...]:
        """Names of the partitions of the samples, in the order of the study."""
        named = (each.about.partition for each in self.results if each.kind != "training")
        return tuple(dict.fromkeys(filter(None, named)))

    def __repr__(self) -> str:
        about = dict.fromkeys((each.kind, each.about.partition) for each in self.results)
        kinds = ", ".join(f"{kind} by {by}" if by else kind for kind, by in about)
        return f"RunRecord({self.status}; {kinds or 'no results'})"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        read = self.results if self._load is not None else ()
        return "".join(section_html(self.result(stored).section()) for stored in read) or f"<p>{escape(repr(self))}</p>"


def _is(kind: type, value: Any) -> bool:
    """Return whether the value of a setting has this type; a list must hold numbers."""
    if kind is list:
        return isinstance(value, list | tuple) and all(_is(float, each) for each in value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63
    return isinstance(value, kind)


def versions() -> dict[str, str]:
    """Return the versions of the packages on which the numbers depend."""
    found = {"fairmargin": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _there_are(names: Any) -> str:
    known = ", ".join(dict.fromkeys(names))
    return f"It has: {known}." if known else "It has none yet."
