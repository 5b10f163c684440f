"""Samples that a model has seen; and large images that pass by without being held."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fairmargin.data.dataset import Dataset
from fairmargin.data.overlap import overlap, overlap_warning
from fairmargin.data.samples import Pixels
from fairmargin.errors import InputError

BYTES = np.random.RandomState(0).randint(0, 256, (40, 3, 8, 8)).astype(np.uint8)
Y = np.arange(40) % 4


def test_samples_are_found_wherever_they_stand_and_whatever_their_label() -> None:
    audited = Dataset(BYTES[20:], Y[20:])
    training = Dataset(BYTES[[39, 3, 25, 25, 7]], [9, 9, 9, 9, 9])
    assert np.flatnonzero(overlap(audited, training)).tolist() == [5, 19]
    assert not overlap(audited, Dataset(BYTES[:20], Y[:20])).any()


@pytest.mark.parametrize(
    "kept",
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
def test_what_counts_is_what_the_model_sees_not_how_it_is_kept(kept: np.ndarray) -> None:
    assert overlap(Dataset(Pixels(BYTES), Y), Dataset(kept, Y)).all()
    assert overlap(Dataset(kept, Y), Dataset(Pixels(BYTES[:5]), Y[:5])).tolist() == [True] * 5 + [False] * 35


def test_every_shade_of_a_byte_is_the_same_number_in_single_and_double() -> None:
    shades = np.arange(256, dtype=np.uint8).reshape(256, 1, 1, 1)
    labels = np.zeros(256, dtype=int)
    assert overlap(Dataset(Pixels(shades), labels), Dataset(shades / 255, labels)).all()


def test_one_pixel_makes_another_sample_and_minus_zero_does_not() -> None:
    other = BYTES.astype(np.float32) / 255
    other[:, 0, 0, 0] += 1e-6
    assert not overlap(Dataset(other, Y), Dataset(Pixels(BYTES), Y)).any()
    assert overlap(Dataset([[-0.0, 1.0]], [0]), Dataset([[0.0, 1.0]], [0])).all()


def test_large_data_are_read_in_blocks() -> None:
    class Blocks:
        shape, dtype, largest = (9_000, 1_000), np.dtype(np.float32), 0

        def __getitem__(self, which: slice) -> np.ndarray:
            places = np.arange(9_000)[which]
            Blocks.largest = max(Blocks.largest, len(places))
            return np.broadcast_to(places[:, None], (len(places), 1_000)).astype(np.float32)

    whole = Dataset(Blocks(), np.zeros(9_000, dtype=int), fingerprint="known")
    found = overlap(whole, Dataset(np.full((1, 1_000), 8_999.0), [0]))
    assert np.flatnonzero(found).tolist() == [8_999]
    assert Blocks.largest < 5_000


def test_data_of_another_kind_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"faces has 192 numbers, but a sample of the training data has 3, .* Load both"
    ):
        overlap(Dataset(BYTES, Y, name="faces"), Dataset(np.zeros((2, 3)), [0, 1]))


def test_the_warning_counts_and_is_silent_where_there_is_nothing_to_say() -> None:
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
# The memory that is our own, and not the kernel's copy of a file, which it gives back when asked.
resource.setrlimit(resource.RLIMIT_DATA, (before + 120 * 2**20,) * 2)
if sys.argv[2] == "hold":
    np.array(stored)
images = Dataset(Pixels(stored), np.zeros(len(stored), dtype=int))
print(overlap(images.take([1, len(images) - 1]), images).tolist())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and RLIMIT_DATA as Linux has it")
def test_large_images_pass_by_without_being_held(tmp_path: Path) -> None:
    # 240 MB of bytes, 960 MB as numbers; the file is sparse and takes no room on disk.
    np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.uint8, shape=(2_000, 3, 200, 200))

    def run(how: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / "x.npy"), how], capture_output=True, text=True, check=False
        )

    done = run("stream")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[True, True]"
    assert "MemoryError" in run("hold").stderr  # the limit does bite
