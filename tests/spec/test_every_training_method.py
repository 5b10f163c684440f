"""Properties of every training method in the catalog. A new method needs a row in CASES: its loss in plain Python."""

import dataclasses
import inspect
import math
import random as python_random
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from fairmargin.core.norm import Norm
from fairmargin.errors import InputError
from fairmargin.training.catalog import METHODS, describe_method, parse_method
from fairmargin.training.loop.epochs import sum_up
from fairmargin.training.parts.batch import Batch
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.recipe import Recipe, TrainingMethod
from fairmargin.training.train import train
from tests.training import slow
from tests.training.problems import NAMES, blobs, captured, same_weights, small_batch, space, tiny, weights

RADIUS, SCALE = 0.2, [1.0, 0.5, 2.0]


@dataclass(frozen=True)
class Seen:
    """The values from which a reference loss is computed in plain Python."""

    net: slow.Net
    x: list
    moved: list  # whole copies of the batch, one after the other; empty without an adversary
    y: list
    groups: list
    constants: dict | None = None  # gradient norms that are held constant

    def clean(self, loss):
        return [loss(s, label) for s, label in zip(self.net.scores(self.x), self.y, strict=True)]

    def attacked(self, loss):
        """Return the mean loss of each sample over its moved copies."""
        scores, n = self.net.scores(self.moved), len(self.y)
        copies = len(scores) // n
        return [slow.mean([loss(scores[c * n + i], self.y[i]) for c in range(copies)]) for i in range(n)]

    def divergence(self):
        pairs = zip(self.net.scores(self.x), self.net.scores(self.moved), strict=True)
        return [slow.divergence(clean, moved) for clean, moved in pairs]

    def withstanding(self, temperature=0.1):
        return slow.withstanding(self.net, self.x, self.y, RADIUS, temperature, SCALE, self.constants)


def adverm(seen, weight, group=None, temperature=0.1):
    found = seen.withstanding(temperature)
    gaps = [slow.gap_to_rest(found, seen.groups, g) for g in range(len(NAMES)) if group in (None, g)]
    return slow.mean(seen.clean(slow.cross_entropy)) + weight * sum(gaps)


def penalty(seen, weight, loss=slow.cross_entropy):
    values = seen.clean(loss)
    return slow.mean(values) + weight * slow.gaps_to_mean(values, seen.groups)


def group_dro(seen, step):
    means = slow.by_group(seen.clean(slow.cross_entropy), seen.groups)
    raised = [math.exp(step * means.get(g, 0.0)) for g in range(len(NAMES))]  # all weights were equal before
    return raised, means


def dro_with(constants):
    return lambda seen: sum(constants[g] / sum(constants) * m for g, m in group_dro(seen, 0)[1].items())


def trades(seen, beta):
    return slow.mean(seen.clean(slow.cross_entropy)) + beta * slow.mean(seen.divergence())


def fat(seen, weight, slots=0):
    values = seen.attacked(slow.cross_entropy)
    return slow.mean(values) + weight * slow.variance_of_groups(values, seen.groups, slots)


def fat_trades(seen, weight, beta, slots=0):
    variance = slow.variance_of_groups(seen.attacked(slow.cross_entropy), seen.groups, slots)
    return trades(seen, beta) + weight * variance


