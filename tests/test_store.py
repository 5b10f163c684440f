import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.distances import Distances
from fairmargin.errors import StoreError
from fairmargin.store.atomic import atomic_write_text
from fairmargin.store.folder import Store
from fairmargin.store.shard import _checksum, decode, encode, shard_key

KEY, OTHER = shard_key({"name": "a"}), shard_key({"name": "b"})
EXAMPLE = Distances(
    values=[0.1, 0.0, np.inf, 1e-300],
    correct=[True, False, True, True],
    bound="upper",
    norm="linf",
    subject="smoothed(0.25)",
    tried=[np.nan, 0.0, 8.0, 1.0],
    estimator="plumb:norm=l2,steps=40",
)


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path / "run", create=True)


@pytest.fixture
def written(store):
    store.write(KEY, EXAMPLE, {"estimator": "ddn"})
    return store


def shard_file(store, key=KEY):
    return store.folder / "shards" / key[:2] / f"{key}.parquet"


def assert_same(left, right):
    for name in ("values", "correct", "tried"):
        one, other = getattr(left, name), getattr(right, name)
        assert (one is None) == (other is None)
        assert one is None or one.tobytes() == other.tobytes()
    for name in ("bound", "norm", "subject", "estimator", "keep"):
        assert getattr(left, name) == getattr(right, name)


def rewritten(content, change):
    """Return a shard whose metadata were changed by a program that knows nothing of checksums."""
    table, sink = pq.read_table(pa.BufferReader(content)), pa.BufferOutputStream()
    meta = {name.decode(): text.decode() for name, text in table.schema.metadata.items()}
    pq.write_table(table.replace_schema_metadata(change(meta)), sink)
    return bytes(sink.getvalue())


# Reading what was written


numbers = st.floats(0.0, 1e60) | st.just(-0.0) | st.just(math.inf)
searched = st.floats(min_value=0.0) | st.just(math.nan)
encodable = st.text(st.characters(codec="utf-8"))


@given(st.lists(st.tuples(numbers, st.booleans(), searched), min_size=1, max_size=50), st.booleans(), encodable)
@settings(deadline=None, max_examples=60)
def test_any_distances_are_read_as_they_were_written(rows, with_tried, text):
    values = [value if correct else 0.0 for value, correct, _ in rows]
    tried = [far for _, _, far in rows] if with_tried else None
    distances = Distances(values, [correct for _, correct, _ in rows], "lower", "l1", text, tried, text)
    about = {"subject": text, "nested": {"tile": [64, None, True, 0.1]}}
    back, read_about = decode(KEY, encode(KEY, distances, about))
    assert_same(back, distances)
    assert read_about == about


@pytest.mark.parametrize("keep", [(), ("no",), ("no", "pending"), (0, 2), (False,), (1.5, "a")])
def test_a_shard_keeps_the_classes_to_keep_under_its_checksum(keep):
    content = encode(KEY, replace(EXAMPLE, keep=keep), {})
    assert decode(KEY, content)[0].keep == keep
    assert (b"keep" in pq.read_schema(pa.BufferReader(content)).metadata) == bool(keep)  # as older versions write
    if keep:
        with pytest.raises(ValueError, match="checksum"):
            decode(KEY, rewritten(content, lambda meta: meta | {"keep": '["other"]'}))


def test_a_shard_of_an_older_version_has_an_unknown_estimator():
    def older(meta):
        """Omit the estimator, which the checksums of older versions do not include."""
        del meta["estimator"], meta["checksum"]
        return meta | {"checksum": _checksum(EXAMPLE, meta)}

    assert_same(decode(KEY, rewritten(encode(KEY, EXAMPLE, {}), older))[0], replace(EXAMPLE, estimator=""))


def test_a_shard_is_a_parquet_file_that_other_programs_can_read(written):
    table = pq.read_table(shard_file(written))
    assert table.column_names == ["value", "correct", "tried"]
    assert table["value"].to_pylist() == EXAMPLE.values.tolist()
    assert table.schema.metadata[b"bound"] == b"upper"


def test_a_shard_written_twice_is_replaced_and_found_by_a_reopened_store(written):
    written.write(KEY, EXAMPLE.take([0]), {"try": 2})
    again = Store.open(written.folder, create=True)
    assert len(again.read(KEY)) == 1
    assert list(again.keys()) == [KEY]
    assert json.loads((written.folder / "store.json").read_text()) == {"format": 1}


# Keys

parts = st.dictionaries(st.text(), st.text() | st.integers() | st.floats() | st.booleans() | st.none(), max_size=6)


@given(parts, parts, st.randoms())
def test_a_key_changes_with_any_part_but_not_with_their_order(one, other, chance):
    same = {k: repr(v) for k, v in one.items()} == {k: repr(v) for k, v in other.items()}
    assert (shard_key(one) == shard_key(other)) == same
    names = list(one)
    chance.shuffle(names)
    assert shard_key({name: one[name] for name in names}) == shard_key(one)


