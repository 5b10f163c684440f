"""Models with known distances, and a function that attacks them."""

import numpy as np
import torch
from torch import nn

from fairmargin.core.domain import Domain
from fairmargin.core.keys import sample_keys
from fairmargin.core.norm import Norm
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.oracles import projection_distance


def run(attack, model, x, y, radius, seed=0):
    """Run an attack with the keys of `sample_keys`."""
    return attack(model, x, y, radius=radius, keys=sample_keys(x, y, seed))


def half_space(seed=0, samples=30, features=6, domain=None):
    """Return a linear model of two classes, samples, its predictions as labels, and a function of exact distances."""
    rng = np.random.default_rng(seed)
    weight, bias = rng.normal(size=features), 0.3
    model = LinearClassifier(np.vstack([np.zeros(features), weight]), [0.0, bias], domain=domain)
    x = rng.normal(size=(samples, features))

    def distances(norm: Norm):
        return np.array([projection_distance(weight, bias, row, norm) for row in x])

    return model, x, model.predict(x), distances


class Confident(nn.Module):
    """Linear model of two classes so confident that its cross-entropy and the gradient of it are 0."""

    def __init__(self, weight, factor=1e5):
        super().__init__()
        self.weight, self.factor = nn.Parameter(torch.tensor(weight, dtype=torch.float32)), factor

    def forward(self, x):
        side = self.factor * (x.flatten(1) @ self.weight)
        return torch.stack([side, -side], dim=1)


def confident(seed=0, features=5, samples=20):
    """Return the model, samples with its predictions as labels, and their L∞ distances."""
    rng = np.random.default_rng(seed)
    weight, x = rng.normal(size=features), rng.normal(size=(samples, features)).astype(np.float32)
    model = as_classifier(Confident(weight), classes=range(2), domain=Domain())
    return model, x, model.predict(x), np.abs(x @ weight) / np.abs(weight).sum()
