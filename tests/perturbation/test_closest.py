import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.norm import Norm
from fairmargin.perturbation.closest import PRECISION, Closest
from tests.perturbation.networks import by_margin, formula


def along_a_line(margin, far):
    """Return the result of `search_back` for samples at 0 and points at `far`, and its number of evaluations."""
    asked = []

    def counted(rows):
        asked.append(len(rows))
        return margin(rows[:, 0])

    network = formula(by_margin(counted), tile=1)
    far = torch.as_tensor(far, dtype=torch.float64).reshape(-1, 1)
    which = torch.arange(len(far))
    closest = Closest.of(network, torch.zeros_like(far), torch.zeros(len(far), dtype=torch.long), Norm.L2)
    fooled = closest.offer(which, far)
    asked.clear()
    closest.search_back(which)
    return closest, fooled, len(asked)


MARGINS = {
    "straight": lambda t: 0.7 - t,
    "near the sample": lambda t: 0.001 - t,
    "steep": lambda t: torch.tanh((0.7 - t) * 1e6),
    "steep and near": lambda t: torch.tanh((0.05 - t) * 1e6),
    "flat": lambda t: (0.7 - t) ** 9,
    "a step": lambda t: torch.where(t < 0.637, 1.0, -1.0).double(),
    "falling fast, then slowly": lambda t: torch.exp(-20 * t) - math.exp(-8),
    "falling slowly, then fast": lambda t: math.exp(8) - torch.exp(20 * t),
    "several crossings": lambda t: torch.cos(9 * t) + 0.3 - t,
    "a cliff to a plain": lambda t: torch.where(t < 0.9, 1 + t, -1e-9 * torch.ones_like(t)),
    "a plain to a cliff": lambda t: torch.where(t < 0.31, 1e-9 * torch.ones_like(t), -10 * t),
    "huge": lambda t: 1e30 * (0.5 - t) ** 3,
}


@pytest.mark.parametrize("far", [0.95, 1.0, 1.3, 1.9])
@pytest.mark.parametrize("name", MARGINS)
def test_search_back_ends_slightly_beyond_a_boundary_of_any_shape(name, far):
    margin = MARGINS[name]
    closest, fooled, _ = along_a_line(margin, [far])
    assert fooled.tolist() == [bool(margin(torch.tensor([far], dtype=torch.float64)) < 0)]
    if not fooled:
        assert closest.distance.tolist() == [math.inf]
        return
    found = closest.distance
    assert (margin(closest.point[:, 0]) < 0).all()
    assert torch.equal(closest.point[:, 0], found)
    assert found <= far
    assert (margin(found * (1 - PRECISION)) >= 0).all()


@settings(max_examples=60, deadline=None)
@given(crossing=st.floats(0.5, 0.999), bend=st.floats(-3, 3), slope=st.floats(1e-3, 1e3))
def test_search_back_finds_the_crossing_of_a_curved_boundary(crossing, bend, slope):
    def margin(t):
        return slope * (crossing - t) * torch.exp(bend * t)

    closest, _, asked = along_a_line(margin, [1.0])
    assert crossing <= closest.distance.item() <= crossing * (1 + 1.01 * PRECISION)
    assert asked <= 24


def test_search_back_takes_few_evaluations_on_a_linear_boundary():
    _, _, asked = along_a_line(lambda t: 0.98 - t, [1.0])
    assert asked <= 5


def test_search_back_never_increases_the_distance_and_does_not_move_other_samples():
    closest, _, _ = along_a_line(lambda t: 0.5 - t, [1.0, 0.500001, 0.4, 30.0])
    assert closest.distance[2].item() == math.inf
    assert closest.distance[1].item() <= 0.500001
    np.testing.assert_allclose(closest.distance[[0, 3]].numpy(), 0.5, rtol=1.01 * PRECISION)


