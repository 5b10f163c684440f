"""What every estimator of the catalog promises. A new estimator is covered by its line in the catalog."""

import dataclasses
import random

import numpy as np
import pytest

from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances.catalog import ESTIMATORS, build, describe
from fairmargin.distances.measure import measure
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.errors import InputError
from fairmargin.models.linear import LinearClassifier
from tests.oracles import linear_distance, random_problem

EVERY = [(name, norm) for name, kind in ESTIMATORS.items() for norm in sorted(kind.norms, key=str)]
every_estimator = pytest.mark.parametrize(("name", "norm"), EVERY)


def problem(n=40):
    """A linear model in the unit box with both correct and wrong labels; an estimator may need less than it offers."""
    model, x = random_problem(np.random.default_rng(11), n=n, d=5, classes=3, domain=Domain(0, 1))
    y = model.predict(x)
    y[::5] = (y[::5] + 1) % 3
    return model, x, y


@every_estimator
def test_is_a_frozen_value_with_a_norm(name, norm):
    estimator = ESTIMATORS[name](norm=norm)
    assert isinstance(estimator, DistanceEstimator)
    assert estimator == ESTIMATORS[name](norm=norm)
    assert hash(estimator) == hash(ESTIMATORS[name](norm=norm))
    with pytest.raises(dataclasses.FrozenInstanceError):
        estimator.norm = norm
    assert estimator.needs in {"predict", "gradient", "linear", "layers"}
    assert estimator.revision >= 1


@every_estimator
def test_gives_0_exactly_to_misclassified_samples(name, norm):
    model, x, y = problem()
    found = measure(model, x, y, ESTIMATORS[name](norm=norm))
    wrong = model.predict(x) != y
    assert wrong.any()
    assert (found.values[wrong] == 0).all()
    np.testing.assert_array_equal(found.correct, ~wrong)
    assert found.norm is norm


@every_estimator
def test_its_bound_holds_against_the_exact_answer_for_a_linear_model(name, norm):
    model, x, y = problem()
    found = measure(model, x, y, ESTIMATORS[name](norm=norm))
    exact = np.array([linear_distance(model, row, label, norm) for row, label in zip(x, y, strict=True)])
    slack = 1e-6 * (1 + np.where(np.isfinite(exact), exact, 0))
    if found.bound in (Bound.EXACT, Bound.UPPER):
        assert (found.values >= exact - slack).all()
    if found.bound in (Bound.EXACT, Bound.LOWER):
        assert (found.values <= exact + slack).all()


@every_estimator
def test_measures_a_sample_the_same_alone_or_in_any_batch_and_order(name, norm):
    model, x, y = problem()
    estimator = ESTIMATORS[name](norm=norm)
    together = measure(model, x, y, estimator).values
    order = np.random.default_rng(1).permutation(len(x))
    np.testing.assert_array_equal(measure(model, x[order], y[order], estimator).values, together[order])
    for i in (0, 7, len(x) - 1):
        np.testing.assert_array_equal(measure(model, x[i : i + 1], y[i : i + 1], estimator).values, together[i : i + 1])


@every_estimator
def test_finds_nothing_on_a_constant_classifier(name, norm):
    constant = LinearClassifier(np.zeros((3, 4)), [0.0, 1.0, 0.5], domain=Domain(0, 1))
    found = measure(constant, np.full((5, 4), 0.5), [1, 1, 1, 1, 0], ESTIMATORS[name](norm=norm))
    assert found.values[4] == 0
    if found.bound in (Bound.EXACT, Bound.UPPER):
        assert np.isinf(found.values[:4]).all()


@every_estimator
def test_leaves_samples_model_and_global_randomness_untouched(name, norm):
    model, x, y = problem()
    before, samples = model.fingerprint(), x.copy()
    np.random.seed(5)
    random.seed(5)
    states = np.random.get_state()[1].copy(), random.getstate()
    measure(model, x, y, ESTIMATORS[name](norm=norm))
    np.testing.assert_array_equal(np.random.get_state()[1], states[0])
    assert random.getstate() == states[1]
    assert model.fingerprint() == before
    np.testing.assert_array_equal(x, samples)


@every_estimator
def test_round_trips_through_a_config_file(name, norm):
    estimator = ESTIMATORS[name](norm=norm)
    plain = describe(estimator)
    assert build(plain.pop("name"), plain) == estimator
    text = {field: str(value) for field, value in describe(estimator).items() if field != "name"}
    assert build(name, text) == estimator


@pytest.mark.parametrize("name", ESTIMATORS)
def test_is_documented_with_a_reference(name):
    text = ESTIMATORS[name].__doc__ or ""
    for part in ("Parameters", "References", "Guarantee", ">>>"):
        assert part in text, f"the docstring of {name} lacks {part}"


@pytest.mark.parametrize("name", ESTIMATORS)
def test_refuses_every_norm_that_it_lacks(name):
    assert ESTIMATORS[name].norms
    for norm in set(Norm) - ESTIMATORS[name].norms:
        with pytest.raises(InputError, match="cannot measure in"):
            ESTIMATORS[name](norm=norm)
    with pytest.raises(InputError, match="Unknown norm"):
        ESTIMATORS[name](norm="l7")
