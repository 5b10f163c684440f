import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from fairmargin.attacks.apgd import APGD, _adapt_step_size, advance, check_intervals, initial_state
from fairmargin.attacks.pgd import PGD
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.models.as_classifier import as_classifier
from fairmargin.perturbation.balls import Ball
from tests.attacks.victims import run
from tests.distances.confirmation import Formula
from tests.perturbation.networks import cnn, formula, mlp, test_digits

both_norms = pytest.mark.parametrize("norm", [Norm.LINF, Norm.L2])


# Steps ----------------------------------------------------------------------------------------------------------


def test_the_step_size_is_checked_after_the_published_numbers_of_steps():
    assert list(check_intervals(100)) == [22, 41, 57, 70, 80, 87, 93, 99]
    assert list(check_intervals(20)) == [5, 9, 12, 14, 16, 18, 19, 20]
    for steps in (1, 2, 3, 7, 10, 50, 333):
        found = check_intervals(steps)
        assert all(1 <= at <= steps for at in found)
        assert all(gap >= 1 for gap in found.values())
        assert sum(found.values()) == max(found)


def hilly(x):
    """Return a function of two features with many local maxima."""
    return torch.sin(5 * x[..., 0]) + torch.cos(4 * x[..., 1] + x[..., 0]) - 0.3 * (x**2).sum(dim=-1)


def slope_of(x):
    at = x.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(hilly(at), at)
    return gradient


def algorithm_1(begin, radius, steps, norm):
    """Run the published algorithm in a ball around 0; return the best point, its value and the last step size."""
    when, before_last, last = [], Fraction(0), Fraction(22, 100)
    while last <= 1:
        when.append(math.ceil(last * steps))
        before_last, last = last, last + max(last - before_last - Fraction(3, 100), Fraction(6, 100))

    def project(x):
        return x.clamp(-radius, radius) if norm is Norm.LINF else x * min(1.0, radius / float(x.norm()))

    def towards(x):
        return slope_of(x).sign() if norm is Norm.LINF else slope_of(x) / slope_of(x).norm()

    eta, path = 2 * radius, [begin, project(begin + 2 * radius * towards(begin))]
    best, marks, etas, checked, rises = max(path, key=hilly), [hilly(begin)], [eta], [0], 0
    for k in range(1, steps + 1):
        rises += int(hilly(path[-1]) > hilly(path[-2]))
        if k in when:
            few = rises < 0.75 * (k - checked[-1])
            same = etas[-1] == (etas[-2] if len(etas) > 1 else etas[-1]) and hilly(best) == marks[-1]
            if few or same:
                eta, path = eta / 2, [*path[:-1], best]
            marks, etas, checked, rises = [*marks, hilly(best)], [*etas, eta], [*checked, k], 0
        if k < steps:
            x, old = path[-1], path[-2]
            z = project(x + eta * towards(x))
            path = [*path, project(x + 0.75 * (z - x) + 0.25 * (x - old))]
            best = max(best, path[-1], key=hilly)
    return best, hilly(best), eta


@pytest.mark.parametrize("steps", [1, 8, 40])
@both_norms
def test_each_point_follows_the_published_algorithm(norm, steps):
    network = formula(lambda rows: torch.stack([torch.full_like(rows[:, 0], 9.0), hilly(rows)], dim=1), features=2)
    start, y = torch.zeros(8, 2, dtype=torch.float64), torch.zeros(8, dtype=torch.long)
    begin = torch.tensor(np.random.default_rng(4).uniform(-0.7, 0.7, size=(8, 2)))

    def loss(scores, y, rival):
        return scores[:, 1]

    ball = Ball.around(start, norm, 1.0)
    state = initial_state(network, loss, begin, y, y + 1)
    state = advance(network, loss, ball, y, y + 1, state, range(steps), steps)
    for i in range(8):
        peak, height, eta = algorithm_1(begin[i], 1.0, steps, norm)
        np.testing.assert_allclose(state.best[i], peak, atol=1e-9)
        assert float(state.best_loss[i]) == pytest.approx(float(height))
        assert float(state.step_size[i]) == eta
    if steps == 40:
        assert len(set(state.step_size.tolist())) > 1  # step sizes differ between points


@pytest.mark.parametrize(
    ("rises", "better", "halved_before", "halves"),
    [(8, True, False, False), (7, True, False, True), (8, False, False, True), (8, False, True, False)],
)
def test_a_step_is_halved_if_too_few_steps_increase_the_loss_or_the_best_loss_stays_without_halving(
    rises, better, halved_before, halves
):
    network = formula(lambda rows: torch.stack([torch.full_like(rows[:, 0], 9.0), hilly(rows)], dim=1), features=2)
    label = torch.zeros(8, dtype=torch.long)
    state = initial_state(
        network, lambda scores, *_: scores[:, 1], torch.zeros(8, 2, dtype=torch.float64), label, label
    )
    state = state._replace(
        x=state.best + 0.1,
        increases=torch.full_like(state.increases, rises),
        checked_loss=state.best_loss - (1.0 if better else 0.0),
        halved=torch.full_like(state.halved, halved_before),
    )
    after = _adapt_step_size(state, interval=10)
    assert (after.halved == halves).all()
    assert (after.step_size == (1.0 if halves else 2.0)).all()
    assert torch.equal(after.x, state.best if halves else state.x)
    assert not after.increases.any()
    assert torch.equal(after.checked_loss, state.best_loss)


def test_adaptive_steps_reach_a_maximum_that_steps_of_fixed_length_miss():
    def scores(x):
        side = -((x[:, 0] - 0.53) ** 2) - 1
        return torch.stack([torch.zeros_like(side), side], dim=1)

    model = as_classifier(Formula(scores), classes=range(2), domain=Domain(0, 1))
    x, y = np.array([[0.4, 0.5]], np.float32), np.zeros(1, np.int64)
    adaptive, fixed = (float(run(attack, model, x, y, 0.3)[0, 0]) for attack in (APGD(), PGD(steps=100, step=0.5)))
    assert abs(adaptive - 0.53) < 3e-3
    assert abs(fixed - 0.53) > 3e-3


# Results ------------------------------------------------------------------------------------------------------


@both_norms
def test_is_at_least_as_strong_as_pgd_with_the_same_number_of_passes(norm):
    x, y = test_digits(64)
    wrong = []
    for module, share in ((cnn(), 0.06), (mlp(), 0.06)):
        radius = share if norm is Norm.LINF else 8 * share
        model = as_classifier(module)
        wrong.append(
            [
                int((model.predict(run(each, model, x, y, radius)) != y).sum())
                for each in (APGD(norm, steps=20, loss="margin"), PGD(norm, steps=21, loss="margin"))
            ]
        )
    ours, theirs = np.sum(wrong, axis=0)
    assert ours >= theirs - 1


def test_an_unsuccessful_attack_reaches_a_larger_loss_than_pgd():
    x, y = test_digits(64)
    model = as_classifier(mlp())
    heights = []
    for attack in (APGD(steps=40), PGD(steps=41)):
        found = run(attack, model, x, y, 0.02)
        with model.network((1, 8, 8)) as network:
            scores = network.plain(torch.tensor(found).flatten(1))
        label = torch.tensor(y)
        heights.append(torch.nn.functional.cross_entropy(scores, label, reduction="none").numpy())
    kept = model.predict(x) == y
    assert (heights[0][kept] >= heights[1][kept] - 1e-6).mean() > 0.9
    assert heights[0][kept].mean() > heights[1][kept].mean()
