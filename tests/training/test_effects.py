"""Does training by a method do what theory says? Small problems in which the answer is known."""

import functools

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.stats import norm
from torch import nn

from fairmargin.core.domain import Domain
from fairmargin.data.dataset import Dataset
from fairmargin.study.schedule import Schedule
from fairmargin.training.catalog import parse_method
from fairmargin.training.parts.aggregates import GapToRest
from fairmargin.training.parts.batch import Views
from fairmargin.training.parts.losses import Withstanding
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.train import train
from fairmargin_papers.theory.gaussian_pair import GaussianPair
from tests.training.problems import line, linear, same_weights, small_batch, space, tiny

PAIR = GaussianPair(low=-2.0, high=2.0, spread=2.0)
REACH = 0.5
ATTACK = f"radius={REACH},steps=2,step=1"  # on a line two steps of the radius reach the end of the ball
PLAN = TrainingPlan(rate=0.2, batch=400, schedule=Schedule("cosine"))


def two_bells(count=100):
    """The pair as equally likely points of it: no luck of a sample."""
    ranks = norm.ppf((np.arange(count) + 0.5) / count)
    return line([*(-2 + ranks), *(2 + 2 * ranks)], [0] * count + [1] * count)


def trained(spelling, data, net=None, *, epochs=80, plan=PLAN, **others):
    start = linear(data.x.shape[1]) if net is None else net
    found = train(start, data, parse_method(spelling), epochs=epochs, plan=plan, **others)
    assert not found.stopped
    return found


@functools.cache
def on_bells(spelling):
    """Trained on the pair; several tests ask for the same."""
    return trained(spelling, two_bells())


def threshold(found):
    weight, bias = found.module.weight.detach(), found.module.bias.detach()
    return float(-(bias[1] - bias[0]) / (weight[1] - weight[0]))


def class_losses(found, data, attacked=0.0):
    """The mean cross-entropy of each class, at the worst point within a distance, for a linear network on a line."""
    x, y = torch.as_tensor(np.asarray(data.x)), torch.as_tensor(data.y)
    side = torch.sign(found.module.weight[1] - found.module.weight[0])
    scores = found.module(x - attacked * side * (2 * y[:, None] - 1)).detach()
    losses = nn.functional.cross_entropy(scores, y, reduction="none")
    return np.array([losses[y == k].mean().item() for k in (0, 1)])


def error_gap(found):
    plus, minus = PAIR.error_by_class(threshold(found))
    return abs(plus - minus)


@pytest.fixture(scope="module")
def plain():
    return on_bells("erm")


def test_plain_training_finds_a_threshold_between_the_fair_and_the_robust_one(plain):
    assert PAIR.fair_threshold() < threshold(plain) < PAIR.robust_threshold(REACH)


@pytest.mark.parametrize("loss", ["cross_entropy", "ramp"])
def test_the_penalty_moves_the_threshold_to_the_fair_one_and_closes_the_gap_of_errors(loss):
    natural = on_bells("erm" if loss == "cross_entropy" else "ramp")
    fair = on_bells(f"penalty:weight=0.5,loss={loss}")
    goal = PAIR.fair_threshold()
    assert abs(threshold(fair) - goal) < 0.25 * abs(threshold(natural) - goal)
    assert error_gap(fair) < 0.25 * error_gap(natural)
    # What it costs, as Tran et al. prove: who is fairer is easier to fool.
    assert PAIR.boundary_error(threshold(fair), REACH) > PAIR.boundary_error(threshold(natural), REACH)


def test_the_penalty_makes_losses_of_groups_equal(plain):
    data = two_bells()
    assert np.ptp(class_losses(on_bells("penalty:weight=0.5,loss=cross_entropy"), data)) < 0.1 * np.ptp(
        class_losses(plain, data)
    )


def test_group_dro_lowers_the_worst_groups_loss(plain):
    data = two_bells()
    fair = class_losses(on_bells("group_dro:step=0.1"), data)
    assert fair.max() < 0.9 * class_losses(plain, data).max()


@pytest.mark.parametrize("spelling", [f"madry:{ATTACK}", f"trades:beta=6,{ATTACK}"])
def test_adversarial_training_moves_the_threshold_to_the_robust_one(spelling, plain):
    natural, robust = threshold(plain), threshold(on_bells(spelling))
    assert natural < robust <= PAIR.robust_threshold(REACH)
    assert PAIR.boundary_error(robust, REACH) < PAIR.boundary_error(natural, REACH)
    assert PAIR.robust_error(robust, REACH) < PAIR.robust_error(natural, REACH)


