"""Synthetic datasets and the digits of scikit-learn. What is refused is in `tests/spec/refusals/data.py`."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fairmargin.core.norm import Norm
from fairmargin.data.catalog import load
from fairmargin.data.sets.digits import load_digits_dataset
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
from fairmargin.models.as_classifier import as_classifier


def test_one_of_three_accurately_classified_classes_lies_closer_to_the_boundary() -> None:
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
def test_the_published_shares_lie_within_the_budget_of_two_perfect_classifiers(norm: Norm, split: str) -> None:
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


def test_the_gaussian_pair_has_the_given_means_and_spread_and_is_balanced() -> None:
    pair = gaussian_pair(low=-1.0, high=3.0, spread=4.0, samples=40_000, seed=3)
    x = np.asarray(pair.x)[:, 0]
    minus, plus = x[pair.y == 0], x[pair.y == 1]
    assert len(minus) == len(plus) == 20_000
    assert minus.mean() == pytest.approx(-1, abs=0.03)
    assert plus.mean() == pytest.approx(3, abs=0.12)
    assert minus.std() == pytest.approx(1, rel=0.03)
    assert plus.std() == pytest.approx(4, rel=0.03)
    assert set(pair.attributes["side"][pair.y == 1]) == {"high"}


def test_the_gaussian_classes_have_the_given_means_spreads_and_prior() -> None:
    toy = gaussian_classes(dimensions=5, means=(1.0, 2.0), spreads=(0.5, 3.0), prior=0.3, samples=20_000, seed=4)
    x = np.asarray(toy.x)
    minus, plus = x[toy.y == 0], x[toy.y == 1]
    assert (len(minus), len(plus), x.shape[1]) == (14_000, 6_000, 5)
    np.testing.assert_allclose(minus.mean(axis=0), -1, atol=0.03)
    np.testing.assert_allclose(plus.mean(axis=0), 2, atol=0.2)
    np.testing.assert_allclose(np.cov(minus.T), 0.25 * np.eye(5), atol=0.02)
    np.testing.assert_allclose(np.cov(plus.T), 9 * np.eye(5), atol=0.6)


@pytest.mark.parametrize("make", [three_classes, round_cross, gaussian_pair, gaussian_classes])
def test_the_samples_depend_on_the_seed_only(make) -> None:  # type: ignore[no-untyped-def]
    before = np.random.get_state()[1].copy()  # type: ignore[index, union-attr]
    assert make(seed=5).fingerprint == make(seed=5).fingerprint != make(seed=6).fingerprint
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # type: ignore[index]
    assert not make().domain.is_bounded


def test_the_samples_of_the_catalog_never_change() -> None:
    # Fixed on purpose: published numbers depend on them.
    assert np.asarray(three_classes().x)[0].tolist() == pytest.approx([-1.412353188729902, 0.360141487054201])
    assert np.asarray(gaussian_pair().x)[:2, 0].tolist() == pytest.approx([-0.235947654032, 2.800314416734])


def test_the_digits_are_the_images_of_scikit_learn_scaled_to_one() -> None:
    from sklearn.datasets import load_digits

    digits, original = load_digits_dataset(), load_digits()
    np.testing.assert_array_equal(np.asarray(digits.x) * 16, original.data)
    np.testing.assert_array_equal(digits.y, original.target)


def test_the_digits_have_a_fixed_split_of_sixty_to_forty() -> None:
    train, test = load_digits_dataset("train"), load_digits_dataset("test")
    assert (len(train), len(test)) == (1078, 719)
    # Fixed on purpose: published numbers of the demonstration depend on it.
    assert train.y[:12].tolist() == [1, 2, 4, 5, 6, 8, 9, 0, 3, 4, 5, 6]
    assert test.y[:12].tolist() == [0, 3, 7, 1, 2, 0, 1, 3, 4, 5, 6, 8]


def test_ink_divides_the_digits_into_three_equal_parts_and_does_not_depend_on_the_split() -> None:
    digits, test = load_digits_dataset(), load_digits_dataset("test")
    assert all(abs(size - 599) < 15 for size in digits.partition("ink").sizes)
    amount, ink = np.asarray(digits.x).sum(axis=1), digits.attributes["ink"]
    assert amount[ink == "light"].max() <= amount[ink == "medium"].min()
    assert amount[ink == "medium"].max() <= amount[ink == "heavy"].min()
    known = {row.tobytes(): word for row, word in zip(np.asarray(digits.x), ink, strict=True)}
    assert [known[row.tobytes()] for row in np.asarray(test.x)] == test.attributes["ink"].tolist()


def test_neither_data_nor_engine_nor_store_load_torch_or_scikit_learn() -> None:
    program = (
        "import sys, fairmargin.data.catalog, fairmargin.data.distance_table, fairmargin.data.loading, "
        "fairmargin.engine.catalog, fairmargin.store.folder; print({'torch', 'sklearn'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
