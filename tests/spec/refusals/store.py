"""What `fairmargin.store` refuses."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from fairmargin.core.distances import Distances
from fairmargin.errors import StoreError
from fairmargin.store.atomic import atomic_write_text
from fairmargin.store.folder import Store
from fairmargin.store.shard import encode, shard_key
from tests.spec.refusals import Refusal

KEY, OTHER = shard_key({"name": "a"}), shard_key({"name": "b"})
EXAMPLE = Distances([0.1, 0.0], [True, False], "upper", "linf")


def opened(folder: Path, label: str) -> Store:
    """Open a store whose label `store.json` has this text."""
    (folder / "store.json").write_text(label)
    return Store.open(folder, create=True)


def other_files(folder: Path) -> Store:
    (folder / "letter.txt").write_text("text")
    return Store.open(folder, create=True)


def not_a_folder(folder: Path) -> Store:
    (folder / "run").write_text("a letter")
    return Store.open(folder / "run", create=True)


def below_a_file(folder: Path) -> Store:
    (folder / "run").write_text("a letter")
    return Store.open(folder / "run" / "deeper", create=True)


def linked_shards(folder: Path) -> Store:
    Store.open(folder, create=True)
    (folder / "shards").symlink_to(folder)
    return Store.open(folder, create=True)


def edited_numbers(folder: Path) -> Distances:
    """Read a shard of which one number was edited."""
    store = Store.open(folder, create=True)
    store.write(KEY, EXAMPLE, {})
    file = folder / "shards" / KEY[:2] / f"{KEY}.parquet"
    table = pq.read_table(file)
    edited = table.set_column(0, "value", [[0.2, 0.0]])
    pq.write_table(edited.replace_schema_metadata(table.schema.metadata), file)
    return store.read(KEY)


def renamed_shard(folder: Path) -> Distances:
    """Read a shard under the key of another one."""
    store = Store.open(folder, create=True)
    for key in (KEY, OTHER):
        store.write(key, EXAMPLE, {})
    os.replace(*(folder / "shards" / key[:2] / f"{key}.parquet" for key in (OTHER, KEY)))
    return store.read(KEY)


def used_lock(folder: Path) -> None:
    store = Store.open(folder, create=True)
    (folder / ".lock").write_text("precious")
    with store.lock():
        pass


def label(text: str, message: str) -> Refusal:
    return Refusal(lambda folder: opened(folder, text), message, error=StoreError)


def text_at(name: str, message: str) -> Refusal:
    return Refusal(lambda folder: atomic_write_text(folder / name, "text"), message, error=StoreError)


REFUSALS = [
    Refusal(lambda _: shard_key({"x": np.zeros(2)}), "Part 'x' of a shard key; of type ndarray"),  # type: ignore[dict-item]
    Refusal(lambda _: encode(KEY, replace(EXAMPLE, keep=[np.datetime64("2020-01-01")]), {}), "plain values"),
    Refusal(lambda _: encode(KEY, EXAMPLE, {"model": object()}), "plain values"),
    Refusal(lambda f: Store.open(f, create=True).has("../../etc/passwd"), "64 hexadecimal digits"),
    Refusal(lambda f: Store.open(f, create=True).read(KEY), f"has no shard {KEY}", error=StoreError),
    Refusal(edited_numbers, "is damaged (its content does not match its checksum)", error=StoreError),
    Refusal(renamed_shard, f"is damaged (it holds the shard {OTHER})", error=StoreError),
    Refusal(used_lock, ".lock is not an empty file", error=StoreError),
    # Opening
    label('{"format": 7}', "has format 7; reads format 1. Continue it with the version"),
    *(label(text, "was not written by Fairmargin or is damaged") for text in ("", "[]", "{}", "nonsense")),
    Refusal(lambda f: Store.open(f, create=False), "a folder without a run (it has no store.json)", error=StoreError),
    Refusal(lambda f: Store.open(f / "nowhere", create=False), "There is no folder at", error=StoreError),
    Refusal(other_files, "holds other files (letter.txt) and no run", error=StoreError),
    Refusal(not_a_folder, "is a file, but a run is stored in a folder", error=StoreError),
    Refusal(below_a_file, "a part of this path is a file", error=StoreError),
    Refusal(linked_shards, "is a symbolic link", error=StoreError),
    *(
        [Refusal(lambda _: Store.open(Path("/proc/fairmargin"), create=True), "Cannot write", error=StoreError)]
        if Path("/proc/self").exists()  # /proc is a folder in which nobody can create a file
        else []
    ),
    # Writing
    text_at("", "it is a folder"),
    text_at("nowhere/report.html", "its folder does not exist"),
    text_at("x" * 300, "name is too long"),
]
