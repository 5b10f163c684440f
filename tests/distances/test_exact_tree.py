"""Exact distances of trees agree with brute force over all cells, and every row found is confirmed by the model."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier

import fairmargin as fm
from fairmargin.distances.exact_tree.estimator import ExactTree
from fairmargin.errors import InputError, ModelError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.trees.ensemble import TreeClassifier
from tests.oracles import random_trees, tree_distance

KINDS = {
    "tree": lambda: DecisionTreeClassifier(max_depth=4, random_state=0),
    "forest": lambda: RandomForestClassifier(4, max_depth=3, random_state=0),
    "forest with ties": lambda: RandomForestClassifier(4, random_state=0),
    "extra trees": lambda: ExtraTreesClassifier(3, max_depth=3, random_state=0),
    "boosted": lambda: GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=0),
    "histograms": lambda: HistGradientBoostingClassifier(max_iter=4, max_leaf_nodes=4, min_samples_leaf=3),
    "xgboost": lambda: xgboost().XGBClassifier(n_estimators=4, max_depth=2, n_jobs=1),
    "lightgbm": lambda: lightgbm().LGBMClassifier(
        n_estimators=4, num_leaves=4, min_child_samples=3, verbose=-1, n_jobs=1
    ),
}


def xgboost():
    return pytest.importorskip("xgboost", reason="reads models of XGBoost, which is not installed")


def lightgbm():
    return pytest.importorskip("lightgbm", reason="reads models of LightGBM, which is not installed")


every_kind = pytest.mark.parametrize("kind", KINDS)


def random_problem(kind: str, seed: int) -> tuple[TreeClassifier, np.ndarray, np.ndarray]:
    """A fitted ensemble with a random domain, test rows inside the domain, and the model's own classes of them."""
    rng = np.random.default_rng(seed)
    features, classes, count = rng.integers(1, 4), rng.integers(2, 4), rng.integers(8, 40)
    x = rng.normal(size=(count, features))
    x = np.round(x, rng.integers(0, 3)) if rng.random() < 0.5 else x
    y = np.append(np.arange(classes), rng.integers(0, classes, count - classes))
    domain = fm.Domain(
        low=np.where(rng.random(features) < 0.3, -1, -np.inf),
        high=np.where(rng.random(features) < 0.3, 1.5, np.inf),
        scale=np.where(rng.random(features) < 0.15, 0, rng.choice([0.5, 1, 2], features)),
    )
    lacking = rng.random() < 0.5 and as_classifier(KINDS[kind]().fit(x, y)).accepts_missing
    if lacking:
        x = np.where(rng.random(x.shape) < 0.2, np.nan, x)
    model = as_classifier(KINDS[kind]().fit(x, y), domain=domain)
    rows = np.clip(np.round(rng.normal(size=(5, features)), 2), np.maximum(domain.low, -9), np.minimum(domain.high, 9))
    if lacking:
        rows = np.where(rng.random(rows.shape) < 0.2, np.nan, rows)
    assert isinstance(model, TreeClassifier)
    return model, rows, np.array(model.classes)[model.predict(rows)]


def assert_equals_brute_force(kind: str, seeds: range) -> None:
    for seed in seeds:
        model, rows, labels = random_problem(kind, seed)
        for norm in (fm.Norm.LINF, fm.Norm.L1, fm.Norm.L2):
            found = fm.measure(model, rows, labels, ExactTree(norm))
            expected = [tree_distance(model, row, model.predict(row[None]), norm) for row in rows]
            np.testing.assert_allclose(found.values, expected, rtol=1e-12, atol=0, err_msg=f"seed {seed}, {norm}")
            assert found.bound is fm.Bound.EXACT


@every_kind
def test_distances_equal_brute_force_in_every_norm(kind: str) -> None:
    assert_equals_brute_force(kind, range(12))


@pytest.mark.slow
@every_kind
def test_distances_of_many_ensembles_equal_brute_force(kind: str) -> None:
    assert_equals_brute_force(kind, range(1000, 1500))


