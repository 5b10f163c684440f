"""Pipelines as people write them: their predictions on coded rows, and their features column by column."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import fairmargin as fm
from fairmargin.errors import ModelError
from tests.models.tables.people import check, people

NUMBERS, TEXTS = ["age", "gain", "height"], ["job"]
_UNKNOWN = {"handle_unknown": "use_encoded_value", "unknown_value": -1}


def numbers(*steps):
    """A pipeline of numbers with one-hot encoded jobs."""
    return make_column_transformer((make_pipeline(*steps), NUMBERS), (OneHotEncoder(), TEXTS))


def texts(*steps, columns=("job", "grade")):
    """A pipeline of categories beside scaled numbers."""
    return make_column_transformer((make_pipeline(*steps), list(columns)), (StandardScaler(), NUMBERS))


STEPS = {
    "standard": numbers(StandardScaler()),
    "standard without mean and deviation": numbers(StandardScaler(with_mean=False, with_std=False)),
    "min-max": numbers(MinMaxScaler((-1, 3))),
    "min-max clipped": numbers(MinMaxScaler(clip=True)),
    "robust": numbers(RobustScaler()),
    "max-abs": numbers(MaxAbsScaler()),
    "power": numbers(PowerTransformer()),
    "quantile": numbers(QuantileTransformer(n_quantiles=50)),
    "quantile to normal": numbers(QuantileTransformer(n_quantiles=50, output_distribution="normal")),
    "imputer": numbers(SimpleImputer(), StandardScaler()),
    "bins as numbers": numbers(StandardScaler(), KBinsDiscretizer(4, encode="ordinal", quantile_method="linear")),
    "bins one-hot": numbers(KBinsDiscretizer(4, encode="onehot", quantile_method="linear")),
    "bins dense": numbers(KBinsDiscretizer(4, encode="onehot-dense", strategy="uniform")),
    "bins of falling numbers": numbers(FunctionTransformer(np.negative), KBinsDiscretizer(3, strategy="uniform")),
    "encoded bins": numbers(KBinsDiscretizer(4, encode="ordinal", strategy="uniform"), OneHotEncoder(drop="first")),
    "binarizer": numbers(Binarizer(threshold=1.0)),
    "encoded binarizer": numbers(Binarizer(threshold=1.0), OneHotEncoder(handle_unknown="ignore")),
    "log1p": numbers(FunctionTransformer(np.log1p), StandardScaler()),
    "negative square root": numbers(FunctionTransformer(np.sqrt), FunctionTransformer(np.negative)),
    "rounded": numbers(FunctionTransformer(np.round, kw_args={"decimals": -1})),
    "clipped": numbers(FunctionTransformer(np.clip, kw_args={"a_min": 1, "a_max": 60})),
    "identity": numbers(FunctionTransformer()),
    "selected": numbers(StandardScaler(), SelectKBest(k=2)),
    "selected by variance": numbers(VarianceThreshold(0.1)),
    "ordinal": texts(OrdinalEncoder()),
    "ordinal with unknown": texts(OrdinalEncoder(**_UNKNOWN, min_frequency=20)),
    "one-hot drop first": texts(OneHotEncoder(drop="first")),
    "one-hot drop if binary": texts(OneHotEncoder(drop="if_binary"), columns=("job", "member")),
    "one-hot infrequent": texts(OneHotEncoder(min_frequency=20, handle_unknown="infrequent_if_exist")),
    "one-hot infrequent dropped": texts(OneHotEncoder(min_frequency=20, drop=["tech", 1])),
    "one-hot most frequent": texts(OneHotEncoder(max_categories=3, handle_unknown="ignore")),
    "one-hot dense": texts(OneHotEncoder(sparse_output=False, handle_unknown="ignore")),
    "one-hot of codes": texts(OrdinalEncoder(**_UNKNOWN), OneHotEncoder(handle_unknown="ignore")),
    "target": texts(TargetEncoder(random_state=0)),
    "scaled codes": texts(OrdinalEncoder(), StandardScaler()),
    "named, remainder scaled": ColumnTransformer(
        [("job", OneHotEncoder(), ["job"]), ("grade", "drop", ["grade"])], remainder=StandardScaler()
    ),
    "remainder as it is": make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough"),
    "columns as numbers and slices": make_column_transformer(
        (OneHotEncoder(), [2]), ("passthrough", slice(0, 2)), (StandardScaler(), slice("height", "grade"))
    ),
    "columns as masks and functions": make_column_transformer(
        (OneHotEncoder(), [False, False, True, False, False, False]),
        (StandardScaler(), make_column_selector(dtype_include=np.number)),
        (MinMaxScaler(), lambda frame: ["member"]),
    ),
    "no columns": make_column_transformer((OneHotEncoder(), TEXTS), (StandardScaler(), []), ("passthrough", ["age"])),
    "a column twice": make_column_transformer((OneHotEncoder(), ["grade"]), (StandardScaler(), ["grade", "age"])),
    "union": make_column_transformer(
        (make_union(StandardScaler(), KBinsDiscretizer(3, strategy="uniform")), NUMBERS), (OneHotEncoder(), TEXTS)
    ),
    "union with parts left out": make_column_transformer(
        (FeatureUnion([("a", "drop"), ("b", "passthrough"), ("c", MinMaxScaler())]), NUMBERS)
    ),
    "nested": make_column_transformer(
        (make_column_transformer((OneHotEncoder(), [0]), remainder=make_pipeline(MinMaxScaler())), ["job", "age"]),
        (make_pipeline("passthrough", make_pipeline(StandardScaler())), ["height"]),
    ),
    "sparse": make_column_transformer(
        (OneHotEncoder(), ["job", "grade"]), ("passthrough", NUMBERS), sparse_threshold=1
    ),
    "as pandas": make_column_transformer(
        (OneHotEncoder(sparse_output=False), TEXTS), (KBinsDiscretizer(3, encode="onehot-dense"), NUMBERS)
    ).set_output(transform="pandas"),
    "as pandas, then by name": make_pipeline(
        make_column_transformer((StandardScaler(), NUMBERS), (OrdinalEncoder(), TEXTS)).set_output(transform="pandas"),
        make_column_transformer((OneHotEncoder(), ["ordinalencoder__job"]), remainder="passthrough"),
    ),
}


@pytest.mark.parametrize("last", [LogisticRegression(max_iter=500), RandomForestClassifier(7, max_depth=4)], ids=str)
@pytest.mark.parametrize("name", STEPS)
def test_the_last_step_decides_by_the_features_of_single_columns(name, last):
    frame, y = people()
    last.set_params(random_state=0)
    check(make_pipeline(STEPS[name], last).fit(frame, y), frame)


MISSING = {
    "mean": (SimpleImputer(), ["gain", "height", "age"]),
    "indicators": (SimpleImputer(add_indicator=True, strategy="median"), ["gain", "height", "age"]),
    "indicator alone": (make_union(MissingIndicator(), SimpleImputer()), ["gain", "height", "age"]),
    "all missing": (SimpleImputer(add_indicator=True), ["gain", "nothing"]),
    "all missing kept": (SimpleImputer(keep_empty_features=True), ["nothing", "gain"]),
    "texts": (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["job"]),
    "texts with a value": (make_pipeline(SimpleImputer(strategy="constant", fill_value="?"), OneHotEncoder()), ["job"]),
    "missing as a category": (OneHotEncoder(), ["job"]),
    "ordinal": (OrdinalEncoder(encoded_missing_value=-2), ["job"]),
    "target": (TargetEncoder(random_state=0), ["job"]),
    "scaled before": (make_pipeline(StandardScaler(), SimpleImputer(), PowerTransformer()), ["gain", "height"]),
}


@pytest.mark.parametrize("name", MISSING)
def test_missing_values_stay_missing_for_the_steps_that_read_them(name):
    frame, y = people(missing=True)
    frame["nothing"] = np.nan
    step, columns = MISSING[name]
    model = make_pipeline(make_column_transformer((step, columns), (StandardScaler(), ["grade"])), LogisticRegression())
    classifier = check(model.fit(frame, y), frame)
    assert np.isnan(classifier.encode(frame)).any()


def test_none_is_a_value_of_an_imputer_and_can_be_the_most_frequent_one():
    frame, y = people(missing=True)
    frame["job"] = pd.Series(["cook" if job == "cook" else None for job in frame["job"]], dtype=object)
    step = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    model = make_pipeline(make_column_transformer((step, ["job"]), (StandardScaler(), ["grade"])), LogisticRegression())
    model.fit(frame, y)
    assert step.fit(frame[["job"]])[0].statistics_.tolist() == [None]
    classifier = check(model, frame)
    assert classifier.features_map.source.tolist() == [2, 2, 5]  # positions of job and grade


def test_all_linear_classifiers_are_read():
    frame, y = people()
    for last in (LinearSVC(), SGDClassifier(random_state=0), SGDClassifier(loss="log_loss", random_state=0)):
        check(make_pipeline(STEPS["standard"], last).fit(frame, y), frame)


@pytest.mark.parametrize("step", [PCA(2), PCA(3, whiten=True), TruncatedSVD(3)], ids=str)
def test_components_of_numbers_and_categories_are_read_before_linear_models_only(step):
    frame, y = people()
    before = make_column_transformer(
        (StandardScaler(), NUMBERS), (OneHotEncoder(sparse_output=False), TEXTS), sparse_threshold=0
    )
    classifier = check(make_pipeline(before, step, StandardScaler(), LogisticRegression()).fit(frame, y), frame)
    assert set(classifier.features_map.source) == {-2}
    assert classifier.features_map.affine.all()
    exact = fm.measure(classifier, frame[:20], y[:20], fm.ESTIMATORS["exact_linear"](norm="l2"))
    assert exact.bound is fm.Bound.EXACT
    tree = make_pipeline(before, step, DecisionTreeClassifier()).fit(frame, y)
    with pytest.raises(ModelError, match="mixes columns, such as PCA"):
        fm.as_classifier(tree, training_data=frame)
    late = make_pipeline(before, step, MinMaxScaler(clip=True), LogisticRegression()).fit(frame, y)
    with pytest.raises(ModelError, match=r"'minmaxscaler' .* after a step that mixes columns"):
        fm.as_classifier(late, training_data=frame)


def unchanged(x: Any) -> Any:
    return x


@pytest.mark.parametrize(
    "step",
    [
        PolynomialFeatures(),
        Normalizer(),
        SplineTransformer(),
        FunctionTransformer(np.square),
        FunctionTransformer(unchanged),
    ],
    ids=lambda step: type(step).__name__,
)
def test_steps_that_mix_columns_or_are_unknown_are_refused_by_name(step):
    frame, y = people()
    model = make_pipeline(make_column_transformer((make_pipeline(step), NUMBERS)), LogisticRegression()).fit(frame, y)
    with pytest.raises(ModelError, match=rf"^Step 'columntransformer.pipeline.\w+' \({type(step).__name__}\) "):
        fm.as_classifier(model, training_data=frame)


def test_a_number_that_means_missing_needs_a_category():
    frame, y = people()
    model = make_pipeline(
        make_column_transformer((SimpleImputer(missing_values=7, strategy="median"), ["grade", "age"])),
        LogisticRegression(),
    ).fit(frame, y)
    with pytest.raises(ModelError, match="replaces the number 7 as missing"):
        fm.as_classifier(model, training_data=frame)
    categories = {name: fm.Column(kind="category") for name in ("grade", "age")}
    check(model, frame, rules=categories)


def test_numbers_move_only_where_the_functions_of_the_model_are_defined():
    frame, y = people()
    frame["gain"] += 5
    shifted = make_pipeline(MinMaxScaler((0.5, 2.0)), FunctionTransformer(np.log))
    model = make_pipeline(make_column_transformer((shifted, NUMBERS)), LogisticRegression()).fit(frame, y)
    wide = fm.Column(low=-1e9, high=1e9)
    classifier = check(model, frame, rules={"gain": wide})
    gain = classifier.coding.columns[1]
    scaler = model[0].transformers_[0][1][0]
    row = frame[NUMBERS].iloc[[0]].astype(float)
    for number, is_inside in ((gain.low, True), (np.nextafter(gain.low, -np.inf), False)):
        assert (scaler.transform(row.assign(gain=number))[0, 1] > 0) == is_inside
    assert gain.high == 1e9
    assert "np.log" not in gain.source
    assert "`log`" in gain.source


def test_a_column_that_is_dropped_does_not_move():
    frame, y = people()
    frame["when"] = pd.date_range("2020-01-01", periods=len(frame))
    frame["note"] = [f"note {i}" for i in range(len(frame))]
    frame["list"] = [[i, i] for i in range(len(frame))]
    model = make_pipeline(make_column_transformer((StandardScaler(), NUMBERS)), LogisticRegression()).fit(frame, y)
    classifier = check(model, frame)
    by_name = {column.name: column for column in classifier.coding.columns}
    for name in ("when", "note", "list", "job"):
        assert by_name[name].immutable
        assert not by_name[name].reachable


def test_a_network_is_read():
    pytest.importorskip("fairmargin.models.tables.network")
    frame, y = people()
    check(make_pipeline(STEPS["standard"], MLPClassifier((5,), max_iter=50, random_state=0)).fit(frame, y), frame)
