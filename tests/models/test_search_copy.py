import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fairmargin.distances.measure import measure
from fairmargin.distances.searches.deepfool import DeepFool
from fairmargin.errors import ModelError
from fairmargin.models import torch_model
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.normalized import Normalized
from fairmargin.models.search_copy import ORIGINAL, SearchCopy, copied, folded
from fairmargin.perturbation.closest import Closest
from fairmargin.training.loop.reproducibility import threads

SHARED = Path(__file__).parents[3] / "shared"
FOLD, LAST, BOTH = SearchCopy(fold=True), SearchCopy(channels_last=True), SearchCopy(fold=True, channels_last=True)
X = np.random.default_rng(0).random((70, 3, 8, 8), dtype=np.float32)


@pytest.fixture(autouse=True)
def one_thread():
    """Use one thread: small networks are faster with it on a busy machine."""
    with threads(1):
        yield


def lively(module, seed=0):
    """Set statistics as after training: folding a new BatchNorm would change nothing."""
    generator = torch.Generator().manual_seed(seed)
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            for tensor in (part.running_mean, part.running_var, part.weight, part.bias):
                if tensor is not None:
                    tensor.data.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
    return module


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)) + x)


def residual(seed=0):
    torch.manual_seed(seed)
    parts = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), Block(8), nn.AvgPool2d(2), Block(8)]
    return lively(nn.Sequential(*parts, nn.Flatten(), nn.Linear(128, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 4)))


def scores(module, x):
    with torch.no_grad():
        return module(torch.as_tensor(x))


@pytest.mark.parametrize("way", [FOLD, LAST, BOTH])
@pytest.mark.parametrize("wrap", [lambda net: net, lambda net: Normalized(net, (0.4, 0.5, 0.6), (0.2, 0.3, 0.4))])
def test_a_faster_copy_gives_the_same_scores(way, wrap):
    net = wrap(residual()).eval()
    assert torch.allclose(scores(copied(net, way), X), scores(net, X), atol=1e-5)


def test_folding_removes_batch_norm_and_channels_last_changes_the_memory_format():
    copy = copied(residual(), BOTH)
    assert not [part for part in copy.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    convolutions = [part for part in copy.modules() if isinstance(part, nn.Conv2d)]
    assert len(convolutions) == 3
    assert all(part.weight.is_contiguous(memory_format=torch.channels_last) for part in convolutions)


@pytest.mark.parametrize("use", [FOLD, LAST, BOTH, "choice"])
def test_the_module_and_the_random_state_are_unchanged(use):
    net = residual().train()
    net(torch.as_tensor(X)).sum().backward()
    lively(net)
    before = {name: part.clone() for name, part in net.state_dict().items()}
    parameters = [(part.stride(), part.requires_grad, part.grad.clone()) for part in net.parameters()]
    state = torch.get_rng_state()
    if use == "choice":
        assert as_classifier(net).search_copy((3, 8, 8)) == BOTH
    else:
        scores(copied(net, use), X)
    assert all(part.training for part in net.modules())
    assert all(torch.equal(part, before[name]) for name, part in net.state_dict().items())
    for part, (stride, required, gradient) in zip(net.parameters(), parameters, strict=True):
        assert (part.stride(), part.requires_grad) == (stride, required)
        assert torch.equal(part.grad, gradient)
    assert torch.equal(torch.get_rng_state(), state)


class SharedLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(3), nn.BatchNorm2d(3)])

    def forward(self, x):
        return self.norms[1](self.conv(self.norms[0](self.conv(x))))


class ReadLayer(nn.Sequential):
    def forward(self, x):
        return super().forward(x) + self[0].weight.sum()


class TwiceUsed(nn.Sequential):
    def forward(self, x):
        before = self[0](x)
        return self[1](before) + before


def hooked():
    net = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))
    net[0].register_forward_hook(lambda module, given, result: result * 2)
    return net


CONV, NORM = partial(nn.Conv2d, 3, 3, 1), partial(nn.BatchNorm2d, 3)


@pytest.mark.parametrize(
    "make",
    [
        SharedLayer,
        lambda: ReadLayer(CONV(), NORM()),
        lambda: TwiceUsed(CONV(), NORM()),
        hooked,
        lambda: nn.Sequential(CONV(), NORM(track_running_stats=False)),
        lambda: nn.Sequential(NORM(), CONV()),
        lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(CONV()), NORM()),
    ],
)
def test_folds_only_where_that_is_right(make):
    with pytest.raises(ModelError, match="no BatchNorm follows"):
        folded(lively(make()).eval())


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.Linear(192, 3)

    def forward(self, x):
        x = self.norm(self.conv(x))
        return self.last((x if x.sum() > 0 else -x).flatten(1))


