"""Small data sets for the tests of this folder."""

import numpy as np

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.units import Cells, make_cells


def exact(values: object) -> Distances:
    """Return exact distances; samples with distance 0 are misclassified."""
    return Distances(values, np.asarray(values) > 0, "exact", "l2")  # type: ignore[arg-type]


def groups_of(*sizes: int) -> Partition:
    """Return a partition whose groups g0, g1, … have these sizes, in the order of the samples."""
    return Partition("g", [f"g{i}" for i in range(len(sizes))], np.repeat(np.arange(len(sizes)), sizes))


def cells_of(values: object, groups: Partition, control: Partition | None = None, cluster: Ints | None = None) -> Cells:
    """Return the cells of an audit, in which no cluster spans two cells."""
    numbers: Floats = np.asarray(values, dtype=float)
    cells = make_cells(numbers, groups, control, cluster)
    assert cells is not None
    return cells
