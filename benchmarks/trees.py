"""Exact distances of tree ensembles on the raw rows of Adult, and the time of Veritas on the same ensembles.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/trees.py --data ../shared/data/adult > docs/benchmarks-tables.md

Prints the page docs/benchmarks-tables.md (`make bench-trees`). Needs XGBoost, LightGBM and dtai-veritas, which
`make test` installs, and about ten minutes.

Age, sex and race are immutable, and categories may be switched at a cost of 1. Veritas knows neither categories, nor
steps, nor L1 and L2: it is asked for the distance in L∞ with all categories fixed, by `VeritasRobustnessSearch` as its
documentation shows (binary search in ten steps). Its ensemble is ours over the columns, so that both search the same.
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from veritas_trees import veritas_trees

import fairmargin as fm
from fairmargin.core.norm import Norm
from fairmargin.distances.exact_tree.estimator import ExactTree, _Search

NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
NAMES = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
)
TEXTS = [name for name in NAMES[:-1] if name not in NUMBERS]
RULES = {name: fm.Column(immutable=True) for name in ("age", "sex", "race")}
NORMS = (Norm.LINF, Norm.L1, Norm.L2)
START = 10.0  # radius, in units, at which Veritas begins its binary search


def table(path: Path, skip: int) -> tuple[pd.DataFrame, pd.Series]:
    """Return the rows and the labels of a file of Adult."""
    frame = pd.read_csv(path, names=NAMES, skipinitialspace=True, skiprows=skip)
    return frame.drop(columns="income"), frame["income"].str.startswith(">").astype(int)


def one_hot(model: Any) -> Any:
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_pipeline(make_column_transformer((encoder, TEXTS), remainder="passthrough"), model)


def ordinal(model: Any) -> Any:
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return make_pipeline(make_column_transformer((encoder, TEXTS), remainder="passthrough"), model)


def boosted(library: str, **settings: Any) -> Any:
    if library == "xgboost":
        from xgboost import XGBClassifier

        return one_hot(XGBClassifier(n_jobs=1, **settings))
    from lightgbm import LGBMClassifier

    return one_hot(LGBMClassifier(n_jobs=1, verbose=-1, **settings))


def histogram(trees: int) -> Any:
    return HistGradientBoostingClassifier(max_iter=trees, early_stopping=False, random_state=0)


MODELS: dict[str, Callable[[], Any]] = {
    "GradientBoosting 50 × 3": lambda: one_hot(GradientBoostingClassifier(n_estimators=50, random_state=0)),
    "RandomForest 50 × 6": lambda: one_hot(RandomForestClassifier(50, max_depth=6, random_state=0)),
    "ExtraTrees 50 × 6": lambda: one_hot(ExtraTreesClassifier(50, max_depth=6, random_state=0)),
    "HistGradientBoosting 100": lambda: ordinal(histogram(100)),
    "HistGradientBoosting 100, native categories": lambda: histogram(100),
    "XGBoost 100 × 6": lambda: boosted("xgboost", n_estimators=100, max_depth=6),
    "LightGBM 100 × 31": lambda: boosted("lightgbm", n_estimators=100, num_leaves=31),
    "RandomForest 200 × 10": lambda: one_hot(RandomForestClassifier(200, max_depth=10, random_state=0)),
    "RandomForest, defaults": lambda: one_hot(RandomForestClassifier(random_state=0)),
    "ExtraTrees 100 × 10": lambda: one_hot(ExtraTreesClassifier(100, max_depth=10, random_state=0)),
    "HistGradientBoosting 500": lambda: ordinal(histogram(500)),
    "LightGBM 500 × 31": lambda: boosted("lightgbm", n_estimators=500, num_leaves=31),
}


def timed(run: Callable[[int], Any], count: int) -> tuple[Any, list[Any]]:
    """Return the milliseconds of processor time of each call, and what the calls returned."""
    times, found = [], []
    for i in range(count):
        start = time.process_time()
        found.append(run(i))
        times.append(1e3 * (time.process_time() - start))
    return np.array(times), found


def numbers(values: Any) -> str:
    return " / ".join(f"{value:.1f}" for value in (np.median(values), np.quantile(values, 0.9), values.max()))


def measured(name: str, train: Any, labels: Any, test: Any) -> tuple[str, str]:
    """Return the rows of one model in the two tables of the page."""
    native = dict.fromkeys(TEXTS, pd.CategoricalDtype()) if "native" in name else {}
    known = train.astype(native)
    model = MODELS[name]().fit(known, labels)
    classifier = fm.as_classifier(model, columns=RULES, training_data=known)
    rows = classifier.encode(test.astype({column: known[column].dtype for column in native}))
    own = classifier.predict(rows)
    cells, shares, medians = [], [], []
    for norm in NORMS:
        search = _Search(classifier, rows.shape[1], norm, ExactTree().boxes)
        nearest = partial(search.nearest, kept=(), strict=False)
        nearest(rows[0], int(own[0]))  # compiles, and computes what rows share
        times, found = timed(lambda i, run=nearest: run(rows[i], int(own[i])), len(rows))
        cells.append(numbers(times))
        medians.append(float(np.median(times)))
        shares.append(f"{np.mean([lower >= upper for lower, upper, _ in found]):.0%}")
    peer = veritas_trees(classifier.ensemble, np.array([column.unit for column in classifier.domain.columns]))
    veritas, _ = timed(lambda i: peer.search(rows[i], int(own[i]), START).search(), len(rows))
    ratio = f"{medians[0] / float(np.median(veritas)):.2f}"
    print(name, *cells, numbers(veritas), ratio, *shares, sep=" | ", file=sys.stderr, flush=True)
    return " | ".join((name, *cells, numbers(veritas), ratio)), " | ".join((name, *shares))


def main() -> None:
    parser = argparse.ArgumentParser(description="Time exact distances of trees on Adult.")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/adult"))
    parser.add_argument("--rows", type=int, default=100, help="rows per model and norm")
    options = parser.parse_args()
    if not (options.data / "adult.data").exists():
        sys.exit(f"{options.data} has no file adult.data. Give the folder of Adult with --data.")
    train, labels = table(options.data / "adult.data", 0)
    test, _ = table(options.data / "adult.test", 1)
    chosen = test.iloc[np.random.RandomState(0).permutation(len(test))[: options.rows]]
    times, shares = zip(*(measured(name, train, labels, chosen) for name in MODELS), strict=True)
    rows = {name: "\n".join(f"| {row} |" for row in each) for name, each in (("times", times), ("exact", shares))}
    print(PAGE.format(rows=options.rows, boxes=ExactTree().boxes, **rows))


PAGE = """# Exact distances of trees on raw rows

`make bench-trees` writes this page: {rows} random test rows of Adult for each model. Ages, sexes and races do not
change; every other category may be switched at a cost of 1, and numbers move by whole steps inside the observed range.
Times are milliseconds of processor time per row, one thread: median / 90th percentile / maximum. They are those of one
machine; only ratios mean something.

Veritas (dtai-veritas) is asked about the same trees, with all categories fixed, which is an easier question: it knows
no categories, no steps and no other norm than L∞. It is called by `VeritasRobustnessSearch` as its documentation shows,
ten steps of a binary search, so that its answer is an interval and ours is exact. The ratio compares the medians in L∞.

| model | L∞ | L1 | L2 | Veritas, L∞ | ratio |
|---|---|---|---|---|---|
{times}

Share of rows whose distance is exact with the default budget of {boxes:,} boxes; the others have a bracket.

| model | L∞ | L1 | L2 |
|---|---|---|---|
{exact}
"""


if __name__ == "__main__":
    main()
