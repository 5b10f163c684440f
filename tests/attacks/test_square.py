from copy import deepcopy

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier

from fairmargin.attacks.pgd import PGD
from fairmargin.attacks.robust_accuracy import attack_samples
from fairmargin.attacks.square import Columns, Square, Squares, _pattern, _redistributed, share_at
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.errors import InputError, ModelError
from fairmargin.models.as_classifier import as_classifier
from tests.attacks.victims import half_space, run
from tests.distances.confirmation import Formula
from tests.peers import peer
from tests.perturbation.networks import cnn, digits, test_digits

both_norms = pytest.mark.parametrize("norm", [Norm.LINF, Norm.L2])


def uniform(rows, count, seed=0):
    return torch.tensor(np.random.default_rng(seed).uniform(size=(rows, count)))


# Squares and columns ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1, 0.001])
@pytest.mark.parametrize("windows", [Squares(1, 8, 8), Squares(3, 5, 9), Squares(2, 1, 1), Columns(7), Columns(1)])
def test_squares_and_columns_have_the_requested_size_and_reach_every_feature(windows, share):
    numbers = uniform(400, windows.numbers)
    square = isinstance(windows, Squares)
    places = windows.height * windows.width if square else windows.features
    for moves in (windows.signs(numbers, share), windows.directions(numbers, share)):
        assert moves.taken.shape == moves.emptied.shape == (400, 1, places)
        counts = moves.taken.sum(dim=2)
        assert (counts == counts[0]).all()
        assert moves.taken.any(dim=0).all()
        assert moves.emptied.any(dim=0).all()
    taken, signs, _ = windows.signs(numbers, share)
    assert set(signs.unique().tolist()) == {-1.0, 1.0}
    least = 1 / places
    assert taken.double().mean() == pytest.approx(max(share, least), rel=0.5) or (square and share > 0.5)


@pytest.mark.parametrize("windows", [Squares(1, 8, 8), Squares(3, 5, 9), Squares(2, 1, 1), Columns(7)])
def test_patterns_have_length_1_in_each_channel_and_are_zero_outside_of_the_square(windows):
    moves = windows.directions(uniform(50, windows.numbers), 0.4)
    np.testing.assert_allclose(moves.pattern.square().sum(dim=2), 1.0)
    assert not moves.pattern[(~moves.taken).expand_as(moves.pattern)].any()


