"""A run that measured from both sides is bracketed; the best of each side counts, and subjects are kept apart."""

import numpy as np
from fairmargin.studies.bracketing import brackets_of
from fairmargin.studies.run_folder import RunFolder, StoredBracket

from fairmargin.analyses.bracket import bracket
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.inference.settings import AuditSettings

PLAN = AuditSettings(resamples=200)
TRUTH = np.random.default_rng(0).gamma(4, 1.0, 120)
GROUPS = Partition.by("sex", ["F", "M"] * 60)


def bounds(factor, bound, norm=Norm.L2, subject="model"):
    return Distances(TRUTH * factor, TRUTH > 0, bound, norm, subject)


def test_attacks_alone_enclose_nothing():
    assert brackets_of([("plumb", bounds(1.1, Bound.UPPER)), ("ddn", bounds(1.2, Bound.UPPER))], [GROUPS], PLAN) == ()


def test_the_best_of_each_side_counts():
    zigzag = np.where(np.arange(120) % 3 == 0, 1.0, 0.5)
    one, other = bounds(zigzag, Bound.LOWER), bounds(1.5 - zigzag, Bound.LOWER)
    attack, better = bounds(1.3, Bound.UPPER), bounds(1.1, Bound.UPPER)
    measured = [("verified", one), ("other", other), ("plumb", attack), ("ddn", better)]
    (found,) = brackets_of(measured, [GROUPS], PLAN)
    assert found.between == "verified, other and plumb, ddn"
    best = bracket(bounds(1.0, Bound.LOWER), better, GROUPS, PLAN)
    assert found.result["F"].robustness == best["F"].robustness


def test_a_certificate_of_a_smoothed_model_says_nothing_of_the_model():
    measured = [("plumb", bounds(1.1, Bound.UPPER)), ("smoothing", bounds(0.9, Bound.LOWER, subject="smoothed(0.25)"))]
    assert brackets_of(measured, [GROUPS], PLAN) == ()


def test_each_norm_and_subject_has_its_own():
    measured = [
        ("plumb", bounds(1.1, Bound.UPPER)),
        ("verified", bounds(0.9, Bound.LOWER)),
        ("plumb:norm=linf", bounds(0.11, Bound.UPPER, Norm.LINF)),
        ("verified:norm=linf", bounds(0.09, Bound.LOWER, Norm.LINF)),
    ]
    assert [found.result.norm for found in brackets_of(measured, [GROUPS], PLAN)] == [Norm.L2, Norm.LINF]


def test_they_survive_in_the_run_folder_and_leave_it_when_there_are_none(tmp_path):
    folder = RunFolder(tmp_path)
    found = brackets_of([("a", bounds(1.1, Bound.UPPER)), ("b", bounds(0.9, Bound.LOWER))], [GROUPS], PLAN)
    folder.write_brackets(found)
    assert folder.read_brackets() == found
    assert isinstance(folder.read_brackets()[0], StoredBracket)
    folder.write_brackets(())
    assert folder.read_brackets() == ()
