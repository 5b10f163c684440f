"""Exact distances of trees on tables agree with Veritas and with a mixed-integer program solved by HiGHS."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_array
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from veritas_trees import veritas_trees

import fairmargin as fm
from fairmargin.models.trees.ensemble import LEAF, NO_SET

EQUAL = 1e-9
CATEGORIES = ("sex", "occupation", "education", "owns_home")
RULES = {"sex": fm.Column(immutable=True), "age": fm.Column(direction="up"), "education": fm.Column(cost=0.7)}
PEOPLE = fm.make_applicants(500, seed=3)
X, Y = PEOPLE.drop(columns="granted"), PEOPLE["granted"]
NATIVE = X.astype(dict.fromkeys(CATEGORIES, "category"))


def encoded(model):
    encode = make_column_transformer(
        (OneHotEncoder(sparse_output=False), make_column_selector(dtype_exclude="number")), remainder="passthrough"
    )
    return make_pipeline(encode, model), X.fillna({"savings": 0.0})


MODELS = {
    "boosting": lambda: encoded(GradientBoostingClassifier(n_estimators=12, random_state=0)),
    "extra trees": lambda: encoded(ExtraTreesClassifier(9, max_depth=4, random_state=0)),
    "native categories": lambda: (HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=8), NATIVE),
}


def measured(name, norm, rules):
    """Return the classifier, six coded rows and their exact distances; the rows are classified correctly."""
    model, table = MODELS[name]()
    classifier = fm.as_classifier(model.fit(table[:400], Y[:400]), columns=rules, training_data=table[:400])
    rows = table[400:].dropna()[:6]
    distances = fm.measure(classifier, rows, model.predict(rows), fm.ESTIMATORS["exact_tree"](norm=norm))
    assert distances.bound is fm.Bound.EXACT
    return classifier, classifier.encode(rows), distances.values


# Veritas knows no steps, ranges, directions and categories.
NUMBERS_ONLY = dict.fromkeys(CATEGORIES, fm.Column(immutable=True)) | {
    name: fm.Column(step=0.0, low=-1e9, high=1e9) for name in X if name not in CATEGORIES
}


@pytest.mark.parametrize("name", MODELS)
def test_veritas_finds_points_just_beyond_the_distance_and_proves_that_there_are_none_before_it(name):
    pytest.importorskip("veritas", reason="dtai-veritas is not installed")
    classifier, rows, values = measured(name, "linf", NUMBERS_ONLY)
    asked = veritas_trees(classifier.ensemble, np.array([column.unit for column in classifier.domain.columns]))
    assert np.isfinite(values).any()
    for row, own, value in zip(rows, classifier.predict(rows), values, strict=True):
        radius = value if np.isfinite(value) else 1e3
        assert asked.can_change(row, int(own), radius * (1 + EQUAL)) == np.isfinite(value)
        assert not asked.can_change(row, int(own), radius * (1 - EQUAL))


def cheapest_values(column, begins, row):
    """Return the cost of the cheapest admissible value of each cell, and whether there is one. Brute force."""
    ends = np.append(begins[1:], np.inf)
    if column.immutable:
        candidates = np.array([row])
    elif column.step:
        steps = np.arange(np.ceil((column.low - row) / column.step), np.floor((column.high - row) / column.step) + 1)
        candidates = row + column.step * steps
    else:
        raise AssertionError("the columns of this test have steps")
    if column.direction == "up":
        candidates = candidates[candidates >= row]
    candidates = np.append(candidates, row)
    inside = (candidates >= begins[:, None]) & (candidates < ends[:, None])
    return np.where(inside, np.abs(candidates - row) / column.unit, np.inf).min(axis=1)


def solved(classifier, row, own, norm):
    """Return the distance as the solution of a mixed-integer program: one choice per column, one leaf per tree."""
    trees, columns = classifier.ensemble, classifier.domain.columns
    costs, begins = [], []
    for place, column in enumerate(columns):
        if column.is_number:
            here = trees.feature == place
            begins.append(np.append(-np.inf, np.unique(trees.first_right[here][np.isfinite(trees.first_right[here])])))
            costs.append(cheapest_values(column, begins[-1], row[place]))
        else:
            count = len(column.categories)
            switch = np.where(np.arange(count) == row[place], 0.0, np.inf if column.immutable else column.cost)
            begins.append(np.arange(count))
            costs.append(np.where(np.isin(np.arange(count), (*column.reachable, row[place])), switch, np.inf))
    first = np.cumsum([0, *map(len, costs)])
    leaves, boxes = [], []

    def walk(tree, node, box):
        if trees.feature[node] == LEAF:
            leaves.append(float(trees.value[node, 1 - own] - trees.value[node, own]))
            boxes.append((tree, box))
            return
        f = int(trees.feature[node])
        if trees.set_of[node] != NO_SET:
            row_of = trees.sets[trees.set_of[node]]
            left = np.array([row_of[k] if k < len(row_of) else trees.missing_left[node] for k in begins[f]], dtype=bool)
        else:
            left = begins[f] < trees.first_right[node]
        for child, side in ((trees.left[node], left), (trees.right[node], ~left)):
            kept = box.get(f, np.ones(len(left), dtype=bool)) & side
            if kept.any():
                walk(tree, int(child), box | {f: kept})

    for tree in range(len(trees.roots)):
        walk(tree, int(trees.roots[tree]), {})
    choices, total = int(first[-1]), int(first[-1]) + len(leaves) + 1
    rows, lows, highs = [], [], []

    def condition(terms, low, high):
        rows.append(terms)
        lows.append(low)
        highs.append(high)

    for start, stop in pairwise(first):
        condition(dict.fromkeys(range(start, stop), 1.0), 1, 1)
    for tree in range(len(trees.roots)):
        condition({choices + i: 1.0 for i, (which, _) in enumerate(boxes) if which == tree}, 1, 1)
    for i, (_, box) in enumerate(boxes):
        for f, kept in box.items():
            condition({choices + i: -1.0} | {int(first[f] + k): 1.0 for k in np.flatnonzero(kept)}, 0, np.inf)
    start = float(trees.start[1 - own] - trees.start[own])
    condition({choices + i: value for i, value in enumerate(leaves)}, 1e-9 - start, np.inf)
    cost, upper = np.concatenate(costs), np.ones(total)
    upper[:choices] = np.isfinite(cost)
    upper[-1] = np.inf
    cost = np.where(np.isfinite(cost), cost, 0.0)
    objective = np.zeros(total)
    if norm == "l1":
        objective[:choices] = cost
    else:
        objective[-1] = 1.0
        for begin, stop in pairwise(first):
            condition({total - 1: 1.0} | {k: -cost[k] for k in range(begin, stop)}, 0, np.inf)
    matrix = lil_array((len(rows), total))
    for i, terms in enumerate(rows):
        for k, value in terms.items():
            matrix[i, k] = value
    whole = np.append(np.ones(choices), np.zeros(total - choices))
    found = milp(
        objective,
        integrality=whole,
        bounds=Bounds(np.zeros(total), upper),
        constraints=LinearConstraint(matrix.tocsr(), lows, highs),
        options={"mip_rel_gap": 0.0},
    )
    return found.fun if found.status == 0 else np.inf


@pytest.mark.parametrize("norm", ["l1", "linf"])
@pytest.mark.parametrize("name", MODELS)
def test_a_mixed_integer_program_has_the_same_solution(name, norm):
    classifier, rows, values = measured(name, norm, RULES)
    own = classifier.predict(rows)
    expected = [solved(classifier, row, int(label), norm) for row, label in zip(rows, own, strict=True)]
    np.testing.assert_allclose(values, expected, rtol=EQUAL, atol=EQUAL)
