"""Properties of every attack in the catalog. A new attack is tested as soon as the catalog lists it.

Promises are about honesty: an attack may find nothing. What attacks find is in `tests/attacks/test_attacks.py`.
"""

import dataclasses
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
from fairmargin.attacks.protocol import Attack
from fairmargin.core.domain import Domain
from fairmargin.core.keys import sample_keys
from fairmargin.core.norm import Norm
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.distances.confirmation import assert_independent_of_the_batch, of_formula
from tests.oracles import linear_distance
from tests.perturbation.networks import cnn, mlp
from tests.spec.test_every_estimator import Fragile, problem, some_digits

EVERY = [(name, norm) for name, kind in ATTACKS.items() for norm in sorted(kind.norms, key=str)]
every_attack = pytest.mark.parametrize(("name", "norm"), EVERY)
every_network = pytest.mark.parametrize("network", [cnn, mlp], ids=["cnn", "mlp"])
# Promises hold for any budget; a small one is fast.
SMALL = {
    "pgd": {"steps": 5, "restarts": 2},
    "margin_pgd": {"steps": 5},
    "apgd": {"steps": 5, "loss": "dlr", "targets": 2},
    "square": {"queries": 60},
    "autoattack": {"steps": 3, "targets": 1, "queries": 20},
}
RADIUS = {Norm.LINF: 0.1, Norm.L2: 0.6}  # about half of the samples below are fooled within


def small(name, norm):
    """Return the attack with a small budget."""
    return ATTACKS[name](norm=norm, **SMALL.get(name, {}))


def run(attack, model, x, y, radius, seed=0):
    return attack(model, x, y, radius=radius, keys=sample_keys(x, y, seed))


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
def test_returns_misclassified_samples_unchanged(name, norm):
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
def test_gives_a_sample_the_same_bits_alone_or_in_any_batch_order_and_part(name, norm, network, monkeypatch):
    module = network()

    def attacked(x, y):
        return run(small(name, norm), module, x, y, RADIUS[norm])

    x, y = some_digits(module)
    together = assert_independent_of_the_batch(attacked, x, y)
    assert (together.shape, together.dtype) == (x.shape, x.dtype)
    monkeypatch.setattr(frame, "_AT_ONCE", 7)
    np.testing.assert_array_equal(attacked(x, y), together)


@every_attack
def test_a_radius_per_sample_gives_the_results_of_one_radius_for_all(name, norm):
    module = mlp()
    x, y = some_digits(module, 12)
    radius = np.linspace(0, 2 * RADIUS[norm], 12)
    each = run(small(name, norm), module, x, y, radius)
    for i in (0, 3, 8):
        np.testing.assert_array_equal(run(small(name, norm), module, x, y, float(radius[i]))[i], each[i])
    np.testing.assert_array_equal(each[0], x[0])


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 1000),
    exponent=st.sampled_from([-9, -3, -1, 0, 1]),
    doubled=st.booleans(),
    tensors=st.sampled_from([torch.float32, torch.float64]),
)
@every_attack
def test_never_leaves_ball_or_box_and_never_moves_immutable_features(name, norm, seed, exponent, doubled, tensors):
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
def test_where_gradients_are_saturated_results_are_finite_and_inside(name, norm):
    def saturated(x):
        side = torch.tanh(60 * (x - 0.5) @ torch.tensor([1.5, -1.3, 0.6, 1.0], dtype=x.dtype))
        return torch.stack([side, -side], dim=1)

    x = np.random.default_rng(3).uniform(size=(12, 4)).astype(np.float32)
    model = of_formula(saturated, domain=Domain(0, 1))
    found = run(small(name, norm), model, x, model.predict(x), 0.1)
    assert np.isfinite(found).all()
    assert (lengths(x, found, norm) <= 0.1).all()


@every_attack
def test_scores_that_are_nan_away_from_the_samples_never_count_as_success(name, norm):
    def scores(x):  # NaN before the boundary at .7
        away = torch.where(x[:, :1] > 0.65, torch.nan, 0.0)
        lead = 0.7 - x[:, :1] + 0.01 * x[:, 1:]
        return torch.cat([lead, torch.zeros_like(lead)], dim=1) + away

    x = np.array([[0.3, 0.5], [0.5, 0.2], [0.6, 0.9], [0.2, 0.1]], np.float32)
    model = of_formula(scores, domain=Domain(0, 1))
    found = run(small(name, norm), model, x, np.zeros(4, np.int64), 0.3)
    assert (found[:, 0] <= 0.65).all()


@every_attack
def test_does_not_change_samples_network_and_random_states(name, norm):
    module = Fragile.seeded()
    x, y = some_digits(module, 6)
    samples, before = x.copy(), module.state()
    run(small(name, norm), module, x, y, RADIUS[norm])
    assert module.state() == before
    np.testing.assert_array_equal(x, samples)


@every_attack
def test_an_empty_batch_gives_an_empty_result(name, norm):
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


def test_the_catalog_of_attacks_does_not_load_torch():
    program = """
import sys
from fairmargin.attacks.catalog import ATTACKS
assert "pgd" in ATTACKS and len(list(ATTACKS)) == len(ATTACKS) >= 4
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
