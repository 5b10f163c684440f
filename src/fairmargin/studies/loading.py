"""The first stage: from the names in a study to samples, labels, groups and a model."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints
from fairmargin.core.distances import Distances
from fairmargin.core.domain import Domain
from fairmargin.core.partition import Partition
from fairmargin.core.progress import Progress
from fairmargin.core.suggestion import suggest
from fairmargin.data.catalog import DATASETS, load
from fairmargin.data.dataset import Dataset
from fairmargin.data.distance_table import load_distances
from fairmargin.data.image_folder import load_images
from fairmargin.data.overlap import overlap, overlap_warning
from fairmargin.distances.measure import check_samples
from fairmargin.errors import InputError
from fairmargin.metrics.plan import AuditPlan
from fairmargin.models.architectures.catalog import ARCHITECTURES
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.feature_order import differing, places_of
from fairmargin.models.loading import load_model
from fairmargin.models.protocol import Classifier
from fairmargin.models.referenced import References
from fairmargin.studies.study import Study


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """Samples with labels and attributes, and the model if distances are still to be measured."""

    samples: int
    columns: Mapping[str, npt.NDArray[Any]]
    about_data: str
    about_model: str
    fingerprint: str
    notes: tuple[str, ...]
    domain: str = ""  # its fingerprint: distances in other units do not compare
    dataset: Dataset | None = None
    model: Classifier | None = None
    positions: Ints | None = None
    references: References | None = None  # some of the samples, for searches that find nothing by themselves
    table: Distances | None = None
    ids: npt.NDArray[np.str_] | None = None  # of the samples of a table


def load_study(study: Study, progress: Progress | None = None) -> Loaded:
    """The samples, and either the model or the distances."""
    if not study.measures:
        return _load_table(study)
    dataset = load_data(study, progress)
    model, model_notes = load_classifier(study, dataset)
    dataset = _in_model_order(dataset, model)
    model = as_classifier(model, domain=_common_domain(model.domain, dataset.domain))
    checked = check_samples(model, dataset.x, dataset.y)
    model = checked.model
    columns = {"class": dataset.labels, **dataset.attributes}
    if study.label:
        columns.setdefault(study.label, dataset.labels)
    return Loaded(
        samples=len(dataset),
        columns=columns,
        about_data=f"{dataset.name or study.data}{'' if study.split == 'all' else ', ' + study.split}"
        f"{', ' + study.task if study.task else ''}: {len(dataset):,} samples",
        about_model=f"{study.model} with {Path(study.weights).name}" if study.weights else study.model,
        fingerprint=dataset.fingerprint,
        notes=(*dataset.notes, *model_notes, *checked.notes, *seen_in_training(study, dataset)),
        domain=model.domain.fingerprint(),
        dataset=dataset,
        model=model,
        positions=checked.positions,
    )


def load_data(study: Study, progress: Progress | None = None) -> Dataset:
    """The samples that the study names: of the catalog, of a file, or images with a table of labels."""
    if _is_folder_of_images(study):
        dataset = load_images(
            Path(study.data),
            Path(study.labels) if study.labels else None,
            image=study.image_column or "file",
            label=study.label or None,
            attributes=[c for c in study.columns if c not in (study.label, "class")],
            class_names=study.class_names,
            size=study.size or None,
            progress=progress,
        )
    else:
        if study.labels or study.image_column:
            raise InputError(
                f"--labels and --image-column go with a folder (or zip) of images; --data is {study.data!r}. Leave "
                "them out, or name the folder."
            )
        dataset = load(
            study.data,
            root=Path(study.root) if study.root else None,
            split=study.split,
            task=study.task or None,
            size=study.size or None,
            label=study.label or None,
            attributes=[c for c in study.columns if c != study.label] if study.data not in DATASETS else (),
            features=study.features or None,
            scale=study.scale or None,
            bounds=study.bounds,
            progress=progress,
        )
    if not study.per_group:
        return dataset
    by = study.groups[0] if study.groups else study.cross[0][0] if study.cross else "class"
    return dataset.sample(per_group=study.per_group, by=by, seed=study.seed)


def load_classifier(study: Study, dataset: Dataset) -> tuple[Classifier, tuple[str, ...]]:
    """The model that the study names, made for these samples, and what the report should say of it."""
    shape = tuple(map(int, dataset.x.shape[1:]))
    labels = _label_values(study, dataset)
    count = _count_of_classes(study, dataset, labels)
    found = load_model(study.model, trust=study.trust_model, weights=study.weights, shape=shape, classes=count)
    mean, std, device, tile = study.mean or None, study.std or None, study.device or None, study.tile or None
    if not _is_torch_module(found):
        return as_classifier(found, mean=mean, std=std, device=device, tile=tile), ()
    # Images have limits even where a file of arrays does not say so; tables have none of their own.
    domain = None if len(shape) == 3 and not dataset.domain.is_bounded else dataset.domain
    by_text = not dataset.class_names and dataset.y.dtype.kind in "US"
    classes = labels if by_text else None
    model = as_classifier(found, domain=domain, classes=classes, mean=mean, std=std, device=device, tile=tile)
    notes = []
    if study.data not in DATASETS and (by_text or dataset.class_names):
        order = ", ".join(f"{i} {name}" for i, name in enumerate(labels[:20])) + (", …" if len(labels) > 20 else "")
        how = "as --class-names says" if study.class_names else "in sorted order; --class-names a,b,… gives another"
        notes.append(f"Outputs of the network were taken for these classes ({how}): {order}.")
    if len(shape) == 1 and study.data not in DATASETS and _is_for_images(study.model):
        side = math.isqrt(shape[0])
        notes.append(
            f"{study.model} takes images: rows of {shape[0]:,} numbers were read as grey pictures of {side} × {side} "
            "pixels. If they are columns of a table, neighbours mean nothing, and this is not the network for them."
        )
    if not study.weights and ":" in study.model:
        notes.append(f"No --weights were given: the network is audited as {study.model} returns it.")
    return model, tuple(notes)


def _label_values(study: Study, dataset: Dataset) -> tuple[Any, ...]:
    """The classes in the order of a network's outputs."""
    if dataset.class_names:
        return dataset.class_names
    present = tuple(np.unique(dataset.y).tolist())
    if not study.class_names or dataset.y.dtype.kind not in "US":
        return present
    unknown = [label for label in present if label not in study.class_names]
    if unknown:
        raise InputError(f"Label {unknown[0]!r} is none of --class-names. {suggest(unknown[0], study.class_names)}")
    return study.class_names


