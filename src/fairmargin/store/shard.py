"""A shard: some distances as the bytes of one Parquet file that vouches for its own content."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fairmargin.core.distances import Distances
from fairmargin.core.keys import canonical_json, content_hash
from fairmargin.errors import InputError

Part = str | int | float | bool | None


def shard_key(parts: Mapping[str, Part]) -> str:
    """Return the name of a shard: a hash of everything that its distances depend on, whatever the order of the parts.

    >>> shard_key({"seed": 0, "steps": 100}) == shard_key({"steps": 100, "seed": 0})
    True
    >>> shard_key({"seed": 0}) == shard_key({"seed": 0.0})
    False
    """
    for name, part in parts.items():
        if not isinstance(name, str) or not isinstance(part, Part):
            raise InputError(
                f"Part {name!r} of a shard key must be text, a number, True, False or None under a name; "
                f"given {part!r} of type {type(part).__name__}."
            )
    return content_hash(parts, compact=True)


def encode(key: str, distances: Distances, about: Mapping[str, Any]) -> bytes:
    """Write the shard's file as bytes."""
    meta = {
        "key": key,
        "bound": distances.bound.value,
        "norm": distances.norm.value,
        "subject": distances.subject,
        "estimator": distances.estimator,
        "about": canonical_json(about, compact=True).decode(),
    }
    if distances.keep:  # absent by default: such shards are the same bytes as before there was `keep`
        meta["keep"] = canonical_json(distances.keep, compact=True).decode()
    meta["checksum"] = _checksum(distances, meta)
    tried = pa.nulls(len(distances), pa.float64()) if distances.tried is None else pa.array(distances.tried)
    table = pa.table({"value": distances.values, "correct": distances.correct, "tried": tried})
    sink = pa.BufferOutputStream()
    # No dictionary: measured distances hardly ever repeat.
    pq.write_table(table.replace_schema_metadata(meta), sink, compression="zstd", use_dictionary=False)
    return bytes(sink.getvalue())


def decode(key: str, content: bytes) -> tuple[Distances, dict[str, Any]]:
    """Read the distances and what is known about them; any exception if the bytes are not what was written."""
    table = pq.read_table(pa.BufferReader(content), use_threads=False)
    meta = {name.decode(): text.decode() for name, text in (table.schema.metadata or {}).items()}
    checksum = meta.pop("checksum")
    tried = table["tried"]
    distances = Distances(
        values=table["value"].to_numpy(),
        correct=table["correct"].to_numpy(),
        bound=meta["bound"],
        norm=meta["norm"],
        subject=meta["subject"],
        tried=None if tried.null_count else tried.to_numpy(),
        estimator=meta.get("estimator", ""),  # older shards do not hold it
        keep=json.loads(meta.get("keep", "[]")),
    )
    if meta["key"] != key:
        raise ValueError(f"it holds the shard {meta['key']}")
    if checksum != _checksum(distances, meta):
        raise ValueError("its content does not match its checksum")
    return distances, json.loads(meta["about"])


def _checksum(distances: Distances, meta: Mapping[str, str]) -> str:
    """Hash the bits of every column and of the metadata, each preceded by its length."""
    columns = [distances.values.astype("<f8").tobytes(), distances.correct.astype(np.uint8).tobytes()]
    columns.append(b"" if distances.tried is None else distances.tried.astype("<f8").tobytes())
    parts = (*columns, canonical_json(meta, compact=True))
    return sha256(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).hexdigest()
