"""`fairmargin compare` of two models on the same samples, and `fairmargin power`."""

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
    """Make three runs: two models on the same people, and the first of them on other people."""
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
    assert all(comparison["warnings"] == [] for comparison in found)  # runs of one dataset need no ids
    rows = {row["group"]: row for row in found[0]["groups"]}
    for row in rows.values():
        assert row["change"]["value"] == pytest.approx(row["after"] - row["before"])
        assert row["change"]["low"] <= row["change"]["value"] <= row["change"]["high"]


def test_compare_reads_what_audit_computed(folder):
    (sex, *_) = json_of(fairmargin("compare", folder / "before", folder / "after", "--json"))
    for name, when in (("before", "before"), ("after", "after")):
        audit = json_of(fairmargin("report", folder / name, "--json"))["audits"][0]
        for row, changed in zip(audit["groups"], sex["groups"], strict=True):
            assert changed["group"] == row["group"]
            assert changed[when] == pytest.approx(row["robustness"]["value"])
            assert changed[f"sigma_{when}"] == pytest.approx(row["sigma"]["value"])


def test_one_partition_can_be_selected(folder):
    found = json_of(fairmargin("compare", folder / "before", folder / "after", "--group", "race", "--json"))
    assert [c["partition"] for c in found] == ["race"]
    for command in (["compare", folder / "before", folder / "after"], ["power", folder / "before"]):
        sentence = refused(fairmargin(*command, "--group", "rase"))
        assert "no partition 'rase'" in sentence
        assert "Did you mean 'race'?" in sentence


def test_the_table_shows_before_after_and_the_change(folder):
    shown = succeeded(fairmargin("compare", folder / "before", folder / "after", "--group", "sex")).stdout
    assert shown.startswith("What changed, by sex: exact_linear")
    assert "95 % interval" in shown
    (women,) = [line for line in shown.splitlines() if line.split()[:1] == ["F"]]
    assert women.count("→") == 2
    assert women.count("[") == 1


