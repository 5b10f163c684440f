"""Verified distances: no attack and no grid finds a misclassified input that is nearer."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import fairmargin as fm
from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances import verified
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.distances.plumb.estimator import Plumb
from fairmargin.distances.searches.deepfool import DeepFool
from fairmargin.distances.verified import Verified, largest_radius
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.reading.weights import load_weights
from tests.distances.confirmation import assert_independent_of_the_batch
from tests.oracles import random_problem
from tests.perturbation.networks import cnn, test_digits
from tests.perturbation.test_relaxation import NORMS, every_norm, some_network

SHARED = Path(__file__).parents[3] / "shared"


@every_norm
@pytest.mark.parametrize(
    "domain", [None, Domain(0, 1), Domain(0, 1, [1, 0.1, 0, 2, 0.5])], ids=["everywhere", "box", "scaled"]
)
def test_on_a_linear_model_it_is_just_below_the_exact_distance(norm, domain):
    model, x = random_problem(np.random.default_rng(11), n=80, d=5, classes=3, domain=domain)
    y = model.predict(x)
    y[::7] = (y[::7] + 1) % 3
    exact, found = measure(model, x, y, ExactLinear(norm)), measure(model, x, y, Verified(norm))
    assert found.bound is Bound.LOWER
    assert found.subject == "model"
    np.testing.assert_array_equal(found.correct, exact.correct)
    np.testing.assert_array_equal(np.isinf(found.values), np.isinf(exact.values))
    near = np.isfinite(exact.values)
    assert (found.values[near] <= exact.values[near]).all()
    assert (found.values[near] >= exact.values[near] * (1 - (1e-6 if domain is None else 2e-3))).all()


@every_norm
@pytest.mark.parametrize("method", ["crown-ibp", "crown"])
def test_no_attack_on_random_networks_comes_nearer(norm, method):
    for seed in range(4):
        body, shape = some_network(seed)
        features = int(np.prod(shape))
        scale = np.linspace(0.5, 2, features)
        scale[2] = 0.0
        model = as_classifier(body, classes=range(3), domain=Domain(0, 1, scale))
        x = np.random.default_rng(seed).uniform(size=(12, *shape)).astype(np.float32)
        y = model.predict(x)
        proven = measure(model, x, y, Verified(norm, method, steps=8)).values
        attacked = np.minimum(*(measure(model, x, y, kind(norm, steps=10)).values for kind in (Plumb, DeepFool)))
        assert (proven > 0).all()
        finite = np.isfinite(attacked)
        assert finite.sum() > 3
        assert (proven[finite] < attacked[finite]).all()


def grid_distance(body, x, label, norm, radius, fine=401):
    """Return the distance to the nearest misclassified point of a fine grid around a sample in the plane."""
    step = np.linspace(-radius, radius, fine)
    delta = np.stack(np.meshgrid(step, step), axis=-1).reshape(-1, 2)
    with torch.no_grad():
        named = body(torch.tensor(x + delta, dtype=torch.float32)).argmax(dim=1).numpy()
    lengths = norm.length(delta[named != label])
    return lengths.min() if lengths.size else np.inf


@every_norm
def test_in_the_plane_a_fine_grid_finds_nothing_nearer_and_small_networks_are_proven_nearly_to_the_boundary(norm):
    shares = []
    for seed in range(6):
        torch.manual_seed(seed)
        body = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 2)).eval()
        model = as_classifier(body, classes=range(2), domain=Domain(-np.inf, np.inf))
        x = np.random.default_rng(seed).normal(size=(10, 2)).astype(np.float32)
        y = model.predict(x)
        proven = measure(model, x, y, Verified(norm)).values
        for row, label, value in zip(x, y, proven, strict=True):
            true = grid_distance(body, row, label, norm, radius=3.0)
            assert value < true
            shares += [value / true] if np.isfinite(true) else []
    assert len(shares) > 15
    assert np.median(shares) > 0.7


def test_backward_passes_prove_more_and_auto_takes_them_for_small_networks():
    body, shape = some_network(1)
    model = as_classifier(body, classes=range(3))
    x = np.random.default_rng(0).uniform(size=(20, *shape)).astype(np.float32)
    y = model.predict(x)
    values = {
        method: measure(model, x, y, Verified(Norm.LINF, method)).values for method in ("crown-ibp", "crown", "auto")
    }
    assert (values["crown"] >= values["crown-ibp"] * (1 - 2e-3)).all()
    finite = np.isfinite(values["crown"])
    assert values["crown"][finite].mean() > 1.02 * values["crown-ibp"][finite].mean()
    np.testing.assert_array_equal(values["auto"], values["crown"])


@every_norm
@pytest.mark.parametrize("normalised", [False, True], ids=["plain", "with BatchNorm"])
def test_on_a_trained_network_every_digit_has_a_distance_below_that_of_an_attack_alone_or_in_any_batch(
    norm, normalised, monkeypatch
):
    if normalised:
        monkeypatch.setattr(verified, "_NUMBERS_AT_ONCE", 2**15)  # tiles of 3
    module = cnn(norm=normalised)
    x, _ = test_digits(10)
    model = as_classifier(module)
    y = model.predict(x)
    y[::5] = (y[::5] + 1) % 10
    estimator = Verified(norm, steps=4)
    found = measure(module, x, y, estimator)
    assert (found.values[::5] == 0).all()
    assert (np.delete(found.values, slice(None, None, 5)) > 0).all()
    assert (found.values <= measure(module, x, y, DeepFool(norm)).values).all()
    assert_independent_of_the_batch(lambda x, y: measure(module, x, y, estimator).values, x, y)


def test_a_model_of_one_logit_with_a_zero_beside_it_is_proven():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 1)

        def forward(self, x):
            return nn.functional.pad(self.inner(x), (1, 0))

    torch.manual_seed(0)
    body = Pair().double()
    model = as_classifier(body, classes=range(2), domain=Domain(-np.inf, np.inf))
    x = np.random.default_rng(0).normal(size=(6, 4))
    weight, bias = body.inner.weight.detach().numpy()[0], float(body.inner.bias.detach())
    expected = np.abs(x @ weight + bias) / np.linalg.norm(weight)
    np.testing.assert_allclose(measure(model, x, model.predict(x), Verified()).values, expected, rtol=1e-6)


@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_a_constant_network_is_proven_everywhere(norm):
    constant = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).eval()
    nn.init.zeros_(constant[2].weight)
    with torch.no_grad():
        constant[2].bias.copy_(torch.tensor([0.0, 1.0, 0.0]))
    found = measure(as_classifier(constant, classes=range(3)), np.full((2, 4), 0.5), [1, 0], Verified(norm))
    assert found.values.tolist() == [np.inf, 0.0]


def test_scores_that_differ_by_rounding_prove_nothing():
    layer = nn.Linear(100, 2, bias=False)
    nn.init.ones_(layer.weight)
    with torch.no_grad():
        layer.weight[0, 0] += 1e-6
    x = np.random.default_rng(0).uniform(0.5, 1, size=(4, 100)).astype(np.float32)
    model = as_classifier(layer, classes=range(2))
    found = measure(model, x, model.predict(x), Verified())
    assert (found.values == 0).all()
    assert found.correct.all()


def test_the_search_ends_near_the_largest_proven_radius_however_leads_fall():
    falls = {
        "slowly": lambda r: 1 - r**0.1 / 2,
        "straight": lambda r: 1 - r / 7,
        "steeply": lambda r: 1 - r**4 - 1000 * r**8,
        "with a jump": lambda r: torch.where(r < 0.3, 1.0 - r, -torch.inf),
        "to nothing": lambda r: torch.where(r < 0.3, 1.0 - r, torch.nan),
    }
    ends = {"slowly": 1024, "straight": 7, "steeply": (1 / 1000) ** (1 / 8), "with a jump": 0.3, "to nothing": 0.3}
    one = torch.ones(1, dtype=torch.float64)
    for name, fall in falls.items():
        for guess in (1e-3, 1.0, 1e3):
            tried = []

            def lead(at, radius, fall=fall, tried=tried):
                tried.append(float(radius[0]))
                return fall(radius)

            found = float(largest_radius(lead, one, guess * one, torch.inf * one, steps=40)[0])
            if name != "steeply":
                assert ends[name] * (1 - 2e-3) <= found <= ends[name], (name, guess, tried)
            assert found in tried
            assert fall(torch.tensor(found)) > 0


@pytest.mark.shared
@pytest.mark.skipif(not (SHARED / "weights").is_dir(), reason="../shared/weights is not beside the project")
@pytest.mark.parametrize(("name", "norm"), [("clean", Norm.LINF), ("adversarial", Norm.L2)])
def test_certificates_for_the_public_mnist_pair_are_above_0_and_below_every_attack(name, norm):
    test = fm.load("mnist", root=SHARED / "data", split="test")
    x, y = np.asarray(test.x[:16]), np.asarray(test.y[:16])
    network = fm.build_architecture("mnist_cnn", (1, 28, 28), 10)
    load_weights(network, SHARED / "weights" / f"mnist-lenet5madry-{name}.pt")
    proven = measure(network, x, y, Verified(norm, steps=5))
    assert (proven.values <= measure(network, x, y, Plumb(norm, steps=10)).values).all()
    assert (proven.values[proven.correct] > 0).mean() > 0.9
