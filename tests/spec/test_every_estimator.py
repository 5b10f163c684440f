"""What every estimator of the catalog promises. A new estimator is covered by its line in the catalog.

Promises are about honesty: a search may find nothing (`inf`). Strength is tested in `distances/test_strength.py`.
"""

import dataclasses
import json
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances import measure as measuring
from fairmargin.distances.catalog import ESTIMATORS, build, describe
from fairmargin.distances.measure import measure
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.errors import InputError, ModelError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.distances.confirmation import Formula, measured_and_confirmed
from tests.oracles import linear_distance, projection_distance, random_problem
from tests.perturbation.networks import cnn, mlp, relu_mlp, test_digits

EVERY = [(name, norm) for name, kind in ESTIMATORS.items() for norm in sorted(kind.norms, key=str)]
every_estimator = pytest.mark.parametrize(("name", "norm"), EVERY)
FOR_NETWORKS = [(name, norm) for name, norm in EVERY if ESTIMATORS[name].needs in ("predict", "gradient", "layers")]
every_estimator_for_networks = pytest.mark.parametrize(("name", "norm"), FOR_NETWORKS)
# Tests that watch every question to the model, or compare with its own answers, are not for those that speak of a
# smoothed model or read layers; these have the like among their own tests.
SMOOTHED = {"smoothing", "smoothed_attack"}
OF_THE_MODEL = [(name, norm) for name, norm in FOR_NETWORKS if name not in SMOOTHED]
every_estimator_of_the_model = pytest.mark.parametrize(("name", "norm"), OF_THE_MODEL)
every_search = pytest.mark.parametrize(("name", "norm"), [case for case in OF_THE_MODEL if case[0] != "verified"])
# Promises hold at any budget: here a small one will do.
SMALL = {
    "carlini_wagner": {"steps": 12, "searches": 2},
    "ddn": {"steps": 15},
    "fmn": {"steps": 15},
    "alma": {"steps": 15},
    "plumb": {"steps": 15},
    "smoothing": {"draws": 300},
    "smoothed_attack": {"steps": 6, "draws": 300},
}
every_network = pytest.mark.parametrize("network", [cnn, mlp], ids=["cnn", "mlp"])


def served(name, network):
    """The network, or one like it whose every layer the estimator knows."""
    return relu_mlp if network is mlp and name == "verified" else network


def small(name, norm):
    """The estimator with a small budget."""
    return ESTIMATORS[name](norm=norm, **SMALL.get(name, {}))


def problem(n=40):
    """A linear model in the unit box with both correct and wrong labels; an estimator may need less than it offers."""
    model, x = random_problem(np.random.default_rng(11), n=n, d=5, classes=3, domain=Domain(0, 1))
    y = model.predict(x)
    y[::5] = (y[::5] + 1) % 3
    return model, x, y


@every_estimator
def test_is_a_frozen_value_with_a_norm(name, norm):
    estimator = ESTIMATORS[name](norm=norm)
    assert isinstance(estimator, DistanceEstimator)
    assert estimator == ESTIMATORS[name](norm=norm)
    assert hash(estimator) == hash(ESTIMATORS[name](norm=norm))
    with pytest.raises(dataclasses.FrozenInstanceError):
        estimator.norm = norm
    assert estimator.needs in {"predict", "gradient", "linear", "layers"}
    assert estimator.revision >= 1


@every_estimator
def test_gives_0_exactly_to_misclassified_samples(name, norm):
    model, x, y = problem()
    found = measure(model, x, y, small(name, norm))
    wrong = model.predict(x) != y
    assert wrong.any()
    assert (found.values[wrong] == 0).all()
    np.testing.assert_array_equal(found.correct, ~wrong)
    assert found.norm is norm


@every_estimator
def test_its_bound_holds_against_the_exact_answer_for_a_linear_model(name, norm):
    model, x, y = problem()
    found = measure(model, x, y, small(name, norm))
    exact = np.array([linear_distance(model, row, label, norm) for row, label in zip(x, y, strict=True)])
    slack = 1e-6 * (1 + np.where(np.isfinite(exact), exact, 0))
    if found.bound in (Bound.EXACT, Bound.UPPER):
        assert (found.values >= exact - slack).all()
    if found.bound in (Bound.EXACT, Bound.LOWER):
        assert (found.values <= exact + slack).all()


