"""Bootstrap-t intervals for skewed distances, many of which can be 0.

Units are drawn with replacement inside each cell. The rest of a group is a random mix of the other groups, as in a
sample from the population. Each resample is studentised by its own standard error. Each quantile of the bootstrap is at
least as far out as that of Student's t with degrees of freedom from the kurtosis, because for small groups bootstrap-t
intervals alone are too short. `tests/inference/test_coverage.py` and `docs/inference.md` show the coverage.

The sums of a large cell of single samples are drawn without its samples: each resample draws how often each of three
values occurs. The values have the same sums of powers up to the fourth as the samples, so that resampled means and
standard errors have the same mean, spread, skewness and correlation, at a cost that does not grow with the cell. For
clusters and weighted samples, 15 units take the place of the three values (`cubature`).
"""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.inference.cubature import few_units
from fairmargin.inference.distributions import student_quantile
from fairmargin.inference.units import (
    CROSS,
    LARGE,
    SAMPLES,
    SAMPLES2,
    TOTAL,
    TOTAL2,
    UNITS,
    Cells,
    Sides,
    combined_freedom,
    group_means,
    kurtosis_freedom,
    rest_of,
    two_sides,
    unit_columns,
)

_DRAWS_AT_ONCE = 250_000  # limits the memory of a thread to 3 MB, which fits into caches
_SUMS_AT_ONCE = 4_000_000
_FEWEST = 100  # minimum number of resamples for quantiles
_NO_SPREAD = 1e-9  # smaller relative standard deviations may be rounding errors
_TWO_VALUES = 1e-9  # a relative distance from a distribution on two values that may be a rounding error


@dataclass(frozen=True, slots=True, eq=False)
class Resampled:
    """Studentised deviations of logarithms of resampled means, each of shape (resamples, groups)."""

    log_mean_t: Floats
    log_own_t: Floats  # for the group's mean in the common mix of strata
    log_rest_t: Floats
    log_ratio_t: Floats
    log_overall_t: Floats  # for the unweighted mean of the groups' means, of shape (resamples, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """A lower and an upper confidence limit for each group."""

    low: Floats
    high: Floats

    def transformed(self, function: Callable[[Floats], Floats]) -> "Limits":
        """Return the limits of an increasing function of the quantity, such as `np.exp`."""
        with np.errstate(over="ignore"):
            return Limits(np.asarray(function(self.low)), np.asarray(function(self.high)))


