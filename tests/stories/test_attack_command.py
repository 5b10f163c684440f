"""`fairmargin attack`: from files to robust accuracy by group, resumable, with a sentence for everything wrong."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from fairmargin.analyses.robust_accuracy import RobustAccuracy
from fairmargin.attacks.outcomes import attack_shard
from fairmargin.store.checksums import seal, stamped
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
    result_files,
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


# What a person gets. -------------------------------------------------------------------------------------------------


def test_it_prints_a_table_and_leaves_the_numbers_in_the_folder(files: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    said = succeeded(
        fairmargin(*people_attack(files, "--attack", "pgd:norm=l2,steps=5", "--radius", "0.2", "--out", run))
    ).stdout
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


def test_several_attacks_and_radii_are_shown_each_and_what_they_leave_together(files: Path, tmp_path: Path) -> None:
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


def test_attacks_of_different_norms_are_not_thrown_together(files: Path, tmp_path: Path) -> None:
    options = ["--attack", "pgd:norm=l2,steps=2", "--attack", "fgsm", "--radius", "0.1", "--out", tmp_path, "--json"]
    found = json_of(fairmargin(*people_attack(files, *options)))
    assert [each["attack"] for each in found["robust_accuracy"]] == ["pgd:norm=l2,steps=2", "fgsm"]


def test_pgd_is_what_attacks_if_nothing_else_is_said(files: Path, tmp_path: Path) -> None:
    found = json_of(fairmargin(*people_attack(files, "--radius", "0.1", "--out", tmp_path / "run", "--json")))
    assert [each["attack"] for each in found["robust_accuracy"]] == ["pgd"]


def test_quiet_prints_nothing_at_all(files: Path, tmp_path: Path) -> None:
    options = ["--attack", "fgsm", "--radius", "0.1", "--out", tmp_path / "run", "--quiet"]
    assert succeeded(fairmargin(*people_attack(files, *options))).output == ""


# Going on where it stopped. ------------------------------------------------------------------------------------------


def test_a_second_run_attacks_nothing_anew_and_says_the_same(files: Path, tmp_path: Path) -> None:
    command = image_attack(files, "--attack", "fgsm", "--radius", "4/255", "--out", tmp_path / "run", "--json")
    first, again = json_of(fairmargin(*command)), json_of(fairmargin(*command))
    assert (first["measured_shards"], first["reused_shards"]) == (SHARDS, 0)
    assert (again["measured_shards"], again["reused_shards"]) == (0, SHARDS)
    assert again["robust_accuracy"] == first["robust_accuracy"]
    more = json_of(fairmargin(*command, "--radius", "8/255", "--group", "class"))
    assert (more["measured_shards"], more["reused_shards"]) == (SHARDS, SHARDS)
    assert more["robust_accuracy"][0] == first["robust_accuracy"][0]


CALLS: list[int] = []


def stopped_at_the_third(*arguments):
    """Like Ctrl-C amid the third shard."""
    CALLS.append(1)
    if len(CALLS) == 3:
        raise KeyboardInterrupt
    return attack_shard(*arguments)


def test_a_damaged_shard_is_set_aside_and_attacked_anew(files: Path, tmp_path: Path) -> None:
    command = image_attack(files, "--attack", "fgsm", "--radius", "4/255", "--out", tmp_path / "run", "--json")
    first = json_of(fairmargin(*command))
    damaged = next((tmp_path / "run").glob("shards/??/*.parquet"))
    damaged.write_bytes(b"noise")
    again = json_of(fairmargin(*command))
    assert again["measured_shards"] == 1
    assert again["robust_accuracy"] == first["robust_accuracy"]


def test_an_audits_folder_takes_attacks_on_the_same_model_and_stays_an_audit(files: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    succeeded(fairmargin(*people_audit(files, "--group", "sex", "--out", run, "--quiet")))
    before, study = contents_of(run), record_of(run)["study"]
    succeeded(fairmargin(*people_attack(files, "--attack", "fgsm", "--radius", "0.1", "--out", run, "--quiet")))
    assert contents_of(run) == before
    assert len(contents_of(run, "robust_accuracy")) == 1
    assert record_of(run)["study"]["audit"] == study["audit"]
    found = json_of(fairmargin("report", run, "--out", tmp_path / "again.html", "--json"))
    assert {"audits", "robust_accuracy"} <= set(found)
    said = refused(fairmargin(*image_attack(files, "--attack", "fgsm", "--radius", "0.1", "--out", run)))
    assert "holds another run: it differs in model" in said


def test_a_folder_of_attacks_belongs_to_one_model(files: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = ["--attack", "fgsm", "--radius", "0.1", "--out", run]
    succeeded(fairmargin(*people_attack(files, *options, "--quiet")))
    assert "it differs in seed (0, now 1)" in refused(fairmargin(*people_attack(files, *options, "--seed", "1")))
    (run / "record.json").write_text("{")
    assert "record.json is damaged" in refused(fairmargin(*people_attack(files, *options)))


# What is wrong. ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--radius", "0.1", "--attack", "pdg"], "Unknown attack `pdg`. Did you mean 'pgd'?"),
        (["--radius", "0.1", "--attack", "pgd:step_count=3"], "`pgd`: unknown field `step_count`."),
        (["--radius", "0.1", "--attack", "pgd:norm=l1"], "`pgd` does not support the norm L1; it supports l2, linf."),
        (["--radius", "0.1", "--attack", "pgd:norm=l7"], "Unknown norm 'l7'"),
        (["--radius", "0.1", "--attack", "pgd:steps=0"], "`steps`"),
        ([], "--radius is missing: how far may the attack go? For images in [0, 1] for instance 4/255"),
        (["--radius=-4/255"], "--radius must not be negative; given '-4/255'"),
        (["--radius", "0"], "--radius must be above 0"),
        (["--radius", "far"], "--radius must be a number such as 0.1 or a fraction such as 4/255; given 'far'"),
        (["--radius", "4/0"], "cannot be divided by 0"),
        (["--radius", "4"], "The radius 4 in L∞ is larger than the box"),
        (["--radius", "0.1", "--group", "colour"], "has no array 'colour'"),
        (["--radius", "0.1", "--cluster", "person"], "has no array 'person'"),
        (["--radius", "0.1", "--engine", "proceses"], "Unknown engine `proceses`. Did you mean 'processes'?"),
        (["--radius", "0.1", "--resamples", "3"], "--resamples must be at least 200"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence_before_anything_is_written(
    files: Path, tmp_path: Path, options: list[str], said: str
) -> None:
    assert said in refused(fairmargin(*image_attack(files, *options, "--out", tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def test_what_was_probably_meant_by_a_large_radius_is_said(files: Path, tmp_path: Path) -> None:
    sentence = refused(fairmargin(*image_attack(files, "--radius", "8", "--out", tmp_path / "run")))
    assert sentence.endswith("did you mean 8/255?")


@pytest.mark.parametrize(
    ("given", "said"),
    [(["--model", "m.npz"], "give --data."), (["--data", "d.npz"], "give --model."), ([], "give --model with --data.")],
)
def test_a_model_without_data_is_no_question(tmp_path: Path, given: list[str], said: str) -> None:
    sentence = refused(fairmargin("attack", *given, "--radius", "0.1", "--out", tmp_path / "run"))
    assert sentence == f"What to measure is missing: {said}"


def test_a_folder_without_results_says_what_to_run(tmp_path: Path) -> None:
    assert "run the audit first" in refused(fairmargin("report", tmp_path))


def test_edited_results_are_refused(files: Path, tmp_path: Path) -> None:
    succeeded(fairmargin(*people_attack(files, "--radius", "0.1", "--out", tmp_path / "run")))
    (path,) = result_files(tmp_path / "run", "robust_accuracy")
    text = path.read_text(encoding="utf-8").replace('"size": ', '"size": 1')
    path.write_text(text, encoding="utf-8")
    assert "does not match its checksum" in refused(fairmargin("report", tmp_path / "run"))
    path.write_text(stamped(json.dumps(json.loads(text)["content"])), encoding="utf-8")
    seal(tmp_path / "run", [f"results/{path.name}"])
    assert "does not follow from the distances of the run" in refused(fairmargin("report", tmp_path / "run"))


# Help. ---------------------------------------------------------------------------------------------------------------


def test_help_has_examples_and_the_catalog_is_listed() -> None:
    said = succeeded(fairmargin("attack", "--help")).stdout
    assert "Examples:" in said
    assert "--radius" in said
    listed = json_of(fairmargin("list", "attacks", "--json"))["attacks"]
    assert "steps=20" in listed["pgd"]
    assert "Norms: l2, linf." in listed["pgd"]


# All in one place, and what was looked at. ---------------------------------------------------------------------------


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


def test_one_shard_is_no_shards(files: Path, tmp_path: Path) -> None:
    command = people_attack(files, "--attack", "fgsm", "--radius", "0.1", "--out", tmp_path / "run")
    succeeded(fairmargin(*command))
    assert "1 shard was there already; 0 were measured now." in succeeded(fairmargin(*command)).stdout


@pytest.mark.parametrize(
    ("split", "said"),
    [
        ([], "All of digits was looked at, the splits train and test together."),
        (["--split", "train"], "The split 'train' holds training samples."),
        (["--split", "test"], ""),
    ],
)
def test_which_splits_were_looked_at_and_how_to_choose_is_noted(tmp_path: Path, split: list[str], said: str) -> None:
    weight, bias = np.random.default_rng(0).normal(size=(10, 64)), np.zeros(10)
    np.savez(tmp_path / "reader.npz", weight=weight, bias=bias)
    source = ["--model", tmp_path / "reader.npz", "--data", "digits", "--per-group", 8, *QUICK, *split]
    found = json_of(
        fairmargin("attack", *source, "--attack", "fgsm", "--radius", "0.1", "--out", tmp_path / "a", "--json")
    )
    audited = succeeded(fairmargin("audit", *source, "--estimator", "exact_linear", "--out", tmp_path / "b")).stdout
    about = [note for note in found["notes"] if "--split test looks at the test samples only." in note]
    assert bool(about) == bool(said) == ("--split test" in " ".join(audited.split()))
    assert all(note.startswith(said) for note in about)
    assert said in " ".join(audited.split())
