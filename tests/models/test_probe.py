"""Models that have no distances to measure are refused before measuring, with the numbers."""

import functools

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from typer.testing import CliRunner

import fairmargin as fm
from fairmargin.cli.app import app
from fairmargin.core.domain import Domain
from fairmargin.errors import ModelError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.probe import probed

X = np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)
IMAGES = np.random.default_rng(1).random((40, 2, 6, 6)).astype(np.float32)
LEAST = 0.99 * float(np.abs(X).sum(axis=1).min())  # of the sums of sizes, by which a network may refuse inputs
FAST = fm.ESTIMATORS["plumb"](steps=12)


def seeded(make):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


def two_layers(*first):
    return seeded(lambda: nn.Sequential(*first, nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2)))


class Around(nn.Module):
    """Applies a function to the input of a network."""

    def __init__(self, function, network=None):
        super().__init__()
        self.function, self.network = function, network or two_layers()

    def forward(self, x):
        return self.network(self.function(x))


class Attending(nn.Module):
    """Attention whose axes are swapped, so that it runs over the samples of a batch."""

    def __init__(self):
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(6, 2, batch_first=True), nn.Linear(6, 2)

    def forward(self, x):
        rows = x[None]
        return self.head(self.attention(rows, rows, rows, need_weights=False)[0][0])


class Always(nn.Module):
    """BatchNorm by the statistics of the batch, in evaluation mode too."""

    def __init__(self):
        super().__init__()
        self.network = two_layers()

    def forward(self, x):
        return self.network(functional.batch_norm(x, None, None, training=True))


def free(module):
    return as_classifier(module, domain=Domain())


BATCH_DEPENDENT = {
    "BatchNorm1d without running statistics": lambda: two_layers(nn.BatchNorm1d(6, track_running_stats=False)),
    "normalisation within the batch": lambda: Around(lambda x: (x - x.mean(0)) / (x.std(0) + 1e-6)),
    "centring within the batch": lambda: Around(lambda x: x - x.mean(dim=0, keepdim=True)),
    "scaling by the largest of the batch": lambda: Around(lambda x: x / x.abs().max()),
    "scaling by the size of the batch": lambda: Around(lambda x: x * 64 / len(x)),
    "position in the batch": lambda: Around(lambda x: x + 0.1 * torch.arange(len(x))[:, None]),
    "attention over the batch": lambda: seeded(Attending),
    "BatchNorm as in training": lambda: seeded(Always),
    "a cumulative sum over the batch": lambda: Around(lambda x: x.cumsum(dim=0)),
}


@pytest.mark.parametrize("make", BATCH_DEPENDENT.values(), ids=BATCH_DEPENDENT.keys())
def test_refuses_a_network_whose_answer_depends_on_the_batch(make):
    with pytest.raises(ModelError, match=r"depends on the other samples of its batch.*\d+ of 32 .*"):
        fm.measure(free(make()), X, Y, FAST)


def test_refuses_batch_norm_2d_without_running_statistics():
    body = (nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4, track_running_stats=False), nn.ReLU(), nn.Flatten())
    with pytest.raises(ModelError, match="depends on the other samples of its batch"):
        fm.measure(seeded(lambda: nn.Sequential(*body, nn.Linear(64, 3))), IMAGES, np.zeros(40, int), FAST)


@pytest.mark.parametrize("count", [1, 2, 3, 64, 65])
def test_refuses_it_for_any_number_of_samples(count):
    with pytest.raises(ModelError, match="depends on the other samples of its batch"):
        fm.measure(free(two_layers(nn.BatchNorm1d(6, track_running_stats=False))), X[:count], Y[:count], FAST)


def test_refuses_it_where_all_samples_are_the_same():
    same = np.repeat(X[:1], 5, axis=0)
    with pytest.raises(ModelError, match="depends on the other samples of its batch"):
        fm.measure(free(two_layers(nn.BatchNorm1d(6, track_running_stats=False))), same, [0] * 5, FAST)


