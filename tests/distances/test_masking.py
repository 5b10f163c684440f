"""Checks of a model without an attack: gradients, and what noise finds."""

import numpy as np
import pytest
import torch

from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances.masking import measure_noise, measure_slopes, without_references
from fairmargin.distances.measure import measure
from fairmargin.distances.searches.deepfool import DeepFool
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.references import Referenced
from tests.distances.confirmation import of_formula
from tests.distances.saturated import problem
from tests.perturbation.networks import mlp, test_digits

LINE = LinearClassifier([[0.0, 0.0], [3.0, 4.0]], [0.0, -5.0])


def broken(x):
    """Scores without a gradient where x₀ < 0.2, and with one that is NaN where x₀ > 0.8."""
    flat, steep = x[:, :1] < 0.2, x[:, :1] > 0.8
    root = torch.sqrt(torch.where(steep, x[:, :1] - x[:, :1].detach(), torch.ones_like(x[:, :1])))
    slope = torch.where(flat, torch.zeros_like(x[:, 1:]), x[:, 1:] + root)
    return torch.cat([slope + 1, 0 * slope], dim=1)


def test_the_distance_is_inf_exactly_where_the_gradient_is_0_or_nan():
    x = np.array([[0.1, 0.5], [0.5, 0.5], [0.9, 0.5], [0.05, 0.2], [0.5, 0.1]], dtype=np.float32)
    slopes = measure_slopes(of_formula(broken, bounds=(0, 1)), Norm.L2, x, np.array([0, 0, 0, 0, 1]))
    assert np.isinf(slopes.values).tolist() == [True, False, True, True, False]
    assert slopes.values[4] == 0  # misclassified
    assert slopes.bound is Bound.NEITHER
    faint = LinearClassifier([[0.0], [1e-60]], [0.0, -1.0])
    assert np.isinf(measure_slopes(faint, Norm.L2, np.zeros((1, 1)), np.array([0])).values).all()


def test_on_a_linear_model_it_is_the_distance():
    slopes = measure_slopes(LINE, Norm.L2, np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([0, 1]))
    assert slopes.values.tolist() == [1.0, 4.0]


@pytest.mark.parametrize("norm", list(Norm))
def test_noise_is_an_upper_bound_below_the_attacks_distance(norm):
    x = np.random.default_rng(0).normal(size=(30, 2))
    y = LINE.predict(x)
    attacked = np.full(30, 8.0)
    noise = measure_noise(LINE, norm, x, y, attacked)
    exact = np.abs(x @ [3, 4] - 5) / {Norm.L1: 4, Norm.L2: 5, Norm.LINF: 7}[norm]
    found = np.isfinite(noise.values)
    assert found.sum() > 20
    assert (noise.values[found] >= exact[found] - 1e-9).all()
    assert (noise.values[found] <= 0.95 * 8 + 1e-9).all()
    assert noise.bound is Bound.UPPER


def test_noise_does_not_beat_an_exact_attack():
    x = np.random.default_rng(0).normal(size=(60, 2))
    exact = np.abs(x @ [3, 4] - 5) / 5
    assert np.isinf(measure_noise(LINE, Norm.L2, x, LINE.predict(x), exact).values).all()


@pytest.mark.parametrize("norm", list(Norm))
def test_noise_finds_the_same_for_a_sample_alone_and_in_any_order(norm):
    x, y = test_digits(70)
    model = as_classifier(mlp(), bounds=(0, 1))
    attacked = np.where(np.arange(70) % 7, 0.4 if norm is Norm.LINF else 6.0, np.inf)
    together = measure_noise(model, norm, x, y, attacked, 5)
    order = np.random.default_rng(1).permutation(70)
    turned = measure_noise(model, norm, x[order], y[order], attacked[order], 5)
    np.testing.assert_array_equal(turned.values, together.values[order])
    for i in (0, 7, 69):
        alone = measure_noise(model, norm, x[i : i + 1], y[i : i + 1], attacked[i : i + 1], 5)
        np.testing.assert_array_equal(alone.values, together.values[i : i + 1])
    slopes = measure_slopes(model, norm, x, y)
    np.testing.assert_array_equal(measure_slopes(model, norm, x[order], y[order]).values, slopes.values[order])
    if norm is not Norm.L1:
        assert np.isfinite(together.values[y == model.predict(x)]).any()
        assert (measure_noise(model, norm, x, y, attacked, 6).values != together.values).any()


@pytest.mark.parametrize(
    ("domain", "found"), [(Domain(scale=[0.0, 1.0]), False), (Domain(0, 0.9), False), (Domain(), True)]
)
def test_noise_stays_in_the_domain_and_does_not_move_immutable_features(domain, found):
    model = LinearClassifier([[0.0, 0.0], [1.0, 0.0]], [0.0, -1.0], domain=domain)
    noise = measure_noise(model, Norm.LINF, np.zeros((1, 2)), np.array([0]), np.array([np.inf]))
    assert np.isfinite(noise.values[0]) == found


def test_misclassified_samples_have_distance_0():
    noise = measure_noise(LINE, Norm.L2, np.zeros((2, 2)), np.array([1, 1]), np.zeros(2))
    assert noise.values.tolist() == [0.0, 0.0]


def test_without_references_an_attack_shows_what_it_finds_by_itself():
    model, x, y, half = problem(80)
    aided = measure(model, x, y, DeepFool())
    alone = measure(Referenced(model, without_references((3,))), x, y, DeepFool())
    masked = half.membership == half.labels.index("masked")
    assert np.isfinite(aided.values).all()
    assert np.isinf(alone.values[masked]).mean() > 0.8
    np.testing.assert_array_equal(alone.values[~masked], aided.values[~masked])
