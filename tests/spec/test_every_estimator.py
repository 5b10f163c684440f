"""Properties of every estimator in the catalog. A new estimator is tested as soon as the catalog lists it.

Promises are about honesty: a search may find nothing (`inf`). Strength is tested in `distances/test_searches.py`.
"""

import dataclasses
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.distances import measure as measuring
from fairmargin.distances.catalog import ESTIMATORS, build, describe
from fairmargin.distances.measure import measure
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.errors import ModelError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.distances.confirmation import Formula, assert_independent_of_the_batch, measured_and_confirmed
from tests.oracles import linear_distance, projection_distance, random_problem, random_trees, tree_distance
from tests.perturbation.networks import cnn, mlp, relu_mlp, test_digits

EVERY = [(name, norm) for name, kind in ESTIMATORS.items() for norm in sorted(kind.norms, key=str)]
every_estimator = pytest.mark.parametrize(("name", "norm"), EVERY)
FOR_NETWORKS = [(name, norm) for name, norm in EVERY if ESTIMATORS[name].needs in ("predict", "gradient", "layers")]
every_estimator_for_networks = pytest.mark.parametrize(("name", "norm"), FOR_NETWORKS)
# Tests that compare with the model's own predictions, or record its inputs, are not for estimators of a smoothed model
# or of layers, which have similar tests of their own.
SMOOTHED = {"smoothing", "smoothed_attack"}
every_search = pytest.mark.parametrize(
    ("name", "norm"), [(name, norm) for name, norm in FOR_NETWORKS if name not in SMOOTHED | {"verified"}]
)
on_every_model = pytest.mark.parametrize(
    ("name", "norm", "model"),
    [(*case, "linear") for case in EVERY] + [(*case, model) for model in ("cnn", "mlp") for case in FOR_NETWORKS],
)
# Promises hold for any budget; a small one is fast.
SMALL = {
    "carlini_wagner": {"steps": 12, "searches": 2},
    "ddn": {"steps": 15},
    "fmn": {"steps": 15},
    "alma": {"steps": 15},
    "plumb": {"steps": 15},
    "smoothing": {"draws": 300},
    "smoothed_attack": {"steps": 6, "draws": 300},
}


def small(name, norm):
    """Return the estimator with a small budget."""
    return ESTIMATORS[name](norm=norm, **SMALL.get(name, {}))


def some_digits(module, count=24):
    """Return images and the module's predictions as labels, of which every fifth is wrong."""
    x, _ = test_digits(count)
    y = as_classifier(module).predict(x)
    y[::5] = (y[::5] + 1) % 10
    return x, y


def problem(model="linear", name="", n=40):
    """Return a linear model, trees or a network that the estimator can read, with samples and labels.

    Linear models and trees have the unit box as their domain.
    """
    if model != "linear":
        module = cnn() if model == "cnn" else relu_mlp() if name == "verified" else mlp()
        return module, *some_digits(module)
    make = random_trees if of_trees(name) else random_problem
    readable, x = make(np.random.default_rng(11), n=n, d=5, classes=3, domain=Domain(0, 1))
    y = readable.predict(x)
    y[::5] = (y[::5] + 1) % 3
    return readable, x, y


def of_trees(name):
    """Return whether the estimator measures trees only."""
    return name in ESTIMATORS and ESTIMATORS[name].needs == "trees"


def exact_distances(model, x, y, norm):
    """Return the exact distances of a linear model or of trees, from each sample's own label."""
    if isinstance(model, LinearClassifier):
        return np.array([linear_distance(model, row, label, norm) for row, label in zip(x, y, strict=True)])
    right = model.predict(x) == y
    return np.array([tree_distance(model, row, [k], norm) if r else 0.0 for row, k, r in zip(x, y, right, strict=True)])


@every_estimator
def test_is_a_frozen_value_with_a_norm(name, norm):
    estimator = ESTIMATORS[name](norm=norm)
    assert isinstance(estimator, DistanceEstimator)
    assert estimator == ESTIMATORS[name](norm=norm)
    assert hash(estimator) == hash(ESTIMATORS[name](norm=norm))
    with pytest.raises(dataclasses.FrozenInstanceError):
        estimator.norm = norm
    assert estimator.needs in {"predict", "gradient", "linear", "trees", "layers"}
    assert estimator.revision >= 1