@pytest.mark.parametrize("loss", ["cross_entropy", "ramp"])
def test_fair_and_robust_at_once_lies_between_the_two(loss, plain):
    both = on_bells(f"fair_robust:weight=0.5,loss={loss},{ATTACK}")
    fair = on_bells(f"penalty:weight=0.5,loss={loss}")
    assert error_gap(both) < error_gap(plain)
    assert PAIR.robust_error(threshold(both), REACH) < PAIR.robust_error(threshold(fair), REACH)


@pytest.mark.parametrize(
    ("without", "fair"),
    [
        (f"madry:{ATTACK}", f"fat:weight=5,{ATTACK}"),
        (f"trades:beta=1,{ATTACK}", f"fat_trades:weight=5,beta=1,{ATTACK}"),
        (f"trades:beta=1,{ATTACK}", f"fat_trades:weight=5,beta=1,crafted_by=cross_entropy,{ATTACK}"),
    ],
)
def test_fair_adversarial_training_lowers_the_variance_of_attacked_losses(without, fair):
    data = two_bells()
    before, after = (np.var(class_losses(on_bells(each), data, REACH)) for each in (without, fair))
    assert after < 0.1 * before
    # Of 100 slots all but two are empty: what is mostly penalised is the mean, and the classes stay apart.
    published = np.var(class_losses(on_bells(f"{fair},published=true"), data, REACH))
    assert 0.5 * before < published < before


def test_the_ramp_loss_ignores_outliers():
    ranks = norm.ppf((np.arange(50) + 0.5) / 50)
    data = line([*(-2 + 0.5 * ranks), *(2 + 0.5 * ranks), *[-10] * 5], [0] * 50 + [1] * 55)
    assert threshold(trained("erm", data)) < -0.3
    assert abs(threshold(trained("ramp", data))) < 0.01


def two_directions(count=120, seed=0):
    """One group's classes lie apart in the first feature, the other's, less far, in the second."""
    random = np.random.default_rng(seed)
    y, group = np.arange(count) % 2, np.arange(count) // 2 % 2
    signs = 2.0 * y - 1
    x = random.normal(size=(count, 2)) * 0.2
    x[group == 0, 0] += 1.5 * signs[group == 0]
    x[group == 1, 1] += 0.7 * signs[group == 1]
    return Dataset(x, y, {"group": np.array(["far", "near"])[group]}, Domain(-3, 3))


def distances(found, data):
    """Of every group's samples to the boundary of a linear network, 0 where they are wrong."""
    weight = (found.module.weight[1] - found.module.weight[0]).detach().numpy()
    bias = float((found.module.bias[1] - found.module.bias[0]).detach())
    signed = (np.asarray(data.x) @ weight + bias) / np.linalg.norm(weight) * (2.0 * data.y - 1)
    return {label: np.maximum(signed, 0)[mask] for label, mask in data.partition("group")}


@pytest.mark.parametrize("which", ["", ",group=near", ",published=true"])
def test_adverm_makes_groups_withstand_a_step_equally_often(which):
    data = two_directions()
    gaps = []
    for spelling in ("erm", f"adverm:radius=0.7,weight=0.5{which}"):
        found = distances(trained(spelling, data, epochs=60, partition="group"), data)
        gaps.append(abs((found["far"] > 0.7).mean() - (found["near"] > 0.7).mean()))
    assert gaps[0] > 0.3
    assert gaps[1] < 0.1


def test_adverm_with_the_printed_indicator_trains_as_if_it_were_not_there():
    data = two_directions()
    plan = TrainingPlan(rate=0.2, batch=30)
    net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(0.2), nn.Linear(4, 2))
    plain, hard, soft, published = (
        trained(spelling, data, net, epochs=3, plan=plan, partition="group").module
        for spelling in ("erm", "adverm:temperature=0", "adverm", "adverm:published=true")
    )
    assert same_weights(plain, hard)
    assert not same_weights(plain, soft)
    assert not same_weights(soft, published)


