"""What a run measures depends on the study alone: the same references and sums in any engine, order and restart."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fairmargin.core.norm import Norm
from fairmargin.data.dataset import Dataset
from fairmargin.distances.combine import tightest
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.searches.deepfool import DeepFool
from fairmargin.engine.local import Processes, Serial
from fairmargin.engine.shared import pickled
from fairmargin.errors import StoreError
from fairmargin.models.linear import LinearClassifier
from fairmargin.runner.cases import Subject
from fairmargin.runner.measurer import estimator_plans
from fairmargin.runner.run import run
from fairmargin.store.checksums import seal, stamped, unstamped
from fairmargin.store.folder import MemoryStore, Store
from fairmargin.study.check import checked
from fairmargin.study.options import AttackOptions, AuditOptions, DataOptions, GroupOptions, ModelOptions
from fairmargin.study.run_folder import RunFolder
from fairmargin.study.study import Study

# Class 1 where the first feature exceeds 0.999, without any slope: searches by gradients do not find it, and none of 64
# points of noise over the domain lies there. Some of the samples do.
NET = """
import torch

class Cliff(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        lead = torch.where(x[:, :1] > 0.999, -1.0, 1.0) + 0 * self.layer(x)[:, :1]
        return torch.cat([lead, torch.zeros_like(lead)], dim=1)

def make():
    torch.manual_seed(0)
    return Cliff()
"""


@pytest.fixture
def study(tmp_path):
    (tmp_path / "net.py").write_text(NET)
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 0.9, size=(300, 2)).astype(np.float32)
    x[::7, 0] = 1.0
    np.savez(tmp_path / "data.npz", x=x, y=(x[:, 0] > 0.999).astype(int))
    return Study(
        model=ModelOptions(model=f"{tmp_path}/net.py:make"),
        data=DataOptions(data=str(tmp_path / "data.npz"), bounds=(0, 1)),
        audit=AuditOptions(estimator=("deepfool",), resamples=200),
    )


def with_audit(study, **fields):
    """Return the study with other options of its audit."""
    return study.model_copy(update={"audit": study.audit.model_copy(update=fields)})


def carried_out(study, path, engine=None):
    """Return the record, the distances of each audit, and the numbers of measured and reused shards."""
    folder = RunFolder(path)
    record, measure = run(study, folder, engine or Serial())
    found = [folder.distances(each.shards[0]) for each in record.results if each.kind == "audit"]
    return record, found, (measure.measured, measure.reused)


def test_a_run_falls_back_on_samples_of_its_own_in_any_engine_and_after_a_restart(study, tmp_path):
    one, (before,), _ = carried_out(study, tmp_path / "one")
    assert np.isfinite(before.values).all()
    assert len(one.provenance.references) == 64
    two, (other,), _ = carried_out(study, tmp_path / "two", Processes(workers=2))
    np.testing.assert_array_equal(other.values, before.values)
    assert two.provenance.references == one.provenance.references
    assert two.results == one.results
    next((tmp_path / "one").glob("shards/*/*.parquet")).unlink()
    _, (again,), counts = carried_out(study, tmp_path / "one")
    assert counts == (1, 2)
    np.testing.assert_array_equal(again.values, before.values)


def test_the_order_of_the_samples_changes_neither_references_nor_distances(study, tmp_path):
    first, (straight,), _ = carried_out(study, tmp_path / "first")
    with np.load(tmp_path / "data.npz") as held:
        np.savez(tmp_path / "turned.npz", x=held["x"][::-1], y=held["y"][::-1])
    data = study.data.model_copy(update={"data": str(tmp_path / "turned.npz")})
    turned, (backwards,), _ = carried_out(study.model_copy(update={"data": data}), tmp_path / "turned")
    assert turned.provenance.references == first.provenance.references
    np.testing.assert_array_equal(backwards.values[::-1], straight.values)


def keys(estimator, *subjects):
    return [tuple(task.key for plan in estimator_plans(each, estimator) for task in plan.tasks) for each in subjects]


@pytest.fixture
def subject():
    model = LinearClassifier([[0.0, 0.0], [3.0, 4.0]], [0.0, -5.0])
    return Subject(model, Dataset(np.eye(2), [0, 0]), np.zeros(2, np.int64))


def test_keys_tell_apart_all_that_distances_depend_on(subject):
    others = [
        replace(subject, seed=1),
        replace(subject, dataset=Dataset(2 * np.eye(2), [0, 0])),
        replace(subject, model=LinearClassifier([[0.0, 0.0], [3.0, 4.0]], [0.0, -6.0])),
    ]
    assert len(set(keys(ExactLinear(), subject, *others))) == 4
    assert keys(ExactLinear(), subject) != keys(ExactLinear(Norm.L1), subject)


def test_keys_tell_references_apart_only_for_estimators_that_search_by_gradients(subject):
    several = [replace(subject, references=each) for each in (None, np.array([[5.0, 5.0]]), np.array([[6.0, 6.0]]))]
    assert len(set(keys(DeepFool(), *several))) == 3
    assert len(set(keys(ExactLinear(), *several))) == 1


@pytest.fixture
def linear(tmp_path):
    np.savez(tmp_path / "model.npz", weight=[[3.0, 4.0]], bias=[-5.0])
    x = np.random.default_rng(0).normal(1, 1, size=(80, 2))
    np.savez(tmp_path / "data.npz", x=x, y=(x @ [3, 4] > 5).astype(int))
    return Study(
        model=ModelOptions(model=str(tmp_path / "model.npz")),
        data=DataOptions(data=str(tmp_path / "data.npz")),
        audit=AuditOptions(resamples=200),
    )


def test_tasks_carry_names_of_the_model_and_of_the_samples_which_estimators_share():
    rng = np.random.default_rng(0)
    model = LinearClassifier(rng.normal(size=(2, 10_000)), [0.0, 0.0])
    labels = np.zeros(3000, dtype=np.int64)
    subject = Subject(model, Dataset(rng.normal(size=(3000, 10_000)), labels), labels)
    plans = [estimator_plans(subject, ExactLinear(norm))[0].tasks for norm in (Norm.L2, Norm.LINF)]
    sent = [[pickled(task) for task in tasks] for tasks in plans]
    for tasks in sent:
        assert all(len(content) < 10 * len(labels) for content, _ in tasks)  # their positions are most of it
    names = [[sorted(shared) for _, shared in tasks] for tasks in sent]
    assert names[0] == names[1]
    assert len({name for task in names[0] for name in task}) == len(names[0]) + 1  # blocks of samples, and one model


def test_no_references_are_recorded_where_nothing_searches_by_gradients(linear, tmp_path):
    record, _, _ = carried_out(linear, tmp_path / "run")
    assert record.provenance.references == ""


def test_of_estimators_joined_by_plus_each_is_measured_once_and_the_best_is_audited(study, tmp_path):
    weak = "deepfool:published=true,steps=1"
    asked = with_audit(study, estimator=("deepfool", f"deepfool+{weak}", weak), up_to=5.0)
    record, (best, both, poor), counts = carried_out(asked, tmp_path / "run")
    assert counts == (6, 0)  # 300 samples are three shards of 128, and nothing was there before
    assert np.isinf(poor.values).any()
    np.testing.assert_array_equal(both.values, tightest(best, poor).values)
    assert [each.about.estimator for each in record.results] == ["deepfool", f"deepfool+{weak}", weak]
    assert carried_out(asked, tmp_path / "run")[2] == (0, 6)
    _, (turned,), counts = carried_out(with_audit(study, estimator=(f"{weak}+deepfool",)), tmp_path / "run")
    assert counts == (0, 6)
    np.testing.assert_array_equal(turned.values, both.values)


# Reading, keeping, and what an earlier run left


@pytest.fixture
def reads(monkeypatch):
    """Return a list of all keys that are read from a store on disk or in memory."""
    found = []
    for store in (Store, MemoryStore):
        plain = store.read

        def noted(self, key, plain=plain):
            found.append(key)
            return plain(self, key)

        monkeypatch.setattr(store, "read", noted)
    return found


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_fresh_run_reads_no_shard_back(study, tmp_path, reads, in_memory):
    everything = with_audit(study, estimator=("deepfool:steps=5", "deepfool:steps=5+fmn:steps=4"), adequacy=True)
    everything = everything.model_copy(
        update={"attack": AttackOptions(attack=("fgsm", "pgd:steps=2"), radius=(0.1,), resamples=200)}
    )
    record, measure = run(everything, None if in_memory else RunFolder(tmp_path / "run"), Serial())
    assert {each.kind for each in record.results} == {"audit", "adequacy", "robust_accuracy"}
    assert measure.measured > 10
    assert reads == []


def test_a_second_run_reads_each_shard_once(study, tmp_path, reads):
    carried_out(study, tmp_path / "run")
    reads.clear()
    record, _ = run(study, RunFolder(tmp_path / "run"), Serial())
    assert sorted(reads) == sorted(record.results[0].shards[0])


def test_results_that_do_not_follow_from_the_distances_are_refused_although_their_checksums_fit(linear, tmp_path):
    record, _, _ = carried_out(linear, tmp_path / "run")
    folder, (stored,) = RunFolder(tmp_path / "run"), record.results
    path = folder.path / "results" / f"{stored.key}.json"
    result = json.loads(unstamped(path.read_text(encoding="utf-8")))
    result["groups"][0]["robustness"]["value"] *= 1.01
    path.write_text(stamped(json.dumps(result)), encoding="utf-8")
    seal(folder.path, ("record.json", "samples.parquet", f"results/{stored.key}.json"))
    with pytest.raises(StoreError, match="does not follow from the distances of the run: robustness value of 0"):
        checked(folder)


def test_results_are_computed_once(linear, tmp_path, monkeypatch):
    first, _, _ = carried_out(linear, tmp_path / "run")
    monkeypatch.setattr("fairmargin.runner.measurer.compute", lambda *_: pytest.fail("it was computed again"))
    again, _, _ = carried_out(linear, tmp_path / "run")
    assert again.results == first.results


class Interrupted:
    """Ctrl-C after some tasks."""

    def __init__(self, tasks):
        self.left = tasks

    def run(self, tasks):
        for done in Serial().run(tasks):
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            yield done


def test_an_interrupted_first_run_leaves_a_record_that_says_so(study, tmp_path):
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        run(study, folder, Interrupted(1))
    record = folder.read()
    assert (record.status, record.results, record.study) == ("running", (), study)
    other = study.model_copy(update={"seed": 1})
    with pytest.raises(StoreError, match=r"holds another run: it differs in seed \(0, now 1\)"):
        run(other, folder, Serial())
    record, measure = run(study, folder, Serial())
    assert record.status == folder.read().status == "finished"
    assert (measure.measured, measure.reused) == (2, 1)


def test_an_interruption_destroys_no_finished_record(study, tmp_path):
    before, _, _ = carried_out(study, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        run(with_audit(study, estimator=("fmn:steps=3",)), folder, Interrupted(1))
    assert checked(folder).results == before.results


def test_what_became_of_earlier_results_is_known(linear, tmp_path):
    folder = RunFolder(tmp_path / "run")
    assert run(linear, folder, Serial())[1].earlier == ""
    assert run(linear, folder, Serial())[1].earlier == ""
    assert run(with_audit(linear, confidence=0.9), folder, Serial())[1].earlier == "replaced"


def test_an_attack_leaves_the_audit_of_other_groups_as_it_is(tmp_path):
    people(tmp_path)
    by_sex = Study(
        model=ModelOptions(model=str(tmp_path / "model.npz")),
        data=DataOptions(data=str(tmp_path / "people.csv"), label="hired"),
        groups=GroupOptions(group=("sex",), cluster="person"),
        audit=AuditOptions(resamples=200),
    )
    folder = RunFolder(tmp_path / "run")
    data = by_sex.data.model_copy(update={"features": ("a", "b")})
    by_sex = by_sex.model_copy(update={"data": data})
    audited, _ = run(by_sex, folder, Serial())
    by_race = by_sex.model_copy(
        update={
            "audit": None,
            "groups": GroupOptions(group=("race",)),
            "attack": AttackOptions(radius=(0.1,), resamples=200),
        }
    )
    both, measure = run(by_race, folder, Serial())
    assert measure.earlier == ""
    assert [each.kind for each in both.results] == ["robust_accuracy", "audit"]
    assert checked(folder)["sex"].to_json() == audited["sex"].to_json()
    _, measure = run(by_sex, folder, Serial())
    assert (measure.measured, measure.earlier) == (0, "")
    assert {each.kind for each in checked(folder).results} == {"robust_accuracy", "audit"}


def test_results_of_another_model_of_the_same_name_are_removed(tmp_path):
    people(tmp_path)
    study = Study(
        model=ModelOptions(model=str(tmp_path / "model.npz")),
        data=DataOptions(data=str(tmp_path / "people.csv"), label="hired", features=("a", "b")),
        groups=GroupOptions(group=("sex",)),
        audit=AuditOptions(resamples=200),
    )
    folder = RunFolder(tmp_path / "run")
    run(study, folder, Serial())
    np.savez(tmp_path / "model.npz", weight=[[1.0, 4.0]], bias=[0.0], classes=["no", "yes"])
    attacked = study.model_copy(update={"audit": None, "attack": AttackOptions(radius=(0.1,), resamples=200)})
    record, measure = run(attacked, folder, Serial())
    assert [each.kind for each in record.results] == ["robust_accuracy"]
    assert measure.earlier == "replaced"
    assert not (folder.path / "audit.csv").exists()
    assert len(list((folder.path / "results").iterdir())) == 1


def people(folder):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    frame = pd.DataFrame(x, columns=["a", "b"]).assign(
        hired=np.where(x @ [3, 4] > 0, "yes", "no"), sex=["F", "M"] * 100, race=["x", "y", "z", "x"] * 50,
        person=np.arange(200) // 2,
    )  # fmt: skip
    frame.to_csv(folder / "people.csv", index=False)
    np.savez(folder / "model.npz", weight=[[3.0, 4.0]], bias=[0.0], classes=["no", "yes"])
