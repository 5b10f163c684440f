from copy import deepcopy

import numpy as np
import pytest
import torch

from fairmargin.attacks.rfgsm import RFGSM
from fairmargin.core.norm import Norm
from fairmargin.errors import InputError
from fairmargin.models.as_classifier import as_classifier
from tests.attacks.victims import half_space, run
from tests.peers import peer
from tests.perturbation.networks import cnn, test_digits


def test_the_published_variant_is_a_random_step_and_a_gradient_step_of_the_remaining_radius():
    model, x, y, distances = half_space()
    radius = distances(Norm.LINF) * 0.3  # too short for success, so that the last point is returned
    found = run(RFGSM(start=0.25), model, x, y, radius)
    moved = (found - x) / radius[:, None]
    up = np.sign(model.weight[1]) * np.where(y == 0, 1, -1)[:, None]
    # 0.25 + 0.75 in the direction of the gradient, 0.75 − 0.25 against it.
    sizes = np.unique(np.round(moved * up, 9))
    better = (found != x).any(axis=1)  # the sample is returned if the random step decreased the loss more
    assert better.sum() >= 25
    assert set(sizes) <= {0.5, 1.0, 0.0}
    assert {0.5, 1.0} <= set(sizes)
    share = (np.round(moved[better] * up[better], 9) == 1.0).mean()
    assert 0.3 < share < 0.8  # half of the signs, or slightly more because some samples are returned


def test_the_projected_variant_equals_pgd():
    model, x, y, distances = half_space()
    radius = distances(Norm.LINF)
    beyond = run(RFGSM(variant="projected"), model, x, y, radius * 1.001)
    assert (model.predict(beyond) != y).all()


def test_the_projected_variant_fools_as_many_as_torchattacks_rfgsm():
    x, y = test_digits(200)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = peer("torchattacks").RFGSM(deepcopy(cnn()), eps=0.06, alpha=0.015, steps=10)(
            torch.tensor(x), torch.tensor(y)
        )
    model = as_classifier(cnn())
    wrong = [
        (model.predict(found) != y).sum()
        for found in (run(RFGSM(variant="projected"), model, x, y, 0.06), theirs.numpy())
    ]
    assert 40 < wrong[1] < 190
    assert wrong[1] - 1 <= wrong[0] <= wrong[1] + 5


@pytest.mark.parametrize("norm", [Norm.LINF, Norm.L2])
def test_the_random_step_depends_on_the_key(norm):
    x, y = test_digits(20)
    first, again, other = (run(RFGSM(norm), cnn(), x, y, 0.05, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_in_l2_both_steps_together_stay_within_the_radius():
    model, x, y, distances = half_space()
    radius = distances(Norm.L2) * 0.3
    sizes = np.linalg.norm(run(RFGSM(Norm.L2), model, x, y, radius) - x, axis=1) / radius
    assert (sizes <= 1).all()
    assert (sizes > 0.3).all()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RFGSM(variant="tramér"), "`variant` of RFGSM must be one of tramer, projected; given 'tramér'"),
        (lambda: RFGSM(start=1.0), "`start` of RFGSM must lie between 0 and 1"),
        (lambda: RFGSM(start=0.0), "`start` of RFGSM must lie between 0 and 1"),
        (lambda: RFGSM(steps=0), "`steps` of RFGSM must be at least 1"),
    ],
)
def test_invalid_settings_are_refused(make, said):
    with pytest.raises(InputError, match=said):
        make()