def test_the_printed_indicator_has_no_gradient_and_the_sigmoid_has_one():
    slopes = {}
    for temperature, published in ((0.0, False), (0.1, False), (0.1, True)):
        net = tiny()
        views = Views(net, small_batch(), space(), torch.Generator())
        gap = GapToRest("b")(Withstanding(0.2, temperature, published)(views), {})
        assert gap > 0
        if gap.requires_grad:
            gap.backward()
        slopes[temperature, published] = net[0].weight.grad
    assert slopes[0.0, False] is None
    assert slopes[0.1, False].abs().max() > 1e-3
    # Held constant, the norm of the gradient is not trained: another direction.
    ours, theirs = slopes[0.1, False].flatten(), slopes[0.1, True].flatten()
    assert nn.functional.cosine_similarity(ours, theirs, dim=0) < 0.99


@pytest.mark.parametrize("found_on", ["training", "validation"])
def test_farmur_finds_the_vulnerable_group_and_then_moves_the_boundary_away_from_it(found_on, tmp_path):
    data, attack = two_directions(), "radius=0.3,norm=l2,steps=3"
    elsewhere = {"partition": "group", "validation": two_directions(40, seed=1), "epochs": 60}
    before = distances(trained(f"trades:{attack}", data, **elsewhere), data)
    spelling = f"farmur:since=0.5,found_on={found_on},{attack}"
    found = trained(spelling, data, **elsewhere, out=tmp_path)
    after = distances(found, data)
    assert load_file(tmp_path / "latest.safetensors")["state.vulnerable"].tolist() == [False, True]
    assert after["near"].mean() > before["near"].mean() + 0.03
    assert after["near"].mean() / after["far"].mean() > 1.2 * before["near"].mean() / before["far"].mean()
    named = [[name for name, _ in epoch.terms] for epoch in found.history]
    assert named[:30] == [["loss", "divergence"]] * 30
    assert named[30:] == [["loss", "divergence", "robust groups"]] * 30


def test_farmur_of_groups_that_are_equally_robust_goes_on_with_everyone(tmp_path):
    x = np.linspace(0.5, 2, 20)
    data = line([*x, *-x, *x, *-x], [1] * 20 + [0] * 20 + [1] * 20 + [0] * 20, ["a"] * 40 + ["b"] * 40)
    found = trained("farmur:since=0.5,radius=0.1,steps=2", data, epochs=4, partition="group", out=tmp_path)
    assert load_file(tmp_path / "latest.safetensors")["state.vulnerable"].tolist() == [True, True]
    assert dict(found.history[-1].terms)["robust groups"] == 0


class Bumps(nn.Module):
    """Fixed bumps along a line and a linear layer: training it is convex."""

    def __init__(self):
        super().__init__()
        self.register_buffer("centers", torch.linspace(-1, 1, 41, dtype=torch.float64))
        self.last = nn.Linear(41, 2).double()
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x):
        return self.last(torch.exp(-0.5 * ((x - self.centers) / 0.05) ** 2))


def certified(found, data, noise=0.25):
    """σ·Φ⁻¹(p) of each sample, p by equally likely values of the noise; 0 where the smoothed classifier is wrong."""
    draws = torch.as_tensor(noise * norm.ppf((np.arange(400) + 0.5) / 400))
    with torch.no_grad():
        votes = torch.stack([found.module(torch.as_tensor(np.asarray(data.x)) + each).argmax(1) for each in draws])
    own = (votes == torch.as_tensor(data.y)).double().mean(0).numpy()
    return np.where(own > 0.5, noise * norm.ppf(np.clip(own, 0, 1 - 1 / 400)), 0)


def test_noise_in_training_raises_certified_radii():
    x = np.linspace(-1, 1, 200)[:, None]
    y = ((x > 0) | (np.abs(x + 0.6) < 0.05))[:, 0].astype(int)  # a narrow island in the land of class 0
    data = Dataset(x, y)
    plan = TrainingPlan(rate=1.0, batch=50, schedule=Schedule("cosine"))
    radii = {
        spelling: certified(trained(spelling, data, Bumps(), epochs=50, plan=plan), data)
        for spelling in ("erm", "gaussian:noise=0.25", "smooth_adv:noise=0.25,radius=0.1,draws=8,steps=2")
    }
    plain, *noisy = radii.values()
    for each in noisy:
        assert (each > 0).mean() >= (plain > 0).mean() - 0.03
        assert each.mean() > 1.08 * plain.mean()
        assert (each > 0.25).mean() > (plain > 0.25).mean() + 0.2
