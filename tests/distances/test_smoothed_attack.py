"""The attack on a smoothed classifier: its distances are above the certified ones."""

import numpy as np
import torch
from scipy import stats
from torch import nn

from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.core.keys import sample_keys
from fairmargin.distances.measure import measure
from fairmargin.distances.smoothing import attack as attacking
from fairmargin.distances.smoothing.attack import SmoothedAttack
from fairmargin.distances.smoothing.estimator import Smoothing
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.distances.confirmation import Formula
from tests.distances.test_smoothing import half_space, spike
from tests.perturbation.networks import mlp, test_digits

FEW_VOTES = Smoothing(sigma=0.3, draws=500)
SMALL = SmoothedAttack(sigma=0.5, steps=8, draws=1_000)


def test_for_a_half_space_it_comes_just_beyond_the_distance():
    distances = np.array([0.1, 0.4, 0.8, 1.5, 4.0])
    model, x, y = half_space(distances, features=12)
    found = measure(model, x, y, SMALL)
    assert (found.bound, found.subject) == (Bound.UPPER, "smoothed(0.5)")
    assert (found.values >= distances).all()
    assert (found.values <= 1.05 * distances + 0.5 * 0.5).all()


def test_on_a_network_the_certificate_is_below_the_attack_beyond_what_alpha_explains():
    x, y = test_digits(12)
    lower = measure(mlp(), x, y, Smoothing(sigma=0.25, draws=1_000))
    upper = measure(mlp(), x, y, SmoothedAttack(sigma=0.25, steps=8, draws=500))
    np.testing.assert_array_equal(lower.correct, upper.correct)
    assert lower.subject == upper.subject
    assert (lower.values > upper.values).sum() <= stats.binom.ppf(0.999, len(x), 0.002)
    reached = upper.correct & np.isfinite(upper.values)
    assert reached.sum() >= 0.8 * upper.correct.sum()
    assert upper.values[reached].mean() < 3 * lower.values[reached].mean()


def test_confirmed_distances_are_too_small_no_more_often_than_alpha():
    # Near the boundary of a half-space: without the test of the vote about half of the bounds would be too small.
    distances = np.linspace(0.02, 0.5, 40)
    model, x, y = half_space(distances, features=3)
    found = measure(model, x, y, SmoothedAttack(sigma=0.5, steps=2, copies=16, draws=200, alpha=0.05))
    assert (found.values[found.correct] < distances[found.correct]).sum() <= stats.binom.ppf(0.999, 40, 0.05)


def test_a_search_that_stops_before_the_boundary_is_not_confirmed(monkeypatch):
    # Every vote is taken slightly before the boundary, where half of the votes name the other class.
    distances = np.linspace(0.3, 0.5, 60)
    model, x, y = half_space(distances, features=3)
    ends = dict(zip(sample_keys(x, y).tolist(), 0.99 * distances, strict=True))
    monkeypatch.setattr(attacking, "_ATTEMPTS", (1e-6,) * 4)
    monkeypatch.setattr(SmoothedAttack, "_crossing", lambda self, poll, ray, y, key: (ends[key] / ray.length(1.0), 0))
    found = measure(model, x, y, SmoothedAttack(sigma=0.5, steps=2, copies=16, draws=200, alpha=0.05))
    assert found.correct.sum() > 50
    assert np.isfinite(found.values[found.correct]).sum() <= stats.binom.ppf(0.999, 60, 0.05)


def test_the_boundary_is_found_too_among_many_rivals_that_share_the_votes():
    # With many rivals close behind, the label has a plurality of votes and no majority.
    weight = np.random.default_rng(0).normal(size=(200, 6))
    model = LinearClassifier(weight, np.zeros(200))
    x = 0.5 * weight[:4] / np.linalg.norm(weight[:4], axis=1, keepdims=True)
    y = model.predict(x)
    lower, upper = measure(model, x, y, FEW_VOTES), measure(model, x, y, SmoothedAttack(sigma=0.3, draws=2_000))
    assert upper.correct.any()
    assert (upper.values >= lower.values).all()
    assert np.isfinite(upper.values).all()


def test_where_the_pilot_votes_against_the_label_the_distance_is_0():
    model = as_classifier(Formula(spike), classes=range(2), domain=Domain(-1, 1))
    found = measure(model, np.zeros((1, 2), np.float32), [1], SMALL)
    assert (found.correct[0], found.values[0]) == (False, 0)


def test_where_the_vote_never_changes_it_says_how_far_it_searched():
    constant = nn.Sequential(nn.Linear(3, 2))
    nn.init.zeros_(constant[0].weight)
    with torch.no_grad():
        constant[0].bias.copy_(torch.tensor([1.0, 0.0]))
    found = measure(constant, np.full((2, 3), 0.5, np.float32), [0, 1], SMALL)
    assert np.isinf(found.values[0])
    assert found.tried[0] > 0.5  # the distance of a corner of the box
    assert (found.values[1], found.correct[1]) == (0, False)


def test_the_input_stays_in_the_domain_and_features_that_cannot_move_stay():
    # The boundary lies at 1.2 of the first feature, which ends at 1, and at 0 of the second, which cannot move.
    scores = LinearClassifier([[0.0, 0.0, 0.0], [-1.0, 9.0, 0.5]], [0.0, 1.2], domain=Domain([0, 0.1, 0], [1, 0.1, 1]))
    found = measure(scores, np.array([[0.5, 0.1, 0.5]]), [1], SMALL)
    assert np.isinf(found.values[0])
    assert found.tried[0] <= np.sqrt(0.5) + 1e-9


def test_length_is_in_units_of_the_scale():
    model = LinearClassifier([[0.0, 0.0], [1.0, 0.0]], [0.0, 0.0], domain=Domain(scale=[10.0, 1.0]))
    found = measure(model, np.array([[3.0, 0.0]]), [1], SMALL)
    assert 0.3 <= found.values[0] <= 0.5
