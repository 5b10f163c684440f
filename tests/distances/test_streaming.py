"""Measurements of images that do not fit into memory."""

import subprocess
import sys

import pytest

# The peak of the memory of the process itself: the system can drop mapped files at any time.
PROGRAM = """
import resource, sys
import numpy as np
import torch
import fairmargin as fm
from fairmargin.data.samples import Pixels

count, folder, estimator = int(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.manual_seed(0)
torch.set_num_threads(1)
module = torch.nn.Sequential(torch.nn.AvgPool2d(50), torch.nn.Flatten(), torch.nn.Linear(48, 2))
stored = np.memmap(folder + "/x", dtype=np.uint8, mode="w+", shape=(count, 3, 200, 200))  # a sparse file, all zero
stored[::7, 0, 0, 0] = 200
dataset = fm.Dataset(Pixels(stored), np.arange(count) % 2, name="many", fingerprint="given", domain=fm.Domain(0, 1))
few = dataset.take(np.arange(64))
fm.measure(fm.as_classifier(module), few.x, few.y, fm.ESTIMATORS[estimator](), progress=False)  # warm up
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = fm.measure(fm.as_classifier(module), dataset.x, dataset.y, fm.ESTIMATORS[estimator](), progress=False)
fm.audit(found, dataset.partition("class"), fm.AuditSettings(resamples=200))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def grown_by(folder, count, estimator="softmax_margin"):
    """Return by how many MiB the peak of memory grew from 64 images to all of them."""
    command = [sys.executable, "-c", PROGRAM, str(count), str(folder), estimator]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_three_thousand_images_of_200_by_200_are_not_held_at_once(tmp_path):
    # As numbers of single precision they are 1,373 MiB; a shard of 256 is 117, and some of those are at work.
    assert grown_by(tmp_path, 3_000) < 700


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "count"), [("softmax_margin", 100_000), ("first_order", 20_000)])
def test_a_hundred_thousand_images_take_no_more_than_a_few(tmp_path, estimator, count):
    # 100,000 are 45,776 MiB as numbers of single precision
    assert grown_by(tmp_path, count, estimator) < 800
