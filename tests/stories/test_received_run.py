"""A run folder that somebody sent: links in it are not followed, and edited results are refused."""

import os
import shutil
from pathlib import Path

import pytest

from fairmargin.errors import StoreError
from fairmargin.studies.grid_folder import GridFolder
from fairmargin.training.checkpoints import TrainingFolder
from tests.stories.examples import (
    fairmargin,
    people_audit,
    refused,
    succeeded,
    write_model,
    write_people,
)

PRECIOUS = "do not touch"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model, its data and a run of them. Every test works on a copy."""
    folder = tmp_path_factory.mktemp("made")
    write_people(folder / "people.csv")
    write_model(folder / "model.npz", folder / "people.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        succeeded(fairmargin(*audit()))
    return folder


@pytest.fixture
def received(made, tmp_path, monkeypatch):
    """A copy of the run, which is the working folder, beside a file that a link could point to."""
    shutil.copytree(made, tmp_path / "inbox")
    (tmp_path / "victim").write_text(PRECIOUS)
    monkeypatch.chdir(tmp_path / "inbox")
    return tmp_path / "inbox"


def audit(out: object = "run") -> list[object]:
    """The audit in the working folder, by names that a copy shares."""
    return people_audit(Path(), "--group", "sex", "--out", out)


def replace_by_link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


# Links


def test_the_report_of_a_received_run_replaces_a_link_and_leaves_its_target(received, tmp_path):
    report = received / "run" / "report.html"
    replace_by_link(report, Path("../../victim"))
    succeeded(fairmargin("report", received / "run"))
    assert (tmp_path / "victim").read_text() == PRECIOUS
    assert not report.is_symlink()
    assert "<html" in report.read_text(encoding="utf-8")


def test_a_link_to_a_file_that_does_not_exist_creates_none(received, tmp_path):
    replace_by_link(received / "run" / "report.html", tmp_path / "new")
    succeeded(fairmargin("report", received / "run"))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["report.html", "table.csv", "brackets.json", "samples.parquet.tmp"])
def test_an_audit_into_a_received_run_writes_through_no_link(received, tmp_path, name):
    replace_by_link(received / "run" / name, tmp_path / "victim")
    succeeded(fairmargin(*audit()))
    assert (tmp_path / "victim").read_text() == PRECIOUS


def test_a_hard_link_keeps_its_content(received, tmp_path):
    for name in ("report.html", "table.csv", "audits.json"):
        (received / "run" / name).unlink()
        os.link(tmp_path / "victim", received / "run" / name)
    succeeded(fairmargin(*audit()))
    assert (tmp_path / "victim").read_text() == PRECIOUS


@pytest.mark.parametrize("name", ["study.json", "audits.json", "store.json"])
def test_a_result_that_is_a_link_is_not_read(received, tmp_path, name):
    shutil.copy(received / "run" / name, tmp_path / "elsewhere")
    replace_by_link(received / "run" / name, tmp_path / "elsewhere")
    said = refused(fairmargin("gate", received / "run", "--if", "size > 1000"))
    assert f"{name} is a symbolic link" in said


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(received):
    run = received / "run"
    (run / "audits.json").unlink()
    os.mkfifo(run / "audits.json")
    assert "audits.json is not a plain file" in refused(fairmargin("report", run))
    (run / "audits.json").unlink()
    (run / "report.html").unlink()
    os.mkfifo(run / "report.html")
    assert "report.html: it is a pipe, a socket or a device" in refused(fairmargin(*audit()))


@pytest.mark.parametrize("level", ["shards", "one"])
def test_a_folder_of_shards_that_is_a_link_is_refused(received, tmp_path, level):
    run, away = received / "run", tmp_path / "away"
    place = run / "shards" if level == "shards" else next((run / "shards").iterdir())
    shutil.move(place, away)
    place.symlink_to(away)
    if level == "shards":
        (away / "xx").mkdir()
    stale = (away / "xx" if level == "shards" else away) / ".a.tmp"
    stale.write_text(PRECIOUS)
    for command in (audit(), ["gate", run, "--if", "size > 1"], ["report", run]):
        said = refused(fairmargin(*command))
        assert f"{place.relative_to(received)} is a symbolic link" in said
    assert stale.read_text() == PRECIOUS


def test_a_lock_that_is_a_link_is_refused(received, tmp_path):
    replace_by_link(received / "run" / ".lock", tmp_path / "victim")
    assert ".lock is a symbolic link" in refused(fairmargin(*audit()))
    assert (tmp_path / "victim").read_text() == PRECIOUS


def test_a_lock_that_is_a_hard_link_to_a_file_is_refused(received, tmp_path):
    (received / "run" / ".lock").unlink(missing_ok=True)
    os.link(tmp_path / "victim", received / "run" / ".lock")
    os.chmod(tmp_path / "victim", 0o600)
    assert ".lock is not an empty file" in refused(fairmargin(*audit()))
    assert (tmp_path / "victim").read_text() == PRECIOUS
    assert (tmp_path / "victim").stat().st_mode & 0o777 == 0o600


def test_the_folder_of_the_run_may_be_a_link_of_its_owner(received, tmp_path):
    (tmp_path / "mine").symlink_to(received / "run")
    succeeded(fairmargin("report", tmp_path / "mine"))
    succeeded(fairmargin(*audit(tmp_path / "mine")))


def test_a_report_in_the_place_of_a_folder_is_explained(received):
    (received / "run" / "report.html").unlink()
    (received / "run" / "report.html").mkdir()
    assert "report.html: it is a folder" in refused(fairmargin("report", received / "run"))


def test_an_explicit_report_replaces_a_link_too(received, tmp_path):
    replace_by_link(received / "run" / "page.html", tmp_path / "victim")
    succeeded(fairmargin("report", received / "run", "--out", received / "run" / "page.html"))
    assert (tmp_path / "victim").read_text() == PRECIOUS


def test_a_page_can_be_written_to_a_device_that_the_user_names(received):
    succeeded(fairmargin("report", received / "run", "--out", "/dev/null"))
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("name", ["tasks", "compared", "trainings", "trainings/digits-1"])
def test_a_study_writes_into_no_linked_folder(tmp_path, name):
    run = GridFolder(tmp_path / "run")
    run.open()
    shutil.rmtree(run.path / name, ignore_errors=True)
    (run.path / name).symlink_to(tmp_path)
    with pytest.raises(StoreError, match=f"{name} is a symbolic link"):
        run.open()


def test_a_training_writes_into_no_linked_folder(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "distances").symlink_to(tmp_path)
    with pytest.raises(StoreError, match="distances is a symbolic link"):
        TrainingFolder(tmp_path / "run").make()
