"""Small networks and the digits they were trained on, and networks made of a formula."""

from functools import cache

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from fairmargin.models.network import Network

# Threads of networks this small mostly wait for each other, above all when tests run side by side.
torch.set_num_threads(1)


def formula(scores, features=1, tile=8, low=-torch.inf, high=torch.inf, scale=1.0):
    """A `Network` in double precision whose scores are what the function of the rows says."""
    ones = torch.ones(features, dtype=torch.float64)

    def asked(rows):
        assert rows.shape == (tile, features), "the model saw something other than a full tile"
        return scores(rows)

    def plain(rows):
        with torch.no_grad():
            return asked(rows)

    with torch.random.fork_rng():
        classes = plain(torch.zeros(tile, features, dtype=torch.float64)).shape[1]
    return Network(asked, plain, classes, tile, low * ones, high * ones, scale * ones)


def by_margin(margin):
    """Scores of two classes whose difference is that function of the rows; class 0 where it is not negative."""
    return lambda rows: torch.stack([margin(rows), torch.zeros(len(rows), dtype=rows.dtype)], dim=1)


@cache
def digits():
    """Pixels in [0, 1] of shape (1, 8, 8), and the digits."""
    pixels, digit = load_digits(return_X_y=True)
    return (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8), digit


def test_digits(count):
    """The first digits that no network here was trained on."""
    x, y = digits()
    return x[1200 : 1200 + count], y[1200 : 1200 + count]


test_digits.__test__ = False


@cache
def cnn(norm=False, epochs=4):
    """Two convolutions, with batch normalisation on demand, about 95 % right; quick to make without epochs."""
    return _trained(
        lambda: nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            *([nn.BatchNorm2d(8)] if norm else []),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, padding=1),
            *([nn.BatchNorm2d(16)] if norm else []),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.1),
            nn.Linear(256, 10),
        ),
        epochs=epochs,
    )


@cache
def mlp(epochs=12):
    """Two hidden layers, one of them smooth."""
    return _trained(
        lambda: nn.Sequential(
            nn.Flatten(), nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 10)
        ),
        epochs=epochs,
    )


def relu_mlp(epochs=12):
    """The same without the smooth layer: what can be proven layer by layer."""
    return _trained(
        lambda: nn.Sequential(
            nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 10)
        ),
        epochs=epochs,
    )


def _trained(make, epochs):
    x, y = (torch.tensor(part[:1200]) for part in digits())
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = make()
        optimiser = torch.optim.Adam(module.parameters(), lr=1e-2)
        for _ in range(epochs):
            for batch in torch.randperm(len(x)).split(100):
                optimiser.zero_grad()
                nn.functional.cross_entropy(module(x[batch]), y[batch]).backward()
                optimiser.step()
    for parameter in module.parameters():
        parameter.grad = None
    return module.eval()
