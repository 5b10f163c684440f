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
from fairmargin.distances.measure import measure
from fairmargin.distances.searches.ddn import DDN, rivals_ahead
from fairmargin.errors import InputError
from fairmargin.models.as_classifier import as_classifier
from tests.distances.confirmation import Formula, measured_and_confirmed
from tests.distances.peer_distances import assert_as_good, of_foolbox, of_inputs
from tests.oracles import random_problem
from tests.peers import peer
from tests.perturbation.networks import cnn, mlp, test_digits

NETWORKS = pytest.mark.parametrize("network", [cnn, lambda: cnn(norm=True), mlp], ids=["cnn", "bn", "mlp"])


def exact(model, x):
    return measure(model, x, model.predict(x), ExactLinear()).values


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), d=st.integers(2, 9))
def test_is_within_a_thousandth_of_exact_for_two_linear_classes_without_limits(seed, d):
    rng = np.random.default_rng(seed)
    scale = rng.choice([0.3, 1.0, 4.0], size=d)
    model, x = random_problem(rng, n=6, d=d, classes=2, domain=Domain(scale=scale))
    truth, values = exact(model, x), measure(model, x, model.predict(x), DDN(steps=60)).values
    assert (values >= truth * (1 - 1e-9)).all()
    near = truth < 5  # a radius that begins at 1 and grows by 5 % a step comes to 18 in 60
    assert (values[near] <= truth[near] * 1.001).all()


def test_in_a_box_it_reaches_what_can_be_reached_within_a_few_per_cent():
    model, x = random_problem(np.random.default_rng(8), n=150, d=12, classes=4, domain=Domain(0, 1))
    truth, values = exact(model, x), measure(model, x, model.predict(x), DDN()).values
    reached = np.isfinite(truth)
    assert np.isfinite(values[reached]).mean() > 0.98
    both = reached & np.isfinite(values)
    assert np.median(values[both] / truth[both]) < 1.04
    assert values[both].mean() < 1.05 * truth[both].mean()


@NETWORKS
def test_is_on_average_no_farther_than_foolbox_and_adv_lib_with_as_many_steps(network):
    module, (x, y) = network(), test_digits(64)
    for steps in (20, 50):
        ours = measure(module, x, y, DDN(steps=steps)).values
        assert_as_good(ours, of_foolbox(module, x, y, foolbox.attacks.DDNAttack(steps=steps), Norm.L2), 1.005)
        theirs = peer("adv_lib.attacks").ddn(module, torch.tensor(x), torch.tensor(y), steps=steps, levels=None)
        assert_as_good(ours, of_inputs(module, x, y, theirs, Norm.L2), 1.005)


def test_a_model_however_confident_is_searched_alike():
    # The cross-entropy of scores a thousand times as large is 0 to the last bit, with no slope.
    x, y = test_digits(40)
    plain = measure(mlp(), x, y, DDN(steps=30)).values
    certain = measure(as_classifier(Formula(lambda x: 1000 * mlp()(x)), classes=range(10)), x, y, DDN(steps=30)).values
    scores = 1000 * mlp()(torch.tensor(x))
    assert (nn.functional.cross_entropy(scores, torch.tensor(y), reduction="none") == 0).float().mean() > 0.8
    assert certain.mean() == pytest.approx(plain.mean(), rel=0.05)


def test_its_loss_has_the_direction_of_the_cross_entropy():
    scores = torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_(True)
    y = torch.arange(5)
    (ours,) = torch.autograd.grad(-rivals_ahead(scores, y).sum(), scores)
    (theirs,) = torch.autograd.grad(nn.functional.cross_entropy(scores, y, reduction="sum"), scores)
    torch.testing.assert_close(nn.functional.normalize(ours), nn.functional.normalize(theirs))


def plateau(x):
    """No slope within .2 of the middle; another class from .3 on."""
    beyond = torch.relu((x - 0.5).square().sum(1).sqrt() - 0.2)
    return torch.stack([0.1 - beyond, torch.zeros_like(beyond)], 1)


def test_from_where_there_is_no_gradient_it_goes_a_way_of_its_own_key():
    x = np.stack([np.full(6, 0.5), np.linspace(0.45, 0.55, 6)]).astype(np.float32)
    found, model = measured_and_confirmed(Formula(plateau), x, DDN(steps=40), classes=2)
    assert found.values == pytest.approx([0.3, 0.3 - np.linalg.norm(x[1] - 0.5)], rel=0.02)
    again = [measure(model, x, [0, 0], DDN(steps=3), seed=seed).values for seed in (0, 0, 1)]
    assert (again[0] == again[1]).all()
    assert (again[0] != again[2]).any()
    assert measure(model, x[1:], [0], DDN(steps=3)).values == again[0][1]


def test_it_comes_back_from_where_the_scores_overflow():
    def scores(x):
        return (
            torch.stack([3 - x.sum(1), torch.zeros(len(x))], 1)
            + torch.where(x.abs().amax(1) > 50, torch.nan, 0)[:, None]
        )

    found, _ = measured_and_confirmed(Formula(scores), np.zeros((2, 2), np.float32), DDN(radius=1e5), 2, Domain())
    assert found.values == pytest.approx([3 / np.sqrt(2)] * 2, rel=0.01)


def test_too_few_steps_still_find_something_where_noise_would():
    x, y = test_digits(30)
    found = measure(cnn(), x, y, DDN(steps=1))
    assert np.isfinite(found.values).all()
    assert found.values.mean() > 2 * measure(cnn(), x, y, DDN(steps=20)).values.mean()


def test_where_nothing_can_be_found_it_says_how_far_it_looked():
    model = as_classifier(Formula(lambda x: torch.stack([1 + x[:, 0], 0 * x[:, 0]], 1)), classes=range(2))
    found = measure(model, np.full((1, 4), 0.5, np.float32), [0], DDN(steps=30))
    assert found.values.tolist() == [np.inf]
    assert 0.5 <= found.tried[0] <= 1.0


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("steps", 0, "must be at least 1; given 0"),
        ("radius", 0.0, "must be a positive number; given 0.0"),
        ("radius", float("nan"), "must be a positive number; given nan"),
        ("step_size", -1.0, "must be a positive number"),
        ("radius_change", 1.0, "must lie between 0 and 1; given 1.0"),
    ],
)
def test_refuses_settings_that_lead_nowhere(field, value, message):
    with pytest.raises(InputError, match=f"`{field}` of DDN {message}"):
        DDN(**{field: value})