# Spelling → the loss of a batch, written from the formula in the documentation only.
CASES = {
    "erm": lambda seen: slow.mean(seen.clean(slow.cross_entropy)),
    "ramp": lambda seen: slow.mean(seen.clean(slow.ramp)),
    f"adverm:weight=0.7,radius={RADIUS},group=b": lambda seen: adverm(seen, 0.7, 1),
    f"adverm:weight=0.7,radius={RADIUS}": lambda seen: adverm(seen, 0.7),
    f"adverm:weight=0.7,radius={RADIUS},published=true": lambda seen: adverm(seen, 0.7),
    f"adverm:weight=0.7,radius={RADIUS},temperature=0": lambda seen: adverm(seen, 0.7, temperature=0),
    "penalty:weight=0.7": lambda seen: penalty(seen, 0.7),
    "penalty:weight=0.7,loss=ramp": lambda seen: penalty(seen, 0.7, slow.ramp),
    "group_dro:step=0.5": None,  # its weights are constants of the step: see `slow_loss`
    "fair_robust:weight=0.7,radius=0.1,steps=3": lambda seen: (
        penalty(seen, 0.7) + slow.mean(seen.attacked(slow.cross_entropy))
    ),
    "fair_robust:weight=0.7,radius=0.1,steps=3,loss=ramp": lambda seen: (
        penalty(seen, 0.7, slow.ramp) + slow.mean(seen.attacked(slow.ramp))
    ),
    "madry:radius=0.1,steps=3": lambda seen: slow.mean(seen.attacked(slow.cross_entropy)),
    "madry:radius=0.1,steps=3,norm=l2": lambda seen: slow.mean(seen.attacked(slow.cross_entropy)),
    "trades:beta=3,radius=0.1,steps=3": lambda seen: trades(seen, 3),
    "fat:weight=0.7,radius=0.1,steps=3": lambda seen: fat(seen, 0.7),
    "fat:weight=0.7,radius=0.1,steps=3,published=true": lambda seen: fat(seen, 0.7, slots=100),
    "fat_trades:weight=0.7,beta=3,radius=0.1,steps=3": lambda seen: fat_trades(seen, 0.7, 3),
    "fat_trades:weight=0.7,beta=3,radius=0.1,steps=3,crafted_by=cross_entropy": lambda seen: fat_trades(seen, 0.7, 3),
    "fat_trades:weight=0.7,beta=3,radius=0.1,steps=3,published=true": lambda seen: fat_trades(seen, 0.7, 3, slots=100),
    "farmur:beta=3,radius=0.1,steps=3": lambda seen: trades(seen, 3),
    "farmur:beta=3,radius=0.1,steps=3,since=0": None,  # two batches: see `slow_loss`
    "gaussian:noise=0.2": lambda seen: slow.mean(seen.attacked(slow.cross_entropy)),
    "smooth_adv:noise=0.2,radius=0.3,draws=2,steps=3": lambda seen: slow.mean(seen.attacked(slow.cross_entropy)),
}
every_case = pytest.mark.parametrize("spelling", CASES)
every_method = pytest.mark.parametrize("name", METHODS)
every_network = pytest.mark.parametrize("normed", [False, True], ids=["plain", "batchnorm"])
VULNERABLE = {"vulnerable": torch.tensor([True, False, False, True])}


def phase_of(spelling):
    """Return the epoch, of 10, of a case."""
    return 9 if "since=0" in spelling else 0


def one_step(spelling, net, seed=5):
    """Return the result of one step, its batches, and the inputs that its adversaries moved."""
    method = parse_method(spelling)
    recipe, made = captured(method.recipe(phase_of(spelling), 10))
    batches = tuple(small_batch(seed=1 + number) for number in range(len(recipe.parts)))
    state = {**recipe.controller.begin(len(NAMES)), **VULNERABLE}
    net.train()
    found = sum_up(net, recipe, batches, state, space(), torch.Generator().manual_seed(seed))
    return found, batches, [part[0] if part else None for part in made]


def as_slow(net):
    """Return the network as lists, with the buffers after the step."""
    first, last = net[0], net[-1]
    normed = isinstance(net[1], nn.BatchNorm1d)
    plain = [part.detach().tolist() for part in (first.weight, first.bias, last.weight, last.bias)]
    if not normed:
        return slow.Net(*plain)
    norm = net[1]
    rest = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
    return slow.Net(*plain, *(part.detach().tolist() for part in rest), eps=norm.eps)


def slow_loss(spelling, net, batches, made):
    """Return the loss of the step as a function of a slow network."""

    def seen(slow_net, number=0, constants=None):
        batch, moved = batches[number], made[number]
        return Seen(
            slow_net,
            batch.x.tolist(),
            [] if moved is None else moved.tolist(),
            batch.y.tolist(),
            batch.groups.tolist(),
            constants,
        )

    if spelling.startswith("group_dro"):
        raised, _ = group_dro(seen(as_slow(net)), 0.5)
        return lambda slow_net: dro_with(raised)(seen(slow_net))
    if "since=0" in spelling:
        erm = CASES["erm"]
        return lambda slow_net: trades(seen(slow_net, 0), 3) + erm(seen(slow_net, 1))
    constants = norms_now(as_slow(net), batches[0]) if "published" in spelling and "adverm" in spelling else None
    return lambda slow_net: CASES[spelling](seen(slow_net, constants=constants))


def norms_now(net, batch):
    """Return the norms of the gradients of all samples."""
    found = {}
    for i, (x, y) in enumerate(zip(batch.x.tolist(), batch.y.tolist(), strict=True)):
        (scores,) = net.scores([x], training=False)
        rival = max((k for k in range(3) if k != y), key=lambda k: scores[k])
        found[i] = math.sqrt(sum((s * u) ** 2 for s, u in zip(net.slope(x, y, rival), SCALE, strict=True)))
    return found


def differences(loss, net, step=1e-5):
    """Return ∂loss/∂parameter of every parameter by central differences, in the order of `net.parameters()`."""
    found = []
    for parameter in net.parameters():
        slopes = torch.zeros_like(parameter)
        for place in np.ndindex(*parameter.shape):
            with torch.no_grad():
                value = parameter[place].item()
                ends = []
                for moved in (value + step, value - step):
                    parameter[place] = moved
                    ends.append(loss(as_slow(net)))
                parameter[place] = value
            slopes[place] = (ends[0] - ends[1]) / (2 * step)
        found.append(slopes)
    return found


