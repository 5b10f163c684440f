"""How long 2,000,000 raw rows with 12 columns take, and how much memory: a linear pipeline in L1.

    make bench-tables

Rows are generated reproducibly and written to a Parquet file in a temporary folder, by another process. Then another
process each measures them in memory (`fm.as_classifier`, `fm.measure`) and by the command line, and prints its seconds
and its peak memory. Needs about ten minutes and 1 GB of disk.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROWS, TRAINED = 2_000_000, 50_000
_BLOCK = 250_000  # rows that are generated at a time
_NAMES = {
    "job": [f"job {i:02d}" for i in range(14)],
    "region": [f"region {i:02d}" for i in range(40)],
    "education": ["none", "school", "college", "bachelor", "master", "doctor"],
    "contract": ["permanent", "fixed term", "self-employed", "none"],
    "home": ["rent", "own", "mortgage", "other"],
    "sex": ["Female", "Male"],
}


def people(rows: int, seed: int) -> pd.DataFrame:
    """Return made-up applicants for a loan: 12 columns, and whether the loan was paid back."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, rows),
            "hours": rng.normal(38, 9, rows).clip(1, 80).round().astype(np.int64),
            "wage": rng.lognormal(3, 0.5, rows).round(2),
            "savings": np.where(rng.random(rows) < 0.4, 0, rng.exponential(9000, rows).round()).astype(np.int64),
            "debt": rng.exponential(4000, rows).round(2),
            "score": rng.beta(5, 2, rows).round(3),
        }
    )
    frame.loc[rng.random(rows) < 0.03, "debt"] = np.nan
    effect = np.zeros(rows)
    for name, values in _NAMES.items():
        codes = rng.integers(len(values), size=rows)
        effect += np.linspace(-0.6, 0.6, len(values))[codes]
        frame[name] = pd.Categorical.from_codes(codes, categories=values)
    lead = effect + 3 * frame["score"] + 0.03 * frame["wage"] + 1e-4 * frame["savings"] - 2e-4 * frame["debt"].fillna(0)
    frame["paid"] = np.where(lead + rng.logistic(size=rows) > 2.2, "yes", "no")
    return frame


def write(folder: Path, rows: int) -> None:
    """Write the rows and a model that was trained on some others."""
    import joblib
    import pyarrow as pa
    import pyarrow.parquet as pq
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    train = people(TRAINED, 1).astype(dict.fromkeys(_NAMES, object))
    numbers = ["age", "hours", "wage", "savings", "debt", "score"]
    scaled = make_pipeline(SimpleImputer(), StandardScaler())
    columns = ColumnTransformer(
        [("numbers", scaled, numbers), ("texts", OneHotEncoder(handle_unknown="ignore"), [*_NAMES])]
    )
    model = make_pipeline(columns, LogisticRegression(max_iter=300)).fit(train.drop(columns="paid"), train["paid"])
    joblib.dump(model, folder / "model.joblib")
    train.to_parquet(folder / "train.parquet")
    writer = None
    for block, start in enumerate(range(0, rows, _BLOCK)):
        table = pa.Table.from_pandas(people(min(_BLOCK, rows - start), 100 + block).astype(dict.fromkeys(_NAMES, str)))
        writer = pq.ParquetWriter(folder / "big.parquet", table.schema) if writer is None else writer
        writer.write_table(table)
    if writer is not None:
        writer.close()


def in_memory(folder: Path) -> None:
    """Measure the rows by functions, and print the seconds of each part."""
    import joblib

    import fairmargin as fm

    began = _now()

    def lap(what: str) -> None:
        nonlocal began
        print(f"  {what:<34}{_spent(began)}", flush=True)
        began = _now()

    x = pd.read_parquet(folder / "big.parquet")
    y = x.pop("paid")
    lap("read")
    model = joblib.load(folder / "model.joblib")
    train = pd.read_parquet(folder / "train.parquet").drop(columns="paid")
    classifier = fm.as_classifier(model, training_data=train, columns={"sex": fm.Column(immutable=True)})
    lap("model and rules")
    coded = classifier.encode(x)
    lap("encode once")
    del coded
    estimator: Any = fm.ESTIMATORS["exact_linear"](norm="l1")
    distances = fm.measure(classifier, x, y, estimator, progress=False)
    lap("measure (encode, search, confirm)")
    print(f"  {distances}, median {np.median(distances.values[distances.correct]):.4f}")


def by_command(folder: Path) -> None:
    """Measure the rows by the command line, which also stores the distances and writes the report."""
    from fairmargin.cli import main

    began = _now()
    sys.argv = ["fairmargin", "audit", "--model", str(folder / "model.joblib"), "--trust-model"]
    sys.argv += ["--data", str(folder / "big.parquet"), "--label", "paid", "--group", "sex", "--norm", "l1"]
    sys.argv += ["--out", str(folder / "run")]
    try:
        main()
    except SystemExit as end:
        print(f"  exit code {end.code}")
    print(f"  {'whole command':<34}{_spent(began)}")


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _spent(began: tuple[float, float]) -> str:
    """Return seconds since a time, those of the processor, which other programs hardly change, and the peak memory."""
    wall, processor = (now - before for now, before in zip(_now(), began, strict=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return f"{wall:8.1f} s   processor {processor:7.1f} s   peak {peak:5.2f} GB"


_PARTS = {"memory": in_memory, "command": by_command}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--only", choices=list(_PARTS))
    parser.add_argument("--folder", type=Path, help="keep the files here and use them again")
    parser.add_argument("--part", choices=["write", *_PARTS], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part == "write":
        write(given.folder, given.rows)
        return
    if given.part:
        _PARTS[given.part](given.folder)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        folder.mkdir(exist_ok=True, parents=True)
        print(f"{given.rows:,} rows, load of the machine {os.getloadavg()[0]:.1f} of {os.cpu_count()} processors")
        again = [sys.executable, __file__, "--rows", str(given.rows), "--folder", str(folder), "--part"]
        if not (folder / "big.parquet").exists():
            subprocess.run([*again, "write"], check=True)
        for name in _PARTS if given.only is None else [given.only]:
            print(f"{name}:", flush=True)
            subprocess.run([*again, name], check=True)


if __name__ == "__main__":
    main()
