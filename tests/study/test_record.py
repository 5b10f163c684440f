"""A record on disk is read only if every value is of its kind."""

import json
from pathlib import Path
from typing import Any

import pytest

from fairmargin.errors import StoreError
from fairmargin.study.check import checked
from fairmargin.study.record import RunRecord
from fairmargin.study.run_folder import RunFolder

HUGE = 10**400


def record() -> dict[str, Any]:
    """Return a record as JSON, with one result of attacks."""
    result = {
        "kind": "robust_accuracy",
        "about": {"partition": "sex", "attack": "pgd", "radius": 0.5, "seed": 1},
        "shards": [["a" * 64]],
        "key": "b" * 64,
        "settings": {"confidence": 0.9, "resamples": 300, "merge_below": 5, "control": "class"},
    }
    return {
        "version": 1,
        "status": "finished",
        "study": {"model": {"model": "m.py"}, "data": {"data": "digits"}, "attack": {"radius": [0.5]}},
        "provenance": {"data": "digits", "versions": {"python": "3.11.7"}},
        "notes": ["a note"],
        "results": [result],
    }


def folder_with(tmp_path: Path, place: tuple[Any, ...], value: Any) -> RunFolder:
    """Return a run folder whose record has this value at this place."""
    content = record()
    inside = content
    for part in place[:-1]:
        inside = inside[part]
    inside[place[-1]] = value
    (tmp_path / "record.json").write_text(json.dumps(content), encoding="utf-8")
    return RunFolder(tmp_path)


RESULT = ("results", 0)
WRONG = [
    (("provenance", "versions"), "0.5"),
    (("provenance", "versions"), {"python": 3}),
    (("provenance", "data"), []),
    (("notes",), "x"),
    (("notes",), [1]),
    (("status",), "done"),
    (("version",), 2),
    ((*RESULT, "kind"), []),
    ((*RESULT, "shards"), "ab"),
    ((*RESULT, "shards"), [["a", 1]]),
    ((*RESULT, "key"), 5),
    ((*RESULT, "key"), "../../elsewhere"),
    ((*RESULT, "about", "partition"), 1),
    ((*RESULT, "about", "radius"), "0.5"),
    ((*RESULT, "about", "radius"), True),
    ((*RESULT, "about", "radius"), float("nan")),
    ((*RESULT, "about", "radius"), HUGE),
    ((*RESULT, "about", "seed"), "3"),
    ((*RESULT, "about", "seed"), HUGE),
    ((*RESULT, "settings", "confidence"), "0.9"),
    ((*RESULT, "settings", "confidence"), HUGE),
    ((*RESULT, "settings", "up_to"), float("nan")),
    ((*RESULT, "settings", "resamples"), 1.5),
    ((*RESULT, "settings", "resamples"), HUGE),
    ((*RESULT, "settings", "merge_below"), "few"),
    ((*RESULT, "settings", "seed"), True),
    ((*RESULT, "settings", "control"), ["class"]),
    ((*RESULT, "settings", "radii"), ["0.1"]),
]


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = folder_with(tmp_path, ("notes",), ["a note"]).read()
    assert found.results[0].about.radius == 0.5
    assert found.results[0].settings["merge_below"] == 5
    assert RunRecord.model_validate(found.model_dump(mode="json", exclude_defaults=True)).results == found.results


@pytest.mark.parametrize(("place", "value"), WRONG, ids=[f"{p[-1]}-{str(v)[:12]}" for p, v in WRONG])
def test_a_value_of_another_kind_is_refused(tmp_path: Path, place: tuple[Any, ...], value: Any) -> None:
    with pytest.raises(StoreError, match=rf"record.json is damaged \({place[0]}"):
        folder_with(tmp_path, place, value).read()


@pytest.mark.parametrize(
    ("place", "value"),
    [((*RESULT, "shards"), []), ((*RESULT, "shards"), [[]]), ((*RESULT, "about", "radius"), None)],
    ids=["no shards", "an empty list of shards", "no radius"],
)
def test_a_result_that_follows_from_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: tuple[Any, ...], value: Any
) -> None:
    monkeypatch.setattr(RunFolder, "check_seal", lambda *_: None)
    with pytest.raises(StoreError, match="the record does not say what the result 'robust_accuracy' of seed 1, pgd"):
        checked(folder_with(tmp_path, place, value))


def test_a_kind_of_result_that_is_unknown_is_refused(tmp_path: Path) -> None:
    found = folder_with(tmp_path, (*RESULT, "kind"), "audits").read()
    with pytest.raises(StoreError, match=r"Unknown kind of result 'audits'\. Did you mean 'audit'"):
        found.result(found.results[0])
