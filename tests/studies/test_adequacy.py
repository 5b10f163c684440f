"""Checking an attack is a stage like any other: kept as it is measured, the same in any engine and after a restart."""

import math
from pathlib import Path

import numpy as np
import pytest

from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.distances.adequacy import PER_GROUP, adequacy
from fairmargin.distances.fmn import FMN
from fairmargin.engine.local import Processes, Serial
from fairmargin.errors import InputError, StoreError
from fairmargin.models.referenced import drawn
from fairmargin.studies.adequacy import usable_cap
from fairmargin.studies.study import Study, make_study
from fairmargin.studies.workflow import run
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
        model=f"{folder}/net.py:make", data=str(folder / "data.npz"), bounds=(0, 1), estimators=("fmn:steps=8",),
        groups=("half", "tone"), resamples=200, adequacy=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def finished(study, tmp_path_factory):
    return run(study, tmp_path_factory.mktemp("run") / "run", Serial())


def texts(finished):
    return [(found.estimator, found.result.to_json()) for found in finished.adequacies]


def test_every_partition_is_checked_and_read_again_from_the_folder(finished):
    assert [found.result.partition for found in finished.adequacies] == ["half", "tone"]
    half, tone = (found.result for found in finished.adequacies)
    assert half.budgets == ("2 steps", "4 steps", "8 steps", "16 steps", "32 steps")
    assert half["masked"].raised
    assert [row.size for row in half] == [64, 64]
    assert max(row.size for row in tone) == 64
    again = finished.folder.read_adequacies()
    assert [(found.estimator, found.result.to_json()) for found in again] == texts(finished)


def test_the_report_shows_gap_and_alarms(finished):
    page = finished.folder.report.read_text(encoding="utf-8")
    assert "Was the attack strong enough?" in page
    assert "signs that the attack was misled about “masked” of “half”" in page
    assert page.count('class="chip alarm"') >= 2


def test_a_second_run_measures_nothing_and_finds_the_same(study, finished):
    again = run(study, finished.folder.path, Serial())
    assert again.measured == 0
    assert texts(again) == texts(finished)


def test_two_processes_find_the_same_bits(study, finished, tmp_path):
    other = run(study, tmp_path / "two", Processes(workers=2))
    assert texts(other) == texts(finished)


def test_it_can_be_added_to_a_finished_run_and_left_out_again(study, tmp_path):
    plain = study.model_copy(update={"adequacy": False})
    before = run(plain, tmp_path / "run", Serial())
    assert before.adequacies == ()
    page = before.folder.report.read_text(encoding="utf-8")
    assert "Run the same command with --adequacy" in page
    added = run(study, tmp_path / "run", Serial())
    assert added.reused == before.measured
    assert added.measured > 0
    assert added.folder.read_manifest().measurements == before.folder.read_manifest().measurements
    without = run(plain, tmp_path / "run", Serial())
    assert without.measured == 0
    assert without.folder.read_adequacies() == ()


def test_what_is_new_is_told_from_what_was_replaced(study, tmp_path):
    plain = study.model_copy(update={"adequacy": False, "groups": ("half",)})
    checked = plain.model_copy(update={"adequacy": True, "adequacy_samples": 12})
    first = run(plain, tmp_path / "run", Serial())
    assert (first.added, first.replaced) == (False, False)
    added = run(checked, tmp_path / "run", Serial())
    assert (added.added, added.replaced) == (True, False)
    assert [row.size for row in added.adequacies[0].result] == [12, 12]
    assert [row.of for row in added.adequacies[0].result] == np.bincount(problem(200)[3].membership).tolist()
    again = run(checked, tmp_path / "run", Serial())
    assert (again.added, again.replaced) == (False, False)
    both = run(checked.model_copy(update={"confidence": 0.9}), tmp_path / "run", Serial())
    assert (both.added, both.replaced) == (False, True)
    without = run(plain, tmp_path / "run", Serial())
    assert (without.added, without.replaced) == (False, True)


