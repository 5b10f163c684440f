import json
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fairmargin.distances.deepfool import DeepFool
from fairmargin.distances.measure import measure
from fairmargin.errors import InputError, ModelError
from fairmargin.models import acceleration
from fairmargin.models.acceleration import PLAIN, Acceleration, Choice, accelerated, choose, decided, threads
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.folding import folded
from fairmargin.models.loading import load_model
from fairmargin.models.normalized import Normalized
from fairmargin.models.probe import probed
from fairmargin.models.trial import Pass, Trial
from fairmargin.perturbation.closest import Closest

SHARED = Path(__file__).parents[3] / "shared"
FOLD, LAST, BOTH = (
    Acceleration(fold=True),
    Acceleration(channels_last=True),
    Acceleration(fold=True, channels_last=True),
)
X = np.random.default_rng(0).random((70, 3, 8, 8), dtype=np.float32)


@pytest.fixture(autouse=True)
def one_thread():
    """Small networks on several threads of a busy machine spend their time waiting for each other."""
    with threads(1):
        yield


def lively(module, seed=0):
    """Statistics as after training: with those of a fresh BatchNorm folding would have nothing to do."""
    generator = torch.Generator().manual_seed(seed)
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            for tensor in (part.running_mean, part.running_var, part.weight, part.bias):
                if tensor is not None:
                    tensor.data.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
    return module


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)) + x)


def residual(seed=0):
    torch.manual_seed(seed)
    parts = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), Block(8), nn.AvgPool2d(2), Block(8)]
    return lively(nn.Sequential(*parts, nn.Flatten(), nn.Linear(128, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 4)))


def scores(module, x):
    with torch.no_grad():
        return module(torch.as_tensor(x))


@pytest.mark.parametrize("way", [FOLD, LAST, BOTH])
@pytest.mark.parametrize("wrap", [lambda net: net, lambda net: Normalized(net, (0.4, 0.5, 0.6), (0.2, 0.3, 0.4))])
def test_a_faster_copy_gives_the_same_scores(way, wrap):
    net = wrap(residual()).eval()
    assert torch.allclose(scores(accelerated(net, way), X), scores(net, X), atol=1e-5)


def test_folding_leaves_no_batch_norm_and_channels_last_lays_weights_out_anew():
    copy = accelerated(residual(), BOTH)
    assert not [part for part in copy.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    convolutions = [part for part in copy.modules() if isinstance(part, nn.Conv2d)]
    assert len(convolutions) == 3
    assert all(part.weight.is_contiguous(memory_format=torch.channels_last) for part in convolutions)


@pytest.mark.parametrize("way", [FOLD, LAST, BOTH])
def test_the_module_itself_is_untouched(way):
    net = residual().train()
    net(torch.as_tensor(X)).sum().backward()
    lively(net)
    before = {name: part.clone() for name, part in net.state_dict().items()}
    strides = [part.stride() for part in net.parameters()]
    gradients = [part.grad.clone() for part in net.parameters()]
    scores(accelerated(net, way), X)
    assert all(part.training for part in net.modules())
    assert all(part.requires_grad for part in net.parameters())
    assert strides == [part.stride() for part in net.parameters()]
    assert all(torch.equal(part, before[name]) for name, part in net.state_dict().items())
    assert all(torch.equal(part.grad, gradient) for part, gradient in zip(net.parameters(), gradients, strict=True))


def test_nothing_to_do_is_the_module_itself():
    net = residual()
    assert accelerated(net, PLAIN) is net
    assert accelerated(net, Acceleration(threads=2)) is net


class SharedLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(3), nn.BatchNorm2d(3)])

    def forward(self, x):
        return self.norms[1](self.conv(self.norms[0](self.conv(x))))


class ReadLayer(nn.Sequential):
    def forward(self, x):
        return super().forward(x) + self[0].weight.sum()


class TwiceUsed(nn.Sequential):
    def forward(self, x):
        before = self[0](x)
        return self[1](before) + before


