"""The common start of all gradient-based estimators."""

import warnings

import numpy as np
import torch
from torch import nn

from fairmargin.distances.gradient_search import started
from fairmargin.models.torch_model import from_torch


def test_numbers_too_large_for_single_precision_become_infinity_without_a_warning():
    model = from_torch(nn.Sequential(nn.Linear(2, 3), nn.Hardtanh()), device="cpu")
    x = np.array([[1e300, 0.5], [0.5, 0.5]])
    with warnings.catch_warnings(), model.network((2,)) as network:
        warnings.simplefilter("error")
        found = started(network, x, np.array([0, 1]))
    assert torch.isinf(found.x[0, 0])
    assert torch.isfinite(found.x[1]).all()
