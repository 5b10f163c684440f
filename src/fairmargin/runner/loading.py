"""Load the samples and the model, or the distances, that a study names."""

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fairmargin.core.domain import Domain
from fairmargin.core.progress import Progress, silent
from fairmargin.core.suggestion import suggest
from fairmargin.data.catalog import DATASETS
from fairmargin.data.dataset import Dataset
from fairmargin.data.distance_table import DistanceTable, load_distances, load_run_distances
from fairmargin.data.formats.files import TABLES
from fairmargin.data.loading import load_data
from fairmargin.data.overlap import overlap, overlap_warning
from fairmargin.errors import InputError
from fairmargin.models.architectures.catalog import ARCHITECTURES
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.loading import load_model
from fairmargin.models.protocol import Classifier, differing, places_of
from fairmargin.models.tables.reading import is_tabular
from fairmargin.runner.cases import Case, binned, checked_case, grouped
from fairmargin.runner.table_case import table_case
from fairmargin.store.paths import as_path
from fairmargin.study.options import DataOptions, GroupOptions, ImportOptions
from fairmargin.study.study import ARCHITECTURE, Study


def load_case(study: Study, progress: Progress = silent) -> Case:
    """Load the samples, and either the model or the distances, that a study names."""
    if not study.measures:
        return _imported_case(study)
    found = _model_of_table(study)
    if is_tabular(found):
        return table_case(study, found)
    if isinstance(found, Mapping):
        as_classifier(found)  # refuses it before the data, which could be refused for other reasons
    for field in ("columns", "immutable"):
        if getattr(study.data, field):
            raise InputError(
                "is for models of scikit-learn, XGBoost and LightGBM, with the rows of a table: leave it out",
                field=field,
            )
    dataset = load_data(study.data, study.groups, study.seed, progress)
    model, model_notes = load_classifier(study, dataset, found)
    dataset = _in_model_order(dataset, model)
    model = as_classifier(model, domain=_common_domain(model.domain, dataset.domain))
    columns = {"class": dataset.labels, **dataset.attributes}
    if study.data.label:
        columns.setdefault(study.data.label, dataset.labels)
    columns = binned(study.groups, columns, dataset.name or study.data.data)
    split, task = study.data.split, study.data.task
    described = [dataset.name or study.data.data, "" if split in ("", "all") else split, task]
    weights = study.model.weights
    return checked_case(
        study.groups,
        model,
        dataset,
        columns,
        seed=study.seed,
        model_text=f"{study.model.model} with {Path(weights).name}" if weights else study.model.model,
        data_text=f"{', '.join(filter(None, described))}: {len(dataset):,} samples",
        notes=(*dataset.notes, *model_notes),
        later=seen_in_training(study.data, dataset, study.groups),
    )


def _model_of_table(study: Study) -> object:
    """Return the model if the data are a table in a file, whose rows a model may take as they are; otherwise None."""
    if study.data.data in DATASETS or not study.data.data.lower().endswith(TABLES):
        return None
    options = study.model
    if options.model.startswith(ARCHITECTURE):
        return None  # it needs the shape of the samples
    return load_model(options.model, trust=options.trust_model, weights=options.weights)


def _imported_case(study: Study) -> Case:
    given = study.imported
    norm = (study.audit.norm if study.audit else "") or None
    if as_path(given.distances, "distances").is_dir():
        return _case_of_table(study, _of_run(given, norm))
    table = load_distances(
        Path(given.distances),
        value=given.distance_column or None,
        correct=given.correct_column or None,
        id=given.id or None,
        bound=given.bound or None,
        norm=norm,
    )
    return _case_of_table(study, table)


def _of_run(given: ImportOptions, norm: str | None) -> DistanceTable:
    for name in ("correct_column", "id"):
        if getattr(given, name):
            raise InputError("is for tables; a run folder knows it by itself: leave it out", field=name)
    return load_run_distances(
        Path(given.distances), estimator=given.distance_column or None, bound=given.bound or None, norm=norm
    )


