"""Multinomial logistic regression: the model whose distances are known exactly."""

import math

from torch import nn

from fairmargin.models.architectures.shape import Shape


def logistic(shape: Shape, classes: int) -> nn.Module:
    """Build one linear layer on the flattened sample, of any shape (Nanda 2021, the first model of its experiments).

    >>> logistic((3, 32, 32), 10)
    Sequential(
      (flatten): Flatten(start_dim=1, end_dim=-1)
      (linear): Linear(in_features=3072, out_features=10, bias=True)
    )
    """
    network = nn.Sequential()
    network.add_module("flatten", nn.Flatten())
    network.add_module("linear", nn.Linear(math.prod(shape), classes))
    return network
