"""What a method remembers from step to step and from epoch to epoch: weights of groups, which groups are vulnerable."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fairmargin.core.arrays import Floats
from fairmargin.distances.catalog import parse_estimator
from fairmargin.errors import ModelError
from fairmargin.training.aggregates import LOG_WEIGHTS, State
from fairmargin.training.batch import Losses

TRAINING, VALIDATION = "training", "validation"
EVERYONE, VULNERABLE, ROBUST = "everyone", "vulnerable", "robust"

# Which data, by which estimator (as options spell it), on at most how many samples a group → Rob(P) of every group.
Survey = Callable[[str, str, int], Floats]


class Controller(Protocol):
    """Changes the state between steps; a frozen dataclass. States are plain tensors, so that checkpoints hold them."""

    def begin(self, group_count: int) -> State:
        """The state before the first step."""

    def before_epoch(self, state: State, epoch: int, epochs: int, survey: Survey) -> State:
        """The state for an epoch, counted from 0; `survey` measures the network as it is."""

    def after_losses(self, state: State, losses: Losses) -> State:
        """The state for this step, once the losses of the method's first term are known, before they are summed up."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """Remembers nothing."""

    def begin(self, group_count: int) -> State:
        """Empty."""
        return {}

    def before_epoch(self, state: State, epoch: int, epochs: int, survey: Survey) -> State:
        """As it was."""
        return state

    def after_losses(self, state: State, losses: Losses) -> State:
        """As it was."""
        return state


@dataclass(frozen=True, slots=True)
class RaisedWhereWorse:
    """Weights of groups that grow with their loss: q_a ∝ q_a · exp(η L_a), for the groups in the batch.

    Parameters
    ----------
    step
        η; 0 keeps all groups equal.

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
        """Equal weights."""
        return {LOG_WEIGHTS: torch.full((group_count,), -math.log(group_count), dtype=torch.float64)}

    def before_epoch(self, state: State, epoch: int, epochs: int, survey: Survey) -> State:
        """As it was."""
        return state

    def after_losses(self, state: State, losses: Losses) -> State:
        """The weights after this batch."""
        means, counts = losses.by_group()
        # As logarithms: after some thousand steps a weight itself may be 0 to the last bit, and would stay so.
        now = state[LOG_WEIGHTS].to(means.device)
        raised = now + self.step * (means.detach() * (counts > 0)).double()
        return {**state, LOG_WEIGHTS: torch.log_softmax(raised, dim=0)}


@dataclass(frozen=True, slots=True)
class VulnerableGroups:
    """From one epoch on, the groups whose Rob(P) is below Rob(f), the mean over groups; found once, then kept.

    If Rob(P) is the same for all groups, all are vulnerable.

    Parameters
    ----------
    since
        The share of the epochs after which they are looked for.
    on
        "training" or "validation" data: never what the result is judged on.
    estimator
        How distances are measured, as options spell it.
    samples
        Of each group, at most.

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
        parse_estimator(self.estimator)  # a misspelt one is refused now, not after the first phase

    def begin(self, group_count: int) -> State:
        """Not known yet."""
        return {}

    def before_epoch(self, state: State, epoch: int, epochs: int, survey: Survey) -> State:
        """The groups, once it is time."""
        if VULNERABLE in state or epoch < first_epoch_after(self.since, epochs):
            return state
        robustness = survey(self.on, self.estimator, self.samples)
        vulnerable = torch.tensor(robustness < robustness.mean())
        # Where all are alike, all are: training as before beats giving it up.
        return {**state, VULNERABLE: vulnerable if vulnerable.any() else ~vulnerable}

    def after_losses(self, state: State, losses: Losses) -> State:
        """As it was."""
        return state


def first_epoch_after(share: float, epochs: int) -> int:
    """The first epoch, counted from 0, after so large a share of all; at least one is before it and one after.

    >>> first_epoch_after(100 / 120, 120), first_epoch_after(100 / 120, 6), first_epoch_after(100 / 120, 2)
    (100, 5, 1)
    """
    return min(max(round(share * epochs), 1), max(epochs - 1, 1))


def members(state: State, among: str, groups: Tensor) -> Tensor:
    """Which samples a part of a method draws its batches from."""
    if among == EVERYONE:
        return torch.ones_like(groups, dtype=torch.bool)
    if among not in (VULNERABLE, ROBUST) or VULNERABLE not in state:
        raise ModelError(
            f"A part of the method is for the samples {among!r}, but its controller did not find them. Parts are for "
            f"{EVERYONE!r}, or after `VulnerableGroups` for {VULNERABLE!r} and {ROBUST!r}."
        )
    vulnerable = state[VULNERABLE].to(groups.device)[groups]
    return vulnerable if among == VULNERABLE else ~vulnerable
