"""Comparison of groups when clusters span groups or strata, such as photographs of one person at several ages.

Such clusters cannot be permuted between groups. They are resampled whole, and standard errors are computed from the
influence of each cluster on a mean. The test flips the sign of each cluster's contribution to the gap. If every cluster
is in both groups, this is the permutation test of paired data.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.core.partition import Partition
from fairmargin.inference import hall
from fairmargin.inference.bootstrap import bootstrap_p, interval
from fairmargin.inference.contrast import Contrasts, FirstTests, GroupMeans, is_testable, outer
from fairmargin.inference.hall import Studentised
from fairmargin.inference.permutation import PermutationTest, hypotheses, permutations_needed, sequential_test
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.units import SAMPLES, TOTAL, UNITS, common_mix, sums_by_code

_WEIGHTS_AT_ONCE = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class ClusterSums:
    """Number of samples and sum of values of each cluster in each cell, of shape (clusters, groups, strata).

    With weights, these are Σw and Σw·x, as in `units.Cells`.
    """

    samples: Floats
    total: Floats

    def in_order(self) -> "ClusterSums":
        """Return the clusters sorted by their sums. Their given order is that of the rows, which must not matter."""
        columns = (part.reshape(len(part), -1).T for part in (self.samples, self.total))
        order = np.lexsort(np.concatenate(list(columns)))
        return ClusterSums(self.samples[order], self.total[order])

    def means(self, weights: Floats, mix: Floats) -> tuple[Floats, Floats]:
        """Return the means of each group and of its rest in the common mix, for weights of shape (draws, clusters)."""
        shape = (len(weights), *self.samples.shape[1:])
        samples, total = ((weights @ part.reshape(len(part), -1)).reshape(shape) for part in (self.samples, self.total))
        everyone, sum_of_all = samples.sum(axis=1, keepdims=True), total.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            own, rest = total / samples, (sum_of_all - total) / (everyone - samples)
        return np.where(mix > 0, mix * own, 0).sum(-1), np.where(mix > 0, mix * rest, 0).sum(-1)

    def influence(self, mix: Floats) -> tuple[Floats, Floats]:
        """Return the influence of each cluster on the means of group and rest, both of shape (clusters, groups)."""
        sides = []
        for samples, total in ((self.samples, self.total), (_others(self.samples), _others(self.total))):
            size = samples.sum(axis=0)
            with np.errstate(divide="ignore", invalid="ignore"):
                weight = np.where(mix > 0, mix / size, 0.0)
                mean = np.where(mix > 0, total.sum(axis=0) / size, 0.0)
            sides.append((weight * (total - mean * samples)).sum(-1))
        return sides[0], sides[1]

    def moments(self) -> Floats:
        """Return units, samples and totals of each cell in the layout of the six sums; the other sums stay 0."""
        out = np.zeros((*self.samples.shape[1:], 6))
        out[..., UNITS], out[..., SAMPLES] = (self.samples > 0).sum(axis=0), self.samples.sum(axis=0)
        out[..., TOTAL] = self.total.sum(axis=0)
        return out


def cluster_sums(
    values: Floats, groups: Partition, control: Partition | None, cluster: Ints, weights: Floats | None = None
) -> ClusterSums:
    """Count the samples and sum the values of each cluster in each cell."""
    strata = 1 if control is None else len(control.labels)
    stratum = 0 if control is None else control.membership
    shape = (int(cluster.max()) + 1, len(groups.labels), strata)
    flat = (cluster * shape[1] + groups.membership) * strata + stratum
    count = int(np.prod(shape))
    samples, total = sums_by_code(flat, values, weights, count)
    return ClusterSums(samples.reshape(shape), total.reshape(shape))


def effective_clusters(samples: Floats) -> Floats:
    """Return (Σn)² / Σn² over the clusters of each group, for n of shape (clusters, groups, strata)."""
    of_cluster = samples.sum(axis=-1)
    squares = np.square(of_cluster).sum(axis=0)
    return np.asarray(np.divide(of_cluster.sum(axis=0) ** 2, squares, out=np.zeros_like(squares), where=squares > 0))


def means(sums: ClusterSums, settings: AuditSettings) -> GroupMeans:
    """Return Rob(P) of every group; `sums` must have one stratum."""
    clusters, groups = sums.samples.shape[:2]
    mix = np.ones((groups, 1))
    mean = sums.means(np.ones((1, clusters)), mix)[0][0]
    influence = sums.influence(mix)[0]
    error2 = spread_of(np.ones((1, clusters)), influence, influence)[0]
    overall, mean_influence = mean.mean(keepdims=True), influence.mean(axis=1, keepdims=True)
    deviations, overall_t = [], []
    with np.errstate(divide="ignore", invalid="ignore"):
        for weights in resampled_weights(clusters, settings):
            drawn = sums.means(weights, mix)[0]
            deviations.append(np.log(drawn / mean) / (np.sqrt(spread_of(weights, influence, influence)) / drawn))
            drawn_overall = drawn.mean(axis=1, keepdims=True)
            error = np.sqrt(spread_of(weights, mean_influence, mean_influence)) / drawn_overall
            overall_t.append(np.log(drawn_overall / overall) / error)
        log = interval(
            np.log(mean), np.sqrt(error2) / mean, np.concatenate(deviations), freedom_of(influence), settings.confidence
        )
    units = (sums.samples[..., 0] > 0).sum(axis=0).astype(np.float64)
    return GroupMeans(
        mean=mean,
        error2=error2,
        limits=log.transformed(np.exp),
        units=units,
        log_means=_log_mean(mean, influence),
        correlation=_correlation(influence),
        log_overall=_log_mean(overall, mean_influence),
        log_overall_t=np.concatenate(overall_t),
    )


def _correlation(influence: Floats) -> Floats:
    """Return the correlation of means, given the influences of clusters; 0 where one does not vary."""
    scale = np.sqrt((influence**2).sum(axis=0))
    unit = np.divide(influence, scale, out=np.zeros_like(influence), where=scale > 0)
    return np.asarray(unit.T @ unit)


def _log_mean(mean: Floats, influence: Floats) -> Studentised:
    """Studentise the logarithm of means, given the influences of clusters."""
    error2 = spread_of(np.ones((1, len(influence))), influence, influence)[0]
    return hall.log_mean(mean, error2, (influence**3).sum(axis=0), freedom_of(influence))


def contrasts(sums: ClusterSums, settings: AuditSettings) -> Contrasts:
    """Compare every group with its rest, if clusters can lie on both sides."""
    clusters = len(sums.samples)
    common = common_mix(sums.moments())
    one = np.ones((1, clusters))
    (own,), (rest,) = sums.means(one, common.mix)
    influence = sums.influence(common.mix)
    gap_error, log_error = (error[0] for error in _errors(one, influence, own[None], rest[None]))
    gap_t, log_t = [], []
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratio = np.log(own / rest)
        for weights in resampled_weights(clusters, settings):
            own_drawn, rest_drawn = sums.means(weights, common.mix)
            gap_drawn, log_drawn = _errors(weights, influence, own_drawn, rest_drawn)
            gap_t.append((own_drawn - rest_drawn - (own - rest)) / gap_drawn)
            log_t.append((np.log(own_drawn / rest_drawn) - log_ratio) / log_drawn)
        gap = interval(
            own - rest, gap_error, np.concatenate(gap_t), freedom_of(influence[0] - influence[1]), settings.confidence
        )
        relative = influence[0] / own - influence[1] / rest
        log = interval(log_ratio, log_error, np.concatenate(log_t), freedom_of(relative), settings.confidence)
        sigma = own / rest - 1
    units = (sums.samples.sum(-1) > 0).sum(axis=0).astype(np.float64)
    rest_units = (_others(sums.samples).sum(-1) > 0).sum(axis=0).astype(np.float64)
    effective, rest_effective = effective_clusters(sums.samples), effective_clusters(_others(sums.samples))
    tested = is_testable(effective, rest_effective, common.dropped, settings)
    difference = influence[0] - influence[1]
    gap_studentised = hall.mean(own - rest, gap_error, (difference**3).sum(axis=0), freedom_of(difference))
    ratio = studentised_log_ratio(own, rest, influence)
    sigma_limits = log.transformed(np.expm1)
    with np.errstate(divide="ignore", invalid="ignore"):
        bootstrapped = bootstrap_p(log_ratio / log_error, np.concatenate(log_t))
    first = FirstTests.of(ratio, bootstrapped, np.zeros_like(tested), settings.alpha)
    test = _flip_test(sums, common.mix, tested, first.undecided, settings)
    return Contrasts(
        gap=own - rest,
        gap_at=lambda alpha: outer(gap, gap_studentised.limits(alpha)),
        sigma=sigma,
        sigma_limits=sigma_limits,
        sigma_at=lambda alpha: outer(sigma_limits, ratio.limits(alpha).transformed(np.expm1)),
        dropped=common.dropped,
        units=units,
        rest_units=rest_units,
        effective=effective,
        rest_effective=rest_effective,
        p=first.with_permutations(test.p, tested),
        way=(
            "clusters span groups or strata: sign-flip test of whole clusters (where a closed form rejects), at most "
            f"{test.most:,} flips"
        ),
    )


def studentised_log_ratio(own: Floats, rest: Floats, influence: tuple[Floats, Floats]) -> Studentised:
    """Studentise ln(own / rest), if clusters can have an influence on both sides."""
    left, right = influence
    one = np.ones((1, len(left)))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = left / own - right / rest
        own2 = spread_of(one, left, left)[0] / own**2
        rest2 = spread_of(one, right, right)[0] / rest**2
        shared = spread_of(one, left, right)[0] / (own * rest)
        third = (relative**3).sum(axis=0)
        return hall.log_ratio(np.log(own / rest), own2, rest2, shared, third, freedom_of(relative))


def _flip_test(
    sums: ClusterSums, mix: Floats, tested: Bools, flipped: Bools, settings: AuditSettings
) -> PermutationTest:
    """Test the gap by flipping the sign of each cluster's contribution, centred at the pooled mean of the stratum."""
    with np.errstate(divide="ignore", invalid="ignore"):
        pooled = sums.total.sum(axis=(0, 1)) / sums.samples.sum(axis=(0, 1))
        centred = np.where(sums.samples > 0, sums.total - pooled * sums.samples, 0.0)
        own = np.where(mix > 0, mix / sums.samples.sum(axis=0), 0.0)
        rest = np.where(mix > 0, mix / _others(sums.samples).sum(axis=0), 0.0)
    score = (own * centred - rest * _others(centred)).sum(-1)
    scale = np.sqrt((score**2).sum(axis=0))
    score = np.divide(score, scale, out=np.zeros_like(score), where=scale > 0)
    most = permutations_needed(hypotheses(tested), settings.alpha, len(score))

    def statistics(groups: Ints, rows: int, stream: np.random.Generator) -> Floats:
        flips = stream.integers(0, 2, (rows, len(score))) * 2.0 - 1
        return np.asarray(np.abs(flips @ score[:, groups]))

    return sequential_test(
        np.abs(score.sum(axis=0)), statistics, tested & flipped, most=most, values=len(score), seed=settings.seed
    )


