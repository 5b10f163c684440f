"""Distances in the folder of an earlier run, also in one that version 0.1 wrote."""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from fairmargin.core.bound import Bound
from fairmargin.core.norm import Norm
from fairmargin.core.suggestion import suggest, there_are
from fairmargin.data.distance_table import DistanceTable
from fairmargin.errors import InputError, StoreError
from fairmargin.store.folder import Store
from fairmargin.store.received import read_plain
from fairmargin.study.run_folder import OLD_MANIFEST, RunFolder


def load_run_distances(
    path: Path, *, estimator: str | None = None, bound: str | None = None, norm: str | None = None
) -> DistanceTable:
    """Return the distances that an audit measured, with the columns by which its samples were grouped.

    Parameters
    ----------
    path
        The run folder.
    estimator
        Which distances, if the run measured several.
    bound, norm
        What the distances must be; a run folder knows both.
    """
    folder = RunFolder(path)
    Store.open(path, create=False)
    measurements, notes = _measurements(folder)
    if not measurements:
        raise InputError(f"{path} holds no audit, and so no distances of all its samples.")
    if estimator is None and len(measurements) > 1:
        raise InputError(
            f"is missing: {path} holds the distances of several estimators. Name one. {there_are(measurements)}",
            field="distance_column",
        )
    name = estimator or next(iter(measurements))
    if name not in measurements:
        raise InputError(f"{path} holds no distances by {name!r}. {suggest(name, measurements)}")
    distances = folder.distances(measurements[name])
    for field, given, known in (("bound", bound, distances.bound), ("norm", norm, distances.norm)):
        kind: Any = Bound if field == "bound" else Norm.parse
        if given and kind(given) is not known:
            raise InputError(f"differs from the run's, which is {known.value}", field=field, given=given)
    columns: Mapping[str, Any] = folder.columns()
    if columns and len(next(iter(columns.values()))) != len(distances):
        raise StoreError(f"The files in {path} do not belong together: samples and distances differ in number.")
    return DistanceTable(
        distances=distances,
        attributes=columns,
        name=path.name,
        notes=(f"Distances by {name}, measured by the run in {path}.", *notes),
        fingerprint=sha256(" ".join(measurements[name]).encode()).hexdigest(),
        ids=folder.ids(),
    )


def _measurements(folder: RunFolder) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Return the shards of each estimator of a run, and the run's notes."""
    record = folder.record()
    if record is None:
        return _old_measurements(folder)
    if record.status != "finished":
        raise StoreError(f"The run in {folder.path} did not finish. Run the same command again.")
    folder.check_seal(record)
    return {each.about.estimator: each.shards[0] for each in record.results if each.kind == "audit"}, record.notes


def _old_measurements(folder: RunFolder) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    path = folder.path / OLD_MANIFEST
    try:
        content = json.loads(read_plain(path))
        found = {str(each["estimator"]): tuple(map(str, each["keys"])) for each in content["measurements"]}
        return found, tuple(map(str, content.get("notes", ())))
    except FileNotFoundError:
        return {}, ()
    except StoreError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is damaged ({error}).") from None
