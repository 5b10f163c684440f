"""Properties of every estimator for a given set of classes to keep."""

import numpy as np
import pytest
import torch

from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances.catalog import ESTIMATORS, PROXIES
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.kept_classes import Kept, kept_positions
from fairmargin.models.linear import LinearClassifier
from tests.distances.confirmation import Formula
from tests.oracles import random_problem, random_trees, tree_distance
from tests.perturbation.networks import relu_mlp
from tests.spec.test_every_estimator import EVERY, SMOOTHED, exact_distances, of_trees, small, some_digits

every_estimator = pytest.mark.parametrize(("name", "norm"), EVERY)
every_bound = pytest.mark.parametrize(("name", "norm"), [case for case in EVERY if case[0] not in PROXIES | SMOOTHED])
NAMES = ("a", "b", "c", "d")


def problem(name="", n=24, domain=None, seed=5):
    """Return a linear model, or trees, of four named classes, samples and labels, of which every fifth is wrong."""
    if of_trees(name):
        model, x = random_trees(np.random.default_rng(seed), n, 3, 4, domain or Domain(0, 1), names=NAMES)
        return model, x, wrong_in_part(model, x)
    plain, x = random_problem(np.random.default_rng(seed), n=n, d=3, classes=4, domain=domain or Domain(0, 1))
    bias = 0.3 * plain.bias - plain.weight.sum(axis=1) / 2  # so that all classes meet in the middle of the box
    model = LinearClassifier(plain.weight, bias, NAMES, plain.domain)
    return model, x, wrong_in_part(model, x)


def wrong_in_part(model, x):
    """Return the model's own labels, of which every fifth is replaced by another one."""
    return np.array(NAMES)[np.where(np.arange(len(x)) % 5 == 0, (model.predict(x) + 1) % 4, model.predict(x))]


def exact_distances_from(model, x, keep, norm):
    """Return the exact distances of a linear model or of trees from a set of classes."""
    if isinstance(model, LinearClassifier):
        return measure(model, x, [keep[0]] * len(x), ExactLinear(norm), keep=keep).values
    kept = [NAMES.index(label) for label in keep]
    inside = np.isin(model.predict(x), kept)
    return np.array([tree_distance(model, row, kept, norm) if i else 0.0 for row, i in zip(x, inside, strict=True)])


def brute_force(model, x, keep, norm, steps=601):
    """Return the distance of samples in the unit square to the nearest point of another class on a grid."""
    axis = np.linspace(0, 1, steps)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    outside = grid[~np.isin(model.predict(grid), keep)]
    found = [norm.length(outside - row).min() if len(outside) else np.inf for row in x]
    return np.where(np.isin(model.predict(x), keep), found, 0.0)


@every_estimator
def test_keeping_the_class_of_each_sample_gives_the_same_bits_as_no_keep(name, norm):
    model, x, y = problem(name)
    default = measure(model, x, y, small(name, norm))
    for label in NAMES:
        mine = y == label
        kept = measure(model, x, y, small(name, norm), keep=label)
        assert kept.keep == (label,)
        assert kept.values[mine].tobytes() == default.values[mine].tobytes()
        assert kept.correct[mine].tobytes() == default.correct[mine].tobytes()


@pytest.mark.parametrize("keep", ["b", ["b", "d"]])
@every_estimator
def test_a_sample_is_correct_exactly_if_its_predicted_class_is_in_the_set(name, norm, keep):
    model, x, y = problem(name)
    found = measure(model, x, y, small(name, norm), keep=keep)
    again = measure(model, x, y[::-1], small(name, norm), keep=list(reversed(keep)))
    assert found.values.tobytes() == again.values.tobytes()
    assert found.keep == again.keep == tuple(keep)
    inside = np.isin([NAMES[place] for place in model.predict(x)], keep)
    # A smoothed model has other predictions near the boundary.
    assert (found.correct == inside).mean() >= (0.8 if name in SMOOTHED else 1)
    assert 0 < found.correct.sum() < len(x)
    assert (found.values[~found.correct] == 0).all()