@every_estimator
def test_measures_a_sample_the_same_alone_or_in_any_batch_and_order(name, norm):
    model, x, y = problem()
    estimator = small(name, norm)
    together = measure(model, x, y, estimator).values
    order = np.random.default_rng(1).permutation(len(x))
    np.testing.assert_array_equal(measure(model, x[order], y[order], estimator).values, together[order])
    for i in (0, 7, len(x) - 1):
        np.testing.assert_array_equal(measure(model, x[i : i + 1], y[i : i + 1], estimator).values, together[i : i + 1])


@every_estimator
def test_finds_nothing_on_a_constant_classifier(name, norm):
    constant = LinearClassifier(np.zeros((3, 4)), [0.0, 1.0, 0.5], domain=Domain(0, 1))
    found = measure(constant, np.full((5, 4), 0.5), [1, 1, 1, 1, 0], small(name, norm))
    assert found.values[4] == 0
    if found.bound in (Bound.EXACT, Bound.UPPER):
        assert np.isinf(found.values[:4]).all()


@every_estimator
def test_leaves_samples_model_and_global_randomness_untouched(name, norm):
    model, x, y = problem()
    before, samples = model.fingerprint(), x.copy()
    np.random.seed(5)
    random.seed(5)
    states = np.random.get_state()[1].copy(), random.getstate()
    measure(model, x, y, small(name, norm))
    np.testing.assert_array_equal(np.random.get_state()[1], states[0])
    assert random.getstate() == states[1]
    assert model.fingerprint() == before
    np.testing.assert_array_equal(x, samples)


@every_estimator
def test_round_trips_through_a_config_file(name, norm):
    for estimator in (ESTIMATORS[name](norm=norm), small(name, norm)):
        plain = describe(estimator)
        assert build(plain.pop("name"), plain) == estimator
        text = {field: str(value) for field, value in describe(estimator).items() if field != "name"}
        assert build(name, text) == estimator


def some_digits(module, count=24):
    """Digits with the module's own predictions as labels, but for every fifth."""
    x, _ = test_digits(count)
    y = as_classifier(module).predict(x)
    y[::5] = (y[::5] + 1) % 10
    return x, y


@every_network
@every_estimator_of_the_model
def test_gives_0_exactly_to_samples_that_a_network_misclassifies(name, norm, network):
    module = served(name, network)()
    x, y = some_digits(module)
    found = measure(module, x, y, small(name, norm))
    wrong = as_classifier(module).predict(x) != y
    assert (found.values[wrong] == 0).all()
    np.testing.assert_array_equal(found.correct, ~wrong)
    if found.bound is not Bound.LOWER:  # a lower bound of 0 is weak, and true
        assert (found.values[~wrong] > 0).all()


@every_network
@every_estimator_for_networks
def test_measures_a_sample_on_a_network_to_the_same_bit_alone_or_in_any_batch_order_and_shard(
    name, norm, network, monkeypatch
):
    module = served(name, network)()
    x, y = some_digits(module)
    estimator = small(name, norm)
    together = measure(module, x, y, estimator).values
    order = np.random.default_rng(1).permutation(len(x))
    np.testing.assert_array_equal(measure(module, x[order], y[order], estimator).values, together[order])
    for i in (0, 7, len(x) - 1):
        np.testing.assert_array_equal(
            measure(module, x[i : i + 1], y[i : i + 1], estimator).values, together[i : i + 1]
        )
    monkeypatch.setattr(measuring, "_MOST_OF_A_NETWORK", 7)
    np.testing.assert_array_equal(measure(module, x, y, estimator).values, together)


