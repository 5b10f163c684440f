"""Controllers: they keep the state of a method between steps and epochs, for instance the weights of groups."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fairmargin.core.arrays import Floats
from fairmargin.distances.catalog import parse_estimator
from fairmargin.errors import ModelError
from fairmargin.training.parts.aggregates import LOG_WEIGHTS, State
from fairmargin.training.parts.batch import Losses

TRAINING, VALIDATION = "training", "validation"
EVERYONE, VULNERABLE, ROBUST = "everyone", "vulnerable", "robust"

Survey = Callable[[str, str, int], Floats]
"""Measures Rob(P) of every group from the kind of data, an estimator as options spell it, and the number of samples."""


class Controller(Protocol):
    """Changes the state between steps; a frozen dataclass that overrides some of these methods.

    A state holds tensors only, so that checkpoints can store it. By default nothing is kept.
    """

    def begin(self, group_count: int) -> State:
        """Return the state before the first step."""
        return {}

    def before_epoch(self, state: State, epoch: int, epochs: int, survey: Survey) -> State:
        """Return the state for an epoch, counted from 0; `survey` measures the current network."""
        return state

    def after_losses(self, state: State, losses: Losses) -> State:
        """Return the state for this step from the losses of the first term, before they are aggregated."""
        return state


@dataclass(frozen=True, slots=True)
class Nothing(Controller):
    """A controller without a state."""


@dataclass(frozen=True, slots=True)
class RaisedWhereWorse(Controller):
    """Weights of groups that grow with their loss: q_a ∝ q_a · exp(η L_a), for the groups in the batch.

    Parameters
    ----------
    step
        Step size η; with 0, all groups keep equal weights.

    References
    ----------
    S. Sagawa et al., "Distributionally robust neural networks for group shifts" (group DRO), ICLR 2020.

    >>> keeper = RaisedWhereWorse(step=1.0)
    >>> losses = Losses(torch.tensor([0.0, 1.0]), torch.tensor([0, 1]), ("a", "b"))
    >>> [round(q, 3) for q in keeper.after_losses(keeper.begin(2), losses)["log_weights"].exp().tolist()]
    [0.269, 0.731]
    """

    step: float = 0.01

    def begin(self, group_count: int) -> State:
        """Return the logarithms of equal weights."""
        return {LOG_WEIGHTS: torch.full((group_count,), -math.log(group_count), dtype=torch.float64)}

    def after_losses(self, state: State, losses: Losses) -> State:
        """Return the weights after this batch."""
        means, counts = losses.by_group()
        # As logarithms: after some thousand steps a weight itself may underflow to 0, and would stay there.
        now = state[LOG_WEIGHTS].to(means.device)
        raised = now + self.step * (means.detach() * (counts > 0)).double()
        return {**state, LOG_WEIGHTS: torch.log_softmax(raised, dim=0)}


@dataclass(frozen=True, slots=True)
class VulnerableGroups(Controller):
    """The groups whose Rob(P) is below Rob(f), the mean over groups; found once, then kept.

    If Rob(P) is the same for all groups, all are vulnerable.

    Parameters
    ----------
    since
        Share of the epochs after which the groups are determined.
    on
        "training" or "validation" data; not the data that the result is judged on.
    estimator
        The estimator of distances, as options spell it.
    samples
        Maximum number of samples of each group.

    References
    ----------
    S. A. Mousavi, H. Mousavi, M. Daneshtalab, "FARMUR: fair adversarial retraining to mitigate unfairness in
    robustness", 2023.
    """

    since: float
    on: str = TRAINING
    estimator: str = "plumb:steps=12"
    samples: int = 200

    def __post_init__(self) -> None:
        parse_estimator(self.estimator)  # refuses a misspelt one now, not after the first phase

    def before_epoch(self, state: State, epoch: int, epochs: int, survey: Survey) -> State:
        """Return the state with the vulnerable groups, from the epoch on in which they are determined."""
        if VULNERABLE in state or epoch < first_epoch_after(self.since, epochs):
            return state
        robustness = survey(self.on, self.estimator, self.samples)
        vulnerable = torch.tensor(robustness < robustness.mean())
        # If all groups are equal, all count as vulnerable, so that the training continues as before.
        return {**state, VULNERABLE: vulnerable if vulnerable.any() else ~vulnerable}


def first_epoch_after(share: float, epochs: int) -> int:
    """Return the first epoch, counted from 0, after this share of all; at least one epoch is before it and one after.

    >>> first_epoch_after(100 / 120, 120), first_epoch_after(100 / 120, 6), first_epoch_after(100 / 120, 2)
    (100, 5, 1)
    """
    return min(max(round(share * epochs), 1), max(epochs - 1, 1))


def members(state: State, among: str, groups: Tensor) -> Tensor:
    """Return a mask of the samples from which a part of a method draws its batches."""
    if among == EVERYONE:
        return torch.ones_like(groups, dtype=torch.bool)
    if among not in (VULNERABLE, ROBUST) or VULNERABLE not in state:
        raise ModelError(
            f"A part of the method is for the samples {among!r}, but its controller did not find them. Use "
            f"{EVERYONE!r}, or {VULNERABLE!r} or {ROBUST!r} with the controller `VulnerableGroups`."
        )
    vulnerable = state[VULNERABLE].to(groups.device)[groups]
    return vulnerable if among == VULNERABLE else ~vulnerable