def resampled_weights(clusters: int, settings: AuditSettings) -> Iterator[Floats]:
    """Yield how often each cluster is drawn in each resample, in chunks of shape (draws, clusters)."""
    stream = np.random.default_rng([settings.seed, 5])
    step = max(1, _WEIGHTS_AT_ONCE // clusters)
    for start in range(0, settings.resamples, step):
        rows = min(step, settings.resamples - start)
        drawn = stream.integers(0, clusters, (rows, clusters)) + np.arange(rows)[:, None] * clusters
        yield np.bincount(drawn.ravel(), minlength=rows * clusters).reshape(rows, clusters).astype(np.float64)


def _errors(weights: Floats, influence: tuple[Floats, Floats], own: Floats, rest: Floats) -> tuple[Floats, Floats]:
    """Return the standard errors of own − rest and of ln(own / rest) for each resample."""
    left, right = influence
    pairs = (left, left), (right, right), (left, right)
    own2, rest2, shared = (spread_of(weights, *pair) for pair in pairs)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.sqrt(np.maximum(own2 + rest2 - 2 * shared, 0))
        log = np.sqrt(np.maximum(own2 / own**2 + rest2 / rest**2 - 2 * shared / (own * rest), 0))
    return gap, log


def spread_of(weights: Floats, left: Floats, right: Floats) -> Floats:
    """Return the covariance of two sums of influences for weights (draws, clusters), of shape (draws, groups)."""
    count = weights.shape[1]
    product = weights @ (left * right) - (weights @ left) * (weights @ right) / count
    return np.asarray(product * count / (count - 1)) if count > 1 else np.full_like(product, np.nan)


def freedom_of(influence: Floats) -> Floats:
    """Return the degrees of freedom from the kurtosis of the clusters' influences; see `units.kurtosis_freedom`."""
    count = (influence != 0).sum(axis=0).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = (influence**4).sum(axis=0) / (influence**2).sum(axis=0) ** 2 - (count - 3) / (count * (count - 1))
        freedom = np.clip(2 / spread, 2.0, np.maximum(count - 1, 2.0))
    return np.where(np.isfinite(freedom), freedom, 2.0)


def _others(part: Floats) -> Floats:
    """Return, for each group, the sum over all other groups of an array (clusters, groups, strata)."""
    return np.asarray(part.sum(axis=1, keepdims=True) - part)