@every_kind
def test_the_row_found_is_inside_the_domain_at_the_distance_and_gets_another_class(kind: str) -> None:
    for seed in range(20):
        model, rows, labels = random_problem(kind, seed)
        found = fm.measure(model, rows, labels, ExactTree(fm.Norm.L1))
        points = fm.nearest(model, rows, labels, ExactTree(fm.Norm.L1))
        reached = np.isfinite(found.values)
        assert np.isnan(points[~reached]).all()
        if not reached.any():
            continue
        low, high, scale = model.domain.flat(model.features)
        lacking = np.isnan(rows)
        assert np.isnan(points[reached][lacking[reached]]).all()
        moved = np.where(lacking, 0.0, np.abs(points - rows))[reached]
        assert (moved[:, scale == 0] == 0).all()
        assert ((points[reached] >= low) & (points[reached] <= high) | (moved == 0)).all()
        lengths = np.divide(moved, scale, out=np.zeros_like(moved), where=scale > 0).sum(axis=1)
        np.testing.assert_allclose(lengths, found.values[reached], rtol=1e-12)
        assert (np.array(model.classes)[model.predict(points[reached])] != labels[reached]).all()


@every_kind
def test_the_trees_that_are_read_give_the_scores_of_the_library(kind: str) -> None:
    rng = np.random.default_rng(0)
    for classes in (2, 3):
        x, y = rng.normal(size=(200, 4)), np.append(np.arange(classes), rng.integers(0, classes, 200 - classes))
        original = KINDS[kind]().fit(x, y)
        model = as_classifier(original)
        thresholds = np.concatenate(model.ensemble.thresholds(4))
        samples = np.concatenate([rng.normal(size=(500, 4)), rng.choice(thresholds, (500, 4))])
        samples = np.concatenate([samples, np.nextafter(samples, -np.inf)])  # on both sides of every threshold
        if model.accepts_missing:
            samples[::3, 1] = np.nan
        scores = model.ensemble.scores(samples)
        if kind == "xgboost":
            expected = original.predict(samples, output_margin=True)
            ours = scores[:, 1] if classes == 2 else scores
        elif hasattr(original, "decision_function"):
            expected = original.decision_function(samples)
            ours = scores[:, 1] - scores[:, 0] if classes == 2 else scores
        else:
            expected, ours = original.predict_proba(samples), scores / model.ensemble.divisor
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-12)


def test_a_row_that_exceeds_the_budget_gets_an_upper_bound() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 6))
    model = as_classifier(RandomForestClassifier(30, random_state=0).fit(x, (x.sum(axis=1) > 0).astype(int)))
    labels = model.predict(x[:30])
    exact = fm.measure(model, x[:30], labels, ExactTree())
    few = fm.measure(model, x[:30], labels, ExactTree(boxes=40))
    assert exact.bound is fm.Bound.EXACT
    assert few.bound is fm.Bound.UPPER
    assert (few.values >= exact.values).all()
    unfinished = np.isinf(few.values)
    assert (few.tried[unfinished] <= exact.values[unfinished]).all()


def test_a_row_that_no_admissible_change_can_move_has_no_distance() -> None:
    tree = DecisionTreeClassifier().fit([[0.0, 5.0], [1.0, 5.0]], [0, 1])
    model = as_classifier(tree, domain=fm.Domain(low=[-1, 0], high=[0.4, 9]))
    found = fm.measure(model, [[0.0, 5.0]], [0], ExactTree())
    assert np.isinf(found.values).all()
    assert np.isinf(found.tried).all()  # proven


def test_misclassified_rows_have_distance_0_and_a_kept_class_is_left() -> None:
    tree = DecisionTreeClassifier().fit([[0.0], [1.0], [3.0]], ["a", "b", "c"])
    assert fm.measure(tree, [[0.0]], ["b"], ExactTree()).values.tolist() == [0.0]
    kept = fm.measure(tree, [[1.0], [3.0]], ["b", "c"], ExactTree(), keep="b")
    np.testing.assert_allclose(kept.values, [0.5, 0.0], rtol=1e-6)


@pytest.mark.parametrize("norm", [fm.Norm.LINF, fm.Norm.L1, fm.Norm.L2])
@pytest.mark.parametrize("keep", [(0, 2), (1, 3), (1, 2, 3)])
def test_the_distance_from_a_set_of_classes_equals_brute_force(norm: fm.Norm, keep: tuple[int, ...]) -> None:
    for seed in range(5):
        model, rows = random_trees(np.random.default_rng(seed), 12, 3, 4, fm.Domain(0, 1), trees=4)
        inside = np.isin(model.predict(rows), keep)
        found = fm.measure(model, rows, model.predict(rows), ExactTree(norm), keep=keep)
        expected = [tree_distance(model, row, keep, norm) for row in rows[inside]]
        np.testing.assert_allclose(found.values[inside], expected, rtol=1e-12)
        assert (found.values[~inside] == 0).all()


