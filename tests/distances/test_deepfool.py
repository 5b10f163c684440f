import foolbox
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.gradient_search import started
from fairmargin.distances.measure import measure
from fairmargin.distances.searches.deepfool import DeepFool, found
from fairmargin.errors import InputError, ModelError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.oracles import random_problem
from tests.perturbation.networks import cnn, mlp, test_digits

NORMS = pytest.mark.parametrize("norm", [Norm.L2, Norm.LINF], ids=str)
PEERS = {Norm.L2: foolbox.attacks.L2DeepFoolAttack, Norm.LINF: foolbox.attacks.LinfDeepFoolAttack}


def exact(model, x, norm):
    return measure(model, x, model.predict(x), ExactLinear(norm)).values


def points_of(estimator, model, x, y):
    """The inputs behind the distances, which `Distances` does not keep."""
    with model.network(x.shape[1:]) as network:
        walk = found(estimator, network, started(network, x, y))
        return walk.closest.point.numpy().reshape(x.shape), walk.closest.distance.numpy()


class Formula(nn.Module):
    """Scores that are a function of the rows."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def of(function, classes=2, **settings):
    return as_classifier(Formula(function), classes=range(classes), **settings)


@NORMS
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), classes=st.integers(2, 12), d=st.integers(1, 9))
def test_is_within_a_thousandth_of_exact_on_a_linear_model_without_limits(norm, seed, classes, d):
    rng = np.random.default_rng(seed)
    scale = rng.choice([0.0, 0.01, 1.0, 50.0], size=d)  # 0: the feature cannot move
    low, high = np.full(d, -np.inf), np.full(d, np.inf)
    fixed = rng.uniform(size=d) < 0.2
    low[fixed] = high[fixed] = 0.5  # nor can one whose limits are one
    model, x = random_problem(rng, n=6, d=d, classes=classes, domain=Domain(low, high, scale))
    truth = exact(model, x, norm)
    values = measure(model, x, model.predict(x), DeepFool(norm, rivals=None)).values
    np.testing.assert_array_equal(np.isinf(values), np.isinf(truth))
    reached = np.isfinite(truth)
    assert (values[reached] >= truth[reached] * (1 - 1e-9)).all()
    assert (values[reached] <= truth[reached] * 1.001).all()


@NORMS
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), classes=st.integers(2, 8), d=st.integers(1, 9))
def test_in_a_box_it_is_an_upper_bound_reached_by_an_input_inside(norm, seed, classes, d):
    rng = np.random.default_rng(seed)
    scale = rng.choice([0.1, 1.0, 3.0], size=d)
    model, x = random_problem(rng, n=8, d=d, classes=classes, domain=Domain(0, 1, scale))
    x[::3] = x[::3].round()  # corners of the box
    y, estimator = model.predict(x), DeepFool(norm, rivals=None)
    values, truth = measure(model, x, y, estimator).values, exact(model, x, norm)
    assert (values >= truth * (1 - 1e-9)).all()
    points, distance = points_of(estimator, model, x, y)
    np.testing.assert_array_equal(distance, values)
    reached = np.isfinite(values)
    assert model.domain.contains(points, slack=1e-12).all()
    assert (model.predict(points[reached]) != y[reached]).all()
    np.testing.assert_allclose(norm.length((points - x) / scale)[reached], values[reached], rtol=1e-9, atol=1e-12)


@NORMS
def test_in_a_box_it_seldom_misses_and_is_close_to_exact(norm):
    model, x = random_problem(np.random.default_rng(8), n=300, d=12, classes=6, domain=Domain(0, 1))
    values, truth = measure(model, x, model.predict(x), DeepFool(norm)).values, exact(model, x, norm)
    both = np.isfinite(values) & np.isfinite(truth)
    assert both.sum() >= 0.99 * np.isfinite(truth).sum()
    assert np.median(values[both] / truth[both]) < 1.001
    assert values[both].mean() < 1.02 * truth[both].mean()


@NORMS
def test_published_it_overshoots_by_5_per_cent_on_a_linear_model_without_limits(norm):
    model, x = random_problem(np.random.default_rng(3), n=50, d=7, classes=10)
    values = measure(model, x, model.predict(x), DeepFool(norm, rivals=None, published=True)).values
    np.testing.assert_allclose(values, 1.05 * exact(model, x, norm), rtol=1e-9)


@pytest.mark.parametrize("network", [cnn, lambda: cnn(norm=True), mlp], ids=["cnn", "batch normalisation", "mlp"])
@NORMS
def test_is_on_average_no_farther_than_foolbox_and_succeeds_as_often(norm, network):
    module, (x, y) = network(), test_digits(200)
    peer = foolbox.PyTorchModel(module, bounds=(0, 1), device="cpu")
    attack = PEERS[norm](steps=50, candidates=10, overshoot=0.02)
    _, adversarial, success = attack(peer, torch.tensor(x), torch.tensor(y), epsilons=None)
    theirs = norm.length((adversarial.numpy() - x).reshape(len(x), -1).astype(float))
    ours = measure(module, x, y, DeepFool(norm, steps=50))
    right = ours.correct
    assert right.mean() > 0.9
    assert np.isfinite(ours.values[right]).sum() >= success.numpy()[right].sum()
    both = right & success.numpy() & np.isfinite(ours.values)
    assert ours.values[both].mean() <= theirs[both].mean()
    # Published, it must walk as foolbox does, only with longer steps.
    published = measure(module, x, y, DeepFool(norm, steps=50, published=True)).values
    assert published[both].mean() == pytest.approx(theirs[both].mean(), rel=0.02)


@NORMS
def test_every_distance_on_a_network_belongs_to_a_misclassified_input_inside_the_box(norm):
    model, (x, y) = as_classifier(cnn()), test_digits(100)
    estimator = DeepFool(norm)
    measured = measure(model, x, y, estimator)
    points, _ = points_of(estimator, model, x, y)
    right = measured.correct
    assert measured.bound is Bound.UPPER
    assert (points >= 0).all()
    assert (points <= 1).all()
    assert (model.predict(points[right]) != y[right]).all()
    lengths = norm.length((points.astype(float) - x).reshape(len(x), -1))
    np.testing.assert_allclose(lengths[right], measured.values[right], rtol=1e-12)
    nearer = x + (points - x) * np.float32(1 - 0.002)
    assert (model.predict(nearer[right]) == y[right]).mean() > 0.98


@NORMS
def test_searching_back_and_looking_again_shorten_what_published_runs_found(norm):
    x, y = test_digits(100)
    ours = measure(mlp(), x, y, DeepFool(norm)).values
    published = measure(mlp(), x, y, DeepFool(norm, published=True)).values
    assert (ours <= published).mean() > 0.8  # published runs ask nine rivals at every step
    assert ours.mean() < 0.98 * published.mean()


def saturated(x):
    """Class 1 where the first feature is below 0.19; where it is above 0.2 nothing says so."""
    return torch.stack([x[:, 0] * 0 + 0.01, torch.relu(0.2 - x[:, 0])], 1)


@NORMS
def test_where_the_gradient_vanishes_published_runs_find_nothing_and_say_how_far_they_looked(norm):
    x = np.array([[0.9, 0.1], [0.1, 0.1]], np.float32)
    measured = measure(of(saturated), x, [0, 1], DeepFool(norm, published=True))
    assert measured.values[0] == np.inf
    assert measured.tried.tolist() == [0.0, 0.0]
    assert measured.values[1] == pytest.approx(0.09 * 1.05, rel=2e-3)


@NORMS
def test_where_the_gradient_vanishes_noise_or_references_show_a_way_which_is_then_shortened(norm):
    x = np.array([[0.9, 0.1], [0.1, 0.1]], np.float32)
    by_noise = measure(of(saturated), x, [0, 1], DeepFool(norm))
    assert by_noise.values[0] == pytest.approx(0.71, rel=5e-3)
    unbounded = of(saturated, bounds=(-np.inf, np.inf))
    assert measure(unbounded, x + 5, [0, 0], DeepFool(norm)).values[0] < 9  # by way of the origin
    distant = measure(unbounded, x - 5, [1, 1], DeepFool(norm), references=x[:1] + 40)
    assert np.isfinite(distant.values).all()
    lost = measure(unbounded, x + 5, [0, 0], DeepFool(norm), references=x[:1] + 40)
    assert np.isinf(lost.values).all()
    assert lost.tried.tolist() == [0.0, 0.0]


def test_a_walk_that_ends_at_the_edge_says_so_in_tried():
    model = LinearClassifier([[0.0, 0.0], [1.0, 1.0]], [0.0, -2.1], domain=Domain(0, 1))
    measured = measure(model, np.array([[0.5, 0.5]]), [0], DeepFool(Norm.LINF))
    assert measured.values.tolist() == [np.inf]
    assert measured.tried.tolist() == pytest.approx([0.5])


def test_rivals_that_look_near_but_are_out_of_reach_do_not_hide_one_that_is_within():
    # Four rivals are nearer by the slope but stop short of the boundary; only the last can be reached.
    weight = np.array([[0.0, 0.0]] + [[1.0, 0.0]] * 4 + [[0.0, 1.0]])
    model = LinearClassifier(weight, [0.0, -0.55, -0.55, -0.55, -0.55, -0.95], domain=Domain(0, [0.5, 1.0]))
    measured = measure(model, np.array([[0.0, 0.1]]), [0], DeepFool())
    assert measured.values[0] == pytest.approx(0.85, rel=1e-3)


@NORMS
@pytest.mark.parametrize("bias", [0.0, 100.0])
def test_a_sample_that_ties_is_at_distance_0_but_for_rounding(norm, bias):
    model = of(lambda x: torch.stack([x.sum(1) * 0 + bias, x.sum(1) - 1 + bias], 1))
    measured = measure(model, np.array([[0.5, 0.5]], np.float32), [0], DeepFool(norm))
    assert measured.correct.tolist() == [True]
    assert measured.values[0] < 1e-4


def test_small_scales_do_not_keep_a_tie_from_being_left():
    model = of(lambda x: torch.stack([x.sum(1) * 0, x.sum(1) - 1], 1), domain=Domain(0, 1, 1e-5))
    measured = measure(model, np.array([[0.5, 0.5]], np.float32), [0], DeepFool())
    assert measured.values[0] * 1e-5 < 1e-4


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_scores_that_are_no_numbers_are_refused_with_a_sentence(score):
    model = of(lambda x: torch.stack([x[:, 0], x[:, 0] * 0 + score], 1))
    with pytest.raises(ModelError, match="scores hold NaN or infinity"):
        measure(model, np.full((3, 2), 0.5), [0, 0, 0], DeepFool())


@NORMS
def test_a_step_into_the_void_does_not_end_the_measurement(norm):
    # Almost flat: the first step leads so far away that float32 overflows.
    model = of(lambda x: torch.stack([1 + x[:, 0] ** 3, -1e-37 * x[:, 1]], 1), bounds=(-np.inf, np.inf))
    measured = measure(model, np.array([[0.0, 0.0], [-0.9, 0.3]], np.float32), [0, 0], DeepFool(norm))
    assert measured.values[0] == np.inf or measured.values[0] > 0.9
    assert measured.values[1] == pytest.approx(0.1, rel=2e-3)


def test_gradients_that_are_no_numbers_lead_nowhere_and_a_reference_does():
    model = of(lambda x: torch.stack([0.8 - torch.sqrt((x - 0.5) ** 2).sum(1), x[:, 0] * 0], 1))
    x = np.array([[0.5, 0.5], [0.8, 0.9]], np.float32)
    assert measure(model, x, [0, 0], DeepFool(published=True)).values[0] == np.inf
    measured = measure(model, x, [0, 0], DeepFool(), references=[[0.0, 0.0], [1.0, 0.9]])
    assert np.isfinite(measured.values).all()
    assert measured.values[0] < 0.65


@NORMS
@pytest.mark.parametrize("rivals", [1, 2, 9, 500, None])
def test_any_number_of_rivals_will_do(norm, rivals):
    x, y = test_digits(30)
    measured = measure(cnn(), x, y, DeepFool(norm, rivals=rivals))
    assert np.isfinite(measured.values).all()
    best = measure(cnn(), x, y, DeepFool(norm, rivals=None)).values
    assert measured.values.mean() >= best.mean() * 0.99


@NORMS
def test_two_classes_and_one_step_are_enough_for_a_linear_module(norm):
    module = nn.Linear(4, 2)
    nn.init.constant_(module.weight, 0.3)
    with torch.no_grad():
        module.weight[1] *= -1
        module.bias.copy_(torch.tensor([0.0, 0.1]))
    model = as_classifier(module, bounds=(-9, 9))
    linear = LinearClassifier(module.weight.detach().numpy(), module.bias.detach().numpy())
    x = np.random.default_rng(0).uniform(size=(5, 4)).astype(np.float32)
    measured = measure(model, x, model.predict(x), DeepFool(norm, steps=1))
    np.testing.assert_allclose(measured.values, exact(linear, x, norm), rtol=1e-3)


def test_modules_of_double_precision_are_measured_in_it():
    module = nn.Linear(3, 4).double()
    model = as_classifier(module, bounds=(-99, 99))
    x = np.random.default_rng(1).uniform(size=(5, 3))
    linear = LinearClassifier(module.weight.detach().numpy(), module.bias.detach().numpy())
    with model.network((3,)) as network:
        assert network.dtype == torch.float64
    values = measure(model, x, model.predict(x), DeepFool()).values
    truth = exact(linear, x, Norm.L2)
    assert (values >= truth * (1 - 1e-12)).all()
    assert (values <= truth * 1.001).all()


@pytest.mark.parametrize("published", [False, True])
def test_a_shard_of_misclassified_samples_only_has_distances_of_0(published):
    x, _ = test_digits(20)
    wrong = (as_classifier(cnn()).predict(x) + 1) % 10
    measured = measure(cnn(), x, wrong, DeepFool(published=published))
    assert measured.values.tolist() == [0.0] * 20
    assert not measured.correct.any()
    assert measured.tried is None


@pytest.mark.parametrize(("field", "value"), [("steps", 0), ("rivals", 0), ("steps", -3)])
def test_refuses_settings_that_lead_nowhere(field, value):
    with pytest.raises(InputError, match=f"`{field}` of DeepFool must be at least 1"):
        DeepFool(**{field: value})
