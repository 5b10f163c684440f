"""`fairmargin.audit_model`: one call from a model, samples and groups to the record of an audit."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmargin.core.column import Column
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.core.progress import SAID, Progress, silent
from fairmargin.core.suggestion import suggest
from fairmargin.data.dataset import Dataset
from fairmargin.data.overlap import overlap, overlap_warning
from fairmargin.data.row_order import check_same_order
from fairmargin.data.samples import as_samples
from fairmargin.distances.catalog import spelled
from fairmargin.distances.measure import check_samples
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.engine.catalog import as_engine
from fairmargin.engine.task import Engine
from fairmargin.errors import InputError, ModelError
from fairmargin.inference.settings import AuditSettings, CompareOptions
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.protocol import Classifier, in_model_order
from fairmargin.models.references import as_references
from fairmargin.models.tables.classifier import TableClassifier
from fairmargin.models.tables.frames import as_frame, is_frame
from fairmargin.models.tables.reading import is_tabular
from fairmargin.report.page import write_report
from fairmargin.runner.cases import Case, Subject, as_column
from fairmargin.runner.loading import classes_of_data
from fairmargin.runner.run import run
from fairmargin.runner.tables import (
    Rules,
    check_groups,
    coded_rows,
    domain_fingerprint,
    seen_rows,
    some_rows,
    takes_rows,
)
from fairmargin.store.paths import as_path
from fairmargin.study.options import AuditOptions, DataOptions, GroupOptions, ModelOptions
from fairmargin.study.record import RunRecord
from fairmargin.study.run_folder import RunFolder
from fairmargin.study.study import GIVEN, Study

_CLUSTER, _WEIGHT = "cluster", "sample_weight"


def audit_model(
    model: Any,
    X: Any,  # noqa: N803 - as in scikit-learn
    y: Any,
    *,
    groups: Any,
    estimator: str | DistanceEstimator | Sequence[str | DistanceEstimator] | None = None,
    norm: str | Norm | None = None,
    cross: bool = False,
    settings: AuditSettings | None = None,
    sample_weight: Any = None,
    columns: Mapping[str, Column] | None = None,
    bins: Mapping[str, Sequence[float]] | None = None,
    training_data: Any = None,
    references: Any = None,
    max_samples: int | None = None,
    examples: int = 0,
    seed: int = 0,
    out: Path | str | None = None,
    engine: str | Engine = "serial",
    progress: bool | Progress = True,
) -> RunRecord:
    """Measure how far each sample lies from the decision boundary, and compare groups: an audit in one call.

    Parameters
    ----------
    model
        Anything that `as_classifier` accepts: a scikit-learn model, a torch network, `(weight, bias)`, … Models of
        scikit-learn, XGBoost and LightGBM are audited on the raw rows of a data frame, with all their preprocessing.
    X
        Samples: an array, or a data frame, whose columns are matched by name.
    y
        One label per sample. Rows are paired by position; pandas objects with the same index labels in another order
        are refused.
    groups
        The group of each sample: a column (a Series, an array or a `Partition`), or a frame or dict of several.
    estimator
        How distances are measured, by name ("plumb", "deepfool:steps=20") or as an object; several in a list. By
        default `exact_linear` for linear models, `exact_tree` for trees, and `plumb` for networks.
    norm
        "l1", "l2" or "linf", for estimators that name none; by default "l1" for rows with categories.
    cross
        Also compare the intersections of all columns of `groups`.
    settings
        How groups are compared: confidence, control, clusters, …
    sample_weight
        One weight per sample, or the name of a column of `X` that holds them, for samples that stand for unequal parts
        of the population. Only their ratios matter.
    columns
        For data frames: a dict from names of columns to rules, each an `fm.Column`. The columns of `groups` do not move
        unless a rule says so.
    bins
        For groups by numbers: a dict from the name of a column of `groups` to the edges between its groups.
    training_data
        The samples that the model was trained on; a note counts the audited samples among them. For data frames, units,
        steps, ranges and categories are taken from it.
    references
        Samples that searches go towards if they find nothing; by default some of `X`.
    max_samples
        Maximum number of samples; if there are more, a random part of this size is audited.
    examples
        For data frames: also show the nearest changes of this many single rows of each group. These are persons.
    seed
        The same seed gives the same numbers.
    out
        A run folder, as the command `fairmargin audit --out` writes it; in memory if left out.
    engine
        "serial", "processes:workers=2", or an engine.
    progress
        True shows a bar if standard error is a terminal; or a function that is called with (what, done, total).

    Returns
    -------
    RunRecord
        `record["sex"]` is the `AuditResult` of that partition; an array without a name is "group".

    >>> rng = np.random.default_rng(0)
    >>> X, sex = rng.normal(size=(200, 2)), np.repeat(["F", "M"], 100)
    >>> record = audit_model(([3.0, 4.0], 0.0), X, (X @ [3, 4] > 0).astype(int), groups=pd.Series(sex, name="sex"))
    >>> record["sex"]["F"].verdict
    'no significant difference'
    """
    if not isinstance(cross, bool):
        raise InputError("must be True or False", field="cross", given=cross)
    if max_samples is not None:
        max_samples = _count(max_samples)
    folder = None if out is None else RunFolder(as_path(out, "out"))
    runs = as_engine(engine)
    seed = AuditSettings(seed=seed).seed
    chosen = AuditSettings(seed=seed) if settings is None else settings
    if not isinstance(chosen, AuditSettings):
        raise InputError(
            f"`settings` must be an AuditSettings, such as fm.AuditSettings(confidence=0.9); given {chosen!r}."
        )
    if chosen.seed not in (0, seed):
        raise InputError(f"`settings` has the seed {chosen.seed}, and `seed` is {seed}: give `seed={chosen.seed}`.")
    _check_orders(X, y, groups, chosen.cluster, sample_weight)
    if sample_weight is not None and chosen.sample_weight is not None:
        raise InputError("is also given in `settings`: leave it out of one of them", field="sample_weight")
    weight_column = sample_weight if isinstance(sample_weight, str) else ""
    if sample_weight is not None:
        weights = _column_of(X, weight_column) if weight_column else sample_weight
        chosen = AuditSettings(**{**dict(chosen), "sample_weight": weights})
    labels = _labels(y)
    numbered = labels.dtype.kind in "iu" and labels.size > 0  # text does not tell the order of a network's outputs
    groups = _binned(groups, bins)
    classifier: Classifier | None = None
    if columns is not None and not is_tabular(model):
        raise InputError("is for models of scikit-learn, XGBoost and LightGBM. Leave it out", field="columns")
    if not is_tabular(model) or (columns is None and not takes_rows(X)):
        classes = classes_of_data(model, int(labels.max()) + 1) if numbered else None
        classifier = _of_numbers(model, classes)
    if weight_column and weight_column not in getattr(classifier, "feature_names", ()) and classifier is not None:
        X = as_frame(X, "X").drop(columns=weight_column)  # noqa: N806 - as in scikit-learn
    if classifier is None:
        _check_groups(groups)
        names = tuple(each.name for each in _each_partition(groups))
        rules = Rules({} if columns is None else columns)
        classifier, dataset = coded_rows(
            model, X, labels, rules=rules, training=training_data, fixed=names, name="the samples"
        )
    else:
        samples = as_samples(in_model_order(classifier, X, "X"), "X")
        missing = getattr(classifier, "accepts_missing", False)
        dataset = Dataset(samples, labels, domain=classifier.domain, name="the samples", missing=missing)
    partitions = _partitions(groups, len(dataset), cross)
    control, cluster, weights = chosen.control, chosen.cluster, chosen.sample_weight
    chosen.weights(len(dataset))
    notes = list(dataset.notes)
    if max_samples is not None and max_samples < len(dataset):
        # RandomState takes 32 bits as a number; larger seeds are given as two numbers.
        parts: Any = seed if seed < 2**32 else divmod(seed, 2**32)
        rows = np.sort(np.random.RandomState(parts).permutation(len(dataset))[:max_samples])
        notes.append(
            f"A random part of the samples was audited: {max_samples:,} of {len(dataset):,}, drawn with seed {seed}."
        )
        dataset = some_rows(dataset, rows) if dataset.domain.columns else dataset.take(rows)
        partitions = tuple(each.take(rows) for each in partitions)
        control = None if control is None else control.take(rows)
        cluster = None if cluster is None else np.asarray(cluster)[rows]
        weights = None if weights is None else np.asarray(weights)[rows]
    checked = check_samples(classifier, dataset.x, dataset.y)
    if isinstance(classifier, TableClassifier):
        notes += seen_rows(classifier, dataset, training_data, "training_data")
    elif training_data is not None:
        trained = as_samples(in_model_order(classifier, training_data, "training_data"), "training_data")
        known = Dataset(
            trained, np.zeros(trained.shape[0], dtype=int), name="the training data", missing=dataset.missing
        )
        notes.append(overlap_warning(overlap(dataset, known), table=len(dataset.x.shape) == 2))
    shape = tuple(map(int, dataset.x.shape[1:]))
    fixed = None
    if references is not None:
        given = in_model_order(classifier, references, "references")
        fixed = as_references(given, shape, checked.model.domain)
    attributes: dict[str, Any] = {each.name: as_column(each) for each in partitions}
    options = GroupOptions(
        group=tuple(each.name for each in partitions),
        control="" if control is None else control.name,
        cluster="" if cluster is None else _CLUSTER,
        sample_weight="" if weights is None else _WEIGHT,
    )
    attributes |= {} if control is None else {control.name: as_column(control)}
    attributes |= {} if cluster is None else {_CLUSTER: np.asarray(cluster)}
    attributes |= {} if weights is None else {_WEIGHT: np.asarray(weights, dtype=np.float64)}
    numbers = {name: getattr(chosen, name) for name in CompareOptions.model_fields}
    study = Study(
        data=DataOptions(data=f"{GIVEN} ({dataset.fingerprint[:12]})"),
        model=ModelOptions(model=f"{GIVEN} ({checked.model.fingerprint()[:12]})"),
        groups=options,
        audit=AuditOptions(estimator=_names(estimator), norm=norm or "", examples=examples, **numbers),
        seed=seed,
    )
    case = Case(
        model=type(model).__name__,
        data=f"{len(dataset):,} samples given in Python",
        fingerprint=dataset.fingerprint,
        columns=attributes,
        partitions=partitions,
        groups=options,
        control=control,
        cluster=cluster,
        weights=weights,
        seed=seed,
        notes=(*filter(None, notes), *checked.notes),
        domain=domain_fingerprint(checked.model.domain),
        subject=Subject(checked.model, dataset, checked.positions, seed, fixed),
    )
    with _reported(progress) as report:
        record, _ = run(study, folder, runs, case=case, progress=report)
        if folder is not None:
            write_report(folder.report, record)
    return record


def _of_numbers(model: Any, classes: Any) -> Classifier | None:
    """Return a classifier of plain numbers; None for a model of a table whose preprocessing needs its raw rows."""
    try:
        return as_classifier(model, classes=classes)
    except ModelError:
        if not is_tabular(model):
            raise
        return None


def _check_groups(groups: Any) -> None:
    """Refuse groups by many numbers, and two spellings of one group."""
    table = as_frame(groups, "groups") if is_frame(groups) and len(groups.columns) else groups
    named = isinstance(table, pd.DataFrame | Mapping)
    for name in table if named else (_name_of(table),):
        column = table[name] if named else table
        if not isinstance(column, Partition) and np.ndim(column) == 1 and not isinstance(column, str):
            check_groups(str(name), column)


def _binned(groups: Any, bins: Mapping[str, Sequence[float]] | None) -> Any:
    """Return groups by name, those with bins as partitions of numbers."""
    if bins is None:
        return groups
    if not isinstance(bins, Mapping):
        raise InputError("must be a dict such as {'age': [30, 45, 60]}", field="bins", given=bins)
    if is_frame(groups):
        frame = as_frame(groups, "groups")
        table: dict[str, Any] = {str(name): frame[name] for name in frame}
    else:
        table = {**groups} if isinstance(groups, Mapping) else {_name_of(groups): groups}
    for name in bins:
        if name not in table:
            raise InputError(f"names a column that is not among the groups. {suggest(name, table)}", field="bins")
    return {name: Partition.binned(name, each, bins[name]) if name in bins else each for name, each in table.items()}


def _name_of(column: Any) -> str:
    return str(getattr(column, "name", None) or "group")


def _names(estimator: str | DistanceEstimator | Sequence[str | DistanceEstimator] | None) -> tuple[str, ...]:
    """Return estimators as a study names them."""
    if estimator is None:
        return ()
    several = (estimator,) if isinstance(estimator, str) or not isinstance(estimator, Sequence) else tuple(estimator)
    names = []
    for each in several:
        name = each if isinstance(each, str) else spelled(each) if isinstance(each, DistanceEstimator) else ""
        if not name:
            raise InputError(
                f"`estimator` must be a name such as 'plumb' or an estimator of fm.ESTIMATORS; given {each!r}. "
                "Distances by another estimator are audited with fm.audit(fm.measure(…), partition)."
            )
        names.append(name)
    return tuple(names)


def _count(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int | np.integer):
        raise InputError("must be a whole number", field="max_samples", given=given)
    if given < 1:
        raise InputError("must be at least 1", field="max_samples", given=given)
    return int(given)


def _labels(y: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(y)
    except ValueError:
        raise InputError("must hold one label per sample, not lists of different lengths", field="y") from None


def _check_orders(x: Any, y: Any, groups: Any, cluster: Any, weights: Any) -> None:
    """Refuse rows in different orders. Labels and groups are compared with `X`, and with `y` if `X` has no index."""
    columns = list(groups.values()) if isinstance(groups, Mapping) else [groups]
    for first, name in ((x, "X"), (y, "y")):
        check_same_order(first, y, name, "y")
        for column in columns:
            check_same_order(first, column, name, "groups")
        check_same_order(first, cluster, name, "cluster")
        check_same_order(first, weights, name, "sample_weight")


def _column_of(x: Any, name: str) -> Any:
    """Return the column of weights of a data frame."""
    if not is_frame(x):
        raise InputError("names a column, but `X` is no data frame: give one weight per sample", field="sample_weight")
    frame = as_frame(x, "X")
    if name not in frame:
        raise InputError(
            f"names a column that is not in `X`. {suggest(name, list(map(str, frame.columns)))}", field="sample_weight"
        )
    return frame[name].to_numpy()


def _partitions(groups: Any, samples: int, cross: bool) -> tuple[Partition, ...]:
    """Return the groups as partitions, each of as many samples as there are."""
    found = list(_each_partition(groups))
    for each in found:
        if len(each) != samples:
            raise InputError(f"`groups` has {len(each):,} values of {each.name!r}, but there are {samples:,} samples.")
    if cross:
        if len(found) < 2:
            raise InputError("`cross` intersects the columns of `groups`, which has one only. Give a frame of several.")
        first, *others = found
        for other in others:
            first = first & other
        found.append(first)
    return tuple(found)


def _each_partition(groups: Any) -> Iterator[Partition]:
    if is_frame(groups) and len(groups.columns):
        groups = as_frame(groups, "groups")
    if isinstance(groups, Partition):
        yield groups
    elif isinstance(groups, pd.DataFrame | Mapping):
        for name in groups:
            column = groups[name]
            yield column if isinstance(column, Partition) else Partition.by(str(name), column)
        if not len(groups.keys()):
            raise InputError("`groups` has no columns: name at least one.")
    elif isinstance(groups, str) or not hasattr(groups, "__len__"):
        raise InputError(
            "must be one value per sample: a Series, an array, a Partition, or a frame of columns",
            field="groups",
            given=groups,
        )
    elif isinstance(groups, list | tuple) and groups and all(isinstance(each, Partition) for each in groups):
        yield from groups
    else:
        yield Partition.by(_name_of(groups), groups)


@contextmanager
def _reported(progress: bool | Progress) -> Iterator[Progress]:
    """Yield the caller's function, one that updates a bar on standard error, or one that does nothing."""
    if callable(progress):
        yield progress
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not progress or not console.is_terminal:
        yield silent
        return
    from rich.markup import escape
    from rich.progress import Progress as Bars

    with Bars(console=console, transient=True) as bars:
        known: dict[str, Any] = {}

        def report(what: str, done: int, total: int) -> None:
            if total == SAID:
                console.print(escape(what), soft_wrap=True)
                return
            if what not in known:
                known[what] = bars.add_task(escape(what), total=total)
            bars.update(known[what], completed=done, total=total)

        yield report