def resampled_moments(cells: Cells, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield the six sums of units drawn with replacement inside each cell, in chunks (resamples, groups, strata, 6).

    Every cell has its own random stream, so that the result does not depend on the number of threads.
    """
    count, single = len(cells.starts) - 1, cells.are_single
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(count)]
    step = max(1, _SUMS_AT_ONCE // (6 * count))
    with ThreadPoolExecutor() as pool:
        for start in range(0, resamples, step):
            number = min(step, resamples - start)
            sums = list(pool.map(lambda c, n=number: _draw(cells, c, single, n, streams[c]), range(count)))
            yield cells.arrange(np.stack(sums, axis=1))


def _draw(cells: Cells, cell: int, single: bool, resamples: int, stream: np.random.Generator) -> Floats:
    """Draw the six sums of one cell `resamples` times. `single` says whether every unit is one sample."""
    begin, end = cells.starts[cell], cells.starts[cell + 1]
    units = int(end - begin)
    out = np.zeros((resamples, 6))
    if units == 0:
        return out
    total, samples = cells.total[begin:end], cells.samples[begin:end]
    if single and units >= LARGE:
        values, shares = three_values(total)
        drawn = stream.multinomial(units, shares, resamples)
        out[:, TOTAL] = out[:, CROSS] = drawn @ values
        out[:, TOTAL2] = drawn @ values**2
        out[:, UNITS] = out[:, SAMPLES] = out[:, SAMPLES2] = units
        return out
    if units >= LARGE:
        few, shares = few_units(samples, total)
        return np.asarray(stream.multinomial(units, shares, resamples) @ unit_columns(total[few], samples[few]))
    step = max(1, _DRAWS_AT_ONCE // units)
    for start in range(0, resamples, step):
        rows = slice(start, min(start + step, resamples))
        drawn = stream.integers(0, units, (rows.stop - rows.start, units), dtype=np.uint32)
        picked = total.take(drawn)
        out[rows, TOTAL], out[rows, TOTAL2] = picked.sum(axis=1), np.einsum("ij,ij->i", picked, picked)
        out[rows, UNITS] = units
        if single:
            out[rows, CROSS] = out[rows, TOTAL]
            out[rows, SAMPLES] = out[rows, SAMPLES2] = units
        else:
            sizes = samples.take(drawn)
            out[rows, SAMPLES], out[rows, SAMPLES2] = sizes.sum(axis=1), np.einsum("ij,ij->i", sizes, sizes)
            out[rows, CROSS] = np.einsum("ij,ij->i", picked, sizes)
    return out


def three_values(samples: Floats) -> tuple[Floats, Floats]:
    """Return at most three values and their probabilities, with the same moments up to the fourth as sorted samples.

    This is Gauss–Radau quadrature (Golub 1973) with one value at the smallest sample, where distances often have an
    atom. All values lie between the smallest and the largest sample.

    >>> values, shares = three_values(np.array([0.0, 0.0, 1.0, 2.0, 5.0, 10.0]))
    >>> [round(float(shares @ values**k), 9) for k in range(5)]
    [1.0, 3.0, 21.666666667, 189.0, 1773.666666667]
    """
    mean = samples.mean()
    distance = samples - mean
    square = distance**2
    spread = math.sqrt(square.mean())
    if spread <= _NO_SPREAD * abs(mean):
        return np.array([mean]), np.ones(1)
    third, fourth = (square * distance).mean() / spread**3, (square**2).mean() / spread**4
    smallest = distance[0] / spread
    rest = fourth - third**2 - 1  # 0 for two values
    at_smallest = smallest**2 - third * smallest - 1  # the second orthogonal polynomial
    jacobi = np.array([[0.0, 1.0], [1.0, third]])
    if min(rest / fourth, at_smallest / smallest**2) > _TWO_VALUES:
        root = math.sqrt(rest)
        last = smallest - rest * smallest / at_smallest
        jacobi = np.array([[0.0, 1.0, 0.0], [1.0, third, root], [0.0, root, last]])
    nodes, vectors = np.linalg.eigh(jacobi)
    shares = vectors[0] ** 2
    return np.clip(mean + spread * nodes, samples[0], samples[-1]), shares / shares.sum()


def resample(cells: Cells, mix: Floats, observed: Sides, *, resamples: int, seed: int) -> Resampled:
    """Return the studentised deviations of bootstrap resamples from the observed values."""
    plain, _ = group_means(cells.moments())
    sizes = cells.moments()[..., UNITS]
    mixer = np.random.default_rng([seed, 1])
    parts: list[tuple[Floats, ...]] = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for moments in resampled_moments(cells, resamples, seed):
            sides = two_sides(moments, _rest_in_random_mix(moments, sizes, mixer), mix)
            mean, error2 = group_means(moments)
            parts.append(
                (
                    np.log(mean / plain) * mean / np.sqrt(error2),
                    np.log(sides.own / observed.own) * sides.own / np.sqrt(sides.own_error2),
                    np.log(sides.rest / observed.rest) * sides.rest / np.sqrt(sides.rest_error2),
                    (sides.log_ratio - observed.log_ratio) / sides.log_ratio_error,
                    log_overall_t(mean, error2, plain),
                )
            )
    return Resampled(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def log_overall_t(mean: Floats, error2: Floats, observed: Floats) -> Floats:
    """Return the studentised deviation of the log of the groups' unweighted mean, shape (resamples, 1).

    Groups with one unit have no error and are left out.
    """
    known = ~np.isnan(error2).all(axis=0)
    mean, error2 = mean[:, known], error2[:, known]
    overall = mean.sum(axis=-1, keepdims=True)
    error = np.sqrt(error2.sum(axis=-1, keepdims=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(overall / observed[known].sum()) * overall / error)


def bootstrap_p(t: Floats, deviations: Floats) -> Floats:
    """Return the two-sided bootstrap p-value of each group's studentised estimate `t`; 0 with too few resamples."""
    p = np.zeros(len(t))
    for g in np.flatnonzero(~np.isnan(t)):
        column = deviations[~np.isnan(deviations[:, g]), g]
        if len(column) >= _FEWEST:
            beyond = (column >= t[g]).sum() if t[g] > 0 else (column <= t[g]).sum()
            p[g] = min(2 * (beyond + 1) / (len(column) + 1), 1.0)
    return p


def _rest_in_random_mix(moments: Floats, sizes: Floats, mixer: np.random.Generator) -> Floats:
    """Return the sums of each rest, with sizes of the other groups that vary as in a sample from the population.

    The groups get Poisson weights, which are scaled to the observed number of units. With one other group they cancel.
    """
    if moments.shape[-3] == 2:
        return rest_of(moments)
    shares = mixer.poisson(sizes, moments.shape[:-1]) / np.maximum(sizes, 1)
    rest = rest_of(moments * shares[..., None])
    expected, drawn = rest_of(sizes[..., None])[..., 0], rest[..., UNITS]
    scale = np.divide(expected, drawn, out=np.full_like(drawn, np.nan), where=drawn > 0)
    return np.asarray(rest * scale[..., None])


def interval(value: Floats, error: Floats, deviations: Floats, freedom: Floats, confidence: float) -> Limits:
    """Return the limits value − t·error, where t is the outer one of the quantiles of the bootstrap and of Student's t.

    `deviations` has shape (resamples, groups). A resample without any spread has an infinite deviation, or is left out
    (NaN) if it equals the observed value.
    """
    tail = (1 - confidence) / 2
    student = student_quantile(1 - tail, freedom)
    ordered = np.sort(deviations, axis=0)  # NaN last
    known = (~np.isnan(ordered)).sum(axis=0)
    low_t, high_t = -student, student.copy()
    for g in np.flatnonzero(known >= _FEWEST):
        column = ordered[: known[g], g]
        # Order statistics are not interpolated, because quantiles can be infinite.
        first = int(np.floor(tail * (len(column) + 1))) - 1
        low_t[g] = min(low_t[g], column[max(first, 0)])
        high_t[g] = max(high_t[g], column[len(column) - 1 - max(first, 0)])
    with np.errstate(invalid="ignore"):
        # Without any spread the limits are the value itself, also if quantiles are infinite.
        below, above = (np.where(error == 0, 0.0, t * error) for t in (high_t, low_t))
        return Limits(value - below, value - above)


def mean_limits(cells: Cells, drawn: Resampled, confidence: float) -> Limits:
    """Return limits of Rob(P) for one stratum. They are computed on the log scale, so that they are not below 0."""
    mean, error2 = group_means(cells.moments())
    freedom, _ = kurtosis_freedom(cells, np.ones((cells.groups, 1)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return _positive_limits(mean, error2, drawn.log_mean_t, freedom, confidence)


def gap_and_sigma_limits(
    cells: Cells, mix: Floats, observed: Sides, drawn: Resampled, confidence: float
) -> tuple[Limits, Limits]:
    """Return limits of Rob(P) − Rob(rest), and of σ, which are computed for ln(1 + σ) and hence above −1."""
    own_freedom, rest_freedom = kurtosis_freedom(cells, mix)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        own = _positive_limits(observed.own, observed.own_error2, drawn.log_own_t, own_freedom, confidence)
        rest = _positive_limits(observed.rest, observed.rest_error2, drawn.log_rest_t, rest_freedom, confidence)
        own2, rest2 = observed.own_error2 / observed.own**2, observed.rest_error2 / observed.rest**2
    freedom = combined_freedom(own2, own_freedom, rest2, rest_freedom)
    log = interval(observed.log_ratio, observed.log_ratio_error, drawn.log_ratio_t, freedom, confidence)
    return gap_from_sides(observed, own, rest), log.transformed(np.expm1)


def gap_from_sides(observed: Sides, own: Limits, rest: Limits) -> Limits:
    """Combine the limits of two means to limits of their difference (Zou and Donner 2008).

    The limits of each side are computed on the log scale, so that they reflect the skewness of a small side.
    """
    return Limits(
        observed.gap - np.hypot(observed.own - own.low, rest.high - observed.rest),
        observed.gap + np.hypot(own.high - observed.own, observed.rest - rest.low),
    )


def _positive_limits(mean: Floats, error2: Floats, log_t: Floats, freedom: Floats, confidence: float) -> Limits:
    """Return limits of a mean that is not negative; the limits of a mean of 0 without spread are 0."""
    zero = (mean == 0) & (error2 == 0)
    limits = interval(np.log(mean), np.sqrt(error2) / mean, log_t, freedom, confidence).transformed(np.exp)
    return Limits(np.where(zero, 0.0, limits.low), np.where(zero, 0.0, limits.high))
