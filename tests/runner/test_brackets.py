"""A run with lower and upper bounds has brackets of the best bounds; subjects are kept apart."""

import numpy as np
import pytest

from fairmargin.analyses.bracket import bracket
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.engine.local import Serial
from fairmargin.inference.settings import AuditSettings
from fairmargin.runner.audit import brackets_of
from fairmargin.runner.measurer import Measurer
from fairmargin.study.run_folder import RunFolder, RunMemory

PLAN = AuditSettings(resamples=200)
TRUTH = np.random.default_rng(0).gamma(4, 1.0, 120)
GROUPS = Partition.by("sex", ["F", "M"] * 60)


def bounds(factor, bound, norm=Norm.L2, subject="model"):
    return Distances(TRUTH * factor, TRUTH > 0, bound, norm, subject)


def brackets(measured, run=None):
    """Return the brackets of the distances, each with what it is about."""
    measure = Measurer(run or RunMemory(), Serial())
    kept = {name: measure.keep(distances, {"of": name}, {}) for name, distances in measured}
    return measure.results(list(brackets_of(kept, [GROUPS], PLAN, {"resamples": 200}, measure)), "bracketing")


def test_attacks_alone_enclose_nothing():
    assert brackets([("plumb", bounds(1.1, Bound.UPPER)), ("ddn", bounds(1.2, Bound.UPPER))]) == []


def test_the_best_of_each_side_counts():
    zigzag = np.where(np.arange(120) % 3 == 0, 1.0, 0.5)
    one, other = bounds(zigzag, Bound.LOWER), bounds(1.5 - zigzag, Bound.LOWER)
    attack, better = bounds(1.3, Bound.UPPER), bounds(1.1, Bound.UPPER)
    measured = [("verified", one), ("other", other), ("plumb", attack), ("ddn", better)]
    ((stored, found),) = brackets(measured)
    assert (stored.about.estimator, stored.about.partition) == ("verified, other and plumb, ddn", "sex")
    best = bracket(bounds(1.0, Bound.LOWER), better, GROUPS, PLAN)
    assert found["F"].robustness == best["F"].robustness


def test_a_certificate_of_a_smoothed_model_says_nothing_of_the_model():
    measured = [("plumb", bounds(1.1, Bound.UPPER)), ("smoothing", bounds(0.9, Bound.LOWER, subject="smoothed(0.25)"))]
    assert brackets(measured) == []


def test_each_norm_and_subject_has_its_own():
    measured = [
        ("plumb", bounds(1.1, Bound.UPPER)),
        ("verified", bounds(0.9, Bound.LOWER)),
        ("plumb:norm=linf", bounds(0.11, Bound.UPPER, Norm.LINF)),
        ("verified:norm=linf", bounds(0.09, Bound.LOWER, Norm.LINF)),
    ]
    assert [found.norm for _, found in brackets(measured)] == [Norm.L2, Norm.LINF]


def test_they_survive_in_the_run_folder_and_are_not_computed_again(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    measured = [("a", bounds(1.1, Bound.UPPER)), ("b", bounds(0.9, Bound.LOWER))]
    ((stored, found),) = brackets(measured, folder)
    assert len(stored.shards) == 2
    assert folder.kept(stored) == found
    monkeypatch.setattr("fairmargin.runner.measurer.compute", lambda *_: pytest.fail("it was computed again"))
    assert brackets(measured, folder) == [(stored, found)]
