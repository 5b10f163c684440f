"""A network without gradients in one half of the input space, and samples in both halves."""

import numpy as np
import torch
from torch import nn

from fairmargin.core.partition import Partition
from fairmargin.models.as_classifier import as_classifier


class HalfSaturated(nn.Module):
    """Network with the boundary x₁ + x₂ = 1, whose scores have no gradient beside it where x₀ > 0.5."""

    def __init__(self, sharpness=400.0):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.layer.weight = nn.Parameter(torch.tensor([[-1.0, -1.0], [1.0, 1.0]]))
        self.layer.bias = nn.Parameter(torch.tensor([1.0, -1.0]))
        self.sharpness = sharpness

    def forward(self, x):
        scores = self.layer(x[:, 1:])
        return torch.where(x[:, :1] > 0.5, torch.tanh(self.sharpness * scores), scores)


def problem(count=160, seed=0, sharpness=400.0):
    """Return the network, samples of three features, its predictions as labels, and the half of each sample."""
    model = as_classifier(HalfSaturated(sharpness), bounds=(0, 1))
    x = np.random.default_rng(seed).uniform(0, 1, size=(count, 3)).astype(np.float32)
    # x₀ lies far from the middle, so that no sample reaches the other half before the boundary.
    x[:, 0] = np.where(x[:, 0] > 0.5, 1.0, 0.0)
    return model, x, model.predict(x), Partition.by("half", np.where(x[:, 0] > 0.5, "masked", "plain"))
