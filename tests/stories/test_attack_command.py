"""`fairmargin attack`: from files to the robust accuracy of every group."""

import csv
from pathlib import Path

import numpy as np
import pytest

from fairmargin.analyses.robust_accuracy import RobustAccuracy
from fairmargin.store.shard import decode
from fairmargin.study.run_folder import RunFolder
from tests.stories.examples import (
    FEATURES,
    LABEL,
    QUICK,
    contents_of,
    fairmargin,
    json_of,
    people_audit,
    record_of,
    refused,
    succeeded,
    write_images,
    write_model,
    write_people,
)

SHARDS = 3


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_people(folder / "people.csv")
    write_model(folder / "model.npz", folder / "people.csv")
    write_images(folder, count=SHARDS * 1024 - 50)
    return folder


def people_attack(folder: Path, *more: object) -> list[object]:
    source = ["--model", folder / "model.npz", "--data", folder / "people.csv", "--label", LABEL]
    return ["attack", *source, "--features", ",".join(FEATURES), *QUICK, "--group", "sex", *more]


def image_attack(folder: Path, *more: object) -> list[object]:
    source = ["--model", folder / "reader.npz", "--data", folder / "images.npz", "--bounds", "0,1"]
    return ["attack", *source, *QUICK, "--group", "camera", *more]


def robust_accuracies(run: Path) -> list[RobustAccuracy]:
    return [result for _, result in RunFolder(run).read().of_kind("robust_accuracy")]


