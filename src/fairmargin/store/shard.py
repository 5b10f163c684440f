"""Shards: distances of some samples as one Parquet file with a checksum of its content."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from fairmargin.core.distances import Distances
from fairmargin.core.keys import canonical_json, content_hash
from fairmargin.errors import InputError

Part = str | int | float | bool | None


def shard_key(parts: Mapping[str, Part]) -> str:
    """Return the key of a shard, a hash of all values that its distances depend on. Their order has no effect.

    >>> shard_key({"seed": 0, "steps": 100}) == shard_key({"steps": 100, "seed": 0})
    True
    >>> shard_key({"seed": 0}) == shard_key({"seed": 0.0})
    False
    """
    for name, part in parts.items():
        if not isinstance(name, str) or not isinstance(part, Part):
            raise InputError(
                f"Part {name!r} of a shard key must be a text, a number, True, False or None with a text as name; "
                f"given {part!r} of type {type(part).__name__}."
            )
    return content_hash(parts, compact=True)


def encode(key: str, distances: Distances, about: Mapping[str, Any]) -> bytes:
    """Return distances as the bytes of a Parquet file, with `about` and a checksum in its metadata."""
    meta = {
        "key": key,
        "bound": distances.bound.value,
        "norm": distances.norm.value,
        "subject": distances.subject,
        "estimator": distances.estimator,
        "about": canonical_json(about, compact=True).decode(),
    }
    if distances.keep:  # omitted if empty, so that the bytes equal those of versions without `keep`
        meta["keep"] = canonical_json(distances.keep, compact=True).decode()
    meta["checksum"] = _checksum(distances, meta)
    tried = pa.nulls(len(distances), pa.float64()) if distances.tried is None else pa.array(distances.tried)
    table = pa.table({"value": distances.values, "correct": distances.correct, "tried": tried})
    sink = pa.BufferOutputStream()
    # Dictionary encoding is off, because measured distances are rarely equal.
    pq.write_table(table.replace_schema_metadata(meta), sink, compression="zstd", use_dictionary=False)
    return bytes(sink.getvalue())


def decode(key: str, content: bytes) -> tuple[Distances, dict[str, Any]]:
    """Return the distances and `about` from the bytes of a shard; raise an exception if the bytes are damaged."""
    table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)  # `read_table` would load pandas
    meta = {name.decode(): text.decode() for name, text in (table.schema.metadata or {}).items()}
    checksum = meta.pop("checksum")
    tried = table["tried"]
    distances = Distances(
        values=_numbers(table["value"]),
        correct=_booleans(table["correct"]),
        bound=meta["bound"],
        norm=meta["norm"],
        subject=meta["subject"],
        tried=None if tried.null_count else _numbers(tried),
        estimator=meta.get("estimator", ""),  # missing in shards of older versions
        keep=json.loads(meta.get("keep", "[]")),
    )
    if meta["key"] != key:
        raise ValueError(f"it holds the shard {meta['key']}")
    if checksum != _checksum(distances, meta):
        raise ValueError("its content does not match its checksum")
    return distances, json.loads(meta["about"])


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return a column without gaps. `to_numpy` would load pandas, which takes longer than reading many shards."""
    return np.from_dlpack(column.combine_chunks())


def _booleans(column: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return a column of bits without gaps. `cast` would load pyarrow.compute."""
    array = column.combine_chunks()
    if array.null_count:
        raise ValueError("the column `correct` has gaps")
    bits = np.unpackbits(np.frombuffer(array.buffers()[1], np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(np.bool_)


def _checksum(distances: Distances, meta: Mapping[str, str]) -> str:
    """Return a hash of the bytes of all columns and of the metadata, each preceded by its length."""
    columns = [distances.values.astype("<f8").tobytes(), distances.correct.astype(np.uint8).tobytes()]
    columns.append(b"" if distances.tried is None else distances.tried.astype("<f8").tobytes())
    parts = (*columns, canonical_json(meta, compact=True))
    return sha256(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).hexdigest()
