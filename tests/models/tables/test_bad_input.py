"""Mistakes of users, each answered by a sentence; and fingerprints and copies of classifiers of tables."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC

import fairmargin as fm
from fairmargin.errors import InputError, ModelError
from fairmargin.models.loading import load_model
from fairmargin.models.tables.reading import read_table_model
from tests.models.tables.people import check, people

NUMBERS = ["age", "gain", "height"]


def steps(numbers=None):
    return make_column_transformer((numbers or StandardScaler(), NUMBERS), (OneHotEncoder(), ["job"]))


def fitted(last=None, numbers=None):
    frame, y = people()
    return make_pipeline(steps(numbers), LogisticRegression(max_iter=300) if last is None else last).fit(frame, y)


class Raising(ClassifierMixin, BaseEstimator):
    """A classifier of the user that raises for some rows."""

    def fit(self, x, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, x):
        if (x[:, 0] > 2).any():
            raise RuntimeError("cannot predict such ages\nat all")
        return self.classes_[(x[:, 0] > 0).astype(int)]


class Custom(TransformerMixin, BaseEstimator):
    """A transformer of the user."""

    def fit(self, x, y=None):
        self.fitted_ = True
        return self

    def transform(self, x):
        return np.asarray(x)


def test_models_that_are_not_fitted_are_named():
    frame, _ = people()
    for model, name in (
        (make_pipeline(StandardScaler(), LogisticRegression()), r"Step 'logisticregression' \(LogisticRegression\)"),
        (RandomForestClassifier(), r"The model \(RandomForestClassifier\)"),
        (MLPClassifier(), r"The model \(MLPClassifier\)"),
    ):
        with pytest.raises(ModelError, match=f"^{name} has not been fitted"):
            fm.as_classifier(model, training_data=frame)


def test_a_step_that_is_not_fitted_is_named():
    frame, y = people()
    last = LogisticRegression().fit(frame[NUMBERS], y)
    with pytest.raises(ModelError, match=r"^Step 'standardscaler' \(StandardScaler\) has not been fitted"):
        fm.as_classifier(make_pipeline(StandardScaler(), last), training_data=frame)


def test_classes_of_models_are_refused():
    frame, _ = people()
    for arguments in ({"training_data": frame}, {}):
        with pytest.raises(ModelError, match="given the class `LogisticRegression`"):
            fm.as_classifier(LogisticRegression, **arguments)
    pipeline = make_pipeline(StandardScaler, LogisticRegression())
    with pytest.raises(ModelError, match="has not been fitted"):
        fm.as_classifier(pipeline, training_data=frame)


@pytest.mark.parametrize("last", [LinearRegression(), KMeans(2)], ids=str)
def test_models_that_are_no_classifiers_are_refused(last):
    frame, _ = people()
    model = make_pipeline(StandardScaler(), last).fit(frame[NUMBERS], frame["age"])
    with pytest.raises(ModelError, match="is not a classifier"):
        fm.as_classifier(model, training_data=frame)


@pytest.mark.parametrize("last", [SVC(), GaussianNB(), Raising()], ids=lambda last: type(last).__name__)
def test_classifiers_that_cannot_be_read_are_named(last):
    frame, y = people()
    model = make_pipeline(StandardScaler(), last).fit(frame[["height"]], y)
    with pytest.raises(ModelError, match=rf"\({type(last).__name__}\) cannot be read\. Supported are"):
        fm.as_classifier(model, training_data=frame)


def test_a_pipeline_that_ends_in_a_transformer_is_refused():
    frame, y = people()
    for last in (StandardScaler(), "passthrough"):
        with pytest.raises(ModelError, match="The last step must be a classifier"):
            fm.as_classifier(make_pipeline(MinMaxScaler(), last).fit(frame[NUMBERS], y), training_data=frame)


def test_transformers_of_users_are_refused_by_name():
    frame, y = people()
    model = make_pipeline(Custom(), LogisticRegression()).fit(frame[NUMBERS], y)
    with pytest.raises(ModelError, match=r"^Step 'custom' \(Custom\) mixes columns, .* or is not known"):
        fm.as_classifier(model, training_data=frame)


def test_a_model_that_raises_is_quoted_with_the_row(monkeypatch):
    frame, y = people()
    model = fitted()
    classifier = fm.as_classifier(model, training_data=frame)
    rows = classifier.encode(frame)
    bad = int((frame["age"] > 75).to_numpy().argmax())
    raising = Raising().fit(frame[NUMBERS], y)
    monkeypatch.setattr(model, "predict", lambda table: raising.predict(model[:-1].transform(table)))
    limit = frame["age"].mean() + 2 * frame["age"].std(ddof=0)
    assert frame["age"].max() < limit
    rows[bad, 0] = 99
    with pytest.raises(ModelError) as error:
        classifier.predict(rows)
    message = str(error.value)
    assert message.startswith("The model raised RuntimeError in `predict` for the row (age=99, gain=")
    assert ": cannot predict such ages. Correct" in message
    assert f"job={frame['job'][bad]!r}" in message


def test_missing_numbers_that_the_model_refuses_are_named_with_their_row():
    frame, _ = people()
    classifier = fm.as_classifier(fitted(), training_data=frame)
    with pytest.raises(ModelError, match=r"for the row \(age=nan, gain=.*Input X contains NaN"):
        classifier.predict(classifier.encode(frame.assign(age=frame["age"].mask(frame.index == 7))))


def test_a_text_in_a_column_of_numbers_is_named():
    frame, _ = people()
    classifier = fm.as_classifier(fitted(), training_data=frame)
    wrong = frame.assign(age=frame["age"].astype(object).mask(frame.index == 5, "forty"))
    with pytest.raises(InputError, match=r"Column 'age' of `X` must hold numbers; row 5 holds 'forty'"):
        classifier.encode(wrong, "X")
    with pytest.raises(InputError, match=r"Column 'age' of `training_data` must hold numbers; row 5 holds 'forty'"):
        fm.as_classifier(fitted(), training_data=wrong)


def test_columns_of_another_type_are_named():
    frame, _ = people()
    classifier = fm.as_classifier(fitted(), training_data=frame)
    dates = pd.date_range("2020-01-01", periods=len(frame))
    with pytest.raises(InputError, match="Column 'age' of `x` must hold numbers; row 0 holds Timestamp"):
        classifier.encode(frame.assign(age=dates))
    with pytest.raises(InputError, match="Column 'age' holds dates"):
        fm.as_classifier(fitted(), training_data=frame.assign(age=dates))
    with pytest.raises(InputError, match="Column 'job' of `x` holds numbers such as 3, but its categories are texts"):
        classifier.encode(frame.assign(job=3))
    with pytest.raises(InputError, match="`x` has no column 'age', which the model was trained on"):
        classifier.encode(frame.drop(columns="age"))


def test_labels_that_the_model_does_not_know_are_named():
    frame, y = people()
    classifier = fm.as_classifier(fitted(), training_data=frame)
    with pytest.raises(InputError, match=r"first 'wealthy' at index 3"):
        fm.measure(classifier, frame, np.where(np.arange(len(y)) == 3, "wealthy", y), fm.ESTIMATORS["exact_linear"]())


def test_files_give_the_models_that_were_stored(tmp_path):
    joblib = pytest.importorskip("joblib")
    io = pytest.importorskip("skops.io")
    frame, _ = people()
    for last in (LogisticRegression(), RandomForestClassifier(3), HistGradientBoostingClassifier(max_iter=3)):
        model = fitted(last, FunctionTransformer(np.log1p))
        expected = read_table_model(model, training_data=frame, data=frame).fingerprint()
        joblib.dump(model, tmp_path / "model.joblib")
        (tmp_path / "model.pkl").write_bytes(pickle.dumps(model))
        io.dump(model, tmp_path / "model.skops")
        for name, trust in (("model.joblib", True), ("model.pkl", True), ("model.skops", False)):
            loaded = load_model(str(tmp_path / name), trust=trust)
            assert type(loaded) is type(model)
            assert check(loaded, frame, claims=False).fingerprint() == expected


CHANGES = {
    "another step": (RobustScaler(), StandardScaler()),
    "another option": (QuantileTransformer(n_quantiles=20), QuantileTransformer(n_quantiles=21)),
    "other bins": (KBinsDiscretizer(3, strategy="uniform"), KBinsDiscretizer(3, strategy="quantile")),
    "another function": (FunctionTransformer(np.log1p), FunctionTransformer(np.sqrt)),
    "other values for missing ones": (SimpleImputer(strategy="mean"), SimpleImputer(strategy="median")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_fingerprint_depends_on_the_steps(name):
    frame, _ = people()
    head = fitted(None, StandardScaler())[-1]
    prints = set()
    for step in CHANGES[name]:
        model = fitted(None, step)
        if model[-1].coef_.shape == head.coef_.shape:
            model.steps[-1] = ("logisticregression", head)
        prints.add(read_table_model(model, training_data=frame).fingerprint())
    assert len(prints) == 2


def test_the_fingerprint_is_the_same_in_every_process():
    program = (
        "from tests.models.tables.test_bad_input import *\n"
        "frame, _ = people()\n"
        "for last in (LogisticRegression(), HistGradientBoostingClassifier(max_iter=3, random_state=0)):\n"
        "    print(read_table_model(fitted(last), training_data=frame).fingerprint())\n"
    )
    found = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        found.add(run.stdout)
    (lines,) = found
    assert len(set(lines.split())) == 2


@pytest.mark.parametrize(
    "last",
    [LogisticRegression(), RandomForestClassifier(3), HistGradientBoostingClassifier(max_iter=3), MLPClassifier((3,))],
    ids=lambda last: type(last).__name__,
)
def test_classifiers_are_pickled(last):
    frame, _ = people()
    classifier = read_table_model(fitted(last, KBinsDiscretizer(3)), training_data=frame)
    copy = pickle.loads(pickle.dumps(classifier))
    rows = classifier.encode(frame)
    assert copy.fingerprint() == classifier.fingerprint()
    np.testing.assert_array_equal(copy.predict(rows), classifier.predict(rows))
    np.testing.assert_array_equal(copy.features_map.transform(rows), classifier.features_map.transform(rows))
