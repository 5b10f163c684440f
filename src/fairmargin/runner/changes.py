"""The results of an audit that only rows of a table have: the rules of columns, and nearest changes in words."""

import math
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import numpy as np

from fairmargin.analyses.changes import NearestChanges, nearest_changes, samples_to_look_at, unfinished, words_of
from fairmargin.analyses.column_rules import ColumnRules, column_rules
from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.distances import Distances
from fairmargin.core.keys import sample_keys
from fairmargin.core.partition import Partition
from fairmargin.distances.measure import with_references
from fairmargin.distances.on_tables.search import on_table
from fairmargin.distances.protocol import DistanceEstimator, Finder, finder
from fairmargin.engine.task import Task
from fairmargin.errors import InputError
from fairmargin.models.kept_classes import keeping
from fairmargin.presentation.formatting import percent
from fairmargin.runner.cases import Case
from fairmargin.runner.measurer import Measured, Measurer, shared_model
from fairmargin.store.shard import shard_key
from fairmargin.study.options import AuditOptions
from fairmargin.study.record import About, StoredResult
from fairmargin.version import __version__

_AT_A_TIME = 32  # samples of a task


def check_examples(options: AuditOptions, case: Case) -> None:
    """Refuse single samples where there are no nearest changes in words."""
    if options.examples and (case.subject is None or not case.subject.model.domain.columns):
        raise InputError(
            "shows nearest changes of rows, for models of scikit-learn, XGBoost and LightGBM on a table: leave it out",
            field="examples",
        )
    if options.examples and options.precision:
        raise InputError("does not go with {precision}: leave it out", field="examples", others=("precision",))


def rules_of_case(case: Case) -> Iterator[tuple[StoredResult, ColumnRules]]:
    """Yield the rules of the columns, if the samples are rows of a table."""
    if case.subject is not None and case.subject.model.domain.columns:
        result = column_rules(case.subject.model.domain.columns)
        about = case.about.model_copy(update={"epoch": ""})
        key = shard_key({"kind": "columns", "about": str(about), "content": result.to_json(), "version": __version__})
        yield StoredResult(kind="columns", about=about, key=key), result


def changes_of_case(
    options: AuditOptions,
    case: Case,
    estimators: Mapping[str, DistanceEstimator],
    measured: Mapping[str, Measured],
    measure: Measurer,
) -> Iterator[tuple[StoredResult, NearestChanges]]:
    """Yield the nearest changes of every partition by every estimator that finds rows, and note unfinished searches."""
    if case.subject is None or not case.subject.model.domain.columns:
        return
    if case.weights is not None:
        measure.note("Nearest changes take every sample alike, whatever its weight.")
    for name, estimator in estimators.items():
        found = measured[name]
        exact = estimator.needs in ("linear", "trees")
        if exact:
            measure.note(_of_unfinished(name, found.distances, case.partitions))
        if not isinstance(estimator, Finder):
            continue
        stored = [_stored(case.about, name, found, partition, options.examples) for partition in case.partitions]
        kept = [measure.run.kept(each) for each in stored]
        if any(each is None for each in kept):
            words = _words(options, case, estimator, name, found.distances, measure)
            kept = [
                nearest_changes(found.distances, partition, words, exact=exact, examples=options.examples)
                for partition in case.partitions
            ]
        yield from zip(stored, kept, strict=True)


def _words(
    options: AuditOptions,
    case: Case,
    estimator: DistanceEstimator,
    name: str,
    distances: Distances,
    measure: Measurer,
) -> dict[int, tuple[Any, ...]]:
    """Return the nearest changes of the samples that are looked at, by their positions."""
    subject = case.measured
    chosen = [samples_to_look_at(distances, partition, options.examples) for partition in case.partitions]
    rows = np.unique(np.concatenate(chosen))
    if not len(rows):
        return {}
    model = shared_model(with_references(subject.model_for(estimator), subject.references, estimator))
    x = np.asarray(subject.dataset.x)
    parts = np.array_split(rows, math.ceil(len(rows) / _AT_A_TIME))
    tasks = {
        str(i): Task(str(i), nearest_rows, (model, estimator, x[part], subject.positions[part], subject.seed))
        for i, part in enumerate(parts)
    }
    points: dict[str, Floats] = {}
    measure.progress(f"nearest changes by {name}", 0, len(tasks))
    for task, found in measure.engine.run(list(tasks.values())):
        points[task.key] = found
        measure.progress(f"nearest changes by {name}", len(points), len(tasks))
    columns = subject.model.domain.columns
    return {
        int(row): words_of(columns, x[row], point)
        for i, part in enumerate(parts)
        for row, point in zip(part, points[str(i)], strict=True)
    }


def nearest_rows(model: Any, estimator: DistanceEstimator, x: Floats, positions: Ints, seed: int) -> Floats:
    """Return the coded rows that an estimator finds; NaN where it finds nothing. The task of a worker."""
    measured, classes = keeping(model, positions, ())
    search = finder(on_table(finder(estimator), measured))
    return np.asarray(search.find(measured, x, classes, keys=sample_keys(x, classes, seed)).points)


def _stored(about: About, name: str, found: Measured, partition: Partition, examples: int) -> StoredResult:
    about = about.model_copy(update={"partition": partition.name, "estimator": name})
    groups = sha256(repr(partition.labels).encode() + partition.membership.astype("<i8").tobytes()).hexdigest()
    parts: dict[str, Any] = {
        "kind": "changes",
        "about": str(about),
        "groups": groups,
        "examples": examples,
        "version": __version__,
    }
    key = shard_key({**parts, "shards": " ".join(found.keys)})
    return StoredResult(kind="changes", about=about, shards=(found.keys,), key=key)


def _of_unfinished(name: str, distances: Distances, partitions: tuple[Partition, ...]) -> str:
    """Return how many exact distances were not found within the budget, and what that may change."""
    rows = unfinished(distances)
    count = int(rows.sum())
    if not count:
        return ""
    tried = np.zeros(len(rows)) if distances.tried is None else distances.tried
    upper, lower = distances.values, np.where(rows, tried, distances.values)
    finite = np.isfinite(upper)
    excess = [
        1 - float(lower[mask & finite].sum()) / total
        for partition in partitions
        for _, mask in partition
        if (total := float(upper[mask & finite].sum())) > 0
    ]
    known = bool(excess) and bool(np.isfinite(upper[rows]).all())
    most = f", so that the mean of no group is more than {percent(max(excess))} too large" if known else ""
    return (
        f"{name}: the exact search of {count:,} of {len(rows):,} rows ({percent(count / len(rows))}) ended at its "
        f"budget. The distance of the nearest row found stands for them, an upper bound{most}. A larger budget "
        "(boxes=…) finds more."
    )
