"""Does training by a method do what theory says? Small problems in which the answer is known."""

import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.stats import norm
from torch import nn

from fairmargin.core.domain import Domain
from fairmargin.data.dataset import Dataset
from fairmargin.theory.gaussian_pair import GaussianPair
from fairmargin.training.aggregates import GapToRest
from fairmargin.training.catalog import parse_method
from fairmargin.training.losses import Withstanding
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.train import train
from fairmargin.training.views import Views
from tests.training.problems import line, linear, same_weights, small_batch, space, tiny

PAIR = GaussianPair(low=-2.0, high=2.0, spread=2.0)
REACH = 0.5
PLAN = TrainingPlan(rate=0.3, batch=400)


def two_bells(count=200):
    """The pair as equally likely points of it: no luck of a sample."""
    ranks = norm.ppf((np.arange(count) + 0.5) / count)
    return line([*(-2 + ranks), *(2 + 2 * ranks)], [0] * count + [1] * count)


def trained(spelling, data, net=None, *, epochs=60, plan=PLAN, **others):
    found = train(
        linear(data.x.shape[1]) if net is None else net,
        data,
        parse_method(spelling),
        epochs=epochs,
        plan=plan,
        **others,
    )
    assert not found.stopped
    return found


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
    return trained("erm", two_bells())


def test_penalty_moves_the_threshold_to_the_fair_one_and_closes_the_gap(plain):
    data = two_bells()
    fair = trained("penalty:weight=2", data)
    print(
        threshold(plain),
        threshold(fair),
        error_gap(plain),
        error_gap(fair),
        np.ptp(class_losses(plain, data)),
        np.ptp(class_losses(fair, data)),
    )


def test_penalty_with_the_ramp_loss(plain):
    data = two_bells()
    natural, fair = trained("ramp", data), trained("penalty:weight=2,loss=ramp", data)
    print(threshold(natural), threshold(fair), error_gap(natural), error_gap(fair))


def test_group_dro(plain):
    data = two_bells()
    dro = trained("group_dro:step=0.1", data)
    print(class_losses(plain, data), class_losses(dro, data))


def test_robust(plain):
    for s in (
        f"madry:radius={REACH}",
        f"trades:radius={REACH}",
        f"fair_robust:radius={REACH},weight=2",
        "penalty:weight=2",
    ):
        f = trained(s, two_bells())
        t = threshold(f)
        print(s, t, PAIR.boundary_error(t, REACH), PAIR.robust_error(t, REACH), f.module.weight.tolist(), error_gap(f))
    t = threshold(plain)
    print(
        "erm",
        t,
        PAIR.boundary_error(t, REACH),
        PAIR.robust_error(t, REACH),
        error_gap(plain),
        PAIR.robust_threshold(REACH),
    )


def test_fat(plain):
    data = two_bells()
    for s in ("madry", "fat:weight=5", "fat:weight=5,published=true"):
        f = trained(f"{s}{',' if ':' in s else ':'}radius={REACH}", data)
        l = class_losses(f, data, REACH)
        print(s, l, np.var(l), threshold(f))
    for s in (
        "trades:beta=1",
        "fat_trades:beta=1,weight=5",
        "fat_trades:beta=1,weight=5,crafted_by=cross_entropy",
        "fat_trades:beta=1,weight=5,published=true",
    ):
        f = trained(f"{s}{',' if ':' in s else ':'}radius={REACH}", data)
        l = class_losses(f, data, REACH)
        print(s, l, np.var(l), threshold(f))


def test_ramp_ignores_an_outlier():
    ranks = norm.ppf((np.arange(100) + 0.5) / 100)
    data = line([*(-2 + 0.5 * ranks), *(2 + 0.5 * ranks), -40], [0] * 100 + [1] * 101)
    print(threshold(trained("erm", data)), threshold(trained("ramp", data)))


def two_directions(count=120, seed=0):
    random = np.random.default_rng(seed)
    y, group = np.arange(count) % 2, np.arange(count) // 2 % 2
    signs = 2.0 * y - 1
    x = random.normal(size=(count, 2)) * 0.2
    x[group == 0, 0] += 1.5 * signs[group == 0]
    x[group == 1, 1] += 0.7 * signs[group == 1]
    return Dataset(x, y, {"group": np.array(["far", "near"])[group]}, Domain(-3, 3))


def distances(found, data):
    w = (found.module.weight[1] - found.module.weight[0]).detach().numpy()
    b = float((found.module.bias[1] - found.module.bias[0]).detach())
    d = (np.asarray(data.x) @ w + b) / np.linalg.norm(w) * (2.0 * data.y - 1)
    return {label: np.maximum(d, 0)[mask] for label, mask in data.partition("group")}


def test_adverm():
    data = two_directions()
    for s in (
        "erm",
        "adverm:radius=0.7,weight=2",
        "adverm:radius=0.7,weight=2,group=near",
        "adverm:radius=0.7,weight=2,published=true",
        "trades:radius=0.3,norm=l2",
        "farmur:radius=0.3,norm=l2,since=0.5",
        "farmur:radius=0.3,norm=l2,since=0.5,found_on=validation",
    ):
        f = trained(s, data, partition="group", epochs=40, validation=two_directions(40, 1))
        d = distances(f, data)
        print(s, {k: (v.mean(), (v > 0.7).mean()) for k, v in d.items()})
        if "farmur" in s:
            print([dict(e.terms) for e in f.history[::10]])


class Bumps(nn.Module):
    """Fixed bumps along a line and a linear layer: training it is convex."""

    def __init__(self):
        super().__init__()
        self.register_buffer("centers", torch.linspace(-1, 1, 41, dtype=torch.float64))
        self.last = nn.Linear(41, 2).double()
        with torch.no_grad():
            for p in self.last.parameters():
                p.zero_()

    def forward(self, x):
        return self.last(torch.exp(-0.5 * ((x - self.centers) / 0.05) ** 2))


def test_smooth():
    x = np.linspace(-1, 1, 200)
    y = (x > 0).astype(int)
    y[(abs(x + 0.6) < 0.05)] = 1
    data = line(x, y)
    noise = torch.as_tensor(0.25 * norm.ppf((np.arange(400) + 0.5) / 400))
    for s in ("erm", "gaussian:noise=0.25", "smooth_adv:noise=0.25,radius=0.25"):
        f = trained(s, data, Bumps(), epochs=60, plan=TrainingPlan(rate=1.0, batch=100))
        with torch.no_grad():
            p = (
                torch.stack([f.module((torch.as_tensor(x)[:, None] + n)).argmax(1) for n in noise])
                .double()
                .mean(0)
                .numpy()
            )
        own = np.where(y == 1, p, 1 - p)
        rad = np.where(own > 0.5, 0.25 * norm.ppf(np.clip(own, 0, 1 - 1e-4)), 0)
        print(s, (own > 0.5).mean(), rad.mean())
