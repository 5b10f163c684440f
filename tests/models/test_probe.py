"""Models that have no distances to measure are refused before measuring, with the numbers."""

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
from tests.models.modules import before

X = np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)
IMAGES = np.random.default_rng(1).random((40, 2, 6, 6)).astype(np.float32)
LEAST = 0.99 * float(np.abs(X).sum(axis=1).min())  # of the sums of sizes; a network may return no scores below it
FAST = fm.ESTIMATORS["plumb"](steps=12)


def seeded(make):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


def around(function, network=None):
    return before(function, network or two_layers())


def two_layers(*first):
    return seeded(lambda: nn.Sequential(*first, nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2)))


class Attending(nn.Module):
    """Attention whose axes are swapped, so that it runs over the samples of a batch."""

    def __init__(self):
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(6, 2, batch_first=True), nn.Linear(6, 2)

    def forward(self, x):
        rows = x[None]
        return self.head(self.attention(rows, rows, rows, need_weights=False)[0][0])


def free(module):
    return as_classifier(module, domain=Domain())


BATCH_DEPENDENT = {
    "BatchNorm1d without running statistics": lambda: two_layers(nn.BatchNorm1d(6, track_running_stats=False)),
    "normalisation within the batch": lambda: around(lambda x: (x - x.mean(0)) / (x.std(0) + 1e-6)),
    "centring within the batch": lambda: around(lambda x: x - x.mean(dim=0, keepdim=True)),
    "scaling by the largest of the batch": lambda: around(lambda x: x / x.abs().max()),
    "scaling by the size of the batch": lambda: around(lambda x: x * 64 / len(x)),
    "position in the batch": lambda: around(lambda x: x + 0.1 * torch.arange(len(x))[:, None]),
    "attention over the batch": lambda: seeded(Attending),
    "BatchNorm as in training": lambda: around(lambda x: functional.batch_norm(x, None, None, training=True)),
    "a cumulative sum over the batch": lambda: around(lambda x: x.cumsum(dim=0)),
}


@pytest.mark.parametrize("make", BATCH_DEPENDENT.values(), ids=BATCH_DEPENDENT.keys())
def test_refuses_a_network_whose_answer_depends_on_the_batch(make):
    with pytest.raises(ModelError, match=r"depends on the other samples of its batch.*\d+ of 32 .*"):
        fm.measure(free(make()), X, Y, FAST)


@pytest.mark.parametrize("x", [X[:1], X[:3], X[:64], X[:65], np.repeat(X[:1], 5, axis=0)], ids=len)
@pytest.mark.parametrize("tile", [2, 64, 200])
def test_refuses_it_for_any_number_of_samples_equal_samples_and_any_tile(x, tile):
    model = as_classifier(two_layers(nn.BatchNorm1d(6, track_running_stats=False)), domain=Domain(), tile=tile)
    with pytest.raises(ModelError, match="depends on the other samples of its batch"):
        fm.measure(model, x, Y[: len(x)], FAST)


@pytest.mark.parametrize("accepted", [False, True])
def test_refuses_batch_statistics_of_images_and_accepts_those_of_each_image(accepted):
    norm = nn.InstanceNorm2d(4) if accepted else nn.BatchNorm2d(4, track_running_stats=False)
    body = (nn.Conv2d(2, 4, 3), norm, nn.ReLU(inplace=True), nn.Flatten())
    model = seeded(lambda: nn.Sequential(*body, nn.Linear(64, 3)))
    if accepted:
        assert len(fm.measure(model, IMAGES, np.zeros(40, int), FAST)) == 40
    else:
        with pytest.raises(ModelError, match="depends on the other samples of its batch"):
            fm.measure(model, IMAGES, np.zeros(40, int), FAST)


PER_SAMPLE = {
    "plain": two_layers,
    "BatchNorm with running statistics": lambda: two_layers(nn.BatchNorm1d(6)),
    "LayerNorm": lambda: two_layers(nn.LayerNorm(6)),
    "normalisation of each sample": lambda: around(lambda x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)),
    "dropout": lambda: two_layers(nn.Dropout(0.5)),
    "large offset": lambda: around(lambda x: x, nn.Sequential(two_layers(), around(lambda z: z + 3e4, nn.Identity()))),
    "small scores": lambda: nn.Sequential(two_layers(), around(lambda z: z * 1e-6, nn.Identity())),
    "constant scores": lambda: nn.Sequential(two_layers(), around(lambda z: z * 0 + 2, nn.Identity())),
    "half precision inside": lambda: around(lambda x: x.bfloat16().float()),
    "double precision": lambda: two_layers().double(),
    "no scores elsewhere": lambda: around(lambda x: torch.where(x.abs().sum(1, keepdim=True) > LEAST, x, torch.nan)),
}


