"""Two models on the same people: who gained, who lost. And what an audit of this size could see at all."""

import math
import shutil
from statistics import NormalDist

import numpy as np
import pytest

from tests.stories.examples import (
    QUICK,
    distances,
    fairmargin,
    json_of,
    people,
    people_audit,
    refused,
    succeeded,
    write_distances,
    write_model,
    write_people,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs of three kinds: two models on the same people, one of them again on other people."""
    path = tmp_path_factory.mktemp("compare")
    write_people(path / "people.csv")
    write_people(path / "others.csv", people(seed=1))
    write_model(path / "model.npz", path / "people.csv")
    write_model(path / "weak.npz", path / "people.csv", strength=0.0003)
    usual = ["--group", "sex", "--group", "race", "--cross", "race,sex", "--cluster", "person", "--quiet"]
    for run, model, data in (
        ("before", "model.npz", "people.csv"),
        ("after", "weak.npz", "people.csv"),
        ("elsewhere", "model.npz", "others.csv"),
    ):
        succeeded(fairmargin(*people_audit(path, *usual, "--out", path / run, model=model, data=data)))
    return path


# Comparing


def test_every_partition_that_both_runs_have_is_compared(folder):
    found = json_of(fairmargin("compare", folder / "before", folder / "after", "--json"))
    assert [(c["estimator"], c["partition"]) for c in found] == [
        ("exact_linear", "sex"),
        ("exact_linear", "race"),
        ("exact_linear", "race & sex"),
    ]
    rows = {row["group"]: row for row in found[0]["groups"]}
    for row in rows.values():
        assert row["change"]["value"] == pytest.approx(row["after"] - row["before"])
        assert row["change"]["low"] <= row["change"]["value"] <= row["change"]["high"]


def test_what_compare_reads_from_the_folders_is_what_audit_found(folder):
    (sex, *_) = json_of(fairmargin("compare", folder / "before", folder / "after", "--json"))
    for name, when in (("before", "before"), ("after", "after")):
        audit = json_of(fairmargin("report", folder / name, "--json"))["audits"][0]
        for row, changed in zip(audit["groups"], sex["groups"], strict=True):
            assert changed["group"] == row["group"]
            assert changed[when] == pytest.approx(row["robustness"]["value"])
            assert changed[f"sigma_{when}"] == pytest.approx(row["sigma"]["value"])


def test_a_run_compared_with_itself_changed_nowhere(folder):
    for comparison in json_of(fairmargin("compare", folder / "before", folder / "before", "--json")):
        for row in comparison["groups"]:
            assert row["change"]["value"] == 0
            assert row["verdict"] in ("no significant difference", "too few samples")


def test_one_partition_can_be_asked_for(folder):
    found = json_of(fairmargin("compare", folder / "before", folder / "after", "--group", "race", "--json"))
    assert [c["partition"] for c in found] == ["race"]
    sentence = refused(fairmargin("compare", folder / "before", folder / "after", "--group", "rase"))
    assert "no partition 'rase'" in sentence
    assert "Did you mean 'race'?" in sentence


def test_the_table_tells_before_after_and_the_change(folder):
    shown = succeeded(fairmargin("compare", folder / "before", folder / "after", "--group", "sex")).stdout
    assert shown.startswith("What changed, by sex: exact_linear")
    assert "95 % interval" in shown
    (women,) = [line for line in shown.splitlines() if line.split()[:1] == ["F"]]
    assert women.count("→") == 2
    assert women.count("[") == 1


def test_quiet_prints_nothing(folder):
    assert succeeded(fairmargin("compare", folder / "before", folder / "after", "--quiet")).output == ""


def test_other_samples_cannot_be_paired(folder):
    sentence = refused(fairmargin("compare", folder / "before", folder / "elsewhere"))
    assert "were not measured on the same samples" in sentence
    assert "people.csv" in sentence
    assert "others.csv" in sentence


def test_runs_without_a_common_estimator_or_partition_are_refused(folder, tmp_path):
    options = ["--group", "sex", "--estimator", "exact_linear:norm=l1", "--out", tmp_path / "l1", "--quiet"]
    succeeded(fairmargin(*people_audit(folder, *options)))
    assert "no estimator in common" in refused(fairmargin("compare", folder / "before", tmp_path / "l1"))
    succeeded(fairmargin(*people_audit(folder, "--group", "hired", "--out", tmp_path / "hired", "--quiet")))
    assert "no partition in common" in refused(fairmargin("compare", folder / "before", tmp_path / "hired"))


def table_run(folder, name, table, *more, suffix="csv"):
    path = write_distances(folder / f"{name}.{suffix}", table)
    arguments = ["audit", "--distances", path, "--bound", "upper", "--norm", "l2", "--group", "sex", *QUICK]
    succeeded(fairmargin(*arguments, *more, "--out", folder / name, "--quiet"))
    return folder / name


def with_ids():
    """Distances with ids that only differ as texts, for instance 7 and 007."""
    table = distances()
    ids = [str(i // 2) if i % 2 else f"00{i // 2}" for i in range(len(table))]
    ids[10], ids[11] = "NA", " null "
    return table.assign(photo=ids)


def shuffled_within_groups(table):
    """The rows in another order that keeps the column of groups as it is."""
    order, rng = np.arange(len(table)), np.random.default_rng(0)
    for sex in ("F", "M"):
        rows = np.flatnonzero(table.sex == sex)
        order[rows] = rng.permutation(rows)
    return table.iloc[order]


def test_tables_of_distances_can_be_compared_and_the_bound_is_warned_of(tmp_path):
    before = table_run(tmp_path, "before", distances())
    after = table_run(tmp_path, "after", distances().assign(distance=lambda t: t.distance * 1.2))
    (found,) = json_of(fairmargin("compare", before, after, "--json"))
    assert {row["verdict"] for row in found["groups"]} == {"more robust"}
    assert "can come from the estimator" in found["warnings"][0]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_with_ids_are_paired_by_them_in_any_order(tmp_path, suffix):
    farther = with_ids().assign(distance=lambda t: t.distance * 1.2)
    before = table_run(tmp_path, "before", with_ids(), "--id", "photo")
    after = table_run(tmp_path, "after", farther, "--id", "photo")
    (straight,) = json_of(fairmargin("compare", before, after, "--json"))
    assert not any("by position" in note for note in straight["warnings"])
    order = np.random.default_rng(0).permutation(len(farther))
    for name, table in (("within", shuffled_within_groups(farther)), ("mixed", farther.iloc[order])):
        (paired,) = json_of(
            fairmargin("compare", before, table_run(tmp_path, name, table, "--id", "photo", suffix=suffix), "--json")
        )
        assert paired == straight


def test_tables_without_ids_are_paired_by_position_with_a_note(tmp_path):
    before = table_run(tmp_path, "before", with_ids(), "--id", "photo")
    plain = table_run(tmp_path, "plain", with_ids())
    mixed = table_run(tmp_path, "mixed", shuffled_within_groups(with_ids()))
    (one,) = json_of(fairmargin("compare", before, plain, "--json"))
    (note,) = [note for note in one["warnings"] if "by position" in note]
    assert f"since {plain} has no ids" in note
    assert "--id COLUMN" in note
    shown = " ".join(succeeded(fairmargin("compare", plain, mixed)).stdout.split())
    assert "paired by position" in shown
    assert "have no ids" in shown


def test_runs_of_one_dataset_need_no_ids(folder):
    for found in json_of(fairmargin("compare", folder / "before", folder / "after", "--json")):
        assert found["warnings"] == []


def test_a_note_says_that_the_estimator_of_a_table_is_unknown(tmp_path):
    run = table_run(tmp_path, "run", distances())
    (found,) = json_of(fairmargin("compare", run, run, "--json"))
    assert any("not known which estimator" in note for note in found["warnings"])


def test_tables_with_other_ids_are_refused_with_some_of_them(tmp_path):
    before = table_run(tmp_path, "before", with_ids(), "--id", "photo")
    renamed = with_ids().replace({"photo": {"0": "a", "1": "b", "2": "c", "3": "d"}})
    sentence = refused(fairmargin("compare", before, table_run(tmp_path, "renamed", renamed, "--id", "photo")))
    assert "renamed lacks 4 of the other's ids ('0', '1', '2', …)" in sentence
    assert "before lacks 4 of the other's ids ('a', 'b', 'c', …)" in sentence
    shorter = table_run(tmp_path, "shorter", with_ids().iloc[1:], "--id", "photo")
    sentence = refused(fairmargin("compare", before, shorter))
    assert "shorter lacks 1 of the other's ids ('000')" in sentence
    assert "and before lacks" not in sentence


def test_numbers_written_differently_are_different_ids(tmp_path):
    whole, points = (
        table_run(tmp_path, name, distances().assign(photo=ids), "--id", "photo")
        for name, ids in (("whole", range(300)), ("points", np.arange(300.0)))
    )
    assert "7, 7.0 and 007 differ" in refused(fairmargin("compare", whole, points))
    parquet = table_run(tmp_path, "parquet", distances().assign(photo=range(300)), "--id", "photo", suffix="parquet")
    succeeded(fairmargin("compare", whole, parquet))


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ({7: "0", 9: "0"}, "column 'photo' holds 1 ids more than once, such as '0' in data rows 2 and 8"),
        ({7: "", 9: "  "}, "column 'photo' has no id in 2 of 300 rows, first in data row 8"),
        (None, "no column 'photo'"),
    ],
)
def test_ids_that_are_missing_or_occur_twice_are_refused(tmp_path, ids, words):
    table = distances() if ids is None else with_ids()
    for row, text in (ids or {}).items():
        table.loc[row, "photo"] = text
    path = write_distances(tmp_path / "table.csv", table)
    audit = ["audit", "--distances", path, "--group", "sex", "--id", "photo", "--out", tmp_path / "run"]
    assert words in refused(fairmargin(*audit))


def test_ids_are_for_tables_of_distances(folder, tmp_path):
    options = ["--group", "sex", "--id", "person", "--out", tmp_path / "run"]
    assert "--id goes with --distances" in refused(fairmargin(*people_audit(folder, *options)))


def test_tables_whose_groups_differ_are_refused(tmp_path):
    before = table_run(tmp_path, "before", distances())
    flipped = distances().assign(sex=lambda t: np.where(np.arange(len(t)) == 5, "M", t.sex))
    flipped.loc[5, "sex"] = "F" if distances().sex[5] == "M" else "M"
    assert "differ between" in refused(fairmargin("compare", before, table_run(tmp_path, "flipped", flipped)))
    shorter = table_run(tmp_path, "shorter", distances().iloc[:-1])
    assert "differ between" in refused(fairmargin("compare", before, shorter))


def test_tables_whose_groups_are_named_otherwise_are_refused(tmp_path):
    before = table_run(tmp_path, "before", distances())
    renamed = distances().assign(sex=lambda t: t.sex.map({"F": "cats", "M": "dogs"}))
    refused(fairmargin("compare", before, table_run(tmp_path, "renamed", renamed)))


def test_groups_that_the_audit_merged_stay_merged(folder, tmp_path):
    options = ["--group", "race", "--merge-below", "100", "--out", tmp_path / "run", "--quiet"]
    succeeded(fairmargin(*people_audit(folder, *options)))
    audited = json_of(fairmargin("report", tmp_path / "run", "--json"))["audits"][0]["groups"]
    (compared,) = json_of(fairmargin("compare", tmp_path / "run", tmp_path / "run", "--json"))
    powered = json_of(fairmargin("power", tmp_path / "run", "--json"))
    names = [row["group"] for row in audited]
    assert "other" in names
    assert [row["group"] for row in compared["groups"]] == names
    assert [row["group"] for row in powered] == names


def test_a_run_can_be_compared_where_neither_data_nor_models_are_at_hand(folder, tmp_path):
    for name in ("before", "after"):
        shutil.copytree(folder / name, tmp_path / name)
    moved = fairmargin("compare", tmp_path / "before", tmp_path / "after", "--json")
    assert json_of(moved) == json_of(fairmargin("compare", folder / "before", folder / "after", "--json"))


# Power


def test_a_run_serves_as_a_pilot_for_every_group(folder):
    found = json_of(fairmargin("power", folder / "before", "--sigma", "-0.3", "--json"))
    sizes = people().sex.value_counts()
    rows = {row["group"]: row for row in found if row["partition"] == "sex"}
    assert {group: row["size"] for group, row in rows.items()} == sizes.to_dict()
    assert {row["partition"] for row in found} == {"sex", "race", "race & sex"}
    for row in rows.values():
        assert row["rest_size"] == len(people()) - row["size"]
        assert -1 < row["smallest_drop"] < 0 < row["smallest_gain"]


def test_a_larger_effect_and_a_smaller_power_need_fewer_samples(folder):
    def needed(*options):
        rows = json_of(fairmargin("power", folder / "before", "--group", "sex", *options, "--json"))
        return rows[0]["samples_needed"]

    assert needed("--sigma", "-0.3") < needed("--sigma", "-0.2")
    assert needed("--sigma", "-0.2", "--power", "0.6") < needed("--sigma", "-0.2", "--power", "0.8")


def test_an_audit_can_be_planned_before_anything_is_measured():
    (row,) = json_of(fairmargin("power", "--size", "200", "--rest", "2000", "--groups", "5", "--json"))
    assert row["group"] == "planned"
    normal = NormalDist().inv_cdf
    errors = normal(1 - 0.05 / 5 / 2) + normal(0.8)  # five groups are tested
    assert row["smallest_drop"] == pytest.approx(math.expm1(-errors * 0.8 * math.sqrt(1 / 200 + 1 / 2000)))
    assert row["samples_needed"] == 163  # as in the documentation of `Setting`


def test_the_table_answers_in_percent_and_samples():
    shown = succeeded(fairmargin("power", "--size", "200", "--rest", "2000", "--groups", "5")).stdout
    assert "detected with probability 80 %" in shown
    assert "for σ = −20 %" in shown
    assert "−18.4 %" in shown
    assert "163" in shown


def test_what_no_number_of_samples_can_show_is_said_with_a_reason(folder):
    rows = json_of(fairmargin("power", folder / "before", "--sigma", "-0.001", "--group", "sex", "--json"))
    assert all("too small" in row["samples_needed"]["undefined"] for row in rows)
    shown = succeeded(fairmargin("power", folder / "before", "--sigma", "-0.001", "--group", "sex")).stdout
    assert "too small" in " ".join(shown.split())


def test_a_planned_audit_that_cannot_show_it_says_why():
    (row,) = json_of(fairmargin("power", "--size", "20", "--rest", "20", "--sigma", "-0.01", "--json"))
    assert "too small to detect" in row["samples_needed"]["undefined"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "Give a run, or --size and --rest"),
        ("--size 200", "Give a run, or --size and --rest"),
        ("--size 1 --rest 100", "at least 2 each"),
        ("--size 100 --rest 100 --sigma 0", "not be 0"),
        ("--size 100 --rest 100 --sigma -1", "above −1"),
        ("--size 100 --rest 100 --power 2", "between 0 and 1"),
        ("--size 100 --rest 100 --variation 0", "--variation"),
        pytest.param("--size 100 --rest 100 --confidence 2", "confidence"),
        pytest.param("--size 100 --rest 100 --variation nan", "--variation"),
        pytest.param("--size 100 --rest 100 --groups 0", "--groups"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(arguments, words):
    assert words in refused(fairmargin("power", *arguments.split()))


def test_an_unknown_partition_is_refused(folder):
    sentence = refused(fairmargin("power", folder / "before", "--group", "rase"))
    assert "no partition 'rase'" in sentence
    assert "Did you mean 'race'?" in sentence


def test_clusters_that_span_groups_are_refused(folder, tmp_path):
    options = ["--group", "hired", "--cluster", "person", "--out", tmp_path / "run", "--quiet"]
    succeeded(fairmargin(*people_audit(folder, *options)))
    assert "span groups" in refused(fairmargin("power", tmp_path / "run"))
