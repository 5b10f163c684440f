from dataclasses import replace

import numpy as np
import pytest
import torch

from fairmargin.core.norm import Norm
from fairmargin.perturbation.closest import PRECISION, Closest
from fairmargin.perturbation.references import nearest_references, references_of
from tests.perturbation.networks import by_margin, formula


def right_of(limit, **settings):
    """Return a network that predicts class 1 where the first feature exceeds a limit, with a gradient of 0."""
    return formula(by_margin(lambda rows: torch.where(rows[:, 0] > limit, -1.0, 1.0).double()), **settings)


def rows(*values):
    return torch.tensor(values, dtype=torch.float64)


def zeros(count):
    return torch.zeros(count, dtype=torch.long)


@pytest.mark.parametrize("norm", list(Norm), ids=str)
def test_returns_references_of_another_predicted_class_nearest_first(norm):
    network = right_of(1.0, features=2)
    references = rows([5.0, 0.0], [0.5, 0.0], [2.0, 0.0], [3.0, -0.5], [-9.0, 0.0])
    network = replace(network, references=references)
    found = nearest_references(network, rows([0.0, 0.0], [6.0, 0.0]), zeros(2), norm)
    assert found[0].tolist()[:3] == [2, 3, 0]
    assert set(found[0].tolist()[3:]) == {-1}
    assert found[1].tolist()[:3] == [0, 3, 2]
    mine = nearest_references(network, rows([6.0, 0.0]), torch.tensor([1]), norm)
    assert mine[0].tolist()[:2] == [1, 4]


def test_at_most_eight_are_tried_and_equal_distances_keep_their_order():
    network = replace(right_of(1.0, tile=3), references=torch.full((20, 1), 2.0, dtype=torch.float64))
    assert nearest_references(network, rows([0.0]), zeros(1), Norm.L2).tolist() == [list(range(8))]


def test_a_reference_with_scores_that_overflow_is_not_used():
    def scores(x):
        return torch.stack([x[:, 0] * 0, torch.where(x[:, 0] > 2, torch.nan, x[:, 0] - 1)], 1)

    network = replace(formula(scores), references=rows([3.0], [1.5]))
    assert nearest_references(network, rows([0.0]), zeros(1), Norm.L2).tolist() == [[1, -1]]


def test_the_result_for_a_sample_does_not_depend_on_other_samples():
    generator = torch.Generator().manual_seed(0)
    network = formula(by_margin(lambda rows: 1 - rows.square().sum(dim=1)), features=3, tile=4)
    network = replace(network, references=2 * torch.randn(30, 3, generator=generator, dtype=torch.float64))
    start = 0.3 * torch.randn(11, 3, generator=generator, dtype=torch.float64)
    together = nearest_references(network, start, zeros(11), Norm.LINF)
    for i in (0, 5, 10):
        alone = nearest_references(network, start[i : i + 1], zeros(1), Norm.LINF)
        assert torch.equal(alone[0], together[i])


def test_without_references_reproducible_noise_over_the_domain_is_used():
    low, high = torch.tensor([0.0, -2.0, -torch.inf, 3.0]), torch.tensor([1.0, 2.0, torch.inf, torch.inf])
    network = replace(right_of(1.0, features=4), low=low.double(), high=high.double(), scale=rows(1.0, 1.0, 1.0, 1.0))
    noise = references_of(network)
    assert torch.equal(noise, references_of(network))
    assert noise.shape == (64, 4)
    for feature in (0, 1):
        assert (noise[:, feature] >= low[feature]).all()
        assert (noise[:, feature] <= high[feature]).all()
        assert noise[:, feature].std() > 0.2
    assert (noise[:, 2:] == 0).all()  # no range is known for these features
    state = torch.get_rng_state()
    references_of(network)
    assert torch.equal(torch.get_rng_state(), state)
    assert references_of(right_of(1.0, features=3)).tolist() == [[0.0, 0.0, 0.0]]  # a domain without limits


# fall_back


def fallen_back(network, start, y=None, norm=Norm.L2):
    closest = Closest.of(network, start, zeros(len(start)) if y is None else y, norm)
    found = closest.fall_back(torch.arange(len(start)))
    return closest, found


def test_fall_back_uses_the_nearest_reference_and_searches_the_boundary():
    network = replace(right_of(1.0), references=rows([9.0], [0.0], [4.0]))
    closest, found = fallen_back(network, rows([0.0], [0.5], [-3.0]))
    assert found.tolist() == [0, 1, 2]
    np.testing.assert_allclose(closest.distance.numpy(), [1.0, 0.5, 4.0], rtol=2 * PRECISION)
    assert (closest.point > 1).all()


def test_fall_back_does_not_change_samples_that_were_found_or_not_selected():
    network = replace(right_of(1.0), references=rows([9.0]))
    closest = Closest.of(network, rows([0.0], [0.0], [0.0]), zeros(3), Norm.L2)
    closest.offer(torch.tensor([0]), rows([5.0]))
    assert closest.fall_back(torch.tensor([0, 1])).tolist() == [1]
    assert closest.distance[0] == 5.0
    assert closest.distance[1] == pytest.approx(1.0, rel=2 * PRECISION)
    assert closest.distance[2] == torch.inf


def test_nothing_is_found_without_a_reference_of_another_class():
    network = replace(right_of(1.0), references=rows([0.1], [0.9]))
    assert nearest_references(network, rows([0.0], [0.5]), zeros(2), Norm.L2).tolist() == [[-1, -1], [-1, -1]]
    closest, found = fallen_back(network, rows([0.0]))
    assert len(found) == 0
    assert closest.distance.tolist() == [torch.inf]
    assert torch.equal(closest.point, closest.start)


def test_fall_back_keeps_immutable_features_and_tries_all_references():
    # Class 1 where both features are above 1; the second is immutable.
    def margin(x):
        return torch.where((x[:, 0] > 1) & (x[:, 1] > 1), -1.0, 1.0).double()

    network = formula(by_margin(margin), features=2, scale=torch.tensor([1.0, 0.0]).double())
    beyond = [[2.0 + i, 5.0] for i in range(30)]
    network = replace(network, references=rows([50.0, -5.0], *beyond))
    closest, found = fallen_back(network, rows([0.0, 2.0], [0.0, 0.0]))
    assert found.tolist() == [0]
    assert closest.point[0, 1] == 2.0
    assert closest.distance[0] == pytest.approx(1.0, rel=2 * PRECISION)
    assert closest.distance[1] == torch.inf  # no reference has class 1 with this second feature
    # The only useful reference has class 0 itself, and is the farthest of many.
    spoiled = [[0.01 * i, 5.0] for i in range(30)]
    closest, found = fallen_back(replace(network, references=rows([50.0, -5.0], *spoiled)), rows([0.0, 2.0]))
    assert found.tolist() == [0]
    assert closest.distance[0] == pytest.approx(1.0, rel=2 * PRECISION)


@pytest.mark.parametrize("norm", list(Norm), ids=str)
def test_every_sample_is_found_if_every_class_has_a_reference(norm):
    centres = torch.randn(5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def scores(x):  # the index of the nearest center, without a gradient
        near = torch.cdist(x, centres).argmin(dim=1)
        return torch.nn.functional.one_hot(near, 5).double()

    network = replace(formula(scores, features=3), references=centres)
    start = 2 * torch.randn(40, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    y = torch.cdist(start, centres).argmin(dim=1)
    closest, found = fallen_back(network, start, y, norm)
    assert len(found) == 40
    assert torch.isfinite(closest.distance).all()
    assert (torch.cdist(closest.point, centres).argmin(dim=1) != y).all()
