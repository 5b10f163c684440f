"""A run on disk.

RUN/record.json         the study and a list of the results
RUN/results/KEY.json    the results
RUN/samples.parquet     columns that group, control or cluster the samples, and ids of imported samples; of a study of
                        several data, one file for each
RUN/shards/             distances, written as they are measured
RUN/KIND.csv            the results of each kind as a table
RUN/results.csv         audits and attacks of a study of several models, in one table
RUN/columns.toml        how the rows of a table may change, for `--columns`
RUN/trainings/          networks of a study of several models; of a single training, the run folder itself
RUN/failures.txt        what could not be trained or measured, and why
RUN/report.html         the page
RUN/checksums.json      checksums of record, samples, results and tables
"""

import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from fairmargin.analyses.catalog import RESULTS
from fairmargin.core.distances import Distances, concatenate
from fairmargin.core.partition import MISSING, Partition
from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError, StoreError, visible
from fairmargin.store.atomic import atomic_write_bytes, atomic_write_text, cannot_write
from fairmargin.store.checksums import check_seal, seal, stamped, unstamped
from fairmargin.store.folder import LABEL, MemoryStore, Store
from fairmargin.store.plain_files import read_plain, refuse_links
from fairmargin.store.table import write_csv
from fairmargin.study.record import RunRecord, StoredResult
from fairmargin.study.study import differing
from fairmargin.study.tables import networks_table, rows_of

if TYPE_CHECKING:
    import pandas as pd

RECORD, SAMPLES, REPORT, FAILURES = "record.json", "samples.parquet", "report.html", "failures.txt"
RULES = "columns.toml"
"""Rules of the columns of a table, by which another table is measured in the same units."""
RESULTS_TABLE = "results.csv"
"""Table of all audits and attacks of a study of several models."""
OLD_MANIFEST = "manifest.json"
"""File of a run folder of version 0.1 with the shards of each measurement."""
_OLD = ("study.json", "attack_study.json", "training_run.json")
_OLD_STUDY = "study.toml"  # in a folder of an older version beside store.json; users may call their own file so too
_IDS = " id"  # the leading space keeps it apart from columns of a table, whose names are stripped


class Run(Protocol):
    """Storage of the shards and results of a run: a folder, or memory."""

    @property
    def store(self) -> Store | MemoryStore:
        """The store that holds the shards."""
        ...

    def kept(self, stored: StoredResult) -> Any:
        """Return a result that was computed before; None if there is none."""
        ...

    def keep(self, stored: StoredResult, result: Any) -> None:
        """Store a result under its key."""
        ...

    def remembered(self, name: str) -> dict[str, Any]:
        """Return the note that was stored under a name; empty if there is none."""
        ...

    def remember(self, name: str, content: Mapping[str, Any]) -> None:
        """Store a note under a name; it only saves time and may be lost."""
        ...


