"""German credit: predict which of 1,000 borrowers of a bank paid back their loans."""

from collections.abc import Iterator, Mapping

import pandas as pd

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
from fairmargin.data.splits import SENTENCE, seeded_split

_FILE = "german.data"

CARD = Card(
    title="German credit (Statlog), 1,000 borrowers of a bank and whether they were a good risk",
    classes="a bad or a good credit risk",
    groups=("sex", "age_group", "foreign_worker"),
    split=SENTENCE.format(unit="sample"),
    licence="CC BY 4.0 (UCI repository).",
    ethics="Loans of a bank in southern Germany, 1973 to 1975. Groups follow german.doc, whose codes are partly wrong "
    "according to U. Grömping (2019): sex cannot be determined with certainty, and foreign worker is swapped. Not for "
    "decisions about people.",
    citation="H. Hofmann, Statlog (German Credit Data), UCI repository, 1994; U. Grömping, South German Credit Data: "
    "Correcting a Widely Used Data Set, Report 4/2019, Beuth University of Applied Sciences Berlin.",
    files=(
        OfficialFile(
            _FILE,
            f"https://archive.ics.uci.edu/ml/machine-learning-databases/statlog/german/{_FILE}",
            sha256="b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
        ),
    ),
)

# The meaning of the codes in each categorical column according to german.doc; None for a numerical column.
_COLUMNS: Mapping[str, Mapping[str, str] | None] = {
    "checking": {"A11": "<0 DM", "A12": "0-200 DM", "A13": ">=200 DM", "A14": "none"},
    "duration_months": None,
    "history": {
        "A30": "none taken or all paid",
        "A31": "all paid at this bank",
        "A32": "paid till now",
        "A33": "delays",
        "A34": "critical or elsewhere",
    },
    "purpose": {
        "A40": "new car",
        "A41": "used car",
        "A42": "furniture",
        "A43": "radio or television",
        "A44": "appliances",
        "A45": "repairs",
        "A46": "education",
        "A47": "vacation",
        "A48": "retraining",
        "A49": "business",
        "A410": "other",
    },
    "amount": None,
    "savings": {"A61": "<100 DM", "A62": "100-500 DM", "A63": "500-1000 DM", "A64": ">=1000 DM", "A65": "none known"},
    "employment": {"A71": "unemployed", "A72": "<1 year", "A73": "1-4 years", "A74": "4-7 years", "A75": ">=7 years"},
    "instalment_rate": None,
    "sex": {"A91": "male", "A92": "female", "A93": "male", "A94": "male", "A95": "female"},
    "other_debtors": {"A101": "none", "A102": "co-applicant", "A103": "guarantor"},
    "residence_since": None,
    "property": {"A121": "real estate", "A122": "savings or insurance", "A123": "car or other", "A124": "none known"},
    "age": None,
    "other_plans": {"A141": "bank", "A142": "stores", "A143": "none"},
    "housing": {"A151": "rent", "A152": "own", "A153": "free"},
    "existing_credits": None,
    "job": {"A171": "unskilled non-resident", "A172": "unskilled", "A173": "skilled", "A174": "highly qualified"},
    "dependents": None,
    "telephone": {"A191": "none", "A192": "yes"},
    "foreign_worker": {"A201": "yes", "A202": "no"},
}
_RISK = "risk"
_GROUPS = ("sex", "age", "foreign_worker")
_YOUNG = 25  # the usual age threshold in publications on this dataset
_NOTES = (
    "Left out of the features: personal status and sex (one column), age and foreign worker, which are groups.",
    "Sex and foreign worker follow the codes of german.doc, which are disputed (Grömping 2019).",
)


def load_german_credit(request: Request) -> Dataset:
    """Load 1,000 borrowers; `sex`, `age_group` and `foreign_worker` are attributes and not features."""
    files = read_official("german-credit", CARD, request.root, ("*german*credit*.zip", "german*.zip", "german*.tar*"))
    table = text_table((*_COLUMNS, _RISK), _rows(files))
    read = {
        name: numbers(table[name]) if codes is None else meanings(table[name], codes)
        for name, codes in _COLUMNS.items()
    }
    return table_dataset(
        "german-credit",
        pd.DataFrame({name: column for name, column in read.items() if name not in _GROUPS}),
        meanings(table[_RISK], {"1": 1, "2": 0}),
        {
            "sex": [str(sex) for sex in read["sex"]],
            "age_group": ["25 or younger" if float(age) <= _YOUNG else "over 25" for age in read["age"]],
            "foreign_worker": [str(word) for word in read["foreign_worker"]],
        },
        class_names=("bad", "good"),
        train=seeded_split(len(table), "train"),
        rows=seeded_split(len(table), request.split),
        notes=(*_NOTES, *files.notes),
    )


def _rows(files: OfficialTables) -> Iterator[tuple[str, list[str]]]:
    for number, line in enumerate(files.texts[_FILE].splitlines(), start=1):
        if line.strip():
            yield f"{files.paths[_FILE]}, line {number}", line.split()


ENTRY = Entry(CARD, load_german_credit)
