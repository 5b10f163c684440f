"""The six models that people write for Adult decide as the originals on all 16,281 test rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from fairmargin.models.tables.reading import read_table_model
from tests.fixtures.record import SHARED
from tests.models.tables.people import decided

ADULT = SHARED / "data" / "adult"
NAMES = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
]

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not ADULT.is_dir(), reason="../shared with the datasets and weights is not beside the project"),
]


@pytest.fixture(scope="module")
def adult():
    """Return the training and the test rows, and the training labels as 0 and 1."""
    tables = [
        pd.read_csv(ADULT / name, names=NAMES, skiprows=skipped, skipinitialspace=True, na_values="?")
        for name, skipped in (("adult.data", 0), ("adult.test", 1))
    ]
    train, test = (table.drop(columns="income") for table in tables)
    assert len(test) == 16_281
    return train, test, tables[0]["income"].eq(">50K").astype(int)


def boosted(library, name, **options):
    return getattr(pytest.importorskip(library), name)(n_estimators=50, **options)


def pipeline(last, *, sparse_threshold=0.3):
    texts, numbers = make_column_selector(dtype_exclude=np.number), make_column_selector(dtype_include=np.number)
    encoder = OneHotEncoder(handle_unknown="ignore")
    return make_pipeline(
        make_column_transformer((encoder, texts), (StandardScaler(), numbers), sparse_threshold=sparse_threshold),
        last,
    )


def ordinal(last):
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    texts = make_column_selector(dtype_exclude=np.number)
    return make_pipeline(make_column_transformer((encoder, texts), remainder="passthrough"), last)


MODELS = {
    "logistic": lambda: pipeline(LogisticRegression(max_iter=300)),
    "forest": lambda: pipeline(RandomForestClassifier(50, max_depth=6, random_state=0)),
    "forest of ten full trees, with ties": lambda: ordinal(RandomForestClassifier(10, random_state=0)),
    "extremely random": lambda: ordinal(ExtraTreesClassifier(50, max_depth=6, random_state=0)),
    "histogram": lambda: pipeline(HistGradientBoostingClassifier(max_iter=50), sparse_threshold=0),
    "xgboost": lambda: pipeline(boosted("xgboost", "XGBClassifier"), sparse_threshold=0),
    "xgboost, sparse": lambda: pipeline(boosted("xgboost", "XGBClassifier"), sparse_threshold=1),
    "lightgbm": lambda: pipeline(boosted("lightgbm", "LGBMClassifier", verbose=-1)),
    "network": lambda: pipeline(MLPClassifier((32,), max_iter=15, random_state=0)),
}
NATIVE = {
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=50, categorical_features="from_dtype"),
    "xgboost": lambda: boosted("xgboost", "XGBClassifier", enable_categorical=True),
    "lightgbm": lambda: boosted("lightgbm", "LGBMClassifier", verbose=-1),
}


def check_all_rows(model, train, test):
    classifier = read_table_model(model, training_data=train, data=test)
    rows, expected = classifier.encode(test), model.predict(test)
    assert (classifier.predict(rows) == expected).all()
    features = classifier.features_map.transform(rows)
    assert (decided(classifier.head, features) == expected).all()
    if "trees" in classifier.offers:
        assert (decided(classifier.ensemble, rows) == expected).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_pipelines_are_read_without_any_other_decision(name, adult):
    train, test, y = adult
    check_all_rows(MODELS[name]().fit(train, y), train, test)


@pytest.mark.parametrize("name", NATIVE)
def test_native_categories_with_missing_values_are_read_without_any_other_decision(name, adult):
    train, test, y = adult
    texts = train.select_dtypes(exclude="number").columns
    kinds = {column: pd.CategoricalDtype(sorted(train[column].dropna().unique())) for column in texts}
    train, test = train.astype(kinds), test.astype(kinds)
    assert train.isna().any(axis=None)
    check_all_rows(NATIVE[name]().fit(train, y), train, test)
