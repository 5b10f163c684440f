"""Small networks trained on digits, and networks defined by a formula."""

from functools import cache

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from fairmargin.models.network import Network

# Small networks are faster with one thread, in particular when several test processes run.
torch.set_num_threads(1)


def formula(scores, features=1, tile=8, low=-torch.inf, high=torch.inf, scale=1.0):
    """Return a `Network` in double precision whose scores are a function of the rows."""
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
    """Return a network of two classes whose margin is a function of the rows; class 0 where it is not negative."""
    return lambda rows: torch.stack([margin(rows), torch.zeros(len(rows), dtype=rows.dtype)], dim=1)


@cache
def digits():
    """Return images of shape (1, 8, 8) with pixels in [0, 1], and their labels."""
    pixels, digit = load_digits(return_X_y=True)
    return (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8), digit


def test_digits(count):
    """Return the first `count` images of the test set and their labels."""
    x, y = digits()
    return x[1200 : 1200 + count], y[1200 : 1200 + count]


test_digits.__test__ = False


@cache
def cnn(norm=False, epochs=4):
    """Return a network with two convolutions and optional batch normalisation, with an accuracy of about 95 %."""
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
    """Return a network with two hidden layers, one of them with a smooth activation."""
    return _trained(
        lambda: nn.Sequential(
            nn.Flatten(), nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 10)
        ),
        epochs=epochs,
    )


def relu_mlp(epochs=12):
    """Return a network with ReLU layers only, whose values can be bounded layer by layer."""
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