def hooked():
    net = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))
    net[0].register_forward_hook(lambda module, given, result: result * 2)
    return net


def without_statistics():
    return nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3, track_running_stats=False))


def before_the_layer():
    return nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 3, 1))


@pytest.mark.parametrize(
    "make",
    [
        SharedLayer,
        lambda: ReadLayer(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)),
        lambda: TwiceUsed(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)),
        hooked,
        without_statistics,
        before_the_layer,
        lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 3, 1)), nn.BatchNorm2d(3)),
    ],
)
def test_folds_only_where_that_is_right(make):
    with pytest.raises(ModelError, match="no BatchNorm follows"):
        folded(lively(make()).eval())


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.Linear(192, 3)

    def forward(self, x):
        x = self.norm(self.conv(x))
        return self.last((x if x.sum() > 0 else -x).flatten(1))


class Viewing(nn.Module):
    """Takes for granted how images lie in memory."""

    def __init__(self):
        super().__init__()
        self.conv, self.last = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(256, 3)

    def forward(self, x):
        return self.last(self.conv(x).view(len(x), -1))


def test_says_that_a_module_cannot_be_traced():
    with pytest.raises(ModelError, match="its steps cannot be traced"):
        accelerated(Branching(), FOLD)


def test_a_trial_leaves_out_what_is_not_possible_and_says_why():
    torch.manual_seed(0)
    reasons = choose(as_classifier(Branching()), X).reasons
    assert any("cannot be traced" in why for why in reasons.values())
    reasons = choose(as_classifier(Viewing()), X).reasons
    assert any("view" in why for name, why in reasons.items() if name.startswith("channels last"))


def test_a_trial_changes_neither_the_module_nor_the_random_state_nor_the_threads():
    net = residual().train()
    before, state, count = net.state_dict(), torch.get_rng_state(), torch.get_num_threads()
    before = {name: part.clone() for name, part in before.items()}
    told = []
    choice = choose(as_classifier(net), X[:5], progress=lambda done, total: told.append((done, total)))
    assert isinstance(choice, Choice)
    assert net.training
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == count
    assert all(torch.equal(part, before[name]) for name, part in net.state_dict().items())
    assert told[0] == (0, 5)
    assert told[-1] == (5, 5)


@pytest.mark.parametrize("net", [nn.Linear(4, 2), nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), residual().double()])
def test_there_is_no_trial_where_there_is_nothing_to_gain(net, monkeypatch):
    monkeypatch.setattr(acceleration, "Trial", None)
    choice = choose(as_classifier(net), X)
    assert choice.acceleration == PLAIN
    assert choice.sentence.startswith("The plain model: it ")
    assert not choice.seconds


def test_says_that_a_trial_needs_a_sample():
    with pytest.raises(InputError, match="at least one sample"):
        choose(as_classifier(residual()), X[:0])


def test_compiling_is_tried_for_long_runs_only(monkeypatch):
    asked = []
    admit = Trial.admit
    monkeypatch.setattr(Trial, "admit", lambda self, way: asked.append(way) or (way.compiled or admit(self, way)))
    choose(as_classifier(residual()), X, passes=1)
    assert not any(way.compiled for way in asked)
    choose(as_classifier(residual()), X, passes=10**8)
    assert asked[-1].compiled


def test_says_that_there_is_no_compiler(monkeypatch):
    monkeypatch.setattr(acceleration.shutil, "which", lambda name: None)
    with pytest.raises(ModelError, match=r"no C\+\+ compiler"):
        accelerated(residual(), Acceleration(compiled=True))


def made_up(seconds, scores=None, wrong_place=()):
    """Ways that take so long; one in `wrong_place` knows where in the tile a row stands."""

    def run(way, rows):
        place = torch.arange(len(rows))[:, None] * 1e-9 if way in wrong_place else 0.0
        out = (rows if scores is None or way not in scores else scores[way]) + place
        return Pass(out, rows, seconds[way])

    return run


