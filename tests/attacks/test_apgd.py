import math
from copy import deepcopy
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch

from fairmargin.attacks.apgd import APGD, _adapt_step_size, advance, check_intervals, initial_state
from fairmargin.attacks.losses import difference_ratio, difference_ratio_towards
from fairmargin.attacks.pgd import PGD
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.errors import InputError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.perturbation.balls import Ball
from tests.attacks.victims import confident, half_space, run
from tests.distances.confirmation import Formula
from tests.oracles import linear_distance, random_problem
from tests.peers import peer
from tests.perturbation.networks import cnn, formula, mlp, test_digits

both_norms = pytest.mark.parametrize("norm", [Norm.LINF, Norm.L2])
every_loss = pytest.mark.parametrize(
    ("loss", "targets"), [("cross_entropy", 0), ("margin", 0), ("dlr", 0), ("margin", 9), ("dlr", 9)]
)


# Losses ---------------------------------------------------------------------------------------------------------


def slow_ratio(row, label):
    falling = sorted(row, reverse=True)
    others = [score for k, score in enumerate(row) if k != label]
    return -(row[label] - max(others)) / (falling[0] - falling[2])


def slow_ratio_towards(row, label, rival):
    falling = sorted(row, reverse=True)
    return -(row[label] - row[rival]) / (falling[0] - (falling[2] + falling[3]) / 2)


def test_the_difference_of_logits_ratio_equals_the_published_formula():
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(50, 6)), rng.integers(6, size=50)
    rival = (y + rng.integers(1, 6, size=50)) % 6
    scores, label, other = torch.tensor(rows), torch.tensor(y), torch.tensor(rival)
    expected = [slow_ratio(row, k) for row, k in zip(rows.tolist(), y, strict=True)]
    np.testing.assert_allclose(difference_ratio(scores, label), expected)
    expected = [slow_ratio_towards(row, k, j) for row, k, j in zip(rows.tolist(), y, rival, strict=True)]
    np.testing.assert_allclose(difference_ratio_towards(scores, label, other), expected)
    np.testing.assert_allclose(
        difference_ratio_towards(1e4 * scores - 7, label, other), difference_ratio_towards(scores, label, other)
    )


def test_the_ratio_is_the_margin_for_too_few_classes():
    two, three = torch.tensor([[3.0, 1.0]]), torch.tensor([[3.0, 1.0, 2.5]])
    first, second = torch.tensor([0]), torch.tensor([1])
    assert difference_ratio(two, first) == -2
    assert difference_ratio(three, first) == -0.25
    assert difference_ratio_towards(two, first, second) == difference_ratio_towards(three, first, second) == -2


def test_equal_scores_have_a_finite_ratio_and_gradient():
    scores = torch.zeros(1, 5, requires_grad=True)
    value = difference_ratio(scores, torch.tensor([0])) + difference_ratio_towards(
        scores, torch.tensor([0]), torch.tensor([1])
    )
    value.sum().backward()
    assert value == 0
    assert torch.isfinite(scores.grad).all()


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


@every_loss
@both_norms
def test_fools_a_linear_model_of_two_classes_slightly_beyond_the_distance_and_not_before(norm, loss, targets):
    model, x, y, distances = half_space()
    attack = APGD(norm, steps=30, loss=loss, targets=targets)
    assert (model.predict(run(attack, model, x, y, distances(norm) * 1.001)) != y).all()
    assert (model.predict(run(attack, model, x, y, distances(norm) * (1 - 1e-9))) == y).all()


@both_norms
def test_the_targeted_attack_finds_the_boundary_of_a_linear_model_in_a_box(norm):
    model, x = random_problem(np.random.default_rng(5), n=24, d=6, classes=5, domain=Domain(0, 1))
    y = model.predict(x)
    exact = np.array([linear_distance(model, row, label, norm) for row, label in zip(x, y, strict=True)])
    reachable = np.isfinite(exact)
    assert reachable.sum() >= 12
    found = run(APGD(norm, steps=50, loss="dlr", targets=9), model, x, y, np.where(reachable, exact * 1.01, 1.0))
    np.testing.assert_array_equal(model.predict(found) != y, reachable)


