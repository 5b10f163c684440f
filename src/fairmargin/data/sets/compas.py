"""COMPAS: predict which people charged in Broward County, Florida, were charged again within two years."""

import csv
from collections.abc import Iterator
from io import StringIO

import numpy as np
import pandas as pd

from fairmargin.core.arrays import Bools
from fairmargin.core.partition import MISSING
from fairmargin.core.suggestion import there_are
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
from fairmargin.errors import InputError

_FILE = "compas-scores-two-years.csv"

CARD = Card(
    title="COMPAS (ProPublica), 6,172 people charged in Broward County, Florida, and whether they were charged again",
    classes="no new charge within two years, or a new charge",
    groups=("sex", "race", "age_cat"),
    split=SENTENCE.format(unit="sample"),
    licence="Public records published by ProPublica; no licence is stated.",
    ethics="The label is a new arrest, not a crime: it contains the bias of policing. Sex and race as the sheriff's "
    "office coded them. The columns that identify people are never read. Not for decisions about people.",
    citation="J. Angwin, J. Larson, S. Mattu, L. Kirchner, Machine Bias, ProPublica, 23 May 2016.",
    files=(
        OfficialFile(
            _FILE,
            f"https://raw.githubusercontent.com/propublica/compas-analysis/master/{_FILE}",
            "9165d40c400bba93a8cffece2b74622b",
        ),
    ),
)

_NUMBERS = ("age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count")
_CATEGORIES = ("c_charge_degree",)
_ATTRIBUTES = ("sex", "race", "age_cat")
_LABEL = "two_year_recid"
_FILTER = ("days_b_screening_arrest", "is_recid", "score_text")
_NEEDED = (*_NUMBERS, *_CATEGORIES, *_ATTRIBUTES, _LABEL, *_FILTER)
_NOTES = (
    "ProPublica's filter: screened within 30 days of the arrest, outcome known, no ordinary traffic offence, scored.",
    "Left out of the features: sex and race, which are groups, and the COMPAS scores themselves.",
)


def load_compas(request: Request) -> Dataset:
    """Load the 6,172 of 7,214 people that pass ProPublica's filter, with age, charge and criminal record."""
    files = read_official("compas", CARD, request.root, ("compas*.zip", "compas*.tar*"))
    everyone = text_table(_NEEDED, _rows(files))
    table = everyone[_kept(everyone)]
    return table_dataset(
        "compas",
        pd.DataFrame(
            {
                **{column: numbers(table[column]) for column in _NUMBERS},
                **{column: table[column].tolist() for column in _CATEGORIES},
            }
        ),
        meanings(table[_LABEL], {"0": 0, "1": 1}),
        {name: [cell or MISSING for cell in table[name]] for name in _ATTRIBUTES},
        class_names=("no new charge", "new charge"),
        train=seeded_split(len(table), "train"),
        rows=seeded_split(len(table), request.split),
        notes=(*_NOTES, *files.notes),
    )


def _kept(table: pd.DataFrame) -> Bools:
    """Return a mask of the people that pass ProPublica's filter."""
    days, known = numbers(table["days_b_screening_arrest"], empty=np.inf), numbers(table["is_recid"], empty=-1) != -1
    charged, scored = table["c_charge_degree"] != "O", ~table["score_text"].isin(["N/A", ""])
    return np.asarray((np.abs(days) <= 30) & known & charged & scored, dtype=np.bool_)


def _rows(files: OfficialTables) -> Iterator[tuple[str, list[str]]]:
    path = files.paths[_FILE]
    reader = csv.reader(StringIO(files.texts[_FILE], newline=""))
    try:
        header = next(reader, [])
        absent = [column for column in _NEEDED if column not in header]
        if absent:
            raise InputError(f"{path}, line 1: no column {absent[0]!r}. {there_are(header)} Download the file again.")
        # Two names occur twice (decile_score, priors_count) with equal columns; the first one is read.
        places = [header.index(column) for column in _NEEDED]
        for cells in reader:
            where = f"{path}, line {reader.line_num}"
            if cells and len(cells) != len(header):
                raise InputError(f"{where} has {len(cells)} columns; expected {len(header)}. Is the file truncated?")
            if cells:
                yield where, [cells[place].strip() for place in places]
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}. Download the file again.") from error


ENTRY = Entry(CARD, load_compas)
