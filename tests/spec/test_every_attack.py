"""What every attack of the catalog promises. A new attack is covered by its line in the catalog.

Promises are about honesty: an attack may find nothing. What attacks find is in `tests/attacks/test_strength.py`.
"""

import dataclasses
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fairmargin.attacks import survivors as frame
from fairmargin.attacks.catalog import ATTACKS, build_attack, describe_attack, parse_attack
from fairmargin.attacks.protocol import Attack, check_attack
from fairmargin.core.domain import Domain
from fairmargin.core.keys import sample_keys
from fairmargin.core.norm import Norm
from fairmargin.errors import InputError, ModelError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.distances.confirmation import Formula
from tests.oracles import linear_distance, random_problem
from tests.perturbation.networks import cnn, mlp, test_digits

EVERY = [(name, norm) for name, kind in ATTACKS.items() for norm in sorted(kind.norms, key=str)]
every_attack = pytest.mark.parametrize(("name", "norm"), EVERY)
every_network = pytest.mark.parametrize("network", [cnn, mlp], ids=["cnn", "mlp"])
# Promises hold at any budget: here a small one will do.
SMALL = {
    "pgd": {"steps": 5, "restarts": 2},
    "margin_pgd": {"steps": 5},
    "apgd": {"steps": 5, "loss": "dlr", "targets": 2},
    "square": {"queries": 60},
    "autoattack": {"steps": 3, "targets": 1, "queries": 20},
}
RADIUS = {Norm.LINF: 0.1, Norm.L2: 0.6}  # about half of the samples below are fooled within


def small(name, norm):
    """The attack with a small budget."""
    return ATTACKS[name](norm=norm, **SMALL.get(name, {}))


def run(attack, model, x, y, radius, seed=0):
    return attack(model, x, y, radius=radius, keys=sample_keys(x, y, seed))


def problem(n=40):
    """A linear model in the unit box with both correct and wrong labels."""
    model, x = random_problem(np.random.default_rng(11), n=n, d=5, classes=3, domain=Domain(0, 1))
    y = model.predict(x)
    y[::5] = (y[::5] + 1) % 3
    return model, x, y


def some_digits(module, count=24):
    """Digits with the module's own predictions as labels, but for every fifth."""
    x, _ = test_digits(count)
    y = as_classifier(module).predict(x)
    y[::5] = (y[::5] + 1) % 10
    return x, y


def lengths(x, found, norm, scale=1.0):
    rows, moved = (np.asarray(each, dtype=np.float64).reshape(len(x), -1) for each in (x, found))
    scale = np.broadcast_to(scale, rows.shape[1:])
    free = scale != 0
    return np.linalg.norm((moved - rows)[:, free] / scale[free], np.inf if norm is Norm.LINF else 2, axis=1)


@every_attack
def test_is_a_frozen_value_with_a_norm(name, norm):
    attack = ATTACKS[name](norm=norm)
    assert isinstance(attack, Attack)
    assert attack == ATTACKS[name](norm=norm)
    assert hash(attack) == hash(ATTACKS[name](norm=norm))
    with pytest.raises(dataclasses.FrozenInstanceError):
        attack.norm = norm
    assert attack.needs in {"predict", "gradient"}
    assert attack.revision >= 1


@every_attack
def test_returns_misclassified_samples_as_they_were(name, norm):
    model, x, y = problem()
    found = run(small(name, norm), model, x, y, 0.3)
    wrong = model.predict(x) != y
    assert wrong.any()
    np.testing.assert_array_equal(found[wrong], x[wrong])


@every_attack
def test_no_sample_of_a_linear_model_is_fooled_within_less_than_its_distance(name, norm):
    model, x, y = problem()
    exact = np.array([linear_distance(model, row, label, norm) for row, label in zip(x, y, strict=True)])
    correct = exact > 0
    found = run(small(name, norm), model, x, y, np.where(np.isfinite(exact), exact * (1 - 1e-6), 1.0))
    np.testing.assert_array_equal(model.predict(found)[correct], y[correct])


