"""The tasks of a study, and carrying them out: each once, kept, resumable, the same in any engine."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from fairmargin.attacks.catalog import parse_attack
from fairmargin.attacks.robust_accuracy import attack_samples
from fairmargin.distances.catalog import parse_estimator
from fairmargin.distances.measure import measure
from fairmargin.engine.local import Processes, Serial
from fairmargin.errors import InputError, StoreError
from fairmargin.models.linear_network import as_linear
from fairmargin.studies.grid import GridTask, cells_of, plan_study
from fairmargin.studies.grid_results import Grid
from fairmargin.studies.grid_run import run_study
from fairmargin.studies.grid_times import times_of
from fairmargin.studies.study_file import StudyFile, make_study_file, read_study
from tests.stories.examples import FEATURES, LABEL, people

FAST = {"epochs": 2, "batch": 16, "optimizer": "adam", "rate": 0.02}
DIGITS = {"name": "digits", "train_per_group": 10, "test_per_group": 4, "partitions": ["ink"], "mean": 0.3, "std": 0.4}


def study(**changes: Any) -> StudyFile:
    fields = {
        "seeds": [0],
        "resamples": 200,
        "training": FAST,
        "data": [DIGITS],
        "network": [{"architecture": "logistic"}],
        "method": [{"method": "erm"}],
        "distance": [{"estimator": "exact_linear"}, {"estimator": "deepfool", "epochs": ["first", "last"]}],
        "attack": [{"attack": "pgd:steps=3", "radius": ["16/255", 0.1]}],
    }
    return make_study_file(fields | changes)


WHOLE = study(seeds=[0, 1], method=[{"method": "erm"}, {"name": "madry", "radius": 0.05, "steps": 2}])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Grid:
    """Two methods, two seeds, two estimators, one attack at two radii."""
    return run_study(WHOLE, tmp_path_factory.mktemp("grid") / "run")


@pytest.fixture
def copied(whole: Grid, tmp_path: Path) -> Path:
    """The same run in a folder that a test may spoil."""
    return Path(shutil.copytree(whole.folder.path, tmp_path / "run"))


def keys(tasks: tuple[GridTask, ...], kind: str = "") -> set[str]:
    return {task.key for task in tasks if not kind or task.kind == kind}


def rows(folder: Path) -> bytes:
    return (folder / "results.csv").read_bytes()


def page(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


def compared(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "compared").iterdir()}


# Planning. -----------------------------------------------------------------------------------------------------------


def test_a_plan_names_every_training_before_what_is_measured_on_it() -> None:
    tasks = plan_study(WHOLE)
    assert [task.kind for task in tasks] == ["train", *["measure"] * 3, *["attack"] * 2] * 4
    seen: set[str] = set()
    for task in tasks:
        assert set(task.needs) <= seen
        assert task.passes > 0
        seen.add(task.key)
    assert len(seen) == len(tasks)
    assert tasks[5].name == "digits, logistic, erm, seed 0: pgd:steps=3 at radius 0.1, the last epoch"


def test_a_change_of_one_estimator_changes_its_tasks_alone() -> None:
    old, new = plan_study(study()), plan_study(study(distance=[{"estimator": "exact_linear"}, {"estimator": "ddn"}]))
    assert keys(old, "train") == keys(new, "train")
    assert keys(old, "attack") == keys(new, "attack")
    assert len(keys(old, "measure") & keys(new, "measure")) == 1


def test_what_does_not_decide_a_number_is_not_in_its_key() -> None:
    renamed = study(
        title="another",
        confidence=0.9,
        data=[DIGITS | {"name": "numerals", "dataset": "digits", "root": "elsewhere", "partitions": ["class"]}],
        network=[{"name": "regression", "architecture": "logistic"}],
    )
    assert keys(plan_study(renamed)) == keys(plan_study(study()))


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": [1]},
        {"threads": 2},
        {"training": FAST | {"rate": 0.03}},
        {"training": FAST | {"epochs": 4}},
        {"method": [{"method": "ramp"}]},
        {"network": [{"architecture": "small_cnn"}]},
        {"data": [DIGITS | {"train_per_group": 9}]},
        {"data": [DIGITS | {"mean": 0.2}]},
        {"data": [DIGITS | {"groups": "ink"}]},
    ],
)
def test_what_decides_a_network_changes_the_keys_of_all_that_is_measured_on_it(changes: dict[str, Any]) -> None:
    assert not keys(plan_study(study(**changes))) & keys(plan_study(study()))


def test_other_test_samples_leave_the_training_as_it_is() -> None:
    old, new = plan_study(study()), plan_study(study(data=[DIGITS | {"test_per_group": 5}]))
    assert keys(old, "train") == keys(new, "train")
    assert not keys(old, "measure") & keys(new, "measure")


def test_an_epoch_with_several_names_is_measured_once() -> None:
    asked = study(
        training=FAST | {"epochs": 1}, distance=[{"estimator": "ddn", "epochs": ["first", "middle", "last", 1]}]
    )
    (found,) = (task.measure for task in plan_study(asked) if task.kind == "measure")
    assert found is not None
    assert (found.epoch, found.words) == ("last", ("first", "middle", "last", "1"))


def test_sections_for_some_data_networks_or_methods_only_go_with_these() -> None:
    asked = study(
        data=[DIGITS, DIGITS | {"name": "more", "dataset": "digits", "test_per_group": 6}],
        network=[{"architecture": "logistic"}, {"architecture": "small_cnn", "data": "more"}],
        method=[{"method": "erm"}, {"method": "ramp", "networks": "small_cnn"}],
        distance=[{"estimator": "exact_linear", "networks": "logistic"}, {"estimator": "ddn", "methods": "ramp"}],
        attack=[],
    )
    assert [task.name.replace(", seed 0", "") for task in plan_study(asked)] == [
        "digits, logistic, erm",
        "digits, logistic, erm: exact_linear, the last epoch",
        "more, logistic, erm",
        "more, logistic, erm: exact_linear, the last epoch",
        "more, small_cnn, erm",
        "more, small_cnn, ramp",
        "more, small_cnn, ramp: ddn, the last epoch",
    ]


def test_two_networks_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="two networks are called 'digits, logistic, erm, seed 0'"):
        cells_of(study(method=[{"method": "erm"}, {"name": "erm", "method": "ramp"}]))


# What is found. ------------------------------------------------------------------------------------------------------


def test_distances_are_those_that_measuring_the_network_gives(whole: Grid) -> None:
    (network,) = (n for n in whole.networks() if (n.method, n.seed) == ("madry", 1))
    data = whole.dataset("digits")
    for epoch in ("first", "last"):
        direct = measure(network.classifier(epoch), data.x, data.y, parse_estimator("deepfool"), progress=False)
        found = whole.distances(method="madry", seed=1, epoch=epoch, estimator="deepfool")
        reached = ~found.unreached
        np.testing.assert_array_equal(found.correct, direct.correct)
        np.testing.assert_array_equal(found.values[reached], direct.values[reached])


def test_outcomes_are_those_that_attacking_the_network_gives(whole: Grid) -> None:
    (network,) = (n for n in whole.networks() if (n.method, n.seed) == ("erm", 0))
    data = whole.dataset()
    for radius in ("16/255", 0.1):
        direct = attack_samples(
            network.classifier(), data.x, data.y, parse_attack("pgd:steps=3"), radius=radius, progress=False
        )
        found = whole.outcome(method="erm", seed=0, attack="pgd:steps=3", radius=radius)
        np.testing.assert_array_equal(found.values, direct.values)


def test_a_logistic_regression_is_measured_exactly_normalisation_and_all(whole: Grid) -> None:
    network, data = whole.networks()[0].classifier(), whole.dataset()
    linear = as_linear(network, tuple(data.x.shape[1:]))
    assert linear is not None
    np.testing.assert_array_equal(linear.predict(data.x), network.predict(data.x))
    exact = whole.distances(method="erm", seed=0, estimator="exact_linear")
    search = whole.distances(method="erm", seed=0, estimator="deepfool")
    reached = exact.correct & ~search.unreached
    assert reached.sum() > 10
    assert (search.values[reached] >= exact.values[reached] * (1 - 1e-5)).all()
    assert np.median(search.values[reached] / exact.values[reached]) < 1.01


def test_networks_come_in_the_order_of_the_study_and_seeds_and_epochs_differ(whole: Grid) -> None:
    networks = whole.networks()
    assert [(n.data, n.architecture, n.method, n.seed) for n in networks] == [
        ("digits", "logistic", method, seed) for method in ("erm", "madry") for seed in (0, 1)
    ]
    prints = {n.classifier(epoch).fingerprint() for n in networks for epoch in ("first", "last")}
    assert len(prints) == 8
    assert len(networks[0].history()) == 2


def test_the_table_has_a_row_for_every_network_epoch_measurement_and_group(whole: Grid) -> None:
    table = whole.to_frame()
    assert len(table) == 4 * (1 + 2 + 2) * len(whole.partition("digits", "ink").labels)
    assert not table.duplicated(["method", "seed", "epoch", "by", "radius", "group"]).any()
    row = table[(table.method == "madry") & (table.seed == 1) & (table.epoch == 1) & (table.group == "light")].iloc[0]
    found = whole.audit("ink", method="madry", seed=1, epoch="first", estimator="deepfool")["light"]
    assert (row.sigma, row.sigma_low, row.accuracy) == (found.sigma.value, found.sigma.low, found.accuracy.value)
    row = table[(table.method == "erm") & (table.seed == 0) & (table.radius == 0.1) & (table.group == "heavy")].iloc[0]
    attacked = whole.robust_accuracy("ink", method="erm", seed=0, radius=0.1)["heavy"]
    assert row.robust_accuracy == attacked.robust_accuracy.value
    kept = pd.read_csv(whole.folder.path / "results.csv", dtype={"group": str})
    assert kept["finding"].tolist() == table["finding"].tolist()


def test_the_report_tells_of_every_network_estimator_attack_and_epoch(whole: Grid) -> None:
    said = page(whole.folder.path)
    for shown in ("madry", "exact_linear", "deepfool", "pgd:steps=3 at radius 16/255", "digits", "epoch 1", "2 seeds"):
        assert shown in said
    assert "Adversarial training: the cross-entropy of inputs attacked by PGD." in said
    assert str(whole.folder.path) not in said  # a page is the same wherever it is made
    assert "What could not be done" not in said


def test_a_comparison_runs_in_the_engine_and_one_that_fails_does_not_lose_the_others(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (copied / "compared").iterdir():
        path.unlink()
    ran: list[str] = []

    class Watched(Serial):
        def run(self, tasks: Any) -> Any:
            for task, result in super().run(tasks):
                ran.append(task.key)
                yield task, result

    def fail(*_arguments: object, **_settings: object) -> None:
        raise ZeroDivisionError("no luck")

    monkeypatch.setattr("fairmargin.studies.grid_comparing.accuracy_under_attack", fail)
    done = run_study(WHOLE, copied, engine=Watched())
    assert len(ran) == 4 * (1 + 2 + 2)
    assert len(done.failures) == 4 * 2
    assert (
        done.failures[0].name == "digits, logistic, erm, seed 0: pgd:steps=3 at radius 16/255, the last epoch, by ink"
    )
    assert done.failures[0].reason == "ZeroDivisionError: no luck"
    assert "in fail" in (copied / "failures.txt").read_text()  # where it arose
    assert set(pd.read_csv(copied / "results.csv").kind) == {"measure"}
    assert "8 tasks could not be done" in page(copied)


def test_without_comparing_there_is_neither_table_nor_report(tmp_path: Path) -> None:
    asked = study(distance=[{"estimator": "exact_linear"}], attack=[])
    grid = run_study(asked, tmp_path / "run", compare=False)
    assert not (tmp_path / "run" / "results.csv").exists()
    assert not grid.folder.report.exists()
    assert grid.audit("ink").partition == "ink"


def test_partitions_can_be_crossed_and_small_groups_merged(whole: Grid) -> None:
    crossed = whole.partition("digits", "class & ink")
    assert crossed.name == "class & ink"
    assert len(crossed) == len(whole.dataset())
    asked = study(data=[DIGITS | {"merge_below": 15, "partitions": ["class"]}])
    assert "other" in Grid(asked, whole.folder, (), {}, whole.samples).partition(None, "class").labels


def test_what_is_asked_but_not_there_or_not_clear_is_said(whole: Grid) -> None:
    with pytest.raises(InputError, match="no network of method 'mardy' there"):
        whole.distances(method="mardy")
    with pytest.raises(InputError, match="4 networks are meant"):
        whole.distances(estimator="deepfool")
    with pytest.raises(InputError, match=r"was not measured by 'ddn'\. There are: exact_linear, deepfool"):
        whole.distances(method="erm", seed=0, estimator="ddn")
    with pytest.raises(InputError, match="2 results of digits, logistic, erm, seed 0 are meant"):
        whole.outcome(method="erm", seed=0)
    with pytest.raises(InputError, match=r"was not attacked at radius 0\.3"):
        whole.outcome(method="erm", seed=0, radius=0.3)
    with pytest.raises(InputError, match="was not measured at the epoch 'first'"):
        whole.distances(method="erm", seed=0, estimator="exact_linear", epoch="first")
    with pytest.raises(InputError, match=r"no data 'digit'\. Did you mean 'digits'"):
        whole.dataset("digit")


# What is kept. -------------------------------------------------------------------------------------------------------


def test_a_study_that_is_done_is_only_read(whole: Grid, copied: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in copied.rglob("*.safetensors")}
    again = run_study(read_study(copied / "study.toml"), copied)
    assert again.done_now == 0
    assert rows(copied) == rows(whole.folder.path)
    assert page(copied) == page(whole.folder.path)
    assert {path: path.stat().st_mtime_ns for path in copied.rglob("*.safetensors")} == before


def test_a_new_estimator_is_all_that_is_measured_and_no_network_is_trained_again(copied: Path) -> None:
    asked = study(seeds=[0, 1], distance=[{"estimator": "exact_linear"}, {"estimator": "first_order"}])
    done = run_study(asked, copied)
    assert done.done_now == 2
    assert set(done.to_frame().by) == {"exact_linear", "first_order", "pgd:steps=3"}


def test_a_damaged_or_lost_shard_is_measured_anew_and_nothing_else_is(whole: Grid, copied: Path) -> None:
    lost, damaged = sorted((copied / "shards").rglob("*.parquet"))[:2]
    lost.unlink()
    damaged.write_bytes(b"rubbish")
    assert run_study(WHOLE, copied).done_now == 2
    assert rows(copied) == rows(whole.folder.path)


def test_a_lost_record_costs_nothing_and_a_damaged_comparison_is_made_anew(whole: Grid, copied: Path) -> None:
    for path in (copied / "tasks").glob("*.json"):
        path.write_text("{")
    for path in (copied / "compared").glob("*.json"):
        path.write_text("{}")
    shards = {path: path.stat().st_mtime_ns for path in copied.rglob("*.parquet") if "shards" in path.parts}
    run_study(WHOLE, copied)
    assert rows(copied) == rows(whole.folder.path)
    assert {path: path.stat().st_mtime_ns for path in shards} == shards


def test_an_edited_comparison_is_made_anew(whole: Grid, copied: Path) -> None:
    changed = 0
    for path in (copied / "compared").glob("*.json"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace('"size": ', '"size": 1'), encoding="utf-8")
        changed += path.read_text(encoding="utf-8") != text
    assert changed
    run_study(WHOLE, copied)
    assert rows(copied) == rows(whole.folder.path)


def test_two_processes_at_a_time_give_the_same_numbers(whole: Grid, tmp_path: Path) -> None:
    told: set[str] = set()
    run_study(WHOLE, tmp_path / "run", engine=Processes(2), progress=lambda what, _done, _total: told.add(what))
    assert rows(tmp_path / "run") == rows(whole.folder.path)
    assert page(tmp_path / "run") == page(whole.folder.path)
    assert compared(tmp_path / "run") == compared(whole.folder.path)
    assert {"networks to train", "epochs of all trainings", "measuring", "comparing groups"} <= told
    left, right = (sorted(folder.rglob("model.safetensors")) for folder in (tmp_path / "run", whole.folder.path))
    for one, other in zip(left, right, strict=True):
        for name, weights in load_file(one).items():
            np.testing.assert_array_equal(weights, load_file(other)[name])


def test_times_are_guessed_from_what_is_done(whole: Grid) -> None:
    done = times_of(whole.tasks, whole.folder.path)
    assert all(each.done for each in done)
    more = times_of(plan_study(study(seeds=[0, 7])), whole.folder.path)
    assert [each.done for each in more] == [True] * 6 + [False] * 6
    assert all(each.measured and each.seconds > 0 for each in more)
    fresh = times_of(plan_study(study()), None)
    assert not any(each.done or each.measured for each in fresh)
    assert all(each.seconds > 0 for each in fresh)


# What goes wrong. ----------------------------------------------------------------------------------------------------


def test_a_task_that_fails_does_not_lose_the_others(tmp_path: Path) -> None:
    lost = {"name": "nobody", "method": "adverm:group=nobody"}
    asked = study(method=[lost, {"method": "erm"}], distance=[{"estimator": "exact_linear"}], attack=[])
    done = run_study(asked, tmp_path / "run")
    (failure,) = done.failures
    assert failure.name == "digits, logistic, nobody, seed 0"
    assert "no group 'nobody'" in failure.reason
    assert failure.waiting == 1
    assert set(done.to_frame().method) == {"erm"}
    assert "no group 'nobody'" in (tmp_path / "run" / "failures.txt").read_text()
    assert "One task could not be done" in page(tmp_path / "run")
    assert "digits, logistic, nobody, seed 0 (1 tasks need it)" in page(tmp_path / "run")
    with pytest.raises(InputError, match=r"There is no result of digits, logistic, nobody.*no group 'nobody'"):
        done.distances(method="nobody")
    mended = study(method=[{"method": "erm"}], distance=[{"estimator": "exact_linear"}], attack=[])
    assert run_study(mended, tmp_path / "run").done_now == 0
    assert not (tmp_path / "run" / "failures.txt").exists()


def test_a_training_whose_loss_is_no_number_is_a_failure(tmp_path: Path) -> None:
    asked = study(training={"epochs": 2, "batch": 16, "rate": 1e38}, distance=[{"estimator": "ddn"}], attack=[])
    (failure,) = run_study(asked, tmp_path / "run").failures
    assert "no longer a number" in failure.reason or "not a number" in failure.reason
    assert "nothing could be compared" in page(tmp_path / "run")


def test_what_a_network_cannot_serve_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="small_cnn, erm, seed 0: exact_linear, the last epoch: "):
        run_study(study(network=[{"architecture": "small_cnn"}]), tmp_path / "run")
    with pytest.raises(InputError, match="larger than the box"):
        run_study(study(attack=[{"attack": "pgd", "radius": 8}]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(StoreError, match="holds other files"):
        run_study(study(), tmp_path)
    audit = tmp_path / "audit"
    audit.mkdir()
    (audit / "study.json").write_text("{}")
    with pytest.raises(StoreError, match="holds an audit or attacks"):
        run_study(study(), audit)


# Networks and data of one's own. -------------------------------------------------------------------------------------


def test_a_network_with_weights_is_measured_as_it_is(whole: Grid, tmp_path: Path) -> None:
    (network,) = (n for n in whole.networks() if (n.method, n.seed) == ("erm", 1))
    assert network.folder is not None
    given = {"name": "mine", "architecture": "logistic", "weights": str(network.folder / "model.safetensors")}
    done = run_study(study(network=[given], method=[]), tmp_path / "run")
    assert [task.kind for task in done.tasks] == ["measure", "measure", "attack", "attack"]
    assert done.networks()[0].method == "as given"
    np.testing.assert_array_equal(
        done.distances(architecture="mine", estimator="deepfool").values,
        whole.distances(method="erm", seed=1, estimator="deepfool").values,
    )
    with pytest.raises(InputError, match=r"no file of weights 'none\.pt'"):
        run_study(study(network=[given | {"weights": "none.pt"}], method=[]), tmp_path / "other")


def test_files_of_ones_own_are_read_and_when_they_change_what_rests_on_them_is_done_again(tmp_path: Path) -> None:
    people(200, seed=0).to_csv(tmp_path / "train.csv", index=False)
    people(120, seed=1).to_csv(tmp_path / "test.csv", index=False)
    files = {"train": str(tmp_path / "train.csv"), "test": str(tmp_path / "test.csv")}
    data = {"name": "people", **files, "label": LABEL, "features": FEATURES, "partitions": ["sex", "sex & race"]}
    asked = study(data=[data], distance=[{"estimator": "exact_linear"}], attack=[])
    first = run_study(asked, tmp_path / "run")
    assert not first.failures
    assert set(first.to_frame().partition) == {"sex", "sex & race"}
    assert run_study(asked, tmp_path / "run").done_now == 0
    people(120, seed=2).to_csv(tmp_path / "test.csv", index=False)
    assert run_study(asked, tmp_path / "run").done_now == 1
    people(200, seed=3).to_csv(tmp_path / "train.csv", index=False)
    assert run_study(asked, tmp_path / "run").done_now == 2
    records = [json.loads(path.read_text()) for path in (tmp_path / "run" / "tasks").glob("*.json")]
    assert sorted(record["kind"] for record in records) == ["measure", "train"]