@pytest.mark.parametrize("side", [1, 2, 3, 7, 8])
def test_a_pattern_has_a_positive_and_a_negative_peak(side):
    pattern = _pattern(side)
    assert pattern.shape == (side, side)
    assert pattern.square().sum() == pytest.approx(1)
    assert (pattern[: side // 2] > 0).all()
    assert (pattern[side // 2 :] < 0).all()
    lowest = divmod(int(pattern.argmin()), side)
    assert side // 2 <= lowest[0] < side
    assert 0 < lowest[1] < side - 1 or side < 3


def test_moving_length_between_squares_uses_the_radius_exactly():
    windows, rng = Squares(3, 6, 6), np.random.default_rng(2)
    delta = torch.tensor(rng.normal(size=(40, 3, 36)))
    for size in (1.0, 0.7):
        delta = delta / delta.square().sum(dim=(1, 2), keepdim=True).sqrt() * size
        moves = windows.directions(uniform(40, windows.numbers), 0.3)
        new = _redistributed(delta, moves, torch.ones(1, 3, 36, dtype=torch.bool))
        np.testing.assert_allclose(new.square().sum(dim=(1, 2)), 1.0)  # the unused length is used now
        untouched = (~(moves.taken | moves.emptied)).expand_as(new)
        np.testing.assert_array_equal(new[untouched], delta[untouched])
        assert not new[(moves.emptied & ~moves.taken).expand_as(new)].any()


def test_the_sizes_of_squares_follow_the_published_schedule_for_any_number_of_queries():
    for queries in (200, 5000, 10_000):
        shares = [share_at(query, queries, 0.8) for query in range(queries)]
        assert shares == sorted(shares, reverse=True)
        assert shares[-1] == 0.8 / 512
        assert share_at(queries // 4, queries, 0.8) == 0.8 / 64


# Results ------------------------------------------------------------------------------------------------------


@both_norms
def test_fools_a_linear_model_of_a_table_slightly_beyond_the_distance_and_not_before(norm):
    model, x, y, distances = half_space()
    beyond = 1.001 if norm is Norm.LINF else 1.05
    attack = Square(norm, queries=600)
    assert (model.predict(run(attack, model, x, y, distances(norm) * beyond)) != y).all()
    assert (model.predict(run(attack, model, x, y, distances(norm) * (1 - 1e-9))) == y).all()


@pytest.mark.parametrize("radius", [0.04, 0.07])
@both_norms
def test_fools_at_least_as_many_as_torchattacks_square(norm, radius):
    x, y = test_digits(64)
    radius = radius * {Norm.LINF: 1, Norm.L2: 8}[norm]
    peers, model = peer("torchattacks"), as_classifier(cnn())
    kind = {Norm.LINF: "Linf", Norm.L2: "L2"}[norm]
    with torch.random.fork_rng():
        attack = peers.Square(deepcopy(cnn()), norm=kind, eps=radius, n_queries=60, seed=0)
        there = attack(torch.tensor(x), torch.tensor(y)).numpy()
    wrong = [int((model.predict(found) != y).sum()) for found in (run(Square(norm, 60), model, x, y, radius), there)]
    # This implementation draws squares for each sample, and includes the last row and column of an image.
    assert wrong[1] - 2 <= wrong[0] <= wrong[1] + 12
    assert 3 < wrong[0] < 64  # two of them are misclassified before the attack


def staircase(x):
    """Return the rounded scores of a linear model, whose gradient is 0."""
    weight = torch.linspace(-1, 1, 16, dtype=x.dtype)
    side = torch.floor(40 * (x.flatten(1) - 0.5) @ weight) + 0.5 + 0 * x.flatten(1).sum(dim=1)
    return torch.stack([side, -side], dim=1)


@both_norms
def test_succeeds_where_gradients_are_zero_and_pgd_does_not(norm):
    model = as_classifier(Formula(staircase), classes=range(2), domain=Domain(0, 1))
    x = np.random.default_rng(0).uniform(0.2, 0.8, size=(30, 1, 4, 4)).astype(np.float32)
    y, radius = model.predict(x), {Norm.LINF: 0.15, Norm.L2: 0.5}[norm]
    climbed = (model.predict(run(PGD(norm, restarts=1), model, x, y, radius)) != y).mean()
    searched = (model.predict(run(Square(norm, queries=200), model, x, y, radius)) != y).mean()
    assert climbed < 0.4  # some random starts lie beyond the boundary
    assert searched > 0.9


def test_more_restarts_find_all_that_fewer_found():
    x, y = test_digits(40)
    model = as_classifier(cnn())
    fooled = [
        model.predict(run(Square(queries=30, restarts=restarts), model, x, y, 0.09)) != y for restarts in (1, 2, 4)
    ]
    assert not (fooled[0] & ~fooled[1]).any()
    assert not (fooled[1] & ~fooled[2]).any()
    assert fooled[2].sum() > fooled[0].sum() > 0


@both_norms
def test_takes_at_most_the_given_number_of_queries(norm):
    calls = []

    def scores(x):
        calls.append(len(x))
        return torch.stack([x[:, 0] + 2, x[:, 0]], dim=1)

    model = as_classifier(Formula(scores), classes=range(2), domain=Domain(0, 1))
    with model.network((4,)):
        calls.clear()
    run(Square(norm, queries=150), model, np.full((3, 4), 0.5, np.float32), np.zeros(3, np.int64), 0.2)
    assert 150 <= len(calls) <= 153  # a check of the network, the samples, 150 queries, and the best input


@both_norms
def test_results_depend_on_the_seed_and_are_reproducible(norm):
    x, y = test_digits(8)
    first, again, other = (run(Square(norm, queries=20), cnn(), x, y, 0.02, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


# Models without gradients -------------------------------------------------------------------------------------------


class Forest:
    """Random forest as a user-defined classifier."""

    offers, tile, domain = frozenset({"predict"}), 1, Domain(0, 1)

    def __init__(self, trees=20):
        x, y = digits()
        self.forest = RandomForestClassifier(trees, random_state=0).fit(x[:1200].reshape(1200, -1), y[:1200])
        self.classes = tuple(range(10))

    def scores(self, x):
        return self.forest.predict_proba(x.reshape(len(x), -1))

    def predict(self, x):
        return self.scores(x).argmax(axis=1)

    def fingerprint(self):
        return "forest"


@both_norms
def test_fools_a_forest_which_has_scores_but_no_gradients(norm):
    x, y = test_digits(24)
    model, radius = Forest(), {Norm.LINF: 0.2, Norm.L2: 1.5}[norm]
    found = run(Square(norm, queries=40), model, x, y, radius)
    before, after = ((model.predict(each) == y).mean() for each in (x, found))
    assert before > 0.8
    assert after < before - 0.2
    assert np.abs(found).max() <= 1
    order = np.random.default_rng(1).permutation(24)
    np.testing.assert_array_equal(run(Square(norm, queries=40), model, x[order], y[order], radius), found[order])
    outcome = attack_samples(model, x, y, Square(norm, queries=40), radius=radius)
    assert (outcome.unreached == (model.predict(found) == y)).all()


def test_a_model_without_scores_is_refused_with_advice():
    class Labels(Forest):
        scores = None

    with pytest.raises(ModelError, match=r"`Square` needs the scores .* `Labels` returns labels only.*scores"):
        run(Square(), Labels(1), *test_digits(2), 0.1)


def test_scores_that_differ_from_the_predictions_are_refused():
    class Other(Forest):
        def predict(self, x):
            return (super().predict(x) + 1) % 10

    with pytest.raises(ModelError, match="differs from the predicted class for 2 of 2 samples"):
        run(Square(), Other(1), *test_digits(2), 0.1)


def test_scores_of_another_shape_are_refused():
    class Short(Forest):
        def scores(self, x):
            return super().scores(x)[:, 0]

    with pytest.raises(ModelError, match=r"must return one number per class for each sample, shape \(64, 10\)"):
        run(Square(), Short(1), *test_digits(2), 0.1)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Square(queries=0), "`queries` of Square must be at least 1"),
        (lambda: Square(restarts=0), "`restarts` of Square must be at least 1"),
        (lambda: Square(share=0.0), "`share` of Square must be more than 0 and at most 1; given 0.0"),
        (lambda: Square(share=float("nan")), "`share` of Square must be more than 0"),
        (lambda: Square(share="half"), "`share` of Square must be more than 0"),
        (lambda: Square("l1"), "`Square` does not support the norm L1"),
    ],
)
def test_invalid_settings_are_refused(make, said):
    with pytest.raises(InputError, match=said):
        make()
