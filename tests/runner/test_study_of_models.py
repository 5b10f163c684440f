"""A study of several models: each is trained and measured once, kept, resumable, and the same in any engine."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from fairmargin.attacks.catalog import parse_attack
from fairmargin.attacks.robust_accuracy import attack_samples
from fairmargin.core.progress import Progress, silent
from fairmargin.distances.catalog import parse_estimator
from fairmargin.distances.measure import measure
from fairmargin.engine.local import Processes, Serial
from fairmargin.engine.task import Engine
from fairmargin.errors import InputError, StoreError
from fairmargin.models.layers.linear_network import as_linear
from fairmargin.report.page import write_report
from fairmargin.runner.measurer import Measurer
from fairmargin.runner.networks import prepare_models
from fairmargin.runner.plan import plan_run
from fairmargin.runner.run import run
from fairmargin.runner.study_run import StudyRun, measure_study
from fairmargin.runner.training_data import DataLoader
from fairmargin.study.check import checked
from fairmargin.study.record import RunRecord
from fairmargin.study.run_folder import RunFolder
from fairmargin.study.study import Study
from fairmargin.study.study_file import make_study
from fairmargin.study.tables import networks_table
from tests.stories.examples import FEATURES, LABEL, people

FAST = {"epochs": 2, "batch": 16, "optimizer": "adam", "rate": 0.02}
DIGITS = {"per_group": 10, "audit_per_group": 4, "by": "class", "group": "ink"}
NORMALISED = {"mean": 0.3, "std": 0.4}
QUICK = {"resamples": 200}


def study(**changes: Any) -> Study:
    fields = {
        "seeds": [0],
        "data": {"digits": DIGITS},
        "model": {"logistic": NORMALISED},
        "train": {**FAST, "erm": {}},
        "audit": {**QUICK, "exact_linear": {}, "deepfool": {"audit_epochs": ["first", "last"]}},
        "attack": {**QUICK, "pgd": {"attack": "pgd:steps=3", "radius": ["16/255", 0.1]}},
    }
    given = {name: value for name, value in (fields | changes).items() if value is not None}
    return make_study(given)


WHOLE = study(seeds=[0, 1], train={**FAST, "erm": {}, "madry": {"set": ["radius=0.05", "steps=2"]}})
SMALL: dict[str, Any] = {"audit": {**QUICK, "exact_linear": {}}, "attack": None}


def carried_out(
    asked: Study, path: Path, engine: Engine | None = None, progress: Progress = silent
) -> tuple[RunRecord, Measurer]:
    """Carry out a study as `fairmargin run` does, and check what it left."""
    folder = RunFolder(path)
    record, measurer = run(asked, folder, engine or Serial(), progress=progress)
    write_report(folder.report, record)
    checked(folder)
    return record, measurer


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods, two seeds, two estimators, one attack at two radii."""
    path = tmp_path_factory.mktemp("study") / "run"
    carried_out(WHOLE, path)
    return path


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> Path:
    """Return a copy of the run that a test may change."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


@pytest.fixture(scope="module")
def measured(whole: Path) -> StudyRun:
    """Return the same networks and distances, without comparisons."""
    return measure_study(WHOLE, RunFolder(whole), Serial())


def files(folder: Path, *patterns: str) -> dict[str, bytes]:
    """Return the content of files by their path in the folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for pattern in patterns
        for path in sorted(folder.glob(pattern))
    }


def outcome(folder: Path) -> dict[str, bytes]:
    """Return everything that must be the same however a run came about."""
    found = files(folder, "*.csv", "report.html", "record.json", "results/*", "samples*.parquet", "failures.txt")
    assert {"record.json", "report.html"} <= found.keys()
    return found


def times(folder: Path) -> dict[Path, int]:
    kept = (*folder.glob("shards/*/*.parquet"), *folder.glob("trainings/*/*.safetensors"))
    return {path: path.stat().st_mtime_ns for path in kept}