@pytest.mark.parametrize("keep", [["a", "c"], ["a", "b", "c"]])
@every_bound
def test_a_bound_holds_against_the_exact_distance_from_the_set(name, norm, keep):
    model, x, y = problem(name)
    found = measure(model, x, y, small(name, norm), keep=keep)
    exact = exact_distances_from(model, x, keep, norm)
    np.testing.assert_array_equal(found.correct, exact > 0)
    slack = 1e-6 * (1 + np.where(np.isfinite(exact), exact, 0.0))
    if found.bound in (Bound.EXACT, Bound.UPPER):
        assert (found.values >= exact - slack).all()
    if found.bound in (Bound.EXACT, Bound.LOWER):
        assert (found.values <= exact + slack).all()


@every_bound
def test_the_distance_from_a_larger_set_is_at_least_as_large(name, norm):
    model, x, _ = problem(name, domain=Domain())
    y = np.array(NAMES)[model.predict(x)]
    exact = exact_distances(model, x, model.predict(x), norm)
    smaller = measure(model, x, y, small(name, norm))
    # An upper bound for the larger set is no smaller than the exact distance from the smaller one.
    least = smaller.values * (1 - 2e-3) if smaller.bound is Bound.LOWER else exact * (1 - 1e-6)
    for other in NAMES:
        for label in set(y) - {other}:
            larger = measure(model, x[y == label], y[y == label], small(name, norm), keep=[label, other])
            assert (larger.values >= least[y == label]).all()


@pytest.mark.parametrize("norm", Norm)
@pytest.mark.parametrize("keep", [[0, 1], [0, 2], [1, 2, 3]])
def test_protection_and_recourse_of_a_linear_model_equal_brute_force(norm, keep):
    found = 0  # protection keeps the favorable set, recourse leaves its complement
    for seed in range(4):
        model, x = random_problem(np.random.default_rng(seed), n=12, d=2, classes=4, domain=Domain(0, 1))
        for several in (keep, [k for k in range(4) if k not in keep]):
            exact = measure(model, x, model.predict(x), ExactLinear(norm), keep=several)
            grid = brute_force(model, x, several, norm)
            known = np.isfinite(grid)
            assert (exact.values[known] <= grid[known] + 1e-9).all()
            assert (grid[known] <= exact.values[known] + 4 / 600).all()  # one step of the grid either way
            assert (exact.values[~known] > 0).all()
            found += int((exact.correct & known & (len(several) > 1)).sum())
    assert found > 10


@pytest.mark.parametrize("norm", Norm)
def test_the_distance_from_several_classes_can_be_larger_than_from_each_of_them(norm):
    """Use a model in which class 2 must exceed classes 0 and 1, by a different feature each."""
    model = LinearClassifier([[-1.0, 0.0], [0.0, -1.0], [0.0, 0.0]], [1.0, 1.0, 0.0])
    x = np.zeros((1, 2))
    found = measure(model, x, [0], ExactLinear(norm), keep=[0, 1]).values[0]
    np.testing.assert_allclose(found, {Norm.L1: 2.0, Norm.L2: np.sqrt(2), Norm.LINF: 1.0}[norm], rtol=1e-9)
    boxed = LinearClassifier(model.weight, model.bias, domain=Domain([-1, -1], [0.9, 2]))
    assert measure(boxed, x, [0], ExactLinear(norm), keep=[0, 1]).values[0] == np.inf
    tight = LinearClassifier(model.weight, model.bias, domain=Domain([-1, -1], [1.5, 1.25], [1.0, 0.5]))
    found = measure(tight, x, [0], ExactLinear(norm), keep=[0, 1]).values[0]
    np.testing.assert_allclose(found, {Norm.L1: 3.0, Norm.L2: np.sqrt(5), Norm.LINF: 2.0}[norm], rtol=1e-9)


@pytest.mark.parametrize("keep", [[3, 5], [0, 1, 2, 3, 4], list(range(9))])
@pytest.mark.parametrize("norm", [Norm.L2, Norm.LINF])
def test_certificates_and_attacks_on_a_network_enclose_the_distance_from_a_set(norm, keep):
    module = relu_mlp()
    x, y = some_digits(module)
    lower, upper = (measure(module, x, y, small(name, norm), keep=keep) for name in ("verified", "plumb"))
    np.testing.assert_array_equal(lower.correct, upper.correct)
    np.testing.assert_array_equal(lower.correct, np.isin(as_classifier(module).predict(x), keep))
    assert (lower.values <= upper.values).all()
    assert (lower.values[lower.correct] > 0).mean() > 0.5


