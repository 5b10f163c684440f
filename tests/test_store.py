import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.distances import Distances
from fairmargin.errors import InputError, StoreError
from fairmargin.store.atomic import atomic_write_text
from fairmargin.store.folder import Store
from fairmargin.store.shard import _checksum, decode, encode, shard_key

KEY = shard_key({"name": "a"})
EXAMPLE = Distances(
    values=[0.1, 0.0, np.inf, 1e-300],
    correct=[True, False, True, True],
    bound="upper",
    norm="linf",
    subject="smoothed(0.25)",
    tried=[np.nan, 0.0, 8.0, 1.0],
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "run", create=True)


def shard_file(store: Store) -> Path:
    return store.folder / "shards" / KEY[:2] / f"{KEY}.parquet"


def assert_same(left: Distances, right: Distances) -> None:
    assert left.values.tobytes() == right.values.tobytes()
    assert left.correct.tobytes() == right.correct.tobytes()
    assert (left.bound, left.norm, left.subject) == (right.bound, right.norm, right.subject)
    assert (left.tried is None) == (right.tried is None)
    assert left.tried is None or right.tried is None or left.tried.tobytes() == right.tried.tobytes()


# What is written is what is read


def test_a_shard_is_read_as_it_was_written(store: Store) -> None:
    about = {"estimator": "ddn", "steps": 100, "nested": {"tile": [64, None, True, 0.1]}}
    store.write(KEY, EXAMPLE, about)
    assert_same(store.read(KEY), EXAMPLE)
    assert store.about(KEY) == about


numbers = st.floats(0.0, 1e60) | st.just(-0.0) | st.just(math.inf)
searched = st.floats(min_value=0.0) | st.just(math.nan)


@given(st.lists(st.tuples(numbers, st.booleans(), searched), min_size=1, max_size=50), st.booleans(), st.text())
@settings(deadline=None, max_examples=60)
def test_any_distances_are_read_as_they_were_written(
    rows: list[tuple[float, bool, float]], with_tried: bool, subject: str
) -> None:
    try:
        subject.encode()
    except UnicodeEncodeError:
        subject = "model"
    values = [value if correct else 0.0 for value, correct, _ in rows]
    tried = [far for _, _, far in rows] if with_tried else None
    distances = Distances(values, [correct for _, correct, _ in rows], "lower", "l1", subject, tried)
    back, about = decode(KEY, encode(KEY, distances, {"subject": subject}))
    assert_same(back, distances)
    assert about == {"subject": subject}


def test_a_shard_keeps_its_estimator() -> None:
    distances = replace(EXAMPLE, estimator="plumb:norm=l2,steps=40")
    assert decode(KEY, encode(KEY, distances, {}))[0].estimator == "plumb:norm=l2,steps=40"


@pytest.mark.parametrize("keep", [(), ("no",), ("no", "pending"), (0, 2), (False,), (1.5, "a")])
def test_a_shard_keeps_the_classes_to_keep_under_its_checksum(keep: tuple[object, ...]) -> None:
    content = encode(KEY, replace(EXAMPLE, keep=keep), {})
    assert decode(KEY, content)[0].keep == keep
    meta = pq.read_schema(pa.BufferReader(content)).metadata
    assert (b"keep" in meta) == bool(keep)  # by default such shards are the bytes of older versions
    if keep:
        table = pq.read_table(pa.BufferReader(content))
        sink = pa.BufferOutputStream()
        pq.write_table(table.replace_schema_metadata(meta | {b"keep": b'["other"]'}), sink)
        with pytest.raises(ValueError, match="checksum"):
            decode(KEY, bytes(sink.getvalue()))


def test_labels_that_are_not_plain_values_cannot_be_stored() -> None:
    with pytest.raises(InputError, match="plain values"):
        encode(KEY, replace(EXAMPLE, keep=[np.datetime64("2020-01-01")]), {})


def test_a_shard_of_an_older_version_has_an_unknown_estimator() -> None:
    """Such a shard has no such entry, and its checksum does not include it."""
    table = pq.read_table(pa.BufferReader(encode(KEY, EXAMPLE, {})))
    meta = {name.decode(): text.decode() for name, text in table.schema.metadata.items()}
    del meta["estimator"], meta["checksum"]
    meta["checksum"] = _checksum(EXAMPLE, meta)
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata(meta), sink)
    back, _ = decode(KEY, bytes(sink.getvalue()))
    assert_same(back, EXAMPLE)
    assert back.estimator == ""


def test_a_shard_is_a_parquet_file_that_other_programs_can_read(store: Store) -> None:
    store.write(KEY, EXAMPLE, {})
    table = pq.read_table(shard_file(store))
    assert table.column_names == ["value", "correct", "tried"]
    assert table["value"].to_pylist() == EXAMPLE.values.tolist()
    assert table.schema.metadata[b"bound"] == b"upper"