class Viewing(nn.Module):
    """A module that assumes a memory format."""

    def __init__(self):
        super().__init__()
        self.conv, self.last = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(256, 3)

    def forward(self, x):
        return self.last(self.conv(x).view(len(x), -1))


class Dropping(nn.Module):
    """A module that draws a random number in each call; tracing would make the first one a constant."""

    def forward(self, x):
        return x * (1 + float(torch.rand(())))


@pytest.mark.parametrize(
    ("make", "shape", "expected"),
    [
        (residual, (3, 8, 8), BOTH),
        (lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, 3)), (1, 8, 8), ORIGINAL),
        (lambda: lively(nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))), (64,), FOLD),
        (lambda: nn.Linear(64, 3), (64,), ORIGINAL),
        (lambda: residual().double(), (3, 8, 8), ORIGINAL),
        (Branching, (3, 8, 8), LAST),
        (Viewing, (3, 8, 8), ORIGINAL),
        (lambda: nn.Sequential(residual(), Dropping()), (3, 8, 8), ORIGINAL),
        (lambda: nn.Sequential(hooked(), nn.Flatten(), nn.Linear(192, 3)), (3, 8, 8), LAST),
    ],
)
def test_the_copy_follows_from_a_rule_and_is_the_original_where_it_is_impossible_or_wrong(make, shape, expected):
    torch.manual_seed(0)
    model = as_classifier(make())
    assert model.search_copy(shape) == expected
    assert model.search_copy(shape) == expected  # as kept


@pytest.mark.parametrize("last", [nn.Linear(4, 1), nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=1))])
def test_a_network_with_one_output_or_probabilities_is_searched_by_a_copy_too(last):
    model = as_classifier(nn.Sequential(residual(), last)).with_outputs_for(X)
    assert model.search_copy((3, 8, 8)) == BOTH


def test_predictions_make_no_copy(monkeypatch):
    monkeypatch.setattr(torch_model, "chosen", None)
    assert len(as_classifier(residual()).predict(X)) == len(X)


def test_another_process_makes_the_copy_that_was_chosen_here(monkeypatch):
    model = as_classifier(residual())
    chosen_here = model.search_copy((3, 8, 8))
    there = pickle.loads(pickle.dumps(model))
    monkeypatch.setattr(torch_model, "chosen", None)
    assert there.search_copy((3, 8, 8)) == chosen_here == BOTH
    with there.network((3, 8, 8)) as network:
        rows = torch.as_tensor(np.resize(X, (network.tile, *X.shape[1:]))).flatten(1)
        found = network.scores(rows)
    with model.network((3, 8, 8)) as network:
        assert torch.equal(network.scores(rows), found)


def test_inputs_found_with_a_faster_copy_fool_the_module_itself_and_do_not_depend_on_the_batch(monkeypatch):
    model, kept, of = as_classifier(residual()), [], Closest.of
    monkeypatch.setattr(Closest, "of", lambda *given: kept.append(of(*given)) or kept[-1])
    y = model.predict(X)
    values = measure(model, X, y, DeepFool(steps=8)).values
    found = np.isfinite(values)
    assert found.sum() > 20
    points = kept[0].point.numpy().reshape(X.shape)
    assert (model.predict(points)[found] != y[found]).all()
    np.testing.assert_allclose(
        np.linalg.norm((points - X).reshape(len(X), -1), axis=1)[found], values[found], rtol=1e-5
    )
    order = np.random.default_rng(1).permutation(len(X))
    np.testing.assert_array_equal(measure(model, X[order], y[order], DeepFool(steps=8)).values, values[order])
    assert measure(model, X[17:18], y[17:18], DeepFool(steps=8)).values == values[17]


def test_a_copy_that_is_wrong_finds_no_false_distances(monkeypatch):
    right = as_classifier(residual())
    y = right.predict(X[:20])
    truth = measure(right, X[:20], y, DeepFool(steps=20)).values
    wrong = residual(seed=5).eval()
    monkeypatch.setattr(torch_model, "chosen", lambda *_: (FOLD, wrong))
    found = measure(as_classifier(residual()), X[:20], y, DeepFool(steps=20)).values
    assert not np.array_equal(found, truth)
    assert (found > 0.3 * truth).all()
    assert (found[np.isfinite(found)] > 0).all()
