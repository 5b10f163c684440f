from copy import deepcopy

import numpy as np
import pytest
import torch

from fairmargin.attacks.fgsm import FGSM
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.models.as_classifier import as_classifier
from tests.attacks.victims import confident, half_space, run
from tests.peers import peer
from tests.perturbation.networks import cnn, test_digits


@pytest.mark.parametrize("norm", [Norm.LINF, Norm.L2])
def test_fools_a_linear_model_slightly_beyond_the_distance_and_not_before(norm):
    model, x, y, distances = half_space()
    beyond = run(FGSM(norm), model, x, y, distances(norm) * (1 + 1e-9))
    short = run(FGSM(norm), model, x, y, distances(norm) * (1 - 1e-9))
    assert (model.predict(beyond) != y).all()
    assert (model.predict(short) == y).all()


def test_in_a_box_no_corner_within_the_radius_has_a_larger_loss():
    model, x, y, _ = half_space(features=5, domain=Domain(-0.5, 0.8))
    x = x.clip(-0.5, 0.8)
    y, radius = model.predict(x), 0.4
    found = model.scores(run(FGSM(), model, x, y, radius))
    corners = np.stack(np.meshgrid(*[[-radius, radius]] * 5), axis=-1).reshape(-1, 5)
    for i in range(len(x)):
        there = model.scores((x[i] + corners).clip(-0.5, 0.8))
        best = (there[:, 1 - y[i]] - there[:, y[i]]).max()
        assert found[i, 1 - y[i]] - found[i, y[i]] == pytest.approx(best, abs=1e-12)


def test_equals_torchattacks_fgsm_up_to_rounding():
    x, y = test_digits(200)
    model = as_classifier(cnn())
    theirs = peer("torchattacks").FGSM(deepcopy(cnn()), eps=0.1)(torch.tensor(x), torch.tensor(y)).numpy()
    ours = run(FGSM(), model, x, y, 0.1)
    correct = model.predict(x) == y
    assert correct.mean() > 0.9
    # Where the step decreases the loss without success, the sample itself is returned.
    stepped = correct & (ours != x).any(axis=(1, 2, 3))
    assert stepped.sum() >= 0.98 * correct.sum()
    # A gradient that is 0 up to rounding can have either sign, which occurs in few features.
    assert np.isclose(ours[stepped], theirs[stepped], rtol=0, atol=1e-6).mean() > 0.999
    np.testing.assert_array_equal(
        model.predict(ours)[correct] != y[correct], model.predict(theirs)[correct] != y[correct]
    )


def test_works_where_the_gradient_of_the_cross_entropy_underflows():
    model, x, y, distances = confident()
    with torch.enable_grad():
        at = torch.tensor(x, requires_grad=True)
        torch.nn.functional.cross_entropy(model.module(at), torch.tensor(y)).backward()
    assert (at.grad == 0).all(dim=1).float().mean() > 0.8
    found = run(FGSM(), model, x, y, distances * 1.001)
    assert (model.predict(found) != y).all()


def test_a_random_start_depends_on_the_key_and_stays_within_the_radius():
    model, x, y, distances = half_space()
    radius = distances(Norm.LINF) * 0.5
    first, again, other = (run(FGSM(random_start=True), model, x, y, radius, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (np.abs(first - x).max(axis=1) <= radius).all()
    # From u in [−1, 1] a step of length 1 leads to min(1, 1 + u), so half of the features reach the limit.
    up = np.sign(model.weight[1]) * np.where(y == 0, 1, -1)[:, None]
    moved = (first - x) / radius[:, None] * up
    assert moved.min() >= 0
    assert 0.4 < np.isclose(moved, 1).mean() < 0.6
    assert (first != other).any(axis=1).all()


def test_a_random_start_changes_the_result_for_a_network():
    x, y = test_digits(40)
    plain, random = (run(FGSM(random_start=flag), cnn(), x, y, 0.05) for flag in (False, True))
    assert (plain != random).any()
