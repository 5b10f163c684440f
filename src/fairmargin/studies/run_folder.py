"""A run on disk: what was asked, what was measured, what was found.

RUN/study.json       the study
RUN/acceleration.json  the faster copy of a network that a trial chose, once
RUN/manifest.json    command, versions, fingerprints, and which shards make up each measurement
RUN/samples.parquet  the columns that group, control or cluster
RUN/shards/          distances, written as they are measured
RUN/audits.json      the results
RUN/table.csv        the same as a table
RUN/adequacy.json    whether the attacks were strong enough, where that was asked
RUN/brackets.json    what lower and upper bounds enclose together, where both were measured
RUN/precision.json   what an audit to a precision found; precision.csv is the same as a table
RUN/report.html
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmargin.core.distances import Distances
from fairmargin.core.partition import MISSING, Partition
from fairmargin.core.suggestion import suggest
from fairmargin.distances.measure import concatenate
from fairmargin.errors import FairmarginError, InputError, StoreError
from fairmargin.metrics.adequacy import Adequacy
from fairmargin.metrics.bracketed import Bracket
from fairmargin.metrics.precision import PrecisionResult
from fairmargin.metrics.results import AuditResult, encode
from fairmargin.store.atomic import atomic_write_text, cannot_write
from fairmargin.store.folder import Store
from fairmargin.studies.study import Study, make_study


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
class RunFolder:
    """The files of a run; every reading error is a sentence that says what to do."""

    path: Path

    @classmethod
    def existing(cls, path: Path | str) -> "RunFolder":
        """A run that must be there."""
        folder = cls(Path(path))
        Store.open(folder.path, create=False)
        if not folder._file("study.json").is_file():
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

    def read_study(self) -> Study | None:
        """What was asked, or None in a new folder."""
        content = self._json("study.json", dict)
        try:
            return None if content is None else make_study(content)
        except InputError as error:
            raise self._damaged("study.json", error) from None

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
            raise StoreError(f"{self.path} has no manifest.json: its audit did not finish. Run the same command again.")
        try:
            measurements = tuple(Measurement(m["estimator"], tuple(m["keys"])) for m in content.pop("measurements"))
            return Manifest(**content | {"notes": tuple(content["notes"]), "measurements": measurements})
        except (KeyError, TypeError, AttributeError) as error:
            raise self._damaged("manifest.json", error) from None

    def write_choice(self, choice: Mapping[str, Any]) -> None:
        """Keep which faster copy of the model was chosen, and why."""
        atomic_write_text(
            self._file("acceleration.json"), json.dumps(dict(choice), indent=2, ensure_ascii=False) + "\n"
        )

    def read_choice(self) -> Mapping[str, Any] | None:
        """Which faster copy of the model was chosen, or None if none was yet."""
        content: Mapping[str, Any] | None = self._json("acceleration.json", dict)
        return content

    def write_samples(self, columns: Mapping[str, npt.NDArray[Any]], *, ids: str = "") -> None:
        """Keep the columns by which samples are grouped, so that a run can be compared without its data.

        The column named `ids` tells clusters apart; it has too many values to be groups.
        """
        frame = pd.DataFrame(
            {name: np.asarray(column) if name == ids else _labels(column) for name, column in columns.items()}
        )
        target = self._file("samples.parquet")
        try:
            half = target.with_suffix(".parquet.tmp")
            frame.to_parquet(half)
            half.replace(target)
        except OSError as error:
            raise cannot_write(target, error) from None

    def partition(self, name: str) -> Partition:
        """Groups by a column, or by an intersection written "a & b", small ones merged as the study says."""
        frame = self._samples()
        parts = [name] if name in frame.columns else [part.strip() for part in name.split(" & ")]
        first, *others = (Partition.by(part, self._column(frame, part)) for part in parts)
        for other in others:
            first = first & other
        study = self.read_study()
        return first.merge(smaller_than=study.merge_below) if study is not None and study.merge_below else first

    def column(self, name: str) -> npt.NDArray[Any]:
        """One column of the samples."""
        return np.asarray(self._column(self._samples(), name))

    def _column(self, frame: pd.DataFrame, name: str) -> "pd.Series[Any]":
        if name not in frame.columns:
            raise InputError(f"The run in {self.path} has no column {name!r}. {suggest(name, frame.columns)}")
        return frame[name]

    def distances(self, measurement: Measurement) -> Distances:
        """The distances of a measurement."""
        store = Store.open(self.path, create=False)
        return concatenate([store.read(key) for key in measurement.keys])

    def write_audits(self, audits: Sequence[StoredAudit]) -> None:
        """Keep the results, and the same as a table."""
        content = [{"estimator": a.estimator, "result": json.loads(a.result.to_json())} for a in audits]
        atomic_write_text(self._file("audits.json"), json.dumps(content, ensure_ascii=False, allow_nan=False))
        atomic_write_text(self._file("table.csv"), audit_table(audits).to_csv(index=False))

    def read_audits(self) -> tuple[StoredAudit, ...]:
        """The results."""
        content = self._json("audits.json", list)
        if content is None:
            raise StoreError(f"{self.path} has no audits.json: its audit did not finish. Run the same command again.")
        try:
            if not content:
                raise InputError("it holds no audit")
            return tuple(
                StoredAudit(item["estimator"], AuditResult.from_json(json.dumps(item["result"]))) for item in content
            )
        except (KeyError, TypeError, FairmarginError) as error:
            raise self._damaged("audits.json", error) from None

    def write_adequacies(self, adequacies: Sequence[StoredAdequacy]) -> None:
        """Keep whether the attacks were strong enough; no file where that was not looked at."""
        if not adequacies:
            self._file("adequacy.json").unlink(missing_ok=True)
            return
        content = [{"estimator": a.estimator, "result": json.loads(a.result.to_json())} for a in adequacies]
        atomic_write_text(self._file("adequacy.json"), json.dumps(content, ensure_ascii=False, allow_nan=False))

    def read_adequacies(self) -> tuple[StoredAdequacy, ...]:
        """Whether the attacks were strong enough; none where that was not looked at."""
        content = self._json("adequacy.json", list)
        try:
            return tuple(
                StoredAdequacy(item["estimator"], Adequacy.from_json(json.dumps(item["result"])))
                for item in content or ()
            )
        except (KeyError, TypeError, FairmarginError) as error:
            raise self._damaged("adequacy.json", error) from None

    def write_brackets(self, brackets: Sequence[StoredBracket]) -> None:
        """Keep what is enclosed; no file where nothing is."""
        if not brackets:
            self._file("brackets.json").unlink(missing_ok=True)
            return
        content = [{"between": b.between, "result": json.loads(b.result.to_json())} for b in brackets]
        atomic_write_text(self._file("brackets.json"), json.dumps(content, ensure_ascii=False, allow_nan=False))

    def read_brackets(self) -> tuple[StoredBracket, ...]:
        """What is enclosed; none where only one side was measured."""
        content = self._json("brackets.json", list)
        try:
            return tuple(
                StoredBracket(item["between"], Bracket.from_json(json.dumps(item["result"]))) for item in content or ()
            )
        except (KeyError, TypeError, FairmarginError) as error:
            raise self._damaged("brackets.json", error) from None

    @property
    def precision_table(self) -> Path:
        """Where the table of an audit to a precision lies."""
        return self._file("precision.csv")

    def write_precision(self, found: Sequence[PrecisionResult], about: Mapping[str, Any]) -> None:
        """Keep what an audit to a precision found, how it came about, and the numbers as a table."""
        content = {**about, "found": [encode(each) for each in found]}
        atomic_write_text(self._file("precision.json"), json.dumps(content, ensure_ascii=False, allow_nan=False))
        frames = [each.to_frame() for each in found]
        atomic_write_text(self.precision_table, pd.concat(frames, ignore_index=True).to_csv(index=False))

    def _samples(self) -> pd.DataFrame:
        path = self._file("samples.parquet")
        try:
            return pd.read_parquet(path)
        except FileNotFoundError:
            raise StoreError(f"{self.path} has no samples.parquet: its audit did not finish. Run it again.") from None
        except Exception as error:
            raise self._damaged("samples.parquet", error) from None

    def _json(self, name: str, kind: type) -> Any:
        try:
            content = json.loads(self._file(name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
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
