"""The stages of an audit, one after another: load, plan, measure, audit, report.

Each stage leaves its result in the run folder. A run that was interrupted, or killed, goes on where it stopped and ends
with the same numbers.
"""

import math
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints
from fairmargin.core.distances import Distances
from fairmargin.data.dataset import Dataset
from fairmargin.distances.catalog import describe, name_of, parse_estimator
from fairmargin.distances.combine import Tightest, tightest
from fairmargin.distances.measure import check_estimator, measure_shard, shard_size, with_references
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.engine.task import Engine, Task
from fairmargin.errors import StoreError
from fairmargin.metrics.audit import audit
from fairmargin.metrics.results import AuditResult
from fairmargin.models.protocol import Classifier
from fairmargin.models.referenced import References, drawn, fingerprint_of
from fairmargin.report.page import Provenance, Section, render
from fairmargin.store.atomic import atomic_write_text
from fairmargin.store.folder import Store
from fairmargin.store.shard import shard_key
from fairmargin.studies.loading import Loaded, audit_plan, kept_columns, load_study, partitions_of
from fairmargin.studies.run_folder import Manifest, Measurement, RunFolder, StoredAudit
from fairmargin.studies.study import Study, differing
from fairmargin.version import __version__

Progress = Callable[[str, int, int], None]  # what is being done, how much is done, of how much

_PASSES = 20  # of a tile, as a rough guess what measuring it takes: decides whether compiling could ever pay
_PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "torch")


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """A run that went through all stages."""

    folder: RunFolder
    audits: tuple[StoredAudit, ...]
    measured: int  # shards measured now
    reused: int  # shards that were there already
    replaced: bool  # whether the folder held results of another question


def run(study: Study, out: Path, engine: Engine, *, command: str = "", progress: Progress | None = None) -> Finished:
    """All stages of a study, into the folder `out`; what is there already is not measured again."""
    tell = progress or _silent
    loaded = load_study(study, tell)
    partitions = partitions_of(study, loaded)  # before hours of measuring: is every column there?
    plan = audit_plan(study, loaded)
    estimators = {text: parse_estimator(text) for text in _estimators_of(study, loaded)}
    for estimator in estimators.values():
        assert loaded.model is not None
        check_estimator(loaded.model, estimator)
    folder = RunFolder(Path(out))
    store = folder.store()
    with store.lock():
        replaced = _claim(folder, study)
        cautions = (getattr(estimator, "caution", "") for estimator in estimators.values())
        loaded = replace(loaded, notes=(*loaded.notes, *dict.fromkeys(filter(None, cautions))))
        loaded = _referenced(loaded, list(estimators.values()), tell)
        loaded = _accelerated(study, loaded, list(estimators.values()), folder, tell)
        kept = {name: loaded.columns[name] for name in kept_columns(study, loaded)}
        folder.write_samples(kept, ids=study.cluster)
        measurements, measured, reused = _measure_all(study, loaded, estimators, store, engine, tell)
        manifest = _manifest(study, loaded, command, measurements)
        folder.write_manifest(manifest)
        audits = []
        for number, measurement in enumerate(measurements):
            distances = folder.distances(measurement)
            for i, partition in enumerate(partitions):
                tell("comparing groups", number * len(partitions) + i, len(measurements) * len(partitions))
                audits.append(StoredAudit(measurement.estimator, _warned(audit(distances, partition, plan), loaded)))
        tell("comparing groups", len(audits), len(audits))
        folder.write_audits(audits)
        write_report(folder, folder.report)
    return Finished(folder, tuple(audits), measured, reused, replaced)


def write_report(folder: RunFolder, target: Path) -> None:
    """The page of a run, from what the run folder holds."""
    study, manifest = folder.read_study(), folder.read_manifest()
    assert study is not None
    sections = [Section(audit.result, audit.estimator) for audit in folder.read_audits()]
    provenance = Provenance(
        title=study.title or f"Is {manifest.model or 'this model'} equally hard to fool for everyone?",
        command=manifest.command,
        created=manifest.created,
        model=manifest.model,
        data=manifest.data,
        estimator=", ".join(m.estimator for m in manifest.measurements),
        seed=study.seed,
        versions=manifest.versions,
        notes=manifest.notes,
    )
    atomic_write_text(target, render(sections, provenance))


