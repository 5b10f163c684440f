"""How often intervals contain the truth, and how often tests raise false alarms, in simulated data sets."""

from collections.abc import Iterable
from dataclasses import dataclass
from unittest import mock

import numpy as np

from fairmargin.analyses.audit import audit
from fairmargin.analyses.comparison import compare
from fairmargin.core.arrays import Floats
from fairmargin.inference import permutation, spread
from fairmargin.inference.estimate import Estimate
from fairmargin.inference.settings import AuditSettings
from tests.inference.scenarios import Draw, Scenario

ALARM, RAW_ALARM = "false alarm", "false alarm without correction"


@dataclass(frozen=True)
class Count:
    """How often something was given and how often it held: one entry per group, or a single one."""

    given: Floats
    held: Floats

    def __add__(self, other: "Count") -> "Count":
        return Count(self.given + other.given, self.held + other.held)

    @property
    def shares(self) -> Floats:
        return self.held / np.maximum(self.given, 1)


Counts = dict[str, Count]  # by the name of the quantity


def coverage(scenario: Scenario, seeds: Iterable[int]) -> Counts:
    """Count how often each printed interval contains the truth. Undefined intervals are not given."""
    return _summed(_intervals(scenario(seed)) for seed in seeds)


def false_alarms(scenario: Scenario, seeds: Iterable[int]) -> Counts:
    """Count the audits in which any corrected p is significant, and each group's own p-values that are."""
    return _summed(_alarms(scenario(seed)) for seed in seeds)


def _summed(parts: Iterable[Counts]) -> Counts:
    found: Counts = {}
    with mock.patch.object(permutation, "_WORK", 0):  # as many permutations as the correction needs, at least 999
        for part in parts:
            for name, count in part.items():
                found[name] = found[name] + count if name in found else count
    return found


def _intervals(case: Draw) -> Counts:
    result, truth = audit(case.distances, case.partition, case.settings), case.truth
    sigma, gap = [row.sigma for row in result], [row.gap_to_rest for row in result]
    found = {
        "σ, one group": _each([row.sigma_alone for row in result], truth.sigma),
        "σ": _all(sigma, truth.sigma),
        "gap": _all(gap, truth.gap),
    }
    short = audit(case.distances, case.partition, _up_to(case))
    found["σ up to a radius"] = _all([row.sigma for row in short], case.truth_up_to.sigma)
    if not result.control:  # these numbers ignore it
        overall = result.overall
        found["Rob(P), one group"] = _each([row.robustness for row in result], truth.groups)
        found["Rob(f)"] = _one(overall.robustness, truth.groups.mean())
        found["worst group"] = _one(overall.worst_robustness, truth.groups.min())
        found["V_f"] = _one(overall.variance, float(spread.variance(truth.groups)))
        found["V_f/Rob(f)²"] = _one(overall.relative_variance, float(spread.relative_variance(truth.groups)))
        found["max − min"] = _one(overall.largest_gap, float(spread.largest_gap(truth.groups)))
    if case.after is not None and case.truth_after is not None:
        changed = compare(case.distances, case.after, case.partition, case.settings)
        before, after = truth, case.truth_after
        found["change of the mean"] = _all([row.change for row in changed], after.groups - before.groups)
        found["change of σ"] = _all([row.sigma_change for row in changed], after.sigma - before.sigma)
    return found


def _alarms(case: Draw) -> Counts:
    result, alpha = audit(case.distances, case.partition, case.settings), case.settings.alpha
    adjusted, raw = (np.array([getattr(row, name) for row in result]) for name in ("p_adjusted", "p"))
    return {
        ALARM: Count(np.ones(1), np.array([float((adjusted < alpha).any())])),
        RAW_ALARM: Count(1.0 - np.isnan(raw), (raw < alpha).astype(float)),
    }


def _up_to(case: Draw) -> AuditSettings:
    return case.settings.model_copy(update={"up_to": case.up_to})


def _each(estimates: list[Estimate], truth: Floats) -> Count:
    given = np.array([not (np.isnan(e.low) or np.isnan(e.high)) for e in estimates], dtype=float)
    slack = 1e-9 * np.abs(truth)  # intervals that end at the truth itself, up to rounding
    low, high = np.array([e.low for e in estimates]), np.array([e.high for e in estimates])
    with np.errstate(invalid="ignore"):
        return Count(given, given * ((low - slack <= truth) & (truth <= high + slack)))


def _all(estimates: list[Estimate], truth: Floats) -> Count:
    """Count intervals for all groups at once, which hold together."""
    each = _each(estimates, truth)
    return Count(each.given.max(keepdims=True), (each.held >= each.given).min(keepdims=True) * each.given.max())


def _one(estimate: Estimate, truth: float) -> Count:
    return _each([estimate], np.array([truth], dtype=float))
