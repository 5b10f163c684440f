"""What the searches of today find. No promise of the protocol: a new estimator need not be listed here."""

import numpy as np
import pytest
import torch

from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances.catalog import ESTIMATORS
from tests.distances.confirmation import Formula, measured_and_confirmed
from tests.spec.test_every_estimator import random_layer, small

SEARCHES = ["plumb", "deepfool", "carlini_wagner", "ddn", "fmn", "alma"]  # their answers are upper bounds
every_search = pytest.mark.parametrize(
    ("name", "norm"), [(name, norm) for name in SEARCHES for norm in sorted(ESTIMATORS[name].norms, key=str)]
)


@every_search
def test_finds_the_boundary_wherever_there_is_a_gradient(name: str, norm: Norm) -> None:
    weight = np.array([1.5, -1.3, 0.6, 1.0])

    def saturated(x: torch.Tensor) -> torch.Tensor:  # flat in float32 where |tanh| is 1
        side = torch.tanh(60 * (x - 0.5) @ torch.tensor(weight, dtype=x.dtype))
        return torch.stack([side, -side], dim=1)

    x = np.random.default_rng(3).uniform(size=(12, 4)).astype(np.float32)
    flat = saturated(torch.tensor(x))[:, 0].abs() == 1
    found, _ = measured_and_confirmed(Formula(saturated), x, small(name, norm), classes=2)
    assert found.bound is Bound.UPPER
    assert np.isfinite(found.values[~flat.numpy()]).all()


@every_search
def test_finds_a_boundary_among_a_thousand_classes(name: str, norm: Norm) -> None:
    layer, rng = random_layer(6, 1000)
    found, _ = measured_and_confirmed(layer, rng.uniform(size=(5, 6)), small(name, norm), 1000)
    assert np.isfinite(found.values).all()


@every_search
def test_finds_a_boundary_for_half_of_the_samples_where_features_cannot_move(name: str, norm: Norm) -> None:
    layer, rng = random_layer(7, 3, seed=2)
    low, high = np.array([0.0, 0, 0, -np.inf, -np.inf, 0, -1]), np.array([1.0, 1, 0, np.inf, np.inf, 2, np.inf])
    domain = Domain(low, high, np.array([1.0, 0.1, 1.0, 5.0, 0.0, 2.0, 0.5]))
    found, _ = measured_and_confirmed(layer, rng.uniform(size=(8, 7)), small(name, norm), 3, domain)
    assert np.isfinite(found.values).mean() >= 0.5