@pytest.mark.parametrize("make", PER_SAMPLE.values(), ids=PER_SAMPLE.keys())
@pytest.mark.parametrize("training", [False, True])
def test_accepts_a_network_that_treats_each_sample_alone(make, training):
    module = make().train(training)
    model = free(module)
    assert probed(model, X).model.predict(X).tolist() == model.predict(X).tolist()
    assert module.training is training


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


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("function", IN_PLACE.values(), ids=IN_PLACE.keys())
def test_refuses_a_network_that_modifies_its_input_and_leaves_the_samples_unchanged(function, kind):
    x, network = X.astype(kind), two_layers().to(torch.float32 if kind is np.float32 else torch.float64)
    with pytest.raises(ModelError, match=r"modifies its input in place: [\d,]+ of [\d,]+ numbers .*clone"):
        fm.measure(free(around(function, network)), x, Y, FAST)
    np.testing.assert_array_equal(x, X)


def test_refuses_an_operation_in_place_that_happens_to_change_nothing():
    network = seeded(lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(6, 2)))
    with pytest.raises(ModelError, match=r"modifies its input in place: 0 of"):
        fm.measure(network, np.abs(X) % 1, Y, FAST)


def test_a_network_that_modifies_a_copy_of_its_input_is_measured_as_one_that_does_not():
    found = fm.measure(free(around(lambda x: x.clone().sub_(0.5))), X, Y, FAST).values
    np.testing.assert_array_equal(found, fm.measure(free(around(lambda x: x - 0.5)), X, Y, FAST).values)


def test_refuses_a_network_that_is_random_with_its_own_sentence():
    noisy = around(lambda x: functional.dropout(x, 0.5, training=True))
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


BATCH = r"depends on the other samples of its batch.* \d+ of 32 "
BESIDE = r"depends on the other samples of its batch.* inputs beside them"  # batches unlike the samples
RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x: x[:, 0] > x[:, 0].mean(), BATCH),
        (lambda x: x[:, 0] > np.median(x[:, 0]), BATCH),
        (lambda x: ((x - x.mean(0)) / (x.std(0) + 1e-9))[:, 0] > 0.3, BATCH),
        (lambda x: np.arange(len(x)) % 2, BATCH),
        (lambda x: np.full(len(x), len(x) > 20), BATCH),
        (lambda x: x[:, 0] > 0.5 * x[:, 0].mean(), BESIDE),
        (lambda x: np.full(len(x), len(x) > 50), BESIDE),
        (lambda x: RANDOM.random(len(x)) > 0.5, "returns different outputs when the same inputs"),
        (lambda x: 5 * (x[:, 0] > 0), r"must return class positions from 0 to 1; it returned 5"),
        (lambda x: x > 0, r"must return one class position for each of 32 samples; it returned shape \(32, 6\)"),
    ],
)
def test_refuses_a_model_that_only_predicts_and_whose_predictions_do_not_follow_from_the_sample(answer, words):
    with pytest.raises(ModelError, match=words):
        fm.measure(Predicting(answer), X, Y, SMOOTHED)


def test_refuses_predictions_in_a_list():
    model = Predicting(None)
    model.predict = lambda x: [0] * len(x)
    with pytest.raises(ModelError, match=r"must return an array of class positions; it returned a `list`"):
        fm.measure(model, X, Y, SMOOTHED)


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


def test_accepts_a_model_that_only_predicts_and_refuses_single_rows():
    def answer(x):
        if len(x) == 1:
            raise ValueError("at least two rows")
        return x[:, 0] > 0

    assert probed(Predicting(answer), X).notes == ()


def uses_of(module):
    """Return the uses of a model in the Python interface, by name."""
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


@pytest.mark.parametrize("use", list(uses_of(two_layers())))
def test_every_function_refuses_batch_dependence_and_modified_inputs(use):
    with pytest.raises(ModelError, match="depends on the other samples of its batch"):
        uses_of(two_layers(nn.BatchNorm1d(6, track_running_stats=False)))[use]()
    with pytest.raises(ModelError, match="modifies its input in place"):
        uses_of(around(lambda x: x.sub_(0.5)))[use]()


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
