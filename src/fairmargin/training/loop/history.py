"""The history of a training: what was measured in each epoch."""

import math
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, slots=True)
class Epoch:
    """Results of one epoch.

    Parameters
    ----------
    epoch, rate, seconds
        Its number, counted from 1, the learning rate at its end, and its duration.
    loss, terms
        Mean over the steps of the loss, and of each term with its weight.
    accuracy
        Accuracy on the samples as the network was trained on them: clean, attacked or noisy.
    worst_group, worst_accuracy
        The group with the lowest such accuracy.
    natural, robust
        Accuracy on validation data; NaN without such data, or without a radius.
    worst_natural, worst_robust
        The lowest of these accuracies in any group.
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
        """The values by which epochs are compared: first the worst group's robust accuracy, or its natural one.

        The accuracy of all samples decides between equal epochs, for instance while a worst group is never right.
        """
        natural = (self.worst_natural, self.natural)
        return natural if math.isnan(self.worst_robust) else (self.worst_robust, self.robust, *natural)


def as_frame(history: tuple[Epoch, ...]) -> pd.DataFrame:
    """Return a data frame with one row per epoch and one column per term."""
    plain = [name for name in Epoch.__dataclass_fields__ if name != "terms"]
    return pd.DataFrame(
        [{**{n: getattr(e, n) for n in plain}, **{f"term {n}": v for n, v in e.terms}} for e in history]
    )
