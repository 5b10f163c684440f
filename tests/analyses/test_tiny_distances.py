"""Distances above 0 that are too small for their squares to be computed."""

import warnings

import numpy as np
import pytest

import fairmargin as fm

SIZES = [1e-59, 1e-61, 1e-200, 1e-320]
GROUPS = fm.Partition.by("group", ["a"] * 60 + ["b"] * 60)
BASE = np.random.default_rng(0).gamma(2, 1.0, 120)


def distances(values, bound=fm.Bound.EXACT) -> fm.Distances:
    return fm.Distances(values, np.ones(120, dtype=bool), bound, "l2")


def results(values, up_to=np.inf):
    """Audit, bracket and compare these distances, with numpy's warnings as errors, and show what was found."""
    settings = fm.AuditSettings(up_to=up_to, resamples=200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = (
            fm.audit(distances(values), GROUPS, settings),
            fm.bracket(distances(0.9 * values, fm.Bound.LOWER), distances(values, fm.Bound.UPPER), GROUPS, settings),
            fm.compare(distances(values), distances(BASE), GROUPS, settings),
            fm.power(distances(values), GROUPS, settings),
        )
        for each in found:
            each.section()
            each.records()
    return found


@pytest.mark.parametrize("size", SIZES)
def test_groups_of_tiny_distances_are_compared_or_undefined_with_a_reason(size):
    audit, bracket, *_ = results(size * BASE)
    assert all(row.verdict == "no significant difference" for row in audit)
    assert all(row.verdict == "not certain" for row in bracket)
    number = audit.overall.relative_variance
    assert number.is_defined or number.reason


@pytest.mark.parametrize("size", SIZES)
def test_one_group_of_tiny_distances_is_less_robust(size):
    audit, bracket, *_ = results(BASE * np.repeat([size, 1.0], 60))
    assert audit["a"].verdict == "less robust"
    assert bracket["a"].verdict == "certainly less robust"
    assert any("count as 0" in warning for warning in audit.warnings) == (size < 1e-60)


@pytest.mark.parametrize("up_to", [1e-200, 1e-300])
def test_a_tiny_cap_leaves_nothing_to_compare(up_to):
    audit, bracket, comparison, _ = results(BASE, up_to)
    assert audit.overall.relative_variance.reason == "every group has robustness 0"
    assert "120 of 120 distances lie above 0 but below 1e-60 and count as 0" in audit.warnings[0]
    assert "count as 0" in comparison.warnings[0]
    assert all(row.verdict == "not certain" for row in bracket)


def test_robust_accuracy_accepts_a_tiny_radius():
    robust = BASE > 1
    settings = fm.AuditSettings(resamples=200)
    about = {"attack": "pgd", "norm": "l2"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fm.accuracy_under_attack(robust | True, robust, GROUPS, settings, radius=1e-300, **about)
        found.section()
    assert found.overall.robust_accuracy.value == robust.mean()
