"""A network may return scores, probabilities or one number: distances are those of the same network with scores."""

import functools
import pickle
import re

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.nn import functional

import fairmargin as fm
from fairmargin.core.domain import Domain
from fairmargin.distances.measure import check_samples
from fairmargin.errors import ModelError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.loading import load_model
from tests.models.modules import then
from tests.perturbation.networks import mlp, relu_mlp, test_digits
from tests.stories.examples import fairmargin, record_of, succeeded

X, Y = test_digits(60)
XB = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
YB = (XB[:, 0] + 0.2 * XB[:, 1] > 0).astype(int)
PLUMB = fm.ESTIMATORS["plumb"](steps=20)


class Calling(nn.Module):
    """A network that calls one of its layers last."""

    def __init__(self, network, layer):
        super().__init__()
        self.last, self.network = layer, network  # registered first, called last

    def forward(self, x):
        return self.last(self.network(x))


@functools.cache
def one_logit():
    """Train a network of one logit that separates the two classes."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
        optimiser = torch.optim.Adam(network.parameters(), lr=0.02)
        for _ in range(100):
            loss = functional.binary_cross_entropy_with_logits(network(torch.tensor(XB))[:, 0], torch.tensor(YB * 1.0))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        network[2].weight.data *= 0.25  # so that float32 can tell sigmoids from 0 and 1
        network[2].bias.data *= 0.25
    return network.eval()


def seeded_linear(outputs):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Linear(6, outputs)


def exported(network, path):
    """Write a network of six features as an ONNX file and read it again."""
    pytest.importorskip("onnxruntime")
    axes = {"input_names": ["x"], "dynamic_axes": {"x": {0: "n"}}}
    torch.onnx.export(network.eval(), (torch.rand(3, 6),), path, dynamo=False, verbose=False, **axes)
    return load_model(str(path))


def sharpened(times):
    return then(mlp(), lambda z: times * z)


def free(module, **settings):
    return as_classifier(module, domain=Domain(), **settings)


def distances(module, estimator=PLUMB):
    return fm.measure(as_classifier(module, classes=range(10)), X, Y, estimator).values


def binary(module, estimator=PLUMB, y=YB):
    return fm.measure(free(module), XB, y, estimator).values


@functools.cache
def two_logits(times=1.0):
    return binary(then(one_logit(), lambda z: torch.cat([torch.zeros_like(z), times * z], dim=1)))


SOFTMAX = {
    "last in a Sequential": lambda net: nn.Sequential(net, nn.Softmax(dim=1)),
    "nested": lambda net: nn.Sequential(nn.Sequential(net, nn.Sequential(nn.Softmax(dim=-1)))),
    "before layers that do nothing": lambda net: nn.Sequential(net, nn.Softmax(dim=1), nn.Identity(), nn.Dropout()),
    "an attribute called last": lambda net: Calling(net, nn.Softmax(dim=1)),
    "LogSoftmax": lambda net: nn.Sequential(net, nn.LogSoftmax(dim=1)),
    "a function": lambda net: then(net, lambda z: z.softmax(dim=1)),
    "a function of a function": lambda net: then(net, lambda z: functional.softmax(z, dim=-1).reshape(len(z), -1)),
    "written out": lambda net: then(net, lambda z: (z - z.logsumexp(1, keepdim=True)).exp()),
}


@pytest.mark.parametrize("make", SOFTMAX.values(), ids=SOFTMAX.keys())
@pytest.mark.parametrize("times", [1, 3])
def test_a_softmax_leaves_distances_as_they_are(make, times, recwarn):
    plain = distances(mlp())
    found = distances(make(sharpened(times)))
    assert not recwarn.list
    np.testing.assert_array_equal(found == 0, plain == 0)
    np.testing.assert_allclose(found, plain, rtol=0.02)
    assert abs(found.mean() / plain.mean() - 1) < 1e-3


@pytest.mark.parametrize(("name", "layer"), [("last in a Sequential", "1"), ("an attribute called last", "last")])
def test_a_softmax_layer_is_left_out_however_sharp_it_is_and_without_changing_predictions(name, layer):
    module = SOFTMAX[name](sharpened(500))
    np.testing.assert_array_equal(distances(module), distances(sharpened(500)))
    with torch.no_grad():
        expected = module(torch.tensor(X)).argmax(dim=1).numpy()
    checked = check_samples(as_classifier(module, classes=range(10)), X, Y)
    assert checked.model.outputs.layer == layer
    np.testing.assert_array_equal(checked.model.predict(X), expected)
    assert checked.notes == (
        "Searches leave out the network's final Softmax layer; decisions are those of the whole network.",
    )


def test_where_probabilities_tie_by_rounding_the_network_decides():
    layer = nn.Linear(2, 3, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[30.0, 0.0], [0.0, 40.0], [0.0, 0.0]]))
    module = nn.Sequential(layer, nn.Sigmoid())
    x = np.array([[1.0, 1.0], [0.1, 0.9]], dtype=np.float32)  # both sigmoids of the first sample are 1 in float32
    model = check_samples(as_classifier(module), x, [0, 1]).model
    assert model.predict(x).tolist() == [0, 1]
    with model.network((2,)) as network:
        assert network.plain(torch.tensor(x)).argmax(dim=1).tolist() == [0, 1]


def test_attention_and_gates_inside_are_no_final_layers():
    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.gate, self.mix, self.head = nn.Linear(6, 8), nn.Sigmoid(), nn.Softmax(1), nn.Linear(8, 2)

        def forward(self, x):
            z = self.body(x)
            return self.head(self.mix(z) * self.gate(z) * 8)

    torch.manual_seed(1)
    model = check_samples(free(Gated()), XB, YB).model
    assert (model.outputs.kind, model.outputs.layer) == ("scores", "")


def test_one_sigmoid_per_class_is_searched_by_its_logits():
    plain = distances(mlp())
    for made in (nn.Sequential(mlp(), nn.Sigmoid()), then(mlp(), torch.sigmoid)):
        np.testing.assert_allclose(distances(made), plain, rtol=0.02)


def test_samples_with_saturated_probabilities_are_counted():
    module = then(mlp(), lambda z: (1000 * z).softmax(dim=1))
    with torch.no_grad():
        expected = int((module(torch.tensor(X)).topk(2).values[:, 1] < torch.finfo(torch.float32).tiny).sum())
    assert 10 < expected <= 60
    words = rf"log-odds\. For {expected} of 60 samples the probabilities are exactly 0 or 1"
    model, partition = as_classifier(module, classes=range(10)), fm.Partition.by("digit", Y)
    with pytest.warns(UserWarning, match=words):
        fm.measure(model, X, Y, fm.ESTIMATORS["first_order"]())
    found = fm.robust_accuracy(model, X, Y, fm.ATTACKS["fgsm"](), partition, radius=0.01)
    assert any(f"For {expected} of 60 samples" in each for each in found.warnings)


ONE_NUMBER = {
    "(n, 1) logit": lambda net: net,
    "(n,) logit": lambda net: then(net, lambda z: z.squeeze(1)),
    "(n,) logit by an index": lambda net: then(net, lambda z: z[:, 0]),
    "(n, 1) Sigmoid layer": lambda net: nn.Sequential(net, nn.Sigmoid()),
    "(n,) Sigmoid layer": lambda net: nn.Sequential(net, nn.Sigmoid(), nn.Flatten(0)),
    "Sigmoid attribute": lambda net: then(Calling(net, nn.Sigmoid()), lambda p: p.squeeze(-1)),
    "(n, 1) sigmoid function": lambda net: then(net, torch.sigmoid),
    "(n,) sigmoid function": lambda net: then(net, lambda z: torch.sigmoid(z).view(-1)),
    "two columns of probabilities": lambda net: then(net, lambda z: torch.cat([1 - z.sigmoid(), z.sigmoid()], dim=1)),
    "two columns of logits": lambda net: then(net, lambda z: torch.cat([torch.zeros_like(z), z], dim=1)),
}


@pytest.mark.parametrize("make", ONE_NUMBER.values(), ids=ONE_NUMBER.keys())
def test_one_number_per_sample_is_measured_as_two_scores(make):
    module = make(one_logit())
    np.testing.assert_allclose(binary(module), two_logits(), rtol=2e-3, atol=1e-6)
    with torch.no_grad():
        expected = (one_logit()(torch.tensor(XB))[:, 0] > 0).long().numpy()
    np.testing.assert_array_equal(free(module).predict(XB), expected)


@pytest.mark.parametrize("name", ["(n, 1) logit", "(n, 1) Sigmoid layer", "(n,) Sigmoid layer", "Sigmoid attribute"])
def test_one_sharp_number_per_sample_is_measured_as_two_scores(name):
    sharp = then(one_logit(), lambda z: 200 * z)
    np.testing.assert_allclose(binary(ONE_NUMBER[name](sharp)), two_logits(200.0), rtol=1e-5, atol=1e-7)


def test_a_saturated_sigmoid_function_is_counted():
    sharp = then(one_logit(), lambda z: torch.sigmoid(200 * z))
    with torch.no_grad():
        p = sharp(torch.tensor(XB))
    expected = int(((p >= 1) | (p < torch.finfo(torch.float32).tiny)).sum())
    assert expected > 10
    with pytest.warns(UserWarning, match=f"For {expected} of 60 samples"):
        found = fm.measure(free(sharp), XB, YB, PLUMB, references=XB).values
    assert np.isfinite(found).all()


@pytest.mark.parametrize("estimator", ["verified", "smoothing", "softmax_margin", "deepfool", "fmn"])
@pytest.mark.parametrize("name", ["(n, 1) logit", "(n,) logit", "(n, 1) Sigmoid layer", "(n,) Sigmoid layer"])
def test_every_kind_of_estimator_takes_one_number_per_sample(estimator, name):
    settings = {"smoothing": {"draws": 200}}.get(estimator, {})
    chosen = fm.ESTIMATORS[estimator](**settings)
    two = then(one_logit(), lambda z: torch.cat([torch.zeros_like(z), z], dim=1))
    if estimator == "verified":  # which cannot read `torch.cat`
        two = nn.Sequential(one_logit()[:2], nn.Linear(16, 2))
        with torch.no_grad():
            two[1].weight.copy_(torch.cat([torch.zeros(1, 16), one_logit()[2].weight]))
            two[1].bias.copy_(torch.cat([torch.zeros(1), one_logit()[2].bias]))
    found, expected = binary(ONE_NUMBER[name](one_logit()), chosen), binary(two, chosen)
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-6)


def test_certificates_hold_without_the_softmax():
    network = relu_mlp()
    chosen = fm.ESTIMATORS["verified"]()
    plain = distances(network, chosen)
    np.testing.assert_array_equal(distances(nn.Sequential(network, nn.Softmax(dim=1)), chosen), plain)
    assert (plain > 0).any()


@pytest.mark.parametrize(
    "function",
    [
        lambda z: 1 / (1 + (-z).exp()),
        lambda z: z.clamp(0, 1),
        lambda z: torch.tanh(z) / 2 + 0.5,
        lambda z: z.sigmoid() ** 2,
    ],
)
def test_one_number_between_0_and_1_that_may_be_a_logit_is_refused(function):
    with pytest.raises(ModelError, match=r"probability or a logit.*stack\(\[1 - p, p\].*zeros_like\(z\), z\]"):
        binary(then(one_logit(), function))


def test_a_linear_layer_whose_logits_happen_to_lie_between_0_and_1_returns_logits():
    layer = nn.Linear(6, 1)
    with torch.no_grad():
        layer.weight.fill_(0.01)
        layer.bias.fill_(0.5)
    model = check_samples(free(layer), XB, np.ones(60, int)).model
    assert model.outputs.kind == "logit"
    assert model.predict(XB).tolist() == [1] * 60


def test_a_classifier_that_knows_its_outputs_can_be_pickled_and_has_its_own_fingerprint():
    plain, module = as_classifier(mlp()), nn.Sequential(mlp(), nn.Softmax(dim=1))
    unknown = as_classifier(module, classes=range(10))
    known = check_samples(unknown, X, Y).model
    again = pickle.loads(pickle.dumps(known))
    assert (again.outputs, again.fingerprint()) == (known.outputs, known.fingerprint())
    assert known.fingerprint() != unknown.fingerprint()
    assert check_samples(plain, X, Y).model.fingerprint() == plain.fingerprint()  # stored distances stay valid


def test_weights_that_change_later_are_measured_again():
    network = nn.Sequential(nn.Linear(6, 2), nn.Softmax(dim=1))
    model = free(network)
    before = fm.measure(model, XB, YB, PLUMB).values
    with torch.no_grad():
        network[0].weight.mul_(-1)
    assert not np.array_equal(fm.measure(model, XB, YB, PLUMB).values, before)
    assert isinstance(network[1], nn.Softmax)


@pytest.mark.parametrize("attack", ["fgsm", "apgd", "square"])
def test_attacks_called_directly_take_one_number_per_sample(attack):
    model = free(nn.Sequential(one_logit(), nn.Sigmoid()))
    keys = np.arange(60, dtype=np.uint64)
    found = fm.ATTACKS[attack]()(model, XB, YB, radius=0.5, keys=keys)
    two = free(then(one_logit(), lambda z: torch.cat([torch.zeros_like(z), z], dim=1)))
    expected = fm.ATTACKS[attack]()(two, XB, YB, radius=0.5, keys=keys)
    np.testing.assert_allclose(found, expected, atol=1e-5)


NETWORKS = """
import torch
from torch import nn

