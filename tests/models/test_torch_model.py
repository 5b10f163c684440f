import copy
import hashlib
import random
import subprocess
import sys
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
from fairmargin.errors import InputError, ModelError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.probe import probed
from tests.perturbation.networks import cnn, mlp, test_digits

X, Y = test_digits(70)


class Shaped(nn.Module):
    """Scores of whatever shape the function of the inputs gives them."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Layered(nn.Module):
    """One of everything whose behaviour differs between training and evaluation."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten())
        self.head = nn.Linear(144, 10)
        self.fails = False

    def forward(self, x):
        if self.fails:
            raise KeyError("inside")
        return self.head(self.body(x))


def state_of(module):
    """Everything of a module and of the world that measuring must leave alone."""
    tensors = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    wishes = [(p.requires_grad, None if p.grad is None else p.grad.clone()) for p in module.parameters()]
    modes = [part.training for part in module.modules()]
    return tensors, wishes, modes, torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()


def assert_same_state(before, after):
    for name, tensor in before[0].items():
        assert torch.equal(tensor, after[0][name]), name
    for (wish, grad), (wish_after, grad_after) in zip(before[1], after[1], strict=True):
        assert wish == wish_after
        assert (grad is None and grad_after is None) or torch.equal(grad, grad_after)
    assert before[2] == after[2]
    assert torch.equal(before[3], after[3])
    np.testing.assert_array_equal(before[4], after[4])
    assert before[5] == after[5]


def in_mixed_state():
    """A module half in training mode, with one frozen parameter and one gradient, in a world with seeds."""
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    module = Layered().train()
    module.body[1].eval()
    module.head.bias.requires_grad_(False)
    module.head.weight.grad = torch.ones_like(module.head.weight)
    return module


def test_predicts_what_the_module_says_in_evaluation_mode():
    module = cnn(norm=True)
    with torch.no_grad():
        expected = module(torch.tensor(X)).argmax(dim=1).numpy()
    np.testing.assert_array_equal(as_classifier(module).predict(X), expected)


def test_a_module_left_in_training_mode_is_asked_in_evaluation_mode():
    module = copy.deepcopy(cnn(norm=True)).train()
    np.testing.assert_array_equal(as_classifier(module).predict(X), as_classifier(cnn(norm=True)).predict(X))
    found = measure(module, X[:10], Y[:10], DeepFool(steps=3))
    np.testing.assert_array_equal(found.values, measure(cnn(norm=True), X[:10], Y[:10], DeepFool(steps=3)).values)
    assert module.training


@pytest.mark.parametrize("ask", ["predict", "measure", "inference mode", "no grad"])
def test_leaves_modes_parameters_gradients_buffers_and_random_states_as_they_were(ask):
    module = in_mixed_state()
    before = state_of(module)
    if ask == "predict":
        as_classifier(module).predict(X)
    elif ask == "measure":
        measure(module, X[:20], Y[:20], DeepFool(steps=3))
    else:
        with torch.inference_mode() if ask == "inference mode" else torch.no_grad():
            measure(module, X[:20], Y[:20], DeepFool(steps=3))
            assert not torch.is_grad_enabled()
    assert_same_state(before, state_of(module))


@pytest.mark.parametrize("ask", [lambda model: model.predict(X), lambda model: measure(model, X, Y, DeepFool())])
def test_leaves_everything_as_it_was_after_an_exception_inside_the_module(ask):
    module = in_mixed_state()
    module.fails = True
    before = state_of(module)
    with pytest.raises(ModelError, match="KeyError: 'inside'"):
        ask(as_classifier(module))
    assert_same_state(before, state_of(module))


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
    module = Shaped(lambda x: torch.stack([1 - x.flatten(1).sum(1), x.flatten(1).sum(1)], 1))
    with pytest.raises(ModelError, match=r"Cannot tell how many classes `Shaped` has.*classes=range"):
        as_classifier(module)
    model = as_classifier(module, classes=("light", "heavy"))
    assert model.predict(np.array([[0.0, 0.1], [0.9, 0.9]])).tolist() == [0, 1]
    found = measure(model, np.array([[0.1, 0.1], [0.9, 0.9]]), ["light", "heavy"], DeepFool())
    np.testing.assert_allclose(found.values, [0.3 / 2**0.5, 1.3 / 2**0.5], rtol=1e-3)