def test_a_distance_does_not_depend_on_the_batch_and_a_classifier_can_be_sent_to_a_worker() -> None:
    model, rows, labels = random_problem("forest", 3)
    together = fm.measure(model, rows, labels, ExactTree()).values
    sent = pickle.loads(pickle.dumps(model))
    assert sent.fingerprint() == model.fingerprint()
    for i in range(len(rows)):
        alone = fm.measure(sent, rows[i : i + 1], labels[i : i + 1], ExactTree()).values
        np.testing.assert_array_equal(alone, together[i : i + 1])


WORKER = """
import pickle, sys
import numpy as np
from fairmargin.distances.exact_tree import atoms, boxes, cells, search
from fairmargin.distances.exact_tree.estimator import ExactTree
model, rows = pickle.load(open(sys.argv[1], "rb"))
ExactTree().find(model, rows, model.predict(rows), keys=None)
print(sum(len(each.stats.cache_misses) for each in (atoms.find_atoms, boxes.most_below, cells._depth, search.search)))
"""


def test_a_worker_finds_the_machine_code_that_another_process_compiled(tmp_path) -> None:
    model, rows, labels = random_problem("forest", 3)
    fm.measure(model, rows, labels, ExactTree())
    path = tmp_path / "model.pickle"
    path.write_bytes(pickle.dumps((model, rows)))
    done = subprocess.run([sys.executable, "-c", WORKER, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"]


FINGERPRINT = """
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from fairmargin.errors import ModelError
from fairmargin.models.as_classifier import as_classifier
x = np.random.default_rng(0).normal(size=(60, 3))
print(as_classifier(RandomForestClassifier(5, random_state=0).fit(x, x[:, 0] > 0)).fingerprint())
"""


def test_fingerprints_are_the_same_in_another_process() -> None:
    done = [
        subprocess.run([sys.executable, "-c", FINGERPRINT], capture_output=True, text=True, check=True) for _ in "ab"
    ]
    assert done[0].stdout == done[1].stdout


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (RandomForestClassifier, "is not fitted"),
        (
            lambda: GradientBoostingClassifier(init=DecisionTreeClassifier()).fit([[0.0], [1.0]] * 9, [0, 1] * 9),
            "`init`",
        ),
        (lambda: DecisionTreeClassifier().fit([[0.0], [1.0]], [[0, 1], [1, 0]]), "2 outputs"),
        (
            lambda: HistGradientBoostingClassifier(categorical_features=[0]).fit(
                np.eye(2)[:, :1].repeat(30, axis=0), [0, 1] * 30
            ),
            "trained on categories",
        ),
    ],
)
def test_models_that_cannot_be_read_are_refused_in_a_sentence(model, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        as_classifier(model())


def test_a_linear_model_and_a_network_have_no_trees() -> None:
    with pytest.raises(ModelError, match="its trees, and works on decision trees"):
        fm.measure(([1.0], 0.0), [[1.0]], [1], ExactTree())


def test_audit_model_measures_a_forest_exactly_by_default() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    y = (x[:, 0] > 0).astype(int)
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(x, y)
    record = fm.audit_model(model, x, y, groups=np.where(x[:, 1] > 0, "a", "b"), progress=False)
    assert record["group"].bound is fm.Bound.EXACT
    assert record.results[0].about.estimator == "exact_tree"


def test_audit_model_measures_rows_with_missing_values_if_the_model_accepts_them() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    groups, y = np.where(x[:, 1] > 0, "a", "b"), (x[:, 0] > 0).astype(int)
    x[::7, 1] = np.nan
    model = HistGradientBoostingClassifier(max_iter=10).fit(x, y)
    record = fm.audit_model(model, x, y, groups=groups, training_data=x[:60], max_samples=90, progress=False)
    assert record["group"].bound is fm.Bound.EXACT
    other = GradientBoostingClassifier(n_estimators=3).fit(np.nan_to_num(x), y)
    with pytest.raises(InputError, match="holds NaN"):
        fm.audit_model(other, x, y, groups=groups, progress=False)
