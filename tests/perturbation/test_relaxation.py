"""Bounds over a region hold for every input in it, including rounding, and are exact for linear models."""

import numpy as np
import pytest
import torch
from torch import nn

from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.layers.tracing import layers_of
from fairmargin.perturbation.relaxation import Region, Relaxation
from tests.oracles import _shortest
from tests.perturbation.networks import formula

NORMS = [Norm.L2, Norm.LINF]
every_norm = pytest.mark.parametrize("norm", NORMS, ids=str)


def some_network(seed, dtype=torch.float32):
    """Return a small random network and the shape of its samples."""
    torch.manual_seed(seed)
    if seed % 2:
        body = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 3))
        return strengthened(body, dtype), (5,)
    body = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(3, 4, 2),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(4, 3),
    )
    return strengthened(body, dtype), (1, 4, 4)


def strengthened(body, dtype):
    """Initialise a network with larger weights than torch does, so that the boundary lies between the samples."""
    for part in body:
        if isinstance(part, (nn.Linear, nn.Conv2d)):
            nn.init.normal_(part.weight, std=1.4 / part.weight[0].numel() ** 0.5)
            nn.init.normal_(part.bias, std=0.1)
    return body.to(dtype).eval()


def inside(region, count, generator):
    """Return random inputs of the region, many of them at its limits."""
    shape = (count, *region.center.shape)
    step = torch.randn(shape, generator=generator, dtype=torch.float64)
    if region.norm is Norm.LINF:
        step = torch.where(torch.rand(shape, generator=generator) < 0.5, step.sign(), step.clamp(-1, 1))
    else:
        step = step / step.norm(dim=2, keepdim=True)
    step = step * region.radius[:, None]
    return region.center + region.scale * torch.maximum(torch.minimum(step, region.up), -region.down)


@every_norm
@pytest.mark.parametrize("wide", [0, 1000], ids=["intervals", "backwards"])
@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_for_the_models_values_at_inputs_of_the_region(seed, norm, wide):
    body, shape = some_network(seed)
    features = int(np.prod(shape))
    scale = np.linspace(0.5, 2, features)
    scale[1] = 0.0
    model = as_classifier(body, classes=range(3), domain=Domain(0, 1, scale))
    generator = torch.Generator().manual_seed(seed)
    rows = torch.rand(4, features, generator=generator)
    with model.network(shape) as network, torch.no_grad():
        layers = layers_of(model, shape)
        for radius in (0.0, 1e-3, 0.1, 1.0):
            region = Region.around(network, rows, norm, torch.full((4,), radius))
            relaxation = Relaxation.of(layers, region, wide)
            functions = torch.randn(4, 7, 3, generator=generator, dtype=torch.float64)
            bound, slopes = relaxation.lowest(len(layers.steps), functions)
            assert slopes.shape == (4, 7, features)
            x = inside(region, 200, generator).float()
            said = body(x.reshape(-1, *shape)).reshape(200, 4, 3).double()
            assert (torch.einsum("nbc,bfc->nbf", said, functions) >= bound).all()
            end = relaxation.values[-1]
            assert ((said >= end.low) & (said <= end.high)).all()
            assert ((said - end.center).norm(dim=2) <= end.change).all()


def test_one_value_that_is_the_largest_of_several_windows_changes_all_of_them():
    body = nn.Sequential(nn.MaxPool2d(3, 1), nn.Flatten(), nn.Linear(9, 3))
    rows = torch.nn.functional.one_hot(torch.tensor([12]), 25).float()  # the pixel in the middle of 5 × 5
    model = as_classifier(body, classes=range(3), domain=Domain(0, 9))
    with model.network((1, 5, 5)) as network, torch.no_grad():
        region = Region.around(network, rows, Norm.L2, torch.tensor([0.5]))
        relaxation = Relaxation.of(layers_of(model, (1, 5, 5)), region)
    assert relaxation.values[1].change.item() >= 3 * 0.5