def test_labels_may_have_names():
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    model = as_classifier(cnn(), classes=names)
    found = measure(model, X[:20], np.array(names)[Y[:20]], DeepFool(steps=3))
    np.testing.assert_array_equal(found.values, measure(cnn(), X[:20], Y[:20], DeepFool(steps=3)).values)
    with pytest.raises(InputError, match="not among the model's classes"):
        measure(model, X[:20], Y[:20], DeepFool())


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


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu"), None])
def test_a_module_that_is_there_already_is_not_copied(device):
    assert as_classifier(cnn(), device=device).module is cnn()


def test_predictions_and_distances_hardly_depend_on_the_tile():
    models = [as_classifier(cnn(norm=True), tile=tile) for tile in (16, 64, 1)]
    first, *others = [(model.predict(X), measure(model, X, Y, DeepFool(steps=5)).values) for model in models]
    for predictions, values in others:
        np.testing.assert_array_equal(predictions, first[0])
        assert np.median(np.abs(values - first[1])) < 1e-6


def test_the_module_only_ever_sees_full_tiles_once_it_is_checked():
    sizes = set()
    model = as_classifier(Shaped(lambda x: sizes.add(len(x)) or x.flatten(1)[:, :10]), classes=range(10), tile=16)
    for count in (1, 15, 16, 17, 50):
        assert len(model.predict(X[:count])) == count
    assert sizes == {16}
    checked = probed(model, X).model
    sizes.clear()
    measure_shard(checked, DeepFool(steps=3), X[:21], Y[:21])
    assert sizes == {16}


@pytest.mark.parametrize("kind", [np.float64, np.float16, np.int64, np.uint8, bool, ">f4", object], ids=str)
def test_any_kind_of_number_will_do(kind):
    x = X.round().astype(kind)
    np.testing.assert_array_equal(as_classifier(cnn()).predict(x), as_classifier(cnn()).predict(X.round()))
    found = measure(cnn(), x[:5], Y[:5], DeepFool(steps=2)).values
    np.testing.assert_array_equal(found, measure(cnn(), X[:5].round(), Y[:5], DeepFool(steps=2)).values)


def test_another_domain_for_the_same_module():
    model = as_classifier(as_classifier(cnn()), domain=Domain(-1, 2))
    assert (model.domain.low, model.domain.high, model.module) == (-1, 2, cnn())


def test_domains_with_limits_and_scales_of_each_feature_are_understood():
    low, high, scale = np.zeros((1, 8, 8)), np.ones((1, 8, 8)), np.ones((1, 8, 8))
    scale[0, :4] = 0  # the upper half cannot move
    model = as_classifier(mlp(), domain=Domain(low, high, scale))
    half = measure(model, X[:20], Y[:20], DeepFool()).values
    assert (half >= measure(mlp(), X[:20], Y[:20], DeepFool()).values * 0.999).all()


SHORT = (DeepFool("l2", steps=10), DeepFool("linf", steps=10))
BITS = """
import torch
from tests.models.test_torch_model import bits
torch.set_num_threads({threads})
print(*bits())
"""


def bits(estimators=SHORT):
    """Hashes of distances of a network with batch normalisation, one an estimator."""
    module, (x, _) = cnn(norm=True, epochs=0), test_digits(24)
    y = as_classifier(module).predict(x)
    values = [measure(module, x, y, estimator).values for estimator in estimators]
    return [hashlib.sha256(found.tobytes()).hexdigest() for found in values]


def test_a_fresh_process_gives_the_same_bits():
    command = [sys.executable, "-c", BITS.format(threads=1)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert done.stdout.split() == bits()


def test_any_number_of_threads_gives_the_same_bits():
    few = (DeepFool(steps=1, rivals=1, published=True), FirstOrder())  # on a busy machine threads are slow
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = bits(few)
        torch.set_num_threads(2)
        assert bits(few) == one
    finally:
        torch.set_num_threads(before)


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
