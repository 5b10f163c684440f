"""Torch modules that are functions, alone or before or after another network."""

from torch import nn


class Formula(nn.Module):
    """A module that applies a function to its input."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def then(network, function):
    """Return a network whose output a function changes."""
    return nn.Sequential(network, Formula(function))


def before(function, network):
    """Return a network whose input a function changes."""
    return nn.Sequential(Formula(function), network)
