"""Random models of tables as people write them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from tests.random_tables.columns import Drawn

LINEAR = ("logistic", "ridge", "svc", "linear_raw", "pca")
TREES = ("tree", "forest", "extra", "gb", "hgb", "xgb", "xgb_sparse", "lgbm")
RAW_TREES = ("tree_raw", "forest_raw", "gb_raw", "hgb_native", "xgb_native", "lgbm_native")
NETWORKS = ("mlp",)
KINDS = (*LINEAR, *TREES, *RAW_TREES, *NETWORKS)

TAKES_MISSING = ("hgb", "xgb", "lgbm", "tree", "forest", "extra", "xgb_sparse")


def reads_only_numbers(kind: str) -> bool:
    """Return whether the table of a model of this kind must hold numbers only."""
    return kind in ("linear_raw", "tree_raw", "forest_raw", "gb_raw", "pca")


def draw_model(rng: np.random.Generator, kind: str, columns: Sequence[Drawn], classes: int) -> Any:
    """Return a model of a kind that reads the columns, not yet fitted."""
    last = _last(rng, kind)
    if kind in ("linear_raw", "pca"):
        steps: list[Any] = [StandardScaler()] if rng.random() < 0.7 else []
        if kind == "pca":
            width = int(rng.integers(1, len(columns) + 1))
            steps.append(PCA(width, whiten=rng.random() < 0.5) if rng.random() < 0.7 else TruncatedSVD(width))
        model = make_pipeline(*steps, last)
    elif kind in RAW_TREES:
        model = last
    else:
        model = Pipeline([("columns", preprocessing(rng, kind, columns)), ("model", last)])
        if rng.random() < 0.15:
            model = make_pipeline("passthrough", model)
    return _wrapped(rng, kind, model, classes)


def _last(rng: np.random.Generator, kind: str) -> Any:
    count, depth, seed = int(rng.integers(1, 7)), int(rng.integers(1, 6)), int(rng.integers(1000))
    start = kind.split("_", maxsplit=1)[0]
    if start in ("logistic", "linear", "pca"):
        return LogisticRegression(C=float(rng.choice([0.01, 1.0, 100.0])), max_iter=300)
    if start == "ridge":
        return RidgeClassifier()
    if start == "svc":
        return LinearSVC(max_iter=300)
    if start == "tree":
        return DecisionTreeClassifier(max_depth=depth, random_state=seed)
    if start == "forest":
        return RandomForestClassifier(count, max_depth=depth, random_state=seed)
    if start == "extra":
        return ExtraTreesClassifier(count, max_depth=depth, random_state=seed)
    if start == "gb":
        return GradientBoostingClassifier(n_estimators=count, max_depth=min(depth, 3), random_state=seed)
    if start == "hgb":
        native: Any = "from_dtype" if kind == "hgb_native" else None
        return HistGradientBoostingClassifier(
            max_iter=count, max_depth=depth, min_samples_leaf=3, categorical_features=native, random_state=seed
        )
    if start == "xgb":
        from xgboost import XGBClassifier

        native = kind == "xgb_native"
        return XGBClassifier(n_estimators=count, max_depth=depth, n_jobs=1, enable_categorical=native)
    if start == "lgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(
            n_estimators=count, num_leaves=6, min_child_samples=3, min_data_per_group=2, n_jobs=1, verbose=-1
        )
    if start == "mlp":
        hidden = (int(rng.integers(2, 9)),) * int(rng.integers(1, 3))
        return MLPClassifier(hidden, max_iter=60, random_state=seed, activation=rng.choice(["relu", "tanh"]))
    raise ValueError(kind)


def _wrapped(rng: np.random.Generator, kind: str, model: Any, classes: int) -> Any:
    """Return the model, sometimes inside a search for parameters, a threshold or a calibration."""
    draw = rng.random()
    if draw < 0.08:
        name = _a_parameter(kind)
        prefix = "__".join(step for step in _path(model))
        return GridSearchCV(model, {f"{prefix}__{name}" if prefix else name: _two_values(name)}, cv=2)
    if draw < 0.11 and classes == 2 and kind not in ("ridge", "svc"):
        return FixedThresholdClassifier(model, threshold=float(rng.choice([0.3, 0.6])))
    if draw < 0.13 and classes == 2 and kind not in ("ridge", "svc", *NETWORKS):
        return TunedThresholdClassifierCV(model, cv=2, thresholds=10)
    if draw < 0.16 and classes == 2 and kind not in NETWORKS:  # scores of classes that are calibrated one by one mix
        return CalibratedClassifierCV(model, cv=2, ensemble=False)
    return model


def _path(model: Any) -> list[str]:
    if not isinstance(model, Pipeline):
        return []
    name, last = model.steps[-1]
    return [name, *_path(last)]


def _a_parameter(kind: str) -> str:
    start = kind.split("_", maxsplit=1)[0]
    if start in ("logistic", "linear", "pca", "svc"):
        return "C"
    return {"ridge": "alpha", "mlp": "alpha", "lgbm": "num_leaves"}.get(start, "max_depth")


def _two_values(name: str) -> list[Any]:
    return {"C": [0.1, 1.0], "alpha": [0.1, 1.0], "num_leaves": [4, 6]}.get(name, [2, 3])


def preprocessing(rng: np.random.Generator, kind: str, columns: Sequence[Drawn]) -> Any:
    """Return a ColumnTransformer that treats groups of columns in random ways."""
    parts: list[Any] = []
    left = list(columns)
    while left:
        take = [each for each in left if each.as_category == left[0].as_category]
        take = take[: int(rng.integers(1, len(take) + 1))]
        left = [each for each in left if each not in take]
        names = [each.name for each in take]
        parts.append((f"part{len(parts)}", _treatment(rng, kind, take), names))
    sparse = 1.0 if kind == "xgb_sparse" else float(rng.choice([0.0, 0.3]))
    found = ColumnTransformer(parts, sparse_threshold=sparse, remainder=str(rng.choice(["drop", "passthrough"])))
    if kind != "xgb_sparse" and rng.random() < 0.1 and not _is_sparse(found):
        found.set_output(transform="pandas")
    return found


def _is_sparse(steps: Any) -> bool:
    """Return whether a step may return a sparse matrix."""
    if isinstance(steps, OneHotEncoder):
        return bool(steps.sparse_output)
    if isinstance(steps, KBinsDiscretizer):
        return steps.encode == "onehot"
    inner = (
        getattr(steps, "steps", None) or getattr(steps, "transformer_list", None) or getattr(steps, "transformers", ())
    )
    return any(_is_sparse(each[1]) for each in inner)


def _treatment(rng: np.random.Generator, kind: str, columns: Sequence[Drawn]) -> Any:
    if columns[0].as_category:
        return _encoder(rng, kind, columns)
    lacks = any(each.train.isna().any() or each.audit.isna().any() for each in columns)
    needs = lacks and not kind.startswith(TAKES_MISSING)
    steps: list[Any] = []
    if needs or rng.random() < 0.2:
        strategy = str(rng.choice(["mean", "median", "most_frequent", "constant"]))
        steps.append(SimpleImputer(strategy=strategy, add_indicator=bool(rng.random() < 0.2)))
    positive = all((each.train.dropna() >= 0).all() and (each.audit.dropna() >= 0).all() for each in columns)
    steps.append(_scaler(rng, lacks and not steps, positive))
    if rng.random() < 0.1:
        steps.append(StandardScaler())
    steps = [each for each in steps if each != "passthrough"]
    if not steps:
        return "passthrough"
    if len(steps) == 1:
        if rng.random() < 0.1:
            return FeatureUnion([("one", steps[0]), ("two", MinMaxScaler())])
        return steps[0]
    return make_pipeline(*steps)


def _scaler(rng: np.random.Generator, lacks: bool, positive: bool) -> Any:
    choices: list[Any] = [
        StandardScaler(),
        MinMaxScaler(clip=bool(rng.random() < 0.3)),
        RobustScaler(),
        MaxAbsScaler(),
        PowerTransformer(),
        QuantileTransformer(
            n_quantiles=int(rng.integers(2, 12)), output_distribution=str(rng.choice(["uniform", "normal"]))
        ),
        FunctionTransformer(np.arctan if rng.random() < 0.5 else np.cbrt),
        "passthrough",
    ]
    if positive:
        choices.append(FunctionTransformer(np.log1p if rng.random() < 0.5 else np.sqrt))
    if not lacks:
        encode = str(rng.choice(["onehot-dense", "ordinal", "onehot"]))
        strategy = str(rng.choice(["uniform", "quantile"]))
        arguments: dict[str, Any] = {"quantile_method": "averaged_inverted_cdf"} if strategy == "quantile" else {}
        choices.append(KBinsDiscretizer(int(rng.integers(2, 5)), encode=encode, strategy=strategy, **arguments))
    weights = np.array([2.0, 1, 1, 1, 1, 1, 1, 2, 1, 1][: len(choices)])
    return choices[int(rng.choice(len(choices), p=weights / weights.sum()))]


def _encoder(rng: np.random.Generator, kind: str, columns: Sequence[Drawn]) -> Any:
    lacks = any(each.train.isna().any() or each.audit.isna().any() for each in columns)
    steps: list[Any] = []
    if lacks and rng.random() < 0.3 and all(each.sort in ("text", "object") for each in columns):
        if rng.random() < 0.5:
            steps.append(SimpleImputer(strategy="most_frequent"))
        else:
            steps.append(SimpleImputer(strategy="constant", fill_value="missing"))
    draw = rng.random()
    if draw < 0.65:
        ignore = str(rng.choice(["ignore", "infrequent_if_exist"]))
        drop = rng.choice(np.array([None, "first", "if_binary"], dtype=object), p=[0.6, 0.2, 0.2])
        steps.append(
            OneHotEncoder(
                drop=drop,
                min_frequency=None if rng.random() < 0.7 else int(rng.integers(2, 8)),
                handle_unknown=ignore,
                sparse_output=kind == "xgb_sparse" or bool(rng.random() < 0.4),
            )
        )
    elif draw < 0.85 or kind == "mlp":
        missing = np.nan if kind.startswith(TAKES_MISSING) else -2
        steps.append(
            OrdinalEncoder(
                handle_unknown="use_encoded_value",
                unknown_value=-1,
                encoded_missing_value=missing,
                min_frequency=None if rng.random() < 0.8 else 3,
            )
        )
    else:
        steps.append(TargetEncoder(cv=2, random_state=0))
    if rng.random() < 0.1 and not _is_sparse(steps[-1]) and not (lacks and kind.startswith(TAKES_MISSING)):
        steps.append(StandardScaler())
    return steps[0] if len(steps) == 1 else make_pipeline(*steps)
