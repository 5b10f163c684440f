"""Tran's trainings side by side: plain, with the penalty, and by the worst group's loss."""

from collections.abc import Sequence

from fairmargin_papers.shared.paper import Table
from fairmargin_papers.shared.trained import over_seeds
from fairmargin_papers.tran.sweep import Curves, Sweep
from fairmargin_papers.tran.sweep_study import CROSS_ENTROPY

_HEAD = ("data", "training", "error %", "violation %", "softmax margin", "distance L2", "boundary error %")


def group_loss_table(sweeps: Sequence[Sweep]) -> Table:
    """Plain training, the largest sound penalty and the worst group's loss: means ± intervals."""
    rows = []
    for sweep in sweeps:
        plain = sweep.curves[CROSS_ENTROPY]
        last = (plain.fair or (0,))[-1]
        penalty = ((f"penalty λ = {plain.weights[last]:g}", plain, last),) if last else ()
        for name, curves, column in (("plain", plain, 0), *penalty, ("worst group’s loss", sweep.group_loss, 0)):
            rows.append((sweep.title, name, *_cells(curves, column)))
    caption = (
        "Plain training, the penalty and the worst group's loss: means over seeds ± half of their 95 % intervals; the "
        "boundary error is a mean over all radii. The paper prints none of these as numbers."
    )
    return Table("group-loss", caption, _HEAD, tuple(rows))


def _cells(curves: Curves, column: int) -> tuple[str, ...]:
    numbers = (
        (curves.natural[:, column], 100.0, 1),
        (curves.violation[:, column], 100.0, 1),
        (curves.margin[:, column], 1.0, 3),
        (curves.distance[:, column], 1.0, 3),
        (curves.boundary[:, column].mean(axis=1), 100.0, 1),
    )
    return tuple(over_seeds(values).text(scale, digits) for values, scale, digits in numbers)
