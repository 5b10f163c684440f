"""Compare every group of a partition with its rest.

This module treats the usual case, in which every independent unit lies in one group and one stratum; `crossing` treats
clusters that span groups or strata.
"""

import numpy as np

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.partition import Partition
from fairmargin.inference import crossing, hall
from fairmargin.inference.bootstrap import (
    Limits,
    Resampled,
    bootstrap_p,
    gap_and_sigma_limits,
    gap_from_sides,
    mean_limits,
    resample,
)
from fairmargin.inference.contrast import Contrasts, FirstTests, GroupMeans, is_testable, outer
from fairmargin.inference.hall import Studentised
from fairmargin.inference.permutation import hypotheses, permutation_test
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.units import (
    UNITS,
    Cells,
    Sides,
    are_large,
    combined_freedom,
    common_mix,
    effective_units,
    group_means,
    kurtosis_freedom,
    large_side,
    make_cells,
    rest_of,
    third_cumulants,
    two_sides,
)


def draw(cells: Cells, settings: AuditSettings) -> Resampled:
    """Draw the bootstrap resamples that the limits of means and contrasts are computed from."""
    moments = cells.moments()
    mix = common_mix(moments).mix
    observed = two_sides(moments, rest_of(moments), mix)
    return resample(cells, mix, observed, resamples=settings.resamples, seed=settings.seed)


def means(cells: Cells, drawn: Resampled, settings: AuditSettings) -> GroupMeans:
    """Return Rob(P) of every group; `cells` must have one stratum."""
    moments = cells.moments()
    mean, error2 = group_means(moments)
    alone = np.ones((cells.groups, 1))
    third, freedom = third_cumulants(cells, alone)[0], kurtosis_freedom(cells, alone)[0]
    return GroupMeans(
        mean=mean,
        error2=error2,
        limits=mean_limits(cells, drawn, settings.confidence),
        units=moments[:, 0, UNITS],
        log_means=hall.log_mean(mean, error2, third, freedom),
        correlation=None,
        log_overall=log_overall(mean, error2, third, freedom),
        log_overall_t=drawn.log_overall_t,
    )


def log_overall(mean: Floats, error2: Floats, third: Floats, freedom: Floats) -> Studentised:
    """Studentise the logarithm of the unweighted mean over the groups whose error is known."""
    known = ~np.isnan(error2)
    mean, error2, third, freedom = (part[known] for part in (mean, error2, third, freedom))
    groups = max(len(mean), 1)
    total = error2.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        joint = np.where(total > 0, total**2 / np.sum(error2**2 / freedom), np.inf)
    parts = (mean.sum() / groups, total / groups**2, third.sum() / groups**3, joint)
    return hall.log_mean(*(np.array([float(part)]) for part in parts))


def contrasts(cells: Cells, drawn: Resampled, settings: AuditSettings) -> Contrasts:
    """Compare every group with its rest, inside strata if there are several."""
    moments = cells.moments()
    rest = rest_of(moments)
    common = common_mix(moments)
    observed = two_sides(moments, rest, common.mix)
    units, rest_units = moments[..., UNITS].sum(-1), rest[..., UNITS].sum(-1)
    gap_limits, sigma_limits = gap_and_sigma_limits(cells, common.mix, observed, drawn, settings.confidence)
    effective, rest_effective = effective_units(moments), effective_units(rest)
    tested = is_testable(effective, rest_effective, common.dropped, settings)
    own_log, rest_log, ratio = studentised_logs(cells, common.mix, observed)

    def gap_at(alpha: float) -> Limits:
        sides = (side.limits(alpha).transformed(np.exp) for side in (own_log, rest_log))
        return outer(gap_limits, gap_from_sides(observed, *sides))

    with np.errstate(divide="ignore", invalid="ignore"):
        sigma = np.asarray(observed.own / observed.rest - 1)
        bootstrapped = bootstrap_p(ratio.value / ratio.error, drawn.log_ratio_t)
    count = hypotheses(tested)
    first = FirstTests.of(ratio, bootstrapped, are_large(moments, common.mix, count), settings.alpha)
    test = permutation_test(
        cells, common.mix, tested, alpha=settings.alpha, seed=settings.seed, permuted=first.undecided
    )
    what = "samples" if cells.are_single or settings.cluster is None else "clusters"
    where = "inside strata" if cells.strata > 1 else "between groups"
    return Contrasts(
        gap=observed.gap,
        gap_at=gap_at,
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
            "studentised permutation test (where a closed form rejects and a side has fewer than "
            f"{large_side(count):,} {what}), {what} permuted {where}, at most {test.most:,} permutations"
        ),
    )


def studentised_logs(cells: Cells, mix: Floats, observed: Sides) -> tuple[Studentised, Studentised, Studentised]:
    """Studentise the logarithms of each group's mean, of its rest's mean, and of their ratio."""
    third, rest_third = third_cumulants(cells, mix)
    freedom, rest_freedom = kurtosis_freedom(cells, mix)
    own = hall.log_mean(observed.own, observed.own_error2, third, freedom)
    rest = hall.log_mean(observed.rest, observed.rest_error2, rest_third, rest_freedom)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = hall.log_ratio(
            observed.log_ratio,
            own.error**2,
            rest.error**2,
            np.zeros_like(observed.own),
            third / observed.own**3 - rest_third / observed.rest**3,
            combined_freedom(own.error**2, freedom, rest.error**2, rest_freedom),
        )
    return own, rest, ratio


def compare_groups(
    values: Floats,
    partition: Partition,
    settings: AuditSettings,
    cluster: Ints | None,
    within: Floats | None = None,
) -> tuple[GroupMeans, Contrasts]:
    """Return the mean of each group and its comparison with the rest, by the method that suits the clusters.

    `within` are the values for the comparison inside the strata of a control, if they are not `values`.
    """
    within, weights = values if within is None else within, settings.weights(len(values))
    plain = make_cells(values, partition, None, cluster, weights)
    cells = plain if settings.control is None else make_cells(within, partition, settings.control, cluster, weights)
    drawn = None if plain is None else draw(plain, settings)
    if plain is None or drawn is None:
        assert cluster is not None  # single samples never span groups
        found = crossing.means(crossing.cluster_sums(values, partition, None, cluster, weights).in_order(), settings)
    else:
        found = means(plain, drawn, settings)
    if cells is None:
        assert cluster is not None
        sums = crossing.cluster_sums(within, partition, settings.control, cluster, weights)
        return found, crossing.contrasts(sums.in_order(), settings)
    if cells is not plain or drawn is None:
        drawn = draw(cells, settings)
    return found, contrasts(cells, drawn, settings)