class RunMemory:
    """A run without a folder."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self._results: dict[str, Any] = {}
        self._notes: dict[str, dict[str, Any]] = {}

    def kept(self, stored: StoredResult) -> Any:
        """Return a result that was computed before; None if there is none."""
        return self._results.get(stored.key)

    def keep(self, stored: StoredResult, result: Any) -> None:
        """Store a result under its key."""
        self._results[stored.key] = result

    def remembered(self, name: str) -> dict[str, Any]:
        """Return the note that was stored under a name; empty if there is none."""
        return self._notes.get(name, {})

    def remember(self, name: str, content: Mapping[str, Any]) -> None:
        """Store a note under a name; it only saves time and may be lost."""
        self._notes[name] = dict(content)


@dataclass(frozen=True, slots=True, eq=False)
class SampleColumns:
    """The columns of the samples that a run folder stores, so that runs can be compared without the data.

    Parameters
    ----------
    columns
        Columns by which samples are grouped.
    plain
        Names of columns that have too many values to be groups, and are stored as they are: clusters and weights.
    ids
        An id per sample, where distances were imported with ids.
    """

    columns: Mapping[str, Any]
    plain: tuple[str, ...] = ()
    ids: npt.NDArray[np.str_] | None = None

    def frame(self) -> "pd.DataFrame":
        """Return the columns as the folder stores them."""
        import pandas as pd

        found = pd.DataFrame(
            {
                name: np.asarray(column) if name in self.plain else _labels(column)
                for name, column in self.columns.items()
            }
        )
        return found if self.ids is None else found.assign(**{_IDS: self.ids.astype(object)})


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of a run. All errors of reading are StoreErrors that say what to do."""

    path: Path
    _computed: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """Results that were computed by this process, by key, so that its record need not read them back."""

    @classmethod
    def existing(cls, path: Path | str) -> "RunFolder":
        """Return a run that must be there, finished or not."""
        folder = cls(Path(path))
        Store.open(folder.path, create=False)
        folder._refuse_old()
        if not os.path.lexists(folder.path / RECORD):
            raise StoreError(f"{path} holds no run yet: its command did not finish. Run it again with --out {path}.")
        return folder

    @property
    def report(self) -> Path:
        """Path of the report."""
        return self.path / REPORT

    @property
    def store(self) -> Store:
        """The store that holds the shards."""
        return Store.open(self.path, create=True)

    def open_for(self, record: RunRecord) -> RunRecord | None:
        """Make the folder unless it is there, and return its record; refuse another run, or other files.

        The record of a finished run stays until the new one is written: a run that is interrupted destroys nothing.
        Otherwise the record says that the run did not finish.
        """
        self._refuse_old()
        old = self.record() if self.store else None
        if old is not None:
            self._refuse_other(old, record)
        if old is None or old.status != "finished":
            self._write_record(record)
        return old

    @contextmanager
    def claimed(self, record: RunRecord) -> Iterator[RunRecord | None]:
        """Lock the folder for the only writer, and yield the record of an earlier run; see `open_for`."""
        self._refuse_old()
        with self.store.lock():
            yield self.open_for(record)

    def _refuse_old(self) -> None:
        of_store = (_OLD_STUDY,) if (self.path / LABEL).exists() else ()
        for name in (*_OLD, *of_store):
            if (self.path / name).exists() and not (self.path / RECORD).exists():
                readable = (self.path / OLD_MANIFEST).is_file()
                hint = f" Its distances can still be read: fairmargin audit --distances {self.path} --group COLUMN."
                raise StoreError(
                    f"{self.path} was written by an older version of Fairmargin ({name}) and cannot be continued. "
                    f"Choose another --out.{hint if readable else ''}"
                )

    def _refuse_other(self, old: RunRecord, new: RunRecord) -> None:
        names = differing(old.study, new.study)
        if names:
            raise StoreError(f"{self.path} holds another run: it differs in {', '.join(names)}. Choose another --out.")

    def kept(self, stored: StoredResult) -> Any:
        """Return a result that was computed before; None if it is not there, or is damaged."""
        try:
            return self._read_result(stored)
        except (OSError, ValueError):
            return None

    def keep(self, stored: StoredResult, result: Any) -> None:
        """Store a result under its key."""
        folder = self.path / "results"
        refuse_links([folder])
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise cannot_write(folder, error) from error
        atomic_write_text(folder / f"{stored.key}.json", stamped(result.to_json()))
        self._computed[stored.key] = result

    def remembered(self, name: str) -> dict[str, Any]:
        """Return the note that was stored under a name; empty if there is none or it is damaged."""
        try:
            content = json.loads(read_plain(self.path / f"{name}.json"))
        except (FileNotFoundError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def remember(self, name: str, content: Mapping[str, Any]) -> None:
        """Store a note under a name; it only saves time and may be lost."""
        atomic_write_text(self.path / f"{name}.json", json.dumps(dict(content), indent=1, sort_keys=True) + "\n")

    def finish(self, record: RunRecord, samples: Mapping[str, SampleColumns], old: RunRecord | None) -> RunRecord:
        """Write the record of a run, and return it with the results of other kinds that an earlier run left here.

        An audit replaces the results of an earlier audit, and attacks those of earlier attacks. Results for another
        model or other samples of the same names are removed.

        Parameters
        ----------
        record
            The record, with all its results.
        samples
            The samples by the name of their data, which is empty in a study of one model.
        old
            The record of an earlier run in this folder; None if there is none.
        """
        import pandas as pd

        frames = {name: each.frame() for name, each in samples.items()}
        if old is not None and record.study.grid is None and old.provenance.source == record.provenance.source:
            record, frames[""] = self._with_others(record, frames[""], old)
        record = record.reading(lambda stored: self._computed.get(stored.key) or self._result(stored))
        for name, frame in frames.items():
            self.write_samples(frame, name)
        self._write_record(record)
        for kind in RESULTS:
            if any(each.kind == kind for each in record.results):
                write_csv(self.path / f"{kind}.csv", pd.DataFrame(rows_of(record, kind)))
            else:
                (self.path / f"{kind}.csv").unlink(missing_ok=True)
        if record.study.grid is not None:
            write_csv(self.path / RESULTS_TABLE, networks_table(record))
        self._remove_other_results(record)
        seal(self.path, (*self._sealed(record), *_tables(record)))
        return record

    def write_traces(self, failures: Sequence[str]) -> None:
        """Write failures with the tracebacks of unexpected errors; remove the file if nothing failed."""
        path = self.path / FAILURES
        if failures:
            text = "\n\n".join(failures)
            atomic_write_text(path, "\n".join(map(visible, text.split("\n"))) + "\n")
        else:
            path.unlink(missing_ok=True)

    def _with_others(
        self, record: RunRecord, frame: "pd.DataFrame", old: RunRecord
    ) -> "tuple[RunRecord, pd.DataFrame]":
        """Return record and samples with the parts of an earlier run that this run does not compute."""
        import pandas as pd

        asked = record.study
        others = {
            part: options for part in PARTS if getattr(asked, part) is None and (options := getattr(old.study, part))
        }
        kept = tuple(each for each in old.results if part_of(each.kind) in others)
        if not kept:
            return record, frame
        try:
            before = self._samples("").to_pandas()
            for each in kept:
                self._read_result(each)
        except (OSError, ValueError):  # damaged: the command that asked for them computes them again
            return record, frame
        if len(before) != len(frame) and not frame.empty:
            return record, frame
        epochs = {"epochs": old.study.epochs} if "audit" in others or "attack" in others else {}
        study = asked.model_copy(update={**epochs, **others})
        added = before[[name for name in before.columns if name not in frame.columns]]
        record = record.model_copy(update={"study": study, "results": (*record.results, *kept)})
        return record, before if frame.empty else pd.concat([frame, added], axis=1)

    def _remove_other_results(self, record: RunRecord) -> None:
        """Remove results that the record does not contain."""
        known = {f"{each.key}.json" for each in record.results}
        for path in (self.path / "results").glob("*.json"):
            if path.name not in known:
                path.unlink(missing_ok=True)

    def _write_record(self, record: RunRecord) -> None:
        content = {"version": record.version, "status": record.status}
        content |= record.model_dump(mode="json", exclude_defaults=True)
        text = json.dumps(content, indent=1, ensure_ascii=False)
        atomic_write_text(self.path / RECORD, text + "\n")

    def read(self) -> RunRecord:
        """Return the record, whose results are read when they are needed."""
        record = self.record()
        if record is None:
            raise StoreError(f"{self.path} has no {RECORD}: its command did not finish. Run the same command again.")
        return record

    def check_seal(self, record: RunRecord) -> None:
        """Refuse a run whose files are not what was written."""
        check_seal(self.path, self._sealed(record), later=_tables(record))

    def _sealed(self, record: RunRecord) -> tuple[str, ...]:
        samples = sorted({samples_file(name) for name in (record.study.grid.data if record.study.grid else ("",))})
        return (RECORD, *samples, *sorted({f"results/{each.key}.json" for each in record.results}))

    def record(self) -> RunRecord | None:
        """Return the record, finished or not; None if there is none."""
        try:
            content = json.loads(read_plain(self.path / RECORD))
            return RunRecord.model_validate(content).reading(self._result)
        except FileNotFoundError:
            return None
        except StoreError:
            raise
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(map(str, problem["loc"]))
            raise self._damaged(RECORD, ValueError(f"{where}: {problem['msg']}")) from None
        except (OSError, ValueError, RecursionError) as error:
            raise self._damaged(RECORD, error) from None

    def _result(self, stored: StoredResult) -> Any:
        try:
            return self._read_result(stored)
        except FileNotFoundError:
            raise StoreError(
                f"{self.path} lacks results/{stored.key}.json. Run the same command again, which keeps what was "
                "measured."
            ) from None
        except StoreError:
            raise
        except (OSError, ValueError) as error:
            raise self._damaged(f"results/{stored.key}.json", error) from None

    def _read_result(self, stored: StoredResult) -> Any:
        if stored.kind not in RESULTS:
            raise InputError(f"Unknown kind of result {stored.kind!r}. {suggest(stored.kind, RESULTS)}")
        folder = self.path / "results"
        refuse_links([folder])
        kind: Any = RESULTS[stored.kind]
        return kind.from_json(unstamped(read_plain(folder / f"{stored.key}.json").decode()))

    def write_samples(self, frame: "pd.DataFrame", data: str = "") -> None:
        """Store the columns of the samples of some data, see `SampleColumns.frame`."""
        content = io.BytesIO()
        frame.to_parquet(content)
        atomic_write_bytes(self.path / samples_file(data), content.getvalue())

    def partition(self, name: str, merge_below: int = 0, data: str = "") -> Partition:
        """Return groups by a column, or by an intersection written "a & b"; small ones are merged."""
        samples = self._samples(data)
        parts = [name] if name in samples.column_names else [part.strip() for part in name.split(" & ")]
        first, *others = (_groups(part, self._column(samples, part)) for part in parts)
        for other in others:
            first = first & other
        return first.merge(smaller_than=merge_below) if merge_below else first

    def ids(self) -> npt.NDArray[np.str_] | None:
        """Return the ids of the samples; None if the run has none."""
        samples = self._samples("")
        return np.array(samples[_IDS].to_pylist(), dtype=np.str_) if _IDS in samples.column_names else None

    def column(self, name: str, data: str = "") -> npt.NDArray[Any]:
        """Return one column of the samples."""
        return np.asarray(self._column(self._samples(data), name).to_numpy())

    def columns(self) -> dict[str, Any]:
        """Return all columns by which samples are grouped."""
        frame = self._samples("").to_pandas()
        return {str(name): frame[name] for name in frame.columns if name != _IDS}

    def distances(self, keys: Iterable[str]) -> Distances:
        """Return the distances in these shards."""
        store = Store.open(self.path, create=False)
        return concatenate([store.read(key) for key in keys])

    def _column(self, samples: pa.Table, name: str) -> pa.ChunkedArray:
        if name not in samples.column_names:
            known = [each for each in samples.column_names if each != _IDS]
            raise InputError(f"The run in {self.path} has no column {name!r}. {suggest(name, known)}")
        return samples[name]

    def _samples(self, data: str) -> pa.Table:
        name = samples_file(data)
        try:
            return pq.ParquetFile(pa.BufferReader(read_plain(self.path / name))).read(use_threads=False)
        except StoreError:
            raise
        except FileNotFoundError:
            raise StoreError(f"{self.path} has no {name}: its command did not finish. Run it again.") from None
        except Exception as error:
            raise self._damaged(name, error) from None

    def _damaged(self, name: str, error: Exception) -> StoreError:
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        return StoreError(
            f"{self.path / name} is damaged ({reason}). Run the same command again, which keeps what was measured."
        )


def samples_file(data: str) -> str:
    """Return the name of the file with the columns of some data; names of data may be any text.

    >>> samples_file(""), samples_file("../digits")
    ('samples.parquet', 'samples-c9e8680d9168.parquet')
    """
    return f"samples-{sha256(data.encode()).hexdigest()[:12]}.parquet" if data else SAMPLES


def _tables(record: RunRecord) -> tuple[str, ...]:
    """Return the names of all tables that a run may have; it has those of the kinds of its results."""
    kinds = tuple(f"{kind}.csv" for kind in RESULTS)
    return kinds if record.study.grid is None else (*kinds, RESULTS_TABLE)


PARTS = ("train", "audit", "attack")
"""Parts of a study that compute results."""


def part_of(kind: str) -> str:
    """Return the part of a study that computes results of a kind.

    >>> part_of("robust_accuracy"), part_of("bracket"), part_of("training")
    ('attack', 'audit', 'train')
    """
    return {"robust_accuracy": "attack", "training": "train"}.get(kind, "audit")


def _labels(column: Any) -> "pd.Series[Any]":
    """Return labels with the names and the order of a partition; missing values stay missing."""
    import pandas as pd

    partition = Partition.by("column", column)
    kind = pd.CategoricalDtype([label for label in partition.labels if label != MISSING])
    names = np.array([None if label == MISSING else label for label in partition.labels], dtype=object)
    return pd.Series(names[partition.membership], dtype=kind)


def _groups(name: str, column: pa.ChunkedArray) -> Partition:
    """Return the groups of a stored column, whose labels have been put in order by `_labels`."""
    if not pa.types.is_dictionary(column.type):
        return Partition.by(name, column.to_pylist())
    stored = column.combine_chunks()
    labels = stored.dictionary.to_pylist()
    codes = np.array([len(labels) if code is None else code for code in stored.indices.to_pylist()])
    present, membership = np.unique(codes, return_inverse=True)
    return Partition(name, [[*labels, MISSING][code] for code in present], membership)
