"""The study: what decides a result, in one frozen value that survives its file."""

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fairmargin.study.options import AttackOptions, AuditOptions, DataOptions, GroupOptions, ModelOptions
from fairmargin.study.record import RunRecord
from fairmargin.study.run_folder import RunFolder
from fairmargin.study.study import RunOptions, Study, differing

SOURCE = {"model": {"model": "m.npz"}, "data": {"data": "d.csv"}}


def again(study: Study) -> Study:
    """Return the study that a run folder reads after it wrote this one."""
    with TemporaryDirectory() as folder:
        run = RunFolder(Path(folder) / "run")
        with run.claimed(RunRecord(study=study)):
            pass
        return run.read().study


def with_fields(section: str, **fields: Any) -> dict[str, Any]:
    return SOURCE | {section: SOURCE.get(section, {}) | fields}


def test_a_study_does_not_change():
    study = Study(**SOURCE)
    with pytest.raises(ValidationError):
        study.seed = 1
    assert study == Study(**SOURCE)
    assert hash(study) == hash(Study(**SOURCE))
    assert study.key == Study(**SOURCE).key != Study(**SOURCE, seed=1).key


def test_every_column_is_named_once_in_the_order_it_was_asked_for():
    groups = GroupOptions(group=("sex", "race"), cross=(("race", "age"), ("sex", "race")), control="job", cluster="id")
    assert groups.named_columns == ("sex", "race", "age", "job", "id")
    assert GroupOptions().named_columns == ()


# Writing and reading again

names = st.text(min_size=1, max_size=8)
several = st.lists(names, max_size=3).map(tuple)
finite = st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.fixed_dictionaries(
        {"model": names, "data": names},
        optional={
            "label": names,
            "features": several,
            "bounds": st.tuples(finite, finite).map(sorted).map(tuple),
            "estimator": several,
            "group": several,
            "cross": st.lists(st.just(("race", "sex")), max_size=2).map(tuple),
            "merge_below": st.integers(0, 100),
            "confidence": st.floats(0.5, 0.99),
            "up_to": st.just(float("inf")) | st.floats(0, 2.0**63, exclude_min=True, exclude_max=True),
            "radius": st.lists(st.floats(0.001, 9), max_size=3).map(tuple),
            "seed": st.integers(0, 2**63 - 1),
            "title": names,
        },
    )
)
@settings(max_examples=60, deadline=None)
def test_a_study_is_the_same_after_its_file(fields):
    study = Study(
        data=DataOptions(**{name: value for name, value in fields.items() if name in DataOptions.model_fields}),
        model=ModelOptions(model=fields["model"]),
        groups=GroupOptions(**{name: value for name, value in fields.items() if name in GroupOptions.model_fields}),
        audit=AuditOptions(**{name: value for name, value in fields.items() if name in AuditOptions.model_fields}),
        attack=AttackOptions(radius=fields.get("radius", ())),
        **{name: value for name, value in fields.items() if name in RunOptions.model_fields},
    )
    assert again(study) == study
    assert Study(**study.plain()) == study


def test_an_infinite_bound_is_the_same_after_its_file():
    study = Study(**with_fields("data", bounds=(-math.inf, 1.0)))
    assert again(study) == study


# One folder, one model, one data set


@pytest.mark.parametrize(
    ("section", "field", "value"),
    [
        ("model", "model", "other.npz"),
        ("model", "weights", "other.pt"),
        ("data", "split", "test"),
        ("data", "features", ("a",)),
        ("data", "bounds", (0.0, 1.0)),
        ("", "seed", 1),
    ],
)
def test_what_decides_the_distances_may_not_differ_in_one_folder(section, field, value):
    other = Study(**with_fields(section, **{field: value})) if section else Study(**SOURCE, **{field: value})
    (found,) = differing(Study(**SOURCE), other)
    assert found.startswith(f"{field} (")
    assert found.endswith(f", now {value!r})")


@pytest.mark.parametrize(
    ("section", "field", "value"),
    [
        ("groups", "group", ("sex",)),
        ("groups", "control", "class"),
        ("audit", "estimator", ("exact_linear:norm=l1",)),
        ("audit", "confidence", 0.9),
        ("model", "trust_model", True),
        ("model", "device", "cuda"),
        ("data", "training_data", "t.csv"),
        ("", "title", "Another title"),
    ],
)
def test_what_only_decides_the_comparison_may_differ(section, field, value):
    other = Study(**with_fields(section, **{field: value})) if section else Study(**SOURCE, **{field: value})
    assert differing(Study(**SOURCE), other) == []
