"""A run on disk is read as it was written, or refused with a sentence that names the problem."""

import json
from html import escape

import numpy as np
import pandas as pd
import pytest

from fairmargin.analyses.audit import audit
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError, StoreError
from fairmargin.inference.settings import AuditSettings
from fairmargin.store.checksums import stamped
from fairmargin.store.shard import shard_key
from fairmargin.study.check import checked
from fairmargin.study.options import AttackOptions, AuditOptions, DataOptions, GroupOptions, ModelOptions
from fairmargin.study.record import About, Provenance, RunRecord, StoredResult
from fairmargin.study.run_folder import RunFolder, SampleColumns
from fairmargin.study.study import Study
from fairmargin.study.tables import rows_of

STUDY = Study(
    model=ModelOptions(model="m.npz"),
    data=DataOptions(data="d.csv"),
    groups=GroupOptions(group=("sex",)),
    audit=AuditOptions(),
    title="żółć",
)
RECORD = RunRecord(
    study=STUDY,
    provenance=Provenance(
        command="fairmargin audit",
        created="2026-01-01T00:00:00+00:00",
        model="m.npz",
        data="d.csv: 4 samples",
        samples="abc",
        versions={"python": "3.11"},
    ),
    notes=("A note — with a dash.",),
)
SEX = np.array(["F", "M"] * 40)


@pytest.fixture
def folder(tmp_path):
    run = RunFolder(tmp_path / "run")
    with run.store.lock():
        pass
    return run


def exact(values):
    values = np.asarray(values, dtype=float)
    return Distances(values, values > 0, Bound.EXACT, Norm.L2)


def audited(folder, *estimators, record=RECORD):
    """Carry out audits of random distances into a folder, and return the record."""
    distances = exact(np.random.default_rng(0).gamma(2, 1, 80))
    result = audit(distances, Partition.by("sex", SEX), AuditSettings(resamples=200))
    stored = [
        StoredResult(kind="audit", about=About(partition="sex", estimator=name), key=shard_key({"of": name}))
        for name in estimators
    ]
    with folder.claimed(record) as old:
        for each in stored:
            folder.keep(each, result)
        finished = record.model_copy(update={"status": "finished", "results": tuple(stored)})
        return folder.finish(finished, {"": SampleColumns({"sex": SEX})}, old), result


# What is written is what is read


def test_a_record_comes_back(folder):
    assert folder.record() is None
    with folder.claimed(RECORD):
        assert folder.read().model_dump() == RECORD.model_dump()
    assert folder.read().model_dump() == RECORD.model_dump()
    assert RunFolder.existing(folder.path) == folder


def test_only_what_differs_from_the_defaults_is_in_the_file(folder):
    with folder.claimed(RECORD):
        pass
    content = json.loads((folder.path / "record.json").read_text(encoding="utf-8"))
    assert content["status"] == "running"
    assert content["study"] == {
        "title": "żółć", "data": {"data": "d.csv"}, "model": {"model": "m.npz"}, "groups": {"group": ["sex"]},
        "audit": {},
    }  # fmt: skip


def test_results_come_back_and_as_a_table(folder):
    _, result = audited(folder, "one", "two")
    again = folder.read()
    assert [each.about.estimator for each in again.results] == ["one", "two"]
    assert [again.result(each).to_json() for each in again.results] == [result.to_json()] * 2
    table = pd.read_csv(folder.path / "audit.csv")
    pd.testing.assert_frame_equal(table, pd.DataFrame(rows_of(again, "audit")), check_dtype=False)
    assert table[["estimator", "partition", "group", "norm"]].to_numpy().tolist() == [
        [estimator, "sex", group, "l2"] for estimator in ("one", "two") for group in ("F", "M")
    ]


def test_a_notebook_shows_the_sentences_and_tables_of_every_result_with_names_escaped(folder, monkeypatch):
    monkeypatch.setattr(f"{__name__}.SEX", np.array(["<b>F</b>", "M"] * 40))
    record, result = audited(folder, "one")
    page = record._repr_html_()
    assert "&lt;b&gt;F&lt;/b&gt;" in page
    assert "<b>" not in page
    assert "<h3>By sex</h3>" in page
    assert page.count("<table>") == 1
    assert f"<p>{escape(result.section().answer)}</p>" in page


def test_a_notebook_shows_a_record_without_results_in_a_line(folder):
    assert RECORD._repr_html_() == "<p>RunRecord(running; no results)</p>"


