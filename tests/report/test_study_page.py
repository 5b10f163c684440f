"""The page of a study: its answer, its tables over seeds, what methods change, and what failed."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairmargin.core.bound import Bound
from fairmargin.errors import InputError
from fairmargin.inference.estimate import LESS_ROBUST, NO_DIFFERENCE, TOO_FEW
from fairmargin.report import study_words
from fairmargin.report.document import Provenance
from fairmargin.report.study_epochs import courses_of
from fairmargin.report.study_figures import sigma_heat_map
from fairmargin.report.study_methods import method_rows, quantities
from fairmargin.report.study_numbers import (
    Column,
    at_the_end,
    board_of,
    boards_of,
    lowest_of,
    natural_board,
    read_table,
)
from fairmargin.report.study_page import render_study
from tests.report.examples import HOSTILE
from tests.report.study_examples import SIGMAS, attacked, example_study, measured
from tests.report.test_page import Page
from tests.report.test_precise_page import text_of


def page_of(frame: pd.DataFrame, **more) -> str:
    return render_study(frame, Provenance(title="A study"), **more)


@pytest.fixture(scope="module")
def html() -> str:
    return page_of(example_study(), notes=("digits: a sample of 150.",), meanings=[("erm", "Plain training.")])


@pytest.fixture(scope="module")
def text(html: str) -> str:
    return text_of(html)


# What the numbers are. -----------------------------------------------------------------------------------------------


def test_a_cell_is_the_mean_over_seeds_with_the_lowest_and_highest_of_them():
    values = {0: -0.5, 1: -0.1, 2: 0.3}
    rows = [measured(value, seed=seed) for seed, value in values.items()]
    cell = board_of(read_table(pd.DataFrame(rows))).cells["a", Column("small_cnn", "erm", 3)]
    assert cell.mean == pytest.approx(-0.1)
    assert (cell.low, cell.high) == (-0.5, 0.3)
    assert (cell.seeds, cell.defined, cell.less, cell.more, cell.judged) == (3, 3, 1, 1, 3)
    assert (cell.below, cell.above) == (2, 1)


def test_of_one_seed_alone_the_interval_of_its_samples_is_shown():
    cell = board_of(read_table(pd.DataFrame([measured(-0.3)]))).cells["a", Column("small_cnn", "erm", 1)]
    assert (cell.low, cell.high) == (pytest.approx(-0.4), pytest.approx(-0.2))
    assert "[−40.0, −20.0]" in text_of(page_of(pd.DataFrame([measured(-0.3), measured(0.3, group="b")])))


def test_a_partition_that_could_not_be_judged_is_never_called_equal():
    few = [measured(-0.6, group="a", partition="class", verdict=TOO_FEW)]
    few += [measured(0.2, group="b", partition="class", verdict=TOO_FEW)]
    alike = [measured(sigma, group=group, partition="ink") for group, sigma in (("c", -0.1), ("d", 0.1))]
    said = text_of(page_of(pd.DataFrame([*few, *alike])))
    assert "No significant difference was found in the one trained network that could be judged." in said
    assert "By “class” nothing could be judged: no group has enough samples, or none is comparable." in said
    assert "By “ink” nothing" not in said
    assert "which may be chance: too few samples to judge" in said
    unequal = [measured(sigma, group=group, partition="ink") for group, sigma in (("c", -0.5), ("d", 0.5))]
    assert "By “class” nothing could be judged" in text_of(page_of(pd.DataFrame([*few, *unequal])))


def test_undefined_numbers_are_left_out_of_means_and_counted():
    rows = [measured(-0.3, seed=0), measured(math.nan, seed=1), measured(math.inf, seed=2)]
    rows += [measured(0.2, seed=seed, group="b") for seed in range(3)]
    cell = board_of(read_table(pd.DataFrame(rows))).cells["a", Column("small_cnn", "erm", 3)]
    assert (cell.mean, cell.defined) == (-0.3, 1)
    assert "defined in 1 of 3" in text_of(page_of(pd.DataFrame(rows)))


def test_the_end_of_a_training_is_its_last_epoch_or_else_the_latest_that_was_measured():
    rows = [
        measured(-0.1, epoch=9, asked_as="best"),
        measured(-0.2, epoch=5, asked_as="last, 5"),
        measured(-0.3, epoch=1, asked_as="first", by="ddn"),
        measured(-0.4, epoch=2, asked_as="middle", by="ddn"),
    ]
    assert at_the_end(read_table(pd.DataFrame(rows)))["sigma"].tolist() == [-0.2, -0.4]


def test_the_lowest_group_is_counted_over_networks_and_ties_count_for_all_who_share_them():
    rows = [
        attacked(share, seed=seed, group=group)
        for seed, shares in enumerate([(0.1, 0.1, 0.4), (0.3, 0.2, 0.4), (0.5, 0.5, 0.5)])
        for group, share in zip("abc", shares, strict=True)
    ]
    found = lowest_of(board_of(read_table(pd.DataFrame(rows))))
    assert found is not None
    assert (found.group, found.times, found.networks) == ("b", 2, 3)
    equal = pd.DataFrame([attacked(0.0, group=group) for group in "ab"])
    assert lowest_of(board_of(read_table(equal))) is None


def test_accuracy_without_attack_is_that_of_all_samples_whatever_the_size_of_groups():
    rows = [attacked(0.5, natural=0.5, size=10), attacked(0.5, natural=1.0, size=90, group="b")]
    table = read_table(pd.DataFrame(rows))
    (accuracy, _) = quantities(boards_of(table), natural_board(table))
    assert accuracy.values.tolist() == [pytest.approx(0.95)]


def test_methods_are_compared_in_pairs_of_the_same_seed():
    rows = [
        attacked(value, method=method, seed=seed)
        for method, values in {"erm": (0.1, 0.5), "madry": (0.4, 0.4), "fat": (0.2,)}.items()
        for seed, value in enumerate(values)
    ]
    table = read_table(pd.DataFrame(rows))
    first, second, third = method_rows(quantities(boards_of(table), None))
    assert first.changes == (None,)
    (change,) = second.changes
    assert change is not None
    assert (change.mean, change.low, change.high) == (pytest.approx(0.1), pytest.approx(-0.1), pytest.approx(0.3))
    assert (change.pairs, change.higher, change.lower) == (2, 1, 1)
    assert third.changes[0] is not None
    assert third.changes[0].pairs == 1


def test_what_changes_over_epochs_is_counted_against_chance():
    table = read_table(example_study())
    deepfool, *others = courses_of(table)
    assert not others  # attacks were made at the last epoch only
    assert "the same at the last in 0 of 24 pairs" in deepfool.sentence
    steps = deepfool.steps["a", Column("cnn", "erm", 2)]
    assert [name for name, _ in steps] == ["epoch 1", "epoch 4"]
    assert steps[0][1].mean == pytest.approx(-SIGMAS["a"])


def test_epochs_whose_number_depends_on_the_seed_go_by_what_they_were_asked_as():
    rows = [
        measured(0.1 * epoch, seed=seed, epoch=epoch, asked_as=word)
        for seed, last in ((0, 7), (1, 9))
        for word, epoch in (("first", 1), ("last", last))
    ]
    (course,) = courses_of(read_table(pd.DataFrame(rows)))
    assert [name for name, _ in course.steps["a", Column("small_cnn", "erm", 2)]] == ["epoch 1", "last"]


# What the page says. -------------------------------------------------------------------------------------------------


def test_the_answer_says_who_is_reached_first_in_how_many_networks_and_what_methods_change(text):
    assert "In all 8 trained networks not every group is equally hard to fool, as far as attacks can tell." in text
    assert "By “class”, “a” lies closest to the boundary in all 8 trained networks (34 % closer than everyone" in text
    assert "it is also fooled most often under pgd at radius 0.1, in all 8." in text
    assert "Against erm, madry lowers accuracy by 2.0 points on average (lower in 4 of 4 pairs)" in text
    assert "With 2 seeds these are hints, no proofs." in text


def test_every_table_is_there_with_its_range_its_marks_and_the_lowest(text):
    assert "Who lies closer to the boundary: deepfool" in text
    assert "Who withstands pgd at radius 8/255" in text
    assert "Who withstands pgd at radius 0.1" in text
    assert "Accuracy without any attack" in text
    assert "While networks are trained" in text
    assert "Methods against erm" in text
    for shown in (
        "−39.5 %",
        "[−40.0, −39.0]",
        "▼ 2 of 2",
        "▲ 2 of 2",
        "lowest",
        "+10.0 points",
        "higher in 2 of 2 pairs",
    ):
        assert shown in text
    for heading in ("What was run", "How to read this", "How it was measured", "What the bounds mean", "Use with care"):
        assert heading in text
    assert "digits: a sample of 150." in text
    assert "Plain training." in text


def test_signs_that_differ_between_seeds_are_said(text):
    rows = [
        measured(value, seed=seed, group=group)
        for group, values in {"a": (-0.3, 0.3), "b": (0.1, 0.2)}.items()
        for seed, value in enumerate(values)
    ]
    assert "signs differ" in text_of(page_of(pd.DataFrame(rows)))
    assert "Less robust in some networks and more robust in others, both significantly: “a”." in text_of(
        page_of(pd.DataFrame(rows))
    )


def test_few_seeds_are_no_proof_and_the_chance_is_told():
    assert "trained once" in study_words.few_seeds(1)
    assert "25 % chance" in study_words.few_seeds(3)
    assert "hints and no proofs" in study_words.few_seeds(5)
    assert "hints" not in study_words.few_seeds(6)
    assert "With 1 seed these are hints" in text_of(page_of(example_study(seeds=(0,))))


def test_where_pairs_point_both_ways_no_verb_promises_a_direction():
    rows = [
        attacked(value, method=method, seed=seed, verdict=LESS_ROBUST)
        for method, values in {"erm": (0.1, 0.5), "madry": (0.4, 0.4)}.items()
        for seed, value in enumerate(values)
    ]
    rows += [attacked(0.9, method=method, seed=seed, group="b") for method in ("erm", "madry") for seed in (0, 1)]
    said = text_of(page_of(pd.DataFrame(rows)))
    assert "changes the lowest robust accuracy of any group (pgd at radius 8/255) by +10 points on average" in said
    assert "(higher in 1, lower in 1 of 2 pairs)" in said


def test_no_difference_is_no_proof_and_groups_too_small_are_not_judged():
    rows = [measured(0.01, group=group, verdict=NO_DIFFERENCE) for group in "ab"]
    assert "That is no proof of equality" in text_of(page_of(pd.DataFrame(rows)))
    few = [measured(-0.5, group=group, verdict=TOO_FEW) for group in "ab"]
    said = text_of(page_of(pd.DataFrame(few)))
    assert "no group has enough samples" in said
    assert "Not judged in any network (too few samples, or not comparable): “a” and “b”." in said


def test_a_network_that_came_with_its_weights_is_not_compared_as_a_method():
    rows = [measured(sigma, network="mine", method="as given", epoch=0, group=group) for group, sigma in SIGMAS.items()]
    said = text_of(page_of(pd.DataFrame(rows)))
    assert "mine came with weights and were not trained" in said
    assert "Methods against" not in said
    assert "seed" not in said.split("What was run")[0]
    alone = text_of(page_of(pd.concat([pd.DataFrame(rows), example_study()])))
    assert "Methods against erm" in alone


def test_several_data_and_partitions_share_a_page_with_contents_and_no_id_twice():
    parts = [
        example_study().assign(data=data, partition=part) for data in ("digits", "faces") for part in ("sex", "age")
    ]
    html = page_of(pd.concat(parts))
    page = Page(html)
    targets = [a["href"] for tag, a in page.tags if tag == "a"]
    assert targets[:5] == ["#run", "#part-1", "#part-2", "#part-3", "#part-4"]
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    assert {target[1:] for target in targets if target.startswith("#")} <= set(ids)
    assert {"results.csv", "study.toml"} == {target for target in targets if not target.startswith("#")}
    said = text_of(html)
    assert "By “age” on faces" in said
    assert "On faces, against erm, madry lowers accuracy" in said


def test_many_groups_are_folded_away_but_all_are_there():
    names = [f"region {i:02d}" for i in range(30)]
    rows = [attacked(0.02 * i, group=name, seed=seed) for i, name in enumerate(names) for seed in (0, 1)]
    rows += [
        measured(0.02 * i - 0.3, group=name, seed=seed, network=network)
        for i, name in enumerate(names)
        for seed in (0, 1)
        for network in ("x", "y", "z")
    ]
    html = page_of(pd.DataFrame(rows))
    said = text_of(html)
    assert "The 5 lowest of 30 groups" in said
    assert "All 30 groups" in said
    assert "All numbers of this figure" in said
    assert said.count("region 29") >= 3
    assert Page(html).open == []


def test_what_failed_is_named_even_if_nothing_was_done():
    said = text_of(page_of(pd.DataFrame(), failures=["digits, small_cnn, erm, seed 0: no group <b>'nobody'</b>"]))
    assert "This study cannot tell: nothing could be compared." in said
    assert "What could not be done" in said
    assert "no group <b>'nobody'</b>" in said
    some = text_of(page_of(example_study(), failures=["one", "two"]))
    assert "2 tasks could not be done" in some
    assert "What could not be done" not in text_of(page_of(example_study()))


def test_names_of_strangers_are_text_and_the_page_is_well_formed():
    rows = []
    for i, name in enumerate(HOSTILE):
        about = {"group": name, "data": HOSTILE[0], "network": HOSTILE[1], "partition": HOSTILE[2], "by": HOSTILE[5]}
        for method in (HOSTILE[3], HOSTILE[4]):
            rows += [measured(0.2 * i - 0.5, method=method, **about), attacked(0.1 * i, method=method, **about)]
    html = page_of(pd.DataFrame(rows), notes=HOSTILE, failures=HOSTILE, meanings=[(HOSTILE[0], HOSTILE[1])])
    page = Page(html)
    assert page.open == []
    assert not [tag for tag, _ in page.tags if tag in ("img", "b", "i")]
    assert len(page.scripts) == 3  # a figure's numbers, plotly, and our own
    assert {a["href"] for tag, a in page.tags if tag == "a"} <= {"results.csv", "study.toml"}


def test_a_table_of_something_else_is_refused():
    with pytest.raises(InputError, match=r"has the columns data, .* is missing"):
        page_of(pd.DataFrame({"sigma": [0.1]}))


def test_the_page_needs_no_script_for_its_numbers_and_loads_nothing(html):
    page = Page(html)
    assert not [a for _, a in page.tags if a.get("src") or a.get("href", "").startswith("http")]
    figure = json.loads(page.scripts[0][1])
    assert figure["data"][0]["type"] == "heatmap"
    assert html == page_of(example_study(), notes=("digits: a sample of 150.",), meanings=[("erm", "Plain training.")])


# The figure. ---------------------------------------------------------------------------------------------------------


def test_colours_diverge_from_zero_and_numbers_are_written_into_them():
    board = boards_of(at_the_end(read_table(example_study())))[0]
    (heat,) = sigma_heat_map(board).data
    assert heat.zmin == -heat.zmax
    middle = dict(heat.colorscale)[0.5]
    assert middle.upper() == "#FFFFFF"
    assert list(heat.text[0])[:2] == ["−40 %", "−30 %"]
    assert np.allclose(np.array(heat.z)[0, :2], [-0.395, -0.295])


def test_what_is_beyond_the_scale_has_its_strongest_colour_and_its_own_number():
    rows = [measured(value, group=group) for group, value in {"a": -1.0, "b": 6.4, "c": math.nan}.items()]
    (heat,) = sigma_heat_map(board_of(read_table(pd.DataFrame(rows)))).data
    assert (heat.zmin, heat.zmax) == (-1.0, 1.0)
    assert np.array(heat.z)[:2, 0].tolist() == [-1.0, 1.0]
    assert np.isnan(np.array(heat.z)[2, 0])
    assert [row[0] for row in heat.text] == ["−100 %", "+640 %", ""]


def test_bounds_from_different_sides_have_no_common_side():
    rows = [measured(-0.3, bound="upper"), measured(-0.3, bound="exact", network="linear")]
    assert board_of(read_table(pd.DataFrame(rows))).measurement.bound is Bound.NEITHER


def test_the_table_may_come_from_its_file(tmp_path: Path):
    frame = example_study().replace({"group": {"a": "1", "b": "2", "c": "3"}})
    frame.to_csv(tmp_path / "results.csv", index=False)
    assert page_of(pd.read_csv(tmp_path / "results.csv")) == page_of(frame)
