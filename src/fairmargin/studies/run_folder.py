"""A run on disk: what was asked, what was measured, what was found.

RUN/study.json       the study
RUN/manifest.json    command, versions, fingerprints, and which shards make up each measurement
RUN/samples.parquet  the columns that group, control or cluster, and the ids of imported samples
RUN/shards/          distances, written as they are measured
RUN/audits.json      the results
RUN/table.csv        the same as a table
RUN/adequacy.json    whether the attacks were strong enough, where that was asked
RUN/brackets.json    what lower and upper bounds enclose together, where both were measured
RUN/certificates.json  what certificates by smoothing guarantee, where there are any
RUN/attack_study.json, RUN/robust_accuracy.json, RUN/robust_accuracy.csv  attacks at fixed radii: studies/attacking.py
RUN/checksums.json   checksums of the results above and of precision.json
RUN/precision.json   what an audit to a precision found; precision.csv is the same as a table
RUN/report.html
"""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmargin.core.distances import Distances
from fairmargin.core.partition import MISSING, Partition
from fairmargin.core.suggestion import suggest
from fairmargin.distances.measure import concatenate
from fairmargin.errors import InputError, StoreError
from fairmargin.metrics.adequacy import Adequacy
from fairmargin.metrics.bracketed import Bracket
from fairmargin.metrics.certified import Certified
from fairmargin.metrics.precision import PrecisionResult
from fairmargin.metrics.results import AuditResult, encode
from fairmargin.store.atomic import atomic_write_bytes, atomic_write_text
from fairmargin.store.folder import Store
from fairmargin.store.received import read_plain
from fairmargin.store.table import write_csv
from fairmargin.studies.study import Study, make_study

_Stored = TypeVar("_Stored")
_IDS = " id"  # the leading space keeps it apart from columns of a table, whose names are stripped


