"""Adult: predict from the 1994 US census who earned more than 50,000 dollars."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from fairmargin.core.partition import MISSING
from fairmargin.data.card import Card, Entry, OfficialFile, Request
from fairmargin.data.dataset import Dataset
from fairmargin.data.sets.official_table import (
    OfficialTables,
    meanings,
    numbers,
    read_official,
    table_dataset,
    text_table,
)

_ADDRESS = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult"
TRAIN, TEST = "adult.data", "adult.test"

CARD = Card(
    title="Adult (census income), 48,842 people with their work, family and income",
    classes="income of at most 50,000 dollars a year (<=50K) or more (>50K)",
    groups=("sex", "race", "age_group"),
    split="The official one: adult.data (32,561 people) for training, adult.test (16,281) for testing.",
    licence="CC BY 4.0 (UCI repository).",
    ethics="US census of 1994, with its coding of binary sex and coarse race. Sex and race are groups, not features, "
    "but marital status and relationship (husband, wife) reveal sex. Not for decisions about people.",
    citation="B. Becker, R. Kohavi, Adult, UCI repository, 1996; R. Kohavi, Scaling Up the Accuracy of Naive-Bayes "
    "Classifiers: a Decision-Tree Hybrid, KDD 1996.",
    files=(
        OfficialFile(
            TRAIN,
            f"{_ADDRESS}/{TRAIN}",
            "5d7c39d7b8804f071cdd1f2a7c460872",
            "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        ),
        OfficialFile(
            TEST,
            f"{_ADDRESS}/{TEST}",
            "35238206dfdf7f1fe215bbb874adecdc",
            "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
        ),
    ),
)

_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
)
_NUMBERS = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
_CATEGORIES = ("workclass", "marital-status", "occupation", "relationship", "native-country")
_CLASSES = ("<=50K", ">50K")
_LABELS = {"<=50K": 0, ">50K": 1, "<=50K.": 0, ">50K.": 1}  # the labels in adult.test end with a period
_UNKNOWN = "?"
_AGES = ("0–24", "25–39", "40–59", "60+")
_AGE_EDGES = (25, 40, 60)
_NOTES = (
    "Left out of the features: sex and race, which are groups; fnlwgt, a survey weight; education, which education-num "
    "contains as a number.",
)


def load_adult(request: Request) -> Dataset:
    """Load 48,842 people with the attributes `sex`, `race` and `age_group`, of which only age is also a feature.

    Guarantee: no row is dropped. An unknown category ("?") becomes the category "missing". The categories are those of
    both files, so that both splits have the same features.
    """
    files = read_official("adult", CARD, request.root, ("adult*.zip", "adult*.tar*"))
    known = list(_rows(files, TRAIN))
    table = text_table(_COLUMNS, [*known, *_rows(files, TEST)])
    features = {column: numbers(table[column]) for column in _NUMBERS}
    everyone = np.arange(len(table))
    train, test = everyone[: len(known)], everyone[len(known) :]
    incomplete = int((table == _UNKNOWN).any(axis=1).sum())
    missing = (f"Unknown entries, in {incomplete:,} of {len(table):,} rows of both files, are the category 'missing'.",)
    return table_dataset(
        "adult",
        pd.DataFrame({**features, **{column: _known(table, column) for column in _CATEGORIES}}),
        meanings(table["income"], _LABELS),
        {
            "sex": _known(table, "sex"),
            "race": _known(table, "race"),
            "age_group": [_AGES[place] for place in np.digitize(features["age"], _AGE_EDGES)],
        },
        class_names=_CLASSES,
        train=train,
        rows={"all": everyone, "train": train, "test": test}[request.split],
        notes=(*_NOTES, *(missing if incomplete else ()), *files.notes),
    )


def _rows(files: OfficialTables, file: str) -> Iterator[tuple[str, list[str]]]:
    for number, line in enumerate(files.texts[file].splitlines(), start=1):
        # adult.test starts with a comment, and both files end with an empty line.
        if line.strip() and not line.startswith("|"):
            yield f"{files.paths[file]}, line {number}", [cell.strip() for cell in line.split(",")]


def _known(table: pd.DataFrame, column: str) -> list[str]:
    return [MISSING if cell in (_UNKNOWN, "") else cell for cell in table[column]]


ENTRY = Entry(CARD, load_adult)
