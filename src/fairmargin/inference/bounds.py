"""Bounds of σ that hold whatever the depth of a search and the distance have to do with each other.

A sample whose search failed has a distance between its depth and the horizon T, or beyond. The smallest σ of a group
belongs to the smallest distances of the group and the largest ones of its rest; the largest σ to the opposite.
"""

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.core.partition import Partition
from fairmargin.inference.bootstrap import Limits
from fairmargin.inference.crossing import ClusterSums, cluster_sums, freedom_of, spread_of
from fairmargin.inference.design import Design
from fairmargin.inference.distributions import student_quantile
from fairmargin.inference.units import combined_freedom, common_mix, kurtosis_freedom, make_cells, rest_of, two_sides


def sigma_bounds(
    low: Floats, high: Floats, partition: Partition, control: Partition | None, design: Design, alpha: float
) -> Limits:
    """Return limits of σ of every group that include the error of sampling at level 1 − `alpha`.

    They are Student's limits of the logarithm of the ratio of both means.

    Parameters
    ----------
    low, high
        Smallest and largest possible distance of each sample.
    """
    least = _log_ratio_limits(low, high, partition, control, design, alpha).low
    largest = _log_ratio_limits(high, low, partition, control, design, alpha).high
    return Limits(least, largest).transformed(np.expm1)


def _log_ratio_limits(
    own: Floats, rest: Floats, partition: Partition, control: Partition | None, design: Design, alpha: float
) -> Limits:
    """Return limits of ln(mean of the group / mean of its rest), whose means are those of different values."""
    left, right = (make_cells(values, partition, control, design.cluster, design.weights) for values in (own, rest))
    with np.errstate(divide="ignore", invalid="ignore"):
        if left is None or right is None:
            value, error2, freedom = _across_groups(own, rest, partition, control, design)
        else:
            mix = common_mix(left.moments()).mix
            of_own, of_rest = (two_sides(side.moments(), rest_of(side.moments()), mix) for side in (left, right))
            value = np.log(of_own.own) - np.log(of_rest.rest)
            own2, rest2 = of_own.own_error2 / of_own.own**2, of_rest.rest_error2 / of_rest.rest**2
            error2 = own2 + rest2
            freedom = combined_freedom(own2, kurtosis_freedom(left, mix)[0], rest2, kurtosis_freedom(right, mix)[1])
        reach = student_quantile(1 - alpha / 2, freedom) * np.sqrt(error2)
        return Limits(value - reach, value + reach)


def _across_groups(
    own: Floats, rest: Floats, partition: Partition, control: Partition | None, design: Design
) -> tuple[Floats, Floats, Floats]:
    """Return log ratios, squared errors and degrees of freedom if clusters lie on both sides."""
    assert design.cluster is not None  # single samples never span groups
    left, right = (cluster_sums(values, partition, control, design.cluster, design.weights) for values in (own, rest))
    # The given order of the clusters is that of the rows, which must not matter.
    columns = (part.reshape(len(part), -1).T for part in (left.samples, left.total, right.total))
    order = np.lexsort(np.concatenate(list(columns)))
    left, right = (ClusterSums(side.samples[order], side.total[order]) for side in (left, right))
    mix, one = common_mix(left.moments()).mix, np.ones((1, len(left.samples)))
    own_mean, rest_mean = left.means(one, mix)[0][0], right.means(one, mix)[1][0]
    linear = left.influence(mix)[0] / own_mean - right.influence(mix)[1] / rest_mean
    return np.log(own_mean) - np.log(rest_mean), spread_of(one, linear, linear)[0], freedom_of(linear)
