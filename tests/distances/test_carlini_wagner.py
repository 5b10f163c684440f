import foolbox
import numpy as np
import pytest
import torch
from torch import nn

from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances.measure import check_samples, measure, measure_shard
from fairmargin.distances.searches.carlini_wagner import CarliniWagner
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.distances.confirmation import (
    Formula,
    Recording,
    assert_independent_of_the_batch,
    exact,
    measured_and_confirmed,
)
from tests.peers import assert_as_good, of_foolbox, of_inputs, peer
from tests.perturbation.networks import cnn, mlp, test_digits

NETWORKS = pytest.mark.parametrize("network", [cnn, mlp], ids=["cnn", "mlp"])


@NETWORKS
def test_with_the_published_settings_it_finds_what_foolbox_and_adv_lib_find(network):
    module, (x, y) = network(), test_digits(64)
    published = measure(module, x, y, CarliniWagner(published=True)).values
    attack = foolbox.attacks.L2CarliniWagnerAttack(5, 100, 5e-3, 0, 1e-2)
    theirs = peer("adv_lib.attacks").carlini_wagner_l2(
        module, torch.tensor(x), torch.tensor(y), 0, 0, 5e-3, 1e-2, 5, max_iterations=100
    )
    right = as_classifier(module).predict(x) == y
    for other in (of_foolbox(module, x, y, attack, Norm.L2), of_inputs(module, x, y, theirs, Norm.L2)):
        np.testing.assert_array_equal(np.isfinite(published[right]), np.isfinite(other[right]))
        both = right & np.isfinite(published)
        assert both.mean() > 0.3
        assert published[both].mean() == pytest.approx(other[both].mean(), rel=0.02)


@NETWORKS
def test_is_nearer_than_adv_lib_with_as_many_steps_and_always_succeeds(network):
    module, (x, y) = network(), test_digits(64)
    ours = measure(module, x, y, CarliniWagner(steps=50)).values
    assert np.isfinite(ours).all()
    theirs = peer("adv_lib.attacks").carlini_wagner_l2(
        module, torch.tensor(x), torch.tensor(y), learning_rate=0.01, binary_search_steps=5, max_iterations=50
    )
    assert_as_good(ours, of_inputs(module, x, y, theirs, Norm.L2), 0.9)


def test_with_the_published_settings_it_uses_no_references_and_says_how_far_it_searched():
    module, (x, y) = cnn(), test_digits(32)
    found, _ = measured_and_confirmed(module, x, CarliniWagner(steps=30, published=True), 10)
    lost = np.isinf(found.values)
    assert 0 < lost.sum() < 32
    # 30 steps of .005 of w, each at most half as long in x, for 64 pixels.
    assert (found.tried[lost] > 0).all()
    assert (found.tried[lost] <= 30 * 0.005 / 2 * 8 * 1.01).all()
    assert np.isfinite(measure(module, x, y, CarliniWagner(steps=30)).values).all()


def test_with_the_published_settings_it_moves_features_without_two_limits_and_no_immutable_ones():
    layer = nn.Linear(5, 3).double()
    rng = np.random.default_rng(0)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(rng.normal(size=(3, 5)))), layer.bias.zero_()
    domain = Domain([0, -np.inf, 0.5, -np.inf, 0], [1, np.inf, 0.5, np.inf, np.inf], [1, 2, 1, 0, 0.5])
    x = rng.uniform(size=(8, 5))
    found, _ = measured_and_confirmed(layer, x, CarliniWagner(published=True, learning_rate=0.02), 3, domain)
    assert np.isfinite(found.values).sum() >= 5
    linear = LinearClassifier(layer.weight.detach().numpy(), layer.bias.detach().numpy(), domain=domain)
    assert (found.values >= exact(linear, x) - 1e-9).all()


def test_descents_without_progress_end_early():
    def scores(x):  # constant below 0.5
        return torch.stack([torch.relu(x[:, 0] - 0.5), 0 * x[:, 0] + 0.01], 1)

    def evaluations(x):
        recording = Recording(Formula(scores))
        model = as_classifier(recording, classes=range(2), domain=Domain(0, 1), tile=4)
        checked = check_samples(model, np.array(x, np.float32), [int(row[0] < 0.5) for row in x])
        recording.inputs.clear()
        measure_shard(checked.model, CarliniWagner(published=True), np.array(x, np.float32), checked.positions)
        return sum(map(len, recording.inputs)) / 4

    assert evaluations([[0.2, 0.2]]) < 5 * 10 + 10  # a tenth of each descent
    assert evaluations([[0.7, 0.2]]) > 5 * 50


def test_more_weights_lead_nearer():
    x, y = test_digits(48)
    means = [measure(mlp(), x, y, CarliniWagner(steps=40, searches=searches)).values.mean() for searches in (1, 2, 6)]
    assert means[0] > means[1] > means[2]


def test_with_the_published_settings_too_a_sample_is_measured_to_the_same_bit():
    estimator = CarliniWagner(steps=40, searches=3, published=True)
    assert_independent_of_the_batch(lambda x, y: measure(mlp(), x, y, estimator).values, *test_digits(12))
