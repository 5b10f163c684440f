import foolbox
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import check_samples, measure, measure_shard
from fairmargin.distances.searches.carlini_wagner import CarliniWagner
from fairmargin.errors import InputError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.distances.confirmation import Formula, Noting, measured_and_confirmed
from tests.distances.peer_distances import assert_as_good, of_foolbox, of_inputs
from tests.oracles import random_problem
from tests.peers import peer
from tests.perturbation.networks import cnn, mlp, test_digits

NETWORKS = pytest.mark.parametrize("network", [cnn, mlp], ids=["cnn", "mlp"])


def exact(model, x):
    return measure(model, x, model.predict(x), ExactLinear()).values


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), d=st.integers(2, 9))
def test_is_within_5_per_cent_of_exact_for_two_linear_classes_without_limits(seed, d):
    model, x = random_problem(np.random.default_rng(seed), n=6, d=d, classes=2)
    truth, values = exact(model, x), measure(model, x, model.predict(x), CarliniWagner()).values
    near = truth < 0.5  # a hundred steps of .01 in each feature go about that far and settle
    assert (values >= truth * (1 - 1e-9)).all()
    assert (values[near] <= truth[near] * 1.05 + 1e-3).all()


def test_in_a_box_it_reaches_what_can_be_reached_within_a_tenth():
    model, x = random_problem(np.random.default_rng(8), n=64, d=12, classes=4, domain=Domain(0, 1))
    truth, values = exact(model, x), measure(model, x, model.predict(x), CarliniWagner()).values
    reached = np.isfinite(truth)
    assert np.isfinite(values[reached]).mean() > 0.98
    both = reached & np.isfinite(values)
    assert np.median(values[both] / truth[both]) < 1.01
    assert values[both].mean() < 1.1 * truth[both].mean()


@NETWORKS
def test_published_it_comes_to_what_foolbox_and_adv_lib_come_to_with_those_settings(network):
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
def test_is_nearer_than_the_peers_with_as_many_steps_and_always_succeeds(network):
    module, (x, y) = network(), test_digits(64)
    ours = measure(module, x, y, CarliniWagner(steps=50)).values
    assert np.isfinite(ours).all()
    theirs = peer("adv_lib.attacks").carlini_wagner_l2(
        module, torch.tensor(x), torch.tensor(y), learning_rate=0.01, binary_search_steps=5, max_iterations=50
    )
    assert_as_good(ours, of_inputs(module, x, y, theirs, Norm.L2), 0.9)


def test_published_it_neither_searches_back_nor_falls_back_and_says_how_far_it_went():
    module, (x, y) = cnn(), test_digits(32)
    estimator = CarliniWagner(steps=30, published=True)
    found, _ = measured_and_confirmed(module, x, estimator, 10)
    lost = np.isinf(found.values)
    assert 0 < lost.sum() < 32
    # 30 steps of .005 of w, each at most half as long in x, for 64 pixels.
    assert (found.tried[lost] > 0).all()
    assert (found.tried[lost] <= 30 * 0.005 / 2 * 8 * 1.01).all()
    assert np.isfinite(measure(module, x, y, CarliniWagner(steps=30)).values).all()


def test_published_it_moves_features_without_two_limits_plainly_and_immutable_ones_never():
    layer = nn.Linear(5, 3).double()
    rng = np.random.default_rng(0)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(rng.normal(size=(3, 5)))), layer.bias.zero_()
    domain = Domain([0, -np.inf, 0.5, -np.inf, 0], [1, np.inf, 0.5, np.inf, np.inf], [1, 2, 1, 0, 0.5])
    x = rng.uniform(size=(8, 5))
    estimator = CarliniWagner(published=True, learning_rate=0.02)
    found, _ = measured_and_confirmed(layer, x, estimator, 3, domain)
    assert np.isfinite(found.values).sum() >= 5
    linear = LinearClassifier(layer.weight.detach().numpy(), layer.bias.detach().numpy(), domain=domain)
    assert (found.values >= exact(linear, x) - 1e-9).all()


def test_descents_that_get_nowhere_leave():
    # Nothing changes for the first sample, which is asked about for a tenth of each descent only.
    def scores(x):
        return torch.stack([torch.relu(x[:, 0] - 0.5), 0 * x[:, 0] + 0.01], 1)

    def rows_asked_about(x):
        noting = Noting(Formula(scores))
        model = as_classifier(noting, classes=range(2), domain=Domain(0, 1), tile=4)
        checked = check_samples(model, np.array(x, np.float32), [int(row[0] < 0.5) for row in x])
        noting.asked.clear()
        measure_shard(checked.model, CarliniWagner(published=True), np.array(x, np.float32), checked.positions)
        return sum(map(len, noting.asked)) / 4

    assert rows_asked_about([[0.2, 0.2]]) < 5 * 10 + 10
    assert rows_asked_about([[0.7, 0.2]]) > 5 * 50


def test_more_prices_come_nearer():
    x, y = test_digits(48)
    means = [measure(mlp(), x, y, CarliniWagner(steps=40, searches=searches)).values.mean() for searches in (1, 2, 6)]
    assert means[0] > means[1] > means[2]


def test_a_sample_is_measured_to_the_same_bit_published_too():
    x, y = test_digits(12)
    estimator = CarliniWagner(steps=40, searches=3, published=True)
    together = measure(mlp(), x, y, estimator).values
    for i in (0, 5, 11):
        assert measure(mlp(), x[i : i + 1], y[i : i + 1], estimator).values[0] == together[i]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("steps", 0, "must be at least 1; given 0"),
        ("searches", -1, "must be at least 1; given -1"),
        ("learning_rate", 0.0, "must be a positive number; given 0.0"),
        ("learning_rate", float("inf"), "must be a positive number; given inf"),
    ],
)
def test_refuses_settings_that_lead_nowhere(field, value, message):
    with pytest.raises(InputError, match=f"`{field}` of CarliniWagner {message}"):
        CarliniWagner(**{field: value})
