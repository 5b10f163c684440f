"""σ of every group in closed form: by Hall's transformation alone, without bootstrap and permutations.

It takes a fraction of the time of `compare_groups`, and its limits hardly differ from 50 samples per side on
(docs/inference.md). Measures beside the headline, and a check of its verdicts, are computed with it.
"""

import numpy as np

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.partition import Partition
from fairmargin.inference import crossing
from fairmargin.inference.design import Design
from fairmargin.inference.groups import studentised_logs
from fairmargin.inference.hall import Studentised
from fairmargin.inference.units import common_mix, make_cells, rest_of, two_sides


def log_ratios(
    values: Floats, partition: Partition, control: Partition | None, design: Design, rows: Ints
) -> Studentised:
    """Studentise ln(1 + σ) of every group among the samples of `rows`.

    The entries are those of `partition`, and NaN for groups that have no sample among these rows.
    """
    membership = partition.membership[rows]
    there = np.bincount(membership, minlength=len(partition.labels)) > 0
    present = np.flatnonzero(there)
    part = Partition(partition.name, [partition.labels[i] for i in present], (np.cumsum(there) - 1)[membership])
    control = None if control is None else control.take(rows)
    cluster = None if design.cluster is None else np.unique(design.cluster[rows], return_inverse=True)[1]
    weights = None if design.weights is None else design.weights[rows]
    found = _log_ratios(values[rows], part, control, Design(cluster, weights))
    columns = np.full((5, len(partition.labels)), np.nan)
    columns[:, present] = (found.value, found.error, found.bias, found.skewness, found.freedom)
    return Studentised(*columns)


def _log_ratios(values: Floats, partition: Partition, control: Partition | None, design: Design) -> Studentised:
    cells = make_cells(values, partition, control, design.cluster, design.weights)
    if cells is not None:
        moments = cells.moments()
        mix = common_mix(moments).mix
        return studentised_logs(cells, mix, two_sides(moments, rest_of(moments), mix))[2]
    assert design.cluster is not None  # single samples never span groups
    sums = crossing.cluster_sums(values, partition, control, design.cluster, design.weights).in_order()
    mix = common_mix(sums.moments()).mix
    own, rest = (side[0] for side in sums.means(np.ones((1, len(sums.samples))), mix))
    return crossing.studentised_log_ratio(own, rest, sums.influence(mix))
