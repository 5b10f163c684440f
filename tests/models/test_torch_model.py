import copy
import hashlib
import random
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fairmargin.core.domain import Domain
from fairmargin.distances.measure import measure, measure_shard
from fairmargin.distances.proxies.first_order import FirstOrder
from fairmargin.distances.searches.deepfool import DeepFool
from fairmargin.errors import ModelError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.probe import probed
from fairmargin.training.loop.reproducibility import threads
from tests.models.modules import Formula
from tests.perturbation.networks import cnn, mlp, test_digits

X, Y = test_digits(70)


class Layered(nn.Module):
    """A module with every layer that behaves differently in training and in evaluation mode."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten())
        self.head = nn.Linear(144, 10)
        self.fails = False

    def forward(self, x):
        if self.fails:
            raise KeyError("inside")
        return self.head(self.body(x))


def in_mixed_state():
    """Return a module half in training mode, with one frozen parameter and one gradient, and seed everything."""
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    module = Layered().train()
    module.body[1].eval()
    module.head.bias.requires_grad_(False)
    module.head.weight.grad = torch.ones_like(module.head.weight)
    return module


def state_of(module):
    """Return everything that measuring must leave unchanged, as values that can be compared."""
    tensors = {name: tensor.tolist() for name, tensor in module.state_dict().items()}
    gradients = [(p.requires_grad, None if p.grad is None else p.grad.tolist()) for p in module.parameters()]
    modes = [part.training for part in module.modules()]
    seeds = torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()
    return tensors, gradients, modes, seeds, torch.is_grad_enabled()


@pytest.mark.parametrize("around", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    "use", [lambda model: model.predict(X), lambda model: measure(model, X[:20], Y[:20], DeepFool(steps=3))]
)
def test_leaves_modes_parameters_gradients_buffers_and_random_states_unchanged(use, fails, around):
    module = in_mixed_state()
    module.fails = fails
    with around():
        before = state_of(module)
        with pytest.raises(ModelError, match="KeyError: 'inside'") if fails else nullcontext():
            use(as_classifier(module))
        assert state_of(module) == before


def test_predicts_what_the_module_returns_in_evaluation_mode():
    expected = cnn(norm=True)(torch.tensor(X)).argmax(dim=1).numpy()
    np.testing.assert_array_equal(as_classifier(cnn(norm=True)).predict(X), expected)
    module = copy.deepcopy(cnn(norm=True)).train()
    np.testing.assert_array_equal(as_classifier(module).predict(X), expected)
    found = measure(module, X[:10], Y[:10], DeepFool(steps=3))
    np.testing.assert_array_equal(found.values, measure(cnn(norm=True), X[:10], Y[:10], DeepFool(steps=3)).values)


def test_calls_the_user_s_hooks_and_keeps_them():
    module, seen = copy.deepcopy(cnn()), []
    handle = module.register_forward_hook(lambda *_: seen.append(1))
    as_classifier(module).predict(X[:1])
    assert seen
    assert handle.id in module._forward_hooks


@pytest.mark.parametrize(
    ("module", "classes"),
    [
        (nn.Linear(3, 4), 4),
        (nn.Sequential(nn.Linear(3, 9), nn.ReLU(), nn.Linear(9, 2), nn.Dropout()), 2),
        (nn.Sequential(nn.Conv2d(3, 7, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()), 7),
    ],
)
def test_the_last_layer_says_how_many_classes_there_are(module, classes):
    assert as_classifier(module).classes == tuple(range(classes))


def test_a_module_without_layers_needs_its_classes_named():
    module = Formula(lambda x: torch.stack([1 - x.flatten(1).sum(1), x.flatten(1).sum(1)], 1))
    model = as_classifier(module, classes=("light", "heavy"))
    assert model.predict(np.array([[0.0, 0.1], [0.9, 0.9]])).tolist() == [0, 1]
    found = measure(model, np.array([[0.1, 0.1], [0.9, 0.9]]), ["light", "heavy"], DeepFool())
    np.testing.assert_allclose(found.values, [0.3 / 2**0.5, 1.3 / 2**0.5], rtol=1e-3)


def test_normalising_inside_is_normalising_by_hand_and_distances_stay_in_pixels():
    module, mean, std = mlp(), 0.3, 0.5
    inside = as_classifier(module, mean=mean, std=std)
    by_hand = as_classifier(module, domain=Domain((0 - mean) / std, (1 - mean) / std))
    changed = ((X - np.float32(mean)) / np.float32(std)).astype(np.float32)
    np.testing.assert_array_equal(inside.predict(X), by_hand.predict(changed))
    y = inside.predict(X)
    pixels, units = (measure(model, x, y, DeepFool()).values for model, x in ((inside, X), (by_hand, changed)))
    np.testing.assert_allclose(pixels, units * std, rtol=5e-3)


def test_one_of_mean_and_std_may_be_left_out():
    only_mean, only_std = as_classifier(mlp(), mean=0.5), as_classifier(mlp(), std=0.5)
    np.testing.assert_array_equal(only_mean.predict(X), as_classifier(mlp(), mean=0.5, std=1.0).predict(X))
    np.testing.assert_array_equal(only_std.predict(X), as_classifier(mlp(), mean=0.0, std=0.5).predict(X))


def test_a_module_on_the_device_is_not_copied_and_its_domain_can_be_replaced():
    for device in ("cpu", torch.device("cpu"), None):
        assert as_classifier(cnn(), device=device).module is cnn()
    model = as_classifier(as_classifier(cnn()), domain=Domain(-1, 2))
    assert (model.domain.low, model.domain.high, model.module) == (-1, 2, cnn())


def test_predictions_and_distances_hardly_depend_on_the_tile():
    models = [as_classifier(cnn(norm=True), tile=tile) for tile in (16, 64, 1)]
    first, *others = [(model.predict(X), measure(model, X, Y, DeepFool(steps=5)).values) for model in models]
    for predictions, values in others:
        np.testing.assert_array_equal(predictions, first[0])
        assert np.median(np.abs(values - first[1])) < 1e-6


def test_the_module_only_ever_sees_full_tiles_once_it_is_checked():
    sizes = set()
    model = as_classifier(Formula(lambda x: sizes.add(len(x)) or x.flatten(1)[:, :10]), classes=range(10), tile=16)
    for count in (1, 15, 16, 17, 50):
        assert len(model.predict(X[:count])) == count
    assert sizes == {16}
    checked = probed(model, X).model
    sizes.clear()
    measure_shard(checked, DeepFool(steps=3), X[:21], Y[:21])
    assert sizes == {16}


@pytest.mark.parametrize("kind", [np.float64, np.float16, np.int64, np.uint8, bool, ">f4", object], ids=str)
def test_samples_may_have_any_numeric_type(kind):
    x = X.round().astype(kind)
    np.testing.assert_array_equal(as_classifier(cnn()).predict(x), as_classifier(cnn()).predict(X.round()))
    found = measure(cnn(), x[:5], Y[:5], DeepFool(steps=2)).values
    np.testing.assert_array_equal(found, measure(cnn(), X[:5].round(), Y[:5], DeepFool(steps=2)).values)


def bits(*estimators):
    """Return hashes of the distances of a network with batch normalisation, one per estimator."""
    module, (x, _) = cnn(norm=True, epochs=0), test_digits(24)
    y = as_classifier(module).predict(x)
    return [hashlib.sha256(measure(module, x, y, each).values.tobytes()).hexdigest() for each in estimators]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_predictions_never_modify_the_samples(kind):
    module = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 3)).to(torch.tensor(kind(0)).dtype)
    x = np.full((64, 4), -1.0, kind)
    as_classifier(module).predict(x)
    assert (x == -1).all()


def test_a_fresh_process_gives_the_same_bits():
    code = (
        "import torch; from tests.models.test_torch_model import DeepFool, bits; torch.set_num_threads(1); "
        "print(*bits(DeepFool('l2', steps=10), DeepFool('linf', steps=10)))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.split() == bits(DeepFool("l2", steps=10), DeepFool("linf", steps=10))


def test_any_number_of_threads_gives_the_same_bits():
    found = []
    for count in (1, 2):
        with threads(count):  # on a busy machine threads are slow: few steps
            found.append(bits(DeepFool(steps=1, rivals=1, published=True), FirstOrder()))
    assert found[0] == found[1]


def test_a_copy_with_another_module_searches_with_that_module():
    first = as_classifier(mlp())
    with first.network((1, 8, 8)):
        pass
    other = replace(first, module=mlp(epochs=1))
    with other.network((1, 8, 8)) as network:
        rows = torch.tensor(X[:64]).flatten(1)
        assert torch.equal(network.scores(rows), network.plain(rows))


class _HalfInside(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3).half()

    def forward(self, x):
        return self.inner(x.half()).float()


@pytest.mark.parametrize("module", [_HalfInside(), nn.Linear(4, 3).half(), nn.Linear(4, 3).bfloat16()])
def test_a_network_of_half_precision_names_its_precision(module):
    model = as_classifier(module, classes=range(3))
    x = np.random.default_rng(0).random((8, 4)).astype(np.float32)
    with pytest.raises(ModelError, match=r"parameters are b?float16, .* Convert it by `.float\(\)`"):
        measure(model, x, np.zeros(8, int), DeepFool(), progress=False)
