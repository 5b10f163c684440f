from copy import deepcopy

import pytest
import torch
from torch import nn

from fairmargin.attacks.ascent import ascend, slope
from fairmargin.attacks.losses import cross_entropy
from fairmargin.core.norm import Norm
from fairmargin.perturbation.balls import Ball, draws_for
from tests.perturbation.networks import cnn, test_digits


def batch(count=16):
    x, y = test_digits(count)
    return torch.tensor(x), torch.tensor(y)


@pytest.mark.parametrize("norm", [Norm.LINF, Norm.L2])
def test_increases_the_loss_of_a_batch_of_images_inside_ball_and_box(norm):
    (x, y), module = batch(), cnn()
    ball = Ball.around(x, norm, 0.3, low=0, high=1)
    begin = ball.random_start(draws_for(x, norm, torch.Generator().manual_seed(0)))

    def loss(at):
        return cross_entropy(module(at), y)

    found = ascend(loss, begin, ball=ball, step=0.05, steps=10)
    with torch.no_grad():
        assert (loss(found) > loss(x)).all()
    assert not found.requires_grad
    assert found.shape == x.shape
    assert ((found >= 0) & (found <= 1)).all()
    assert ((found - x).flatten(1).norm(p=torch.inf if norm is Norm.LINF else 2, dim=1) <= 0.3 + 1e-6).all()


def test_equals_a_simple_loop():
    (x, y), module = batch(4), cnn()
    radius = torch.tensor([0.05, 0.1, 0.2, 0.0])
    found = ascend(
        lambda at: cross_entropy(module(at), y),
        x,
        ball=Ball.around(x, Norm.LINF, radius, 0, 1),
        step=radius / 4,
        steps=5,
    )
    for i in range(4):
        at = x[i : i + 1].clone()
        for _ in range(5):
            at.requires_grad_(True)
            (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(module(at), y[i : i + 1]), at)
            at = at.detach() + radius[i] / 4 * gradient.sign()
            at = (x[i : i + 1] + (at - x[i : i + 1]).clamp(-radius[i], radius[i])).clamp(0, 1)
        assert torch.isclose(found[i], at[0], rtol=0, atol=1e-6).float().mean() > 0.98


def test_adds_no_gradients_to_parameters_and_works_under_no_grad():
    (x, y), module = batch(4), deepcopy(cnn())
    module.zero_grad()
    with torch.no_grad():
        ascend(lambda at: cross_entropy(module(at), y), x, ball=Ball.around(x, Norm.LINF, 0.1), step=0.1, steps=2)
        assert not torch.is_grad_enabled()
    assert all(parameter.grad is None for parameter in module.parameters())


def test_a_gradient_that_is_not_finite_is_zero():
    x = torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    found = slope(lambda at: at.sqrt().sum(dim=1), x)  # infinite at 0
    assert torch.equal(found, torch.tensor([[0.0, 0.0], [0.5, 0.5]]))