@every_network
@every_attack
def test_returns_inputs_of_the_shape_and_kind_of_the_samples_at_any_radius(name, norm, network):
    module = network()
    x, y = some_digits(module)
    model = as_classifier(module)
    for radius in (0.02, 1.0, 4.0):
        found = run(small(name, norm), model, x, y, radius * RADIUS[norm])
        assert found.shape == x.shape
        assert found.dtype == x.dtype


@every_network
@every_attack
def test_gives_a_sample_the_same_bits_alone_or_in_any_batch_order_and_part(name, norm, network, monkeypatch):
    module = network()
    x, y = some_digits(module)
    attack = small(name, norm)
    together = run(attack, module, x, y, RADIUS[norm])
    order = np.random.default_rng(1).permutation(len(x))
    np.testing.assert_array_equal(run(attack, module, x[order], y[order], RADIUS[norm]), together[order])
    for i in (0, 7, len(x) - 1):
        np.testing.assert_array_equal(run(attack, module, x[i : i + 1], y[i : i + 1], RADIUS[norm]), together[[i]])
    monkeypatch.setattr(frame, "_AT_ONCE", 7)
    np.testing.assert_array_equal(run(attack, module, x, y, RADIUS[norm]), together)


@every_attack
def test_a_radius_of_its_own_gives_a_sample_the_same_as_one_for_all(name, norm):
    module = mlp()
    x, y = some_digits(module, 12)
    radius = np.linspace(0, 2 * RADIUS[norm], 12)
    each = run(small(name, norm), module, x, y, radius)
    for i in (0, 3, 8):
        np.testing.assert_array_equal(run(small(name, norm), module, x, y, float(radius[i]))[i], each[i])
    np.testing.assert_array_equal(each[0], x[0])


@every_attack
def test_a_radius_of_0_changes_nothing(name, norm):
    x, y = some_digits(mlp(), 6)
    np.testing.assert_array_equal(run(small(name, norm), mlp(), x, y, 0), x)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 1000),
    exponent=st.sampled_from([-9, -3, -1, 0, 1]),
    doubled=st.booleans(),
    tensors=st.sampled_from([torch.float32, torch.float64]),
)
@every_attack
def test_never_leaves_ball_or_box_nor_moves_what_cannot_move(name, norm, seed, exponent, doubled, tensors):
    rng = np.random.default_rng(seed)
    low, high = np.array([0.0, 0.1, 0, -np.inf, -np.inf, 0, -1]), np.array([1.0, 0.9, 0, np.inf, np.inf, 2, np.inf])
    scale = np.array([1.0, 0.1, 1.0, 5.0, 0.0, 2.0, 0.5])  # the third and the fifth cannot move
    domain = Domain(low, high, scale)
    layer = nn.Sequential(nn.Linear(7, 6), nn.Tanh(), nn.Linear(6, 3)).to(tensors)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.tensor(rng.normal(size=parameter.shape)))
    x = rng.uniform(0.1, 0.9, size=(9, 7)).astype(np.float64 if doubled else np.float32)
    model = as_classifier(layer, classes=range(3), domain=domain)
    y, radius = model.predict(x), 10.0**exponent * rng.uniform(size=9)
    found = run(small(name, norm), model, x, y, radius, seed)
    assert found.dtype == (np.float64 if doubled or tensors is torch.float64 else np.float32)
    assert (lengths(x, found, norm, np.where(domain.movable(7), scale, 0)) <= radius).all()
    np.testing.assert_array_equal(found[:, [2, 4]], x[:, [2, 4]])
    moved = found != x
    assert ((found >= low) & (found <= high) | ~moved).all()


@every_attack
def test_a_constant_classifier_is_never_fooled(name, norm):
    constant = LinearClassifier(np.zeros((3, 4)), [0.0, 1.0, 0.5], domain=Domain(0, 1))
    x, y = np.full((5, 4), 0.5), np.array([1, 1, 1, 1, 0])
    found = run(small(name, norm), constant, x, y, 0.4)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(constant.predict(found), [1] * 5)
    np.testing.assert_array_equal(found[4], x[4])