@every_estimator_for_networks
def test_finds_nothing_on_a_network_that_always_says_the_same(name, norm):
    constant = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    nn.init.zeros_(constant[1].weight)
    nn.init.constant_(constant[1].bias, 0.0)
    with torch.no_grad():
        constant[1].bias[1] = 1.0
    x, _ = test_digits(5)
    found = measure(constant, x, [1, 1, 1, 1, 0], small(name, norm))
    assert found.values[4] == 0
    if found.bound in (Bound.EXACT, Bound.UPPER):
        assert np.isinf(found.values[:4]).all()


def random_layer(inputs, classes, seed=0):
    """A linear layer in double precision, and the same as an exact model has it."""
    rng = np.random.default_rng(seed)
    layer = nn.Linear(inputs, classes).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(rng.normal(size=(classes, inputs))))
        layer.bias.copy_(torch.tensor(0.3 * rng.normal(size=classes)))
    return layer, rng


def exact_distances(layer, domain, x, norm):
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    linear = LinearClassifier(weight, bias, domain=domain)
    return np.array(
        [linear_distance(linear, row, label, norm) for row, label in zip(x, linear.predict(x), strict=True)]
    )


def assert_no_upper_bound_is_below(found, exact):
    if found.bound is Bound.UPPER:
        assert (found.values >= exact - 1e-6 * (1 + np.where(np.isfinite(exact), exact, 0))).all()


@every_search
def test_where_gradients_are_saturated_no_bound_is_wrong(name, norm):
    weight = np.array([1.5, -1.3, 0.6, 1.0])

    def saturated(x):  # in float32 tanh is 1, and flat, from 9 on: most samples have no gradient at all
        side = torch.tanh(60 * (x - 0.5) @ torch.tensor(weight, dtype=x.dtype))
        return torch.stack([side, -side], dim=1)

    x = np.random.default_rng(3).uniform(size=(12, 4)).astype(np.float32)
    flat = saturated(torch.tensor(x))[:, 0].abs() == 1
    assert 6 <= flat.sum() < 12
    found, _ = measured_and_confirmed(Formula(saturated), x, small(name, norm), classes=2)
    if found.bound is Bound.UPPER:
        exact = np.array([projection_distance(weight, 0.0, row - 0.5, norm) for row in x])
        assert (found.values >= exact * (1 - 1e-4)).all()


@every_search
def test_scores_that_are_no_numbers_away_from_the_samples_never_count_as_success(name, norm):
    def scores(x):  # the way across the boundary at .7 leads into the void, the other way at .1 does not
        away = torch.where(x[:, :1] > 0.65, torch.nan, 0.0)
        lead = torch.minimum(0.7 - x[:, :1], x[:, :1] - 0.1) + 0.01 * x[:, 1:]
        return torch.cat([lead, torch.zeros_like(lead)], dim=1) + away

    x = np.array([[0.3, 0.5], [0.5, 0.2], [0.6, 0.9], [0.2, 0.1]], np.float32)
    found, _ = measured_and_confirmed(Formula(scores), x, small(name, norm), classes=2)
    if found.bound is Bound.UPPER:
        assert (found.values >= (x[:, 0] - 0.1) * 0.97).all()


@every_estimator_for_networks
def test_a_sample_whose_scores_are_no_numbers_is_refused_with_a_sentence(name, norm):
    def scores(x):
        return torch.stack([x[:, 0], 1 - x[:, 0]], dim=1) / (x[:, 1:] > 0.1)

    model = as_classifier(Formula(scores), classes=range(2))
    x = np.array([[0.3, 0.5], [0.5, 0.05], [0.6, 0.9]], np.float32)
    with pytest.raises(ModelError, match="scores hold NaN or infinity"):
        measure(model, x, [1, 1, 0], small(name, norm))


@pytest.mark.parametrize("classes", [2, 1000])
@every_search
def test_two_classes_or_a_thousand_will_do(name, norm, classes):
    layer, rng = random_layer(6, classes)
    x = rng.uniform(size=(5, 6))
    found, model = measured_and_confirmed(layer, x, small(name, norm), classes)
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    own = model.predict(x)
    nearest = [  # as if the box were not there
        min(projection_distance(weight[y] - weight[k], bias[y] - bias[k], row, norm) for k in range(classes) if k != y)
        for row, y in zip(x, own, strict=True)
    ]
    assert_no_upper_bound_is_below(found, np.array(nearest))


