"""What people hand in by mistake: every table, rule or model that cannot be read is refused in one sentence."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fairmargin as fm
from fairmargin.errors import FairmarginError, InputError, ModelError

ROWS = pd.DataFrame({"age": np.arange(40), "income": np.arange(40) % 7 * 100.0, "job": ["cook", "nurse"] * 20})
LABELS = pd.Series(np.where(ROWS["age"] > 18, "yes", "no"))
SEX = pd.Series(["F", "M", "F", "F"] * 10, name="sex")


@pytest.fixture
def model():
    encode = make_column_transformer(
        (StandardScaler(), ["age", "income"]), (OneHotEncoder(handle_unknown="ignore"), ["job"])
    )
    return make_pipeline(encode, LogisticRegression()).fit(ROWS, LABELS)


def refusal(model, rows=ROWS, labels=LABELS, groups=SEX, **more):
    """Return the sentence with which an audit is refused."""
    with pytest.raises(FairmarginError) as caught:
        fm.audit_model(model, rows, labels, groups=groups, progress=False, **more)
    assert isinstance(caught.value, InputError | ModelError)
    return str(caught.value)


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA])
def test_labels_that_are_missing_beside_texts_are_counted(model, nothing):
    labels = LABELS.astype(object)
    labels[[3, 5]] = nothing
    assert "`y` lacks the label of 2 of 40 samples (first at index 3)" in refusal(model, labels=labels)


@pytest.mark.parametrize("several", [["a", "b"], {"a": 1}, np.zeros(2)])
@pytest.mark.parametrize("name", ["age", "job"])
def test_columns_whose_rows_hold_several_values_are_named(model, name, several):
    values = ROWS[name].astype(object)
    values[4] = several
    bad = ROWS.assign(**{name: values})
    assert f"Column '{name}' of `X` must hold one value per row; row 4 holds" in refusal(model, bad)
    assert f"Column '{name}' of `X` must hold one value per row" in refusal(model, bad, training_data=ROWS)


def test_lists_in_a_column_that_the_model_does_not_take_do_not_matter(model):
    rows = ROWS.assign(tags=[["a"]] * len(ROWS))
    record = fm.audit_model(model, rows, LABELS, groups=SEX, settings=fm.AuditSettings(resamples=200), progress=False)
    assert "ignored: tags" in " ".join(record.notes)


def test_groups_must_be_single_values(model):
    groups = pd.DataFrame({"sex": [["F"]] * len(ROWS)})
    assert "Column 'sex' of `groups` must hold one value per row; row 0 holds ['F']" in refusal(model, groups=groups)


def test_integers_beyond_all_numbers_are_refused(model):
    income = ROWS["income"].astype(object)
    income[2] = 10**400
    assert "Column 'income' of `X` holds integers that are too large" in refusal(model, ROWS.assign(income=income))


def test_complex_numbers_are_refused(model):
    assert "Column 'age' of `X` holds complex numbers" in refusal(model, ROWS.assign(age=ROWS["age"] + 1j))


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (fm.Column(plausible="observed"), "`columns` gives `plausible` for 'job', which holds categories"),
        (fm.Column(label="$"), "`columns` gives `label` for 'job', which holds categories"),
    ],
)
def test_rules_for_numbers_are_refused_for_categories(model, rule, said):
    assert said in refusal(model, columns={"job": rule})


def test_rules_for_numbers_are_refused_for_categories_that_columns_encode():
    rows = pd.DataFrame({"age": np.arange(40), "job_cook": [1, 0] * 20, "job_nurse": [0, 1] * 20})
    model = LogisticRegression().fit(rows, LABELS)
    assert "gives `unit` for 'job', which holds categories" in refusal(model, rows, columns={"job": fm.Column(unit=2)})


@pytest.mark.parametrize("values", [[1, np.nan], [np.inf], ["a"]])
def test_listed_numbers_must_be_finite(model, values):
    assert "`columns` gives 'age' the values" in refusal(model, columns={"age": fm.Column(values=values)})


@pytest.mark.parametrize(
    ("predicted", "said"),
    [
        (lambda rows: np.array(["yes"] * (len(rows) + 1)), "must return one label per row; for 1 rows it returned"),
        (lambda rows: "yes", "returned the shape ()"),
        (lambda rows: np.array([["yes", "no"]] * len(rows)), "must return one label per row"),
        (
            lambda rows: ["maybe"] * len(rows),
            "The Pipeline predicted 'maybe', which is not among its classes 'no', 'yes'",
        ),
    ],
)
def test_predictions_that_are_no_classes_are_described(model, predicted, said):
    model.predict = predicted
    assert said in refusal(model)


def test_several_labels_per_row_are_refused():
    numbers = ROWS[["age", "income"]]
    model = RandomForestClassifier(2).fit(numbers, np.stack([LABELS == "yes", LABELS == "no"], axis=1))
    assert "predicts several labels per row" in refusal(model, numbers)


def test_a_pipeline_of_a_table_without_its_training_data_says_how_to_give_it(model):
    with pytest.raises(ModelError, match="For distances between the raw rows of a table, give `training_data`"):
        fm.as_classifier(model)