def _count_of_classes(study: Study, dataset: Dataset, labels: tuple[Any, ...]) -> int:
    """How many outputs a network for these data has; a class of numbered ones may be absent from this part of them."""
    if study.class_names:
        return len(study.class_names)
    numbered = not dataset.class_names and dataset.y.dtype.kind in "iu"
    return int(dataset.y.max()) + 1 if numbered else len(labels)


def seen_in_training(study: Study, dataset: Dataset) -> tuple[str, ...]:
    """A warning if audited samples are known to be training data: there, distances look larger than they are."""
    table = len(dataset.x.shape) == 2
    if study.training_data:
        warning = overlap_warning(overlap(dataset, _training_data(study, study.training_data)), table=table)
    elif study.data not in DATASETS:
        return ()
    elif study.split != "test":
        which = (
            f"All of {study.data} was looked at, the splits train and test together"
            if study.split == "all"
            else f"The split {study.split!r} holds training samples"
        )
        warning = (
            f"{which}. A model that was trained on samples lies farther from them than from unseen ones: --split test "
            "looks at the test samples only."
        )
    elif not DATASETS[study.data].card.files:
        return ()
    else:
        try:
            warning = overlap_warning(overlap(dataset, _training_data(study, f"{study.data}:train")), table=table)
        except InputError:  # whoever has only the test files can still audit them
            return ()
    return (warning,) if warning else ()