def test_a_key_distinguishes_true_from_one_and_texts_from_numbers():
    assert len({shard_key({"a": part}) for part in (1, 1.0, True, "1", None, "None")}) == 6


def test_keys_equal_those_of_earlier_versions():
    parts = {"seed": 0, "steps": 40.0, "model": "ä", "exact": True, "none": None}
    assert shard_key(parts) == "fab8cb3757194acf369216209e196f195b54a9644507f9c718d435667f4159a2"


# Damage


def test_a_changed_byte_is_always_detected(written):
    path, noticed = shard_file(written), 0
    whole = path.read_bytes()
    for position in range(0, len(whole), 5):
        damaged = bytearray(whole)
        damaged[position] ^= 0x04
        path.write_bytes(damaged)
        try:
            assert_same(written.read(KEY), EXAMPLE)  # a byte that Parquet does not use, such as the writer's name
        except StoreError:
            noticed += 1
    assert noticed > len(whole) / 5 / 3


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_shard_gives_an_error_with_its_path_and_advice(written, share):
    content = shard_file(written).read_bytes()
    shard_file(written).write_bytes(content[: int(share * len(content))])
    with pytest.raises(StoreError, match=rf"{KEY}\.parquet is damaged .* Delete it, or run the audit again"):
        written.read(KEY)
    assert written.has(KEY)


def test_a_damaged_shard_can_be_set_aside_and_replaced(written):
    shard_file(written).write_bytes(b"nonsense")
    aside = written.set_aside(KEY)
    assert aside.name.endswith(".corrupt")
    assert aside.read_bytes() == b"nonsense"
    assert not written.has(KEY)
    written.write(KEY, EXAMPLE, {})
    assert_same(written.read(KEY), EXAMPLE)


# Kills and other writers

WRITER = """
import sys
from pathlib import Path
import numpy as np
from fairmargin.core.distances import Distances
from fairmargin.store.folder import Store
from fairmargin.store.shard import shard_key
store = Store.open(Path(sys.argv[1]), create=True)
values = np.random.default_rng(0).random(200_000)
distances = Distances(values, values > 0, "exact", "l2")
with store.lock():
    for i in range(1_000_000):
        store.write(shard_key({"i": i}), distances, {"i": i})
"""


def killed_writer(folder, shards):
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)])
    try:
        deadline = time.monotonic() + 30
        while len(list(folder.glob("shards/*/*.parquet"))) < shards and time.monotonic() < deadline:
            time.sleep(0.003)
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()


def test_a_killed_writer_leaves_no_incomplete_shard_and_no_lock(tmp_path):
    for shards in (2, 7, 13):
        killed_writer(tmp_path, shards)
        store = Store.open(tmp_path, create=False)
        keys = list(store.keys())
        assert len(keys) >= shards
        for key in keys:
            store.read(key)
        with store.lock():
            assert not list(tmp_path.glob("shards/*/.*"))


def test_an_incomplete_file_is_ignored_and_deleted_by_the_next_writer(written):
    stale = shard_file(written).with_name(f".{KEY}.parquet.123-abcd.tmp")
    stale.write_bytes(b"half")
    assert list(written.keys()) == [KEY]
    with written.lock():
        assert not stale.exists()
    assert_same(written.read(KEY), EXAMPLE)


def test_a_second_writer_gets_an_error_that_names_the_first_and_a_reader_needs_no_lock(written):
    refusal = rf"pid {os.getpid()}, host .* wait for it, or choose another --out"
    with written.lock(), pytest.raises(StoreError, match=refusal), Store.open(written.folder, create=True).lock():
        pytest.fail("two writers at once")
    with written.lock():  # the lock was given back
        assert_same(Store.open(written.folder, create=False).read(KEY), EXAMPLE)


# Atomic text


def test_text_is_written_completely_without_temporary_files(tmp_path):
    atomic_write_text(tmp_path / "report.html", "σ(P)")
    atomic_write_text(tmp_path / "report.html", "second")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text() == "second"


def test_a_failed_write_keeps_the_older_file(tmp_path, monkeypatch):
    atomic_write_text(tmp_path / "report.html", "first")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="no space is left on the device"):
        atomic_write_text(tmp_path / "report.html", "second")
    assert (tmp_path / "report.html").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_link_is_replaced_and_its_target_does_not_change(tmp_path):
    (tmp_path / "target").write_text("precious")
    for name, target in (("link", "target"), ("dangling", "nowhere"), ("folder", ".")):
        (tmp_path / name).symlink_to(tmp_path / target)
    os.link(tmp_path / "target", tmp_path / "hard")
    for name in ("link", "dangling", "folder", "hard"):
        atomic_write_text(tmp_path / name, "text")
        assert not (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_text() == "text"
    assert (tmp_path / "target").read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()


def test_a_link_with_the_temporary_name_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "target").write_text("precious")
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    (tmp_path / f".report.html.{os.getpid()}-guessed.tmp").symlink_to(tmp_path / "target")
    with pytest.raises(StoreError, match="a file of that name exists"):
        atomic_write_text(tmp_path / "report.html", "text")
    assert (tmp_path / "target").read_text() == "precious"
