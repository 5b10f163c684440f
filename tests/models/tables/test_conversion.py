"""The trees on the columns of a table decide like the user's own model, on every row."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeClassifier

from fairmargin.models.as_classifier import as_classifier
from tests.data.files import SHARED
from tests.distances.test_exact_tree import lightgbm, xgboost

BOOSTED = {"n_estimators": 12, "max_depth": 4, "n_jobs": 1}
LIGHT = {"n_estimators": 12, "num_leaves": 12, "n_jobs": 1, "verbose": -1, "min_data_per_group": 5, "cat_smooth": 1.0}


def numbers_of(frame: pd.DataFrame) -> list[str]:
    return [name for name in frame if pd.api.types.is_numeric_dtype(frame[name])]


def encoded(frame: pd.DataFrame, numbers="passthrough", categories=None, sparse: bool = False) -> ColumnTransformer:
    """Preprocessing of numbers and of categories; `sparse` keeps the result in a sparse matrix."""
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=sparse)
    names = numbers_of(frame)
    return ColumnTransformer(
        [
            ("numbers", numbers, names),
            (
                "categories",
                one_hot if categories is None else categories,
                [each for each in frame if each not in names],
            ),
        ],
        sparse_threshold=1.0,
    )


def typed(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with its texts in the type category."""
    return frame.astype({name: "category" for name in frame if name not in numbers_of(frame)})


def ordinal(missing=np.nan) -> OrdinalEncoder:
    return OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=missing)


def booster_of_xgboost(x, y):
    classes = len(np.unique(y))
    many = {"objective": "multi:softprob", "num_class": classes} if classes > 2 else {"objective": "binary:logistic"}
    data = xgboost().DMatrix(x, np.unique(y, return_inverse=True)[1], enable_categorical=True)
    return xgboost().train({"max_depth": 4, "max_cat_to_onehot": 1, "nthread": 1, **many}, data, 12)


def booster_of_lightgbm(x, y):
    classes = len(np.unique(y))
    many = {"objective": "multiclass", "num_class": classes} if classes > 2 else {"objective": "binary"}
    data = lightgbm().Dataset(x, np.unique(y, return_inverse=True)[1], params={"verbose": -1})
    settings = {name: LIGHT[name] for name in ("num_leaves", "verbose", "min_data_per_group", "cat_smooth")}
    return lightgbm().train({**settings, **many, "num_threads": 1}, data, 12)


def piped(make, *prepare, **options):
    return lambda x, y: make_pipeline(encoded(x, *prepare, **options), make()).fit(x, y)


def full_impute():
    return make_pipeline(SimpleImputer(strategy="median"), StandardScaler())


# From a table and labels to a fitted model. Those of the second dict take texts in the type category.
MODELS = {
    "decision tree": piped(lambda: DecisionTreeClassifier(random_state=0), StandardScaler()),
    "forest": piped(lambda: RandomForestClassifier(15, random_state=0), StandardScaler()),
    "forest with ties": piped(lambda: RandomForestClassifier(4, random_state=0, max_features=2)),
    "extra trees": piped(lambda: ExtraTreesClassifier(12, random_state=0), MinMaxScaler()),
    "extra trees of places": piped(lambda: ExtraTreesClassifier(4, random_state=0), "passthrough", ordinal(-2)),
    "gradient boosting": piped(lambda: GradientBoostingClassifier(n_estimators=12, random_state=0), full_impute()),
    "histogram boosting": piped(lambda: HistGradientBoostingClassifier(max_iter=12), PowerTransformer()),
    "histogram boosting of places": piped(
        lambda: HistGradientBoostingClassifier(max_iter=12, categorical_features=[4, 5]), "passthrough", ordinal()
    ),
    "xgboost": piped(lambda: xgboost().XGBClassifier(**BOOSTED), StandardScaler()),
    "xgboost, quantiles": piped(lambda: xgboost().XGBClassifier(**BOOSTED), QuantileTransformer(n_quantiles=50)),
    "xgboost, sparse": piped(lambda: xgboost().XGBClassifier(**BOOSTED), sparse=True),
    "xgboost, sparse and scaled": piped(lambda: xgboost().XGBClassifier(**BOOSTED), StandardScaler(), sparse=True),
    "xgboost, sparse bins": piped(
        lambda: xgboost().XGBClassifier(**BOOSTED),
        make_pipeline(SimpleImputer(), KBinsDiscretizer(5)),
        sparse=True,
    ),
    "lightgbm": piped(lambda: lightgbm().LGBMClassifier(**LIGHT), StandardScaler()),
    "lightgbm, sparse": piped(lambda: lightgbm().LGBMClassifier(**LIGHT), sparse=True),
    "lightgbm, target encoding": piped(
        lambda: lightgbm().LGBMClassifier(**LIGHT), StandardScaler(), TargetEncoder(random_state=0)
    ),
}
TYPED = {
    "histogram boosting, native categories": lambda x, y: HistGradientBoostingClassifier(
        max_iter=12, categorical_features="from_dtype"
    ).fit(x, y),
    "xgboost, native categories": lambda x, y: (
        xgboost().XGBClassifier(**BOOSTED, enable_categorical=True, max_cat_to_onehot=1).fit(x, y)
    ),
    "xgboost, one native category against the rest": lambda x, y: (
        xgboost().XGBClassifier(**BOOSTED, enable_categorical=True, max_cat_to_onehot=99).fit(x, y)
    ),
    "xgboost, native object": booster_of_xgboost,
    "lightgbm, native categories": lambda x, y: lightgbm().LGBMClassifier(**LIGHT).fit(x, y),
    "lightgbm, native object": booster_of_lightgbm,
}


