"""What the papers answered before the code was rebuilt, they answer still: the same verdicts and numbers."""

import re
from typing import Any

import pytest

from tests.fixtures.record import PAPERS, claims_of, recorded
from tests.test_fixtures import FOLDED, skip_elsewhere

TIMED = {("farmur", "12")}  # the claim is about seconds
NUMBER = re.compile(r"[−+-]?\d[\d,]*(?:\.\d+)?")


@pytest.mark.parametrize("name", PAPERS)
def test_papers_at_smoke_scale_give_the_verdicts_and_numbers_that_were_recorded(smoke: Any, name: str) -> None:
    skip_elsewhere("papers")
    now, then = (
        [row for row in rows if (name, row["name"]) not in TIMED]
        for rows in (claims_of(smoke(name)[1]), recorded("papers")[name])
    )
    assert [(row["name"], row["verdict"]) for row in now] == [(row["name"], row["verdict"]) for row in then]
    for row, expected in zip(now, then, strict=True):
        # Words may change; what is shown of a number may change in its last digit.
        found, numbers = NUMBER.findall(row["ours"]), NUMBER.findall(expected["ours"])
        assert len(found) == len(numbers), (row, expected)
        for one, other in zip(map(number, found), map(number, numbers), strict=True):
            assert one[0] == pytest.approx(other[0], rel=FOLDED, abs=other[1]), (row, expected)
        for field in ("interval", "chance"):
            assert values(row[field]) == pytest.approx(values(expected[field]), rel=FOLDED, abs=FOLDED), (row, expected)


def values(shown: Any) -> list[float]:
    """An interval, with infinity as JSON writes it, a number, or nothing."""
    return [] if shown is None else [float(value) for value in (shown if isinstance(shown, list) else [shown])]


def number(text: str) -> tuple[float, float]:
    """A number that is shown, and a little more than one in its last place; none of a whole number, which counts."""
    plain = text.replace("−", "-").replace(",", "")
    return float(plain), 1.01 * 10.0 ** -len(plain.partition(".")[2]) if "." in plain else 0.0
