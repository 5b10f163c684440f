"""p-values of audits to a precision agree with the intervals, and are rarely small if groups do not differ."""

import math

import numpy as np
import pytest

from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.inference.permutation import holm, hypotheses
from fairmargin.inference.precision.log_contrast import log_contrast
from fairmargin.inference.precision.rounds import REFERENCE, PrecisionTarget, to_precision


def test_p_is_below_alpha_exactly_where_the_interval_excludes_0():
    rng = np.random.default_rng(0)
    for _ in range(200):
        mean, sizes = rng.gamma(20, 0.05, 4), rng.integers(30, 500, 4)
        error2, freedom = (0.1 * rng.random(4)) ** 2, rng.uniform(4, 200, 4)
        third = error2**1.5 * rng.normal(size=4)
        found = log_contrast(mean, error2, third, freedom, sizes, finite=False, confidence=0.9)
        excludes = (found.sigma_low > 0) | (found.sigma_high < 0)
        np.testing.assert_array_equal(found.p < 0.1, excludes)


@pytest.mark.parametrize(("means", "p"), [([1.0, 1.0, 2.0], 0.0), ([1.0, 1.0, 1.0], 1.0)])
def test_means_without_errors_differ_certainly_or_not_at_all(means, p):
    zero, sizes = np.zeros(3), np.array([50, 50, 50])
    found = log_contrast(np.array(means), zero, zero, zero + np.inf, sizes, finite=True, confidence=0.95)
    assert found.p.tolist() == [p] * 3


def test_where_nothing_differs_a_false_verdict_is_rare():
    """Of 120 audits of four equal groups, 6 are expected to have a verdict; more than 13 are hardly chance."""
    false = sum(_smallest(seed) < 0.05 for seed in range(120))
    assert 1 <= false <= 13


def _smallest(seed: int) -> float:
    """Return the smallest corrected p of an audit in which all groups come from one distribution."""
    rng, sizes = np.random.default_rng(seed), [400, 150, 60, 300]
    count = sum(sizes)
    correct, cheap = rng.random(count) < 0.85, rng.gamma(2, 1, count)
    expensive = cheap * np.exp(0.3 * rng.normal(size=count))
    values = {REFERENCE: expensive * correct, 0: cheap * correct}

    def measure(which, rows):
        return Distances(values[which][rows], correct[rows], Bound.UPPER, Norm.L2)

    groups = Partition.by("group", np.repeat(list("abcd"), sizes))
    keys = rng.integers(0, 2**63, count).astype(np.uint64)
    p = to_precision(measure, groups, keys, PrecisionTarget(0.2, 0.95, False, 30, math.inf, (1.0, 40.0))).contrast.p
    return float(holm(p, hypotheses(np.isfinite(p))).min())
