"""Check that the results in a run folder follow from the distances in it, before they are used.

This detects damage and edits of single files. It is not a signature: consistent changes of distances, results and
checksums are not detected.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fairmargin.core.codec import encode
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError, StoreError
from fairmargin.inference.censoring import restrict
from fairmargin.inference.settings import AuditSettings, CompareOptions
from fairmargin.store.folder import Store
from fairmargin.study.compute import RECOMPUTED, compute, result_key
from fairmargin.study.options import AttackOptions
from fairmargin.study.record import RunRecord, StoredResult
from fairmargin.study.run_folder import RECORD, RunFolder
from fairmargin.study.study import Study
from fairmargin.version import __version__

_CHEAP = 30_000  # samples × audits that are computed again in a few seconds, with the default number of resamples
_RELATIVE, _ABSOLUTE = 1e-6, 1e-9  # other machines round differently


def checked(folder: RunFolder) -> RunRecord:
    """Return the record of a run; refuse results that were changed, or that do not follow from its distances.

    All files must match their checksums. Audits, brackets, certificates and robust accuracies are computed again if
    that takes a few seconds; for larger runs only sizes, accuracies and means are computed. Audits to a precision and
    adequacy depend on more than the folder holds, and are only checked by their checksums.
    """
    record = folder.read()
    if record.status != "finished":
        raise StoreError(f"The run in {folder.path} did not finish. Run the same command again.")
    folder.check_seal(record)
    try:
        for stored in record.results:
            if stored.kind in RECOMPUTED:
                _check_complete(stored)
        _check_asked(folder, record)
        _check_results(folder, record)
    except InputError as error:  # numbers of samples differ, or a column is missing
        raise StoreError(f"The files in {folder.path} do not belong together: {error} {_remedy(record)}") from None
    if any(each.kind == "precision" for each in record.results):
        store = Store.open(folder.path, create=False)
        for key in store.keys():  # noqa: SIM118 - not a mapping
            store.read(key)
    return record


def settings_of(folder: RunFolder, stored: StoredResult) -> AuditSettings:
    """Return the settings of a result, with the columns of control, clusters and weights in the run folder."""
    how = stored.settings
    numbers = {name: how[name] for name in _numbers(stored)}
    data = stored.about.data
    control = folder.partition(how["control"], data=data) if how.get("control") else None
    cluster = folder.column(how["cluster"], data) if how.get("cluster") else None
    weights = folder.column(how["sample_weight"], data) if how.get("sample_weight") else None
    return AuditSettings(**numbers, control=control, cluster=cluster, sample_weight=weights)


def _check_asked(folder: RunFolder, record: RunRecord) -> None:
    """Refuse results that the study does not request, or whose settings differ from the study."""
    if record.study.grid is not None:
        _check_members(folder, record)
        return
    wanted = _partitions_asked(record.study)
    found = []
    for kind, options in (("audit", record.study.audit), ("robust_accuracy", record.study.attack)):
        if options is None:
            continue
        if kind == "audit" and record.study.audit is not None and record.study.audit.precision:
            kind = "precision"
        results = [each for each in record.results if each.kind == kind]
        partitions = list(dict.fromkeys(each.about.partition for each in results))
        subjects = list(dict.fromkeys(_subject(each) for each in results))
        asked = [(subject, partition) for subject in subjects for partition in partitions]
        if not results or [(_subject(each), each.about.partition) for each in results] != asked:
            _refuse_record(folder, record, f"its results of the kind {kind!r} are not what its study asks for")
        found.append(partitions)
        for each in results:
            how = AuditSettings(**{name: each.settings[name] for name in _numbers(each)})
            names = [] if kind == "precision" else list(CompareOptions.model_fields)
            for name in names:
                if getattr(how, name) != getattr(options, name):
                    _refuse_record(folder, record, f"{name} differs between its study and the result {each.about}")
    if found and wanted not in found:
        _refuse_record(folder, record, f"its results are by {found[0]}, and its study asks for {wanted}")
    _check_brackets(folder, record)


def _check_members(folder: RunFolder, record: RunRecord) -> None:
    """Refuse a study of several models without results of one of them, unless a part failed."""
    if record.failures:
        return
    there = {
        (each.kind, each.about.data, each.about.model, each.about.method, each.about.seed) for each in record.results
    }
    for member in record.study.members:
        seed = None if member.train is None else member.seed
        for measurement in member.measurements:
            options = measurement.options
            kind = (
                "robust_accuracy"
                if isinstance(options, AttackOptions)
                else "precision"
                if options.precision
                else "audit"
            )
            if (kind, member.data_name, member.model_name, member.method, seed) not in there:
                _refuse_record(folder, record, f"it has no result of {member.title}: {measurement.name}")


def _partitions_asked(study: Study) -> list[str]:
    groups = study.groups
    names = list(dict.fromkeys(groups.group)) or ([] if groups.cross else ["class"])
    return [*names, *(" & ".join(names) for names in groups.cross)]


def _subject(stored: StoredResult) -> tuple[object, ...]:
    about = stored.about
    return about.estimator, about.attack, about.radius, stored.shards


def _numbers(stored: StoredResult) -> list[str]:
    return [name for name in (*CompareOptions.model_fields, "seed") if name in stored.settings]


def _check_brackets(folder: RunFolder, record: RunRecord) -> None:
    """Refuse a run with lower and upper bounds but without the bracket that follows from them."""
    audits = [each for each in record.results if each.kind == "audit"]
    sides: dict[tuple[str, str], set[str]] = {}
    for each in audits:
        result = record.result(each)
        sides.setdefault((result.subject, result.norm.value), set()).add(result.bound.value)
    enclosed = sum({"lower", "upper"} <= bounds for bounds in sides.values())
    partitions = len({each.about.partition for each in audits})
    if sum(each.kind == "bracket" for each in record.results) != enclosed * partitions:
        _refuse_record(folder, record, "its brackets are not those that its distances give")


def _refuse_record(folder: RunFolder, record: RunRecord, what: str) -> None:
    raise StoreError(f"{folder.path / RECORD} does not fit its results: {what}. {_remedy(record)}")


def _check_results(folder: RunFolder, record: RunRecord) -> None:
    read: dict[tuple[str, ...], Distances] = {}
    followed = [each for each in record.results if each.kind in RECOMPUTED]
    for stored in followed:
        for keys in stored.shards:
            if keys not in read:
                read[keys] = folder.distances(keys)
    size = sum(len(read[stored.shards[0]]) for stored in followed if stored.kind == "audit")
    for stored in followed:
        distances = [read[keys] for keys in stored.shards]
        about, merge_below = stored.about, int(stored.settings.get("merge_below", 0))
        partition = folder.partition(about.partition, merge_below, about.data)
        settings = settings_of(folder, stored)
        kept = record.result(stored)
        if any(len(each) != len(partition) for each in distances):
            raise InputError(f"there are {len(distances[0]):,} distances but {len(partition):,} samples in groups.")
        if size * settings.resamples <= _CHEAP * CompareOptions().resamples:
            old, new = _plain(kept), _plain(compute(stored, distances, partition, settings))
        elif stored.kind == "audit":
            old, new = _kept_means(kept), _means(distances[0], partition, settings, kept)
        else:
            old, new = {}, {}
        _compare(folder, record, stored, old, new)
        wrote = record.provenance.versions.get("fairmargin", __version__)
        if result_key(stored, partition, settings, wrote) != stored.key:
            _refuse_record(folder, record, f"what it says of the result {stored.about} was changed")


def _check_complete(stored: StoredResult) -> None:
    """Refuse a record that does not name the distances of a result."""
    lacks = len(stored.shards) != (2 if stored.kind == "bracket" else 1) or not all(stored.shards)
    lacks |= stored.kind == "certified" and not {"radii", "alpha"} <= stored.settings.keys()
    lacks |= stored.kind == "robust_accuracy" and stored.about.radius is None
    if lacks:
        raise InputError(f"the record does not say what the result {stored.kind!r} of {stored.about} follows from.")


def _plain(result: Any) -> dict[str, Any]:
    """Return a result without its warnings, one of which depends on labels that the folder does not hold."""
    content: dict[str, Any] = encode(result)
    content.pop("warnings", None)
    return content


def _means(distances: Distances, partition: Partition, settings: AuditSettings, result: Any) -> dict[str, Any]:
    """Return sizes, accuracies and means of groups, and contrasts without a control, which are quick to compute."""
    if len(distances) != len(partition):
        raise InputError(f"there are {len(distances):,} distances but {len(partition):,} samples in groups.")
    present = settings.present(len(distances))
    if present is not None:
        return _means(distances.take(present), partition.take(present), settings.take(present), result)
    weights = settings.weights(len(distances))
    known, rows = restrict(distances, partition, None, result.up_to, weights), []
    weights = np.ones(len(distances)) if weights is None else weights
    gaps = zip(known.own_gaps, known.gaps, strict=True)
    for (label, mask), (own_gap, gap) in zip(partition, gaps, strict=True):
        own, others = weights * mask, weights * ~mask
        mean = float(np.average(known.values, weights=own))
        row = {
            "group": label,
            "size": int(mask.sum()),
            "accuracy": float(np.average(distances.correct, weights=own)),
            "unreached": float(np.average(distances.unreached, weights=own)),
        }
        row |= {} if own_gap else {"robustness": mean}
        rest = float(np.average(known.values, weights=others)) if others.any() else 0.0
        is_plain = not result.control and rest > 0 and not gap
        rows.append(row | ({"sigma": mean / rest - 1, "gap_to_rest": mean - rest} if is_plain else {}))
    return {"groups": rows}


def _kept_means(result: Any) -> dict[str, Any]:
    names = ("accuracy", "robustness", "sigma", "gap_to_rest")
    return {
        "groups": [
            {"group": row.group, "size": row.size, "unreached": row.unreached}
            | {name: getattr(row, name).value for name in names}
            for row in result
        ]
    }


def _compare(
    folder: RunFolder, record: RunRecord, stored: StoredResult, kept: Mapping[str, Any], again: Mapping[str, Any]
) -> None:
    for what, old, new in _differences(kept, again):
        raise StoreError(
            f"results/{stored.key}.json in {folder.path} does not follow from the distances of the run: "
            f"{what} {stored.about} is {_short(old)}, and the distances of the run give {_short(new)}. "
            + _remedy(record)
        )


def _differences(kept: Any, again: Any, field: str = "", of: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield a description of every part of `again` that differs in `kept`, with both values."""
    match kept, again:
        case dict(), dict() if again.keys() <= kept.keys():
            for name, value in again.items():
                yield from _differences(kept[name], value, f"{field} {name}".strip(), of)
        case list(), list() if _groups(kept) != _groups(again):
            yield f"the list of groups{of}", _groups(kept), _groups(again)
        case list(), list() if len(kept) == len(again):
            for old, new in zip(kept, again, strict=True):
                named = isinstance(new, dict) and "group" in new
                yield from _differences(old, new, *(("", f" of {new['group']}") if named else (field, of)))
        case float() | int(), float() | int() if math.isclose(kept, again, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE):
            return
        case _ if kept != again:
            yield f"{field or 'the list of results'}{of}", kept, again


def _groups(rows: Sequence[Any]) -> list[Any]:
    return [row["group"] for row in rows if isinstance(row, dict) and "group" in row]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


def _remedy(record: RunRecord) -> str:
    wrote = record.provenance.versions.get("fairmargin")
    other = "" if wrote == __version__ else f", or computed in another way by version {wrote} (this is {__version__})"
    return (
        f"It was edited or damaged{other}. Run the same command again into this folder, which keeps what was measured."
    )
