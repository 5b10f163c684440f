"""Searches of parameters, thresholds and calibrators around models of tables."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import fairmargin as fm
from fairmargin.errors import ModelError
from tests.models.tables import people as checks
from tests.models.tables.people import decided, people

NUMBERS = ["age", "gain", "height"]
LAST = {
    "logistic": LogisticRegression(max_iter=300),
    "discriminant": LinearDiscriminantAnalysis(),
    "huber": SGDClassifier(loss="modified_huber", random_state=0),
    "svc": LinearSVC(),
    "tree": DecisionTreeClassifier(max_depth=4),
    "full tree": DecisionTreeClassifier(),
    "forest": RandomForestClassifier(20, max_depth=4, random_state=0),
    "full forest": RandomForestClassifier(10, random_state=0),
    "forest of one tree": RandomForestClassifier(1, max_depth=3, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=10),
    "histogram": HistGradientBoostingClassifier(max_iter=10),
    "network": MLPClassifier((4,), max_iter=60, random_state=0),
}


def check(model, frame, ties=0):
    return checks.check(model, frame, ties=ties, claims=False)


def pipeline(last):
    steps = make_column_transformer(
        (StandardScaler(), NUMBERS), (OneHotEncoder(sparse_output=False), ["job"]), sparse_threshold=0
    )
    return make_pipeline(steps, last)


@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.5, 0.7, 1.5])
@pytest.mark.parametrize("name", LAST)
def test_thresholds_become_a_part_of_the_head(name, threshold):
    frame, y = people()
    fitted = pipeline(LAST[name]).fit(frame, y)
    for label in (None, "poor"):
        check(FixedThresholdClassifier(fitted, threshold=threshold, pos_label=label).fit(frame, y), frame)


@pytest.mark.parametrize("name", LAST)
def test_thresholds_at_which_rows_tie_are_decided_as_by_the_model(name):
    frame, y = people()
    fitted = pipeline(LAST[name]).fit(frame, y)
    respond = fitted.predict_proba if hasattr(fitted, "predict_proba") else fitted.decision_function
    scores = respond(frame)
    scores = scores[:, 1] if scores.ndim == 2 else scores
    for score in np.quantile(scores, [0.2, 0.5, 0.9], method="nearest"):
        classifier = check(FixedThresholdClassifier(fitted, threshold=float(score)).fit(frame, y), frame, ties=1)
        if 0 < score < 1:
            assert 0 < classifier.predict(classifier.encode(frame)).sum() < len(frame)


def test_trees_with_whole_sums_have_no_ties_that_are_decided_otherwise():
    frame, y = people(600)
    forest = pipeline(RandomForestClassifier(10, random_state=0)).fit(frame, y)
    for share in range(11):
        classifier = check(FixedThresholdClassifier(forest, threshold=share / 10).fit(frame, y), frame)
        rows = classifier.encode(frame)
        assert (decided(classifier.ensemble, rows) == classifier.predict(rows)).all()


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_thresholds_of_boosted_trees_are_read(library):
    kind = getattr(pytest.importorskip(library), "XGBClassifier" if library == "xgboost" else "LGBMClassifier")
    frame, y = people()
    fitted = pipeline(kind(n_estimators=10, n_jobs=1)).fit(frame, y == "rich")
    for threshold in (0.2, 0.5, 0.8):
        for label in (True, False):
            model = FixedThresholdClassifier(fitted, threshold=threshold, pos_label=label).fit(frame, y == "rich")
            check(model, frame)
    check(
        CalibratedClassifierCV(kind(n_estimators=5, n_jobs=1), ensemble=False, cv=3).fit(frame[NUMBERS], y == "rich"),
        frame[NUMBERS],
    )


@pytest.mark.parametrize("name", LAST)
@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
def test_calibrators_become_a_part_of_the_head(name, method):
    frame, y = people()
    outside = CalibratedClassifierCV(pipeline(LAST[name]), method=method, ensemble=False, cv=3).fit(frame, y)
    check(outside, frame)
    inside = pipeline(CalibratedClassifierCV(LAST[name], method=method, ensemble=False, cv=3)).fit(frame, y)
    check(FixedThresholdClassifier(inside, threshold=0.4).fit(frame, y), frame)


def test_a_tuned_threshold_is_read():
    frame, y = people()
    for name in ("logistic", "full forest", "histogram"):
        tuned = TunedThresholdClassifierCV(pipeline(LAST[name]), cv=3, scoring="balanced_accuracy").fit(frame, y)
        assert check(tuned, frame).fingerprint() != check(tuned.estimator_, frame).fingerprint()


def test_a_calibrator_that_turns_the_scores_around_is_read():
    frame, y = people()
    fitted = CalibratedClassifierCV(pipeline(LogisticRegression()), ensemble=False, cv=3).fit(frame, y)
    for name in ("logistic", "full forest", "histogram", "network"):
        model = CalibratedClassifierCV(pipeline(LAST[name]), ensemble=False, cv=3).fit(frame, y)
        (calibrator,) = model.calibrated_classifiers_[0].calibrators
        calibrator.a_, calibrator.b_ = -calibrator.a_, -calibrator.b_
        classifier = check(model, frame)
        assert np.ptp(classifier.predict(classifier.encode(frame))) == 1
    assert fitted.classes_.tolist() == ["poor", "rich"]


@pytest.mark.parametrize(
    "search",
    [
        lambda model: GridSearchCV(model, {"logisticregression__C": [0.1, 1.0]}, cv=2),
        lambda model: RandomizedSearchCV(model, {"logisticregression__C": [0.1, 1.0]}, n_iter=2, cv=2),
        lambda model: HalvingGridSearchCV(model, {"logisticregression__C": [0.1, 1.0]}, cv=2),
    ],
)
def test_the_best_estimator_of_a_search_is_read(search):
    frame, y = people()
    check(search(pipeline(LogisticRegression())).fit(frame, y), frame)


def test_a_search_may_be_the_last_step():
    frame, y = people()
    search = GridSearchCV(RandomForestClassifier(3, random_state=0), {"max_depth": [2, 3]}, cv=2)
    check(pipeline(search).fit(frame, y), frame)


def test_frozen_models_are_read():
    frozen = pytest.importorskip("sklearn.frozen").FrozenEstimator
    frame, y = people()
    fitted = frozen(pipeline(LogisticRegression()).fit(frame, y))
    check(CalibratedClassifierCV(fitted, method="isotonic").fit(frame, y), frame)
    check(TunedThresholdClassifierCV(fitted, cv="prefit", refit=False).fit(frame, y), frame)


def test_a_search_without_a_best_estimator_is_refused():
    frame, y = people()
    search = GridSearchCV(pipeline(LogisticRegression()), {"logisticregression__C": [1.0]}, cv=2, refit=False)
    with pytest.raises(ModelError, match=r"no `best_estimator_`\. Fit it with refit=True"):
        fm.as_classifier(search.fit(frame, y), training_data=frame)
    with pytest.raises(ModelError, match=r"no `best_estimator_`\. Call `\.fit\(x, y\)`"):
        fm.as_classifier(GridSearchCV(pipeline(LogisticRegression()), {}), training_data=frame)


def test_calibrators_of_several_classes_are_refused_if_they_change_the_order_of_scores():
    frame, _ = people()
    y = np.digitize(frame["age"], [35, 55])
    model = CalibratedClassifierCV(pipeline(LogisticRegression()), method="temperature", ensemble=False, cv=3)
    check(model.fit(frame, y), frame)
    with pytest.raises(ModelError, match="calibrates 3 classes one by one"):
        fm.as_classifier(model.set_params(method="sigmoid").fit(frame, y), training_data=frame)


@pytest.mark.parametrize(
    "model",
    [
        CalibratedClassifierCV(LogisticRegression(), ensemble=True, cv=2),
        StackingClassifier([("a", LogisticRegression())], cv=2),
        VotingClassifier([("a", LogisticRegression())]),
        BaggingClassifier(LogisticRegression(), n_estimators=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_averages_of_models_are_refused_by_name(model):
    frame, y = people()
    for fitted in (model.fit(frame[NUMBERS], y), pipeline(model).fit(frame, y)):
        with pytest.raises(ModelError, match=type(model).__name__):
            fm.as_classifier(fitted, training_data=frame)
