"""FARMUR's Table 1: accuracy, Rob(f) and V_f by how a network was trained, ours beside the printed."""

from collections.abc import Sequence

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin_papers.farmur.measures import Trio, over_sound_seeds
from fairmargin_papers.farmur.studies import METHODS, TABLE
from fairmargin_papers.shared.page import number
from fairmargin_papers.shared.paper import Table

_COLLAPSED = "one answer for all"


def trainings_table(trios: Sequence[Trio]) -> Table:
    """Return one row per network and training."""
    rows = []
    for trio in trios:
        printed = TABLE[trio.setting.row]
        for place, method in enumerate(METHODS):
            accuracy, robustness, variance = (
                numbers[place] for numbers in (printed.accuracy, printed.robustness, printed.variance)
            )
            rows.append(
                (
                    trio.setting.title,
                    method,
                    _ours(100 * trio.values(method, "accuracy"), 1),
                    f"{accuracy:.2f}",
                    _ours(trio.values(method, "robustness"), 3),
                    number(robustness),
                    _ours(trio.values(method, "variance"), 4),
                    number(variance),
                    _ours(trio.values(method, "relative"), 3),
                    number(variance / robustness**2),
                )
            )
    columns = ["network", "training"]
    for name in ("accuracy %", "Rob(f)", "V_f", "V_f / Rob(f)²"):
        columns += [name, "printed" if "/" not in name else "from print"]
    caption = (
        "Means over seeds ± half of their 95 % intervals, beside Table 1 of the paper, which is of larger networks."
    )
    return Table("trainings", caption, tuple(columns), tuple(rows))


def _ours(values: Floats, digits: int) -> str:
    return over_sound_seeds(values).text(digits=digits) if np.isfinite(values).all() else _COLLAPSED
