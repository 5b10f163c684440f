"""Groups compared when every independent unit lies in one group and one stratum: the usual case, and the fast one."""

import numpy as np

from fairmargin.metrics.bootstrap import Resampled, gap_and_sigma_limits, log_ratio_p, mean_limits, resample
from fairmargin.metrics.contrast import Contrasts, GroupMeans, is_testable
from fairmargin.metrics.permutation import permutation_test
from fairmargin.metrics.plan import AuditPlan
from fairmargin.metrics.units import UNITS, Cells, common_mix, group_means, rest_of, two_sides


def draw(cells: Cells, plan: AuditPlan) -> Resampled:
    """The resamples from which both means and contrasts take their limits."""
    moments = cells.moments()
    mix = common_mix(moments).mix
    observed = two_sides(moments, rest_of(moments), mix)
    return resample(cells, mix, observed, resamples=plan.resamples, seed=plan.seed)


def means(cells: Cells, drawn: Resampled, plan: AuditPlan) -> GroupMeans:
    """Rob(P) of every group; `cells` has one stratum."""
    moments = cells.moments()
    mean, error2 = group_means(moments)
    return GroupMeans(mean, error2, mean_limits(cells, drawn, plan.confidence), drawn.mean, moments[:, 0, UNITS])


def contrasts(cells: Cells, drawn: Resampled, plan: AuditPlan) -> Contrasts:
    """Every group against its rest, inside strata if there are several."""
    moments = cells.moments()
    rest = rest_of(moments)
    common = common_mix(moments)
    observed = two_sides(moments, rest, common.mix)
    units, rest_units = moments[..., UNITS].sum(-1), rest[..., UNITS].sum(-1)
    gap_limits, sigma_limits = gap_and_sigma_limits(cells, common.mix, observed, drawn, plan.confidence)
    tested = is_testable(units, rest_units, common.dropped, plan)
    test = permutation_test(cells, common.mix, tested, alpha=plan.alpha, seed=plan.seed)
    # Exact when groups are exchangeable, the permutations are a little too bold when a small, skewed group has the same
    # mean as a differently shaped rest; Student's test of the log ratio is not.
    guard = np.where(tested, log_ratio_p(cells, common.mix, observed), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        sigma = np.asarray(observed.own / observed.rest - 1)
    what = "samples" if cells.are_single else "clusters"
    where = "inside strata" if cells.strata > 1 else "between groups"
    way = (
        f"studentised permutation test, {what} permuted {where}, at most {test.most:,} permutations, "
        "never below the p of Student's test of the log ratio"
    )
    return Contrasts(
        gap=observed.gap,
        gap_limits=gap_limits,
        sigma=sigma,
        sigma_limits=sigma_limits,
        dropped=common.dropped,
        units=units,
        rest_units=rest_units,
        p=np.fmax(test.p, guard),
        way=way,
    )