class _Writable(Protocol):
    def to_json(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Measurement:
    """One estimator's distances: the shards that hold them, in the order of the samples."""

    estimator: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """How a run came about."""

    command: str
    created: str
    model: str
    data: str
    samples_fingerprint: str
    versions: Mapping[str, str]
    notes: tuple[str, ...]
    measurements: tuple[Measurement, ...]
    domain: str = ""  # fingerprint of bounds and scale
    references: str = ""  # fingerprint of the samples that searches may fall back on


@dataclass(frozen=True, slots=True)
class StoredAudit:
    """An audit and the estimator whose distances it rests on."""

    estimator: str
    result: AuditResult


@dataclass(frozen=True, slots=True)
class StoredAdequacy:
    """Whether an estimator was strong enough for one partition."""

    estimator: str
    result: Adequacy


@dataclass(frozen=True, slots=True)
class StoredBracket:
    """What the distances of several estimators enclose together, and which these are."""

    between: str
    result: Bracket


@dataclass(frozen=True, slots=True)
class StoredCertificates:
    """What an estimator's certificates guarantee of one partition."""

    estimator: str
    result: Certified


@dataclass(frozen=True, slots=True)
class StoredPrecision:
    """What an audit to a precision found of each partition, and how it came about."""

    found: tuple[PrecisionResult, ...]
    command: str
    created: str
    model: str
    data: str
    versions: Mapping[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of a run; every reading error is a sentence that says what to do."""

    path: Path

    @classmethod
    def existing(cls, path: Path | str) -> "RunFolder":
        """A run that must be there."""
        folder = cls(Path(path))
        Store.open(folder.path, create=False)
        if not folder._file("study.json").is_file():
            if folder._file("study.toml").is_file():
                raise StoreError(
                    f"{path} holds a study of many networks, not an audit. Its page is {folder.report}; "
                    f"`fairmargin run {folder._file('study.toml')} --out {path}` writes it again, and "
                    "repeats nothing that is done."
                )
            raise StoreError(
                f"{path} holds no finished stage of an audit. Run `fairmargin audit … --out {path}` first."
            )
        return folder

    @property
    def report(self) -> Path:
        """Where the report lies."""
        return self._file("report.html")

    def store(self) -> Store:
        """The shards."""
        return Store.open(self.path, create=True)

    def write_study(self, study: Study) -> None:
        """Keep what was asked."""
        content = encode(study.model_dump(exclude_defaults=True))  # JSON has no infinity of its own
        atomic_write_text(self._file("study.json"), json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    def read_study(self, name: str = "study.json") -> Study | None:
        """What was asked of an audit (of attacks: "attack_study.json"), or None if nothing was."""
        content = self._json(name, dict)
        try:
            return None if content is None else make_study(content)
        except InputError as error:
            raise self._damaged(name, error) from None

    def write_manifest(self, manifest: Manifest) -> None:
        """Keep how it was done."""
        content = {name: getattr(manifest, name) for name in manifest.__dataclass_fields__}
        content["versions"] = dict(manifest.versions)
        content["measurements"] = [{"estimator": m.estimator, "keys": list(m.keys)} for m in manifest.measurements]
        atomic_write_text(self._file("manifest.json"), json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    def read_manifest(self) -> Manifest:
        """How it was done."""
        content = self._json("manifest.json", dict)
        if content is None:
            if self._file("precision.json").is_file():
                raise StoreError(
                    f"{self.path} holds an audit to a precision, which measures some samples only, so that they cannot "
                    "be paired with another run's. Audit without --precision first."
                )
            raise self._unfinished("manifest.json")
        try:
            measurements = tuple(Measurement(m["estimator"], tuple(m["keys"])) for m in content.pop("measurements"))
            return Manifest(**content | {"notes": tuple(content["notes"]), "measurements": measurements})
        except (KeyError, TypeError, AttributeError) as error:
            raise self._damaged("manifest.json", error) from None

    def write_samples(
        self,
        columns: Mapping[str, npt.NDArray[Any]],
        *,
        clusters: str = "",
        ids: npt.NDArray[np.str_] | None = None,
    ) -> None:
        """Keep the columns by which samples are grouped, so that a run can be compared without its data.

        The column named `clusters` has too many values to be groups. `ids` are kept beside the columns.
        """
        frame = pd.DataFrame(
            {name: np.asarray(column) if name == clusters else _labels(column) for name, column in columns.items()}
        )
        if ids is not None:
            frame[_IDS] = ids.astype(object)
        content = io.BytesIO()
        frame.to_parquet(content)
        atomic_write_bytes(self._file("samples.parquet"), content.getvalue())

    def partition(self, name: str) -> Partition:
        """Groups by a column, or by an intersection written "a & b", small ones merged as the study says."""
        frame = self._samples()
        parts = [name] if name in frame.columns else [part.strip() for part in name.split(" & ")]
        first, *others = (Partition.by(part, self._column(frame, part)) for part in parts)
        for other in others:
            first = first & other
        study = self.read_study()
        return first.merge(smaller_than=study.merge_below) if study is not None and study.merge_below else first

    def columns(self) -> dict[str, Any]:
        """Every column of the samples, with the order of its labels."""
        frame = self._samples()
        return {str(name): frame[name] for name in frame.columns}

    def ids(self) -> npt.NDArray[np.str_] | None:
        """The ids of the samples, None if the run has none."""
        frame = self._samples()
        return frame[_IDS].to_numpy(dtype=np.str_) if _IDS in frame.columns else None

    def column(self, name: str) -> npt.NDArray[Any]:
        """One column of the samples."""
        return np.asarray(self._column(self._samples(), name))

    def _column(self, frame: pd.DataFrame, name: str) -> "pd.Series[Any]":
        if name not in frame.columns:
            known = frame.columns.drop(_IDS, errors="ignore")
            raise InputError(f"The run in {self.path} has no column {name!r}. {suggest(name, known)}")
        return frame[name]

    def distances(self, measurement: Measurement) -> Distances:
        """The distances of a measurement."""
        store = Store.open(self.path, create=False)
        return concatenate([store.read(key) for key in measurement.keys])

    def write_audits(self, audits: Sequence[StoredAudit]) -> None:
        """Keep the results, and the same as a table."""
        self._write_results("audits.json", "estimator", [(a.estimator, a.result) for a in audits])
        write_csv(self._file("table.csv"), audit_table(audits))

    def read_audits(self) -> tuple[StoredAudit, ...]:
        """The results."""
        if not self._file("audits.json").exists():
            raise self._unfinished("audits.json")
        audits = self._read_results("audits.json", "estimator", AuditResult.from_json, StoredAudit)
        if not audits:
            raise self._damaged("audits.json", InputError("it holds no audit"))
        return audits

    def write_adequacies(self, adequacies: Sequence[StoredAdequacy]) -> None:
        """Keep whether the attacks were strong enough; no file where that was not looked at."""
        self._write_results("adequacy.json", "estimator", [(a.estimator, a.result) for a in adequacies])

    def read_adequacies(self) -> tuple[StoredAdequacy, ...]:
        """Whether the attacks were strong enough; none where that was not looked at."""
        return self._read_results("adequacy.json", "estimator", Adequacy.from_json, StoredAdequacy)

    def write_brackets(self, brackets: Sequence[StoredBracket]) -> None:
        """Keep what is enclosed; no file where nothing is."""
        self._write_results("brackets.json", "between", [(b.between, b.result) for b in brackets])

    def read_brackets(self) -> tuple[StoredBracket, ...]:
        """What is enclosed; none where only one side was measured."""
        return self._read_results("brackets.json", "between", Bracket.from_json, StoredBracket)

    def write_certificates(self, certificates: Sequence[StoredCertificates]) -> None:
        """Keep what is guaranteed; no file where nothing was certified by smoothing."""
        self._write_results("certificates.json", "estimator", [(c.estimator, c.result) for c in certificates])

    def read_certificates(self) -> tuple[StoredCertificates, ...]:
        """What is guaranteed; none where nothing was certified by smoothing."""
        return self._read_results("certificates.json", "estimator", Certified.from_json, StoredCertificates)

    def _write_results(self, file: str, label: str, named: Sequence[tuple[str, _Writable]]) -> None:
        """A list of results, each beside a text that says whose it is; no file where there are none."""
        if not named:
            self._file(file).unlink(missing_ok=True)
            return
        content = [{label: name, "result": json.loads(result.to_json())} for name, result in named]
        atomic_write_text(self._file(file), json.dumps(content, ensure_ascii=False, allow_nan=False))

    def _read_results(
        self, file: str, label: str, decode: Callable[[str], Any], store: Callable[[str, Any], _Stored]
    ) -> tuple[_Stored, ...]:
        try:
            return tuple(
                store(item[label], decode(json.dumps(item["result"]))) for item in self._json(file, list) or ()
            )
        except (KeyError, TypeError, InputError) as error:
            raise self._damaged(file, error) from None

    @property
    def precision_table(self) -> Path:
        """Where the table of an audit to a precision lies."""
        return self._file("precision.csv")

    @property
    def is_to_precision(self) -> bool:
        """Whether what was asked last is an audit to a precision."""
        study = self.read_study()
        return study is not None and study.precision > 0

    def write_precision(self, stored: StoredPrecision) -> None:
        """Keep what an audit to a precision found, how it came about, and the numbers as a table."""
        content = {name: getattr(stored, name) for name in stored.__dataclass_fields__}
        content |= {"versions": dict(stored.versions), "found": [json.loads(each.to_json()) for each in stored.found]}
        atomic_write_text(self._file("precision.json"), json.dumps(content, ensure_ascii=False, allow_nan=False))
        frames = [each.to_frame() for each in stored.found]
        write_csv(self.precision_table, pd.concat(frames, ignore_index=True))

    def read_precision(self) -> StoredPrecision:
        """What an audit to a precision found."""
        content = self._json("precision.json", dict)
        if content is None:
            raise self._unfinished("precision.json")
        try:
            found = tuple(PrecisionResult.from_json(json.dumps(each)) for each in content.pop("found"))
            if not found:
                raise InputError("it holds no audit")
            return StoredPrecision(**content | {"found": found, "notes": tuple(content["notes"])})
        except (KeyError, TypeError, AttributeError, InputError) as error:
            raise self._damaged("precision.json", error) from None

    def table(self) -> pd.DataFrame:
        """Every group of every partition, one row each, of what was asked last: what the gate reads."""
        if not self.is_to_precision:
            return audit_table(self.read_audits())
        found = self.read_precision().found
        frames = [each.to_frame().assign(estimator=each.reference, norm=each.norm.value) for each in found]
        return pd.concat(frames, ignore_index=True)

    def _unfinished(self, name: str) -> StoreError:
        return StoreError(f"{self.path} has no {name}: its audit did not finish. Run the same command again.")

    def _samples(self) -> pd.DataFrame:
        try:
            return pd.read_parquet(io.BytesIO(read_plain(self._file("samples.parquet"))))
        except StoreError:
            raise
        except FileNotFoundError:
            raise StoreError(f"{self.path} has no samples.parquet: its audit did not finish. Run it again.") from None
        except Exception as error:
            raise self._damaged("samples.parquet", error) from None

    def _json(self, name: str, kind: type) -> Any:
        try:
            content = json.loads(read_plain(self._file(name)))
        except FileNotFoundError:
            return None
        except StoreError:
            raise
        except (OSError, ValueError, RecursionError) as error:
            raise self._damaged(name, error) from None
        if not isinstance(content, kind):
            raise self._damaged(name, ValueError(f"a {kind.__name__} was expected"))
        return content

    def _damaged(self, name: str, error: Exception) -> StoreError:
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        return StoreError(f"{self._file(name)} is damaged ({reason}). Delete it and run the audit again.")

    def _file(self, name: str) -> Path:
        return self.path / name


def audit_table(audits: Sequence[StoredAudit]) -> pd.DataFrame:
    """Every group of every audit, one row each: what the gate reads."""
    frames = [a.result.to_frame().assign(estimator=a.estimator, norm=a.result.norm.value) for a in audits]
    return pd.concat(frames, ignore_index=True)


def _labels(column: npt.NDArray[Any]) -> "pd.Series[Any]":
    """Labels as a partition names and orders them; missing stays missing."""
    partition = Partition.by("column", column)
    kind = pd.CategoricalDtype([label for label in partition.labels if label != MISSING])
    names = np.array([None if label == MISSING else label for label in partition.labels], dtype=object)
    return pd.Series(names[partition.membership], dtype=kind)
