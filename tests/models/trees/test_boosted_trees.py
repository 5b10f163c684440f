"""Models of XGBoost and LightGBM are read without changing a decision, or refused in a sentence."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import fairmargin as fm
from fairmargin.errors import ModelError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.loading import load_model
from tests.distances.test_exact_tree import lightgbm, xgboost


def problem(classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of which one column has missing values, one is mostly 0, and one has single-precision values."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(600, 5))
    x[:, 1] = np.where(rng.random(600) < 0.2, np.nan, x[:, 1])
    x[:, 2] = np.where(rng.random(600) < 0.7, 0.0, x[:, 2])
    x[:, 3] = x[:, 3].astype(np.float32)
    x[:, 4] = rng.integers(0, 5, 600)
    score = x[:, 0] + np.nan_to_num(x[:, 1]) ** 2 + (x[:, 2] != 0) + x[:, 3] * x[:, 4] / 3 + rng.normal(size=600) / 2
    return x, np.searchsorted(np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1]), score)


def boosted(**settings):
    return xgboost().XGBClassifier(**{"n_estimators": 20, "max_depth": 4, "n_jobs": 1, **settings})


def light(**settings):
    return lightgbm().LGBMClassifier(**{"n_estimators": 20, "num_leaves": 12, "verbose": -1, "n_jobs": 1, **settings})


KINDS = {
    "xgboost": boosted,
    "xgboost, one threshold per value": lambda: boosted(tree_method="exact"),
    "xgboost forest": lambda: xgboost().XGBRFClassifier(n_estimators=10, n_jobs=1),
    "xgboost, several trees per round": lambda: boosted(num_parallel_tree=2, subsample=0.5, n_estimators=5),
    "xgboost with a base score": lambda: boosted(base_score=0.3),
    "xgboost, monotone": lambda: boosted(monotone_constraints=(1, 0, 0, 0, 0)),
    "lightgbm": light,
    "lightgbm, dart": lambda: light(boosting_type="dart"),
    "lightgbm forest": lambda: light(boosting_type="rf", bagging_freq=1, bagging_fraction=0.6),
    "lightgbm with a slope": lambda: light(sigmoid=0.7),
    "lightgbm, missing as 0": lambda: light(use_missing=False),
}


def decisions(model, rows: np.ndarray) -> np.ndarray:
    """The class positions by the trees that were read."""
    scores = model.ensemble.scores(rows) / model.ensemble.divisor
    if len(model.classes) == 2:
        return (scores[:, 1] - scores[:, 0] > model.ensemble.lead).astype(int)
    return scores.argmax(axis=1)


def samples_for(model, x: np.ndarray) -> np.ndarray:
    """Random rows, and rows with values at and next to every threshold."""
    rng = np.random.default_rng(1)
    rows = [rng.choice(x, 4000) + 0.1 * rng.normal(size=(4000, 5))]
    for feature, limits in enumerate(model.ensemble.thresholds(5)):
        for values in (limits, np.nextafter(limits, -np.inf), np.nextafter(limits, np.inf), limits.astype(np.float32)):
            some = rng.choice(x, len(limits))
            some[:, feature] = values
            rows.append(some)
    zeros = rng.choice(x, 60)
    zeros[:, 2] = np.tile([0.0, -0.0, 1e-35, -1e-35, float(np.float32(1e-35)), -float(np.float32(1e-35))], 10)
    lost = np.where(rng.random((1000, 5)) < 0.3, np.nan, rng.choice(x, 1000))
    return np.concatenate([*rows, zeros, lost])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_no_decision_differs_at_random_rows_and_at_every_threshold(kind: str, classes: int) -> None:
    if kind.endswith("base score") and classes > 2:
        pytest.skip("the base score of several classes is another setting")
    x, y = problem(classes)
    original = KINDS[kind]().fit(x, y)
    model = as_classifier(original)
    rows = samples_for(model, x)
    np.testing.assert_array_equal(decisions(model, rows), original.predict(rows))
    np.testing.assert_array_equal(model.predict(rows), original.predict(rows))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("suffix", ["json", "ubj", "txt"])
def test_a_native_booster_and_its_file_have_the_decisions_of_the_wrapper(tmp_path, suffix: str, classes: int) -> None:
    x, y = problem(classes)
    original = (light() if suffix == "txt" else boosted()).fit(x, y)
    wrapped = as_classifier(original)
    booster = original.booster_ if suffix == "txt" else original.get_booster()
    path = tmp_path / f"model.{suffix}"
    booster.save_model(path)
    rows = samples_for(wrapped, x)
    for model in (as_classifier(booster), as_classifier(load_model(str(path)))):
        assert model.ensemble.fingerprint() == wrapped.ensemble.fingerprint()
        np.testing.assert_array_equal(model.predict(rows), wrapped.predict(rows))
        assert model.classes == tuple(range(classes))


@pytest.mark.parametrize("make", [boosted, light], ids=["xgboost", "lightgbm"])
def test_trees_after_the_best_iteration_are_left_out(make) -> None:
    x, y = problem(2)
    noisy = np.random.default_rng(0).permutation(y[300:])
    if make is boosted:
        model = make(n_estimators=60, early_stopping_rounds=3).fit(
            x[:300], y[:300], eval_set=[(x[300:], noisy)], verbose=False
        )
    else:
        stop = [lightgbm().early_stopping(3, verbose=False)]
        model = make(n_estimators=60).fit(x[:300], y[:300], eval_set=[(x[300:], noisy)], callbacks=stop)
    classifier = as_classifier(model)
    assert len(classifier.ensemble.roots) < 60
    rows = samples_for(classifier, x)
    np.testing.assert_array_equal(decisions(classifier, rows), model.predict(rows))


@pytest.mark.parametrize("make", [boosted, light], ids=["xgboost", "lightgbm"])
def test_a_model_of_text_labels_keeps_them(make) -> None:
    x, y = problem(3)
    try:
        model = make(n_estimators=5).fit(x, np.array(["low", "some", "top"])[y])
    except ValueError:
        pytest.skip("this version takes numbers only as labels")
    classifier = as_classifier(model)
    assert classifier.classes == ("low", "some", "top")
    np.testing.assert_array_equal(np.array(classifier.classes)[classifier.predict(x)], model.predict(x))


@pytest.mark.parametrize("make", [boosted, light], ids=["xgboost", "lightgbm"])
def test_named_columns_are_put_in_order_and_labels_may_be_named(make) -> None:
    x, y = problem(2)
    frame = pd.DataFrame(x, columns=["a", "b", "c", "d", "e"])
    model = make().fit(frame, y)
    classifier = as_classifier(model, classes=["no", "yes"])
    assert classifier.feature_names == ("a", "b", "c", "d", "e")
    named = np.array(["no", "yes"])[model.predict(frame)][:40]
    found = fm.measure(classifier, frame[["e", "d", "c", "b", "a"]][:40], named, fm.ESTIMATORS["exact_tree"]("l1"))
    np.testing.assert_array_equal(
        found.values, fm.measure(classifier, frame[:40], named, fm.ESTIMATORS["exact_tree"]("l1")).values
    )
    assert found.bound is fm.Bound.EXACT
    assert (found.values > 0).all()


def categories() -> pd.DataFrame:
    return pd.DataFrame({"a": pd.Categorical(list("xyzw") * 30), "b": np.arange(120.0)})


SIDES = np.tile([0, 1, 0, 0], 30)
REFUSED = {
    "XGBClassifier is not fitted": boosted,
    "LGBMClassifier is not fitted": light,
    "booster gblinear": lambda: boosted(booster="gblinear").fit(categories()[["b"]], SIDES),
    "booster dart": lambda: boosted(booster="dart").fit(categories()[["b"]], SIDES),
    "objective binary:hinge": lambda: boosted(objective="binary:hinge").fit(categories()[["b"]], SIDES),
    "XGBClassifier was trained on categories": lambda: boosted(enable_categorical=True).fit(categories(), SIDES),
    "treats 0 as missing": lambda: boosted(missing=0).fit(categories()[["b"]], SIDES),
    "LGBMClassifier was trained on categories": lambda: light().fit(categories(), SIDES),
    "zero_as_missing": lambda: light(zero_as_missing=True).fit(categories()[["b"]], SIDES),
    "linear_tree": lambda: light(linear_tree=True).fit(categories()[["b"]], SIDES),
    "objective multiclassova": lambda: light(objective="multiclassova").fit(*problem(3)),
    "objective regression": lambda: lightgbm().train(
        {"objective": "regression", "verbose": -1}, lightgbm().Dataset(np.arange(40.0)[:, None], np.arange(40))
    ),
}


@pytest.mark.parametrize("words", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_models_that_cannot_be_read_are_refused_in_a_sentence(words: str) -> None:
    with pytest.raises(ModelError, match=words):
        as_classifier(REFUSED[words]())


@pytest.mark.parametrize("text", ["not a model", "{"])
@pytest.mark.parametrize(("name", "library"), [("a.json", "XGBoost"), ("a.ubj", "XGBoost"), ("a.txt", "LightGBM")])
def test_a_file_that_is_no_model_is_refused_in_a_sentence(tmp_path, name: str, library: str, text: str) -> None:
    xgboost(), lightgbm()
    (tmp_path / name).write_text(text)
    with pytest.raises(ModelError, match=f"cannot be read as a model of {library}"):
        load_model(str(tmp_path / name))


def test_reading_other_models_imports_neither_library() -> None:
    program = """
import sys
from sklearn.tree import DecisionTreeClassifier
from fairmargin.models.as_classifier import as_classifier
as_classifier(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1]))
assert not {"xgboost", "lightgbm"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