def random_table(seed: int, classes: int) -> tuple[pd.DataFrame, np.ndarray]:
    """A random table with missing values, and labels from 0."""
    rng = np.random.default_rng([seed, classes])
    rows = 400
    frame = pd.DataFrame(
        {
            "age": rng.integers(17, 90, rows).astype(float),
            "gain": np.where(rng.random(rows) < 0.6, 0.0, rng.normal(0, 3000, rows).round(2)),
            "score": rng.normal(size=rows).astype(np.float32),
            "job": rng.choice(["cook", "nurse", "clerk", "sales", "guard"], rows),
            "town": rng.choice(["north", "south"], rows),
        }
    )
    lucky = frame["job"].isin(["cook", "sales"]) ^ (frame["town"] == "north")
    score = 2 * lucky + frame["age"] / 30 + (frame["gain"] > 0) + frame["score"] + rng.normal(size=rows) / 2
    y = np.searchsorted(np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1]), score)
    for name in frame:
        frame[name] = frame[name].mask(rng.random(rows) < 0.08)
    frame.insert(3, "member", rng.random(rows) < 0.5)
    return frame, y


def rows_around(classifier, rows: np.ndarray, seed: int) -> np.ndarray:
    """Rows with values at and next to all thresholds, unknown categories, and missing values everywhere."""
    rng = np.random.default_rng(seed)
    found = [rows, np.where(rng.random(rows.shape) < 0.3, np.nan, rows), np.full((1, rows.shape[1]), np.nan)]
    layouts = {layout.name: layout for layout in classifier.coding.layouts}
    for place, column in enumerate(classifier.coding.columns):
        if column.is_number:
            at = classifier.ensemble.thresholds(rows.shape[1])[place]
            values = np.concatenate([at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf), [0.0, -0.0, 1e-35, 1e9]])
            if column.single:
                values = values.astype(np.float32)
        else:
            values = np.arange(len(column.categories) + (not layouts[column.name].closed), dtype=float)
        some = rng.choice(rows, len(values))
        some[:, place] = values
        found.append(some)
    result = np.concatenate(found)
    never = [column.kind == "boolean" for column in classifier.coding.columns]  # booleans of numpy are never missing
    result[:, never] = np.nan_to_num(result[:, never]) % 2
    return result


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", [*MODELS, *TYPED])
@pytest.mark.filterwarnings("ignore")
def test_no_decision_differs_from_the_original_model(kind: str, classes: int, seed: int) -> None:
    seed = 100 * seed + sorted([*MODELS, *TYPED]).index(kind)
    frame, y = random_table(seed, classes)
    if kind in TYPED:
        frame = typed(frame)
    model = {**MODELS, **TYPED}[kind](frame, y)
    classifier = as_classifier(model, training_data=frame)
    own = rows_around(classifier, classifier.encode(frame), seed)
    np.testing.assert_array_equal(classifier.ensemble.decisions(own), classifier.predict(own))
    if hasattr(model, "classes_"):
        np.testing.assert_array_equal(classifier.ensemble.decisions(classifier.encode(frame)), model.predict(frame))