def _case_of_table(study: Study, table: DistanceTable) -> Case:
    text = f"{table.name}: distances of {len(table):,} samples, measured elsewhere"
    columns = binned(study.groups, table.attributes, text)
    partitions, control, cluster, weights = grouped(study.groups, columns, text)
    return Case(
        model="",
        data=text,
        fingerprint=table.fingerprint,
        columns=columns,
        partitions=partitions,
        groups=study.groups,
        control=control,
        cluster=cluster,
        weights=weights,
        seed=study.seed,
        notes=table.notes,
        imported=table.distances,
        ids=table.ids,
    )


def load_classifier(study: Study, dataset: Dataset, found: object = None) -> tuple[Classifier, tuple[str, ...]]:
    """Load the model that a study names for these samples, unless it is given; return it with notes for the report."""
    shape = tuple(map(int, dataset.x.shape[1:]))
    labels = _label_values(study.data, dataset)
    count = _count_of_classes(study.data, dataset, labels)
    options = study.model
    if found is None:
        found = load_model(
            options.model, trust=options.trust_model, weights=options.weights, shape=shape, classes=count
        )
    mean, std, device, tile = options.mean or None, options.std or None, options.device or None, options.tile or None
    if not _is_torch_module(found):
        return as_classifier(found, mean=mean, std=std, device=device, tile=tile), ()
    # Images have limits even where a file of arrays does not say so; tables have none of their own.
    domain = None if len(shape) == 3 and not dataset.domain.is_bounded else dataset.domain
    by_text = not dataset.class_names and dataset.y.dtype.kind in "US"
    classes = labels if by_text else classes_of_data(found, count)
    model = as_classifier(found, domain=domain, classes=classes, mean=mean, std=std, device=device, tile=tile)
    notes = []
    if study.data.data not in DATASETS and (by_text or dataset.class_names):
        order = ", ".join(f"{i} {name}" for i, name in enumerate(labels[:20])) + (", …" if len(labels) > 20 else "")
        how = (
            "as --class-names says" if study.data.class_names else "in sorted order; --class-names a,b,… gives another"
        )
        notes.append(f"Outputs of the network were taken for these classes ({how}): {order}.")
    if len(shape) == 1 and study.data.data not in DATASETS and _is_for_images(options.model):
        side = math.isqrt(shape[0])
        notes.append(
            f"{options.model} takes images: rows of {shape[0]:,} numbers were read as grey pictures of {side} × {side} "
            "pixels. If they are columns of a table, neighbours mean nothing, and this is not the network for them."
        )
    if not options.weights and ":" in options.model:
        notes.append(f"No --weights were given: the network is measured as {options.model} returns it.")
    return model, tuple(notes)


def _label_values(data: DataOptions, dataset: Dataset) -> tuple[Any, ...]:
    """Return the classes in the order of a network's outputs."""
    if dataset.class_names:
        return dataset.class_names
    present = tuple(np.unique(dataset.y).tolist())
    if not data.class_names or dataset.y.dtype.kind not in "US":
        return present
    unknown = [label for label in present if label not in data.class_names]
    if unknown:
        raise InputError(
            f"lacks the label {unknown[0]!r}. {suggest(unknown[0], data.class_names)}", field="class_names"
        )
    return data.class_names


def _count_of_classes(data: DataOptions, dataset: Dataset, labels: tuple[Any, ...]) -> int:
    """Return the number of outputs of a network for these data; numbered classes may be absent from the samples."""
    if data.class_names:
        return len(data.class_names)
    numbered = not dataset.class_names and dataset.y.dtype.kind in "iu"
    return int(dataset.y.max()) + 1 if numbered else len(labels)


def classes_of_data(model: Any, count: int) -> range | None:
    """Return the classes 0, 1, … of the data for a torch module whose layers do not tell its number of outputs.

    Return None for other models, which know their classes.
    """
    if not _is_torch_module(model):
        return None
    from fairmargin.models.torch_model import last_width

    return None if last_width(model) else range(max(2, count))