def test_search_back_follows_the_segment_to_the_sample_in_two_dimensions():
    # Class 1 is outside of a star; the expected crossing is found by brute force along the ray.
    def margin(rows):
        angle = torch.atan2(rows[:, 1], rows[:, 0])
        return 1 + 0.3 * torch.sin(5 * angle) - rows.norm(dim=1)

    network = formula(by_margin(margin), features=2, tile=4)
    angles = torch.linspace(0, 6, 30, dtype=torch.float64)
    start = 0.1 * torch.rand(30, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    far = start + 2 * torch.stack([angles.cos(), angles.sin()], 1)
    closest = Closest.of(network, start, torch.zeros(30, dtype=torch.long), Norm.L2)
    assert closest.offer(torch.arange(30), far).all()
    closest.search_back(torch.arange(30))
    for i in range(30):
        shares = torch.linspace(0, 1, 20_001, dtype=torch.float64)[:, None]
        outside = margin(start[i] + shares * (far[i] - start[i])) < 0
        first = shares[outside.nonzero()[0]].item() * 2  # every ray from near the center crosses the star once
        assert first - 2e-4 <= closest.distance[i].item() <= first * (1 + 2 * PRECISION)


def test_keeps_the_nearest_misclassified_candidate():
    network = formula(by_margin(lambda rows: 1 - rows[:, 0].abs()), tile=8)
    closest = Closest.of(network, torch.zeros(2, 1).double(), torch.tensor([0, 0]), Norm.LINF)
    both = torch.arange(2)
    assert closest.offer(both, torch.tensor([[3.0], [0.5]]).double()).tolist() == [True, False]
    assert closest.distance.tolist() == [3.0, math.inf]
    assert closest.offer(both, torch.tensor([[-2.0], [4.0]]).double()).tolist() == [True, True]
    assert closest.offer(both, torch.tensor([[5.0], [5.0]]).double()).tolist() == [True, True]
    assert closest.offer(torch.tensor([1]), torch.tensor([[-1.5]]).double()).tolist() == [True]
    assert closest.distance.tolist() == [2.0, 1.5]
    assert closest.point.tolist() == [[-2.0], [-1.5]]


def test_candidates_are_verified_with_the_original_model():
    network = formula(by_margin(lambda rows: 1 - rows[:, 0]), tile=8)
    hasty = type(network)(
        lambda rows: -network.scores(rows), network.plain, 2, 8, network.low, network.high, network.scale
    )
    closest = Closest.of(hasty, torch.zeros(1, 1).double(), torch.tensor([0]), Norm.L2)
    assert closest.offer(torch.tensor([0]), torch.tensor([[0.5]]).double()).tolist() == [False]


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_candidates_with_scores_that_overflow_do_not_count(score):
    def scores(rows):
        return torch.stack([rows[:, 0] * 0, torch.where(rows[:, 0] > 1, score, -1.0)], 1)

    closest = Closest.of(formula(scores), torch.zeros(1, 1).double(), torch.tensor([0]), Norm.L2)
    assert closest.offer(torch.tensor([0]), torch.tensor([[2.0]]).double()).tolist() == [False]
    assert closest.distance.tolist() == [math.inf]


def test_equal_scores_predict_the_first_class():
    network = formula(by_margin(lambda rows: 1 - rows[:, 0]))
    for label, fooled in ((0, False), (1, True)):
        closest = Closest.of(network, torch.zeros(1, 1).double(), torch.tensor([label]), Norm.L2)
        assert closest.offer(torch.tensor([0]), torch.ones(1, 1).double()).tolist() == [fooled]


def test_settle_lengthens_perturbations_that_only_the_faster_copy_misclassifies():
    network = formula(by_margin(lambda rows: 1 - rows[:, 0]), tile=4, high=5.0)
    closest = Closest.of(network, torch.zeros(5, 1).double(), torch.zeros(5, dtype=torch.long), Norm.L2)
    offered = torch.tensor([[1.5], [0.9998], [0.999], [0.995], [0.9]], dtype=torch.float64)
    closest.settle(torch.arange(5), offered)
    expected = [1.5, 0.9998 * 1.0005, 0.999 * 1.002, 0.995 * 1.01, math.inf]
    np.testing.assert_allclose(closest.distance.numpy(), expected, rtol=1e-12)
    assert (closest.point[:4] > 1).all()
    assert closest.point[4] == 0


def test_settle_stays_inside_the_domain_and_keeps_nearer_points():
    network = formula(by_margin(lambda rows: 1 - rows[:, 0]), tile=4, high=1.0)
    closest = Closest.of(network, torch.zeros(1, 1).double(), torch.tensor([0]), Norm.L2)
    closest.settle(torch.tensor([0]), torch.tensor([[0.999]]).double())
    assert closest.distance.tolist() == [math.inf]  # the scores are equal at the limit of the domain
    free = formula(by_margin(lambda rows: 1 - rows[:, 0]), tile=4)
    closest = Closest.of(free, torch.zeros(1, 1).double(), torch.tensor([0]), Norm.L2)
    closest.offer(torch.tensor([0]), torch.tensor([[1.1]], dtype=torch.float64))
    closest.settle(torch.tensor([0]), torch.tensor([[2.0]]).double())
    assert closest.distance.tolist() == [1.1]


def test_settle_evaluates_the_original_model_once_where_it_agrees():
    asked = []

    def margin(rows):
        asked.append(len(rows))
        return 1 - rows[:, 0]

    closest = Closest.of(formula(by_margin(margin), tile=8), torch.zeros(8, 1).double(), torch.zeros(8).long(), Norm.L2)
    asked.clear()
    closest.settle(torch.arange(8), torch.full((8, 1), 2.0).double())
    assert len(asked) == 1