def test_a_shard_written_twice_is_replaced(store: Store) -> None:
    store.write(KEY, EXAMPLE, {"try": 1})
    store.write(KEY, EXAMPLE.take([0]), {"try": 2})
    assert len(store.read(KEY)) == 1
    assert store.about(KEY) == {"try": 2}
    assert list(store.keys()) == [KEY]


def test_about_must_consist_of_plain_values(store: Store) -> None:
    with pytest.raises(InputError, match="plain values"):
        store.write(KEY, EXAMPLE, {"model": object()})
    assert not store.has(KEY)


# Keys

parts = st.dictionaries(st.text(), st.text() | st.integers() | st.floats() | st.booleans() | st.none(), max_size=6)


@given(parts, st.randoms())
def test_a_key_does_not_depend_on_the_order_of_its_parts(content: dict[str, object], chance: object) -> None:
    names = list(content)
    chance.shuffle(names)  # type: ignore[attr-defined]
    assert shard_key({name: content[name] for name in names}) == shard_key(content)  # type: ignore[misc,arg-type]


@given(parts, parts)
def test_a_key_changes_with_any_part(one: dict[str, object], other: dict[str, object]) -> None:
    same = {k: repr(v) for k, v in one.items()} == {k: repr(v) for k, v in other.items()}
    assert (shard_key(one) == shard_key(other)) == same  # type: ignore[arg-type]


def test_a_key_distinguishes_true_from_one_and_texts_from_numbers() -> None:
    assert len({shard_key({"a": part}) for part in (1, 1.0, True, "1", None, "None")}) == 6


def test_keys_equal_those_of_earlier_versions() -> None:
    parts = {"seed": 0, "steps": 40.0, "model": "ä", "exact": True, "none": None}
    assert shard_key(parts) == "fab8cb3757194acf369216209e196f195b54a9644507f9c718d435667f4159a2"


def test_a_key_refuses_parts_without_a_canonical_form() -> None:
    with pytest.raises(InputError, match=r"Part 'x' .* of type ndarray"):
        shard_key({"x": np.zeros(2)})  # type: ignore[dict-item]


def test_a_key_that_is_a_path_outside_of_the_folder_is_refused(store: Store) -> None:
    with pytest.raises(InputError, match="64 hexadecimal digits"):
        store.has("../../etc/passwd")


# Damage


def test_a_changed_byte_is_always_detected(store: Store) -> None:
    store.write(KEY, EXAMPLE, {"estimator": "ddn"})
    path, noticed = shard_file(store), 0
    whole = path.read_bytes()
    for position in range(0, len(whole), 5):
        damaged = bytearray(whole)
        damaged[position] ^= 0x04
        path.write_bytes(damaged)
        if store.verified(KEY):  # a byte that Parquet itself does not use, such as the name of the writer
            assert_same(store.read(KEY), EXAMPLE)
            assert store.about(KEY) == {"estimator": "ddn"}
        else:
            noticed += 1
    assert noticed > len(whole) / 5 / 3


def test_a_shard_whose_numbers_were_edited_fails_its_checksum(store: Store) -> None:
    store.write(KEY, EXAMPLE, {})
    table = pq.read_table(shard_file(store))
    edited = table.set_column(0, "value", [[0.2, *table["value"].to_pylist()[1:]]])
    pq.write_table(edited.replace_schema_metadata(table.schema.metadata), shard_file(store))
    with pytest.raises(StoreError, match="does not match its checksum"):
        store.read(KEY)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_shard_gives_an_error_with_its_path_and_advice(store: Store, share: float) -> None:
    store.write(KEY, EXAMPLE, {})
    content = shard_file(store).read_bytes()
    shard_file(store).write_bytes(content[: int(share * len(content))])
    with pytest.raises(StoreError, match=rf"{KEY}\.parquet is damaged .* Delete it, or run the audit again"):
        store.read(KEY)
    assert store.has(KEY)
    assert not store.verified(KEY)


def test_a_shard_under_another_key_is_refused(store: Store) -> None:
    other = shard_key({"name": "b"})
    store.write(other, EXAMPLE, {})
    shard_file(store).parent.mkdir(exist_ok=True)
    os.replace(store.folder / "shards" / other[:2] / f"{other}.parquet", shard_file(store))
    with pytest.raises(StoreError, match=f"it holds the shard {other}"):
        store.read(KEY)


def test_a_damaged_shard_can_be_set_aside_and_replaced(store: Store) -> None:
    store.write(KEY, EXAMPLE, {})
    shard_file(store).write_bytes(b"nonsense")
    aside = store.set_aside(KEY)
    assert aside.name.endswith(".corrupt")
    assert aside.read_bytes() == b"nonsense"
    assert not store.has(KEY)
    store.write(KEY, EXAMPLE, {})
    assert store.verified(KEY)


def test_a_missing_shard_gives_an_error(store: Store) -> None:
    assert not store.has(KEY)
    assert not store.verified(KEY)
    with pytest.raises(StoreError, match="has no shard"):
        store.read(KEY)


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


def killed_writer(folder: Path, shards: int) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)])
    try:
        deadline = time.monotonic() + 30
        while len(list(folder.glob("shards/*/*.parquet"))) < shards and time.monotonic() < deadline:
            time.sleep(0.003)
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()