def test_a_run_that_computes_less_leaves_no_file_of_what_an_earlier_one_computed(folder):
    audited(folder, "one", "two")
    (folder.path / "bracket.csv").write_text("of an earlier run")
    audited(folder, "two")
    assert [path.stem for path in (folder.path / "results").iterdir()] == [shard_key({"of": "two"})]
    assert not (folder.path / "bracket.csv").exists()
    assert len(pd.read_csv(folder.path / "audit.csv")) == 2


def test_claiming_a_finished_run_keeps_its_record(folder):
    before, _ = audited(folder, "one")
    with folder.claimed(RECORD):
        assert folder.read().status == "finished"
        assert folder.read().results == before.results


def test_an_unfinished_run_may_be_asked_something_else(folder):
    with folder.claimed(RECORD):
        pass
    attack = RECORD.model_copy(update={"study": STUDY.model_copy(update={"audit": None, "attack": AttackOptions()})})
    with folder.claimed(attack):
        pass
    assert folder.read().study.attack == AttackOptions()


def test_a_folder_belongs_to_one_model_on_one_dataset(folder):
    audited(folder, "one")
    other = RECORD.model_copy(update={"study": STUDY.model_copy(update={"model": ModelOptions(model="n.npz")})})
    with (
        pytest.raises(StoreError, match=r"holds another run: it differs in model \('m.npz', now 'n.npz'\)"),
        folder.claimed(other),
    ):
        pass


def test_distances_of_several_shards_come_back_in_the_order_of_the_samples(folder):
    keys = [shard_key({"start": start}) for start in (0, 2)]
    store = folder.store
    for key, values in zip(keys, ([3.0, 1.0], [2.0, 0.0]), strict=True):
        store.write(key, exact(values), {})
    found = folder.distances(tuple(keys))
    assert found.values.tolist() == [3, 1, 2, 0]
    assert found.correct.tolist() == [True, True, True, False]


def test_notes_that_are_lost_without_harm_come_back(folder):
    assert folder.remembered("costs") == {}
    folder.remember("costs", {"a": 1.5})
    assert folder.remembered("costs") == {"a": 1.5}
    (folder.path / "costs.json").write_text("[1")
    assert folder.remembered("costs") == {}


# SampleColumns