def test_a_trial_compares_medians_of_those_that_are_right():
    rows = torch.rand(4, 3, dtype=torch.float64)
    seconds = {"plain": 1e-3, "fast": 1e-4, "wrong": 1e-6, "moody": 1e-6}
    trial = Trial("plain", made_up(seconds, {"wrong": rows * 1.1}, {"moody"}), rows)
    for way in ("fast", "wrong", "moody", "absent"):
        trial.admit(way)
    trial.race(*seconds)
    assert trial.seconds == {"plain": 1e-3, "fast": 1e-4}
    assert trial.best == "fast"
    assert "not those of the model" in trial.reasons["wrong"]
    assert "place in the tile" in trial.reasons["moody"]
    assert "absent" in trial.reasons


def test_a_slow_model_has_no_long_trial_unless_the_run_is_long():
    rows = torch.rand(4, 3)
    seconds = {"plain": 100.0, "fast": 50.0}
    short = Trial("plain", made_up(seconds), rows)
    short.admit("fast")
    assert short.reasons == {"fast": "the time of the trial was over"}
    long = Trial("plain", made_up(seconds), rows, passes=1000)
    long.admit("fast")
    assert not long.reasons


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ({PLAIN: 1.0}, PLAIN),
        ({PLAIN: 1.0, BOTH: 0.96}, PLAIN),
        ({PLAIN: 1.0, BOTH: 0.9}, BOTH),
        ({PLAIN: 1.0, BOTH: 0.7, FOLD: 0.71}, FOLD),
        ({PLAIN: 1.0, BOTH: 0.7, FOLD: 0.8}, BOTH),
        ({PLAIN: 1.0, FOLD: 0.7, replace(FOLD, compiled=True): 0.3}, replace(FOLD, compiled=True)),
    ],
)
def test_takes_the_simplest_way_that_is_about_as_fast_as_any(seconds, expected):
    assert decided(seconds, {}, 2).acceleration == expected


def test_a_choice_says_what_was_gained():
    choice = decided({PLAIN: 1.36, BOTH: 1.0}, {LAST: "no reason"}, 2)
    assert choice.sentence == (
        "BatchNorm folded, channels last, 2 threads: 1.36 times as fast as the plain model in a trial."
    )
    assert choice.seconds == {"plain": 1.36, "BatchNorm folded, channels last": 1.0}
    assert choice.reasons == {"channels last": "no reason"}


def test_a_choice_survives_json():
    choice = decided({PLAIN: 1.36, replace(BOTH, threads=1): 1.0}, {LAST: "no reason"}, 2)
    assert Choice.decode(json.loads(json.dumps(choice.encode()))) == choice


@pytest.mark.parametrize(
    "content", [None, {}, {"fold": True}, PLAIN.encode() | {"fold": 1}, PLAIN.encode() | {"more": 1}]
)
def test_refuses_what_is_no_acceleration(content):
    with pytest.raises(InputError, match="An acceleration has the fields fold"):
        Acceleration.decode(content)
    with pytest.raises(InputError):
        Choice.decode({"acceleration": content, "sentence": "", "seconds": {}, "reasons": {}})
    with pytest.raises(InputError, match="A choice has the fields"):
        Choice.decode({"acceleration": PLAIN.encode()})


def test_threads_come_back():
    before = torch.get_num_threads()
    with threads(before + 1):
        assert torch.get_num_threads() == before + 1
    with pytest.raises(ZeroDivisionError), threads(before + 1):
        1 / 0
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("way", [PLAIN, FOLD, LAST, BOTH])
def test_measures_a_sample_the_same_alone_or_in_any_order_with_a_faster_copy(way):
    model = replace(as_classifier(residual(), mean=0.5, std=0.3), acceleration=way)
    y = model.predict(X)
    whole = measure(model, X, y, DeepFool(steps=8)).values
    order = np.random.default_rng(1).permutation(len(X))
    assert np.isfinite(whole).sum() > 20
    np.testing.assert_array_equal(measure(model, X[order], y[order], DeepFool(steps=8)).values, whole[order])
    for i in (0, 17):
        assert measure(model, X[i : i + 1], y[i : i + 1], DeepFool(steps=8)).values == whole[i]


