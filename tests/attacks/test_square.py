import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier

from fairmargin.attacks.robust_accuracy import attack_samples
from fairmargin.attacks.square import Columns, Square, Squares, _pattern, _redistributed, share_at
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from tests.attacks.victims import run
from tests.perturbation.networks import digits, test_digits

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
