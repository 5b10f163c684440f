import numpy as np
import pytest
import torch
from torch import nn

from fairmargin.distances.catalog import ESTIMATORS
from fairmargin.distances.measure import measure
from fairmargin.errors import ModelError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.perturbation.margins import lead, rivals_of, slopes
from tests.perturbation.networks import formula, mlp, test_digits

SCORES = torch.tensor([[3.0, 1.0, 2.0, 2.0], [0.0, -1.0, 5.0, 5.0]])


def test_the_margin_is_the_difference_to_the_highest_other_score():
    assert lead(SCORES, torch.tensor([0, 2])).tolist() == [1.0, 0.0]
    assert lead(SCORES, torch.tensor([1, 0])).tolist() == [-2.0, -5.0]


def test_rivals_are_sorted_by_score_without_the_samples_class():
    assert rivals_of(SCORES, torch.tensor([0, 2]), None).tolist() == [[2, 3, 1], [3, 0, 1]]
    assert rivals_of(SCORES, torch.tensor([2, 1]), 2).tolist() == [[0, 3], [2, 3]]
    assert rivals_of(SCORES, torch.tensor([0, 2]), 99).shape == (2, 3)


def test_slopes_equal_finite_differences_in_units_of_the_scale():
    scale = torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64)

    def scores(rows):
        return torch.stack([rows[:, 0].sin() + rows[:, 1] ** 2, rows[:, 0] * rows[:, 1] * rows[:, 2], rows[:, 2]], 1)

    network = formula(scores, features=3, tile=4, scale=scale)
    x = torch.rand(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y, rivals = torch.tensor([0, 0, 1, 2]), torch.tensor([[1, 2], [2, 1], [0, 2], [1, 0]])
    every = torch.arange(4)
    with torch.no_grad():  # which must not matter
        found_slopes = list(slopes(network, x, y, rivals))
    for j, (margin, gain) in enumerate(found_slopes):

        def leads(rows, j=j):
            return scores(rows)[every, y] - scores(rows)[every, rivals[:, j]]

        assert torch.equal(margin, leads(x))
        for feature in range(3):
            step = torch.zeros(3, dtype=torch.float64)
            step[feature] = 1e-6 * scale[feature]
            found = (leads(x - step) - leads(x + step)) / 2e-6
            np.testing.assert_allclose(gain[:, feature].numpy(), found.numpy(), atol=1e-8)


def test_the_slope_of_a_row_does_not_depend_on_other_rows():
    x, _ = test_digits(64)
    rows, y = torch.tensor(x).flatten(1), torch.zeros(64, dtype=torch.long)
    rivals = torch.full((64, 1), 7)
    with as_classifier(mlp(epochs=0)).network((1, 8, 8)) as network:
        ((_, together),) = slopes(network, rows, y, rivals)
        ((_, same),) = slopes(network, rows[:1].expand(64, -1), y, rivals)
    assert torch.equal(same[5], together[0])


def test_a_score_that_does_not_depend_on_the_inputs_has_slope_0():
    network = formula(lambda rows: torch.stack([rows[:, 0] * 0 + 1, rows[:, 0]], 1), tile=2)
    ((_, gain),) = slopes(network, torch.ones(2, 1).double(), torch.tensor([0, 0]), torch.tensor([[0], [0]]))
    assert gain.tolist() == [[0.0], [0.0]]
    bias = torch.zeros(2, requires_grad=True)
    network = formula(lambda rows: bias.expand(len(rows), -1), tile=2)
    ((_, gain),) = slopes(network, torch.ones(2, 1).double(), torch.tensor([0, 0]), torch.tensor([[1], [1]]))
    assert gain.tolist() == [[0.0], [0.0]]


class _NoBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


@pytest.mark.parametrize("name", ["plumb", "deepfool", "fmn", "first_order"])
def test_scores_whose_backward_pass_fails_are_refused(name):
    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            return _NoBackward.apply(self.layer(x))

    # The same sample with every label, one of which is the predicted class.
    with pytest.raises(ModelError, match=r"cannot be differentiated \(.*backward.*\)"):
        measure(
            as_classifier(Module(), classes=range(3)), np.full((3, 4), 0.5, np.float32), [0, 1, 2], ESTIMATORS[name]()
        )