@pytest.mark.parametrize("way", [PLAIN, BOTH])
def test_bits_do_not_depend_on_threads(way):
    model, y = as_classifier(residual()), as_classifier(residual()).predict(X)
    one, two = (
        measure(replace(model, acceleration=replace(way, threads=count)), X[:9], y[:9], DeepFool(steps=2)).values
        for count in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("way", [FOLD, BOTH])
def test_every_input_found_with_a_faster_copy_fools_the_plain_model(way, monkeypatch):
    plain, kept, of = as_classifier(residual()), [], Closest.of
    monkeypatch.setattr(Closest, "of", lambda *given: kept.append(of(*given)) or kept[-1])
    y = plain.predict(X)
    values = measure(replace(plain, acceleration=way), X, y, DeepFool(steps=8)).values
    found = np.isfinite(values)
    assert found.sum() > 20
    points = kept[0].point.numpy().reshape(X.shape)
    assert (plain.predict(points)[found] != y[found]).all()
    np.testing.assert_allclose(
        np.linalg.norm((points - X).reshape(len(X), -1), axis=1)[found], values[found], rtol=1e-5
    )


def test_a_copy_that_is_wrong_finds_no_false_distances(monkeypatch):
    """The plain model has the last word: with a useless copy distances are upper bounds still, or inf."""
    plain = as_classifier(residual())
    y = plain.predict(X[:20])
    truth = measure(plain, X[:20], y, DeepFool(steps=20)).values
    broken = replace(probed(plain, X[:20]).model, acceleration=FOLD)
    broken._ready[FOLD] = residual(seed=5).eval()
    found = measure(broken, X[:20], y, DeepFool(steps=20)).values
    assert (found > 0.3 * truth).all()
    assert (found[np.isfinite(found)] > 0).all()


@pytest.mark.slow
def test_a_compiled_copy_gives_the_same_scores_several_gradients_and_the_same_bits_alone():
    model = replace(as_classifier(residual()), acceleration=replace(FOLD, compiled=True))
    y = model.predict(X)
    whole = measure(model, X, y, DeepFool(steps=4)).values
    np.testing.assert_allclose(whole, measure(as_classifier(residual()), X, y, DeepFool(steps=4)).values, rtol=1e-2)
    assert measure(model, X[9:10], y[9:10], DeepFool(steps=4)).values == whole[9]


@pytest.mark.shared
@pytest.mark.skipif(not (SHARED / "weights").is_dir(), reason="needs ../shared with the public weights")
def test_the_public_resnet_20_folds_and_measures_a_sample_the_same_alone():
    weights = str(SHARED / "weights" / "cifar10-resnet20-12fca82f.th")
    net = load_model("arch:resnet20", weights=weights, shape=(3, 32, 32), classes=10)
    plain = as_classifier(net, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    fast = replace(plain, acceleration=BOTH)
    x = np.random.default_rng(0).random((3, 3, 32, 32), dtype=np.float32)
    y = plain.predict(x)
    copy = accelerated(plain.module, BOTH)
    assert not [part for part in copy.modules() if isinstance(part, nn.BatchNorm2d)]
    whole = measure(fast, x, y, DeepFool(steps=1, rivals=1)).values
    assert measure(fast, x[2:], y[2:], DeepFool(steps=1, rivals=1)).values == whole[2]
    assert torch.allclose(scores(copy, x), scores(plain.module.eval(), x), atol=1e-3)


def test_a_network_of_named_parts_keeps_their_order_when_folded():
    net = nn.Sequential(OrderedDict(a=nn.Conv2d(3, 2, 1), b=nn.BatchNorm2d(2), c=nn.Flatten(), d=nn.Linear(128, 2)))
    assert [name for name, _ in folded(lively(net).eval()).named_children()] == ["a", "c", "d"]
