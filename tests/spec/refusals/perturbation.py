"""What `fairmargin.perturbation` refuses."""

import torch

from fairmargin.core.norm import Norm
from fairmargin.errors import ModelError
from fairmargin.perturbation.balls import Ball
from fairmargin.perturbation.margins import slopes
from tests.perturbation.networks import formula
from tests.spec.refusals import Refusal


def sloped(score):
    """Return the slopes of a network whose scores are a function of the input and its negative."""
    network, zero = formula(lambda rows: torch.cat([score(rows), -score(rows)], 1), tile=2), torch.tensor([0, 0])
    return list(slopes(network, torch.ones(2, 1).double(), zero, torch.tensor([[1], [1]])))


REFUSALS = [
    Refusal(lambda _: Ball.around(torch.zeros(1, 2), Norm.L1, 1.0), "must be L2 or L∞; given L1"),
    Refusal(lambda _: sloped(lambda rows: rows.detach()), "have no gradient with respect", error=ModelError),
    Refusal(lambda _: sloped(torch.ones_like), "or does not depend on its inputs", error=ModelError),
]
