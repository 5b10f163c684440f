"""Load the samples that options name: of the catalog, of a file, or images with a table of labels."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairmargin.core.progress import Progress
from fairmargin.data.catalog import DATASETS, load
from fairmargin.data.dataset import Dataset
from fairmargin.data.formats.image_folder import load_images
from fairmargin.errors import InputError
from fairmargin.store.paths import as_path
from fairmargin.study.options import DataOptions, GroupOptions


def load_data(options: DataOptions, groups: GroupOptions, seed: int = 0, progress: Progress | None = None) -> Dataset:
    """Load the samples that options name.

    Parameters
    ----------
    options
        Where the samples are, and what the columns mean.
    groups
        Options whose columns are attributes, not features.
    seed
        Seed for drawing `per_group` samples.
    progress
        Called with (description, done, total).
    """
    as_path(options.data, "data")  # refuses names that no file can have
    with named_options(options, groups):
        dataset = _loaded(options, groups, progress)
    if not options.per_group:
        return dataset
    return dataset.sample(per_group=options.per_group, by=sampled_by(options, groups), seed=seed)


@contextmanager
def named_options(options: DataOptions, groups: GroupOptions) -> Iterator[None]:
    """Name the option in errors about a column that does not exist."""
    try:
        yield
    except InputError as error:
        field = _option_of(error.column, options, groups) if error.column else ""
        if not field:
            raise
        raise InputError(f"names a column that is not there: {error}", field=field) from None


def _loaded(options: DataOptions, groups: GroupOptions, progress: Progress | None) -> Dataset:
    """Return all samples that options name."""
    if _is_folder_of_images(options):
        return load_images(
            Path(options.data),
            Path(options.labels) if options.labels else None,
            image=options.image_column or "file",
            label=options.label or None,
            attributes=[name for name in _attributes(options, groups) if name != "class"],
            class_names=options.class_names,
            size=options.size or None,
            progress=progress,
        )
    if options.labels or options.image_column:
        raise InputError(
            "goes with a folder (or zip) of images: leave it out, or name the folder",
            field="labels" if options.labels else "image_column",
            given=options.data,
        )
    return load(
        options.data,
        root=Path(options.root) if options.root else None,
        split=options.split or "all",
        task=options.task or None,
        size=options.size or None,
        label=options.label or None,
        attributes=_attributes(options, groups) if options.data not in DATASETS else (),
        features=options.features or None,
        scale=options.scale or None,
        bounds=options.bounds,
        progress=progress,
    )


def _attributes(options: DataOptions, groups: GroupOptions) -> tuple[str, ...]:
    """Return the columns of a user's file that are read besides features and label."""
    by = () if options.by == "class" else (options.by,)
    named = dict.fromkeys((*groups.named_columns, *by))
    return tuple(name for name in named if name and name != options.label)


def _option_of(column: str, options: DataOptions, groups: GroupOptions) -> str:
    """Return the option that names a column; empty if none does."""
    named = {
        "group": groups.group,
        "cross": [name for names in groups.cross for name in names],
        "control": [groups.control],
        "cluster": [groups.cluster],
        "sample_weight": [groups.sample_weight],
        "by": [options.by],
        "label": [options.label],
        "features": options.features,
        "image_column": [options.image_column],
    }
    return next((field for field, names in named.items() if column in names), "")


def sampled_by(options: DataOptions, groups: GroupOptions) -> str:
    """Return the column whose values `per_group` counts."""
    return options.by or (groups.group[0] if groups.group else groups.cross[0][0] if groups.cross else "class")


def _is_folder_of_images(options: DataOptions) -> bool:
    path = Path(options.data)
    return options.data not in DATASETS and (path.is_dir() or path.suffix.lower() == ".zip")
