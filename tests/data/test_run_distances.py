"""Distances can be read from the folder of a run, also if an older version wrote it."""

import json
import shutil

import numpy as np
import pytest

from fairmargin.data.distance_table import load_run_distances
from fairmargin.errors import InputError, StoreError
from tests.stories.examples import (
    QUICK,
    distances,
    fairmargin,
    json_of,
    people_audit,
    record_of,
    refused,
    succeeded,
    write_distances,
    write_model,
    write_people,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with a model, a table and an audit in two norms. Every test works on a copy."""
    folder = tmp_path_factory.mktemp("made")
    write_people(folder / "people.csv")
    write_model(folder / "model.npz", folder / "people.csv")
    both = ("--estimator", "exact_linear", "--estimator", "exact_linear:norm=linf")
    succeeded(fairmargin(*people_audit(folder, "--group", "sex", "--group", "race", *both, "--out", folder / "run")))
    return folder


@pytest.fixture(params=["record.json", "manifest.json"])
def run(request, made, tmp_path):
    """Return the run as this version writes it, and as version 0.1 did."""
    path = shutil.copytree(made / "run", tmp_path / "run")
    if request.param == "manifest.json":
        as_old(path)
    return path


def as_old(path):
    """Turn a run folder into one of version 0.1."""
    shards = {each["about"]["estimator"]: each["shards"][0] for each in record_of(path)["results"]}
    manifest = {"measurements": [{"estimator": name, "keys": keys} for name, keys in shards.items()], "notes": ["Old."]}
    for name in ("record.json", "checksums.json", "audit.csv", "report.html"):
        (path / name).unlink()
    shutil.rmtree(path / "results")
    (path / "manifest.json").write_text(json.dumps(manifest))
    (path / "study.json").write_text("{}")


def audit_of(run, out, *more):
    return fairmargin("audit", "--distances", run, "--group", "sex", *QUICK, "--out", out, *more)


def test_distances_of_a_run_are_audited_like_measured_distances(made, run, tmp_path):
    found = json_of(audit_of(run, tmp_path / "again", "--distance-column", "exact_linear:norm=linf", "--json"))
    (again,) = found["audits"]
    (first,) = [
        each
        for each in json_of(fairmargin("report", made / "run", "--out", tmp_path / "page.html", "--json"))["audits"]
        if (each["partition"], each["norm"]) == ("sex", "linf")
    ]
    assert [row["sigma"] for row in again["groups"]] == [row["sigma"] for row in first["groups"]]
    assert (again["bound"], again["norm"]) == ("exact", "linf")
    assert any("exact_linear:norm=linf, measured by the run in" in note for note in found["notes"])


def test_the_columns_of_the_groups_are_read(run):
    table = load_run_distances(run, estimator="exact_linear")
    assert {"sex", "race", "class"} <= set(table.attributes)
    assert table.partition("race").labels == ("Black", "Other", "White")
    assert len(table) == 360
    assert table.distances.bound.value == "exact"


def test_the_estimator_is_required_if_there_are_several(run, tmp_path):
    said = refused(audit_of(run, tmp_path / "again"))
    assert "--distance-column is missing" in said
    assert "exact_linear, exact_linear:norm=linf" in said
    assert "Did you mean 'exact_linear'?" in refused(audit_of(run, tmp_path / "b", "--distance-column", "exact_liner"))
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--bound", "lower"), "--bound differs from that of the run, exact; given 'lower'."),
        (("--norm", "linf"), "--norm differs from that of the run, l2; given 'linf'."),
        (("--id", "person"), "--id is for tables"),
        (("--correct-column", "correct"), "--correct-column is for tables"),
    ],
)
def test_options_that_the_run_determines_are_refused(run, tmp_path, more, said):
    assert said in refused(audit_of(run, tmp_path / "again", "--distance-column", "exact_linear", *more))


def test_ids_are_read(tmp_path):
    table = write_distances(tmp_path / "table.csv", distances().assign(photo=np.arange(300)))
    options = ("--bound", "upper", "--norm", "l2", "--group", "sex", "--id", "photo", *QUICK)
    succeeded(fairmargin("audit", "--distances", table, *options, "--out", tmp_path / "run"))
    assert load_run_distances(tmp_path / "run").ids.tolist() == [str(i) for i in range(300)]


def test_a_run_without_a_finished_audit_is_refused(made, tmp_path):
    path = shutil.copytree(made / "run", tmp_path / "run")
    content = record_of(path)
    (path / "record.json").write_text(json.dumps(content | {"status": "running"}))
    with pytest.raises(StoreError, match="did not finish"):
        load_run_distances(path)
    (path / "record.json").write_text(json.dumps(content | {"notes": []}))
    with pytest.raises(StoreError, match="does not match its checksum"):
        load_run_distances(path)
    (path / "record.json").unlink()
    with pytest.raises(InputError, match="holds no audit"):
        load_run_distances(path)
    (path / "manifest.json").write_text("{}")
    with pytest.raises(StoreError, match=r"manifest\.json is damaged"):
        load_run_distances(path)
    with pytest.raises(StoreError, match="without a run"):
        load_run_distances(tmp_path)


def test_the_message_about_an_older_folder_says_how_to_read_it(made, tmp_path):
    path = shutil.copytree(made / "run", tmp_path / "run")
    as_old(path)
    for command in (["report", path], people_audit(made, "--group", "sex", "--out", path)):
        assert f"fairmargin audit --distances {path}" in refused(fairmargin(*command))
