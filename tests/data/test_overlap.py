"""Samples that also occur in the training data, also among images that do not fit into memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fairmargin.data.dataset import Dataset
from fairmargin.data.overlap import overlap, overlap_warning
from fairmargin.data.samples import Pixels

BYTES = np.random.RandomState(0).randint(0, 256, (40, 3, 8, 8)).astype(np.uint8)
Y = np.arange(40) % 4


def test_samples_are_found_at_any_position_and_with_any_label() -> None:
    audited = Dataset(BYTES[20:], Y[20:])
    training = Dataset(BYTES[[39, 3, 25, 25, 7]], [9, 9, 9, 9, 9])
    assert np.flatnonzero(overlap(audited, training)).tolist() == [5, 19]
    assert not overlap(audited, Dataset(BYTES[:20], Y[:20])).any()


@pytest.mark.parametrize(
    "stored",
    [
        Pixels(BYTES),
        BYTES.astype(np.float32) / np.float32(255),
        BYTES / 255,
        BYTES.astype(">f8") / 255,
        (BYTES / 255).reshape(40, -1),
        np.asfortranarray(BYTES / 255),
    ],
    ids=["pixels", "single", "double", "big-endian", "flat", "fortran"],
)
def test_equal_numbers_are_equal_samples_however_they_are_stored(stored: np.ndarray) -> None:
    assert overlap(Dataset(Pixels(BYTES), Y), Dataset(stored, Y)).all()
    assert overlap(Dataset(stored, Y), Dataset(Pixels(BYTES[:5]), Y[:5])).tolist() == [True] * 5 + [False] * 35


def test_every_byte_is_the_same_number_in_single_and_double_precision() -> None:
    shades, labels = np.arange(256, dtype=np.uint8).reshape(256, 1, 1, 1), np.zeros(256, dtype=int)
    assert overlap(Dataset(Pixels(shades), labels), Dataset(shades / 255, labels)).all()


def test_one_changed_pixel_makes_another_sample_and_minus_zero_does_not() -> None:
    other = BYTES.astype(np.float32) / 255
    other[:, 0, 0, 0] += 1e-6
    assert not overlap(Dataset(other, Y), Dataset(Pixels(BYTES), Y)).any()
    assert overlap(Dataset([[-0.0, 1.0]], [0]), Dataset([[0.0, 1.0]], [0])).all()


def test_the_warning_counts_samples_and_is_empty_if_there_are_none() -> None:
    found = np.zeros(1_000, dtype=bool)
    assert overlap_warning(found) == ""
    found[:37] = True
    assert overlap_warning(found).startswith("37 of 1,000 audited samples also occur in the training data. ")


PROGRAM = """
import resource, sys
import numpy as np
from fairmargin.data.dataset import Dataset
from fairmargin.data.overlap import overlap
from fairmargin.data.samples import Pixels

stored = np.load(sys.argv[1], mmap_mode="r")
before = int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmData"))) * 1024
# This limits the memory of the process itself, not the system's cache of a file.
resource.setrlimit(resource.RLIMIT_DATA, (before + 120 * 2**20,) * 2)
if sys.argv[2] == "hold":
    np.array(stored)
images = Dataset(Pixels(stored), np.zeros(len(stored), dtype=int))
print(overlap(images.take([1, len(images) - 1]), images).tolist())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and RLIMIT_DATA as Linux has it")
def test_large_images_are_read_in_blocks(tmp_path: Path) -> None:
    # 240 MB of bytes, 960 MB as numbers; the file is sparse and takes no room on disk.
    np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.uint8, shape=(2_000, 3, 200, 200))

    def run(how: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / "x.npy"), how], capture_output=True, text=True, check=False
        )

    done = run("stream")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[True, True]"
    assert "MemoryError" in run("hold").stderr  # the limit has an effect