@pytest.mark.parametrize("radius", [0.7, 1.0])
@both_norms
def test_fools_as_many_as_torchattacks_apgd(norm, radius):
    x, y = test_digits(100)
    radius = radius * {Norm.LINF: 0.06, Norm.L2: 0.5}[norm]
    peers, model = peer("torchattacks"), as_classifier(cnn())
    kind = {Norm.LINF: "Linf", Norm.L2: "L2"}[norm]
    for loss, theirs in (("cross_entropy", "ce"), ("dlr", "dlr")):
        with torch.random.fork_rng():
            attack = peers.APGD(deepcopy(cnn()), norm=kind, eps=radius, steps=20, seed=0, loss=theirs)
            there = attack(torch.tensor(x), torch.tensor(y)).detach().numpy()
        here = run(APGD(norm, steps=20, loss=loss), model, x, y, radius)
        wrong = [int((model.predict(found) != y).sum()) for found in (here, there)]
        assert 10 < wrong[1] < 95
        assert wrong[1] - 2 <= wrong[0] <= wrong[1] + 4  # two different seeds already differ by two


def test_fools_as_many_as_torchattacks_targeted_apgd():
    x, y = test_digits(64)
    peers, model = peer("torchattacks"), as_classifier(cnn())
    with torch.random.fork_rng():
        attack = peers.APGDT(deepcopy(cnn()), eps=0.06, steps=10, seed=0, n_classes=10)
        there = attack(torch.tensor(x), torch.tensor(y)).detach().numpy()
    here = run(APGD(steps=10, loss="dlr", targets=9), model, x, y, 0.06)
    wrong = [int((model.predict(found) != y).sum()) for found in (here, there)]
    assert 5 < wrong[1] < 60
    assert wrong[1] - 1 <= wrong[0] <= wrong[1] + 3


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


@every_loss
def test_a_very_confident_model_is_fooled_too(loss, targets):
    model, x, y, distances = confident()
    found = run(APGD(steps=20, loss=loss, targets=targets), model, x, y, distances * 1.01)
    assert (model.predict(found) != y).all()


@every_loss
def test_every_loss_finds_misclassified_inputs(loss, targets):
    x, y = test_digits(20)
    model = as_classifier(mlp())
    assert (model.predict(run(APGD(steps=20, loss=loss, targets=targets), model, x, y, 0.15)) != y).mean() > 0.9


def test_more_targets_and_restarts_find_all_that_fewer_found_and_more():
    def scores(x):  # every other class has its own regions
        waves = torch.stack([torch.cos((11 + 3 * k) * x + k).sum(dim=1) for k in range(4)], dim=1)
        return torch.cat([torch.full_like(waves[:, :1], 1.9), waves], dim=1)

    model = as_classifier(Formula(scores), classes=range(5), domain=Domain(0, 1))
    x = np.random.default_rng(1).uniform(size=(200, 2)).astype(np.float32)
    x = x[model.predict(x) == 0]
    y = np.zeros(len(x), np.int64)
    fooled = [
        model.predict(run(APGD(steps=6, loss="dlr", targets=targets, restarts=restarts), model, x, y, 0.06)) != y
        for targets, restarts in ((1, 1), (2, 1), (9, 1), (9, 3))
    ]
    for fewer, more in pairwise(fooled):
        assert not (fewer & ~more).any()
    assert 0 < fooled[0].sum() < fooled[2].sum() < len(x)


def test_an_easy_sample_takes_few_passes():
    calls = []

    def scores(x):
        calls.append(len(x))
        return torch.stack([x[:, 0], 0.5 - x[:, 0]], dim=1)

    model = as_classifier(Formula(scores), classes=range(2), domain=Domain(0, 1))
    counts = []
    for value in (0.3, 0.9):  # near the boundary at .25, and too far from it
        calls.clear()
        run(APGD(steps=100), model, np.array([[value, 0.5]], np.float32), np.zeros(1, np.int64), 0.2)
        counts.append(len(calls))
    assert counts[0] <= 10
    assert 100 <= counts[1] <= 110


def test_random_starts_depend_on_the_key():
    x, y = test_digits(8)
    first, again, other = (run(APGD(steps=1), cnn(), x, y, 0.01, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: APGD(steps=0), "`steps` of APGD must be at least 1"),
        (lambda: APGD(restarts=1.5), "`restarts` of APGD must be a whole number"),
        (lambda: APGD(targets=-1, loss="dlr"), "`targets` of APGD must be at least 1"),
        (lambda: APGD(loss="hinge"), "`loss` of APGD must be one of cross_entropy, margin, dlr; given 'hinge'"),
        (lambda: APGD(targets=9), "the loss 'cross_entropy' has no targeted form: choose margin or dlr"),
        (lambda: APGD("l1"), "`APGD` does not support the norm L1"),
    ],
)
def test_invalid_settings_are_refused(make, said):
    with pytest.raises(InputError, match=said):
        make()
