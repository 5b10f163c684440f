import numpy as np
import pytest

from fairmargin.core.bound import Bound
from fairmargin.core.column import TableColumn
from fairmargin.core.norm import Norm
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.errors import ModelError
from fairmargin.models.kept_classes import Kept
from tests.distances.confirmation import assert_independent_of_the_batch
from tests.distances.linear_problems import (
    CURVES,
    OneHot,
    classifier_of,
    enumerated,
    random_column,
    random_problem,
    random_rows,
    scanned,
)

NORMS = pytest.mark.parametrize("norm", list(Norm), ids=str)


def found_by(model, rows, y, norm):
    return ExactLinear(norm).find(model, rows, y, keys=np.zeros(len(rows), np.uint64))


def costs(model, rows, points):
    return np.stack([each.cost_of(rows[:, i], points[:, i]) for i, each in enumerate(model.coding.columns)], axis=1)


def assert_rules_are_kept(model, rows, found, own, norm):
    values = found.distances.values
    reached = np.isfinite(values)
    points, rows, own = found.points[reached], rows[reached], own[reached]
    for place, column in enumerate(model.coding.columns):
        assert column.allows(rows[:, place], points[:, place]).all(), column
    assert (model.predict(points) != own).all()
    np.testing.assert_array_equal(values[reached], norm.length(costs(model, rows, points)))
    assert np.isnan(found.points[~reached]).all()


def assert_agrees_with_enumeration(rng, norm, classes, **settings):
    model, rows = random_problem(rng, classes=classes, **settings)
    own = model.predict(rows)
    found = found_by(model, rows, own, norm)
    expected = [enumerated(model, row, label, norm) for row, label in zip(rows, own, strict=True)]
    single = any(each.single and not each.step for each in model.coding.columns)
    np.testing.assert_allclose(found.distances.values, expected, rtol=1e-5 if single else 1e-9, atol=1e-12)
    assert found.distances.bound is Bound.EXACT
    assert_rules_are_kept(model, rows, found, own, norm)


@NORMS
@pytest.mark.parametrize("classes", [2, 3])
def test_distances_are_those_of_an_enumeration_of_all_rows(norm, classes):
    for seed in range(60):
        assert_agrees_with_enumeration(np.random.default_rng([seed, classes]), norm, classes)


@NORMS
@pytest.mark.parametrize("classes", [2, 3])
def test_functions_of_numbers_agree_with_an_enumeration_of_all_rows(norm, classes):
    for seed in range(40):
        rng = np.random.default_rng([seed, classes, 7])
        assert_agrees_with_enumeration(rng, norm, classes, curved=True, free=False, dyadic=False)


@pytest.mark.slow
@NORMS
@pytest.mark.parametrize("classes", [2, 3])
def test_many_distances_are_those_of_an_enumeration_of_all_rows(norm, classes):
    for seed in range(60, 1060):
        assert_agrees_with_enumeration(np.random.default_rng([seed, classes]), norm, classes)
    for seed in range(40, 540):
        rng = np.random.default_rng([seed, classes, 7])
        assert_agrees_with_enumeration(rng, norm, classes, curved=True, free=False, dyadic=False)


def assert_agrees_with_a_scan(rng, norm):
    model, rows = random_problem(rng, curved=True, free=True, dyadic=False)
    own = model.predict(rows)
    found = found_by(model, rows, own, norm)
    expected = np.array([scanned(model, row, label, norm) for row, label in zip(rows, own, strict=True)])
    tolerance = 1e-5 if model.coding.columns[0].single else 1e-8
    np.testing.assert_allclose(found.distances.values, expected, rtol=tolerance, atol=1e-9)
    assert (found.distances.tried <= expected * (1 + tolerance) + 1e-9).all()
    exact = found.distances.tried >= found.distances.values * (1 - 1e-8) - 1e-9
    assert exact.mean() > 0.9
    assert_rules_are_kept(model, rows, found, own, norm)


@NORMS
def test_functions_of_numbers_that_may_take_any_value_agree_with_a_fine_scan(norm):
    for seed in range(25):
        assert_agrees_with_a_scan(np.random.default_rng([seed, 9]), norm)


@pytest.mark.slow
@NORMS
def test_many_functions_of_numbers_that_may_take_any_value_agree_with_a_fine_scan(norm):
    for seed in range(25, 300):
        assert_agrees_with_a_scan(np.random.default_rng([seed, 9]), norm)


@NORMS
@pytest.mark.parametrize("curved", [False, True])
def test_a_distance_does_not_depend_on_the_other_rows(norm, curved):
    rng = np.random.default_rng(3)
    columns = [random_column(rng, f"c{i}", free=i == 0) for i in range(4)]
    curves = tuple(str(rng.choice(list(CURVES))) if curved else "" for _ in columns)
    features = sum(map(len, OneHot(tuple(columns), curves).shapes))
    model = classifier_of(columns, rng.normal(size=(3, features)), rng.normal(size=3), curves)
    rows = random_rows(rng, columns, 40)

    def measured(x, y):
        found = found_by(model, x, y, norm)
        return np.column_stack([found.distances.values, found.points])

    assert_independent_of_the_batch(measured, rows, model.predict(rows))


def number(name="n", **rules):
    return TableColumn(name, "number", **{"low": 0.0, "high": 10.0, **rules})


def test_values_on_a_grid_are_numbers_with_few_decimals():
    model = classifier_of([number(step=0.1)], [[0.0], [1.0]], [0.0, -0.25])
    found = found_by(model, np.array([[0.1]]), np.array([0]), Norm.L1)
    assert found.points.tolist() == [[0.3]]
    assert found.distances.values.tolist() == [abs(0.3 - 0.1)]


