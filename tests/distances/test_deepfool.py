import foolbox
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances.measure import measure
from fairmargin.distances.nearest import nearest
from fairmargin.distances.searches.deepfool import DeepFool
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.distances.confirmation import exact, of_formula
from tests.oracles import random_problem
from tests.perturbation.networks import cnn, mlp, test_digits

NORMS = pytest.mark.parametrize("norm", [Norm.L2, Norm.LINF], ids=str)
PEERS = {Norm.L2: foolbox.attacks.L2DeepFoolAttack, Norm.LINF: foolbox.attacks.LinfDeepFoolAttack}


@NORMS
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), classes=st.integers(2, 8), d=st.integers(1, 9))
def test_in_a_box_it_is_an_upper_bound_even_from_its_corners(norm, seed, classes, d):
    rng = np.random.default_rng(seed)
    domain = Domain(0, 1, rng.choice([0.1, 1.0, 3.0], size=d))
    model, x = random_problem(rng, n=8, d=d, classes=classes, domain=domain)
    x[::3] = x[::3].round()
    values = measure(model, x, model.predict(x), DeepFool(norm, rivals=None)).values
    assert (values >= exact(model, x, norm) * (1 - 1e-9)).all()


@NORMS
def test_with_the_published_settings_it_is_5_per_cent_too_far_on_a_linear_model(norm):
    model, x = random_problem(np.random.default_rng(3), n=50, d=7, classes=10)
    values = measure(model, x, model.predict(x), DeepFool(norm, rivals=None, published=True)).values
    np.testing.assert_allclose(values, 1.05 * exact(model, x, norm), rtol=1e-9)


@pytest.mark.parametrize("network", [cnn, lambda: cnn(norm=True), mlp], ids=["cnn", "batch normalisation", "mlp"])
@NORMS
def test_is_on_average_no_farther_than_foolbox_and_succeeds_as_often(norm, network):
    module, (x, y) = network(), test_digits(100)
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
    # With the published settings it takes the same way as foolbox, in longer steps.
    published = measure(module, x, y, DeepFool(norm, steps=50, published=True)).values
    assert published[both].mean() == pytest.approx(theirs[both].mean(), rel=0.02)


@NORMS
def test_searching_back_and_linearising_again_shorten_what_published_runs_found(norm):
    x, y = test_digits(100)
    ours, published = (measure(mlp(), x, y, DeepFool(norm, published=flag)).values for flag in (False, True))
    assert (ours <= published).mean() > 0.8  # published runs consider nine rivals at every step
    assert ours.mean() < 0.98 * published.mean()


@NORMS
def test_slightly_nearer_than_the_input_found_the_prediction_is_the_label(norm):
    model, (x, y) = as_classifier(cnn()), test_digits(100)
    points = nearest(model, x, y, DeepFool(norm))
    right = model.predict(x) == y
    assert (model.predict(points[right]) != y[right]).all()
    assert (model.predict((x + (points - x) * np.float32(1 - 0.002))[right]) == y[right]).mean() > 0.98


def saturated(x):
    """Class 1 where the first feature is below 0.19; no gradient where it is above 0.2."""
    return torch.stack([x[:, 0] * 0 + 0.01, torch.relu(0.2 - x[:, 0])], 1)


@NORMS
def test_where_the_gradient_vanishes_noise_or_references_lead_to_the_boundary_except_in_published_runs(norm):
    x = np.array([[0.9, 0.1], [0.1, 0.1]], np.float32)
    published = measure(of_formula(saturated), x, [0, 1], DeepFool(norm, published=True))
    assert published.values[0] == np.inf
    assert published.tried.tolist() == [0.0, 0.0]
    assert published.values[1] == pytest.approx(0.09 * 1.05, rel=2e-3)
    assert measure(of_formula(saturated), x, [0, 1], DeepFool(norm)).values[0] == pytest.approx(0.71, rel=5e-3)
    unbounded = of_formula(saturated, bounds=(-np.inf, np.inf))
    assert measure(unbounded, x + 5, [0, 0], DeepFool(norm)).values[0] < 9  # by way of the origin
    assert np.isfinite(measure(unbounded, x - 5, [1, 1], DeepFool(norm), references=x[:1] + 40).values).all()
    assert np.isinf(measure(unbounded, x + 5, [0, 0], DeepFool(norm), references=x[:1] + 40).values).all()