@every_norm
def test_bounds_are_exact_for_affine_models(norm):
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3)).double()
    model = as_classifier(body, classes=range(3), domain=Domain(-np.inf, np.inf))
    weight = body[1].weight @ body[0].weight
    rows = torch.randn(2, 6, dtype=torch.float64)
    with model.network((6,)) as network, torch.no_grad():
        layers = layers_of(model, (6,))
        relaxation = Relaxation.of(layers, Region.around(network, rows, norm, torch.tensor([0.3, 2.0])))
        bound, _ = relaxation.lowest(2, torch.eye(3, dtype=torch.float64).expand(2, 3, 3))
        fall = torch.linalg.vector_norm(weight, {Norm.L2: 2, Norm.LINF: 1}[norm], dim=1)
        expected = body(rows) - torch.tensor([[0.3], [2.0]]) * fall
    torch.testing.assert_close(bound, expected, rtol=1e-9, atol=1e-9)


@every_norm
def test_backward_passes_are_at_least_as_tight_as_intervals_and_usually_tighter(norm):
    torch.manual_seed(0)
    body, shape = some_network(1)
    model = as_classifier(body, classes=range(3))
    rows = torch.rand(8, 5)
    with model.network(shape) as network, torch.no_grad():
        layers = layers_of(model, shape)
        region = Region.around(network, rows, norm, torch.full((8,), 0.1))
        loose, tight = (Relaxation.of(layers, region, wide) for wide in (0, 100))
    for one, other in zip(loose.values[:4], tight.values[:4], strict=True):
        assert ((other.low >= one.low - 1e-12) & (other.high <= one.high + 1e-12)).all()
    widths = [(part.values[3].high - part.values[3].low).mean() for part in (loose, tight)]
    assert widths[1] < 0.9 * widths[0]


@every_norm
@pytest.mark.parametrize("seed", range(4))
def test_the_minimum_of_a_linear_function_equals_that_of_scipy_solvers(norm, seed):
    rng = np.random.default_rng(seed)
    network = formula(lambda rows: rows[:, :2], features=6, low=0.0, high=1.0)
    rows = torch.tensor(rng.uniform(size=(5, 6)))
    slopes = torch.tensor(rng.normal(size=(5, 3, 6)))
    radius = torch.tensor(rng.uniform(0.05, 0.8, size=5))
    region = Region.around(network, rows, norm, radius)
    fallen = (slopes * rows[:, None]).sum(dim=2) - region.least(slopes)
    for i in range(5):
        for k in range(3):
            gain = -slopes[i, k].numpy()
            # The radius within which the function falls that much is the region's own: the fall is the largest.
            needed = _shortest(gain, float(fallen[i, k]) * (1 - 1e-6), -rows[i].numpy(), 1 - rows[i].numpy(), norm)
            assert needed == pytest.approx(float(radius[i]), rel=1e-4) or needed < radius[i]
            beyond = _shortest(gain, float(fallen[i, k]) * (1 + 1e-4), -rows[i].numpy(), 1 - rows[i].numpy(), norm)
            assert beyond > radius[i] * (1 - 1e-6)


def test_a_region_does_not_grow_beyond_the_farthest_corner_of_the_box():
    network = formula(lambda rows: rows[:, :2], features=2, low=0.0, high=1.0)
    region = Region.around(network, torch.tensor([[0.25, 0.5]]), Norm.L2, torch.tensor([9.0]))
    assert region.farthest.item() == pytest.approx(np.hypot(0.75, 0.5))
    low, high = region.interval()
    assert (low.tolist(), high.tolist()) == ([[0.0, 0.0]], [[1.0, 1.0]])
    assert region.least(torch.tensor([[[1.0, -2.0]]]).double()).item() == pytest.approx(-2)
    free = formula(lambda rows: rows[:, :2], features=2, low=0.0)
    assert Region.around(free, torch.tensor([[0.25, 0.5]]), Norm.L2, torch.tensor([9.0])).farthest.item() == np.inf