def page(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


def table(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "results.csv", dtype={"group": str, "epoch": str})


def training_keys(asked: Study) -> set[str]:
    models = prepare_models(asked, DataLoader()).models
    return {model.prepared.job.key for model in models if model.prepared is not None}


# What decides what. --------------------------------------------------------------------------------------------------


def test_a_plan_names_every_training_before_what_is_measured_on_it() -> None:
    planned, notes = plan_run(WHOLE, None)
    assert [each.kind for each in planned] == ["training", *["measurement"] * 5] * 4
    assert planned[0].name == "digits, logistic, erm, seed 0: training"
    assert planned[5].name == "digits, logistic, erm, seed 0: pgd:steps=3 at 0.1, epoch last"
    assert len({each.name for each in planned}) == len(planned)
    assert all(each.passes > 0 and each.seconds > 0 and each.memory > 0 and each.disk > 0 for each in planned)
    assert not any(each.done for each in planned)
    assert any("below which there is no verdict" in note for note in notes)


def test_a_plan_says_what_is_done_and_writes_nothing(copied: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in copied.rglob("*")}
    planned, _ = plan_run(WHOLE, RunFolder(copied))
    assert all(each.done == each.parts and each.seconds == 0 for each in planned)
    more, _ = plan_run(study(seeds=[0, 7]), RunFolder(copied))
    assert [each.done == each.parts for each in more] == [True] * 6 + [False] * 6
    assert {path: path.stat().st_mtime_ns for path in copied.rglob("*")} == before


def test_what_does_not_decide_a_network_is_not_in_its_key() -> None:
    renamed = study(
        title="another",
        data={"numerals": {**DIGITS, "data": "digits", "audit_per_group": 5, "merge_below": 3}},
        model={"regression": {**NORMALISED, "model": "arch:logistic"}},
        train={**FAST, "plain": {"method": "erm"}},
        audit={"ddn": {"confidence": 0.9}},
        attack=None,
    )
    assert training_keys(renamed) == training_keys(study())


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": [1]},
        {"train": {**FAST, "threads": 2, "erm": {}}},
        {"train": {**FAST, "rate": 0.03, "erm": {}}},
        {"train": {**FAST, "epochs": 4, "erm": {}}},
        {"train": {**FAST, "validation": 0.2, "erm": {}}},
        {"train": {**FAST, "ramp": {}}},
        {"train": {**FAST, "method_groups": "class", "erm": {}}},
        {"model": {"small_cnn": NORMALISED}, **SMALL, "audit": {"ddn": {}}},
        {"model": {"logistic": {"mean": 0.2, "std": 0.4}}},
        {"data": {"digits": {**DIGITS, "per_group": 9}}},
    ],
)
def test_what_decides_a_network_is_in_its_key(changes: dict[str, Any]) -> None:
    assert not training_keys(study(**changes)) & training_keys(study())


def test_an_epoch_with_several_names_is_measured_once(tmp_path: Path) -> None:
    asked = study(
        train={**FAST, "epochs": 1, "erm": {}},
        audit={**QUICK, "exact_linear": {"audit_epochs": ["first", "middle", "last", 1, "best"]}},
        attack=None,
    )
    record, measurer = carried_out(asked, tmp_path / "run")
    ((stored, _),) = record.of_kind("audit")
    assert stored.about.epoch == "1 (first, middle, last, best)"
    assert measurer.measured == len(stored.shards[0])


# What is found. ------------------------------------------------------------------------------------------------------


def test_distances_are_those_that_measuring_the_network_gives(measured: StudyRun) -> None:
    (model,) = (n for n in measured.networks() if (n.member.method, n.member.seed) == ("madry", 1))
    data = measured.dataset("digits")
    for epoch in ("first", "last"):
        direct = measure(model.classifier(epoch), data.x, data.y, parse_estimator("deepfool"), progress=False)
        found = measured.distances(method="madry", seed=1, epoch=epoch, estimator="deepfool")
        reached = ~found.unreached
        np.testing.assert_array_equal(found.correct, direct.correct)
        np.testing.assert_array_equal(found.values[reached], direct.values[reached])


def test_outcomes_are_those_that_attacking_the_network_gives(measured: StudyRun) -> None:
    (model,) = (n for n in measured.networks() if (n.member.method, n.member.seed) == ("erm", 0))
    data = measured.dataset()
    for radius in ("16/255", 0.1):
        direct = attack_samples(
            model.classifier(), data.x, data.y, parse_attack("pgd:steps=3"), radius=radius, progress=False
        )
        for name in ("pgd:steps=3", "pgd"):
            found = measured.outcome(method="erm", seed=0, attack=name, radius=radius)
            np.testing.assert_array_equal(found.values, direct.values)


