"""Rules of columns as the data complete them, and rows that are written back with changes."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer

from fairmargin.core.column import Column
from fairmargin.errors import InputError
from fairmargin.models.tables.reading import read_table_model
from fairmargin.models.tables.schema import coding_of


def test_places_of_ordered_categories_are_those_of_the_type_also_if_the_data_lack_some():
    kind = pd.CategoricalDtype(["low", "middle", "high"], ordered=True)
    frame = pd.DataFrame({"level": pd.Categorical(["low", "high"], dtype=kind)})
    (column,) = coding_of(frame, {}, names=["level"]).columns
    assert column.categories == ("low", "middle", "high")
    assert column.cost_of([0, 1], [2, 2]).tolist() == [2.0, 1.0]
    assert column.allows([1, 0], [2, 1]).tolist() == [True, False]  # to "high", not to "middle", which nobody has


def test_a_category_can_be_switched_to_that_the_type_of_the_rows_does_not_list():
    frame = pd.DataFrame({"job": pd.Categorical(["cook", "nurse"])})
    rows = pd.DataFrame({"job": pd.Categorical(["cook"])})
    coding = coding_of(frame, {}, names=["job"])
    changed = coding.with_changes(rows, np.array([[0.0]]), np.array([[1.0]]))
    assert changed["job"].tolist() == ["nurse"]


def test_nullable_integers_keep_their_missing_values_beside_a_change():
    frame = pd.DataFrame({"age": pd.array([30, 40, None], dtype="Int64")})
    coding = coding_of(frame, {"age": Column(step=1)}, names=["age"])
    before = coding.encode(frame)
    changed = coding.with_changes(frame, before, np.where(before == 30, 31.0, before))
    assert changed["age"].dtype == "Int64"
    assert changed["age"].tolist() == [31, 40, pd.NA]


def test_a_column_in_a_single_bin_is_read():
    frame = pd.DataFrame({"always": [1.0] * 20, "age": np.arange(20.0)})
    model = make_pipeline(KBinsDiscretizer(3, strategy="uniform"), LogisticRegression())
    model.fit(frame, frame["age"] > 7)
    classifier = read_table_model(model, training_data=frame)
    assert (classifier.predict(classifier.encode(frame)) == model.predict(frame)).all()


def test_numbers_that_a_rule_calls_categories_must_be_known_where_the_model_reads_them_as_numbers():
    frame = pd.DataFrame({"code": [10, 20, 30, 40] * 5})
    rows = pd.DataFrame({"code": [10, 25]})
    model = LogisticRegression().fit(frame, frame["code"] > 20)
    rules = {"code": Column(kind="category")}
    with pytest.raises(InputError, match="Column 'code' of `x` holds 25 in row 1, which is none of its categories"):
        read_table_model(model, rules, training_data=frame).encode(rows)
    classifier = read_table_model(model, rules, training_data=frame, data=rows)
    assert (classifier.predict(classifier.encode(rows)) == model.predict(rows)).all()
