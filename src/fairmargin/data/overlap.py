"""Overlap of audited samples with training data."""

import math
from collections.abc import Iterator
from hashlib import blake2b

import numpy as np

from fairmargin.core.arrays import Bools
from fairmargin.data.dataset import Dataset
from fairmargin.data.samples import Samples
from fairmargin.errors import InputError

_NUMBERS_AT_ONCE = 2**22


def overlap(dataset: Dataset, training: Dataset) -> Bools:
    """Find the samples of `dataset` that also occur in `training`.

    Two samples are equal if their numbers are equal in single precision, whatever their type or shape; labels are
    ignored. Both datasets are read in blocks. Resized or recompressed copies are not found.

    >>> training = Dataset([[0.1, 0.2], [0.3, 0.4]], [0, 1])
    >>> overlap(Dataset([[0.5, 0.6], [0.3, 0.4]], [0, 1]), training).tolist()
    [False, True]
    """
    features, known = math.prod(dataset.x.shape[1:]), math.prod(training.x.shape[1:])
    if features != known:
        raise InputError(
            f"A sample of {dataset.name or 'the audited data'} has {features:,} numbers, but a sample of "
            f"{training.name or 'the training data'} has {known:,}, so none can occur in both. Load both with the same "
            "columns and size."
        )
    seen = set(_digests(training.x))
    return np.fromiter((digest in seen for digest in _digests(dataset.x)), dtype=np.bool_, count=len(dataset))


def overlap_warning(found: Bools, *, table: bool = False) -> str:
    """Return a warning about audited samples that occur in the training data; empty if there are none.

    Rows of a `table` can be equal by coincidence, so that the warning for tables is weaker.

    >>> overlap_warning(np.array([True, False, False]))[:64]
    '1 of 3 audited samples also occurs in the training data. A model'
    """
    count = int(found.sum())
    if not count:
        return ""
    occur = "occurs" if count == 1 else "occur"
    if table:
        return (
            f"{count:,} of {len(found):,} audited rows also {occur} in the training data, feature by feature. In a "
            "table these may be different people with equal entries; if not, audit rows that the model has not seen."
        )
    return (
        f"{count:,} of {len(found):,} audited samples also {occur} in the training data. A model is most certain about "
        "its training samples, so that their distances say little about new samples. Audit a split that it has not "
        "seen, or leave them out: `dataset.take(~overlap(dataset, training))`."
    )


def _digests(x: Samples) -> Iterator[bytes]:
    at_once = max(1, _NUMBERS_AT_ONCE // max(1, math.prod(x.shape[1:])))
    for start in range(0, x.shape[0], at_once):
        block = np.asarray(x[start : start + at_once], dtype="<f4")
        for row in np.ascontiguousarray(block) + np.float32(0):  # turn −0 into 0, which is an equal number
            yield blake2b(row.tobytes(), digest_size=16).digest()