def _training_data(study: Study, text: str) -> Dataset:
    """The data of the same kind that the model was trained on: a file, or NAME:SPLIT of the catalog."""
    name, _, split = text.rpartition(":") if text.rpartition(":")[0] in DATASETS else (text, "", "all")
    return load_data(study.model_copy(update={"data": name, "split": split, "per_group": 0}))


def _load_table(study: Study) -> Loaded:
    table = load_distances(
        Path(study.distances),
        value=study.distance_column or None,
        correct=study.correct_column or None,
        id=study.id or None,
        bound=study.bound or None,
        norm=study.norm or None,
    )
    return Loaded(
        samples=len(table),
        columns=table.attributes,
        about_data=f"{table.name}: distances of {len(table):,} samples, measured elsewhere",
        about_model="",
        fingerprint=table.fingerprint,
        notes=table.notes,
        table=table.distances,
        ids=table.ids,
    )


def _is_folder_of_images(study: Study) -> bool:
    path = Path(study.data)
    return study.data not in DATASETS and (path.is_dir() or path.suffix.lower() == ".zip")


def _is_for_images(spec: str) -> bool:
    name = spec.removeprefix("arch:")
    return name != spec and name in ARCHITECTURES and ARCHITECTURES[name].images


def _is_torch_module(model: object) -> bool:
    return "torch" in sys.modules and isinstance(model, sys.modules["torch"].nn.Module)


def _in_model_order(dataset: Dataset, model: Classifier) -> Dataset:
    """The data with its features as the model knows them: counted, and where names are known, in its order.

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
    """The data's box and scale; a model that was saved with its own keeps what the data say nothing of."""
    box = data if data.is_bounded or not own.is_bounded else own
    scale = own.scale if (data.scale == 1).all() else data.scale
    return Domain(box.low, box.high, scale)


def partitions_of(study: Study, loaded: Loaded) -> list[Partition]:
    """Every partition that the study asks for; the class, where it asks for none."""
    groups = tuple(dict.fromkeys(study.groups)) or (() if study.cross else ("class",))
    if "class" in groups and "class" not in loaded.columns:
        raise InputError(
            f"No --group was given, and the table has no column 'class'. Its columns: {', '.join(loaded.columns)}."
            if not study.groups
            else f"There is no column 'class'. The columns: {', '.join(loaded.columns)}."
        )
    found = [_partition(name, loaded) for name in groups]
    for names in study.cross:
        crossed = _partition(names[0], loaded)
        for name in names[1:]:
            crossed = crossed & _partition(name, loaded)
        found.append(crossed)
    if study.merge_below:
        found = [partition.merge(smaller_than=study.merge_below) for partition in found]
    return found


def _partition(name: str, loaded: Loaded) -> Partition:
    if name not in loaded.columns:
        raise InputError(f"There is no column {name!r} in {loaded.about_data}. {suggest(name, loaded.columns)}")
    return Partition.by(name, loaded.columns[name])


def audit_plan(study: Study, loaded: Loaded) -> AuditPlan:
    """The plan of the comparison, with control and clusters looked up among the columns."""
    cluster = None
    if study.cluster:
        if study.cluster not in loaded.columns:
            _partition(study.cluster, loaded)  # says so
        cluster = loaded.columns[study.cluster]
    return AuditPlan(
        confidence=study.confidence,
        control=_partition(study.control, loaded) if study.control else None,
        cluster=cluster,
        up_to=study.up_to,
        smallest_group=study.smallest_group,
        resamples=study.resamples,
        seed=study.seed,
    )


def kept_columns(study: Study, loaded: Loaded) -> list[str]:
    """The columns that a run folder keeps: those that the study names, and the class."""
    wanted = [*study.columns, "class"]
    return [name for name in dict.fromkeys(wanted) if name in loaded.columns] or list(loaded.columns)[:1]
