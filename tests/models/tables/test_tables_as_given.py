"""Tables as users hold them: types of columns, libraries of data frames, arrays, orders of columns, unknown values."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, RobustScaler, StandardScaler, TargetEncoder

import fairmargin as fm
from fairmargin.errors import InputError
from fairmargin.models.tables.reading import read_table_model
from tests.models.tables.people import check, decided, people

TEXT, NUMBERS = ["job"], ["age", "gain", "height"]


def pipeline(last=None, text=None):
    encoder = OneHotEncoder(handle_unknown="ignore")
    steps = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS),
        (make_pipeline(text or "passthrough", encoder), TEXT),
        (encoder, ["member", "grade"]),
    )
    return make_pipeline(steps, LogisticRegression(max_iter=300) if last is None else last)


TYPES = {
    "as it is": {},
    "small numbers": {"age": "uint8", "gain": "float32", "height": "float32", "grade": "int8"},
    "nullable": {"age": "Int64", "gain": "Float64", "member": "boolean", "grade": "Int32", "job": "string"},
    "of pyarrow": {"age": "int64[pyarrow]", "gain": "double[pyarrow]", "job": "string[pyarrow]"},
    "categories": {"job": "category", "grade": "category", "member": "category"},
    "objects": {"job": object, "member": object, "grade": object, "age": object},
    "numbers as booleans": {"member": int},
}


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", TYPES)
def test_types_of_columns_are_written_back(name, missing):
    frame, y = people(missing=missing)
    frame = frame.astype(TYPES[name])
    imputer = SimpleImputer(missing_values=pd.NA, strategy="most_frequent") if "string" in str(TYPES[name]) else None
    model = pipeline(text=imputer).fit(frame, y)
    classifier = check(model, frame)
    written = classifier.coding.decode(classifier.encode(frame))
    assert (written.isna() == frame.isna()).all(axis=None)
    if not missing:
        assert written.dtypes.astype(str).to_dict() == {
            name: "float64" if name == "age" and kind == "object" else str(kind) for name, kind in frame.dtypes.items()
        }


def test_texts_may_lack_values_as_none():
    frame, y = people(missing=True)
    frame["job"] = pd.Series([None if pd.isna(value) else value for value in frame["job"]], dtype=object)
    check(pipeline().fit(frame, y), frame)
    values = [np.nan if age > 70 else job for age, job in zip(frame["age"], frame["job"], strict=True)]
    both = frame.assign(job=pd.Series(values, dtype=object))
    model = pipeline().fit(both, y)
    with pytest.raises(InputError, match="Column 'job' of `training_data` holds both None and nan"):
        read_table_model(model, training_data=both)


def test_columns_of_objects_may_hold_booleans_and_missing_values():
    frame, y = people()
    frame["member"] = frame["member"].astype(object).mask(frame["age"] > 70, None)
    classifier = check(pipeline().fit(frame, y), frame)
    assert classifier.coding.columns[3].kind == "boolean"
    assert classifier.coding.columns[3].categories == (False, True)


@pytest.mark.parametrize("fitted_on", ["pandas", "polars"])
@pytest.mark.parametrize("given", ["polars", "polars categories", "pyarrow", "pyarrow dictionaries"])
def test_frames_of_other_libraries_are_coded_as_those_of_pandas(given, fitted_on):
    polars = pytest.importorskip("polars")
    frame, y = people(missing=True)
    table = pa.Table.from_pandas(frame)
    other = table if given.startswith("pyarrow") else polars.from_arrow(table)
    if given == "polars categories":
        other = other.with_columns(polars.col("job").cast(polars.Categorical))
    elif given == "pyarrow dictionaries":
        other = table.set_column(2, "job", table["job"].dictionary_encode())
    model = pipeline().fit(frame if fitted_on == "pandas" else polars.from_arrow(table), y)
    classifier = read_table_model(model, training_data=other, data=other)
    expected = read_table_model(model, training_data=frame, data=frame)
    np.testing.assert_array_equal(classifier.encode(other), expected.encode(frame))
    positions = (model.predict(frame if fitted_on == "pandas" else polars.from_arrow(table)) == "rich").astype(int)
    assert (classifier.predict(classifier.encode(other)) == positions).all()


def test_steps_may_give_frames_of_polars():
    pytest.importorskip("polars")
    frame, y = people()
    steps = make_column_transformer((OrdinalEncoder(), TEXT), (StandardScaler(), NUMBERS)).set_output(
        transform="polars"
    )
    again = make_column_transformer((OneHotEncoder(), [0]), remainder="passthrough")
    check(make_pipeline(steps, RandomForestClassifier(5)).fit(frame, y), frame)
    check(make_pipeline(steps, again, LogisticRegression()).fit(frame, y), frame)


def test_columns_are_aligned_by_name_and_others_ignored_with_a_note():
    frame, y = people()
    model = pipeline().fit(frame, y)
    turned = frame[frame.columns[::-1]].assign(extra=1)
    classifier = read_table_model(model, training_data=frame, data=turned)
    np.testing.assert_array_equal(classifier.encode(turned), classifier.encode(frame))
    assert classifier.notes == ("Columns that the model does not take were ignored: extra.",)
    with pytest.raises(InputError, match="`training_data` has no column 'job', which the model was trained on"):
        read_table_model(model, training_data=frame.drop(columns="job"))


def test_models_fitted_on_arrays_take_arrays_and_frames_of_as_many_columns():
    frame, y = people()
    numbers = frame[NUMBERS]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(numbers.to_numpy(), y)
    check(model, numbers.to_numpy())
    classifier = read_table_model(model, training_data=numbers)
    assert classifier.coding.names == tuple(NUMBERS)
    assert (classifier.predict(classifier.encode(numbers)) == (model.predict(numbers.to_numpy()) == "rich")).all()
    with pytest.raises(InputError, match="has 6 columns, but the model was trained on an array with 3"):
        read_table_model(model, training_data=frame)
    with pytest.raises(InputError, match="has 2 columns, but the model was trained on 3"):
        read_table_model(model, training_data=numbers.to_numpy()[:, :2])


def test_models_fitted_on_arrays_of_objects_take_them():
    frame, y = people()
    steps = make_column_transformer((OneHotEncoder(), [2, 3]), (StandardScaler(), [0, 1]))
    model = make_pipeline(steps, LogisticRegression()).fit(frame.to_numpy(object), y)
    check(model, frame.to_numpy(object))


@pytest.mark.parametrize(
    "encoder",
    [
        OneHotEncoder(handle_unknown="ignore"),
        OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=20),
        OneHotEncoder(handle_unknown="ignore", drop="first"),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["object", "category"])
def test_unknown_categories_go_where_the_encoder_sends_them(encoder, kind):
    frame, y = people(missing=True)
    frame["job"] = frame["job"].astype(kind)
    steps = make_column_transformer((encoder, TEXT), (make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS))
    model = make_pipeline(steps, LogisticRegression()).fit(frame, y)
    values = frame["job"].astype(object)
    values[:50] = "pilot"
    unknown = frame.assign(job=values.astype(kind))
    classifier = check(model, unknown, frame)
    assert "pilot" in classifier.coding.columns[2].categories
    alone = read_table_model(model, training_data=frame)
    rows = alone.encode(unknown)
    assert (rows[:50, 2] == len(alone.coding.columns[2].categories)).all()
    assert (alone.predict(rows) == (model.predict(unknown) == "rich")).all()


@pytest.mark.parametrize("encoder", [OneHotEncoder(), OrdinalEncoder()], ids=str)
def test_an_unknown_category_that_the_encoder_refuses_is_named(encoder):
    frame, y = people()
    steps = make_column_transformer((encoder, TEXT), (StandardScaler(), NUMBERS))
    model = make_pipeline(steps, LogisticRegression()).fit(frame, y)
    unknown = frame.assign(job=frame["job"].mask(frame.index == 4, "pilot"))
    for training in (frame, unknown):
        classifier = read_table_model(model, training_data=training, data=unknown)
        with pytest.raises(InputError, match="Column 'job' of `x` holds 'pilot' in row 4"):
            classifier.encode(unknown)
        with pytest.raises(InputError, match="Column 'job' of `x` is missing in row 4"):
            classifier.encode(frame.assign(job=frame["job"].mask(frame.index == 4)))
        assert "pilot" not in classifier.coding.columns[2].categories
        row = classifier.encode(frame)[:1]
        for value in (np.nan, 5.0):
            row[0, 2] = value
            features = classifier.features_map
            assert (np.isnan(features.transform(row)[0]) == (features.source == 2)).all()


def test_columns_may_be_chosen_by_type():
    frame, y = people()
    steps = make_column_transformer(
        (OneHotEncoder(), make_column_selector(dtype_exclude=np.number)),
        (StandardScaler(), make_column_selector(dtype_include=np.number)),
    )
    check(make_pipeline(steps, LogisticRegression()).fit(frame, y), frame)


@pytest.mark.parametrize("labels", [["no", "yes"], [0, 1], [False, True], [1.0, 2.0], [5, 3]])
def test_labels_of_any_type_are_the_classes(labels):
    frame, y = people()
    model = pipeline().fit(frame, np.array(labels)[(y == "rich").astype(int)])
    classifier = check(model, frame)
    assert classifier.classes == tuple(sorted(labels))
    forest = RandomForestClassifier(5, max_depth=2).fit(frame[NUMBERS], np.array(labels)[(y == "rich").astype(int)])
    check(forest, frame[NUMBERS])


def test_three_classes_are_read():
    frame, _ = people()
    y = pd.cut(frame["gain"] + 100 * frame["age"], 3, labels=["low", "middle", "high"]).astype(str)
    for last in (LogisticRegression(max_iter=300), RandomForestClassifier(5, max_depth=3)):
        assert len(check(pipeline(last).fit(frame, y), frame).classes) == 3
    steps = make_column_transformer((TargetEncoder(), ["job", "grade"]), (StandardScaler(), ["gain"]))
    classifier = check(make_pipeline(steps, LogisticRegression()).fit(frame, y), frame)
    assert classifier.features_map.source.tolist() == [2, 2, 2, 5, 5, 5, 1]


def test_integers_may_be_negative_after_a_change():
    frame, y = people()
    frame = frame.astype({"age": "uint8"})
    classifier = read_table_model(pipeline().fit(frame, y), {"age": fm.Column(low=-5)}, training_data=frame)
    rows = classifier.encode(frame)[:2]
    rows[:, 0] = -3, 300
    assert classifier.coding.decode(rows)["age"].tolist() == [-3, 300]


def test_missing_numbers_stay_missing_in_histograms():
    frame, y = people(missing=True)
    check(HistGradientBoostingClassifier(max_iter=10).fit(frame[NUMBERS], y), frame[NUMBERS])


def test_columns_of_one_category_may_be_given_by_a_rule():
    frame, y = people()
    encoded = pd.get_dummies(frame, columns=["job"], dtype=int)
    for last in (LogisticRegression(), RandomForestClassifier(5)):
        model = make_pipeline(StandardScaler(), last).fit(encoded, y)
        classifier = check(model, encoded, rules={"job": fm.Column(kind="category")})
        assert classifier.coding.columns[-1].categories == tuple(sorted(set(frame["job"])))
        assert classifier.features_map.source.tolist() == [0, 1, 2, 3, 4, 5, 5, 5, 5, 5]


def test_names_of_columns_may_be_numbers():
    frame, y = people()
    numbered = frame.set_axis(range(frame.shape[1]), axis="columns")
    steps = make_column_transformer((OneHotEncoder(), [2, 5]), (StandardScaler(), [0, 1, 4]))
    check(make_pipeline(steps, LogisticRegression()).fit(numbered, y), numbered)


def test_dates_may_be_categories():
    frame, y = people()
    frame["day"] = pd.to_datetime("2020-01-01") + pd.to_timedelta(np.arange(len(frame)) % 3, unit="D")
    steps = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["day"]), (StandardScaler(), NUMBERS))
    check(make_pipeline(steps, LogisticRegression()).fit(frame, y), frame)


def test_boosted_trees_of_frames_of_polars_are_read():
    polars, xgboost = pytest.importorskip("polars"), pytest.importorskip("xgboost")
    frame, y = people(missing=True)
    table = polars.from_pandas(frame).with_columns(polars.col("job").cast(polars.Categorical))
    model = xgboost.XGBClassifier(n_estimators=5, enable_categorical=True, n_jobs=1).fit(table, y == "rich")
    classifier = read_table_model(model, training_data=table)
    rows = classifier.encode(table)
    assert (classifier.predict(rows) == model.predict(table)).all()
    assert (decided(classifier.head, classifier.features_map.transform(rows)) == model.predict(table)).all()


def test_sparse_columns_of_pandas_are_read_as_dense_ones():
    frame, y = people()
    model = make_pipeline(make_column_transformer((StandardScaler(), ["age", "gain"])), LogisticRegression())
    sparse = frame.assign(age=frame["age"].astype(pd.SparseDtype("int64", 0)), gain=frame["gain"].astype("Sparse"))
    found = [
        fm.measure(
            fm.as_classifier(model.fit(frame, y), training_data=rows), rows, y, fm.ESTIMATORS["exact_linear"](norm="l1")
        )
        for rows in (frame, sparse)
    ]
    np.testing.assert_array_equal(found[1].values, found[0].values)


@pytest.mark.parametrize("large", [1e308, 2.0**70, -(2.0**70)])
def test_a_constant_may_be_very_large(large):
    frame, y = people()
    frame["gain"] = large
    model = make_pipeline(make_column_transformer((StandardScaler(), ["age", "gain"])), LogisticRegression())
    classifier = fm.as_classifier(model.fit(frame.assign(gain=1.0), y), training_data=frame)
    assert classifier.coding.columns[1].immutable
    assert np.isfinite(classifier.additive.contributions(classifier.encode(frame))).all()


@pytest.mark.parametrize("scaler", [RobustScaler(), StandardScaler()], ids=str)
def test_whole_numbers_and_single_precision_in_one_step_are_read_in_the_precision_of_the_step(scaler):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(-47, -17, 300).astype(np.int16),
            "height": rng.normal(0, 3, 300).astype(np.float32),
        }
    )
    y = (frame["age"] + frame["height"] > -32).astype(int)
    forest = RandomForestClassifier(20, max_depth=6, random_state=0)
    model = make_pipeline(make_column_transformer((scaler, ["age", "height"])), forest).fit(frame, y)
    classifier = fm.as_classifier(model, training_data=frame)
    ages = np.arange(-47.0, -16.0)
    rows = np.stack([np.repeat(ages, 3), np.tile(np.float32([-2.0, 0.1, 2.5]), len(ages))], axis=1)
    scores = classifier.ensemble.scores(rows)
    np.testing.assert_array_equal(scores.argmax(axis=1), classifier.predict(rows))


def test_a_model_whose_weights_are_all_zero_has_no_other_class():
    frame, _ = people()
    model = LogisticRegression().fit(frame[["age"]], np.arange(len(frame)) % 2)
    model.coef_[:], model.intercept_[:] = 0, 0
    classifier = fm.as_classifier(model, training_data=frame[["age"]])
    for norm in ("l1", "l2", "linf"):
        found = fm.measure(classifier, frame[["age"]], np.zeros(len(frame)), fm.ESTIMATORS["exact_linear"](norm=norm))
        assert np.isinf(found.values).all()
        assert found.bound is fm.Bound.EXACT