def seen_in_training(data: DataOptions, dataset: Dataset, groups: GroupOptions) -> tuple[str, ...]:
    """Return a warning if audited samples are known to be training data, whose distances tend to be larger."""
    table = len(dataset.x.shape) == 2
    if data.training_data:
        warning = overlap_warning(overlap(dataset, _training_data(data, data.training_data, groups)), table=table)
    elif data.data not in DATASETS:
        return ()
    elif data.split != "test":
        which = (
            f"All of {data.data} was looked at, the splits train and test together"
            if data.split in ("", "all")
            else f"The split {data.split!r} holds training samples"
        )
        warning = (
            f"{which}. A model that was trained on samples lies farther from them than from unseen ones: --split test "
            "looks at the test samples only."
        )
    elif not DATASETS[data.data].card.files:
        return ()
    else:
        try:
            warning = overlap_warning(overlap(dataset, _training_data(data, f"{data.data}:train", groups)), table=table)
        except InputError:  # the training files may be missing
            return ()
    return (warning,) if warning else ()


def _training_data(data: DataOptions, text: str, groups: GroupOptions) -> Dataset:
    """Load the data of the same kind that the model was trained on: a file, or NAME:SPLIT of the catalog."""
    name, _, split = text.rpartition(":") if text.rpartition(":")[0] in DATASETS else (text, "", "all")
    return load_data(data.model_copy(update={"data": name, "split": split, "per_group": 0}), groups)


def _is_for_images(spec: str) -> bool:
    name = spec.removeprefix("arch:")
    return name != spec and name in ARCHITECTURES and ARCHITECTURES[name].images


def _is_torch_module(model: object) -> bool:
    return "torch" in sys.modules and isinstance(model, sys.modules["torch"].nn.Module)


def _in_model_order(dataset: Dataset, model: Classifier) -> Dataset:
    """Return the data with the features that the model takes, in its order if their names are known.

    A category that does not occur in this table is a column of zeros, which cannot be moved.
    """
    expected, given = getattr(model, "features", None), math.prod(dataset.x.shape[1:])
    wanted: tuple[str, ...] = getattr(model, "feature_names", ())
    if wanted and dataset.feature_names:
        return _reordered(dataset, wanted)
    if expected is not None and expected != given:
        names = f": {', '.join(dataset.feature_names)}" if dataset.feature_names else ""
        raise InputError(
            f"The model takes {expected:,} features but {dataset.name or 'the data'} has {given:,}{names}. "
            "Choose the columns that the model was trained on, in that order, with --features."
        )
    return dataset


def _reordered(dataset: Dataset, wanted: tuple[str, ...]) -> Dataset:
    missing, extra = differing(wanted, dataset.feature_names)
    columns = {name.partition("=")[0] for name in dataset.feature_names if "=" in name}
    encoded = tuple(f"{column}{mark}" for column in columns for mark in "=_")
    absent = [name for name in missing if not name.startswith(encoded)]
    if absent or extra:
        raise InputError(
            f"The model was trained on {', '.join(wanted)}; {dataset.name} has "
            f"{', '.join(dataset.feature_names)}. "
            + (f"Lacking here: {', '.join(absent)}. " if absent else "")
            + (f"Unknown to the model: {', '.join(extra)}. " if extra else "")
            + "Choose the columns with --features."
        )
    order = places_of(wanted, dataset.feature_names)
    if np.array_equal(order, np.arange(len(dataset.feature_names))):
        return dataset
    x = np.hstack([np.asarray(dataset.x), np.zeros((len(dataset), 1))])[:, order]
    low, high, scale = (np.append(part, 0.0)[order] for part in dataset.domain.flat(len(dataset.feature_names)))
    filled = [name for name, i in zip(wanted, order, strict=True) if i < 0]
    notes = [f"Columns put in the model's order: {', '.join(wanted)}."]
    notes += [f"Categories that do not occur here, and cannot be moved to: {', '.join(filled)}."] if filled else []
    return Dataset(
        x,
        dataset.y,
        dataset.attributes,
        Domain(low, high, scale),
        name=dataset.name,
        feature_names=wanted,
        notes=(*dataset.notes, *notes),
    )


def _common_domain(own: Domain, data: Domain) -> Domain:
    """Return the box and scale of the data; of a model that was saved with its own where the data have none."""
    box = data if data.is_bounded or not own.is_bounded else own
    scale = own.scale if (data.scale == 1).all() else data.scale
    return Domain(box.low, box.high, scale)