def test_every_method_of_the_catalog_has_a_reference_loss():
    assert {spelling.partition(":")[0] for spelling in CASES} == set(METHODS)


@every_network
@every_case
def test_loss_and_gradient_of_a_step_equal_the_reference_formula(spelling, normed):
    net = tiny(normed)
    found, batches, made = one_step(spelling, net)
    loss = slow_loss(spelling, net, batches, made)
    assert found.total.item() == pytest.approx(loss(as_slow(net)), rel=1e-10)
    found.total.backward()
    for parameter, slope in zip(net.parameters(), differences(loss, net), strict=True):
        torch.testing.assert_close(parameter.grad, slope, rtol=1e-5, atol=1e-7)


@every_case
def test_the_terms_add_up_to_the_loss(spelling):
    found, batches, _ = one_step(spelling, tiny(normed=True))
    assert sum(value for _, value in found.terms) == pytest.approx(found.total.item(), rel=1e-12)
    assert found.seen.tolist() == [4 * len(batches)] * 3 + [0]
    assert (found.right <= found.seen).all()


class Spy(nn.Module):
    """A network that records the mode, the number of samples, and whether parameters need gradients, at each call."""

    def __init__(self, net):
        super().__init__()
        self.net, self.calls = net, []

    def forward(self, x):
        needed = any(parameter.requires_grad for parameter in self.parameters())
        self.calls.append((self.training, len(x), needed))
        return self.net(x)


TWO_VIEWS = {"fair_robust", "trades", "fat_trades", "farmur"}


@every_case
def test_batchnorm_is_updated_once_per_view_and_not_by_attacks(spelling):
    net = tiny(normed=True)
    spy = Spy(net)
    one_step(spelling, spy)
    first_part = 1 + (spelling.partition(":")[0] in TWO_VIEWS)
    views = first_part + ("since=0" in spelling)
    trained = [training for training, _, _ in spy.calls].count(True)
    assert trained == views == net[1].num_batches_tracked.item()
    attacking = [needed for training, _, needed in spy.calls if not training]
    if spelling.startswith("adverm"):
        assert attacking == [True]  # not an attack: the slope is trained
        return
    assert not any(attacking)
    first = next(i for i, (training, _, _) in enumerate(spy.calls) if training)
    assert all(training for training, _, _ in spy.calls[first : first + first_part])


@every_case
def test_a_step_changes_no_modes_and_adds_no_gradient(spelling):
    net = tiny(normed=True)
    net[0].bias.requires_grad_(False)
    before = [parameter.requires_grad for parameter in net.parameters()]
    found, _, _ = one_step(spelling, net)
    assert [parameter.requires_grad for parameter in net.parameters()] == before
    assert all(parameter.grad is None for parameter in net.parameters())
    assert all(part.training for part in net.modules())
    found.total.backward()
    assert net[0].bias.grad is None
    assert net[0].weight.grad is not None


@pytest.mark.parametrize("spelling", [s for s in CASES if "radius=0.1" in s])
def test_attacked_inputs_stay_in_ball_and_box(spelling):
    net = tiny()
    _, batches, made = one_step(spelling, net)
    norm = parse_method(spelling).norm
    for batch, moved in zip(batches, made, strict=True):
        if moved is None:
            continue
        far = (moved - batch.x) / torch.tensor(SCALE, dtype=torch.float64)
        length = far.abs().amax(dim=1) if norm is Norm.LINF else far.norm(dim=1)
        assert (length <= 0.1 * (1 + 1e-9)).all()
        assert ((moved >= 0) & (moved <= 1)).all()
        assert (length > 0.05).any()