def plan_tasks(
    model: Classifier,
    dataset: Dataset,
    positions: Ints,
    estimator: DistanceEstimator,
    seed: int,
    references: References | None = None,
) -> Iterable[Task[Distances]]:
    """One task a shard of samples. Its key says what the distances depend on, and nothing else."""
    settings = describe(estimator)
    size = shard_size(model, math.prod(dataset.x.shape[1:]), len(dataset))
    asked = with_references(model, references, estimator)
    base = {
        "model": asked.fingerprint(),
        "data": dataset.fingerprint,
        "revision": type(estimator).revision,
        "seed": seed,
        "shard": size,
        "tile": model.tile,
        **{f"estimator.{name}": value for name, value in settings.items()},
        **_last_bits(model),
    }
    for start in range(0, len(dataset), size):
        stop = min(start + size, len(dataset))
        key = shard_key(base | {"start": start, "stop": stop})
        yield Task(key, measure_shard, (asked, estimator, Slice(dataset.x, start, stop), positions[start:stop], seed))


def _last_bits(model: Classifier) -> dict[str, bool]:
    """What of a faster copy changes last bits; the number of threads does not."""
    choice = getattr(model, "acceleration", None)
    return (
        {}
        if choice is None
        else {f"acceleration.{n}": getattr(choice, n) for n in ("fold", "channels_last", "compiled")}
    )


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """Samples that are read when they are used; only they, not the whole data, travel to another process."""

    x: Any
    start: int
    stop: int

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self.x[self.start : self.stop], dtype=dtype)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return np.asarray, (np.asarray(self),)


def _warned(result: AuditResult, loaded: Loaded) -> AuditResult:
    """With a warning if the model is hardly ever right: then something was mistaken before anything was measured."""
    if loaded.positions is None:
        return result
    commonest = float(np.bincount(loaded.positions).max() / len(loaded.positions))
    accuracy = result.overall.accuracy.value
    if accuracy > commonest:
        return result
    warning = (
        f"The model is right on {accuracy:.1%} of the samples; always answering the commonest class would be on "
        f"{commonest:.1%}. Are the labels in the order of the model's outputs, its weights loaded, and inputs scaled "
        "as in training (--mean, --std)?"
    )
    return replace(result, warnings=(warning, *result.warnings))


def _estimators_of(study: Study, loaded: Loaded) -> tuple[str, ...]:
    """The estimators asked for; else the exact one where there is one, and DeepFool elsewhere."""
    if loaded.model is None:
        return ()
    default = "exact_linear" if "linear" in loaded.model.offers else "deepfool"
    return tuple(dict.fromkeys(study.estimators)) or (default,)


def _referenced(loaded: Loaded, estimators: list[DistanceEstimator], tell: Progress) -> Loaded:
    """With some of the samples for searches to fall back on, fixed before anything is measured, in any order of work.

    They depend on the content of the whole data alone, so that shards, engines and restarts fall back on the same.
    """
    if loaded.dataset is None or not any(estimator.needs == "gradient" for estimator in estimators):
        return loaded
    chosen = drawn(
        loaded.dataset.x,
        loaded.positions,
        progress=lambda done, total: tell("choosing references", done, total),
    )
    return replace(loaded, references=chosen)


def _accelerated(
    study: Study, loaded: Loaded, estimators: list[DistanceEstimator], folder: RunFolder, tell: Progress
) -> Loaded:
    """The model with its faster copy, chosen by one trial that the run folder remembers: a restart must not waver."""
    if not study.accelerate or not any(estimator.needs == "gradient" for estimator in estimators):
        return loaded
    from fairmargin.models.acceleration import Choice, choose
    from fairmargin.models.torch_model import TorchClassifier

    if not isinstance(loaded.model, TorchClassifier):
        return loaded
    assert loaded.dataset is not None
    known = folder.read_choice()
    if known is None:
        tell("trying what makes the model faster", 0, 1)
        passes = len(estimators) * _PASSES * math.ceil(len(loaded.dataset) / loaded.model.tile)
        choice = choose(loaded.model, np.asarray(loaded.dataset.x[: loaded.model.tile]), passes=passes)
        folder.write_choice(choice.encode())
        tell("trying what makes the model faster", 1, 1)
    else:
        choice = Choice.decode(known)
    model = replace(loaded.model, acceleration=choice.acceleration)
    return replace(loaded, model=model, notes=(*loaded.notes, choice.sentence))