def test_a_logistic_regression_is_measured_exactly_normalisation_and_all(measured: StudyRun) -> None:
    network, data = measured.networks()[0].classifier(), measured.dataset()
    linear = as_linear(network, tuple(data.x.shape[1:]))
    assert linear is not None
    np.testing.assert_array_equal(linear.predict(data.x), network.predict(data.x))
    exact = measured.distances(method="erm", seed=0, estimator="exact_linear")
    search = measured.distances(method="erm", seed=0, estimator="deepfool")
    reached = exact.correct & ~search.unreached
    assert reached.sum() > 10
    assert (search.values[reached] >= exact.values[reached] * (1 - 1e-5)).all()
    assert np.median(search.values[reached] / exact.values[reached]) < 1.01


def test_networks_come_in_the_order_of_the_study_and_seeds_and_epochs_differ(measured: StudyRun) -> None:
    networks = measured.networks()
    assert [n.member.title for n in networks] == [
        f"digits, logistic, {method}, seed {seed}" for method in ("erm", "madry") for seed in (0, 1)
    ]
    prints = {n.classifier(epoch).fingerprint() for n in networks for epoch in ("first", "last")}
    assert len(prints) == 8
    assert len(networks[0].history()) == 2
    files = ["epoch-0001.safetensors", "model.safetensors", "best.safetensors"]
    assert [networks[0].weights(epoch).name for epoch in ("first", "last", "best")] == files


def test_measuring_alone_writes_neither_table_nor_report(tmp_path: Path) -> None:
    asked = study(**SMALL)
    done = measure_study(asked, RunFolder(tmp_path / "run"), Serial())
    assert not done.failures
    assert not files(tmp_path / "run", "*.csv", "report.html", "results/*")
    record, measurer = carried_out(asked, tmp_path / "run")
    assert (measurer.measured, measurer.trained) == (0, 0)
    assert record["ink"].partition == "ink"


def test_partitions_can_be_crossed_and_small_groups_merged(measured: StudyRun, tmp_path: Path) -> None:
    crossed = measured.partition("digits", "class & ink")
    assert crossed.name == "class & ink"
    assert len(crossed) == len(measured.dataset())
    asked = study(
        data={"digits": {**DIGITS, "merge_below": 15, "group": ["class", "ink"], "cross": "class,ink"}}, **SMALL
    )
    record, _ = carried_out(asked, tmp_path / "run")
    assert record.partitions == ("class", "ink", "class & ink")
    assert set(table(tmp_path / "run").partition) == {"class", "ink", "class & ink"}
    assert "other" in [row.group for row in record["class & ink"].groups]


def test_what_is_asked_but_not_there_or_not_clear_is_said(measured: StudyRun) -> None:
    with pytest.raises(InputError, match=r"no model of method 'mardy'\. Did you mean 'madry'"):
        measured.distances(method="mardy")
    with pytest.raises(InputError, match="4 models match"):
        measured.distances(estimator="deepfool")
    with pytest.raises(InputError, match=r"has no result of ddn\. There are: deepfool, exact_linear"):
        measured.distances(method="erm", seed=0, estimator="ddn")
    with pytest.raises(InputError, match="2 results of digits, logistic, erm, seed 0 match"):
        measured.outcome(method="erm", seed=0)
    with pytest.raises(InputError, match=r"was not attacked at radius 0\.3"):
        measured.outcome(method="erm", seed=0, radius=0.3)
    with pytest.raises(InputError, match="was not measured at the epoch 'first'"):
        measured.distances(method="erm", seed=0, estimator="exact_linear", epoch="first")
    with pytest.raises(InputError, match=r"no data 'digit'\. Did you mean 'digits'"):
        measured.dataset("digit")


