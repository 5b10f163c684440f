"""The check of an attack is stored as it is measured, and is the same in any engine and after a restart."""

import html
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.distances.adequacy import adequacy
from fairmargin.distances.searches.fmn import FMN
from fairmargin.engine.local import Processes, Serial
from fairmargin.errors import InputError, StoreError
from fairmargin.models.references import drawn
from fairmargin.report.page import write_report
from fairmargin.runner.adequacy import usable_cap
from fairmargin.runner.run import run
from fairmargin.study.check import checked
from fairmargin.study.options import AuditOptions, DataOptions, GroupOptions, ModelOptions
from fairmargin.study.run_folder import RunFolder
from fairmargin.study.study import Study
from tests.distances import saturated
from tests.distances.saturated import problem

NET = Path(saturated.__file__).read_text(encoding="utf-8") + "\n\ndef make():\n    return HalfSaturated()\n"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    (folder / "net.py").write_text(NET, encoding="utf-8")
    _, x, y, half = problem(200)
    tone = np.random.default_rng(0).choice(["a", "b", "c"], 200)
    np.savez(folder / "data.npz", x=x, y=y, half=np.array(half.labels)[half.membership], tone=tone)
    return Study(
        model=ModelOptions(model=f"{folder}/net.py:make"),
        data=DataOptions(data=str(folder / "data.npz"), bounds=(0, 1)),
        groups=GroupOptions(group=("half", "tone")),
        audit=AuditOptions(estimator=("fmn:steps=8",), resamples=200, adequacy=True),
    )


def asking(study, *, group=None, **fields):
    """Return the study with other options of its audit, and other groups."""
    groups = study.groups if group is None else GroupOptions(group=group)
    return study.model_copy(update={"audit": study.audit.model_copy(update=fields), "groups": groups})


class Finished:
    """A run that was carried out."""

    def __init__(self, study, path, engine=None):
        self.folder = RunFolder(path)
        self.record, measure = run(study, self.folder, engine or Serial())
        self.measured, self.reused, self.earlier = measure.measured, measure.reused, measure.earlier

    @property
    def adequacies(self):
        return [result for _, result in self.record.of_kind("adequacy")]

    @property
    def shards(self):
        return [each.shards for each in self.record.results if each.kind == "audit"]


@pytest.fixture(scope="module")
def finished(study, tmp_path_factory):
    return Finished(study, tmp_path_factory.mktemp("run") / "run")


def texts(record):
    return [(stored.about, result.to_json()) for stored, result in record.of_kind("adequacy")]


def test_every_partition_is_checked_and_read_again_from_the_folder(finished):
    assert [found.partition for found in finished.adequacies] == ["half", "tone"]
    half, tone = finished.adequacies
    assert half.budgets == ("2 steps", "4 steps", "8 steps", "16 steps", "32 steps")
    assert half["masked"].raised
    assert [row.size for row in half] == [64, 64]
    assert max(row.size for row in tone) == 64
    assert texts(checked(finished.folder)) == texts(finished.record)


def test_the_report_shows_gap_and_alarms(finished, tmp_path):
    page = write_report(tmp_path / "page.html", finished.record).read_text(encoding="utf-8")
    assert "Was the attack strong enough?" in page
    assert "signs that the attack was misled about “masked” of “half”" in page
    alarms = [each for _, result in finished.record.of_kind("adequacy") for each in result.alarm_sentences()]
    assert len(alarms) >= 2
    assert all(html.escape(each, quote=False).replace(" %", "\u00a0%") in page for each in alarms)


def test_a_second_run_measures_nothing_and_finds_the_same(study, finished):
    again = Finished(study, finished.folder.path)
    assert again.measured == 0
    assert texts(again.record) == texts(finished.record)


def test_two_processes_find_the_same_bits(study, finished, tmp_path):
    other = Finished(study, tmp_path / "two", Processes(workers=2))
    assert texts(other.record) == texts(finished.record)


def test_it_can_be_added_to_a_finished_run_and_left_out_again(study, tmp_path):
    plain = asking(study, adequacy=False)
    before = Finished(plain, tmp_path / "run")
    assert before.adequacies == []
    page = write_report(tmp_path / "page.html", before.record).read_text(encoding="utf-8")
    assert "Run the same command with --adequacy" in page
    added = Finished(study, tmp_path / "run")
    assert added.reused == before.measured
    assert added.measured > 0
    assert added.shards == before.shards
    without = Finished(plain, tmp_path / "run")
    assert without.measured == 0
    assert without.adequacies == []
    assert not (without.folder.path / "adequacy.csv").exists()