COLUMNS = {
    "text": np.array(["b", "a", None, "b"], dtype=object),
    "number": np.array([10, 9, 9, 10]),
    "fraction": np.array([0.5, np.nan, 2.0, 0.5]),
    "truth": np.array([True, False, True, True]),
    "nothing": np.array([np.nan] * 4),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_partition_is_the_same_from_the_folder_as_from_the_data(folder, name):
    folder.write_samples(SampleColumns(COLUMNS).frame())
    stored, original = folder.partition(name), Partition.by(name, COLUMNS[name])
    assert stored.name == original.name
    assert stored.labels == original.labels
    assert stored.membership.tolist() == original.membership.tolist()


def test_missing_values_stay_missing(folder):
    folder.write_samples(SampleColumns(COLUMNS).frame())
    assert pd.read_parquet(folder.path / "samples.parquet")["text"].isna().tolist() == [False, False, True, False]
    assert folder.partition("text").labels == ("a", "b", "missing")


def test_an_intersection_is_named_with_an_ampersand(folder):
    folder.write_samples(SampleColumns(COLUMNS).frame())
    stored = folder.partition("text & number")
    original = Partition.by("text", COLUMNS["text"]) & Partition.by("number", COLUMNS["number"])
    assert stored.name == original.name == "text & number"
    assert stored.labels == original.labels
    assert stored.membership.tolist() == original.membership.tolist()
    assert folder.partition("text & number & truth").name == "text & number & truth"


def test_clusters_come_back_so_that_the_same_samples_belong_together(folder):
    ids = np.array([7, 8, 7, 9])
    folder.write_samples(SampleColumns({"person": ids}, ("person",)).frame())
    found = AuditSettings(cluster=folder.column("person")).cluster_codes(4)
    assert found.tolist() == AuditSettings(cluster=ids).cluster_codes(4).tolist()


def test_a_missing_column_is_answered_with_the_one_that_was_meant(folder):
    folder.write_samples(SampleColumns(COLUMNS).frame())
    with pytest.raises(InputError, match=r"has no column 'txt'\. Did you mean 'text'\?"):
        folder.partition("txt")
    with pytest.raises(InputError, match=r"has no column 'nmber'\. Did you mean 'number'\?"):
        folder.partition("text & nmber")


def test_a_missing_cluster_column_is_answered_too(folder):
    folder.write_samples(SampleColumns(COLUMNS).frame())
    with pytest.raises(InputError, match="has no column 'person'"):
        folder.column("person")


def test_ids_come_back_and_are_no_column(folder):
    folder.write_samples(SampleColumns({"sex": SEX[:2]}, ids=np.array(["7", "007"])).frame())
    assert folder.ids().tolist() == ["7", "007"]
    assert list(folder.columns()) == ["sex"]
    folder.write_samples(SampleColumns({"sex": SEX[:2]}).frame())
    assert folder.ids() is None


# What is not there, or broken


def test_a_run_that_did_not_finish_is_said_to_be_so(folder):
    with pytest.raises(StoreError, match="did not finish"):
        folder.read()
    with folder.claimed(RECORD):
        pass
    with pytest.raises(StoreError, match="did not finish"):
        checked(folder)


def test_samples_that_were_not_written_are_said_to_be_so(folder):
    with pytest.raises(StoreError, match=r"no samples\.parquet"):
        folder.partition("sex")


def test_a_folder_in_which_nothing_was_asked_is_no_run(folder):
    with pytest.raises(StoreError, match="holds no run yet"):
        RunFolder.existing(folder.path)


@pytest.mark.parametrize(
    ("name", "said"),
    [("study.json", "cannot be continued"), ("attack_study.json", "cannot")],
)
def test_a_folder_of_an_older_version_is_refused(folder, name, said):
    (folder.path / name).write_text("{}")
    for attempt in (lambda: RunFolder.existing(folder.path), lambda: folder.claimed(RECORD).__enter__()):
        with pytest.raises(StoreError, match=said) as raised:
            attempt()
        assert "--distances" not in str(raised.value)  # there are none
    (folder.path / "manifest.json").write_text("{}")
    with pytest.raises(StoreError, match=f"audit --distances {folder.path}"):
        RunFolder.existing(folder.path)


def test_a_study_file_of_a_user_does_not_make_a_folder_one_of_an_older_version(tmp_path):
    (tmp_path / "study.toml").write_text("")
    with pytest.raises(StoreError, match=r"holds other files \(study\.toml\) and no run"):
        RunFolder(tmp_path).claimed(RECORD).__enter__()
    (tmp_path / "store.json").write_text('{"format": 1}')
    with pytest.raises(StoreError, match=r"older version of Fairmargin \(study\.toml\)"):
        RunFolder(tmp_path).claimed(RECORD).__enter__()


def test_a_file_that_is_no_json_is_named_as_damaged(folder):
    record, _ = audited(folder, "one")
    (stored,) = record.results
    path = folder.path / "results" / f"{stored.key}.json"
    path.write_bytes(b"\xff\xfe not json")
    with pytest.raises(StoreError, match=rf"{stored.key}\.json is damaged"):
        folder.read().result(stored)
    path.unlink()
    with pytest.raises(StoreError, match=rf"lacks results/{stored.key}\.json"):
        folder.read().result(stored)
    (folder.path / "record.json").write_bytes(b"\xff\xfe not json")
    with pytest.raises(StoreError, match=r"record\.json is damaged"):
        folder.read()


def test_a_damaged_result_is_none(folder):
    record, _ = audited(folder, "one")
    (stored,) = record.results
    assert folder.kept(stored) is not None
    (folder.path / "results" / f"{stored.key}.json").write_text("{}")
    assert folder.kept(stored) is None


def test_a_record_with_a_field_too_few_or_too_many_is_damaged(folder):
    audited(folder, "one")
    content = json.loads((folder.path / "record.json").read_text())
    for changed in (
        content | {"colour": "red"},
        {k: v for k, v in content.items() if k != "study"},
        content | {"notes": [1]},
        content | {"results": [{"kind": "audit", "about": {}, "key": "../secret"}]},
    ):
        (folder.path / "record.json").write_text(json.dumps(changed))
        with pytest.raises(StoreError, match=r"record\.json is damaged"):
            folder.read()


def test_a_record_of_another_format_is_refused(folder):
    audited(folder, "one")
    content = json.loads((folder.path / "record.json").read_text()) | {"version": 99}
    (folder.path / "record.json").write_text(json.dumps(content))
    with pytest.raises(StoreError, match="version: "):
        folder.read()


def test_a_result_of_another_format_is_refused(folder):
    record, _ = audited(folder, "one")
    (stored,) = record.results
    (folder.path / "results" / f"{stored.key}.json").write_text(stamped(json.dumps({"format": 99})))
    with pytest.raises(StoreError, match="format 99"):
        folder.read().result(stored)


def test_estimators_that_are_not_known_any_more_are_read(folder):
    record = RECORD.model_copy(update={"study": STUDY.model_copy(update={"audit": AuditOptions(estimator="gone")})})
    audited(folder, "gone", record=record)
    assert folder.read().select(estimator="gone")["F"].size == 40
