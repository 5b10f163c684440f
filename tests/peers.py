"""The libraries that we are compared with, as independent oracles; tests that need one skip where it is missing."""

import importlib
import importlib.util
import sys
import types
from contextlib import suppress

import pytest
import torch


def peer(name):
    """The module of that name: "foolbox", "adv_lib.attacks", "torchattacks", "art.attacks.evasion"."""
    _guard()
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"{name} does not import here ({error}); `make test` installs it")


def _guard():
    """adv-lib imports torchvision, whose CUDA build lacks an operator beside a CPU torch, and visdom, for plots."""
    for operator in ("nms", "qnms"):
        with suppress(RuntimeError):  # a torchvision that fits has it already
            torch.library.define(f"torchvision::{operator}", "(Tensor a, Tensor b, float c) -> Tensor")
    if "visdom" not in sys.modules and importlib.util.find_spec("visdom") is None:
        sys.modules["visdom"] = types.ModuleType("visdom")
        sys.modules["visdom"].Visdom = None