@on_every_model
def test_gives_0_exactly_to_misclassified_samples_and_changes_neither_samples_nor_model(name, norm, model):
    if name in SMOOTHED and model != "linear":
        pytest.skip("it measures a smoothed model, whose predictions differ")
    model, x, y = problem(model, name)
    before = x.copy(), as_classifier(model).fingerprint()
    found = measure(model, x, y, small(name, norm))
    np.testing.assert_array_equal(x, before[0])
    assert as_classifier(model).fingerprint() == before[1]
    wrong = as_classifier(model).predict(x) != y
    assert wrong.any()
    assert (found.values[wrong] == 0).all()
    np.testing.assert_array_equal(found.correct, ~wrong)
    assert found.norm is norm
    if found.bound is not Bound.LOWER and name not in SMOOTHED:  # a lower bound of 0 is weak, and true
        assert (found.values[~wrong] > 0).all()


@on_every_model
def test_measures_a_sample_to_the_same_bit_alone_or_in_any_batch_order_and_shard(name, norm, model, monkeypatch):
    model, x, y = problem(model, name)

    def run(x, y):
        return measure(model, x, y, small(name, norm)).values

    together = assert_independent_of_the_batch(run, x, y)
    monkeypatch.setattr(measuring, "_MOST_OF_A_NETWORK", 7)
    np.testing.assert_array_equal(run(x, y), together)


@on_every_model
def test_finds_nothing_on_a_constant_model(name, norm, model):
    constant, x = LinearClassifier(np.zeros((3, 64)), [0.0, 1.0, 0.5], domain=Domain(0, 1)), test_digits(5)[0]
    if of_trees(name):
        leaf = DecisionTreeClassifier(max_depth=1, min_samples_leaf=4).fit(x.reshape(5, -1), [0, 1, 1, 1, 2])
        constant = as_classifier(leaf, domain=Domain(0, 1))
    if model != "linear":
        constant = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
        nn.init.zeros_(constant[1].weight)
        with torch.no_grad():
            constant[1].bias.copy_(torch.tensor([0.0, 1.0, 0.0]))
    found = measure(constant, x, [1, 1, 1, 1, 0], small(name, norm))
    assert found.values[4] == 0
    if found.bound in (Bound.EXACT, Bound.UPPER):
        assert np.isinf(found.values[:4]).all()


@every_estimator
def test_its_bound_holds_against_the_exact_answer_for_a_linear_model_or_trees(name, norm):
    model, x, y = problem(name=name)
    found = measure(model, x, y, small(name, norm))
    exact = exact_distances(model, x, y, norm)
    slack = 1e-6 * (1 + np.where(np.isfinite(exact), exact, 0))
    if found.bound in (Bound.EXACT, Bound.UPPER):
        assert (found.values >= exact - slack).all()
    if found.bound in (Bound.EXACT, Bound.LOWER):
        assert (found.values <= exact + slack).all()


@every_estimator
def test_round_trips_through_a_config_file(name, norm):
    for estimator in (ESTIMATORS[name](norm=norm), small(name, norm)):
        plain = describe(estimator)
        assert build(plain.pop("name"), plain) == estimator
        text = {field: str(value) for field, value in describe(estimator).items() if field != "name"}
        assert build(name, text) == estimator


def random_layer(inputs, classes, seed=0):
    """Return a linear layer in double precision, and the generator that made it."""
    rng = np.random.default_rng(seed)
    layer = nn.Linear(inputs, classes).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(rng.normal(size=(classes, inputs))))
        layer.bias.copy_(torch.tensor(0.3 * rng.normal(size=classes)))
    return layer, rng


def assert_no_upper_bound_is_below(found, exact):
    if found.bound is Bound.UPPER:
        assert (found.values >= exact - 1e-6 * (1 + np.where(np.isfinite(exact), exact, 0))).all()


@every_search
def test_where_gradients_are_saturated_no_bound_is_wrong(name, norm):
    weight = np.array([1.5, -1.3, 0.6, 1.0])

    def saturated(x):  # in float32 tanh is constant from 9 on: most samples have no gradient
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
def test_scores_that_are_nan_away_from_the_samples_never_count_as_success(name, norm):
    def scores(x):  # NaN before the boundary at .7, but not before the one at .1
        away = torch.where(x[:, :1] > 0.65, torch.nan, 0.0)
        lead = torch.minimum(0.7 - x[:, :1], x[:, :1] - 0.1) + 0.01 * x[:, 1:]
        return torch.cat([lead, torch.zeros_like(lead)], dim=1) + away

    x = np.array([[0.3, 0.5], [0.5, 0.2], [0.6, 0.9], [0.2, 0.1]], np.float32)
    found, _ = measured_and_confirmed(Formula(scores), x, small(name, norm), classes=2)
    if found.bound is Bound.UPPER:
        assert (found.values >= (x[:, 0] - 0.1) * 0.97).all()