def test_the_table_has_a_row_for_every_network_epoch_measurement_and_group(whole: Path) -> None:
    record = RunFolder(whole).read()
    frame = networks_table(record)
    assert len(frame) == 4 * (1 + 2 + 2) * len(record.select(method="erm", seed=0, estimator="exact_linear").groups)
    assert not frame.duplicated(["method", "seed", "epoch", "by", "radius", "group"]).any()
    row = frame[(frame.method == "madry") & (frame.seed == 1) & (frame.epoch == 1) & (frame.group == "light")].iloc[0]
    found = record.select(partition="ink", method="madry", seed=1, epoch="first", estimator="deepfool")["light"]
    assert (row.sigma, row.sigma_low, row.accuracy) == (found.sigma.value, found.sigma.low, found.accuracy.value)
    row = frame[(frame.method == "erm") & (frame.seed == 0) & (frame.radius == 0.1) & (frame.group == "heavy")].iloc[0]
    attacked = record.select(method="erm", seed=0, kind="robust_accuracy", radius=0.1)["heavy"]
    assert row.robust_accuracy == attacked.robust_accuracy.value
    assert table(whole)["finding"].tolist() == frame["finding"].tolist()


def test_the_report_tells_of_every_network_estimator_attack_and_epoch(whole: Path) -> None:
    said = page(whole)
    for shown in ("madry", "exact_linear", "deepfool", "pgd:steps=3 at radius 16/255", "digits", "epoch 1", "2 seeds"):
        assert shown in said
    assert "Adversarial training: the cross-entropy of inputs attacked by PGD." in said
    assert str(whole) not in said + (whole / "record.json").read_text()  # both are the same wherever they are made
    assert "What could not be done" not in said


# What is kept. -------------------------------------------------------------------------------------------------------


def test_a_study_that_is_done_is_only_read(whole: Path, copied: Path) -> None:
    before = times(copied)
    record = RunFolder(copied).read()
    _, measurer = carried_out(record.study, copied)
    assert (measurer.measured, measurer.trained) == (0, 0)
    assert outcome(copied) == outcome(whole)
    assert times(copied) == before


def test_a_new_estimator_is_all_that_is_measured_and_no_network_is_trained_again(copied: Path) -> None:
    before = times(copied)
    asked = study(seeds=[0, 1], audit={**QUICK, "exact_linear": {}, "first_order": {}})
    record, measurer = carried_out(asked, copied)
    assert measurer.trained == 0
    ((stored, _), *_) = (found for found in record.of_kind("audit") if found[0].about.estimator == "first_order")
    assert measurer.measured == 2 * len(stored.shards[0])
    assert set(table(copied).by) == {"exact_linear", "first_order", "pgd:steps=3"}
    assert {path: time for path, time in times(copied).items() if path in before} == before


def test_a_damaged_or_lost_shard_is_measured_anew_and_nothing_else_is(whole: Path, copied: Path) -> None:
    lost, damaged, *_ = sorted(copied.glob("shards/*/*.parquet"))
    lost.unlink()
    damaged.write_bytes(b"rubbish")
    _, measurer = carried_out(WHOLE, copied)
    assert (measurer.measured, measurer.trained) == (2, 0)
    assert outcome(copied) == outcome(whole)


@pytest.mark.parametrize("content", [b"{}", b"\xff", None])
def test_damaged_or_lost_results_are_computed_anew_from_the_shards(
    whole: Path, copied: Path, content: bytes | None
) -> None:
    before = times(copied)
    for path in copied.glob("results/*.json"):
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
    _, measurer = carried_out(WHOLE, copied)
    assert measurer.measured == 0
    assert outcome(copied) == outcome(whole)
    assert times(copied) == before


def test_lost_or_damaged_weights_of_an_epoch_are_a_failure_until_the_training_is_removed(
    whole: Path, copied: Path
) -> None:
    lost, damaged, *_ = sorted(copied.glob("trainings/*/epoch-0001.safetensors"))
    lost.unlink()
    damaged.write_bytes(b"rubbish")
    record, _ = carried_out(WHOLE, copied)
    for path, failure in zip((lost, damaged), record.failures, strict=True):
        assert f"is lost or damaged. Remove the folder {path.parent} to train the network again." in failure
    assert set(table(copied).method) == {"madry"}
    for path in (lost, damaged):
        shutil.rmtree(path.parent)
    record, measurer = carried_out(WHOLE, copied)
    assert not record.failures
    assert (measurer.measured, measurer.trained) == (0, 2)
    assert outcome(copied) == outcome(whole)


