import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fairmargin.core.norm import Norm
from fairmargin.data.catalog import load
from fairmargin.data.sets.synthetic import (
    ROUND_CROSS_BUDGET,
    gaussian_classes,
    gaussian_pair,
    round_cross,
    round_cross_classifiers,
    three_classes,
)
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.errors import InputError
from fairmargin.models.as_classifier import as_classifier


def test_one_of_three_classes_lies_closer_to_the_boundary_though_all_are_classified_well() -> None:
    toy = three_classes()
    model = as_classifier(LogisticRegression().fit(np.asarray(toy.x), toy.y))
    distances = measure(model, toy.x, toy.y, ExactLinear(norm=Norm.L2))
    of = {
        name: (distances.correct[which].mean(), distances.values[which].mean())
        for name, which in toy.partition("class")
    }
    assert min(accuracy for accuracy, _ in of.values()) > 0.97
    assert of["brown"][1] < 0.6 * min(of["violet"][1], of["orange"][1])


@pytest.mark.parametrize("norm", list(Norm))
@pytest.mark.parametrize("split", ["all", "train", "test"])
def test_two_perfect_classifiers_leave_exactly_the_published_shares_within_the_budget(norm: Norm, split: str) -> None:
    toy = load("toy-round-cross", split=split)
    shares = []
    for weight, bias in round_cross_classifiers():
        distances = measure(as_classifier((weight, bias)), toy.x, toy.y, ExactLinear(norm=norm))
        assert distances.correct.all()
        attacked = distances.values <= ROUND_CROSS_BUDGET
        for _, of_class in toy.partition("class"):
            shares.append({shape: attacked[which & of_class].mean() for shape, which in toy.partition("shape")})
    biased, fair = {"round": 0.7, "cross": 0.3}, {"round": 0.3, "cross": 0.3}
    assert shares == [biased, biased, fair, fair]


@pytest.mark.parametrize("samples", [40, 80, 1000])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_shares_hold_for_any_seed_and_size(samples: int, seed: int) -> None:
    toy = round_cross(samples, seed)
    near = np.abs(np.asarray(toy.x)) <= ROUND_CROSS_BUDGET
    assert {shape: near[which].mean(axis=0).tolist() for shape, which in toy.partition("shape")} == {
        "cross": [0.3, 0.3],
        "round": [0.7, 0.3],
    }


def test_the_gaussian_pair_has_the_means_and_the_spread_that_were_asked_and_is_balanced() -> None:
    pair = gaussian_pair(low=-1.0, high=3.0, spread=4.0, samples=40_000, seed=3)
    x = np.asarray(pair.x)[:, 0]
    minus, plus = x[pair.y == 0], x[pair.y == 1]
    assert len(minus) == len(plus) == 20_000
    assert minus.mean() == pytest.approx(-1, abs=0.03)
    assert plus.mean() == pytest.approx(3, abs=0.12)
    assert minus.std() == pytest.approx(1, rel=0.03)
    assert plus.std() == pytest.approx(4, rel=0.03)
    assert set(pair.attributes["side"][pair.y == 1]) == {"high"}


def test_the_gaussian_classes_lie_around_opposite_corners_with_their_own_spreads_and_prior() -> None:
    toy = gaussian_classes(dimensions=5, means=(1.0, 2.0), spreads=(0.5, 3.0), prior=0.3, samples=20_000, seed=4)
    x = np.asarray(toy.x)
    minus, plus = x[toy.y == 0], x[toy.y == 1]
    assert (len(minus), len(plus), x.shape[1]) == (14_000, 6_000, 5)
    np.testing.assert_allclose(minus.mean(axis=0), -1, atol=0.03)
    np.testing.assert_allclose(plus.mean(axis=0), 2, atol=0.2)
    np.testing.assert_allclose(np.cov(minus.T), 0.25 * np.eye(5), atol=0.02)
    np.testing.assert_allclose(np.cov(plus.T), 9 * np.eye(5), atol=0.6)


@pytest.mark.parametrize("make", [three_classes, round_cross, gaussian_pair, gaussian_classes])
def test_the_seed_decides_the_samples_and_nothing_else_does(make) -> None:  # type: ignore[no-untyped-def]
    before = np.random.get_state()[1].copy()  # type: ignore[index, union-attr]
    assert make(seed=5).fingerprint == make(seed=5).fingerprint != make(seed=6).fingerprint
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # type: ignore[index]
    assert not make().domain.is_bounded


def test_the_samples_of_the_catalog_never_change() -> None:
    # Frozen on purpose: published numbers hang on them.
    assert np.asarray(three_classes().x)[0].tolist() == pytest.approx([-1.412353188729902, 0.360141487054201])
    assert np.asarray(gaussian_pair().x)[:2, 0].tolist() == pytest.approx([-0.235947654032, 2.800314416734])


@pytest.mark.parametrize(
    ("make", "arguments", "words"),
    [
        (three_classes, {"samples": 2}, "`samples` must be at least 3; given 2."),
        (round_cross, {"samples": 50}, "`samples` must be a multiple of 40"),
        (round_cross, {"samples": 0}, "`samples` must be a multiple of 40"),
        (gaussian_pair, {"low": 2.0, "high": 2.0}, "`low` must be below `high`"),
        (gaussian_pair, {"spread": 0.0}, "`spread` must be positive"),
        (gaussian_pair, {"high": float("nan")}, "`low` must be below `high`"),
        (gaussian_pair, {"samples": 3}, "must be even"),
        (gaussian_classes, {"dimensions": 0}, "`dimensions` must be at least 1"),
        (gaussian_classes, {"means": (0.0, 1.0)}, "must be positive numbers"),
        (gaussian_classes, {"spreads": (1.0, float("inf"))}, "must be positive numbers"),
        (gaussian_classes, {"prior": 1.0}, "`prior` must be between 0 and 1"),
        (gaussian_classes, {"prior": float("nan")}, "`prior` must be between 0 and 1"),
        (gaussian_classes, {"prior": 0.001, "samples": 10}, "give each class a sample"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(make, arguments, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=words):
        make(**arguments)
