"""The study: what decides a result, in one frozen value that survives its file."""

import math
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fairmargin.studies.run_folder import RunFolder
from fairmargin.studies.study import MEASURED, Study, differing, make_study
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fairmargin.errors import InputError

SOURCE = {"model": "m.npz", "data": "d.csv"}


def again(study: Study) -> Study:
    """What a run folder reads of what it wrote."""
    with TemporaryDirectory() as folder:
        RunFolder(Path(folder)).write_study(study)
        read = RunFolder(Path(folder)).read_study()
    assert read is not None
    return read


# Reading fields


@pytest.mark.parametrize(
    ("field", "meant"), [("modle", "model"), ("group", "groups"), ("estimator", "estimators"), ("Label", "label")]
)
def test_an_unknown_field_is_answered_with_the_one_that_was_meant(field, meant):
    with pytest.raises(InputError) as raised:
        make_study(SOURCE | {field: "x"})
    assert str(raised.value) == f"Unknown field `{field}`. Did you mean '{meant}'?"


def test_a_sentence_says_in_which_file_the_field_stands():
    with pytest.raises(InputError, match=r"^run/study\.json: Unknown field `modle`"):
        make_study({"modle": "m.npz"}, "run/study.json")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "What to audit is missing: give --model with --data, or --distances."),
        ({"model": "m.npz"}, "What to audit is missing: give --data."),
        ({"data": "d.csv"}, "What to audit is missing: give --model."),
        (SOURCE | {"distances": "t.csv"}, "Give either --distances, or --model with --data, not both."),
        ({"model": "m.npz", "distances": "t.csv"}, "not both"),
        (SOURCE | {"split": "tset"}, "split: "),
        (SOURCE | {"bound": "uper"}, "bound: "),
        (SOURCE | {"bounds": (0,)}, "bounds"),
        (SOURCE | {"confidence": "high"}, "confidence: "),
        (SOURCE | {"groups": "sex"}, "--group: given 'sex'"),
        (SOURCE | {"merge_below": 1.5}, "--merge-below: given 1.5"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(fields, words):
    with pytest.raises(InputError) as raised:
        make_study(fields)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "pydantic" not in str(raised.value)
    assert str(raised.value).endswith(".")


def test_a_study_does_not_change():
    study = Study(**SOURCE)
    with pytest.raises(ValidationError):
        study.seed = 1
    assert study == Study(**SOURCE)
    assert hash(study) == hash(Study(**SOURCE))


def test_distances_are_either_measured_or_read():
    assert Study(**SOURCE).measures
    assert not Study(distances="t.csv").measures


def test_every_column_is_named_once_in_the_order_it_was_asked_for():
    study = Study(
        **SOURCE, groups=("sex", "race"), cross=(("race", "age"), ("sex", "race")), control="job", cluster="id"
    )
    assert study.columns == ("sex", "race", "age", "job", "id")
    assert Study(**SOURCE).columns == ()


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
            "bounds": st.tuples(finite, finite),
            "estimators": several,
            "groups": several,
            "cross": st.lists(st.just(("race", "sex")), max_size=2).map(tuple),
            "merge_below": st.integers(0, 100),
            "confidence": finite,
            "up_to": finite,
            "seed": st.integers(0),
            "title": names,
        },
    )
)
@settings(max_examples=60, deadline=None)
def test_a_study_is_the_same_after_its_file(fields):
    study = make_study(fields)
    assert again(study) == study


def test_an_infinite_bound_is_the_same_after_its_file():
    study = Study(**SOURCE, bounds=(-math.inf, 1.0))
    assert again(study) == study


# One folder, one model, one data set


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", "other.npz"),
        ("data", "other.csv"),
        ("split", "test"),
        ("label", "y"),
        ("features", ("a",)),
        ("scale", "none"),
        ("bounds", (0.0, 1.0)),
        ("seed", 1),
    ],
)
def test_what_decides_the_distances_may_not_differ_in_one_folder(field, value):
    assert differing(Study(**SOURCE), Study(**SOURCE | {field: value})) == (field,)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("groups", ("sex",)),
        ("cross", (("a", "b"),)),
        ("estimators", ("exact_linear:norm=l1",)),
        ("control", "class"),
        ("cluster", "id"),
        ("confidence", 0.9),
        ("resamples", 500),
        ("title", "Another title"),
        ("trust_model", True),
    ],
)
def test_what_only_decides_the_comparison_may_differ(field, value):
    assert differing(Study(**SOURCE), Study(**SOURCE | {field: value})) == ()


def test_every_field_that_may_not_differ_exists():
    assert set(MEASURED) <= set(Study.model_fields)
