"""What is refused of models of raw rows, and of tables that do not go with them."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fairmargin as fm
from tests.spec.refusals import Refusal

ROWS = pd.DataFrame({"age": np.arange(40), "grade": [1, 2] * 20, "job": ["cook", "nurse"] * 20})
LABELS = np.where(ROWS["age"] > 18, "yes", "no")
EXACT = fm.ESTIMATORS["exact_linear"](norm="l1")


@cache
def model() -> Any:
    encode = make_column_transformer(
        (StandardScaler(), ["age"]), (OneHotEncoder(handle_unknown="ignore"), ["grade", "job"])
    )
    return make_pipeline(encode, LogisticRegression()).fit(ROWS, LABELS)


@cache
def classifier() -> Any:
    return fm.as_classifier(model(), training_data=ROWS)


def audited(x: Any, **more: Any) -> Any:
    return fm.audit_model(model(), x, LABELS, groups=pd.Series(["F", "M"] * 20, name="sex"), progress=False, **more)


REFUSALS = [
    # numbers
    *(
        Refusal(lambda _, call=call: call(ROWS.assign(age="forty")), f"Column 'age' of `{name}`; row 0 holds 'forty'")
        for name, call in {
            "X": audited,
            "training_data": lambda x: fm.as_classifier(model(), training_data=x),
            "x": lambda x: fm.measure(classifier(), x, LABELS, EXACT),
        }.items()
    ),
    Refusal(
        lambda _: audited(ROWS.assign(age=["n/a"] * 39 + [7])),
        "Column 'age' of `X` must hold numbers; row 0 holds 'n/a'",
    ),
    # categories
    Refusal(
        lambda _: fm.measure(classifier(), classifier().encode(ROWS), LABELS, EXACT),
        "Column 'job' of `x` holds numbers such as 0.0; its categories are texts such as 'cook'; not encoded ones",
    ),
    Refusal(
        lambda _: fm.nearest(classifier(), classifier().encode(ROWS), LABELS, EXACT),
        "Column 'job' of `x` holds numbers such as 0.0",
    ),
    Refusal(lambda _: audited(ROWS.assign(job=[0, 1] * 20)), "Column 'job' of `X` holds numbers such as 0"),
    Refusal(
        lambda _: audited(ROWS.assign(grade=["1", "2"] * 20), training_data=ROWS),
        "Column 'grade' of `X` holds texts such as '1'; its categories are numbers such as 1",
    ),
    # tables
    Refusal(lambda _: audited(ROWS.to_dict("list")), "`X` must be a data frame or an array; given a dict"),
    Refusal(lambda _: audited("people.csv"), "`X` must be a data frame or an array; given 'people.csv'"),
    Refusal(lambda _: audited(pl.from_pandas(ROWS).lazy()), "given a LazyFrame. Collect it first."),
    Refusal(
        lambda _: fm.measure(classifier(), None, LABELS, EXACT),
        "`x` must be a data frame or an array with one row per sample; given None",
    ),
    # rows that are not coded
    Refusal(lambda _: classifier().predict(ROWS), "Rows must be coded by 3 numbers each; of the type object"),
    Refusal(lambda _: classifier().predict(np.zeros((2, 4))), "Rows must be coded by 3 numbers each; (2, 4)"),
]
