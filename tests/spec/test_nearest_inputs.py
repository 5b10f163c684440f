"""Properties of `fm.nearest` for every estimator that finds inputs."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances.catalog import CERTIFICATES, ESTIMATORS, PROXIES
from fairmargin.distances.combine import Tightest
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.foreign import FromAttack
from fairmargin.distances.measure import measure
from fairmargin.distances.nearest import nearest
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.distances.confirmation import assert_independent_of_the_batch, of_formula
from tests.oracles import random_problem, random_trees
from tests.perturbation.networks import cnn, mlp
from tests.spec.test_every_estimator import EVERY, SMOOTHED, of_trees, small, some_digits

FINDERS = [(name, norm) for name, norm in EVERY if name not in PROXIES | CERTIFICATES]
every_finder = pytest.mark.parametrize(("name", "norm"), FINDERS)
every_search = pytest.mark.parametrize(("name", "norm"), [case for case in FINDERS if not case[0].startswith("exact_")])
LIMITS = Domain([0, 0, 0, -np.inf, 0, -1], [1, 1, 0, np.inf, 1, np.inf], [1, 0.5, 1, 2, 0, 1])  # two cannot move


def maker(name):
    """Return a function that makes a random model that the estimator can read."""
    return random_trees if of_trees(name) else random_problem


def check(model, x, y, estimator, keep=None, rtol=1e-9):
    """Check every promise of one call with the user's own model, and return the inputs."""
    classifier = as_classifier(model)
    found, measured = (call(model, x, y, estimator, keep=keep) for call in (nearest, measure))
    assert found.shape == x.shape
    assert found.dtype == (np.float32 if x.dtype == np.float32 and found.dtype == np.float32 else np.float64)
    before, after = (part.reshape(len(x), -1).astype(float) for part in (x, found))
    there = np.isfinite(measured.values)
    np.testing.assert_array_equal(np.isnan(after), np.broadcast_to(~there[:, None], after.shape))
    np.testing.assert_array_equal(after[~measured.correct], before[~measured.correct])
    movable = classifier.domain.movable(before.shape[1])
    np.testing.assert_array_equal(after[there][:, ~movable], before[there][:, ~movable])
    assert classifier.domain.contains(found[there]).all()
    scale = classifier.domain.flat(before.shape[1])[2][movable]
    far = estimator.norm.length((after - before)[there][:, movable] / scale)
    np.testing.assert_allclose(far, measured.values[there], rtol=rtol, atol=1e-12)
    if measured.subject == "model":
        predicted = [classifier.classes[place] for place in classifier.predict(found[there])]
        own = [{label} if keep is None else set(keep) for label in np.asarray(y)[there].tolist()]
        assert all(label not in kept for label, kept in zip(predicted, own, strict=True))
    return found


@pytest.mark.parametrize("domain", [Domain(), Domain(0, 1), LIMITS], ids=["free", "box", "mixed"])
@every_finder
def test_inputs_of_a_linear_model_or_trees_have_the_measured_distances(name, norm, domain):
    model, x = maker(name)(np.random.default_rng(4), n=16, d=6, classes=4, domain=domain)
    y = model.predict(x)
    y[::5] = (y[::5] + 1) % 4
    for keep in (None, [2], [0, 3]):
        check(model, x, y, small(name, norm), keep)


@pytest.mark.parametrize("network", [cnn, mlp], ids=["cnn", "mlp"])
@every_search
def test_inputs_of_a_network_have_the_measured_distances(name, norm, network):
    module = network()
    x, y = some_digits(module, 12)
    found = check(module, x, y, small(name, norm))
    assert found.dtype == np.float32
    wide = check(module, x.astype(np.float64), y, small(name, norm), keep=[1, 3, 5, 7])
    assert wide.dtype == np.float64


@every_finder
def test_an_input_is_the_same_alone_or_in_any_batch_and_order(name, norm):
    model, x = maker(name)(np.random.default_rng(4), n=10, d=6, classes=4, domain=LIMITS)
    for keep in (None, [0, 3]):
        run = partial(nearest, model, estimator=small(name, norm), keep=keep)
        assert_independent_of_the_batch(lambda x, y, run=run: run(x=x, y=y), x, model.predict(x))