def test_what_is_new_is_told_from_what_was_replaced(study, tmp_path):
    plain = asking(study, adequacy=False, group=("half",))
    settled = asking(plain, adequacy=True, adequacy_samples=12)
    assert Finished(plain, tmp_path / "run").earlier == ""
    added = Finished(settled, tmp_path / "run")
    assert added.earlier == "completed"
    assert [row.size for row in added.adequacies[0]] == [12, 12]
    assert [row.of for row in added.adequacies[0]] == np.bincount(problem(200)[3].membership).tolist()
    assert Finished(settled, tmp_path / "run").earlier == ""
    assert Finished(asking(settled, confidence=0.9), tmp_path / "run").earlier == "replaced"
    assert Finished(plain, tmp_path / "run").earlier == "replaced"


def test_another_attack_of_the_same_run_and_norm_that_is_nearer_rings(study, tmp_path):
    estimators = ("fmn:steps=1", "deepfool:steps=20", "fmn:steps=1,norm=linf", "first_order")
    several = asking(study, group=("half",), adequacy_samples=16, estimator=estimators)
    weak, strong, other_norm, proxy = Finished(several, tmp_path / "run").adequacies
    hits = {alarm.kind: alarm.hits for row in weak for alarm in row.alarms}
    assert "another attack is nearer" in {alarm.kind for row in weak for alarm in row.raised}
    assert hits["another attack is nearer"] > 0
    assert "another attack is nearer" not in {alarm.kind for row in strong for alarm in row.raised}
    assert "another attack is nearer" not in {alarm.kind for row in other_norm for alarm in row.alarms}
    assert proxy.groups == ()


def test_a_proxy_joined_by_plus_is_refused_before_anything_is_measured(study, tmp_path):
    class Never:
        def run(self, tasks):
            raise AssertionError("something was measured")

    with pytest.raises(InputError, match="`first_order` is a proxy"):
        Finished(asking(study, estimator=("fmn:steps=4+first_order",)), tmp_path / "run", Never())
    assert not (tmp_path / "run").exists()


def test_an_interruption_keeps_the_audit_and_what_was_measured(study, finished, tmp_path):
    done = []

    class Interrupted:
        def run(self, tasks):
            for task, found in Serial().run(tasks):
                if len(done) > 9:
                    raise KeyboardInterrupt
                if isinstance(found, Distances):
                    done.append(task.key)
                yield task, found

    with pytest.raises(KeyboardInterrupt):
        Finished(study, tmp_path / "run", Interrupted())
    assert RunFolder(tmp_path / "run").read().status == "running"
    again = Finished(study, tmp_path / "run")
    assert again.reused == 10
    assert texts(again.record) == texts(finished.record)


def test_the_same_is_found_from_python(study, finished):
    model, x, y, half = problem(200)
    found = adequacy(model, x, y, half, FMN(steps=8), references=drawn(x, y))
    for row, other in zip(found, finished.adequacies[0], strict=True):
        assert (row.means, row.sigma_change, row.alarms) == (other.means, other.sigma_change, other.alarms)


def test_of_estimators_joined_by_plus_each_budget_rises_and_proxies_have_nothing_to_settle(study, tmp_path):
    several = asking(study, estimator=("fmn:steps=4+deepfool:steps=4", "first_order"), up_to=2.0)
    found = Finished(several, tmp_path / "run").adequacies
    assert [result.verdict for result in found[2:]] == ["nothing to settle"] * 2
    assert found[0].budgets[-1] == "4× the steps"
    assert found[0].up_to == 2.0
    assert found[0]["masked"].raised


def test_a_damaged_file_is_said(finished, tmp_path):
    path = shutil.copytree(finished.folder.path, tmp_path / "run")
    (stored, *_) = (each for each in finished.record.results if each.kind == "adequacy")
    (path / "results" / f"{stored.key}.json").write_text('[{"estimator": "fmn"}]')
    with pytest.raises(StoreError, match=rf"{stored.key}\.json is damaged"):
        RunFolder(path).read().result(stored)
    with pytest.raises(StoreError, match=rf"{stored.key}\.json does not match its checksum"):
        checked(RunFolder(path))


def test_an_attack_is_not_judged_at_a_cap_that_makes_all_distances_equal():
    values = np.append(np.linspace(0.5, 2.0, 99), np.inf)
    half = Partition.by("half", ["a", "b"] * 50)
    known = Distances(values, values > 0, "upper", "l2", tried=np.where(np.isinf(values), 0.05, 0.0))
    assert usable_cap(known, half, 0.05, math.inf) == math.inf
    assert usable_cap(known, half, 1.9, math.inf) == 1.9
    assert usable_cap(known, half, 0.05, 0.05) == 0.05  # the user asked for it
