"""Properties of every table, model and rule: no rule is broken, and every row found is confirmed by the user's model.

Cases are drawn at random and judged by code that knows only the user's table, rules and model. A failure prints its
case; `make_case(seed)` draws it again.
"""

import pytest

from tests.random_tables.cases import make_case
from tests.random_tables.judge import problems_of

SOME, ALL, BLOCK = 500, 10_000, 50


@pytest.mark.parametrize("seed", range(SOME))
def test_no_rule_is_broken_and_every_row_found_is_confirmed(seed):
    case = make_case(seed)
    problems = problems_of(case)
    assert not problems, "\n".join([repr(case), *problems])


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SOME, ALL, BLOCK))
def test_no_rule_is_broken_and_every_row_found_is_confirmed_in_many_more(first):
    broken = []
    for seed in range(first, first + BLOCK):
        case = make_case(seed)
        broken += ["\n".join([repr(case), *problems]) for problems in [problems_of(case)] if problems]
    assert not broken, "\n\n".join(broken)