def test_another_attack_of_the_same_run_and_norm_that_is_nearer_rings(study, tmp_path):
    several = study.model_copy(
        update={"groups": ("half",), "adequacy_samples": 16, "estimators": (
            "fmn:steps=1", "deepfool:steps=20", "fmn:steps=1,norm=linf", "first_order",
        )}
    )  # fmt: skip
    weak, strong, other_norm, proxy = (f.result for f in run(several, tmp_path / "run", Serial()).adequacies)
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
        run(study.model_copy(update={"estimators": ("fmn:steps=4+first_order",)}), tmp_path / "run", Never())
    assert not (tmp_path / "run").exists()


def test_an_interruption_keeps_the_audit_and_what_was_measured(study, finished, tmp_path):
    done = []

    class Interrupted:
        def run(self, tasks):
            for task, found in Serial().run(tasks):
                if len(done) > 9:
                    raise KeyboardInterrupt
                done.append(task.key)
                yield task, found

    with pytest.raises(KeyboardInterrupt):
        run(study, tmp_path / "run", Interrupted())
    again = run(study, tmp_path / "run", Serial())
    assert again.reused == 10
    assert texts(again) == texts(finished)


def test_the_same_is_found_from_python(study, finished):
    model, x, y, half = problem(200)
    found = adequacy(model, x, y, half, FMN(steps=8), references=drawn(x, y))
    stored = finished.adequacies[0].result
    for row, other in zip(found, stored, strict=True):
        assert (row.means, row.sigma_change, row.alarms) == (other.means, other.sigma_change, other.alarms)


def test_of_estimators_joined_by_plus_each_budget_rises_and_proxies_have_nothing_to_settle(study, tmp_path):
    several = study.model_copy(update={"estimators": ("fmn:steps=4+deepfool:steps=4", "first_order"), "up_to": 2.0})
    found = run(several, tmp_path / "run", Serial()).adequacies
    assert [result.result.verdict for result in found[2:]] == ["nothing to settle"] * 2
    assert found[0].result.budgets[-1] == "4× the steps"
    assert found[0].result.up_to == 2.0
    assert found[0].result["masked"].raised


def test_a_damaged_file_is_said(finished, tmp_path):
    (finished.folder.path / "adequacy.json").rename(tmp_path / "aside")
    assert finished.folder.read_adequacies() == ()  # as in runs of earlier versions
    (finished.folder.path / "adequacy.json").write_text('[{"estimator": "fmn"}]')
    with pytest.raises(StoreError, match=r"adequacy\.json is damaged"):
        finished.folder.read_adequacies()
    (tmp_path / "aside").rename(finished.folder.path / "adequacy.json")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"adequacy": True, "adequacy_samples": 9}, "--adequacy-samples: given 9, expected 10 or more."),
        ({"adequacy_samples": 100}, "--adequacy-samples goes with --adequacy, and says nothing here"),
    ],
)
def test_the_number_of_samples_is_checked(fields, said):
    with pytest.raises(InputError, match=said):
        make_study({"model": "m.npz", "data": "d.npz", **fields})
    assert Study(model="m.npz", data="d.npz").adequacy_samples == PER_GROUP


def test_distances_measured_elsewhere_cannot_be_checked():
    with pytest.raises(InputError, match="--adequacy goes with --model with --data"):
        make_study({"distances": "table.csv", "adequacy": True})


def test_an_attack_is_not_judged_at_a_cap_that_makes_all_distances_equal():
    values = np.append(np.linspace(0.5, 2.0, 99), np.inf)
    half = Partition.by("half", ["a", "b"] * 50)
    known = Distances(values, values > 0, "upper", "l2", tried=np.where(np.isinf(values), 0.05, 0.0))
    assert usable_cap(known, half, 0.05, math.inf) == math.inf
    assert usable_cap(known, half, 1.9, math.inf) == 1.9
    assert usable_cap(known, half, 0.05, 0.05) == 0.05  # the user asked for it
