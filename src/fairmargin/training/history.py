"""What happened in each epoch of a training."""

import math
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch, counted from 1.

    Parameters
    ----------
    epoch, rate, seconds
        Which one, with which learning rate at its end, and how long it took.
    loss, terms
        The mean over steps of what was descended, and of each term with its weight.
    accuracy
        On the samples as the network learned from them: clean, attacked or noisy.
    worst_group, worst_accuracy
        The group with the lowest such accuracy.
    natural, robust
        Accuracy on validation data, overall; NaN where there are none, or no radius to watch.
    worst_natural, worst_robust
        The lowest of a group there.
    """

    epoch: int
    rate: float
    seconds: float
    loss: float
    terms: tuple[tuple[str, float], ...]
    accuracy: float
    worst_group: str
    worst_accuracy: float
    natural: float = math.nan
    robust: float = math.nan
    worst_natural: float = math.nan
    worst_robust: float = math.nan

    @property
    def watched(self) -> tuple[float, ...]:
        """What an epoch is judged by: the worst group's robust accuracy, or its natural one if none is measured.

        While a worst group is never right, and early epochs would tie at 0, by the accuracy of all, and so on.
        """
        natural = (self.worst_natural, self.natural)
        return natural if math.isnan(self.worst_robust) else (self.worst_robust, self.robust, *natural)


def as_frame(history: tuple[Epoch, ...]) -> pd.DataFrame:
    """One row an epoch, every term in a column of its own."""
    plain = [name for name in Epoch.__dataclass_fields__ if name != "terms"]
    return pd.DataFrame(
        [{**{n: getattr(e, n) for n in plain}, **{f"term {n}": v for n, v in e.terms}} for e in history]
    )
