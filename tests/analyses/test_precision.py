"""Verdicts of audits to a precision are corrected for the number of groups."""

from dataclasses import replace

import numpy as np

from fairmargin.analyses.precision import judged
from fairmargin.core.bound import Bound
from fairmargin.core.undefined import reason_of
from fairmargin.inference.bootstrap import Limits
from fairmargin.inference.estimate import (
    LESS_ROBUST,
    MORE_ROBUST,
    NO_DIFFERENCE,
    NO_VERDICT,
    NOT_COMPARABLE,
    TOO_FEW,
    Estimate,
)
from fairmargin.inference.permutation import holm
from fairmargin.inference.precision.log_contrast import log_contrast
from tests.report.precise_examples import precise_group, precise_result


def limits(count, low=-0.5, high=0.5):
    """Return limits that do not depend on the level."""
    return lambda alpha: Limits(np.full(count, low), np.full(count, high))


def test_verdicts_are_corrected_for_the_number_of_groups():
    rows = [precise_group(name, sigma=-0.2) for name in "abcd"]
    p = np.array([0.02, 0.001, 0.5, 0.04])
    found = judged(rows, p, limits(4), 0.95)
    assert [row.p for row in found] == p.tolist()
    assert [row.p_adjusted for row in found] == holm(p).tolist()
    assert [row.verdict for row in found] == [NO_DIFFERENCE, LESS_ROBUST, NO_DIFFERENCE, NO_DIFFERENCE]


def test_two_groups_against_each_other_are_one_question():
    rows = [precise_group("F", sigma=-0.2), precise_group("M", sigma=0.25)]
    found = judged(rows, np.array([0.03, 0.03]), limits(2), 0.95)
    assert [row.p_adjusted for row in found] == [0.03, 0.03]
    assert [row.verdict for row in found] == [LESS_ROBUST, MORE_ROBUST]


def test_a_small_group_is_not_judged_and_does_not_count_among_the_questions():
    rows = [precise_group("a"), precise_group("b"), precise_group("tiny", size=29), precise_group("few", size=49)]
    found = judged(rows, np.array([0.02, 0.4, 1e-9, 1e-9]), limits(4), 0.95)
    assert [row.verdict for row in found] == [LESS_ROBUST, NO_DIFFERENCE, TOO_FEW, NO_VERDICT]
    assert found[0].p_adjusted == 0.04
    assert all("50 samples" in reason_of(row.p_adjusted) for row in found[2:])


def test_without_a_rest_or_without_an_interval_nothing_is_compared():
    alone = replace(precise_group("all"), sigma=precise_group("all").sigma.undefined("there is no rest", Bound.NEITHER))
    (found,) = judged([alone], np.array([np.nan]), limits(1), 0.95)
    assert found.verdict == NOT_COMPARABLE
    assert reason_of(found.p_adjusted) == "there is no rest"
    both = [precise_group("never"), precise_group("other")]
    never, other = judged(both, np.array([np.nan, np.nan]), limits(2), 0.95)
    assert never.verdict == other.verdict == NOT_COMPARABLE


def audits(number):
    """Yield random groups with their contrasts and verdicts."""
    rng = np.random.default_rng(0)
    for _ in range(number):
        count = int(rng.integers(2, 12))
        mean, sizes = rng.gamma(30, 1 / 30, count), rng.integers(50, 500, count)
        error2 = (rng.uniform(0.01, 0.15, count) * mean) ** 2
        third, freedom = error2**1.5 * rng.normal(size=count), rng.uniform(4, 200, count)
        found = log_contrast(mean, error2, third, freedom, sizes, finite=bool(rng.integers(2)), confidence=0.95)
        alone = zip(found.sigma, found.sigma_low, found.sigma_high, strict=True)
        groups = []
        for g, (value, low, high) in enumerate(alone):
            one = Estimate(float(value), float(low), float(high), Bound.NEITHER)
            size = int(sizes[g])
            groups.append(replace(precise_group(f"g{g}", size=size), cheap_samples=size, sigma=one, sigma_alone=one))
        yield judged(groups, found.p, found.sigma_limits, 0.95)


def test_verdict_p_and_interval_never_disagree():
    significant = 0
    for rows in audits(200):
        for row in rows:
            excludes = row.sigma.low > 0 or row.sigma.high < 0
            assert excludes == (row.p_adjusted < 0.05) == (row.verdict in (LESS_ROBUST, MORE_ROBUST))
            assert (row.sigma_alone.low > 0 or row.sigma_alone.high < 0) == (row.p < 0.05)
            if excludes:
                assert (row.verdict == LESS_ROBUST) == (row.sigma.high < 0)
            significant += excludes
    assert 100 < significant < 1000


def test_the_interval_for_all_groups_is_wider_than_that_of_a_group_alone():
    for rows in audits(20):
        for row in rows:
            if row.verdict == NO_DIFFERENCE:
                assert row.sigma.low <= row.sigma_alone.low <= row.sigma_alone.high <= row.sigma.high
            if len(rows) == 2:
                assert row.sigma == row.sigma_alone


def test_the_table_has_the_interval_for_all_groups_and_that_of_a_group_alone():
    frame = precise_result().to_frame().set_index("group")
    row = frame.loc["F"]
    assert row["sigma_low"] < row["sigma_alone_low"] < row["sigma_alone_high"] < row["sigma_high"]
    assert row["finding"].startswith("F: less robust than the rest, by upper bounds")
    three = [precise_group(name, verdict=LESS_ROBUST) for name in "abc"]
    assert "95 % interval for all groups at once −24 % to −16 %" in precise_result(three).finding(three[0])