def test_two_processes_at_a_time_give_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    told: set[str] = set()
    folder = tmp_path / "run"
    carried_out(WHOLE, folder, Processes(2), lambda what, _done, _total: told.add(what))
    assert outcome(folder) == outcome(whole)
    assert {"epochs of all trainings", "measuring", "comparing groups"} <= told
    left, right = (sorted(path.rglob("model.safetensors")) for path in (folder, whole))
    for one, other in zip(left, right, strict=True):
        for name, weights in load_file(one).items():
            np.testing.assert_array_equal(weights, load_file(other)[name])


def test_a_second_writer_is_refused(copied: Path) -> None:
    folder = RunFolder(copied)
    with folder.claimed(folder.read()), pytest.raises(StoreError, match=r"\.$"):
        run(WHOLE, folder, Serial())


# What goes wrong. ----------------------------------------------------------------------------------------------------


def test_a_training_that_fails_does_not_lose_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    asked = study(train={**FAST, "nobody": {"method": "adverm:group=nobody"}, "erm": {}}, **SMALL)
    record, _ = carried_out(asked, folder)
    (failure,) = record.failures
    assert failure.startswith("digits, logistic, nobody, seed 0 (1 measurement need")
    assert "no group 'nobody'" in failure
    assert set(table(folder).method) == {"erm"}
    assert "no group 'nobody'" in (folder / "failures.txt").read_text()
    assert "One task could not be done" in page(folder)
    assert "digits, logistic, nobody, seed 0" in page(folder)
    with pytest.raises(InputError, match=r"digits, logistic, nobody, seed 0 has no result.*no group 'nobody'"):
        measure_study(asked, RunFolder(folder), Serial()).distances(method="nobody")
    record, measurer = carried_out(study(**SMALL), folder)
    assert (measurer.measured, measurer.trained, record.failures) == (0, 0, ())
    assert not (folder / "failures.txt").exists()


def test_a_training_whose_loss_is_no_number_is_a_failure(tmp_path: Path) -> None:
    asked = study(train={"epochs": 2, "batch": 16, "rate": 1e38, "erm": {}}, audit={"ddn": {}}, attack=None)
    for _ in range(2):  # the second time from the folder
        record, _ = carried_out(asked, tmp_path / "run")
        (failure,) = record.failures
        assert "no longer a number" in failure or "not a number" in failure
        assert "nothing could be compared" in page(tmp_path / "run")


RAISING = """
import torch


class Raising(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(64, 10)

    def forward(self, x):
        if not torch.allclose(64 * x, (64 * x).round(), rtol=0, atol=1e-3):  # amid a search
            raise ZeroDivisionError("no luck")
        return self.inner(x.flatten(1))


def make():
    torch.manual_seed(0)
    return Raising()
"""


@pytest.mark.parametrize("engine", [Serial(), Processes(2)])
def test_a_model_that_raises_amid_measuring_does_not_lose_the_others(tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "net.py").write_text(RAISING, encoding="utf-8")
    asked = study(
        model={"bad": {"model": f"{tmp_path / 'net.py'}:make", "fixed": True}, "logistic": NORMALISED},
        audit={**QUICK, "deepfool": {}},
    )
    record, _ = carried_out(asked, tmp_path / "run", engine)
    assert [failure.partition(": ")[0] for failure in record.failures] == ["digits, bad, as given"] * 2
    assert all("no luck" in failure for failure in record.failures), record.failures
    assert (tmp_path / "run" / "failures.txt").read_text().count("no luck") == 2
    assert set(table(tmp_path / "run").model) == {"logistic"}
    assert "2 tasks could not be done" in page(tmp_path / "run")
    done = measure_study(asked, RunFolder(tmp_path / "run"), engine)
    assert [failure.title for failure in done.failures] == ["digits, bad, as given: deepfool"] + [
        "digits, bad, as given: pgd:steps=3"
    ] * 2
    assert len(done.distances(model="logistic")) == 40


def test_a_comparison_that_fails_does_not_lose_the_others(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_settings: object) -> None:
        raise ZeroDivisionError("no luck")

    shutil.rmtree(copied / "results")
    monkeypatch.setattr("fairmargin.analyses.robust_accuracy.accuracy_under_attack", fail)
    record, measurer = carried_out(WHOLE, copied)
    assert measurer.measured == 0
    assert len(record.failures) == 4
    assert record.failures[0] == "digits, logistic, erm, seed 0: pgd, epoch 2 (last): ZeroDivisionError: no luck"
    assert "in fail" in (copied / "failures.txt").read_text()
    assert set(table(copied).kind) == {"audit"}
    assert "4 tasks could not be done" in page(copied)


