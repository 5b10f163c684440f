import warnings

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import LinearSVC

from fairmargin.core.domain import Domain
from fairmargin.models.protocol import decode
from fairmargin.models.sklearn_model import from_sklearn

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:.*converge.*")


def data(classes):
    x, y = make_classification(
        150, 8, n_informative=6, n_redundant=0, n_classes=classes, n_clusters_per_class=1, random_state=0
    )
    x = x * np.array([1, 10, 0.1, 1, 5, 1, 1, 2]) + np.arange(8)
    return x, np.array(["a", "b", "c"])[y]


CLASSIFIERS = [
    LogisticRegression(max_iter=500),
    LogisticRegression(fit_intercept=False, max_iter=500),
    LogisticRegressionCV(Cs=2, cv=2, max_iter=500),
    RidgeClassifier(),
    RidgeClassifier(fit_intercept=False),
    RidgeClassifierCV(),
    SGDClassifier(random_state=0),
    Perceptron(random_state=0),
    LinearSVC(random_state=0),
    LinearDiscriminantAnalysis(),
]
if hasattr(linear_model, "PassiveAggressiveClassifier"):  # gone from scikit-learn 1.10 on
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        CLASSIFIERS.append(linear_model.PassiveAggressiveClassifier(random_state=0))
STEPS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    StandardScaler(with_mean=False, with_std=False),
    MinMaxScaler((-2, 3)),
    MaxAbsScaler(),
    RobustScaler(),
    RobustScaler(with_centering=False, unit_variance=True),
    RobustScaler(with_scaling=False),
    PCA(4),
    PCA(4, whiten=True),
    TruncatedSVD(4, random_state=0),
    SelectKBest(k=3),
    VarianceThreshold(0.03),
    SelectFromModel(LogisticRegression(max_iter=500)),
    "passthrough",
    None,
    make_pipeline(StandardScaler(), PCA(5)),
]


def assert_same_decisions(model, x):
    linear = from_sklearn(model)
    probe = np.vstack([x, np.random.default_rng(1).normal(size=(500, x.shape[1])) * 5])
    np.testing.assert_array_equal(decode(linear, linear.predict(probe)), model.predict(probe))
    scores, theirs = linear.scores(probe), model.decision_function(probe)
    ours = scores[:, 1] - scores[:, 0] if theirs.ndim == 1 else scores
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: type(model).__name__)
def test_decides_and_scores_like_the_scikit_learn_classifier(model, classes):
    x, y = data(classes)
    assert_same_decisions(model.fit(x, y), x)


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_decides_and_scores_like_the_pipeline_with_an_affine_step(step):
    x, y = data(3)
    steps = [("first", MinMaxScaler()), ("step", step), ("classify", LogisticRegression(max_iter=500))]
    assert_same_decisions(Pipeline(steps).fit(x, y), x)


def test_composes_many_steps_and_nested_pipelines():
    x, y = data(3)
    inner = make_pipeline(PCA(6, whiten=True), LinearSVC(random_state=0))
    assert_same_decisions(make_pipeline(RobustScaler(), SelectKBest(k=7), StandardScaler(), inner).fit(x, y), x)


def test_reads_sparsified_coefficients():
    x, y = data(3)
    assert_same_decisions(SGDClassifier(random_state=0, penalty="l1").fit(x, y).sparsify(), x)


def test_keeps_labels_and_takes_the_domain():
    x, y = data(2)
    linear = from_sklearn(LogisticRegression(max_iter=500).fit(x, y), domain=Domain(-99, 99))
    assert linear.classes == ("a", "b")
    assert linear.domain.is_bounded