def test_a_certificate_of_smoothing_for_a_set_holds_for_the_plurality_vote():
    """Use votes of which A has 60 %, but a class outside has more than any class of A and wins."""
    model = LinearClassifier([[0.0], [0.0], [0.0]], [0.0, 0.0, 0.0])

    class Random(LinearClassifier):
        """Divide the noise into three bands: 35 % and 25 % for the classes of A, 40 % for the other class."""

        def predict(self, x):
            share = np.abs(np.asarray(x)[:, 0] * 1000) % 1
            return np.where(share < 0.35, 0, np.where(share < 0.6, 1, 2))

    bands = Random(model.weight, model.bias)
    found = measure(bands, [[0.0]], [0], ESTIMATORS["smoothing"](draws=2000), keep=[0, 1])
    assert not found.correct[0]
    assert found.values[0] == 0
    single = measure(bands, [[0.0]], [0], ESTIMATORS["smoothing"](draws=2000), keep=[0, 2])
    assert single.correct[0]
    assert 0 < single.values[0] < 0.25 * 0.68  # the limit for one class with 75 % of the votes


def test_smoothing_of_a_linear_model_certifies_and_attacks_both_sides_of_the_exact_distance():
    """Keep two classes of equal direction, so that the smoothed model has the boundary of the model."""
    model = LinearClassifier([[3.0, 4.0], [6.0, 8.0], [0.0, 0.0]], [0.0, -90.0, 5.0])
    x = np.array([[3.0, 4.0], [3.5, 3.8], [0.0, 2.0]])
    exact = measure(model, x, [0, 0, 0], ExactLinear(), keep=[0, 1])
    smoothed = [
        measure(model, x, [0, 0, 0], ESTIMATORS[name](sigma=1.5), keep=[0, 1])
        for name in ("smoothing", "smoothed_attack")
    ]
    assert exact.correct.tolist() == [True, True, True]
    assert all(each.subject == "smoothed(1.5)" for each in smoothed)
    assert (smoothed[0].values <= exact.values).all()
    assert (smoothed[0].values > 0.3 * exact.values).all()
    assert (smoothed[1].values >= exact.values).all()
    assert (smoothed[1].values < 1.5 * exact.values + 0.5).all()


@pytest.mark.parametrize("keep", [(0, 2), (1, 3), (1, 2, 3)])
def test_equal_scores_have_the_class_that_the_model_itself_predicts(keep):
    scores = torch.tensor([[1.0, 1, 0, 1], [0, 1, 1, 0], [0, 0, 2, 2], [3, 0, 0, 3], [0, 5, 5, 5], [1, 1, 1, 1]])
    model = as_classifier(Formula(lambda x: x), classes=range(4), domain=Domain())
    with Kept(model, keep).network((4,)) as network:
        rows = torch.zeros(network.tile, 4)
        rows[: len(scores)] = scores
        kept = network.plain(rows).argmax(dim=1)[: len(scores)] == 0
    inside = np.isin(scores.argmax(dim=1).numpy(), keep)
    np.testing.assert_array_equal(kept.numpy(), inside)
    np.testing.assert_array_equal(Kept(model, keep).predict(scores.numpy()) == 0, inside)


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_a_score_of_a_kept_class_that_is_nan_or_infinite_stays_so(bad):
    model = as_classifier(Formula(lambda x: x), classes=range(3), domain=Domain())
    with Kept(model, (0, 1)).network((3,)) as network:
        rows = torch.ones(network.tile, 3)
        rows[0, 1] = bad
        for scores in (network.plain(rows), network.scores(rows)):
            assert not torch.isfinite(scores[0]).all()
            assert torch.isfinite(scores[1:]).all()


def test_different_sets_have_different_fingerprints():
    model, _, _ = problem()
    prints = {Kept(model, keep).fingerprint() for keep in ((0, 1), (0, 2), (1, 2))} | {model.fingerprint()}
    assert len(prints) == 4


@pytest.mark.parametrize("keep", [["a", "c"], ("c", "a"), {"a", "c"}, np.array(["c", "a"]), ["a", "c", "a"]])
def test_a_set_may_be_given_in_any_container(keep):
    model, _, _ = problem(n=4)
    assert kept_positions(model, keep) == (0, 2)