# Several data, models as they are, columns. --------------------------------------------------------------------------


def test_a_network_with_weights_is_measured_as_it_is(measured: StudyRun, tmp_path: Path) -> None:
    (network,) = (n for n in measured.networks() if (n.member.method, n.member.seed) == ("erm", 1))
    weights = str(network.weights())
    asked = study(model={"mine": {**NORMALISED, "model": "arch:logistic", "weights": weights}}, train=None)
    done = measure_study(asked, RunFolder(tmp_path / "run"), Serial())
    assert [model.member.method for model in done.networks()] == ["as given"]
    np.testing.assert_array_equal(
        done.distances(model="mine", estimator="deepfool").values,
        measured.distances(method="erm", seed=1, estimator="deepfool").values,
    )


def test_models_trained_and_as_given_are_measured_on_the_same_samples(measured: StudyRun, tmp_path: Path) -> None:
    weights = str(measured.networks()[0].weights())
    given = {**NORMALISED, "model": "arch:logistic", "weights": weights, "fixed": True}
    for split in ({}, {"split": "train"}, {"audit_on": "all"}):
        folder = tmp_path / f"run{len(split)}{next(iter(split), '')}"
        asked = study(
            data={"digits": {**DIGITS, **split}},
            model={"given": given, "logistic": NORMALISED},
            audit={
                **QUICK,
                "exact_linear": {},
                "ddn": {"methods": "as given"},
                "deepfool": {"methods": "erm", "audit_epochs": ["last", "best", 1]},
            },
        )
        record, _ = carried_out(asked, folder)
        assert not record.failures
        if not split:
            same = [record.select(model=name, estimator="exact_linear") for name in ("given", "logistic")]
            assert same[0]["light"].robustness == same[1]["light"].robustness
        by = table(folder).groupby("model").by.unique()
        assert set(by["given"]) == {"exact_linear", "ddn", "pgd:steps=3"}
        assert set(by["logistic"]) == {"exact_linear", "deepfool", "pgd:steps=3"}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    for name, size, seed in (("train", 200, 0), ("test", 120, 1), ("more", 150, 2)):
        frame = people(size, seed=seed)
        frame["person"] = np.arange(size) // 2
        frame.to_csv(folder / f"{name}.csv", index=False)
    return folder


def own(tables: Path, **changes: Any) -> dict[str, Any]:
    files = {"data": str(tables / "train.csv"), "audit_on": str(tables / "test.csv")}
    return {**files, "label": LABEL, "features": FEATURES, **changes}


def test_two_data_with_different_columns_go_into_one_table(tables: Path, tmp_path: Path) -> None:
    asked = study(
        data={
            "people": own(tables, group=["sex"], cross="sex,race", control="race", cluster="person", merge_below=5),
            "digits": DIGITS,
        },
        model={"logistic": {}},
    )
    record, _ = carried_out(asked, tmp_path / "run")
    assert not record.failures
    found = table(tmp_path / "run")
    assert set(found[found.data == "people"].partition) == {"sex", "sex & race"}
    assert set(found[found.data == "digits"].partition) == {"ink"}
    assert {"digits": 40, "people": 120}["people"] == found[
        (found.data == "people") & (found.partition == "sex") & (found.by == "exact_linear")
    ]["size"].sum()
    assert len(list((tmp_path / "run").glob("samples-*.parquet"))) == 2
    serial = outcome(tmp_path / "run")
    carried_out(asked, tmp_path / "two", Processes(2))
    assert outcome(tmp_path / "two") == serial


