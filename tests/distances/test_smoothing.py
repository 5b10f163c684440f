"""Certificates of a smoothed classifier for which the true distances are known."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy import stats

from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.core.keys import sample_keys
from fairmargin.distances.measure import measure
from fairmargin.distances.smoothing.estimator import Smoothing, largest_radius
from fairmargin.distances.smoothing.votes import FINAL, PILOT, polling
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.distances.confirmation import Formula
from tests.perturbation.networks import mlp, test_digits

FIXED = Smoothing(sigma=0.5, draws=2_000, planned=False)


def half_space(distances, features=4):
    """Return a model of two classes, samples at these distances on the side of class 1, and their labels."""
    weight = np.random.default_rng(0).normal(size=features)
    weight /= np.linalg.norm(weight)
    model = LinearClassifier([np.zeros(features), weight], [0.0, 0.0])
    return model, np.outer(distances, weight), np.ones(len(distances), dtype=int)


def test_for_a_half_space_the_radius_approaches_the_distance_as_draws_grow():
    model, x, y = half_space([0.1, 0.3, 0.6, 0.9])
    gaps = []
    for draws in (200, 2_000, 60_000):
        found = measure(model, x, y, Smoothing(sigma=0.5, draws=draws, planned=False))
        gaps.append((np.array([0.1, 0.3, 0.6, 0.9]) - found.values).mean())
    assert gaps[0] > gaps[1] > gaps[2] > 0
    assert gaps[2] < 0.02


def test_for_a_half_space_no_radius_exceeds_the_distance_beyond_what_alpha_explains():
    distances = np.linspace(0.05, 1.2, 150)
    model, x, y = half_space(distances)
    for planned in (False, True):
        found = measure(model, x, y, Smoothing(sigma=0.5, draws=500, alpha=0.05, planned=planned))
        wrong = (found.values > distances).sum()
        assert wrong <= stats.binom.ppf(0.999, len(x), 0.05)
        assert found.values.mean() > 0.5 * distances.mean()


def test_unanimous_votes_certify_the_largest_radius_attainable_and_no_more():
    model, x, y = half_space([50.0])
    found = measure(model, x, y, FIXED)
    assert found.values[0] == pytest.approx(0.5 * stats.norm.ppf(0.001 ** (1 / 2_000)), rel=1e-9)
    assert found.values[0] == pytest.approx(FIXED.largest) == pytest.approx(largest_radius(0.5, 2_000, 0.001))


def test_a_vote_too_close_to_call_is_an_abstention_with_radius_0():
    model, x, y = half_space([0.01] * 30)
    found = measure(model, x + 1e-9 * np.arange(30)[:, None], y, FIXED)  # different keys
    assert found.correct.any()
    assert (found.values == 0).all()


def test_distances_name_their_subject_and_bound():
    model, x, y = half_space([0.5])
    found = measure(model, x, y, FIXED)
    assert (found.subject, found.bound, found.norm.value) == ("smoothed(0.5)", Bound.LOWER, "l2")


def spike(x):
    """Return class 1 in a slit around 0 that noise rarely hits, class 0 elsewhere."""
    inside = (x[:, 0].abs() < 0.01).to(x.dtype)
    return torch.stack([0.5 - inside, inside - 0.5], dim=1)


def test_correct_follows_the_vote_and_not_the_prediction_of_the_model():
    model = as_classifier(Formula(spike), classes=range(2), domain=Domain(-1, 1))
    x = np.zeros((1, 2), np.float32)
    assert model.predict(x).tolist() == [1]
    estimator = Smoothing(sigma=0.5, draws=500)
    as_the_model, as_the_vote = (measure(model, x, [label], estimator) for label in (1, 0))
    assert (as_the_model.correct[0], as_the_model.values[0]) == (False, 0)
    assert as_the_vote.correct[0]
    assert as_the_vote.values[0] > 0.5


def test_noise_is_in_units_of_the_scale():
    weight, x = np.array([1.0, 0.0]), np.array([[3.0, 0.0]])
    plain = LinearClassifier([[0.0, 0.0], weight], [0.0, 0.0])
    scaled = LinearClassifier([[0.0, 0.0], weight], [0.0, 0.0], domain=Domain(scale=[10.0, 1.0]))
    # Three units away in the first, 0.3 of ten in the second.
    assert measure(plain, x, [1], FIXED).values[0] == pytest.approx(FIXED.largest)
    assert 0.2 < measure(scaled, x, [1], FIXED).values[0] < 0.3


@pytest.mark.parametrize("domain", [Domain(scale=[0.0, 1.0]), Domain([0, -np.inf], [0, np.inf])])
def test_features_that_cannot_move_get_no_noise(domain):
    model = LinearClassifier([[0.0, 0.0], [1.0, 0.0]], [0.0, 0.0], domain=domain)
    found = measure(model, np.array([[1e-6, 0.0]]), [1], FIXED)
    assert found.values[0] == pytest.approx(FIXED.largest)


def test_votes_are_those_of_predict():
    model = as_classifier(mlp())
    x, _ = test_digits(1)
    with polling(model, (1, 8, 8), 0.5) as poll:
        row = poll.rows(x)[0]
        counted = poll.count(row, 3, PILOT, 150)
        copies = np.concatenate(list(poll.copies(row, 3, PILOT, 150)))
        assert not np.array_equal(poll.count(row, 3, FINAL, 150), counted)  # other noise
        assert not np.array_equal(poll.count(row, 4, PILOT, 150), counted)
    evaluated = np.bincount(model.predict(copies.reshape(-1, 1, 8, 8)), minlength=10)
    np.testing.assert_array_equal(counted, evaluated)
    assert (counted > 0).sum() > 1
    assert (copies - row).std() == pytest.approx(0.5, rel=0.03)


def test_copies_without_finite_scores_are_not_counted():
    def scores(x):
        away = torch.where(x[:, :1] > 0.5, torch.nan, 0.0)
        return torch.cat([x[:, 1:] + 9, -x[:, 1:]], dim=1) + away

    model = as_classifier(Formula(scores), classes=range(2), domain=Domain(-1, 1))
    x = np.array([[0.5, 0.0], [-1.0, 0.0]], np.float32)
    found = measure(model, x, [0, 0], Smoothing(sigma=0.25, draws=1_000, planned=False))
    assert found.values[0] == 0  # half of the votes are missing
    assert found.values[1] == pytest.approx(largest_radius(0.25, 1_000, 0.001))


@pytest.mark.parametrize("planned", [False, True])
def test_certificates_use_other_noise_than_the_pilot(planned):
    model, x, y = half_space([0.5])
    evaluated = []
    with polling(model, (4,), 0.5) as poll:
        recording = dataclasses.replace(poll, ask=lambda rows: (evaluated.append(rows.copy()), poll.ask(rows))[1])
        (found,) = Smoothing(sigma=0.5, draws=500, planned=planned).certify(
            recording, poll.rows(x), y, sample_keys(x, y)
        )
    rows = np.concatenate(evaluated)
    assert found.draws == len(rows) > 200
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_a_sample_never_has_more_copies_in_memory_than_a_block():
    model, x, _ = half_space([1.0], features=300_000)
    with polling(model, (300_000,), 0.1) as poll:
        first = next(poll.copies(poll.rows(x)[0], 1, PILOT, 100_000))
    assert first.nbytes < 2**24


def test_a_plan_makes_fewer_draws_and_certifies_nearly_as_much():
    distances = 0.25 * np.random.default_rng(5).normal(2, 1.2, 60).clip(0.01)
    model, x, y = half_space(distances)
    keys = sample_keys(x, y)
    with polling(model, (4,), 0.25) as poll:
        fixed, planned = (
            Smoothing(draws=4_000, planned=planned).certify(poll, poll.rows(x), y, keys) for planned in (False, True)
        )
    assert [each.correct for each in fixed] == [each.correct for each in planned]
    assert sum(each.draws for each in fixed) > 1.5 * sum(each.draws for each in planned)
    assert sum(each.radius for each in planned) > 0.95 * sum(each.radius for each in fixed)
    assert all(each.draws == 4_100 for each in fixed if each.correct)
    assert all(each.draws == 100 for each in planned if not each.correct)


def test_a_model_of_scikit_learn_is_smoothed_without_torch():
    program = """
import sys
import numpy as np
from sklearn.linear_model import LogisticRegression
import fairmargin as fm
from fairmargin.distances.smoothing.estimator import Smoothing
x = np.array([[0.0], [1.0], [8.0], [9.0]])
model = LogisticRegression().fit(x, ["low", "low", "high", "high"])
found = fm.measure(model, x, ["low", "low", "high", "high"], Smoothing(sigma=1.0, draws=1000))
assert found.correct.all() and (found.values > 1).all() and "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