def test_a_killed_writer_leaves_no_incomplete_shard_and_no_lock(tmp_path: Path) -> None:
    for shards in (2, 7, 13):
        killed_writer(tmp_path, shards)
        store = Store.open(tmp_path, create=False)
        assert len(list(store.keys())) >= shards
        assert all(store.verified(key) for key in store.keys())  # noqa: SIM118
        with store.lock():
            assert not list(tmp_path.glob("shards/*/.*"))


def test_an_incomplete_file_is_ignored_and_deleted_by_the_next_writer(store: Store) -> None:
    store.write(KEY, EXAMPLE, {})
    stale = shard_file(store).with_name(f".{KEY}.parquet.123-abcd.tmp")
    stale.write_bytes(b"half")
    assert list(store.keys()) == [KEY]
    assert stale.exists()
    with store.lock():
        assert not stale.exists()
    assert store.verified(KEY)


def test_a_second_writer_gets_an_error_that_names_the_first(store: Store) -> None:
    refusal = rf"pid {os.getpid()}, host .* wait for it, or choose another --out"
    with store.lock(), pytest.raises(StoreError, match=refusal), Store.open(store.folder, create=True).lock():
        pytest.fail("two writers at once")
    with store.lock():
        pass  # the lock was given back


def test_a_reader_needs_no_lock(store: Store) -> None:
    with store.lock():
        store.write(KEY, EXAMPLE, {})
        assert Store.open(store.folder, create=False).verified(KEY)


# Opening


def test_a_reopened_store_has_all_shards(store: Store) -> None:
    store.write(KEY, EXAMPLE, {})
    again = Store.open(store.folder, create=True)
    assert_same(again.read(KEY), EXAMPLE)
    assert json.loads((store.folder / "store.json").read_text()) == {"format": 1}


def test_a_run_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text('{"format": 7}')
    with pytest.raises(StoreError, match=r"has format 7; .* reads format 1\. Continue it with the version"):
        Store.open(tmp_path, create=True)


@pytest.mark.parametrize("text", ["", "[]", "{}", "nonsense"])
def test_a_store_label_that_says_nothing_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "store.json").write_text(text)
    with pytest.raises(StoreError, match="was not written by Fairmargin or is damaged"):
        Store.open(tmp_path, create=True)


def test_a_folder_without_a_run_is_refused_unless_one_may_be_created(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no store\.json"):
        Store.open(tmp_path, create=False)
    with pytest.raises(StoreError, match=r"There is no folder at .*nowhere"):
        Store.open(tmp_path / "nowhere", create=False)
    assert not (tmp_path / "nowhere").exists()


def test_a_file_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a letter")
    with pytest.raises(StoreError, match="is a file, but a run is stored in a folder"):
        Store.open(tmp_path / "run", create=True)
    with pytest.raises(StoreError, match=r"a part of this path is a file"):
        Store.open(tmp_path / "run" / "deeper", create=True)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc as a folder that nobody can write to")
def test_a_folder_that_cannot_be_written_gives_an_error() -> None:
    with pytest.raises(StoreError, match=r"Cannot write /proc/fairmargin: .+\."):
        Store.open(Path("/proc/fairmargin"), create=True)


# Atomic text


def test_text_is_written_completely_without_temporary_files(tmp_path: Path) -> None:
    atomic_write_text(tmp_path / "report.html", "σ(P)")
    atomic_write_text(tmp_path / "report.html", "second")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text() == "second"


def test_a_failed_write_keeps_the_older_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    atomic_write_text(tmp_path / "report.html", "first")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="no space is left on the device"):
        atomic_write_text(tmp_path / "report.html", "second")
    assert (tmp_path / "report.html").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_link_is_replaced_and_its_target_does_not_change(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    for name, target in (("link", "target"), ("dangling", "nowhere"), ("folder", ".")):
        (tmp_path / name).symlink_to(tmp_path / target)
        atomic_write_text(tmp_path / name, "text")
        assert not (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_text() == "text"
    assert (tmp_path / "target").read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()


def test_a_hard_link_keeps_its_content(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    os.link(tmp_path / "target", tmp_path / "link")
    atomic_write_text(tmp_path / "link", "text")
    assert (tmp_path / "target").read_text() == "precious"


def test_a_link_with_the_temporary_name_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "target").write_text("precious")
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    (tmp_path / f".report.html.{os.getpid()}-guessed.tmp").symlink_to(tmp_path / "target")
    with pytest.raises(StoreError, match="a file of that name exists"):
        atomic_write_text(tmp_path / "report.html", "text")
    assert (tmp_path / "target").read_text() == "precious"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("", "it is a folder"), ("nowhere/report.html", "its folder does not exist"), ("x" * 300, "name is too long")],
)
def test_text_that_cannot_be_written_gives_an_error(tmp_path: Path, name: str, sentence: str) -> None:
    with pytest.raises(StoreError, match=sentence):
        atomic_write_text(tmp_path / name, "text")