def test_files_that_change_are_trained_and_measured_again_as_far_as_needed(tables: Path, tmp_path: Path) -> None:
    for name in ("train", "test"):
        shutil.copy(tables / f"{name}.csv", tmp_path)
    asked = study(data={"people": own(tmp_path, group="sex", cross="sex,race")}, model={"logistic": {}}, **SMALL)
    counts = []
    for changed in (None, None, ("test", 3), ("train", 4)):
        if changed:
            people(120, seed=changed[1]).to_csv(tmp_path / f"{changed[0]}.csv", index=False)
        record, measurer = carried_out(asked, tmp_path / "run")
        assert not record.failures
        counts.append((measurer.trained, bool(measurer.measured)))
    assert counts == [(1, True), (0, False), (0, True), (1, True)]


def test_validation_data_of_its_own_and_early_stopping(tables: Path, tmp_path: Path) -> None:
    asked = study(
        data={"people": own(tables, group="sex")},
        model={"logistic": {}},
        train={
            **FAST,
            "epochs": 12,
            "patience": 2,
            "validation": str(tables / "more.csv"),
            "keep_every": 1,
            "rate": 0.3,
            "erm": {},
        },
        audit={**QUICK, "exact_linear": {"audit_epochs": ["last", "best", 12]}},
        attack=None,
    )
    record, _ = carried_out(asked, tmp_path / "run")
    assert not record.failures
    (course,) = (result for _, result in record.of_kind("training"))
    ended = len(course.groups)
    assert ended < 12
    assert f"Epoch 12 was not audited (12): the training ended after {ended}." in " ".join(record.notes)
    assert record.select(epoch="last") is not None
    again, measurer = carried_out(asked, tmp_path / "run")
    assert again.results == record.results
    assert (measurer.measured, measurer.trained) == (0, 0)


def test_trained_networks_can_be_measured_on_validation_samples(tmp_path: Path) -> None:
    asked = study(data={"digits": {**DIGITS, "audit_on": "validation"}}, **SMALL)
    record, _ = carried_out(asked, tmp_path / "run")
    assert not record.failures
    assert "These data were looked at during the training too" in " ".join(record.notes)


def test_precision_and_adequacy_are_for_some_sections_alone(tmp_path: Path) -> None:
    asked = study(
        data={"digits": {"per_group": 10, "by": "class", "group": "ink"}},
        audit={
            **QUICK,
            "exact_linear": {},
            "checked": {"estimator": "deepfool:steps=5", "adequacy": True, "adequacy_samples": 10},
            "rough": {"estimator": "ddn:steps=10", "precision": 0.5},
        },
        attack={**QUICK, "pgd": {"radius": 0.05, "attack": ["pgd:steps=3", "fgsm"], "audit_epochs": ["first", "last"]}},
    )
    record, _ = carried_out(asked, tmp_path / "run")
    assert not record.failures
    kinds = {kind: [stored.about for stored, _ in record.of_kind(kind)] for kind in ("audit", "precision", "adequacy")}
    assert [about.estimator for about in kinds["audit"]] == ["exact_linear", "deepfool:steps=5"]
    assert [about.estimator.partition(":")[0] for about in kinds["precision"]] == ["ddn"]
    assert [about.estimator for about in kinds["adequacy"]] == ["deepfool:steps=5"]
    attacks = [(stored.about.attack, stored.about.epoch) for stored, _ in record.of_kind("robust_accuracy")]
    names = ("pgd:steps=3", "fgsm", "pgd:steps=3 + fgsm")
    assert sorted(attacks) == sorted((name, epoch) for name in names for epoch in ("1 (first)", "2 (last)"))
    serial = outcome(tmp_path / "run")
    carried_out(asked, tmp_path / "two", Processes(2))
    assert outcome(tmp_path / "two") == serial


@pytest.mark.parametrize("name", ["../x\n{sex}[red]<b>M</b>", "x" * 300])
def test_names_of_sections_stay_in_the_run_folder(name: str, tmp_path: Path) -> None:
    asked = study(
        data={name: {**DIGITS, "data": "digits"}},
        model={name: {"model": "arch:logistic"}},
        train={**FAST, name: {"method": "erm"}},
        audit={**QUICK, name: {"estimator": "exact_linear"}},
        attack=None,
    )
    record, _ = carried_out(asked, tmp_path / "run")
    assert not record.failures
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    again = RunFolder(tmp_path / "run").read()
    assert [stored.about.model for stored, _ in again.of_kind("audit")] == [name]
    assert "<b>M</b>" not in page(tmp_path / "run")
    assert RunFolder(tmp_path / "run").read().study == asked