class Sharp(nn.Module):
    def __init__(self, sigmoid=False):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.sigmoid = nn.Linear(6, 1 if sigmoid else 2), sigmoid

    def forward(self, x):
        z = 1000 * self.layer(x)
        return torch.sigmoid(z / 1000).squeeze(1) if self.sigmoid else z.softmax(dim=1)

def softmax():
    return Sharp()

def sigmoid():
    return Sharp(sigmoid=True)

def layer():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 1), nn.Sigmoid())
"""


@pytest.mark.parametrize("command", [["audit", "--resamples", "200"], ["attack", "--radius", "0.1"]])
@pytest.mark.parametrize(
    ("network", "words"),
    [
        ("softmax", r"of 60 samples the probabilities are exactly 0 or 1"),
        ("sigmoid", r"The network returns probabilities; searches use their log-odds\.$"),
        ("layer", r"Searches leave out the network's final Sigmoid layer"),
    ],
)
def test_commands_note_what_was_searched(tmp_path, command, network, words):
    (tmp_path / "net.py").write_text(NETWORKS)
    table = pd.DataFrame(XB, columns=list("abcdef")).assign(label=np.array(["no", "yes"])[YB])
    table.to_csv(tmp_path / "data.csv", index=False)
    options = ["--model", f"{tmp_path}/net.py:{network}", "--data", tmp_path / "data.csv", "--label", "label"]
    succeeded(fairmargin(*command, *options, "--engine", "serial", "--out", tmp_path / "run"))
    assert any(re.search(words, note) for note in record_of(tmp_path / "run")["notes"])


@pytest.mark.parametrize("last", [(), (nn.Sigmoid(),), (nn.Sigmoid(), nn.Flatten(0))])
def test_one_number_of_an_onnx_file_is_measured_as_two_scores(tmp_path, last):
    found = binary(exported(nn.Sequential(one_logit(), *last), tmp_path / "model.onnx"))
    np.testing.assert_allclose(found, two_logits(), rtol=2e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("outputs", "axis", "words"), [(1, 1, "over one number per sample"), (3, 0, "operator Softmax .*along the samples")]
)
def test_a_softmax_of_an_onnx_file_that_gives_no_probabilities_is_refused(tmp_path, outputs, axis, words):
    with pytest.raises(ModelError, match=words):
        exported(nn.Sequential(seeded_linear(outputs), nn.Softmax(dim=axis)), tmp_path / "model.onnx")


FLAT = {
    "two softmaxes": lambda z: z.softmax(dim=1).softmax(dim=1),
    "clamped": lambda z: z.softmax(dim=1).clamp(1e-7, 1 - 1e-7),
    "label smoothing": lambda z: 0.97 * z.softmax(dim=1) + 0.003,
    "a logarithm that is bounded": lambda z: (z.softmax(dim=1) + 1e-8).log(),
    "scaled sigmoids": lambda z: 0.99 * z.sigmoid(),
    "tanh": torch.tanh,
}


@pytest.mark.parametrize("function", FLAT.values(), ids=FLAT.keys())
def test_scores_without_a_gradient_are_counted(function):
    model = as_classifier(then(sharpened(50), function), classes=range(10))
    with pytest.warns(UserWarning, match=r"For \d+ of 32 probed samples the gradient of the scores is zero"):
        fm.measure(model, X, Y, fm.ESTIMATORS["first_order"]())


@pytest.mark.parametrize("times", [1e-3, 1, 50])
def test_there_is_no_warning_where_scores_have_a_gradient(times):
    assert check_samples(as_classifier(sharpened(times)), X, Y).warnings == ()


def test_sigmoids_written_out_cause_a_warning():
    module = then(sharpened(2), lambda z: 1 / (1 + (-z).exp()))
    found = check_samples(as_classifier(module, classes=range(10)), X, Y).warnings
    assert len(found) == 1
    assert re.search("are between 0 and 1|gradient of the scores is zero", found[0])


def test_sigmoids_that_are_all_1_by_rounding_are_counted():
    module = nn.Sequential(sharpened(50), nn.Sigmoid())
    with torch.no_grad():
        expected = int(((module(torch.tensor(X)) == 1).sum(dim=1) > 1).sum())
    assert expected
    found = check_samples(as_classifier(module, classes=range(10)), X, Y).warnings
    assert any(f"For {expected} of 60 samples several sigmoids are exactly 1" in words for words in found)


class Reversed(nn.Softmax):
    """A subclass, whose largest probability is that of the smallest score."""

    def forward(self, x):
        return super().forward(-x)


def test_a_subclass_of_softmax_is_not_left_out():
    module = nn.Sequential(then(mlp(), torch.neg), Reversed(dim=1))
    np.testing.assert_allclose(distances(module), distances(mlp()), rtol=0.02)


@pytest.mark.parametrize("last", [nn.LogSigmoid(), nn.Sequential(nn.LogSigmoid(), nn.Flatten(0))])
def test_one_logarithm_of_a_probability_is_refused(last):
    with pytest.raises(ModelError, match="seems to be the logarithm of a probability"):
        binary(nn.Sequential(one_logit(), last))


@pytest.mark.parametrize("last", [(), (nn.Sigmoid(),), (nn.Flatten(0), nn.Sigmoid())])
def test_one_affine_logit_is_measured_exactly(last):
    layer = seeded_linear(1)
    exact = fm.ESTIMATORS["exact_linear"]()
    row = (layer.weight.detach().numpy()[0], float(layer.bias.detach()[0]))
    expected = fm.measure(row, XB, YB, exact).values
    np.testing.assert_allclose(binary(nn.Sequential(layer, *last), exact), expected, rtol=1e-5, atol=1e-6)


def test_an_affine_network_before_a_softmax_layer_is_measured_exactly():
    layer, exact = seeded_linear(3), fm.ESTIMATORS["exact_linear"]()
    y = layer(torch.tensor(XB)).argmax(dim=1).numpy()
    plain = binary(layer, exact, y)
    np.testing.assert_array_equal(binary(nn.Sequential(layer, nn.Softmax(dim=1)), exact, y), plain)
