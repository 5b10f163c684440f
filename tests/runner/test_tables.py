"""`fm.audit_model` on raw rows, whatever kind of table holds them."""

import json

import narwhals as nw
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fairmargin as fm
from fairmargin.core.column import TableColumn
from fairmargin.core.domain import Domain
from fairmargin.runner.tables import domain_fingerprint, rows_fingerprint
from tests.stories.raw_table import LABEL, linear, raw_people

QUICK = fm.AuditSettings(resamples=200)


@pytest.fixture(scope="module")
def people():
    return raw_people(120).drop(columns="id")


@pytest.fixture(scope="module")
def model(people):
    return linear().fit(people.drop(columns=LABEL), people[LABEL])


def audited(model, people, groups, **more):
    rows = people.drop(columns=LABEL, errors="ignore") if isinstance(people, pd.DataFrame) else people
    return fm.audit_model(model, rows, more.pop("y"), groups=groups, settings=QUICK, progress=False, **more)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_frames_of_other_libraries_have_the_same_audit(people, model, library):
    pytest.importorskip(library)
    frame = nw.from_native(people, eager_only=True)
    other = frame.to_polars() if library == "polars" else frame.to_arrow()
    rows = other.drop(LABEL) if library == "polars" else other.drop_columns([LABEL])
    ours = audited(model, people, people[["sex"]], y=people[LABEL])
    theirs = audited(model, rows, other.select(["sex"]), y=people[LABEL].to_numpy())
    for kind in ("audit", "changes", "columns"):
        assert theirs.select(kind=kind).to_json() == ours.select(kind=kind).to_json()
    assert theirs.provenance.samples == ours.provenance.samples


def test_an_array_of_rows_is_measured_as_a_table_if_its_preprocessing_needs_that(people):
    x, y = people[["age", "capital gain"]].to_numpy(float), people[LABEL]
    model = make_pipeline(StandardScaler(), RandomForestClassifier(5, max_depth=3, random_state=0)).fit(x, y)
    record = audited(model, x, people["sex"].to_numpy(), y=y)
    assert record["group"].bound is fm.Bound.EXACT
    assert [row.group for row in record.select(kind="columns")] == ["column 0", "column 1"]


def test_an_array_of_numbers_for_a_linear_model_is_measured_as_before(people):
    x, y = people[["age", "capital gain"]].to_numpy(float), people[LABEL]
    record = audited(LogisticRegression().fit(x, y), x, people["sex"], y=y)
    assert record["sex"].norm is fm.Norm.L2
    assert not list(record.of_kind("columns", "changes"))


def test_columns_that_encode_a_group_do_not_move(people):
    encoded = pd.get_dummies(people.drop(columns=[LABEL, "hours"]))
    record = audited(
        LogisticRegression(max_iter=2000).fit(encoded, people[LABEL]), encoded, people["sex"], y=people[LABEL]
    )
    rules = {row.group: row.immutable for row in record.select(kind="columns")}
    assert rules["sex_Female"]
    assert rules["sex_Male"]
    assert not rules["occupation_Craft"]


def test_rules_edges_and_a_part_of_the_rows_go_together(people, model):
    record = audited(
        model,
        people,
        people[["sex", "age"]],
        y=people[LABEL],
        columns={"hours": fm.Column(unit=5), "age": fm.Column(immutable=False)},
        bins={"age": [40]},
        max_samples=100,
        training_data=people.drop(columns=LABEL),
    )
    assert [row.group for row in record["age"]] == ["below 40", "40 and above"]
    rules = {row.group: row for row in record.select(kind="columns")}
    assert (rules["hours"].unit, rules["age"].immutable, rules["sex"].immutable) == (5.0, False, True)
    assert rules["capital gain"].source == "unit: standard deviation in the training data"
    assert any("100 of 120, drawn with seed 0" in note for note in record.notes)
    assert any("audited rows also occur in the training data" in note for note in record.notes)
    json.dumps(record.select(kind="changes", partition="sex").to_dict(), allow_nan=False)


# Fingerprints

AGE = TableColumn("age", "number", unit=10)
JOB = TableColumn("job", "category", categories=("cook", "nurse"), reachable=(0, 1))
TURNED = TableColumn("job", "category", categories=("nurse", "cook", "guard"), reachable=(0, 1))
ROWS, LABELS = np.array([[30.0, 0], [np.nan, 1], [40, np.nan]]), np.array(["yes", "no", "yes"])
SAME = np.array([[1.0, 30], [0, np.nan], [np.nan, 40]])


def test_the_fingerprint_of_rows_does_not_depend_on_their_coding():
    first = rows_fingerprint(ROWS, (AGE, JOB), LABELS)
    assert rows_fingerprint(SAME, (TURNED, AGE), LABELS) == first
    assert rows_fingerprint(SAME, (JOB, AGE), LABELS) != first
    assert rows_fingerprint(ROWS, (AGE, JOB), np.array(["yes", "yes", "no"])) != first
    changed = ROWS.copy()
    changed[0, 0] = 31
    assert rows_fingerprint(changed, (AGE, JOB), LABELS) != first


def test_the_fingerprint_of_rules_does_not_depend_on_the_order_of_columns_and_categories():
    first = domain_fingerprint(Domain.of_table((AGE, JOB)))
    assert domain_fingerprint(Domain.of_table((TURNED, AGE))) == first
    wider = TableColumn("age", "number", unit=11)
    assert domain_fingerprint(Domain.of_table((wider, JOB))) != first
    assert domain_fingerprint(Domain(0, 1)) == Domain(0, 1).fingerprint()