def _measure_all(
    study: Study,
    loaded: Loaded,
    estimators: Mapping[str, DistanceEstimator],
    store: Store,
    engine: Engine,
    tell: Progress,
) -> tuple[tuple[Measurement, ...], int, int]:
    if loaded.table is not None:
        key = shard_key(
            {"table": loaded.fingerprint, "bound": loaded.table.bound.value, "norm": loaded.table.norm.value}
        )
        store.write(key, loaded.table, {"table": study.distances})
        return (Measurement("measured elsewhere", (key,)),), 0, 0
    assert loaded.model is not None
    assert loaded.dataset is not None
    assert loaded.positions is not None
    measurements, measured, reused = [], 0, 0
    for text, estimator in estimators.items():
        # Of several joined by +, each keeps its own shards: what one of them has measured serves any other sum.
        members = estimator.estimators if isinstance(estimator, Tightest) else (estimator,)
        runs = []
        for member in members:
            what = text if len(members) == 1 else name_of(member)
            tasks = list(
                plan_tasks(loaded.model, loaded.dataset, loaded.positions, member, study.seed, loaded.references)
            )
            about = {"estimator": describe(member), "seed": study.seed}
            new = _measure_missing(tasks, store, engine, about, what, tell)
            measured, reused = measured + new, reused + len(tasks) - new
            runs.append([task.key for task in tasks])
        measurements.append(Measurement(text, tuple(runs[0] if len(runs) == 1 else _combined(runs, store))))
    return tuple(measurements), measured, reused


def _measure_missing(
    tasks: list[Task[Distances]], store: Store, engine: Engine, about: Mapping[str, Any], what: str, tell: Progress
) -> int:
    """Run the tasks whose shards are not there yet, keep what they return, and say how many they were."""
    todo = [task for task in tasks if not _is_kept(store, task.key)]
    done = len(tasks) - len(todo)
    tell(f"measuring {what}", done, len(tasks))
    for task, distances in engine.run(todo):
        store.write(task.key, distances, about)
        done += 1
        tell(f"measuring {what}", done, len(tasks))
    return len(todo)


def _combined(runs: list[list[str]], store: Store) -> list[str]:
    """The keys of shards with the tightest of several runs, which have their shards of the same samples."""
    keys = []
    for parts in zip(*runs, strict=True):
        key = shard_key({"tightest": " ".join(sorted(parts))})
        if not _is_kept(store, key):
            store.write(key, tightest(*map(store.read, parts)), {"tightest": list(parts)})
        keys.append(key)
    return keys


def _is_kept(store: Store, key: str) -> bool:
    """Whether a shard is there and sound; a damaged one is set aside, to be measured anew."""
    if not store.has(key):
        return False
    if store.verified(key):
        return True
    store.set_aside(key)
    return False


def _claim(folder: RunFolder, study: Study) -> bool:
    """A folder belongs to one model on one data set; whether it was asked something else before."""
    old = folder.read_study()
    if old is not None and differing(old, study):
        names = ", ".join(f"{n} ({getattr(old, n)!r}, now {getattr(study, n)!r})" for n in differing(old, study))
        raise StoreError(f"{folder.path} holds another audit: it differs in {names}. Choose another --out.")
    folder.write_study(study)
    return old is not None and old != study


def _manifest(study: Study, loaded: Loaded, command: str, measurements: tuple[Measurement, ...]) -> Manifest:
    return Manifest(
        command=command,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        model=loaded.about_model,
        data=loaded.about_data,
        samples_fingerprint=loaded.fingerprint if study.measures else "",
        domain=loaded.domain,
        references="" if loaded.references is None else fingerprint_of(loaded.references),
        versions=_versions(),
        notes=loaded.notes,
        measurements=measurements,
    )


def _versions() -> dict[str, str]:
    found = {"fairmargin": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _silent(_what: str, _done: int, _total: int) -> None:
    return None
