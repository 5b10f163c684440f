"""Sizes of groups and their rests in the strata of a control, and their effective numbers of independent samples."""

from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.core.partition import Partition
from fairmargin.inference import crossing
from fairmargin.inference.design import Design
from fairmargin.inference.units import SAMPLES, SAMPLES2, common_mix, make_cells, rest_of


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """Sizes of each group and of its rest.

    The effective number is (Σw)² / Σw² over clusters, where w is a cluster's weight in the mean of the common mix of
    strata. Samples of a cluster thus count as copies of each other. A share near ½ has the variance ¼ / effective
    number, or less if strata differ.
    """

    own: Floats  # number of samples, or the sum of their weights, in each stratum, (groups, strata)
    rest: Floats
    mix: Floats  # weights of the strata, (groups, strata); rows sum to 1, or to 0 if no stratum can be compared
    own_effective: Floats
    rest_effective: Floats


def sizes_of(partition: Partition, control: Partition | None, design: Design) -> Sizes:
    """Count samples and independent samples on both sides of every group."""
    one = np.ones(len(partition))
    cells = make_cells(one, partition, control, design.cluster, design.weights)
    if cells is not None:
        moments = cells.moments()
        sides, mix = (moments, rest_of(moments)), common_mix(moments).mix
        own, rest = (side[..., SAMPLES] for side in sides)
        squares = [(_per_sample(mix, side[..., SAMPLES]) ** 2 * side[..., SAMPLES2]).sum(-1) for side in sides]
    else:
        assert design.cluster is not None  # single samples never span groups
        sums = crossing.cluster_sums(one, partition, control, design.cluster, design.weights).in_order()
        moments, samples = sums.moments(), sums.samples
        others = samples.sum(axis=1, keepdims=True) - samples
        mix, own, rest = common_mix(moments).mix, samples.sum(axis=0), others.sum(axis=0)
        pairs = (samples, own), (others, rest)
        squares = [np.square((_per_sample(mix, size) * part).sum(-1)).sum(axis=0) for part, size in pairs]
    own_effective, rest_effective = (
        np.divide(mix.sum(-1), square, out=np.zeros(len(mix)), where=square > 0) for square in squares
    )
    return Sizes(own, rest, mix, own_effective, rest_effective)


def _per_sample(mix: Floats, size: Floats) -> Floats:
    """Return the weight of each sample of a stratum in a mean over the common mix."""
    return np.divide(mix, size, out=np.zeros_like(mix), where=size > 0)
