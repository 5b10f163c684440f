"""What a person, or the log of a long run, sees of the progress."""

import pytest

from fairmargin.cli.console import lines_in_a_log, progress


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
