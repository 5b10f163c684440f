import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from fairmargin.core.norm import Norm
from fairmargin.distances.measure import measure
from fairmargin.distances.searches.fmn import FMN, on_sphere, projected
from fairmargin.models.as_classifier import as_classifier
from tests.peers import of_inputs, peer
from tests.perturbation.networks import mlp, test_digits

NORMS = pytest.mark.parametrize("norm", list(Norm), ids=str)


@pytest.mark.parametrize(("norm", "order"), [(Norm.L1, 1), (Norm.L2, 2)], ids=str)
def test_it_crosses_the_boundary_even_where_limits_shorten_its_steps(norm, order):
    # As published, steps end at the boundary itself, are clipped and never cross it: so adv-lib's version fails here.
    module, (x, y) = mlp(), test_digits(60)
    theirs = peer("adv_lib.attacks").fmn(module, torch.tensor(x), torch.tensor(y), norm=order, steps=30)
    right = as_classifier(module).predict(x) == y
    assert np.isinf(of_inputs(module, x, y, theirs, norm)[right]).mean() > 0.3
    found = measure(module, x, y, FMN(norm, steps=30)).values[right]
    assert found.max() < 3 * np.median(found)  # no sample needed a reference


@NORMS
def test_projected_rows_are_the_nearest_of_the_ball(norm):
    rng = np.random.default_rng(0)
    rows = torch.tensor(rng.normal(size=(20, 9)))
    radius = torch.tensor(rng.uniform(0.1, 1.5, size=20) * norm.length(np.ones(9)))
    found = projected(rows, radius, norm)
    lengths = norm.length(found.numpy())
    assert (lengths <= radius.numpy() + 1e-12).all()
    inside = norm.length(rows.numpy()) <= radius.numpy()
    assert 0 < inside.sum() < 20
    torch.testing.assert_close(found[inside], rows[inside])
    np.testing.assert_allclose(lengths[~inside], radius[~inside], rtol=1e-12)
    for row, point, size in zip(rows.numpy(), found.numpy(), radius.numpy(), strict=True):
        if norm is Norm.L1 and abs(row).sum() > size:  # all shrink by one amount, found by a solver
            cut = brentq(lambda t, row=row, size=size: np.maximum(abs(row) - t, 0).sum() - size, 0, abs(row).max())
            np.testing.assert_allclose(point, np.sign(row) * np.maximum(abs(row) - cut, 0), atol=1e-9)
        for _ in range(20):  # no other point of the ball is nearer
            other = rng.normal(size=9)
            other *= size * rng.uniform() / norm.length(other)
            assert np.linalg.norm(row - point) <= np.linalg.norm(row - other) + 1e-12


@NORMS
def test_rows_on_the_sphere_have_its_radius_and_zero_rows_and_infinite_radii_do_not_change(norm):
    rows = torch.tensor([[3.0, -1.0], [0.01, 0.02], [0.0, 0.0], [5.0, 2.0]])
    found = on_sphere(rows, torch.tensor([2.0, 2.0, 2.0, torch.inf]), norm)
    np.testing.assert_allclose(norm.length(found[:2].numpy()), [2, 2], rtol=1e-6)
    assert found[2:].tolist() == [[0, 0], [5, 2]]
