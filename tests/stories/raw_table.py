"""A raw table of people, as a newcomer has it, and ordinary pipelines of scikit-learn that were fitted on its rows."""

from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

LABEL = "income"
NUMBERS, CATEGORIES = ["age", "capital gain", "hours"], ["occupation", "sex", "owns_car"]
QUICK = ("--resamples", "200")


def raw_people(count: int = 240, seed: int = 0) -> pd.DataFrame:
    """Return rows with numbers, texts, booleans, missing values, a text "?" and a column that no model takes."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "id": [f"p{i:04d}" for i in range(count)],
            "age": rng.integers(17, 90, count),
            "capital gain": np.where(rng.random(count) < 0.7, 0, 100 * rng.integers(1, 200, count)),
            "hours": np.round(rng.normal(40, 8, count)),
            "occupation": rng.choice(["Sales", "Exec-managerial", "Craft", "?"], count),
            "sex": rng.choice(["Female", "Male"], count, p=[0.4, 0.6]),
            "owns_car": rng.random(count) < 0.5,
        }
    )
    score = (table["age"] - 50) / 15 + table["capital gain"] / 4000 + (table["hours"] - 40) / 10
    score += (table["occupation"] == "Exec-managerial") + 0.8 * (table["sex"] == "Male") - 1.2
    table[LABEL] = np.where(score + rng.normal(0, 0.4, count) > 0, ">50K", "<=50K")
    table.loc[rng.random(count) < 0.05, "hours"] = np.nan
    table.loc[rng.random(count) < 0.05, "occupation"] = None
    return table


def pipeline(last: Any) -> Any:
    """Return a pipeline as people write it."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_pipeline(make_column_transformer((numbers, NUMBERS), (encoder, CATEGORIES)), last)


def linear() -> Any:
    """Return a pipeline that ends in a linear model."""
    return pipeline(LogisticRegression(max_iter=1000))


def forest() -> Any:
    """Return a pipeline that ends in a small forest."""
    return pipeline(RandomForestClassifier(6, max_depth=4, random_state=0))


def write_table(folder: Path) -> None:
    """Write people.csv, people.parquet, and the two pipelines fitted on the rows of the first."""
    table = raw_people()
    table.to_csv(folder / "people.csv", index=False)
    table.to_parquet(folder / "people.parquet")
    read = pd.read_csv(folder / "people.csv")
    for name, model in (("linear", linear()), ("forest", forest())):
        joblib.dump(model.fit(read.drop(columns=[LABEL, "id"]), read[LABEL]), folder / f"{name}.joblib")


def table_audit(folder: Path, *more: object, model: str = "linear.joblib", data: str = "people.csv") -> list[object]:
    """Return the arguments of an audit of the people by sex."""
    source = ("--model", folder / model, "--trust-model", "--data", folder / data, "--label", LABEL)
    return ["audit", *source, "--group", "sex", *QUICK, *more]