@every_search
def test_a_sample_without_a_finite_distance_has_no_input(name, norm):
    constant = LinearClassifier(np.zeros((3, 4)), [0.0, 1.0, 0.5], domain=Domain(0, 1))
    x = np.full((3, 4), 0.5)
    found = nearest(constant, x, [1, 1, 0], small(name, norm))
    assert np.isnan(found[:2]).all()
    np.testing.assert_array_equal(found[2], x[2])


def test_certificates_and_proxies_of_the_catalog_name_their_bound_as_their_distances_do():
    model, x = random_problem(np.random.default_rng(4), n=2, d=3)
    for name in PROXIES | CERTIFICATES:
        assert measure(model, x, [0, 0], ESTIMATORS[name]()).bound is ESTIMATORS[name].bound
    assert {name for name, kind in ESTIMATORS.items() if hasattr(kind, "bound")} == PROXIES | CERTIFICATES


def test_the_input_of_several_estimators_is_the_nearest_one():
    module = cnn()
    x, y = some_digits(module, 12)
    check(module, x, y, Tightest(small("ddn", Norm.L2), small("fmn", Norm.L2)))
    far, near = FromAttack(lambda x, y: 1 - x, search_back=False), FromAttack(lambda x, y: 1 - x)
    both = nearest(module, x, y, Tightest(far, near))
    np.testing.assert_array_equal(both, nearest(module, x, y, near))
    check(module, x, y, far)


@pytest.mark.parametrize("norm", Norm)
def test_an_exact_distance_of_an_affine_network_is_confirmed_by_the_network_itself(norm):
    """Compare weights read in double precision with a network that computes in single precision."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Linear(16, 10))
    x, y = some_digits(module, 20)
    check(module, x, y, ExactLinear(norm), rtol=1e-3)
    check(module, x, y, ExactLinear(norm), keep=[0, 2, 4], rtol=1e-3)


def test_a_tie_is_broken_by_a_last_bit():
    model = LinearClassifier([[0.0, 0.0], [3.0, 4.0]], [0.0, 0.0])
    x = np.array([[0.0, 0.0], [4.0, -3.0], [400.0, -300.0]])
    found = check(model, x, [0, 0, 0], ExactLinear())
    assert (found != x).any(axis=1).all()


def test_columns_of_a_frame_come_back_in_the_order_of_the_frame():
    frame = pd.DataFrame({"age": [20.0, 40.0, 60.0, 30.0], "income": [1.0, 5.0, 2.0, 8.0]})
    model = LogisticRegression().fit(frame, ["no", "yes", "no", "yes"])
    labels = model.predict(frame)
    swapped = frame[["income", "age"]]
    straight = nearest(model, frame, labels, ExactLinear())
    np.testing.assert_array_equal(nearest(model, swapped, labels, ExactLinear()), straight[:, ::-1])
    assert (model.predict(pd.DataFrame(straight, columns=frame.columns)) != labels).all()


def test_whole_numbers_become_inputs_of_double_precision():
    found = nearest(([3.0, 4.0], -5.0), np.array([[0, 0], [3, 4]]), [0, 0], ExactLinear())
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, [[0.6, 0.8], [3, 4]])


def test_references_give_inputs_if_a_search_alone_finds_none():
    def cliff(x):
        return torch.cat([torch.zeros_like(x), torch.where(x > 2, 1.0, -1.0)], dim=1) + 0 * x

    model, x = of_formula(cliff, domain=Domain(0, 9)), np.ones((2, 1), np.float32)
    found = nearest(model, x, [0, 0], small("ddn", Norm.L2), references=np.array([[5.0]], np.float32))
    assert ((found > 2) & (found < 2.01)).all()


def test_the_smoothed_model_changes_its_class_at_the_inputs_of_its_attack():
    """Use a linear model of two classes, whose smoothed model has the same boundary."""
    model = LinearClassifier([[0.0, 0.0], [3.0, 4.0]], [0.0, -5.0])
    for name in SMOOTHED - CERTIFICATES:
        found = check(model, np.zeros((1, 2)), [0], ESTIMATORS[name](sigma=0.5))
        assert model.predict(found).tolist() == [1]