@pytest.mark.parametrize("tile", [2, 16, 200])
def test_refuses_it_for_any_tile(tile):
    model = as_classifier(Around(lambda x: x - x.mean(0)), domain=Domain(), tile=tile)
    with pytest.raises(ModelError, match="depends on the other samples of its batch"):
        fm.measure(model, X, Y, FAST)


PER_SAMPLE = {
    "plain": two_layers,
    "BatchNorm with running statistics": lambda: two_layers(nn.BatchNorm1d(6)),
    "LayerNorm": lambda: two_layers(nn.LayerNorm(6)),
    "normalisation of each sample": lambda: Around(lambda x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)),
    "dropout": lambda: two_layers(nn.Dropout(0.5)),
    "large offset": lambda: Around(lambda x: x, nn.Sequential(two_layers(), Around(lambda z: z + 3e4, nn.Identity()))),
    "small scores": lambda: nn.Sequential(two_layers(), Around(lambda z: z * 1e-6, nn.Identity())),
    "constant scores": lambda: nn.Sequential(two_layers(), Around(lambda z: z * 0 + 2, nn.Identity())),
    "half precision inside": lambda: Around(lambda x: x.bfloat16().float()),
    "double precision": lambda: two_layers().double(),
    "no scores elsewhere": lambda: Around(lambda x: torch.where(x.abs().sum(1, keepdim=True) > LEAST, x, torch.nan)),
}


@pytest.mark.parametrize("make", PER_SAMPLE.values(), ids=PER_SAMPLE.keys())
@pytest.mark.parametrize("training", [False, True])
def test_accepts_a_network_that_looks_at_each_sample_alone(make, training):
    module = make().train(training)
    model = free(module)
    assert probed(model, X).model.predict(X).tolist() == model.predict(X).tolist()
    assert module.training is training


def test_accepts_instance_norm_and_inner_layers_that_work_in_place():
    body = (nn.Conv2d(2, 4, 3), nn.InstanceNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(64, 3))
    assert len(fm.measure(seeded(lambda: nn.Sequential(*body)), IMAGES, np.zeros(40, int), FAST)) == 40


@pytest.mark.parametrize("name", ["lenet5", "small_cnn", "resnet20"])
def test_accepts_the_networks_of_the_catalog(name):
    shape = (3, 32, 32) if name == "resnet20" else (1, 28, 28)
    network = seeded(lambda: fm.build_architecture(name, shape, 10))
    probed(as_classifier(network), np.random.default_rng(0).random((20, *shape)))


def test_a_network_that_takes_batches_of_one_size_only_is_accepted():
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = two_layers()

        def forward(self, x):
            if len(x) != 64:
                raise ValueError("64 samples only")
            return self.network(x)

    assert len(fm.measure(free(Fixed()), X[:5], Y[:5], FAST)) == 5


@functools.cache
def plain_distances():
    return fm.measure(free(Around(lambda x: x - 0.5)), X, Y, FAST).values


IN_PLACE = {
    "x -= mean": lambda x: x.__isub__(0.5),
    "sub_": lambda x: x.sub_(0.5),
    "div_": lambda x: x.div_(255),
    "data": lambda x: x.data.sub_(0.5),
    "numpy": lambda x: torch.from_numpy(np.subtract(x.numpy(), 0.5, out=x.numpy())),
    "one feature": lambda x: x.index_fill_(1, torch.tensor([2]), 0.0),
    "clamp_": lambda x: x.clamp_(-0.1, 0.1),
    "relu": nn.ReLU(inplace=True),
    "ELU after Flatten": nn.Sequential(nn.Flatten(), nn.ELU(inplace=True)),
}


@pytest.mark.parametrize("function", IN_PLACE.values(), ids=IN_PLACE.keys())
def test_refuses_a_network_that_modifies_its_input(function):
    x = X.copy()
    with pytest.raises(ModelError, match=r"modifies its input in place: [\d,]+ of [\d,]+ numbers .*clone"):
        fm.measure(free(Around(function)), x, Y, FAST)
    np.testing.assert_array_equal(x, X)


