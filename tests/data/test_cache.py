"""The cache of decoded datasets: complete or built again, whatever fails."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Lock

import numpy as np
import pytest

from fairmargin.data.fetch.cache import FOLDER_VARIABLE, CacheWriter, cache_folder, cached
from fairmargin.errors import InputError

KEY = {"source": "abc", "size": None, "revision": 1}


class Builder:
    """Builds two arrays and counts its calls."""

    def __init__(self, value: int = 7) -> None:
        self.value, self.calls, self._lock = value, 0, Lock()

    def __call__(self, writer: CacheWriter) -> None:
        with self._lock:
            self.calls += 1
        pixels = writer.allocate("pixels", (4, 3), np.uint8)
        pixels[:] = self.value
        writer.keep("names", ["cat", "Ærø"])


@pytest.fixture
def folder(cache):
    return cache


def built_folder(folder: Path) -> Path:
    (only,) = (path for path in (folder / "numbers").iterdir() if path.is_dir())
    return only


def test_arrays_are_built_once_and_memory_mapped(folder):
    build = Builder()
    for _ in range(3):
        arrays = cached("numbers", KEY, build)
        assert isinstance(arrays["pixels"], np.memmap)
        assert not arrays["pixels"].flags.writeable
        assert arrays["pixels"].tolist() == [[7] * 3] * 4
        assert arrays["names"].tolist() == ["cat", "Ærø"]
    assert build.calls == 1


def test_every_part_of_the_key_matters_and_its_order_does_not():
    build = Builder()
    cached("numbers", KEY, build)
    cached("numbers", dict(reversed(KEY.items())), build)
    assert build.calls == 1
    cached("numbers", {**KEY, "revision": 2}, build)
    cached("letters", KEY, build)
    assert build.calls == 3


def test_of_several_processes_one_builds(folder, tmp_path):
    program = f"""
import os, sys, numpy as np
from pathlib import Path
from fairmargin.data.fetch.cache import cached
def build(writer):
    (Path({str(tmp_path)!r}) / f"built-by-{{os.getpid()}}").touch()
    writer.allocate("pixels", (50, 1000), np.uint8)[:] = 5
sys.stdin.readline()
print(cached("numbers", {{"a": 1}}, build)["pixels"].sum())
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate(timeout=60)[0].strip() for process in processes] == ["250000"] * 3
    assert len(list(tmp_path.glob("built-by-*"))) == 1


def test_the_next_build_removes_what_a_killed_build_left(folder):
    program = """
import sys, time, numpy as np
from fairmargin.data.fetch.cache import cached
def build(writer):
    writer.allocate("pixels", (4, 3), np.uint8)[:] = 1
    print("half", flush=True)
    time.sleep(600)
cached("numbers", {"source": "abc", "size": None, "revision": 1}, build)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "half\n"
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)
    process.stdout.close()
    remains = [path for path in (folder / "numbers").iterdir() if path.is_dir()]
    assert len(remains) == 1
    assert cached("numbers", KEY, Builder())["pixels"].tolist() == [[7] * 3] * 4
    assert not remains[0].exists()


def test_a_failed_build_leaves_nothing_and_raises_its_error(folder):
    def fail(writer: CacheWriter) -> None:
        writer.allocate("pixels", (4, 3), np.uint8)[:] = 1
        raise InputError("The third image is damaged.")

    with pytest.raises(InputError, match="The third image is damaged"):
        cached("numbers", KEY, fail)
    assert [path for path in (folder / "numbers").iterdir() if path.is_dir()] == []
    assert cached("numbers", KEY, Builder())["pixels"].sum() == 84


@pytest.mark.parametrize("damage", ["cut", "header", "deleted", "contents lost", "contents cut", "contents odd"])
def test_damaged_arrays_are_built_again(folder, damage):
    cached("numbers", KEY, Builder(1))
    place = built_folder(folder)
    pixels, contents = place / "pixels.npy", place / "contents.json"
    if damage == "cut":
        pixels.write_bytes(pixels.read_bytes()[:-1])
    elif damage == "header":
        pixels.write_bytes(b"x" * pixels.stat().st_size)
    elif damage == "deleted":
        pixels.unlink()
    elif damage == "contents lost":
        contents.unlink()
    elif damage == "contents cut":
        contents.write_bytes(contents.read_bytes()[:-3])
    else:
        contents.write_text("[1, 2]")
    build = Builder(2)
    assert cached("numbers", KEY, build)["pixels"].tolist() == [[2] * 3] * 4
    assert build.calls == 1
    assert sorted(json.loads(contents.read_text())) == ["names.npy", "pixels.npy"]


def test_arrays_in_use_stay_valid_while_others_build_them_again(folder):
    arrays = cached("numbers", KEY, Builder(1))
    (built_folder(folder) / "contents.json").unlink()
    cached("numbers", KEY, Builder(2))
    assert arrays["pixels"].tolist() == [[1] * 3] * 4


def test_without_a_writable_folder_the_arrays_are_built_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "file" / "cache"))
    build = Builder()
    assert cached("numbers", KEY, build)["pixels"].sum() == 84
    assert cached("numbers", KEY, build)["names"].tolist() == ["cat", "Ærø"]
    assert build.calls == 2


def test_arrays_built_elsewhere_are_removed_when_the_process_ends(tmp_path):
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "tmp").mkdir()
    program = (
        "from fairmargin.data.fetch.cache import cached; "
        "print(cached('numbers', {}, lambda writer: writer.keep('x', [1, 2]))['x'].filename)"
    )
    environment = {**os.environ, FOLDER_VARIABLE: str(tmp_path / "file"), "TMPDIR": str(tmp_path / "tmp")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(tmp_path / "tmp"))
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_full_disk_is_reported_and_leaves_nothing(folder, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InputError, match=rf"cannot be kept in .*numbers \(No space left.*{FOLDER_VARIABLE}"):
        cached("numbers", KEY, Builder())
    assert [path for path in (folder / "numbers").iterdir() if path.is_dir()] == []


def test_disk_space_is_reserved_when_an_array_is_allocated(tmp_path):
    CacheWriter(tmp_path).allocate("pixels", (1024, 1024), np.uint8)
    assert (tmp_path / "pixels.npy").stat().st_blocks * 512 >= 2**20


def test_the_environment_can_name_the_folder(folder, monkeypatch):
    assert cache_folder() == folder
    monkeypatch.delenv(FOLDER_VARIABLE)
    assert cache_folder().name == "fairmargin"
