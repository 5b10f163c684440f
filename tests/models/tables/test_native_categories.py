"""Trees that read categories and missing values themselves, alone and at the end of pipelines."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fairmargin as fm
from fairmargin.errors import InputError
from fairmargin.models.loading import load_model
from fairmargin.models.tables.reading import read_table_model
from tests.models.tables.people import check, decided, people

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

TREES = {
    "histogram": HistGradientBoostingClassifier(max_iter=15, categorical_features="from_dtype"),
    "xgboost": xgboost.XGBClassifier(n_jobs=1, n_estimators=10, max_depth=4, enable_categorical=True),
    "xgboost, sets": xgboost.XGBClassifier(
        n_jobs=1, n_estimators=10, max_depth=4, enable_categorical=True, max_cat_to_onehot=1
    ),
    "lightgbm": lightgbm.LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1, min_data_per_group=5, cat_smooth=1),
}


def categorical(rows=400):
    frame, y = people(rows, missing=True)
    return frame.astype({"job": "category", "grade": "category"}), (y == "rich").astype(int)


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("where", ["alone", "after a step"])
def test_categories_are_read_as_the_trees_see_them(name, where):
    frame, y = categorical()
    model = TREES[name]
    if where == "after a step":
        step = make_column_transformer((StandardScaler(), ["gain"]), remainder="passthrough")
        model = make_pipeline(step.set_output(transform="pandas"), model)
    classifier = check(model.fit(frame, y), frame)
    kinds = {column.name: column.kind for column in classifier.coding.columns}
    assert kinds["job"] == kinds["grade"] == "category"
    ensemble = classifier.ensemble
    rows = classifier.encode(frame)
    assert (decided(ensemble, rows) == classifier.predict(rows)).all()


def test_categories_may_be_named_for_histograms():
    frame, y = people(missing=True)
    check(HistGradientBoostingClassifier(max_iter=10, categorical_features=["job", "member"]).fit(frame, y), frame)


def test_codes_of_arrays_may_be_categories():
    frame, y = people(400)
    numbers = np.column_stack([frame["age"], frame["job"].astype("category").cat.codes, frame["gain"]]).astype(float)
    models = (
        HistGradientBoostingClassifier(max_iter=10, categorical_features=[1]).fit(numbers, y),
        lightgbm.LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1).fit(numbers, y, categorical_feature=[1]),
        xgboost.XGBClassifier(n_jobs=1, n_estimators=9, enable_categorical=True, feature_types=["q", "c", "q"]).fit(
            numbers, y == "rich"
        ),
    )
    for model in models:
        assert check(model, numbers).coding.columns[1].kind == "category"


def test_categories_in_another_order_and_as_text_are_the_same():
    frame, y = categorical()
    other = frame.assign(job=frame["job"].cat.reorder_categories(sorted(frame["job"].cat.categories, reverse=True)))
    text = frame.assign(job=frame["job"].astype(object))
    for model in TREES.values():
        model.fit(frame, y)
        for training in (frame, other, text):
            classifier = read_table_model(model, training_data=training, data=text)
            assert (classifier.predict(classifier.encode(text)) == model.predict(frame)).all()
            features = classifier.features_map.transform(classifier.encode(text))
            assert (decided(classifier.head, features) == model.predict(frame)).all()


def test_unknown_categories_are_missing_values_or_refused_by_name():
    frame, y = categorical()
    unknown = frame.assign(job=frame["job"].cat.add_categories(["pilot"]))
    unknown.loc[3, "job"] = "pilot"
    for name in ("histogram", "lightgbm"):
        check(TREES[name].fit(frame, y), unknown, frame)
    model = TREES["xgboost"].fit(frame, y)
    with pytest.raises(InputError, match="Column 'job' of `x` holds 'pilot' in row 3"):
        fm.as_classifier(model, training_data=frame).encode(unknown)


@pytest.fixture(params=["xgboost", "lightgbm"])
def booster(request):
    frame, y = categorical()
    if request.param == "xgboost":
        parameters = {"objective": "binary:logistic", "max_depth": 4}
        return xgboost.train(parameters, xgboost.DMatrix(frame, y, enable_categorical=True), 10)
    return lightgbm.train({"objective": "binary", "verbose": -1, "num_threads": 1}, lightgbm.Dataset(frame, y), 10)


def probabilities(booster, frame):
    return booster.predict(
        frame if "lightgbm" in type(booster).__module__ else xgboost.DMatrix(frame, enable_categorical=True)
    )


@pytest.mark.parametrize("suffix", [None, "json", "ubj", "txt"])
def test_native_boosters_and_their_files_take_data_frames(booster, suffix, tmp_path):
    is_lightgbm = "lightgbm" in type(booster).__module__
    if suffix is not None and is_lightgbm != (suffix == "txt"):
        pytest.skip("a format of the other library")
    frame, _ = categorical()
    expected = probabilities(booster, frame) > 0.5
    if suffix is not None:
        booster.save_model(tmp_path / f"model.{suffix}")
        booster = load_model(str(tmp_path / f"model.{suffix}"))
    for training in (frame, frame.astype({"job": object})):
        classifier = read_table_model(booster, training_data=training, data=training)
        assert classifier.classes == (0, 1)
        rows = classifier.encode(training)
        assert (classifier.predict(rows) == expected).all()
        assert (decided(classifier.head, classifier.features_map.transform(rows)) == expected).all()


def test_lightgbm_finds_columns_whose_names_have_spaces():
    frame, y = people()
    spaced = frame[["age", "gain"]].rename(columns={"gain": "capital gain"})
    classifier = check(lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1).fit(spaced, y), spaced)
    assert classifier.coding.names == ("age", "capital gain")


def test_zeros_of_a_sparse_table_are_missing_for_xgboost():
    frame, y = people(400)
    steps = make_column_transformer((OneHotEncoder(), ["job"]), ("passthrough", ["gain", "age"]), sparse_threshold=1)
    sparse = check(make_pipeline(steps, xgboost.XGBClassifier(n_jobs=1, n_estimators=5)).fit(frame, y == "rich"), frame)
    features = sparse.features_map.transform(sparse.encode(frame))
    assert sparse.features_map.zero_is_missing
    assert not (features == 0).any()
    assert np.isnan(features[:, 5]).sum() == (frame["gain"] == 0).sum()
    steps.set_params(sparse_threshold=0)
    dense = check(make_pipeline(steps, xgboost.XGBClassifier(n_jobs=1, n_estimators=5)).fit(frame, y == "rich"), frame)
    assert not dense.features_map.zero_is_missing
    assert not np.isnan(dense.features_map.transform(dense.encode(frame))).any()


def test_lightgbm_reads_ordered_categories_as_their_places():
    frame, y = people()
    kind = pd.CategoricalDtype(["tech", "cook", "sales", "nurse"], ordered=True)
    ordered = frame[["age"]].assign(job=frame["job"].astype(kind))
    check(lightgbm.LGBMClassifier(n_estimators=10, verbose=-1).fit(ordered, y), ordered)
