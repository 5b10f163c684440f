"""What a person, or the log of a long run, sees of the progress and of the results."""

import math

import numpy as np
import pytest
from fairmargin.studies.run_folder import StoredAudit, StoredBracket

from fairmargin.analyses.audit import audit
from fairmargin.analyses.bracket import bracket
from fairmargin.cli.console import lines_in_a_log, progress, show_audits, show_brackets
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.settings import AuditSettings


@pytest.fixture
def clock():
    times = iter([0.0, 10.0, 61.0, 61.0, 70.0, 130.0, 130.0])
    return lambda: next(times)


def test_a_log_gets_a_line_a_minute_at_most(clock, capsys):
    tell = lines_in_a_log(clock)
    for done in range(4):
        tell("training", 1000 * done, 4000)
    assert capsys.readouterr().err.splitlines() == ["training: 1,000 of 4,000 (25%)", "training: 3,000 of 4,000 (75%)"]


def test_short_and_quiet_commands_leave_a_log_empty(capsys):
    for quiet in (False, True):
        with progress(quiet) as tell:
            tell("measuring", 0, 2)
            tell("measuring", 2, 2)
    assert capsys.readouterr().err == ""


def test_the_tables_name_the_radius_of_a_cap(capsys):
    rng = np.random.default_rng(0)
    truth = np.concatenate([rng.gamma(4, 1.0, 80), rng.gamma(4, 2.0, 80)])
    groups = Partition.by("sex", ["F"] * 80 + ["M"] * 80)
    lower, upper = (Distances(f * truth, truth > 0, b, "l2") for f, b in ((0.9, "lower"), (1.1, "upper")))
    for up_to, said in ((5.0, True), (math.inf, False)):
        plan = AuditSettings(resamples=200, up_to=up_to)
        show_audits([StoredAudit("plumb", audit(upper, groups, plan))])
        table = capsys.readouterr().out
        assert ("distances capped at 5" in table) is said
        show_brackets([StoredBracket("verified and plumb", bracket(lower, upper, groups, plan))])
        heading = capsys.readouterr().out.splitlines()[0]
        assert ("up to a radius of 5" in heading) is said
