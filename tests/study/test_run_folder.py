"""A run on disk is read as it was written, or its reader is told what is wrong."""

import json

import numpy as np
import pandas as pd
import pytest
from fairmargin.studies.run_folder import Manifest, Measurement, RunFolder, StoredAudit, audit_table
from fairmargin.studies.study import Study

from fairmargin.analyses.audit import audit
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError, StoreError
from fairmargin.inference.settings import AuditSettings
from fairmargin.store.shard import shard_key

STUDY = Study(model="m.npz", data="d.csv", groups=("sex",), title="żółć")
MANIFEST = Manifest(
    command="fairmargin audit",
    created="2026-01-01T00:00:00+00:00",
    model="m.npz",
    data="d.csv: 4 samples",
    samples_fingerprint="abc",
    versions={"python": "3.11"},
    notes=("A note — with a dash.",),
    measurements=(Measurement("exact_linear", ("0" * 64, "1" * 64)),),
)


@pytest.fixture
def folder(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.store()
    return run


def exact(values):
    values = np.asarray(values, dtype=float)
    return Distances(values, values > 0, Bound.EXACT, Norm.L2)


# What is written is what is read


def test_a_study_and_a_manifest_come_back(folder):
    assert folder.read_study() is None
    folder.write_study(STUDY)
    folder.write_manifest(MANIFEST)
    assert folder.read_study() == STUDY
    assert folder.read_manifest() == MANIFEST
    assert RunFolder.existing(folder.path) == folder


def test_only_what_differs_from_the_defaults_is_in_the_file(folder):
    folder.write_study(STUDY)
    assert set(json.loads((folder.path / "study.json").read_text())) == {"model", "data", "groups", "title"}


def test_audits_come_back_and_as_a_table(folder):
    rng = np.random.default_rng(0)
    result = audit(exact(rng.gamma(2, 1, 80)), Partition.by("sex", ["F", "M"] * 40), AuditSettings(resamples=200))
    folder.write_audits([StoredAudit("one", result), StoredAudit("two", result)])
    again = folder.read_audits()
    assert [a.estimator for a in again] == ["one", "two"]
    assert [a.result.to_json() for a in again] == [result.to_json()] * 2
    table = pd.read_csv(folder.path / "table.csv")
    pd.testing.assert_frame_equal(table, audit_table(again), check_dtype=False)
    assert table[["estimator", "partition", "group", "norm"]].to_numpy().tolist() == [
        [estimator, "sex", group, "l2"] for estimator in ("one", "two") for group in ("F", "M")
    ]


def test_distances_of_several_shards_come_back_in_the_order_of_the_samples(folder):
    keys = [shard_key({"start": start}) for start in (0, 2)]
    store = folder.store()
    for key, values in zip(keys, ([3.0, 1.0], [2.0, 0.0]), strict=True):
        store.write(key, exact(values), {})
    found = folder.distances(Measurement("exact_linear", tuple(keys)))
    assert found.values.tolist() == [3, 1, 2, 0]
    assert found.correct.tolist() == [True, True, True, False]


# Samples


COLUMNS = {
    "text": np.array(["b", "a", None, "b"], dtype=object),
    "number": np.array([10, 9, 9, 10]),
    "fraction": np.array([0.5, np.nan, 2.0, 0.5]),
    "truth": np.array([True, False, True, True]),
    "nothing": np.array([np.nan] * 4),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_partition_is_the_same_from_the_folder_as_from_the_data(folder, name):
    folder.write_samples(COLUMNS)
    stored, original = folder.partition(name), Partition.by(name, COLUMNS[name])
    assert stored.name == original.name
    assert stored.labels == original.labels
    assert stored.membership.tolist() == original.membership.tolist()


def test_missing_values_stay_missing(folder):
    folder.write_samples(COLUMNS)
    assert pd.read_parquet(folder.path / "samples.parquet")["text"].isna().tolist() == [False, False, True, False]
    assert folder.partition("text").labels == ("a", "b", "missing")


def test_an_intersection_is_named_with_an_ampersand(folder):
    folder.write_samples(COLUMNS)
    stored = folder.partition("text & number")
    original = Partition.by("text", COLUMNS["text"]) & Partition.by("number", COLUMNS["number"])
    assert stored.name == original.name == "text & number"
    assert stored.labels == original.labels
    assert stored.membership.tolist() == original.membership.tolist()
    assert folder.partition("text & number & truth").name == "text & number & truth"


def test_clusters_come_back_so_that_the_same_samples_belong_together(folder):
    ids = np.array([7, 8, 7, 9])
    folder.write_samples({"person": ids}, clusters="person")
    found = AuditSettings(cluster=folder.column("person")).cluster_codes(4)
    assert found.tolist() == AuditSettings(cluster=ids).cluster_codes(4).tolist()


def test_a_missing_column_is_answered_with_the_one_that_was_meant(folder):
    folder.write_samples(COLUMNS)
    with pytest.raises(InputError, match=r"has no column 'txt'\. Did you mean 'text'\?"):
        folder.partition("txt")
    with pytest.raises(InputError, match=r"has no column 'nmber'\. Did you mean 'number'\?"):
        folder.partition("text & nmber")


def test_a_missing_cluster_column_is_answered_too(folder):
    folder.write_samples(COLUMNS)
    with pytest.raises(InputError, match="has no column 'person'"):
        folder.column("person")


# What is not there, or broken


@pytest.mark.parametrize("stage", ["read_manifest", "read_audits"])
def test_a_stage_that_was_not_reached_is_said_to_be_so(folder, stage):
    with pytest.raises(StoreError, match="did not finish"):
        getattr(folder, stage)()


def test_samples_that_were_not_written_are_said_to_be_so(folder):
    with pytest.raises(StoreError, match=r"no samples\.parquet"):
        folder.partition("sex")


def test_a_folder_in_which_nothing_was_asked_is_no_run(folder):
    with pytest.raises(StoreError, match="holds no finished stage"):
        RunFolder.existing(folder.path)


@pytest.mark.parametrize("name", ["study.json", "manifest.json", "audits.json"])
def test_a_file_that_is_no_json_is_named_as_damaged(folder, name):
    (folder.path / name).write_bytes(b"\xff\xfe not json")
    read = {"study.json": folder.read_study, "manifest.json": folder.read_manifest, "audits.json": folder.read_audits}
    with pytest.raises(StoreError, match=f"{name} is damaged"):
        read[name]()


def test_a_manifest_with_a_field_too_few_or_too_many_is_damaged(folder):
    folder.write_manifest(MANIFEST)
    content = json.loads((folder.path / "manifest.json").read_text())
    for changed in (content | {"colour": "red"}, {k: v for k, v in content.items() if k != "created"}):
        (folder.path / "manifest.json").write_text(json.dumps(changed))
        with pytest.raises(StoreError, match=r"manifest\.json is damaged"):
            folder.read_manifest()


def test_audits_of_another_format_are_refused(folder):
    (folder.path / "audits.json").write_text(json.dumps([{"estimator": "one", "result": {"format": 99}}]))
    with pytest.raises(StoreError, match="format 99"):
        folder.read_audits()
