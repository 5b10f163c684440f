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


def wide_table(columns, rows=60, seed=0):
    """Numbers of several types with missing values, and a category in every fourth column."""
    rng = np.random.default_rng(seed)
    makers = (
        lambda: rng.choice(["a", "b", "c"], rows),
        lambda: np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows).round(2)),
        lambda: rng.integers(0, 9, rows).astype(np.int16),
        lambda: rng.normal(size=rows).astype(np.float32),
    )
    frame = pd.DataFrame({f"c{i}": makers[i % 4]() for i in range(columns)})
    return frame, (rng.random(rows) < 0.5).astype(int)


def wide_model(x, y):
    """A linear model of scaled, ranked and encoded columns."""
    numbers = [name for name in x if x[name].dtype.kind in "fi"]
    half = len(numbers) // 2
    steps = [
        ("s", make_pipeline(SimpleImputer(), StandardScaler()), numbers[:half]),
        ("q", QuantileTransformer(n_quantiles=10), numbers[half:]),
        ("c", OneHotEncoder(handle_unknown="ignore"), [name for name in x if name not in numbers]),
    ]
    columns = ColumnTransformer(steps, sparse_threshold=0)
    return make_pipeline(columns, SimpleImputer(), LogisticRegression()).fit(x, y)


@pytest.mark.parametrize("cells", [1, 500, 2**22], ids="blocks of {} cells".format)
def test_contributions_equal_those_of_columns_that_are_computed_alone(cells, monkeypatch):
    monkeypatch.setattr("fairmargin.models.tables.varied._CELLS", cells)
    x, y = wide_table(12)
    classifier = fm.as_classifier(wide_model(x, y), training_data=x)
    additive, features = classifier.additive, classifier.features_map
    rows = classifier.encode(x)
    together = additive.contributions(rows)
    for place in range(12):
        alone = np.repeat(additive.reference[None], len(rows), axis=0)
        alone[:, place] = rows[:, place]
        own = features.features_of(place)
        expected = features.transform(alone)[:, own] @ additive.weight[:, own].T
        kind = classifier.coding.layouts[place].dtype
        rtol = 1e-6 if kind in (np.float32, np.int16) else 1e-12  # a line through two ends of a range
        np.testing.assert_allclose(together[:, place], expected, rtol=rtol, atol=rtol, err_msg=str(kind))


def test_the_cost_of_contributions_grows_with_the_number_of_cells_and_not_of_columns_squared():
    calls = []
    for columns in (8, 80):
        x, y = wide_table(columns)
        classifier = fm.as_classifier(wide_model(x, y), training_data=x)
        features, head = classifier.features_map, classifier.head
        sizes = []

        def counted(rows, features=features, sizes=sizes):
            sizes.append(rows.size)
            return features.transform(rows)

        additive = additive_of(replace(features, transform=counted), head.weight, head.bias)
        additive.contributions(classifier.encode(x))
        calls.append((len(sizes), sum(sizes)))
    assert calls[1][0] == calls[0][0]
    assert calls[1][1] == 10 * calls[0][1]


def test_a_value_that_a_step_refuses_takes_no_other_value_with_it():
    x, y = wide_table(12)
    classifier = fm.as_classifier(wide_model(x, y), training_data=x)
    features, head = classifier.features_map, classifier.head
    places = [part for part in classifier.additive.parts if isinstance(part, Places)]

    def refusing(rows):
        if (rows[:, 4] == 1).any():
            raise ValueError("no b in the second column of categories")
        return features.transform(rows)

    found = additive_of(replace(features, transform=refusing), head.weight, head.bias).parts
    first, second, third = (part for part in found if isinstance(part, Places))
    assert np.isnan(second.scores).all(axis=1).tolist() == [False, True, False, False]
    kept = ~np.isnan(second.scores)
    np.testing.assert_array_equal(second.scores[kept], places[1].scores[kept])
    np.testing.assert_array_equal([first.scores, third.scores], [places[0].scores, places[2].scores])


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