def test_rivals_that_look_near_but_cannot_be_reached_do_not_hide_one_that_can():
    # Four rivals are nearer by the gradient but cannot be reached in the domain; only the last can be.
    weight = np.array([[0.0, 0.0]] + [[1.0, 0.0]] * 4 + [[0.0, 1.0]])
    model = LinearClassifier(weight, [0.0, -0.55, -0.55, -0.55, -0.55, -0.95], domain=Domain(0, [0.5, 1.0]))
    measured = measure(model, np.array([[0.0, 0.1]]), [0], DeepFool())
    assert measured.values[0] == pytest.approx(0.85, rel=1e-3)


@NORMS
@pytest.mark.parametrize(("bias", "scale"), [(0.0, 1.0), (100.0, 1.0), (0.0, 1e-5)])
def test_a_sample_with_two_equal_scores_is_at_distance_0_up_to_rounding(norm, bias, scale):
    domain = Domain(0, 1, scale)
    model = of_formula(lambda x: torch.stack([x.sum(1) * 0 + bias, x.sum(1) - 1 + bias], 1), domain=domain)
    measured = measure(model, np.array([[0.5, 0.5]], np.float32), [0], DeepFool(norm))
    assert measured.correct.tolist() == [True]
    assert measured.values[0] * scale < 1e-4


@NORMS
def test_a_step_that_overflows_does_not_end_the_measurement(norm):
    # The gradient is almost 0: the first step leads so far away that float32 overflows.
    model = of_formula(lambda x: torch.stack([1 + x[:, 0] ** 3, -1e-37 * x[:, 1]], 1), bounds=(-np.inf, np.inf))
    measured = measure(model, np.array([[0.0, 0.0], [-0.9, 0.3]], np.float32), [0, 0], DeepFool(norm))
    assert measured.values[0] == np.inf or measured.values[0] > 0.9
    assert measured.values[1] == pytest.approx(0.1, rel=2e-3)


def test_gradients_that_are_nan_lead_nowhere_and_a_reference_does():
    model = of_formula(lambda x: torch.stack([0.8 - torch.sqrt((x - 0.5) ** 2).sum(1), x[:, 0] * 0], 1))
    x = np.array([[0.5, 0.5], [0.8, 0.9]], np.float32)
    assert measure(model, x, [0, 0], DeepFool(published=True)).values[0] == np.inf
    measured = measure(model, x, [0, 0], DeepFool(), references=[[0.0, 0.0], [1.0, 0.9]])
    assert np.isfinite(measured.values).all()
    assert measured.values[0] < 0.65


@NORMS
@pytest.mark.parametrize("rivals", [1, 2, 500])
def test_any_number_of_rivals_finds_all_samples(norm, rivals):
    x, y = test_digits(30)
    few, every = (measure(cnn(), x, y, DeepFool(norm, rivals=count)).values for count in (rivals, None))
    assert np.isfinite(few).all()
    assert few.mean() >= every.mean() * 0.99


def test_modules_in_double_precision_are_measured_in_it():
    module = torch.nn.Linear(3, 4).double()
    model = as_classifier(module, bounds=(-99, 99))
    x = np.random.default_rng(1).uniform(size=(5, 3))
    truth = exact(LinearClassifier(module.weight.detach().numpy(), module.bias.detach().numpy()), x)
    values = measure(model, x, model.predict(x), DeepFool()).values
    assert (values >= truth * (1 - 1e-12)).all()
    assert (values <= truth * 1.001).all()
