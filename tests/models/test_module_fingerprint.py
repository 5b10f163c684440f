"""Stored distances are found by fingerprints: they cover everything that determines outputs, and nothing else."""

import inspect
from hashlib import sha256

import numpy as np
import pytest
import torch
from torch import nn

from fairmargin.core.domain import Domain
from fairmargin.distances.measure import measure
from fairmargin.distances.searches.deepfool import DeepFool
from fairmargin.models.architectures.pyramid import PyramidBlock
from fairmargin.models.architectures.resnet import BasicBlock, Bottleneck
from fairmargin.models.architectures.shortcuts import PaddedChannels, Subsampled
from fairmargin.models.architectures.sizing import Unflattened
from fairmargin.models.architectures.wide_resnet import WideBlock
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.loading import load_model
from fairmargin.models.module_fingerprint import _code_of, module_fingerprint
from fairmargin.models.normalized import Normalized
from fairmargin.models.reading.programs import Program
from fairmargin.models.torch_model import from_torch

# If one of these changes on purpose, distances of its networks must be measured again: say so in CHANGELOG.md.
SOURCES = {
    BasicBlock: "39bd13c0d9801eeb",
    Bottleneck: "797ee31a2927d4bb",
    PaddedChannels: "eb513fd7554ff865",
    PyramidBlock: "a48da58daee48ecd",
    Subsampled: "bee01d6fe87c469e",
    Unflattened: "d38b95b8053bcc9e",
    WideBlock: "d67aa80c59b2066b",
}
CODES = {
    Normalized: ("fairmargin.models.normalized.Normalized", "f578407dd06bcfd3"),
    Program: ("fairmargin.models.programs.Program", "45e3abc31b0152d6"),
}


def digest(text):
    return sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize("block", SOURCES)
def test_the_module_and_the_source_of_our_network_classes_never_change(block):
    assert digest(block.__module__ + inspect.getsource(block)) == SOURCES[block]


@pytest.mark.parametrize("kind", CODES)
def test_the_name_and_the_source_of_our_wrapping_classes_never_change(kind):
    name, expected = CODES[kind]
    assert _code_of(kind).startswith(f"{name} ")
    assert digest(_code_of(kind)) == expected


class Warm(nn.Module):
    """A module with a temperature that is neither parameter nor buffer."""

    def __init__(self, temperature=1.0, activation=torch.relu):
        super().__init__()
        self.layer, self.temperature, self.activation = nn.Linear(4, 3), temperature, activation

    def forward(self, x):
        return self.activation(self.layer(x)) / self.temperature


class Scaled(nn.Module):
    """A module that TorchScript can read."""

    def __init__(self, factor: float):
        super().__init__()
        self.layer, self.factor = nn.Linear(2, 2), factor

    def forward(self, x):
        return self.layer(x) * self.factor


def seeded(make, *arguments):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make(*arguments)


def typed(code, name="Typed"):
    """Return a module of a class that was typed at a prompt, whose source cannot be read; `name` is its class."""
    space = {"nn": nn, "torch": torch, "__name__": "prompt"}
    exec(f"class Typed(nn.Linear):\n    def forward(self, x):\n        return {code}", space)
    exec("class Heir(Typed):\n    pass", space)
    return seeded(space[name], 4, 3)


def changed(edit):
    module = seeded(Warm)
    edit(module)
    return from_torch(module).fingerprint()


def test_a_fingerprint_covers_everything_that_determines_the_outputs():
    different = [
        changed(lambda m: None),
        changed(lambda m: m.layer.weight.data.view(-1)[5:6].add_(1e-6)),
        changed(lambda m: m.register_buffer("extra", torch.zeros(1))),
        changed(lambda m: m.register_buffer("extra", torch.ones(1))),
        changed(lambda m: setattr(m, "temperature", 2.0)),
        changed(lambda m: setattr(m, "temperature", torch.tensor(2.0))),
        changed(lambda m: setattr(m, "temperature", torch.tensor(3.0))),
        changed(lambda m: setattr(m, "activation", torch.tanh)),
        changed(lambda m: setattr(m, "activation", lambda x: x)),
        changed(lambda m: setattr(m, "hidden", [nn.Linear(2, 2)])),
        from_torch(seeded(Warm), mean=0.5).fingerprint(),
        from_torch(seeded(Warm), mean=0.25).fingerprint(),
        from_torch(seeded(Warm), mean=0.5, std=0.5).fingerprint(),
        from_torch(seeded(Warm), classes=("a", "b", "c")).fingerprint(),
        from_torch(seeded(Warm), domain=Domain(-1, 1)).fingerprint(),
        *(
            from_torch(typed(f"super().forward(x) * {factor}", name)).fingerprint()
            for factor in (1, 2)
            for name in ("Typed", "Heir")  # an inherited forward counts, too
        ),
    ]
    assert len(set(different)) == len(different)


def test_a_fingerprint_does_not_depend_on_modes_gradients_hooks_or_use():
    model = from_torch(seeded(Warm))
    before = model.fingerprint()
    assert from_torch(seeded(Warm)).fingerprint() == before
    model.module.eval()
    model.module.layer.weight.grad = torch.ones(3, 4)
    model.module.register_forward_hook(lambda *_: None)
    model.module.requires_grad_(False)
    measure(model, np.full((3, 4), 0.5), [0, 1, 2], DeepFool(steps=2))
    assert model.fingerprint() == before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_modules_are_distinguished_by_their_programs():
    first, again, second = (module_fingerprint(torch.jit.script(seeded(Scaled, factor))) for factor in (2.0, 2.0, 3.0))
    assert first == again != second


def test_a_module_that_refers_to_its_parent_has_a_fingerprint():
    module = seeded(Warm)
    module.layer.parent = [module]
    assert module_fingerprint(module) == module_fingerprint(module)


NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x)

def make():
    torch.manual_seed(0)
    return Net()
"""


def test_a_user_s_file_may_be_moved_but_not_edited(tmp_path):
    def fingerprint(name, code=NET):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "net.py").write_text(code)
        return as_classifier(load_model(f"{folder}/net.py:make")).fingerprint()

    here, there, edited = (
        fingerprint("a"),
        fingerprint("b"),
        fingerprint("c", NET.replace("return self", "return 2 * self")),
    )
    assert here == there != edited
