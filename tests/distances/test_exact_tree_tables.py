"""Exact distances of trees on tables agree with brute force over all values, and keep all rules of the columns."""

import numpy as np
import pytest

import fairmargin as fm
from fairmargin.distances.exact_tree.estimator import ExactTree
from tests.distances.tables_of_trees import distance_of_row, random_table

NORMS = (fm.Norm.LINF, fm.Norm.L1, fm.Norm.L2)


def assert_equals_brute_force(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        model, rows = random_table(rng, classes=2 + seed % 2, shared=seed % 5 == 0)
        own = model.predict(rows)
        for norm in NORMS:
            found = ExactTree(norm).find(model, rows, own, keys=None)
            expected = [distance_of_row(model, row, own[i], norm) for i, row in enumerate(rows)]
            np.testing.assert_allclose(
                found.distances.values, expected, rtol=1e-12, atol=0, err_msg=f"seed {seed}, {norm}"
            )
            assert found.distances.bound is fm.Bound.EXACT, f"seed {seed}, {norm}"
            assert_keeps_the_rules(model, rows, found, norm)


def assert_keeps_the_rules(model, rows, found, norm) -> None:
    """Assert that every row found keeps all rules, costs its distance, and leaves its class."""
    reached = np.isfinite(found.distances.values)
    rows, points, values = rows[reached], found.points[reached], found.distances.values[reached]
    columns = model.domain.columns
    for column, old, new in zip(columns, rows.T, points.T, strict=True):
        assert column.allows(old, new).all()
    costs = [column.cost_of(old, new) for column, old, new in zip(columns, rows.T, points.T, strict=True)]
    np.testing.assert_allclose(norm.length(np.column_stack(costs)), values, rtol=1e-12, atol=0)
    assert (model.predict(points) != model.predict(rows)).all()


def test_distances_of_random_ensembles_on_tables_equal_brute_force_in_every_norm() -> None:
    assert_equals_brute_force(range(500))


def test_a_row_over_budget_gets_a_bracket_that_holds_its_distance() -> None:
    unfinished = 0
    for seed in range(150):
        model, rows = random_table(np.random.default_rng(seed), classes=2 + seed % 2)
        own = model.predict(rows)
        for norm in NORMS:
            exact = ExactTree(norm).find(model, rows, own, keys=None).distances
            few = ExactTree(norm, boxes=1 + seed % 4).find(model, rows, own, keys=None).distances
            over = few.tried < few.values
            assert (few.values[~over] == exact.values[~over]).all()
            assert (few.tried[over] <= exact.values[over]).all()
            assert (exact.values <= few.values).all()
            assert few.bound is (fm.Bound.UPPER if over.any() else fm.Bound.EXACT)
            unfinished += over.sum()
    assert unfinished > 50


@pytest.mark.slow
def test_distances_of_many_ensembles_on_tables_equal_brute_force() -> None:
    assert_equals_brute_force(range(1000, 4000))
