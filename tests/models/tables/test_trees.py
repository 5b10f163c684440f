"""An ensemble over features, expressed on the columns of a table, has the same scores for every row."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
    TargetEncoder,
)

from fairmargin.core.column import Column
from fairmargin.errors import ModelError
from fairmargin.models.tables import inversion
from fairmargin.models.tables.classifier import LinearHead, TableClassifier
from fairmargin.models.tables.features import FeatureMap
from fairmargin.models.tables.schema import coding_of
from fairmargin.models.tables.trees import of_columns
from fairmargin.models.trees.ensemble import LEAF, Tree, TreeEnsemble, joined


def people(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(17, 90, rows),
            "gain": np.where(rng.random(rows) < 0.6, 0.0, rng.exponential(3000, rows).round(2)),
            "job": rng.choice(["cook", "nurse", "clerk", "sales", "guard"], rows),
            "score": rng.normal(size=rows).astype(np.float32),
            "town": rng.choice(["north", "south"], rows),
        }
    )


def mapped(frame: pd.DataFrame, transformer, source, shape="rising", breaks=(), **rules: Column) -> FeatureMap:
    """The features of a fitted transformer; `shape` and `breaks` are for all features of numbers, or one each."""
    coding = coding_of(frame, rules, names=tuple(frame.columns))
    count = len(source)
    shapes = (shape,) * count if isinstance(shape, str) else tuple(shape)
    every = tuple(np.asarray(each, dtype=float) for each in breaks) or ((),) * count

    def transform(rows):
        found = transformer.transform(coding.decode(rows))
        return np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=np.float64)

    return FeatureMap(coding, np.array(source), shapes, np.zeros(count, dtype=bool), every, transform)


def random_ensemble(z: np.ndarray, seed: int, *, sets: bool = False, trees: int = 6) -> TreeEnsemble:
    """Trees of random questions, whose thresholds are features of rows, their neighbours, or out of reach."""
    rng = np.random.default_rng(seed)
    some = []
    for _ in range(trees):
        inner = 15
        feature = np.append(rng.integers(0, z.shape[1], inner), np.full(inner + 1, LEAF))
        limit = z[rng.integers(0, len(z), 2 * inner + 1), np.maximum(feature, 0)]
        kind = rng.integers(0, 8, 2 * inner + 1)
        limit = np.select(
            [kind == 0, kind == 1, kind == 2, kind == 3, kind == 4],
            [np.nextafter(limit, np.inf), np.nextafter(limit, -np.inf), limit + rng.normal(), 1e9 * limit, np.inf],
            limit,
        )
        left = np.append(2 * np.arange(inner) + 1, np.zeros(inner + 1, dtype=int))
        right = np.append(2 * np.arange(inner) + 2, np.zeros(inner + 1, dtype=int))
        which = np.where((feature != LEAF) & (rng.random(2 * inner + 1) < 0.5) & sets, rng.integers(0, 9), -1)
        some.append(
            Tree(
                feature,
                np.nan_to_num(limit, nan=0.0, posinf=np.inf, neginf=-np.inf),
                rng.random(2 * inner + 1) < 0.5,
                left,
                right,
                rng.normal(size=(2 * inner + 1, 2)),
                rng.random((9, 4)) < 0.5 if sets else np.zeros((0, 0), dtype=bool),
                which,
            )
        )
    return joined(some, np.zeros(2), 1e-12)


def rows_around(ensemble: TreeEnsemble, features: FeatureMap, rows: np.ndarray, seed: int = 0) -> np.ndarray:
    """Rows of the table with missing values, unknown categories, and values at and next to every threshold."""
    rng = np.random.default_rng(seed)
    found = [rows, np.where(rng.random(rows.shape) < 0.3, np.nan, rows), np.full((1, rows.shape[1]), np.nan)]
    for place, column in enumerate(features.coding.columns):
        if column.is_number:
            at = ensemble.thresholds(rows.shape[1])[place]
            values = np.concatenate([at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf), [0, -1e6, 1e6, 0.5]])
        else:
            values = np.arange(len(column.categories) + 1.0)
        some = rows[rng.integers(0, len(rows), len(values))]
        some[:, place] = values
        found.append(some)
    return np.concatenate(found)


def assert_same_scores(raw: TreeEnsemble, ensemble: TreeEnsemble, features: FeatureMap, rows: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        expected = ensemble.scores(features.transform(rows))
    np.testing.assert_array_equal(raw.scores(rows), expected)


def one_hot(frame: pd.DataFrame, numbers, **options) -> ColumnTransformer:
    encoder = OneHotEncoder(handle_unknown="ignore", **options)
    return ColumnTransformer([("n", numbers, ["age", "gain", "score"]), ("c", encoder, ["job", "town"])]).fit(frame)


ONE_HOT = [0, 1, 3, *[2] * 5, *[4] * 2]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("numbers", "shape"),
    [
        ("passthrough", "rising"),
        (StandardScaler(), "rising"),
        (PowerTransformer(), "rising"),
        (QuantileTransformer(n_quantiles=20), "rising"),
        (FunctionTransformer(np.arctan), "rising"),
        (FunctionTransformer(np.negative), "falling"),
        (make_pipeline(StandardScaler(), FunctionTransformer(lambda x: 1 / (1 + np.exp(x)))), "falling"),
    ],
    ids=["passthrough", "scaler", "power", "quantile", "arctan", "negative", "logistic"],
)
def test_scores_are_equal_after_scaling_and_one_hot_encoding(numbers, shape: str, seed: int) -> None:
    frame = people(seed=seed)
    features = mapped(frame, one_hot(frame, numbers), ONE_HOT, shape)
    rows = features.coding.encode(frame)
    ensemble = random_ensemble(features.transform(rows), seed)
    raw = of_columns(ensemble, features)
    assert_same_scores(raw, ensemble, features, rows_around(raw, features, rows))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("numbers", ["passthrough", StandardScaler(), FunctionTransformer(np.sqrt)], ids=str)
def test_scores_are_equal_where_absent_zeros_are_missing(numbers, seed: int) -> None:
    frame = people(seed=seed)
    frame["score"] = np.abs(frame["score"])
    dense = mapped(frame, one_hot(frame, numbers), ONE_HOT)
    features = FeatureMap(
        dense.coding,
        dense.source,
        dense.shape,
        dense.affine,
        dense.breaks,
        lambda rows: np.where((z := dense.transform(rows)) == 0, np.nan, z),
    )
    rows = features.coding.encode(frame)
    ensemble = random_ensemble(features.transform(rows), seed)
    raw = of_columns(ensemble, features)
    extra = rows[:40].copy()
    extra[:, 0] = np.tile([0.0, 5e-324, -5e-324, 1.0, -3.0], 8)
    extra[:, 1] = np.repeat([0.0, -0.0, 0.01, frame["gain"].mean()], 10)
    assert_same_scores(raw, ensemble, features, np.concatenate([rows_around(raw, features, rows), extra]))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("encode", ["onehot-dense", "ordinal"])
def test_scores_are_equal_for_bins(encode: str, seed: int) -> None:
    frame = people(seed=seed)[["age", "gain"]]
    bins = KBinsDiscretizer(5, encode=encode, strategy="uniform").fit(frame)
    edges = [each[1:-1] for each in bins.bin_edges_]
    if encode == "ordinal":
        features = mapped(frame, bins, [0, 1], "rising")
    else:
        features = mapped(frame, bins, [0] * 5 + [1] * 5, "pieces", [edges[0]] * 5 + [edges[1]] * 5)
    rows = features.coding.encode(frame)
    ensemble = random_ensemble(features.transform(rows), seed, sets=True)
    raw = of_columns(ensemble, features)
    around = rows_around(raw, features, rows)
    assert_same_scores(raw, ensemble, features, around[~np.isnan(around).any(axis=1)])  # bins refuse missing values


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_equal_for_codes_of_categories_in_sets(seed: int) -> None:
    frame = people(seed=seed)
    transformer = ColumnTransformer(
        [
            ("c", OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), ["job"]),
            ("t", OrdinalEncoder(handle_unknown="error"), ["town"]),
            ("m", TargetEncoder(), ["job"]),
            ("n", "passthrough", ["age", "gain", "score"]),
        ]
    ).fit(frame, frame["age"] > 50)
    features = mapped(frame, transformer, [2, 4, 2, 0, 1, 3])
    rows = features.coding.encode(frame)
    ensemble = random_ensemble(features.transform(rows), seed, sets=True)
    raw = of_columns(ensemble, features)
    around = rows_around(raw, features, rows)
    around = around[np.isin(around[:, 4], (0, 1))]  # the encoder of towns refuses other ones
    assert_same_scores(raw, ensemble, features, around)


def test_a_number_that_a_rule_calls_a_category_is_asked_for_by_sets() -> None:
    frame = people()
    features = mapped(frame, one_hot(frame, StandardScaler()), ONE_HOT, age=Column(kind="category"))
    rows = features.coding.encode(frame)
    ensemble = random_ensemble(features.transform(rows), 0)
    raw = of_columns(ensemble, features)
    assert (raw.set_of[raw.feature == 0] >= 0).all()
    around = rows_around(raw, features, rows)
    assert_same_scores(raw, ensemble, features, around[~np.isnan(around[:, 0])])  # integers are never missing


def test_constant_features_and_thresholds_out_of_reach_leave_no_nodes() -> None:
    frame = people()[["job", "age"]]
    encoder = ColumnTransformer([("c", OneHotEncoder(), ["job"]), ("n", FunctionTransformer(np.zeros_like), ["age"])])
    features = mapped(frame, encoder.fit(frame), [0] * 5 + [-1])
    tree = Tree(
        np.array([5, 0, LEAF, LEAF, LEAF]),
        np.array([0.5, 2.0, 0.0, 0.0, 0.0]),
        np.ones(5, dtype=bool),
        np.array([1, 2, 0, 0, 0]),
        np.array([4, 3, 0, 0, 0]),
        np.arange(10.0).reshape(5, 2),
    )
    raw = of_columns(joined([tree], np.zeros(2), 0.0), features)
    assert raw.feature.tolist() == [LEAF]
    assert raw.scores(features.coding.encode(frame[:2])).tolist() == [[4.0, 5.0]] * 2


def test_few_features_are_computed_at_once_where_there_are_many(monkeypatch) -> None:
    frame = people()
    features = mapped(frame, one_hot(frame, StandardScaler()), ONE_HOT)
    ensemble = random_ensemble(features.transform(features.coding.encode(frame)), 0)
    expected = of_columns(ensemble, features).fingerprint()
    monkeypatch.setattr(inversion, "_CELLS", 3 * len(ONE_HOT))
    assert of_columns(ensemble, features).fingerprint() == expected


def test_several_columns_that_encode_a_category_are_asked_for_by_sets() -> None:
    frame = pd.get_dummies(people()[["age", "job"]], columns=["job"], dtype=float)
    features = mapped(frame, StandardScaler().fit(frame), [0, 1, 1, 1, 1, 1], job=Column(kind="category"))
    assert len(features.coding.columns) == 2
    rows = features.coding.encode(frame)
    ensemble = random_ensemble(features.transform(rows), 0)
    raw = of_columns(ensemble, features)
    around = rows_around(raw, features, rows)
    assert_same_scores(raw, ensemble, features, around[around[:, 1] < 5])


def test_numbers_that_a_transformer_refuses_do_not_hinder_the_others() -> None:
    frame = people()[["gain"]]

    def checked(x):
        if (x.to_numpy() < -1).any() or (x.to_numpy() > 1e9).any():
            raise ValueError("out of range")
        return np.log1p(x)

    features = mapped(frame, FunctionTransformer(checked, check_inverse=False).fit(frame), [0])
    rows = features.coding.encode(frame)
    ensemble = random_ensemble(features.transform(rows), 1)
    raw = of_columns(ensemble, features)
    around = rows_around(raw, features, rows)
    assert_same_scores(raw, ensemble, features, around[(around[:, 0] > -1) & (around[:, 0] < 1e9)])


def test_thresholds_are_found_with_fewer_questions_than_by_plain_bisection() -> None:
    frame = people(3000).astype({"score": np.float64})
    features = mapped(frame, one_hot(frame, StandardScaler()), ONE_HOT)
    asked = []

    def transform(rows):
        asked.append(len(rows))
        return features.transform(rows)

    counted = FeatureMap(features.coding, features.source, features.shape, features.affine, features.breaks, transform)
    raw = of_columns(random_ensemble(features.transform(features.coding.encode(frame)), 0, trees=200), counted)
    assert len(asked) < 120
    assert sum(asked) < 25 * max(map(len, raw.thresholds(5)))  # bisection needs 40 to 60 questions per threshold


@pytest.mark.parametrize(
    ("function", "source", "words"),
    [(np.square, [0], "column 'score' neither rises nor falls"), (np.abs, [-2], "mix several columns")],
)
def test_features_that_trees_cannot_be_traced_through_are_refused(function, source, words: str) -> None:
    frame = people()[["score"]]
    features = mapped(frame, FunctionTransformer(function).fit(frame), source)
    ensemble = random_ensemble(features.transform(features.coding.encode(frame)), 0)
    with pytest.raises(ModelError, match=words):
        of_columns(ensemble, features)


def test_a_classifier_of_a_table_offers_its_trees_on_columns() -> None:
    frame = people()
    features = mapped(frame, one_hot(frame, StandardScaler()), ONE_HOT)
    ensemble = random_ensemble(features.transform(features.coding.encode(frame)), 0)
    model = TableClassifier("model", ("no", "yes"), features, ensemble, lambda original, table: np.zeros(len(table)))
    assert model.offers == {"predict", "trees"}
    assert model.ensemble is model.ensemble
    assert model.ensemble.fingerprint() == of_columns(ensemble, features).fingerprint()
    linear = TableClassifier("model", ("no", "yes"), features, LinearHead(np.eye(2), np.zeros(2)), model.positions)
    with pytest.raises(ModelError, match="not an ensemble of trees"):
        linear.ensemble
    assert pickle.loads(pickle.dumps(raw := model.ensemble)).fingerprint() == raw.fingerprint()
