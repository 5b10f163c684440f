import warnings

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA, KernelPCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, PolynomialFeatures, RobustScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC

from fairmargin.core.domain import Domain
from fairmargin.errors import ModelError
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


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (PolynomialFeatures(), r"Step 'step' \(PolynomialFeatures\) is not known to be affine"),
        (KernelPCA(), r"Step 'step' \(KernelPCA\) is not known to be affine"),
        (MinMaxScaler(clip=True), r"Step 'step' \(MinMaxScaler\) clips"),
        (MaxAbsScaler(clip=True), r"Step 'step' \(MaxAbsScaler\) clips"),
        (make_pipeline(PolynomialFeatures()), r"Step 'step.polynomialfeatures' \(PolynomialFeatures\)"),
    ],
    ids=str,
)
def test_names_the_step_that_is_not_affine(step, words):
    x, y = data(2)
    with pytest.raises(ModelError, match=words):
        from_sklearn(Pipeline([("step", step), ("classify", LogisticRegression(max_iter=500))]).fit(x, y))


@pytest.mark.parametrize("model", [RandomForestClassifier(3), SVC(kernel="linear")], ids=str)
def test_refuses_other_classifiers_and_says_which_are_supported(model):
    x, y = data(2)
    with pytest.raises(ModelError, match=r"is not known to be a linear classifier. Supported are LogisticRegression"):
        from_sklearn(model.fit(x, y))


def test_refuses_a_subclass_because_it_may_predict_otherwise():
    class Contrary(LogisticRegression):
        def predict(self, x):
            return super().predict(x)[::-1]

    x, y = data(2)
    with pytest.raises(ModelError, match=r"The model \(Contrary\) is not known"):
        from_sklearn(Contrary(max_iter=500).fit(x, y))


def test_points_from_a_search_to_its_best_estimator():
    x, y = data(2)
    search = GridSearchCV(RidgeClassifier(), {"alpha": [1.0]}, cv=2).fit(x, y)
    with pytest.raises(ModelError, match="best_estimator_"):
        from_sklearn(search)


def test_refuses_a_model_with_several_labels_a_sample():
    x, _ = data(2)
    several = RidgeClassifier().fit(x, np.random.default_rng(0).integers(0, 2, size=(len(x), 3)))
    with pytest.raises(ModelError, match="several labels"):
        from_sklearn(several)


@pytest.mark.parametrize("model", [LogisticRegression(), make_pipeline(StandardScaler(), LinearSVC())], ids=str)
def test_says_that_a_model_was_not_fitted(model):
    with pytest.raises(ModelError, match="has not been fitted"):
        from_sklearn(model)


@pytest.mark.parametrize("model", [Pipeline([("nothing", "passthrough")]), make_pipeline(StandardScaler())], ids=str)
def test_refuses_a_pipeline_without_a_classifier(model):
    with pytest.raises(ModelError, match="Supported are"):
        from_sklearn(model)
