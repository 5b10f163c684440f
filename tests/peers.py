"""Other libraries as independent oracles, and their distances measured like ours.

A test that needs a library is skipped where it is missing.
"""

import importlib
import importlib.util
import sys
import types
from contextlib import suppress

import numpy as np
import pytest
import torch

from fairmargin.models.as_classifier import as_classifier


def peer(name):
    """Import "foolbox", "adv_lib.attacks", "torchattacks" or "art.attacks.evasion", or skip the test."""
    _replace_missing_parts()
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"{name} cannot be imported ({error}); `make test` installs it")


def _replace_missing_parts():
    # adv-lib imports torchvision, whose CUDA build lacks an operator beside a CPU torch, and visdom, for plots.
    for operator in ("nms", "qnms"):
        with suppress(RuntimeError):  # a torchvision that fits this torch has the operator already
            torch.library.define(f"torchvision::{operator}", "(Tensor a, Tensor b, float c) -> Tensor")
    if "visdom" not in sys.modules and importlib.util.find_spec("visdom") is None:
        sys.modules["visdom"] = types.ModuleType("visdom")
        sys.modules["visdom"].Visdom = None


def of_inputs(module, x, y, adversarial, norm):
    """Return the distances of a library's inputs; `inf` where the module does not misclassify the input."""
    points = np.asarray(adversarial.detach().numpy())
    lengths = norm.length((points.astype(float) - x).reshape(len(x), -1))
    return np.where(as_classifier(module).predict(points) != y, lengths, np.inf)


def of_foolbox(module, x, y, attack, norm):
    """Return the distances of an attack of foolbox, which returns zeros or the clean input where it fails."""
    model = peer("foolbox").PyTorchModel(module, bounds=(0, 1), device="cpu")
    raw, _, _ = attack(model, torch.tensor(x), torch.tensor(y), epsilons=None)
    failed = (raw.flatten(1) == 0).all(dim=1).numpy()
    return np.where(failed, np.inf, of_inputs(module, x, y, raw, norm))


def assert_as_good(ours, theirs, within=1.0):
    """Assert that all samples that the library reached are reached, at most `within` times as far on average."""
    reached = np.isfinite(theirs)
    assert reached.any()
    assert np.isfinite(ours[reached]).all()
    assert ours[reached].mean() <= within * theirs[reached].mean()