def test_runs_on_other_samples_are_refused(folder):
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
    """Return distances with ids that differ only as texts, such as 7 and 007."""
    table = distances()
    ids = [str(i // 2) if i % 2 else f"00{i // 2}" for i in range(len(table))]
    ids[10], ids[11] = "NA", " null "
    return table.assign(photo=ids)


def shuffled_within_groups(table):
    """Reorder the rows within each group, so that the column of groups stays the same."""
    order, rng = np.arange(len(table)), np.random.default_rng(0)
    for sex in ("F", "M"):
        rows = np.flatnonzero(table.sex == sex)
        order[rows] = rng.permutation(rows)
    return table.iloc[order]


def test_tables_of_distances_are_compared_with_a_warning_about_the_bound(tmp_path):
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


def test_tables_with_other_ids_are_refused_and_some_are_named(tmp_path):
    before = table_run(tmp_path, "before", with_ids(), "--id", "photo")
    renamed = with_ids().replace({"photo": {"0": "a", "1": "b", "2": "c", "3": "d"}})
    sentence = refused(fairmargin("compare", before, table_run(tmp_path, "renamed", renamed, "--id", "photo")))
    assert "renamed lacks 4 of the other's ids ('0', '1', '2', …)" in sentence
    assert "before lacks 4 of the other's ids ('a', 'b', 'c', …)" in sentence
    shorter = table_run(tmp_path, "shorter", with_ids().iloc[1:], "--id", "photo")
    sentence = refused(fairmargin("compare", before, shorter))
    assert "shorter lacks 1 of the other's ids ('000')" in sentence
    assert "and before lacks" not in sentence


def test_ids_are_compared_as_text(tmp_path):
    whole, points = (
        table_run(tmp_path, name, distances().assign(photo=ids), "--id", "photo")
        for name, ids in (("whole", range(300)), ("points", np.arange(300.0)))
    )
    assert "7, 7.0 and 007 differ" in refused(fairmargin("compare", whole, points))
    parquet = table_run(tmp_path, "parquet", distances().assign(photo=range(300)), "--id", "photo", suffix="parquet")
    succeeded(fairmargin("compare", whole, parquet))


def test_tables_whose_groups_differ_are_refused(tmp_path):
    before = table_run(tmp_path, "before", distances())
    flipped = distances().assign(sex=lambda t: np.where(np.arange(len(t)) == 5, "M", t.sex))
    flipped.loc[5, "sex"] = "F" if distances().sex[5] == "M" else "M"
    assert "differ between" in refused(fairmargin("compare", before, table_run(tmp_path, "flipped", flipped)))
    shorter = table_run(tmp_path, "shorter", distances().iloc[:-1])
    assert "differ between" in refused(fairmargin("compare", before, shorter))
    renamed = distances().assign(sex=lambda t: t.sex.map({"F": "cats", "M": "dogs"}))
    refused(fairmargin("compare", before, table_run(tmp_path, "renamed", renamed)))


def test_merged_groups_stay_merged(folder, tmp_path):
    options = ["--group", "race", "--merge-below", "100", "--out", tmp_path / "run", "--quiet"]
    succeeded(fairmargin(*people_audit(folder, *options)))
    audited = json_of(fairmargin("report", tmp_path / "run", "--json"))["audits"][0]["groups"]
    (compared,) = json_of(fairmargin("compare", tmp_path / "run", tmp_path / "run", "--json"))
    powered = json_of(fairmargin("power", tmp_path / "run", "--json"))
    names = [row["group"] for row in audited]
    assert "other" in names
    assert [row["group"] for row in compared["groups"]] == names
    assert [row["group"] for row in powered] == names


def test_runs_are_compared_without_data_and_models(folder, tmp_path):
    for name in ("before", "after"):
        shutil.copytree(folder / name, tmp_path / name)
    moved = fairmargin("compare", tmp_path / "before", tmp_path / "after", "--json")
    assert json_of(moved) == json_of(fairmargin("compare", folder / "before", folder / "after", "--json"))


# Power


def test_power_of_a_run_has_a_row_for_every_group(folder):
    found = json_of(fairmargin("power", folder / "before", "--sigma", "-0.3", "--json"))
    sizes = people().sex.value_counts()
    rows = {row["group"]: row for row in found if row["partition"] == "sex"}
    assert {group: row["size"] for group, row in rows.items()} == sizes.to_dict()
    assert {row["partition"] for row in found} == {"sex", "race", "race & sex"}
    for row in rows.values():
        assert row["rest_size"] == len(people()) - row["size"]
        assert -1 < row["smallest_drop"] < 0 < row["smallest_gain"]


def test_an_audit_can_be_planned_without_a_run():
    (row,) = json_of(fairmargin("power", "--size", "200", "--rest", "2000", "--groups", "5", "--json"))
    assert row["group"] == "planned"
    normal = NormalDist().inv_cdf
    errors = normal(1 - 0.05 / 5 / 2) + normal(0.8)  # five groups are tested
    assert row["smallest_drop"] == pytest.approx(math.expm1(-errors * 0.8 * math.sqrt(1 / 200 + 1 / 2000)))
    assert row["samples_needed"] == 163  # as in the documentation of `Setting`


def test_the_table_of_power_shows_percentages_and_samples():
    shown = succeeded(fairmargin("power", "--size", "200", "--rest", "2000", "--groups", "5")).stdout
    assert "detected with probability 80 %" in shown
    assert "for σ = −20 %" in shown
    assert "−18.4 %" in shown
    assert "163" in shown


def test_an_effect_that_no_number_of_samples_can_show_has_a_reason(folder):
    rows = json_of(fairmargin("power", folder / "before", "--sigma", "-0.001", "--group", "sex", "--json"))
    assert all("too small" in row["samples_needed"]["undefined"] for row in rows)
    shown = succeeded(fairmargin("power", folder / "before", "--sigma", "-0.001", "--group", "sex")).stdout
    assert "too small" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "Give a run, or --size and --rest"),
        ("--size 1 --rest 100", "at least 2 each"),
        ("--size 100 --rest 100 --sigma 0", "not be 0"),
        ("--size 100 --rest 100 --variation nan", "--variation"),
        ("--size 100 --rest 100 --groups 0", "--groups"),
    ],
)
def test_an_impossible_plan_is_refused(arguments, words):
    assert words in refused(fairmargin("power", *arguments.split()))
