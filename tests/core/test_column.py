"""Which changes of a column its rules allow."""

import numpy as np

from fairmargin.core.column import TableColumn


def test_a_large_number_moves_by_whole_steps_only():
    column = TableColumn("income", "number", step=1)
    assert column.allows(
        [385082000000000.0] * 3, [327029322527326.0, 327029322527326.5, 385082000000000.5]
    ).tolist() == [
        True,
        False,
        False,
    ]


def test_a_number_in_single_precision_moves_by_decimal_steps():
    column = TableColumn("rate", "number", step=0.1, single=True)
    before = np.float32([3.6, 3.6, 3.6])
    assert column.allows(before, np.float32([-5.0, 3.7, 3.65])).tolist() == [True, True, False]


def test_a_change_of_less_than_a_step_is_not_allowed_however_small():
    column = TableColumn("income", "number", step=1)
    assert column.allows([1.0, 1e-9, 0.3], [1 + 1e-12, 2e-9, 0.1 + 0.2]).tolist() == [False, False, False]