def test_refuses_a_network_in_double_precision_that_modifies_its_input_and_leaves_the_samples_alone():
    x = X.astype(np.float64)
    before = x.copy()
    with pytest.raises(ModelError, match="modifies its input in place"):
        fm.measure(free(Around(lambda x: x.sub_(0.5), two_layers().double())), x, Y, FAST)
    np.testing.assert_array_equal(x, before)


def test_refuses_an_operation_in_place_that_happens_to_change_nothing():
    network = seeded(lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(6, 2)))
    with pytest.raises(ModelError, match=r"modifies its input in place: 0 of"):
        fm.measure(network, np.abs(X) % 1, Y, FAST)


def test_a_network_that_modifies_a_copy_of_its_input_is_measured_as_one_that_does_not():
    found = fm.measure(free(Around(lambda x: x.clone().sub_(0.5))), X, Y, FAST).values
    np.testing.assert_array_equal(found, plain_distances())


def test_refuses_a_network_that_is_random_with_its_own_sentence():
    noisy = Around(lambda x: functional.dropout(x, 0.5, training=True))
    with pytest.raises(ModelError, match=r"returns different outputs when the same inputs.* of 32 samples"):
        fm.measure(free(noisy), X, Y, FAST)


class Predicting:
    """A model that only predicts."""

    classes, domain, offers, tile = (0, 1), Domain(), frozenset({"predict"}), 1

    def __init__(self, answer):
        self.answer = answer

    def predict(self, x):
        return np.asarray(self.answer(x)).astype(np.int64)

    def fingerprint(self):
        return "predicting"


class Scoring(Predicting):
    """The same with scores."""

    def scores(self, x):
        return self.answer(x)

    def predict(self, x):
        return np.asarray(self.answer(x)).argmax(axis=1)


SMOOTHED = fm.ESTIMATORS["smoothing"](draws=100)


def subtract_half(x):
    x -= 0.5
    return x[:, 0] > 0


@pytest.mark.parametrize(
    "answer",
    [
        lambda x: x[:, 0] > x[:, 0].mean(),
        lambda x: x[:, 0] > np.median(x[:, 0]),
        lambda x: ((x - x.mean(0)) / (x.std(0) + 1e-9))[:, 0] > 0.3,
        lambda x: np.arange(len(x)) % 2,
        lambda x: np.full(len(x), len(x) > 20),
    ],
)
def test_refuses_a_model_that_only_predicts_and_depends_on_the_batch(answer):
    with pytest.raises(ModelError, match=r"depends on the other samples of its batch.* \d+ of 32 "):
        fm.measure(Predicting(answer), X[:60], Y[:60], SMOOTHED)


def test_refuses_scores_that_depend_on_the_batch_although_labels_do_not():
    model = Scoring(lambda x: np.stack([-100 - x[:, 0], 100 + x[:, 0] - 9 * x.mean()], axis=1))
    with pytest.raises(ModelError, match="depends on the other samples of its batch"):
        fm.robust_accuracy(model, X, Y, fm.ATTACKS["square"](queries=5), fm.Partition.by("y", Y), radius=0.1)


def test_rounding_at_a_tie_is_no_dependence_on_the_batch():
    def answer(x):  # other last digits in another batch, and the first two classes tie
        z = np.tile(x[:, :1].astype(np.float64), (1, 2)) + 5.0
        z[:, 1] += 1e-12 * (len(x) % 5 - 2)
        return z

    assert probed(Scoring(answer), X).model.predict(X).shape == (120,)


def test_refuses_a_model_that_only_predicts_and_modifies_its_input():
    x = X.astype(np.float64)
    before = x.copy()
    with pytest.raises(ModelError, match=r"modifies its input in place: 192 of 192 numbers .*\.copy\(\)"):
        fm.measure(Predicting(subtract_half), x, Y, SMOOTHED)
    np.testing.assert_array_equal(x, before)


def test_refuses_a_model_that_only_predicts_at_random():
    generator = np.random.default_rng(0)
    with pytest.raises(ModelError, match="returns different outputs when the same inputs"):
        fm.measure(Predicting(lambda x: generator.random(len(x)) > 0.5), X, Y, SMOOTHED)