@every_attack
def test_where_gradients_are_saturated_results_are_numbers_and_inside(name, norm):
    def saturated(x):
        side = torch.tanh(60 * (x - 0.5) @ torch.tensor([1.5, -1.3, 0.6, 1.0], dtype=x.dtype))
        return torch.stack([side, -side], dim=1)

    x = np.random.default_rng(3).uniform(size=(12, 4)).astype(np.float32)
    model = as_classifier(Formula(saturated), classes=range(2), domain=Domain(0, 1))
    found = run(small(name, norm), model, x, model.predict(x), 0.1)
    assert np.isfinite(found).all()
    assert (lengths(x, found, norm) <= 0.1).all()


@every_attack
def test_scores_that_are_no_numbers_away_from_the_samples_never_count_as_success(name, norm):
    def scores(x):  # the way across the boundary at .7 leads into the void
        away = torch.where(x[:, :1] > 0.65, torch.nan, 0.0)
        lead = 0.7 - x[:, :1] + 0.01 * x[:, 1:]
        return torch.cat([lead, torch.zeros_like(lead)], dim=1) + away

    x = np.array([[0.3, 0.5], [0.5, 0.2], [0.6, 0.9], [0.2, 0.1]], np.float32)
    model = as_classifier(Formula(scores), classes=range(2), domain=Domain(0, 1))
    found = run(small(name, norm), model, x, np.zeros(4, np.int64), 0.3)
    assert (found[:, 0] <= 0.65).all()




class Resting(nn.Module):
    """With all that could be disturbed: batch statistics, dropout, flags and gradients."""

    def __init__(self):
        super().__init__()
        self.body, self.drop, self.head = (
            nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64)),
            nn.Dropout(),
            nn.Linear(64, 10),
        )

    def forward(self, x):
        return self.head(self.drop(self.body(x)))


@every_attack
def test_leaves_samples_network_and_all_random_states_as_they_were(name, norm):
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)
    module = Resting().train()
    module.drop.eval()
    module.head.bias.requires_grad_(False)
    module.head.weight.grad = torch.ones_like(module.head.weight)
    x, y = some_digits(module, 6)
    samples = x.copy()

    def state():
        tensors = [tensor.clone() for tensor in (*module.state_dict().values(), module.head.weight.grad)]
        flags = [part.training for part in module.modules()] + [p.requires_grad for p in module.parameters()]
        grads = [p.grad is None for p in module.parameters()]
        randomness = torch.get_rng_state(), torch.tensor(np.random.get_state()[1].astype(np.int64))
        return [*tensors, *randomness], (flags, grads, random.getstate())

    tensors, flags = state()
    run(small(name, norm), module, x, y, RADIUS[norm])
    after, flags_after = state()
    assert flags == flags_after
    assert all(torch.equal(before, now) for before, now in zip(tensors, after, strict=True))
    np.testing.assert_array_equal(x, samples)


@every_attack
def test_no_samples_are_no_trouble(name, norm):
    found = run(small(name, norm), mlp(), np.zeros((0, 1, 8, 8), np.float32), np.zeros(0, np.int64), 0.1)
    assert found.shape == (0, 1, 8, 8)


@every_attack
def test_round_trips_through_a_config_file(name, norm):
    for attack in (ATTACKS[name](norm=norm), small(name, norm)):
        plain = describe_attack(attack)
        assert plain.pop("name") == name
        assert build_attack(name, plain) == attack
        assert build_attack(name, {field: str(value) for field, value in plain.items()}) == attack
        assert parse_attack(f"{name}:{','.join(f'{field}={value}' for field, value in plain.items())}") == attack




@every_attack
def test_a_radius_may_be_written_as_a_fraction(name, norm):
    x, y = some_digits(mlp(), 6)
    written, counted = (run(small(name, norm), mlp(), x, y, radius) for radius in ("8/255", 8 / 255))
    np.testing.assert_array_equal(written, counted)










@pytest.mark.parametrize("name", ATTACKS)
def test_is_documented_with_a_reference(name):
    text = ATTACKS[name].__doc__ or ""
    for part in ("Parameters", "References", "Guarantee", ">>>"):
        assert part in text, f"the docstring of {name} lacks {part}"






def test_naming_the_attacks_loads_no_torch():
    program = """
import sys
from fairmargin.attacks.catalog import ATTACKS
assert "pgd" in ATTACKS and len(list(ATTACKS)) == len(ATTACKS) >= 4
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
