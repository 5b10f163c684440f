"""The scores of linear models on raw rows are sums of one contribution per column."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
    TargetEncoder,
)

import fairmargin as fm
from fairmargin.errors import ModelError
from fairmargin.models.tables.additive import Curve, Line, Places, additive_of


def table(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, rows).astype(float),
            "wage": rng.lognormal(3, 0.5, rows).round(2),
            "job": rng.choice(["cook", "nurse", "clerk"], rows),
            "owner": rng.random(rows) < 0.4,
        }
    )
    frame.loc[rng.random(rows) < 0.1, "age"] = np.nan
    return frame, rng.integers(0, 3, rows)


def pipelines():
    scaled = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    yield "scaled", [("n", scaled, ["age", "wage"]), ("c", OneHotEncoder(handle_unknown="ignore"), ["job", "owner"])]
    yield (
        "curved",
        [
            ("p", make_pipeline(SimpleImputer(), PowerTransformer()), ["age"]),
            ("q", QuantileTransformer(n_quantiles=50), ["wage"]),
            ("t", TargetEncoder(random_state=0), ["job"]),
            ("o", OrdinalEncoder(), ["owner"]),
        ],
    )
    yield (
        "bins",
        [
            ("b", KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf"), ["wage"]),
            ("s", StandardScaler(), ["wage"]),
            ("c", OneHotEncoder(drop="first", min_frequency=0.34), ["job"]),
        ],
    )


@pytest.mark.parametrize(("name", "steps"), list(pipelines()), ids=[name for name, _ in pipelines()])
@pytest.mark.parametrize("mixed", [False, True], ids=["", "pca"])
def test_contributions_add_up_to_the_decision_function(name, steps, mixed):
    x, y = table()
    columns = ColumnTransformer(steps, sparse_threshold=0)
    last = [PCA(3)] if mixed else []
    model = make_pipeline(columns, *last, LogisticRegression(max_iter=2000)).fit(x, y)
    classifier = fm.as_classifier(model, training_data=x)
    additive = classifier.additive
    found = additive.contributions(classifier.encode(x)).sum(axis=1) + additive.start
    np.testing.assert_allclose(found, model.decision_function(x), rtol=1e-9, atol=1e-9)
    assert classifier.additive is additive


def test_numbers_are_lines_if_all_their_features_are_affine():
    x, y = table()
    made = {}
    for name, steps in pipelines():
        model = make_pipeline(ColumnTransformer(steps), LogisticRegression(max_iter=2000)).fit(x, y)
        made[name] = [type(each) for each in fm.as_classifier(model, training_data=x).additive.parts]
    assert made == {
        "scaled": [Line, Line, Places, Places],
        "curved": [Curve, Curve, Places, Places],
        "bins": [Places, Curve, Places, Places],  # columns that are not used are categories that never change
    }


def test_features_that_depend_on_two_columns_are_refused():
    x, y = table()
    steps = [("n", StandardScaler(), ["wage"]), ("c", OneHotEncoder(), ["job", "owner"])]
    model = make_pipeline(ColumnTransformer(steps), LogisticRegression()).fit(x, y)
    features = fm.as_classifier(model, training_data=x).features_map
    head = fm.as_classifier(model, training_data=x).head

    def mixed(rows):
        found = np.array(features.transform(rows))
        found[:, 0] *= found[:, 1]
        return found

    with pytest.raises(ModelError, match="not a sum of one contribution per column"):
        additive_of(replace(features, transform=mixed), head.weight, head.bias)


def test_a_last_step_that_is_not_linear_has_no_contributions():
    from sklearn.tree import DecisionTreeClassifier

    x, y = table()
    numbers = x[["wage"]]
    classifier = fm.as_classifier(DecisionTreeClassifier(max_depth=2).fit(numbers, y), training_data=numbers)
    with pytest.raises(ModelError, match="last step of the DecisionTreeClassifier is not linear"):
        _ = classifier.additive
