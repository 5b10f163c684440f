"""Rows of FARMUR's claim 9, that V_f is independent of the attack: the same networks by several estimators."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.distances.combine import tightest
from fairmargin.runner.study_run import StudyRun
from fairmargin_papers.farmur.measures import Measured, measured, over_sound_seeds
from fairmargin_papers.farmur.studies import EQUATION_8, METHODS, Setting
from fairmargin_papers.shared.claims import Claim, agreed, near
from fairmargin_papers.shared.trained import SeedMean

_ALIKE = 0.10  # relative difference from the reference within which V_f counts as equal
_AGREED = "(ours) Eq. 8 and stronger attacks agree more often than by chance on which groups are vulnerable."
_COLLAPSED = "a network gives one answer to everything, or its V_f is 0"


@dataclass(frozen=True, slots=True)
class Views:
    """One network, measured by several estimators."""

    method: str
    seed: int
    reference: Measured  # by the least of all upper bounds of each sample
    by: Mapping[str, Measured]  # by each estimator


def views_of(grid: StudyRun, setting: Setting) -> tuple[Views, ...]:
    """Return the measurements of every network of a setting."""
    partition = grid.partition(None, setting.partition)
    return tuple(
        seen(
            method,
            seed,
            {name: grid.distances(method=method, seed=seed, estimator=name) for name in setting.estimators},
            partition,
        )
        for method in METHODS
        for seed in range(setting.seeds)
    )


def seen(method: str, seed: int, distances: Mapping[str, Distances], partition: Partition) -> Views:
    """Return one network from its distances by each estimator, at least one of which is an upper bound."""
    bounds = [each for each in distances.values() if each.bound is Bound.UPPER]
    best = tightest(*bounds) if len(bounds) > 1 else bounds[0]
    by = {name: measured(each, partition) for name, each in distances.items()}
    return Views(method, seed, measured(best, partition), by)


def estimator_rows(claim: Claim, views: tuple[Views, ...], setting: Setting) -> list[Claim]:
    """Compare V_f by each estimator with the reference, and the groups that are vulnerable by Eq. 8."""
    found = []
    for name in setting.estimators:
        ratio = over_sound_seeds(_by_seed(views, name, "variance"))
        size = over_sound_seeds(_by_seed(views, name, "robustness"))
        remark = (
            "The reference is the least of all upper bounds, sample by sample; the mean over three trainings is taken "
            f"for each seed. That V_f is independent if it stays within {_ALIKE:.0%} is our reading."
        )
        if name == EQUATION_8:
            remark += " This is the paper's own estimate, Eq. 8, which bounds the distance on neither side."
        found.append(
            claim.found(
                _said(setting, name, ratio, size), near(ratio, 1.0, _ALIKE), remark=f"{remark} {setting.instead}"
            )
        )
    return [*found, _agreement_row(claim, views, setting)]


def _said(setting: Setting, name: str, ratio: SeedMean, size: SeedMean) -> str:
    if math.isnan(ratio.mean):
        return f"{setting.title}, `{name}`: {_COLLAPSED}"
    return (
        f"{setting.title}: Rob(f) by `{name}` is {size.text(1, 3)} times, V_f {ratio.text(1, 3)} times the reference's"
    )


def _agreement_row(claim: Claim, views: tuple[Views, ...], setting: Setting) -> Claim:
    """Compare which groups are vulnerable, which is what FARMUR needs to know."""
    same, chance = _by_all_seeds(views)
    agreement = over_sound_seeds(same)
    if math.isnan(agreement.mean):
        return claim.found(f"{setting.title}: {_COLLAPSED}", "undecided", text=_AGREED)
    share = SeedMean(agreement.mean, max(agreement.low, 0.0), min(agreement.high, 1.0))
    return claim.found(
        f"{setting.title}: Eq. 8 and the reference agree on who is vulnerable for {agreement.mean:.1%} of groups",
        agreed(share, chance),
        text=_AGREED,
        printed="",
        remark="A group is vulnerable if its Rob(P) is below the mean over groups; groups of one network are not "
        f"independent, so that the interval is over seeds. {setting.instead}",
    )


def vulnerable(groups: tuple[float, ...]) -> list[bool]:
    """Return which groups lie below the mean over groups.

    >>> vulnerable((1.0, 2.0, 6.0))
    [True, True, False]
    """
    return [value < float(np.mean(groups)) for value in groups]


def _by_seed(views: tuple[Views, ...], name: str, of: str) -> Floats:
    seeds = sorted({view.seed for view in views})
    ratios = [
        [_ratio(getattr(view.by[name], of), getattr(view.reference, of)) for view in views if view.seed == seed]
        for seed in seeds
    ]
    return np.array([np.mean(some) for some in ratios])


def _ratio(value: float, reference: float) -> float:
    """Return 1 if both are 0; NaN if only the reference is 0, or a network collapsed."""
    if reference > 0:
        return value / reference
    return 1.0 if value == reference == 0 else math.nan


def _by_all_seeds(views: tuple[Views, ...]) -> tuple[Floats, float]:
    """Return the share of groups on which both agree, one per seed, and the share expected by chance."""
    shares: dict[int, list[float]] = {}
    expected = []
    for view in views:
        left, right = (np.array(vulnerable(each.groups)) for each in (view.by[EQUATION_8], view.reference))
        sound = math.isfinite(view.reference.robustness)
        shares.setdefault(view.seed, []).append(float((left == right).mean()) if sound else math.nan)
        p, q = left.mean(), right.mean()
        expected.append(float(p * q + (1 - p) * (1 - q)))
    return np.array([np.mean(shares[seed]) for seed in sorted(shares)]), float(np.mean(expected))