def test_the_smoothed_attack_stays_in_its_ball_and_adds_the_same_noise_to_every_copy():
    _, (batch,), (moved,) = one_step("smooth_adv:noise=0.2,radius=0.3,draws=2,steps=3", tiny(), seed=5)
    drawn = torch.randn(24, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    scale = torch.tensor(SCALE, dtype=torch.float64)
    without = (moved - 0.2 * scale * drawn).reshape(2, 12, 3)
    torch.testing.assert_close(without[0], without[1])
    far = ((without[0] - batch.x) / scale).norm(dim=1)
    assert (far <= 0.3 * (1 + 1e-9)).all()
    assert (far > 0.1).any()
    assert ((without >= -1e-12) & (without <= 1 + 1e-12)).all()


@pytest.mark.parametrize("spelling", [s for s in CASES if "radius=0.1" in s])
def test_attacks_raise_the_loss_that_they_maximise(spelling):
    net = tiny()
    _, (batch, *_), (moved, *_) = one_step(spelling, net)
    with torch.no_grad():
        clean, attacked = net(batch.x), net(moved)
        if ("trades" in spelling and "crafted_by" not in spelling) or spelling.startswith("farmur"):
            near = net(batch.x + 0.001).log_softmax(1)
            own = clean.softmax(1)
            divergence = (own * (own.log() - attacked.log_softmax(1))).sum(1)
            assert divergence.mean() > 5 * (own * (own.log() - near)).sum(1).mean()
        else:
            before, after = (nn.functional.cross_entropy(s, batch.y, reduction="none") for s in (clean, attacked))
            assert after.mean() > before.mean() + 0.01


@every_method
def test_a_method_is_a_frozen_hashable_value_with_a_documented_formula(name):
    kind = METHODS[name]
    method = kind()
    assert isinstance(method, TrainingMethod)
    assert method == kind()
    assert hash(method) == hash(kind())
    assert isinstance(method.recipe(0, 3), Recipe)
    assert hash(method.recipe(0, 3)) == hash(kind().recipe(0, 3))
    field = next((field.name for field in dataclasses.fields(kind)), "anything")
    with pytest.raises((dataclasses.FrozenInstanceError, TypeError, AttributeError)):
        setattr(method, field, 1)
    text = inspect.getdoc(kind)
    assert "Reference: " in text
    assert any(sign in text for sign in ("Σ", "·", "max(")), "the docstring of a method has its formula"
    for field in dataclasses.fields(kind):
        assert field.name in text
    assert kind.title


@every_case
def test_a_method_can_be_rebuilt_from_its_description(spelling):
    method = parse_method(spelling)
    described = describe_method(method)
    assert all(isinstance(value, str | int | float | bool) for value in described.values())
    assert METHODS.build(described.pop("name"), described) == method


@every_method
def test_an_unknown_field_is_refused_with_a_suggestion(name):
    known = [field.name for field in dataclasses.fields(METHODS[name])]
    wrong = f"{known[0]}x" if known else "wieght"
    with pytest.raises(InputError, match=f"`{name}`: unknown field `{wrong}`") as refused:
        parse_method(f"{name}:{wrong}=1")
    assert not known or f"Did you mean '{known[0]}'?" in str(refused.value)


@pytest.mark.parametrize("name", [n for n in METHODS if "radius" in METHODS[n].__dataclass_fields__])
def test_a_radius_may_be_a_fraction_in_python_too(name):
    assert METHODS[name](radius="4/255") == METHODS[name](radius=4 / 255)


@every_case
def test_a_batch_of_one_group_or_of_wrong_predictions_gives_a_finite_loss_and_gradient(spelling):
    net = tiny(normed=True)
    whole = small_batch()
    wrong = net.eval()(whole.x).argmin(dim=1)
    method = parse_method(spelling)
    recipe = method.recipe(phase_of(spelling), 10)
    state = {**recipe.controller.begin(len(NAMES)), **VULNERABLE}
    net.train()
    for batch in (Batch(whole.x, whole.y, torch.full((12,), 2), NAMES), Batch(whole.x, wrong, whole.groups, NAMES)):
        batches = (batch,) * len(recipe.parts)
        found = sum_up(net, recipe, batches, state, space(), torch.Generator().manual_seed(0))
        net.zero_grad()
        found.total.backward()
        assert math.isfinite(found.total.item())
        assert all(torch.isfinite(parameter.grad).all() for parameter in net.parameters())


@every_method
def test_training_changes_neither_the_model_nor_random_states(name):
    data, steps = blobs(24), {"steps": 2} if "steps" in METHODS[name].__dataclass_fields__ else {}
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 3))
    net[0].bias.requires_grad_(False)
    net[1].eval()
    before, modes = weights(net), [part.training for part in net.modules()]
    torch.manual_seed(3)
    np.random.seed(3)
    python_random.seed(3)
    states = torch.random.get_rng_state(), np.random.get_state()[1].copy(), python_random.getstate()
    plan = TrainingPlan(batch=12, watch_radius=0.05, watch="pgd:steps=1", watch_samples=4)
    found = train(
        net, data, METHODS[name](**steps), epochs=2, partition="kind", validation=blobs(12, seed=1), plan=plan
    )
    assert all(torch.equal(before[key], part) for key, part in net.state_dict().items())
    assert [part.training for part in net.modules()] == modes
    assert all(parameter.grad is None for parameter in net.parameters())
    assert torch.equal(torch.random.get_rng_state(), states[0])
    np.testing.assert_array_equal(np.random.get_state()[1], states[1])
    assert python_random.getstate() == states[2]
    assert not same_weights(found.module, net)
    assert torch.equal(found.module[0].bias, net[0].bias)  # it needs no gradient
    assert not found.module.training
    assert len(found.history) == 2
