"""Check that the results in a run folder follow from the distances in it, before anything is decided by them.

This detects damage and edits of single files. It is no signature: whoever also changes distances and checksums is not
detected.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairmargin.analyses.audit import AuditResult, audit
from fairmargin.core.codec import encode
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.distances.catalog import parse_estimator
from fairmargin.errors import InputError, StoreError
from fairmargin.inference.settings import AuditSettings
from fairmargin.store.checksums import check_seal
from fairmargin.studies.bracketing import brackets_of
from fairmargin.studies.certifying import certificates_of
from fairmargin.studies.loading import Loaded, audit_plan, partitions_of
from fairmargin.studies.run_folder import Manifest, RunFolder
from fairmargin.version import __version__

AUDIT_FILES = (
    "study.json",
    "manifest.json",
    "samples.parquet",
    "audits.json",
    "brackets.json",
    "certificates.json",
    "adequacy.json",
)
PRECISION_FILES = ("study.json", "precision.json")
_CHEAP = 30_000  # samples × audits that are compared anew in a few seconds, with the default number of resamples
_RELATIVE, _ABSOLUTE = 1e-6, 1e-9  # other machines round differently


def check_run(folder: RunFolder) -> None:
    """Refuse a run whose results are not what was written, or not what its distances give.

    All files must match their checksums. Audits, brackets and certificates are computed again where that takes a few
    seconds; of larger runs only sizes, accuracies and means are. An audit to a precision and the check of an attack
    rest on more than the folder holds, and are checked by their checksums alone.
    """
    if folder.is_to_precision:
        check_seal(folder.path, PRECISION_FILES)
        store = folder.store()
        for key in store.keys():  # noqa: SIM118 - not a mapping
            store.read(key)
        return
    check_seal(folder.path, AUDIT_FILES)
    study, manifest = folder.read_study(), folder.read_manifest()
    assert study is not None
    try:
        measured = [(m.estimator, folder.distances(m)) for m in manifest.measurements]
        loaded = Loaded(0, folder.columns(), manifest.data, manifest.model, "", ())
        partitions, plan = partitions_of(study, loaded), audit_plan(study, loaded)
        for file, kept, again in _results(folder, measured, partitions, plan):
            _compare(folder.path / file, manifest, kept, again)
    except InputError as error:  # they have different numbers of samples, or a column is missing
        raise StoreError(f"The files in {folder.path} do not belong together: {error} {_remedy(manifest)}") from None


def _results(
    folder: RunFolder, measured: Sequence[tuple[str, Distances]], partitions: Sequence[Partition], plan: AuditSettings
) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield the name of each file of results, what it holds, and what the distances give, both by what it is about."""
    size = sum(len(distances) for _, distances in measured) * len(partitions)
    is_cheap = size * plan.resamples <= _CHEAP * AuditSettings().resamples
    kept = [(_about(a.result.partition, a.estimator), a.result) for a in folder.read_audits()]
    again = [(_about(p.name, name), distances, p) for name, distances in measured for p in partitions]
    if [about for about, _ in kept] != [about for about, *_ in again]:
        yield "audits.json", {"": [about for about, _ in kept]}, {"": [about for about, *_ in again]}
    elif is_cheap:
        found = {about: _plain(audit(distances, partition, plan)) for about, distances, partition in again}
        yield "audits.json", {about: _plain(result) for about, result in kept}, found
    else:
        means = {
            about: _means(distances, partition, result)
            for (about, distances, partition), (_, result) in zip(again, kept, strict=True)
        }
        yield "audits.json", {about: _kept_means(result) for about, result in kept}, means
    if is_cheap:
        brackets, enclosed = folder.read_brackets(), brackets_of(measured, partitions, plan)
        yield "brackets.json", {"": encode(brackets)}, {"": encode(enclosed)}
    certificates = folder.read_certificates()
    if certificates:
        estimators = {name: parse_estimator(name) for name, _ in measured}
        certified = certificates_of(estimators, measured, partitions, plan.confidence)
        yield "certificates.json", {"": encode(certificates)}, {"": encode(certified)}


def _about(partition: str, estimator: str) -> str:
    return f"by {partition} ({estimator})"


def _plain(result: AuditResult) -> dict[str, Any]:
    """All of an audit but its warnings, one of which rests on labels that the folder does not hold."""
    content: dict[str, Any] = encode(result)
    del content["warnings"]
    return content


def _means(distances: Distances, partition: Partition, result: AuditResult) -> dict[str, Any]:
    """What is quick to compute: the sizes, accuracies and means of groups, and their contrasts without a control."""
    if len(distances) != len(partition):
        raise InputError(f"there are {len(distances):,} distances but {len(partition):,} samples in groups.")
    values, rows = np.minimum(distances.values, result.up_to), []
    for label, mask in partition:
        mean = float(values[mask].mean())
        row = {
            "group": label,
            "size": int(mask.sum()),
            "accuracy": float(distances.correct[mask].mean()),
            "unreached": float(distances.unreached[mask].mean()),
            "robustness": mean,
        }
        rest = float(values[~mask].mean()) if not mask.all() else 0.0
        is_plain = not result.control and rest > 0
        rows.append(row | ({"sigma": mean / rest - 1, "gap_to_rest": mean - rest} if is_plain else {}))
    return {"groups": rows}


def _kept_means(result: AuditResult) -> dict[str, Any]:
    names = ("accuracy", "robustness", "sigma", "gap_to_rest")
    return {
        "groups": [
            {"group": row.group, "size": row.size, "unreached": row.unreached}
            | {name: getattr(row, name).value for name in names}
            for row in result
        ]
    }


def _compare(path: Path, manifest: Manifest, kept: Mapping[str, Any], again: Mapping[str, Any]) -> None:
    for about, expected in again.items():
        for what, old, new in _differences(kept[about], expected):
            raise StoreError(
                f"{path} does not follow from the distances of the run: {f'{what} {about}'.strip()} is {_short(old)}, "
                f"and the distances of the run give {_short(new)}. {_remedy(manifest)}"
            )


def _differences(kept: Any, again: Any, field: str = "", of: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield every part of `again` that differs in `kept`, in words, with both values."""
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


def _remedy(manifest: Manifest) -> str:
    wrote = manifest.versions.get("fairmargin")
    other = "" if wrote == __version__ else f", or computed in another way by version {wrote} (this is {__version__})"
    return (
        f"It was edited or damaged{other}. Run the same command again into this folder, which keeps what was measured."
    )