def test_it_prints_a_table_and_writes_results_and_shards(files: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = people_attack(files, "--attack", "pgd:norm=l2,steps=5", "--radius", "0.2", "--out", run)
    said = succeeded(fairmargin(*command)).stdout
    assert "Under attack, by sex: pgd:norm=l2,steps=5 at radius 0.2 · L2 norm · 360 samples" in said
    assert "accuracy at most" in said
    assert "less robust" in said
    assert said.count("An attack that finds nothing proves nothing") == 1
    (found,) = robust_accuracies(run)
    assert found["F"].verdict == "less robust"
    rows = list(csv.DictReader((run / "robust_accuracy.csv").open(encoding="utf-8")))
    assert [row["group"] for row in rows] == ["F", "M"]
    for row in rows:
        assert int(row["wrong"]) + int(row["fooled"]) == round(float(row["robust_error"]) * int(row["size"]))
    record = RunFolder(run).read()
    ((keys,),) = (stored.shards for stored in record.results)
    shard = run / "shards" / keys[0][:2] / f"{keys[0]}.parquet"
    assert decode(keys[0], shard.read_bytes())[1]["attack"]["name"] == "pgd"
    assert record.provenance.samples
    assert "1 shard was there already; 0 were measured now." in succeeded(fairmargin(*command)).stdout


def test_attacks_and_radii_have_a_result_each_and_one_of_all_attacks_together(files: Path, tmp_path: Path) -> None:
    options = ["--attack", "pgd:steps=3", "--attack", "fgsm", "--radius", "4/255", "--radius", "0.05"]
    found = json_of(fairmargin(*image_attack(files, *options, "--out", tmp_path / "run", "--json")))
    results = {(each["attack"], round(each["radius"], 6)): each["overall"] for each in found["robust_accuracy"]}
    together = "pgd:steps=3 + fgsm"
    assert {attack for attack, _ in results} == {"pgd:steps=3", "fgsm", together}
    assert {radius for _, radius in results} == {round(4 / 255, 6), 0.05}
    for radius in (round(4 / 255, 6), 0.05):
        fooled = {attack: results[attack, radius]["fooled"] for attack in ("pgd:steps=3", "fgsm", together)}
        assert max(fooled["pgd:steps=3"], fooled["fgsm"]) <= fooled[together]
        assert fooled[together] <= fooled["pgd:steps=3"] + fooled["fgsm"]
    assert found["measured_shards"] == 4 * SHARDS


def test_attacks_of_different_norms_have_no_common_result(files: Path, tmp_path: Path) -> None:
    options = ["--attack", "pgd:norm=l2,steps=2", "--attack", "fgsm", "--radius", "0.1", "--out", tmp_path, "--json"]
    found = json_of(fairmargin(*people_attack(files, *options)))
    assert [each["attack"] for each in found["robust_accuracy"]] == ["pgd:norm=l2,steps=2", "fgsm"]


def test_the_default_attack_is_pgd(files: Path, tmp_path: Path) -> None:
    found = json_of(fairmargin(*people_attack(files, "--radius", "0.1", "--out", tmp_path / "run", "--json")))
    assert [each["attack"] for each in found["robust_accuracy"]] == ["pgd"]


def test_a_second_run_repeats_no_attack_and_gives_the_same_results(files: Path, tmp_path: Path) -> None:
    command = image_attack(files, "--attack", "fgsm", "--radius", "4/255", "--out", tmp_path / "run", "--json")
    first, again = json_of(fairmargin(*command)), json_of(fairmargin(*command))
    assert (first["measured_shards"], first["reused_shards"]) == (SHARDS, 0)
    assert (again["measured_shards"], again["reused_shards"]) == (0, SHARDS)
    assert again["robust_accuracy"] == first["robust_accuracy"]
    more = json_of(fairmargin(*command, "--radius", "8/255", "--group", "class"))
    assert (more["measured_shards"], more["reused_shards"]) == (SHARDS, SHARDS)
    assert more["robust_accuracy"][0] == first["robust_accuracy"][0]


def test_an_attack_on_the_same_model_is_added_to_the_folder_of_an_audit(files: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    succeeded(fairmargin(*people_audit(files, "--group", "sex", "--out", run, "--quiet")))
    before, study = contents_of(run), record_of(run)["study"]
    attack = people_attack(files, "--attack", "fgsm", "--radius", "0.1", "--out", run, "--quiet")
    assert succeeded(fairmargin(*attack)).output == ""
    assert contents_of(run) == before
    assert len(contents_of(run, "robust_accuracy")) == 1
    assert record_of(run)["study"]["audit"] == study["audit"]
    found = json_of(fairmargin("report", run, "--out", tmp_path / "again.html", "--json"))
    assert {"audits", "robust_accuracy"} <= set(found)
    said = refused(fairmargin(*image_attack(files, "--attack", "fgsm", "--radius", "0.1", "--out", run)))
    assert "holds another run: it differs in model" in said
    assert "it differs in seed (0, now 1)" in refused(fairmargin(*attack, "--seed", "1"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--radius is missing: how far may the attack go? For images in [0, 1] for instance 4/255"),
        (["--radius=-4/255"], "--radius must not be negative; given '-4/255'"),
        (["--radius", "8"], "The radius 8 in L∞ is larger than the box; did you mean 8/255?"),
        (["--radius", "0.1", "--attack", "pgd:step_count=3"], "`pgd`: unknown field `step_count`."),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(
    files: Path, tmp_path: Path, options: list[str], said: str
) -> None:
    sentence = refused(fairmargin(*image_attack(files, *options, "--out", tmp_path / "run")))
    for part in said.split("; "):
        assert part in sentence
    assert not (tmp_path / "run").exists()


def test_several_attacks_end_with_a_table_of_all_of_them(files: Path, tmp_path: Path) -> None:
    options = ["--attack", "pgd:steps=2", "--attack", "fgsm", "--radius", "4/255", "--radius", "0.05", *QUICK]
    said = succeeded(fairmargin(*image_attack(files, *options, "--out", tmp_path / "run"))).stdout
    _, _, closing = said.partition("All attacks")
    rows = [line.split() for line in closing.splitlines() if "L∞" in line]
    assert [row[0] for row in rows] == ["pgd:steps=2"] * 2 + ["fgsm"] * 2 + ["pgd:steps=2"] * 2
    assert [row[row.index("L∞") + 1] for row in rows] == ["4/255", "0.05"] * 3
    for row, found in zip(rows, robust_accuracies(tmp_path / "run"), strict=True):
        whole = found.overall
        numbers = (whole.robust_accuracy.value, whole.worst_accuracy.value, found.plain_gap, whole.gap.value)
        shown = [row[i - 1] for i, word in enumerate(row) if word == "%"]
        assert shown == [f"{100 * number:.1f}" for number in numbers]
        assert whole.worst_group in row
    alone = ["--attack", "fgsm", "--radius", "0.05", *QUICK, "--out", tmp_path / "run"]
    assert "All attacks" not in succeeded(fairmargin(*image_attack(files, *alone))).stdout


@pytest.mark.parametrize(
    ("split", "said"),
    [
        ([], "All of digits was looked at, the splits train and test together."),
        (["--split", "train"], "The split 'train' holds training samples."),
        (["--split", "test"], ""),
    ],
)
def test_a_note_names_the_splits_that_were_used_and_how_to_choose(tmp_path: Path, split: list[str], said: str) -> None:
    weight, bias = np.random.default_rng(0).normal(size=(10, 64)), np.zeros(10)
    np.savez(tmp_path / "reader.npz", weight=weight, bias=bias)
    source = ["--model", tmp_path / "reader.npz", "--data", "digits", "--per-group", 8, *QUICK, *split]
    attack = ("attack", *source, "--attack", "fgsm", "--radius", "0.1")
    found = json_of(fairmargin(*attack, "--out", tmp_path / "a", "--json"))
    audited = succeeded(fairmargin("audit", *source, "--estimator", "exact_linear", "--out", tmp_path / "b")).stdout
    about = [note for note in found["notes"] if "--split test looks at the test samples only." in note]
    assert bool(about) == bool(said) == ("--split test" in " ".join(audited.split()))
    assert all(note.startswith(said) for note in about)
    assert said in " ".join(audited.split())
