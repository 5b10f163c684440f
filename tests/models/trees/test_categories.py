"""Splits by categories are read without changing a decision; features are codes, as the trees see them."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from fairmargin.errors import ModelError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.loading import load_model
from fairmargin.models.trees.lightgbm_trees import from_lightgbm
from fairmargin.models.trees.sklearn_trees import from_sklearn_trees
from fairmargin.models.trees.xgboost_trees import from_xgboost
from tests.distances.test_exact_tree import lightgbm, xgboost


def problem(classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two numbers, codes below 5 and codes below 40, of which some are missing."""
    rng = np.random.default_rng(seed)
    x = np.stack(
        [rng.normal(size=900), rng.integers(0, 5, 900), rng.normal(size=900), rng.integers(0, 40, 900)], axis=1
    )
    lucky = np.isin(x[:, 1], (0, 3)) + (rng.random(40) < 0.5)[x[:, 3].astype(int)] + (x[:, 0] > 0.5)
    score = lucky + 0.3 * x[:, 2] + 0.3 * rng.normal(size=900)
    x[rng.random((900, 4)) < 0.1] = np.nan
    return x, np.searchsorted(np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1]), score)


def samples(x: np.ndarray) -> np.ndarray:
    """Rows with all codes, with codes that were not in the training data, and with numbers that are no codes."""
    rng = np.random.default_rng(1)
    rows = rng.choice(x, 3000) + 0.01 * rng.normal(size=(3000, 4)) * [1, 0, 1, 0]
    rows[:, 3] = np.where(rng.random(3000) < 0.3, rng.integers(-3, 300, 3000), rows[:, 3])
    rows[:, 1] = np.where(rng.random(3000) < 0.1, rng.choice([-1, 0.5, 4.9, 5, 6, 31, 32, 40, 1e9], 3000), rows[:, 1])
    rows[rng.random((3000, 4)) < 0.05] = np.nan
    return rows


BOOSTED = {"n_estimators": 15, "max_depth": 4, "n_jobs": 1, "tree_method": "hist"}
LIGHT = {"n_estimators": 15, "num_leaves": 12, "n_jobs": 1, "verbose": -1, "min_data_per_group": 5, "cat_smooth": 1.0}


def boosted(x, y, **settings):
    kinds = {"feature_types": ["q", "c", "q", "c"], "enable_categorical": True}
    return xgboost().XGBClassifier(**BOOSTED, **kinds, **settings).fit(x, y)


def light(x, y, **settings):
    return lightgbm().LGBMClassifier(**LIGHT, **settings).fit(x, y, categorical_feature=[1, 3])


KINDS = {
    "xgboost, one category against the rest": lambda x, y: boosted(x, y, max_cat_to_onehot=100),
    "xgboost, sets of categories": lambda x, y: boosted(x, y, max_cat_to_onehot=1),
    "xgboost, small sets": lambda x, y: boosted(x, y, max_cat_to_onehot=1, max_cat_threshold=2),
    "lightgbm": light,
    "lightgbm, one category against the rest": lambda x, y: light(x, y, max_cat_to_onehot=100),
    "lightgbm, dart": lambda x, y: light(x, y, boosting_type="dart"),
    "lightgbm, missing as other numbers": lambda x, y: light(x, y, use_missing=False),
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_no_decision_differs_for_any_code(kind: str, classes: int) -> None:
    x, y = problem(classes)
    original = KINDS[kind](x, y)
    model = (from_xgboost if kind.startswith("xgboost") else from_lightgbm)(original)
    assert model.reads_categories
    assert (model.ensemble.set_of >= 0).sum() > 10
    rows = samples(x)
    np.testing.assert_array_equal(model.ensemble.decisions(rows), original.predict(rows))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_a_booster_and_its_file_have_the_decisions_of_the_wrapper(library: str, classes: int, tmp_path) -> None:
    x, y = problem(classes)
    if library == "xgboost":
        original, path, read = boosted(x, y, max_cat_to_onehot=1), tmp_path / "model.json", from_xgboost
        booster = original.get_booster()
    else:
        original, path, read = light(x, y), tmp_path / "model.txt", from_lightgbm
        booster = original.booster_
    booster.save_model(path)
    rows, expected = samples(x), read(original)
    for each in (booster, load_model(str(path))):
        model = read(each)
        assert model.ensemble.fingerprint() == expected.ensemble.fingerprint()
        assert model.reads_categories
        np.testing.assert_array_equal(model.positions(each, rows), original.predict(rows))


@pytest.mark.parametrize("classes", [2, 3])
def test_histogram_boosting_reads_the_features_after_its_own_preprocessor(classes: int) -> None:
    x, y = problem(classes)
    original = HistGradientBoostingClassifier(max_iter=15, categorical_features=[1, 3], random_state=0).fit(x, y)
    ensemble = from_sklearn_trees(original).ensemble
    assert (ensemble.set_of >= 0).sum() > 10
    assert set(ensemble.feature[ensemble.set_of >= 0]) == {0, 1}  # moved before the numbers
    rows = samples(x)
    np.testing.assert_array_equal(ensemble.decisions(original._preprocessor.transform(rows)), original.predict(rows))


@pytest.mark.parametrize("make", [boosted, light], ids=["xgboost", "lightgbm"])
def test_codes_have_no_distances_without_the_table(make) -> None:
    model = make(*problem(2))
    with pytest.raises(ModelError, match="was trained on categories"):
        as_classifier(model)
    moved = HistGradientBoostingClassifier(max_iter=2, categorical_features=[1]).fit(*problem(2))
    with pytest.raises(ModelError, match="HistGradientBoostingClassifier was trained on categories"):
        as_classifier(moved)