def test_accepts_a_model_that_only_predicts_and_refuses_single_rows():
    def answer(x):
        if len(x) == 1:
            raise ValueError("at least two rows")
        return x[:, 0] > 0

    assert probed(Predicting(answer), X).notes == ()


def in_every_way(module):
    """The model by every way of the Python interface."""
    model, groups = free(module), fm.Partition.by("y", Y)
    plan = fm.PrecisionPlan(precision=0.5, reference=FAST)
    return {
        "measure": lambda: fm.measure(model, X, Y, FAST),
        "FromAttack": lambda: fm.measure(model, X, Y, fm.FromAttack(lambda x, y: x + 1)),
        "robust_accuracy": lambda: fm.robust_accuracy(model, X, Y, fm.ATTACKS["pgd"](steps=2), groups, radius=0.1),
        "audit_to_precision": lambda: fm.audit_to_precision(model, X, Y, groups, plan),
        "adequacy": lambda: fm.adequacy(model, X, Y, groups, FAST),
        "train": lambda: fm.train(module, fm.Dataset(X, Y), fm.METHODS["erm"](), epochs=1),
    }


@pytest.mark.parametrize("way", list(in_every_way(two_layers())))
def test_refuses_batch_dependence_and_modified_inputs_on_every_way(way):
    with pytest.raises(ModelError, match="depends on the other samples of its batch"):
        in_every_way(two_layers(nn.BatchNorm1d(6, track_running_stats=False)))[way]()
    with pytest.raises(ModelError, match="modifies its input in place"):
        in_every_way(Around(lambda x: x.sub_(0.5)))[way]()


NETWORKS = """
import torch
from torch import nn

class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 2)

    def forward(self, x):
        x -= 0.5
        return self.layer(x)

def normalising():
    torch.manual_seed(0)
    return nn.Sequential(nn.BatchNorm1d(6, track_running_stats=False), nn.Linear(6, 2))
"""


@pytest.mark.parametrize(
    ("network", "words"), [("normalising", "other samples of its batch"), ("InPlace", "its input in place")]
)
@pytest.mark.parametrize(
    "command", [["audit"], ["attack", "--radius", "0.1"], ["train", "--epochs", "1", "--method", "erm"]]
)
def test_commands_refuse_them_with_code_2(tmp_path, network, words, command):
    (tmp_path / "net.py").write_text(NETWORKS)
    lines = [",".join(["a", "b", "c", "d", "e", "f", "label"])]
    lines += [",".join(f"{v:.4f}" for v in row) + f",{label}" for row, label in zip(X, Y, strict=True)]
    (tmp_path / "data.csv").write_text("\n".join(lines))
    options = ["--model", f"{tmp_path}/net.py:{network}", "--data", tmp_path / "data.csv", "--label", "label"]
    options += ["--out", tmp_path / "run"]
    done = CliRunner().invoke(app, [*command, *map(str, options)])
    said = " ".join(done.output.split())
    assert done.exit_code == 2, said
    assert words in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "answer",
    [lambda x: x[:, 0] > 0.5 * x[:, 0].mean(), lambda x: np.full(len(x), len(x) > 50)],
    ids=["half of the mean", "batches of more than 50"],
)
def test_refuses_labels_that_change_only_with_batches_unlike_the_samples(answer):
    with pytest.raises(ModelError, match=r"depends on the other samples of its batch.* inputs beside them"):
        fm.measure(Predicting(answer), X, Y, SMOOTHED)


class PredictingLists(Predicting):
    def predict(self, x):
        return [int(value) for value in self.answer(x)]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (PredictingLists(lambda x: x[:, 0] > 0), r"must return an array of class positions; it returned a `list`"),
        (Predicting(lambda x: 5 * (x[:, 0] > 0)), r"must return class positions from 0 to 1; it returned 5"),
    ],
)
def test_refuses_predictions_that_are_no_class_positions(model, words):
    with pytest.raises(ModelError, match=words):
        fm.measure(model, X, Y, SMOOTHED)