def test_a_later_class_must_be_ahead_and_an_earlier_one_need_only_tie():
    columns = [number(step=1.0)]
    rising, falling = classifier_of(columns, [[0], [1]], [0, -4]), classifier_of(columns, [[0], [1]], [0, -2])
    assert found_by(rising, np.array([[1.0]]), np.array([0]), Norm.L1).points.tolist() == [[5.0]]
    assert found_by(falling, np.array([[5.0]]), np.array([1]), Norm.L1).points.tolist() == [[2.0]]


def test_a_misclassified_row_has_distance_0_and_is_its_own_nearest_row():
    model = classifier_of([number()], [[0.0], [1.0]], [0.0, -4.0])
    found = found_by(model, np.array([[5.0], [3.0]]), np.array([0, 0]), Norm.L2)
    np.testing.assert_allclose(found.distances.values, [0.0, 1.0])
    assert found.distances.correct.tolist() == [False, True]
    assert found.points[0].tolist() == [5.0]


def test_the_search_that_is_given_up_brackets_the_distance(monkeypatch):
    rng = np.random.default_rng(0)
    columns = [number(f"n{i}", step=1.0, unit=float(rng.uniform(1, 3))) for i in range(12)]
    model = classifier_of(columns, np.stack([np.zeros(12), rng.normal(size=12)]), [0.0, 0.1])
    rows = rng.integers(0, 11, size=(20, 12)).astype(float)
    own = model.predict(rows)
    exact = found_by(model, rows, own, Norm.L2).distances
    monkeypatch.setattr("fairmargin.distances.linear_tables.solver.NODES", 3)
    found = found_by(model, rows, own, Norm.L2)
    assert exact.bound is Bound.EXACT
    assert found.distances.bound is Bound.UPPER
    assert (found.distances.tried <= exact.values * (1 + 1e-12)).all()
    assert (found.distances.values >= exact.values * (1 - 1e-12)).all()
    assert (found.distances.tried < found.distances.values).any()
    assert_rules_are_kept(model, rows, found, own, Norm.L2)


def test_a_function_of_a_number_without_limits_is_refused_by_name():
    model = classifier_of([number("wage", low=-np.inf)], [[0.0], [1.0]], [0.0, -4.0], ("cube",))
    with pytest.raises(ModelError, match="'wage' enters the model by a function that is not affine"):
        found_by(model, np.array([[1.0]]), np.array([0]), Norm.L1)


def assert_leaving_several_agrees_with_enumeration(rng, norm, classes, kept):
    model, rows = random_problem(rng, classes=classes)
    inside = np.isin(model.predict(rows), kept)
    found = found_by(Kept(model, kept), rows, np.zeros(len(rows), dtype=int), norm)
    expected = [
        enumerated(model, row, None, norm, kept=kept) if within else 0.0
        for row, within in zip(rows, inside, strict=True)
    ]
    single = any(each.single and not each.step for each in model.coding.columns)
    np.testing.assert_allclose(found.distances.values, expected, rtol=1e-5 if single else 1e-7, atol=1e-8)
    assert found.distances.bound is Bound.EXACT
    np.testing.assert_array_equal(found.distances.correct, inside)
    reached = np.isfinite(expected) & inside
    for place, column in enumerate(model.coding.columns):
        assert column.allows(rows[reached, place], found.points[reached, place]).all()
    assert not reached.any() or not np.isin(model.predict(found.points[reached]), kept).any()


@NORMS
@pytest.mark.parametrize(("classes", "kept"), [(3, (0, 1)), (4, (0, 2))])
def test_distances_to_leave_several_classes_are_those_of_an_enumeration(norm, classes, kept):
    for seed in range(25):
        assert_leaving_several_agrees_with_enumeration(np.random.default_rng([seed, 11]), norm, classes, kept)


@pytest.mark.slow
@NORMS
@pytest.mark.parametrize(("classes", "kept"), [(3, (0, 1)), (4, (0, 2)), (5, (0, 1, 4))])
def test_many_distances_to_leave_several_classes_are_those_of_an_enumeration(norm, classes, kept):
    for seed in range(25, 400):
        assert_leaving_several_agrees_with_enumeration(np.random.default_rng([seed, 11]), norm, classes, kept)


@NORMS
def test_a_rival_must_lead_all_classes_to_keep_at_once(norm):
    # Class 2 leads class 0 where a > 2, and class 1 where b > 3.
    columns = [number("a", step=1.0), number("b", step=1.0)]
    model = classifier_of(columns, [[0, 1], [1, 0], [1, 1]], [2.5, 3.5, 0.5])
    found = found_by(Kept(model, (0, 1)), np.array([[0.0, 0.0]]), np.array([0]), norm)
    assert found.points.tolist() == [[3.0, 4.0]]
    assert found.distances.values.tolist() == [float(norm.length(np.array([3.0, 4.0])))]


@NORMS
def test_a_column_with_almost_no_slope_is_not_pushed_to_its_limit_for_the_last_bits(norm):
    columns = [number("weak", unit=1e-5, low=-2.4e-5, high=2e-5), number("strong", unit=40.0, low=-80, high=90)]
    # The scores are far larger than their difference, so that rounding matters more than the weak column does.
    model = classifier_of(columns, [[0.0, 0.0], [-8e-10, -0.03]], [0.0, 1.384])
    rows = np.array([[5e-6, 88.1], [-1e-6, 60.3]])
    found = found_by(model, rows, model.predict(rows), norm)
    needed = (rows[:, 1] - 1.384 / 0.03) / 40
    np.testing.assert_allclose(found.distances.values, needed, rtol=1e-6)
