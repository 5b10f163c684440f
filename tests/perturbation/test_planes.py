import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.models.linear import LinearClassifier
from fairmargin.perturbation.lengths import length
from fairmargin.perturbation.planes import nearest_on_plane, unblocked
from tests.oracles import linear_distance

NORMS = pytest.mark.parametrize("norm", [Norm.L2, Norm.LINF], ids=str)


@NORMS
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), features=st.integers(1, 6))
def test_is_the_point_of_a_numerical_optimiser_in_a_box_with_scales_and_immutable_features(norm, seed, features):
    rng = np.random.default_rng(seed)
    scale = rng.choice([0.0, 0.2, 1.0, 3.0], size=features, p=[0.1, 0.3, 0.3, 0.3])
    scale[0] = 1.0
    low = np.where(rng.uniform(size=features) < 0.3, -np.inf, 0.0)
    weight, domain = np.stack([np.zeros(features), rng.normal(size=features)]), Domain(low, np.ones(features), scale)
    x = rng.uniform(size=features)
    bias = -float(weight[1] @ x) - rng.uniform(0, 1)
    model = LinearClassifier(weight, [0.0, bias], domain=domain)
    expected = linear_distance(model, x, 0, norm)
    with model.network((features,)) as network:
        start, gain = torch.tensor(x)[None], torch.tensor(weight[1] * scale)[None]
        needed = torch.tensor([-float(weight[1] @ x + bias)])
        point = nearest_on_plane(network, start, gain, needed, norm)
        found = length(point - start, norm, network.scale).item()
    assert model.domain.contains(point.numpy(), slack=1e-12).all()
    assert torch.equal(point[0][scale == 0], start[0][scale == 0])
    if np.isfinite(expected):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-9)


def test_features_at_a_limit_can_move_inwards_only():
    model = LinearClassifier(np.zeros((2, 4)), [0.0, 0.0], domain=Domain(0, 1))
    with model.network((4,)) as network:
        rows = torch.tensor([[0.0, 0.0, 1.0, 0.5]], dtype=torch.float64)
        gain = torch.tensor([[-1.0, 2.0, 3.0, -4.0]], dtype=torch.float64)
        assert unblocked(network, rows, gain).tolist() == [[0.0, 2.0, 0.0, -4.0]]


@NORMS
def test_does_not_move_without_a_slope_or_a_required_increase(norm):
    model = LinearClassifier(np.zeros((2, 2)), [0.0, 0.0])
    with model.network((2,)) as network:
        start = torch.tensor([[0.3, 0.4]] * 3, dtype=torch.float64)
        gain = torch.tensor([[0.0, 0.0], [1.0, 1.0], [1e-320, 0.0]], dtype=torch.float64)
        needed = torch.tensor([1.0, -1.0, 1e300], dtype=torch.float64)
        assert torch.equal(nearest_on_plane(network, start, gain, needed, norm), start)