@every_search
def test_samples_of_any_rank_are_measured_alike(name, norm):
    layer, rng = random_layer(12, 4)
    flat, model = rng.uniform(size=(6, 12)), nn.Sequential(nn.Flatten(), layer)
    found, _ = measured_and_confirmed(model, flat, small(name, norm), 4)
    for shape in [(3, 4), (3, 2, 2), (1, 3, 2, 2)]:
        again, _ = measured_and_confirmed(model, flat.reshape(6, *shape), small(name, norm), 4)
        np.testing.assert_array_equal(again.values, found.values)


@every_search
def test_features_that_cannot_move_do_not_and_length_is_in_units_of_the_scale(name, norm):
    layer, rng = random_layer(7, 3, seed=2)
    low, high = np.array([0.0, 0, 0, -np.inf, -np.inf, 0, -1]), np.array([1.0, 1, 0, np.inf, np.inf, 2, np.inf])
    scale = np.array([1.0, 0.1, 1.0, 5.0, 0.0, 2.0, 0.5])  # the third and the fifth cannot move
    domain = Domain(low, high, scale)
    x = rng.uniform(size=(8, 7))
    found, _ = measured_and_confirmed(layer, x, small(name, norm), 3, domain)
    assert_no_upper_bound_is_below(found, exact_distances(layer, domain, x, norm))


class Falling(nn.Module):
    """Fails from its third call on, when it is told to."""

    def __init__(self):
        super().__init__()
        self.body, self.drop, self.head = (
            nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64)),
            nn.Dropout(),
            nn.Linear(64, 10),
        )
        self.calls_left = None

    def forward(self, x):
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                raise ArithmeticError("inside")
        return self.head(self.drop(self.body(x)))


@pytest.mark.parametrize("fails", [False, True], ids=["to the end", "with an exception inside"])
@every_estimator_for_networks
def test_leaves_a_network_and_all_random_states_as_they_were(name, norm, fails):
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)
    module = Falling().train()
    module.drop.eval()
    module.head.bias.requires_grad_(False)
    module.head.weight.grad = torch.ones_like(module.head.weight)
    (x, y), estimator, model = some_digits(module, 6), small(name, norm), as_classifier(module)

    def state():
        tensors = [tensor.clone() for tensor in (*module.state_dict().values(), module.head.weight.grad)]
        flags = [part.training for part in module.modules()] + [p.requires_grad for p in module.parameters()]
        grads = [p.grad is None for p in module.parameters()]
        randomness = torch.get_rng_state(), torch.tensor(np.random.get_state()[1].astype(np.int64))
        return [*tensors, *randomness], (flags, grads, random.getstate())

    tensors, flags = state()
    if fails:
        module.calls_left = 0
        with pytest.raises(ModelError):
            estimator(model, x, y, keys=np.zeros(len(x), np.uint64))
    else:
        measure(model, x, y, estimator)
    after, flags_after = state()
    assert flags == flags_after
    assert all(torch.equal(before, now) for before, now in zip(tensors, after, strict=True))


def packages_loaded_by(program):
    """The top-level packages in a fresh interpreter after that program."""
    lines = f"{program}\nimport json, sys\nprint(json.dumps([m.split('.')[0] for m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True, timeout=120)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_naming_the_estimators_and_measuring_a_linear_model_exactly_load_no_torch():
    program = """
import fairmargin as fm
from fairmargin.distances.catalog import ESTIMATORS, build, describe
assert "deepfool" in ESTIMATORS and len(list(ESTIMATORS)) == len(ESTIMATORS) > 1
estimator = build("exact_linear", {"norm": "linf"})
describe(estimator)
fm.measure(([3.0, 4.0], -5.0), [[0.0, 0.0], [3.0, 4.0]], [0, 1], estimator)
"""
    assert "torch" not in packages_loaded_by(program)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_is_documented_with_a_reference(name):
    text = ESTIMATORS[name].__doc__ or ""
    for part in ("Parameters", "References", "Guarantee", ">>>"):
        assert part in text, f"the docstring of {name} lacks {part}"