@pytest.mark.filterwarnings("ignore")
def test_some_rows_of_the_forest_with_ties_are_tied() -> None:
    frame, y = random_table(0, 2)
    model = MODELS["forest with ties"](frame, y)
    classifier = as_classifier(model, training_data=frame)
    rows = rows_around(classifier, classifier.encode(frame), 0)
    scores = classifier.ensemble.scores(rows)
    tied = scores[:, 0] == scores[:, 1]
    assert tied.sum() > 20
    np.testing.assert_array_equal(classifier.predict(rows[tied]), 0)
    np.testing.assert_array_equal(classifier.ensemble.decisions(rows[tied]), 0)


# Adult: raw rows with missing values, as a user reads them.

ADULT = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
)
ADULT_MODELS = {
    "decision tree": piped(lambda: DecisionTreeClassifier(random_state=0), StandardScaler()),
    "default forest": piped(lambda: RandomForestClassifier(random_state=0), StandardScaler()),
    "10 full-depth trees": piped(lambda: RandomForestClassifier(10, random_state=0), StandardScaler()),
    "extra trees": piped(lambda: ExtraTreesClassifier(50, max_depth=6, random_state=0), StandardScaler()),
    "10 full-depth extra trees of places": piped(
        lambda: ExtraTreesClassifier(10, random_state=0), "passthrough", ordinal(-2)
    ),
    "gradient boosting": piped(lambda: GradientBoostingClassifier(n_estimators=50, random_state=0), StandardScaler()),
    "histogram boosting": piped(lambda: HistGradientBoostingClassifier(random_state=0), StandardScaler()),
    "xgboost": piped(lambda: xgboost().XGBClassifier(n_jobs=1), StandardScaler()),
    "xgboost, not scaled": piped(lambda: xgboost().XGBClassifier(n_jobs=1)),
    "xgboost, sparse": piped(lambda: xgboost().XGBClassifier(n_jobs=1), StandardScaler(), sparse=True),
    "xgboost, sparse and not scaled": piped(lambda: xgboost().XGBClassifier(n_jobs=1), sparse=True),
    "xgboost, quantiles": piped(lambda: xgboost().XGBClassifier(n_jobs=1), QuantileTransformer()),
    "lightgbm": piped(lambda: lightgbm().LGBMClassifier(n_jobs=1, verbose=-1), StandardScaler()),
    "lightgbm, powers": piped(lambda: lightgbm().LGBMClassifier(n_jobs=1, verbose=-1), PowerTransformer()),
}
ADULT_TYPED = {
    "histogram boosting, native categories": lambda x, y: HistGradientBoostingClassifier(random_state=0).fit(x, y),
    "xgboost, native categories": lambda x, y: xgboost().XGBClassifier(n_jobs=1, enable_categorical=True).fit(x, y),
    "xgboost, native object": booster_of_xgboost,
    "lightgbm, native categories": lambda x, y: lightgbm().LGBMClassifier(n_jobs=1, verbose=-1).fit(x, y),
    "lightgbm, native object": booster_of_lightgbm,
}


@cache
def adult() -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame]:
    """The training rows with labels, and the test rows."""
    parts = [
        pd.read_csv(
            SHARED / "adult" / name,
            names=ADULT,
            skiprows=skipped,
            skipinitialspace=True,
            na_values="?",
            keep_default_na=False,
        )
        for name, skipped in (("adult.data", 0), ("adult.test", 1))
    ]
    y = parts[0]["income"].eq(">50K").to_numpy().astype(np.int64)
    return parts[0].drop(columns="income"), y, parts[1].drop(columns="income")


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data is not beside the project")
@pytest.mark.parametrize("kind", [*ADULT_MODELS, *ADULT_TYPED])
@pytest.mark.filterwarnings("ignore")
def test_no_decision_differs_on_any_test_row_of_adult(kind: str) -> None:
    frame, y, rest = adult()
    assert len(rest) == 16_281
    if kind in ADULT_TYPED:
        frame = typed(frame)
        rest = rest.astype({name: frame[name].dtype for name in frame if name not in numbers_of(frame)})
    model = {**ADULT_MODELS, **ADULT_TYPED}[kind](frame, y)
    classifier = as_classifier(model, training_data=frame)
    found = classifier.ensemble.decisions(classifier.encode(rest))
    if kind.endswith("native object"):
        library = xgboost() if kind.startswith("xgboost") else None
        data = rest if library is None else library.DMatrix(rest, enable_categorical=True)
        expected = (np.asarray(model.predict(data)) > 0.5).astype(int)
    else:
        expected = model.predict(rest)
    np.testing.assert_array_equal(found, expected)
    if kind == "10 full-depth trees":
        scores = classifier.ensemble.scores(classifier.encode(rest))
        assert (scores[:, 0] == scores[:, 1]).sum() > 500  # exact ties