@pytest.mark.parametrize("classes", [2, 1000])
@every_search
def test_the_bound_holds_for_two_classes_and_for_a_thousand(name, norm, classes):
    layer, rng = random_layer(6, classes)
    x = rng.uniform(size=(5, 6))
    found, model = measured_and_confirmed(layer, x, small(name, norm), classes)
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    nearest = [  # without limits
        min(projection_distance(weight[y] - weight[k], bias[y] - bias[k], row, norm) for k in range(classes) if k != y)
        for row, y in zip(x, model.predict(x), strict=True)
    ]
    assert_no_upper_bound_is_below(found, np.array(nearest))


@every_search
def test_samples_of_any_shape_have_the_same_distances(name, norm):
    layer, rng = random_layer(12, 4)
    flat, model = rng.uniform(size=(6, 12)), nn.Sequential(nn.Flatten(), layer)
    found, _ = measured_and_confirmed(model, flat, small(name, norm), 4)
    for shape in [(3, 4), (3, 2, 2), (1, 3, 2, 2)]:
        again, _ = measured_and_confirmed(model, flat.reshape(6, *shape), small(name, norm), 4)
        np.testing.assert_array_equal(again.values, found.values)


@every_search
def test_immutable_features_do_not_move_and_length_is_in_units_of_the_scale(name, norm):
    layer, rng = random_layer(7, 3, seed=2)
    low, high = np.array([0.0, 0, 0, -np.inf, -np.inf, 0, -1]), np.array([1.0, 1, 0, np.inf, np.inf, 2, np.inf])
    domain = Domain(low, high, [1.0, 0.1, 1.0, 5.0, 0.0, 2.0, 0.5])  # the third and the fifth cannot move
    x = rng.uniform(size=(8, 7))
    found, model = measured_and_confirmed(layer, x, small(name, norm), 3, domain)
    linear = LinearClassifier(layer.weight.detach().numpy(), layer.bias.detach().numpy(), domain=domain)
    exact = [linear_distance(linear, row, label, norm) for row, label in zip(x, model.predict(x), strict=True)]
    assert_no_upper_bound_is_below(found, np.array(exact))


class Fragile(nn.Module):
    """Network with batch statistics, dropout, flags and gradients, which fails after `calls_left` calls."""

    def __init__(self):
        super().__init__()
        self.body, self.norm = nn.Flatten(), nn.BatchNorm1d(64)
        self.drop, self.head = nn.Dropout().eval(), nn.Linear(64, 10)
        self.head.bias.requires_grad_(False)
        self.head.weight.grad = torch.ones_like(self.head.weight)
        self.calls_left = 10**9

    def forward(self, x):
        self.calls_left -= 1
        if self.calls_left < 0:
            raise ArithmeticError("inside")
        return self.head(self.drop(self.norm(self.body(x))))

    def state(self):
        """Return all that must stay the same: values, flags, gradients and the states of random generators."""
        tensors = [*self.state_dict().values(), self.head.weight.grad, torch.get_rng_state()]
        flags = (
            [part.training for part in self.modules()],
            [(p.requires_grad, p.grad is None) for p in self.parameters()],
        )
        numbers = [tensor.tolist() for tensor in tensors], np.random.get_state()[1].tolist()
        return numbers, flags, random.getstate()

    @classmethod
    def seeded(cls):
        """Return the network in training mode after setting all seeds."""
        torch.manual_seed(5)
        np.random.seed(5)
        random.seed(5)
        module = cls().train()
        module.drop.eval()
        return module


@pytest.mark.parametrize("fails", [False, True], ids=["to the end", "with an exception inside"])
@every_estimator_for_networks
def test_does_not_change_the_network_and_random_states(name, norm, fails):
    module = Fragile.seeded()
    (x, y), estimator, model = some_digits(module, 6), small(name, norm), as_classifier(module)
    before = module.state()
    if fails:
        module.calls_left = 0
        with pytest.raises(ModelError):
            estimator(model, x, y, keys=np.zeros(len(x), np.uint64))
    else:
        measure(model, x, y, estimator)
    assert module.state() == before


def test_the_catalog_of_estimators_and_exact_distances_of_linear_models_do_not_load_torch():
    program = """
import sys
import fairmargin as fm
from fairmargin.distances.catalog import ESTIMATORS, build, describe
assert "deepfool" in ESTIMATORS and len(list(ESTIMATORS)) == len(ESTIMATORS) > 1
estimator = build("exact_linear", {"norm": "linf"})
describe(estimator)
fm.measure(([3.0, 4.0], -5.0), [[0.0, 0.0], [3.0, 4.0]], [0, 1], estimator)
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_is_documented_with_a_reference(name):
    text = ESTIMATORS[name].__doc__ or ""
    for part in ("Parameters", "References", "Guarantee", ">>>"):
        assert part in text, f"the docstring of {name} lacks {part}"
