"""The sections of many networks: the answer, numbers over seeds, what methods change, and what failed."""

import math
from dataclasses import asdict

import pandas as pd
import pytest

from fairmargin.analyses.networks import sentences as network_sentences
from fairmargin.analyses.networks.numbers import (
    NetworkColumn,
    OverSeeds,
    accuracy_board,
    at_the_end,
    board_of,
    boards_of,
    chance_of_agreement,
    change,
    courses_of,
    lowest_of,
    quantities,
    read_rows,
)
from fairmargin.analyses.networks.sections import sections_over_networks
from fairmargin.inference.estimate import LESS_ROBUST, NO_DIFFERENCE, TOO_FEW
from fairmargin.presentation.section import Cell, Section, Table
from fairmargin.report.draw import draw
from fairmargin.report.page import render
from tests.analyses.network_examples import SIGMAS, attacked, example_study, measured
from tests.report.examples import HOSTILE, texts_of
from tests.report.test_page import Page


def rows_of(rows):
    return read_rows(pd.DataFrame(rows))


def said_of(rows, **more) -> str:
    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows)
    return " ".join(text for section in sections_over_networks(frame, **more) for text in texts_of(section) if text)


def page_of(frame: pd.DataFrame, **more) -> str:
    sections = sections_over_networks(frame, **more)
    return render("A study", sections, answer=sections[0].answer)


def cells_of(table: Table, name: str) -> list[Cell]:
    """Return the cells of the row of that name, without the name."""
    (row,) = (row for row in table.rows if row[0].text == name)
    return list(row[1:])


def folded(section: Section, title: str) -> Section:
    (found,) = (part for part in section.further if part.title == title)
    return found


@pytest.fixture(scope="module")
def sections() -> tuple[Section, ...]:
    return sections_over_networks(example_study(), meanings=[("erm", "Plain training.")])


# Numbers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected", "shown"),
    [
        ((-0.5, -0.1, 0.3), OverSeeds(-0.1, -0.5, 0.3, 3, 3, less=1, more=1, below=2, above=1), "signs differ"),
        ((-0.3,), OverSeeds(-0.3, -0.4, -0.2, 1, 1, less=1, below=1), "[−40.0, −20.0]"),  # the interval of its samples
        ((-0.3, math.nan, math.inf), OverSeeds(-0.3, -0.3, -0.3, 3, 1, less=1, below=1), "defined in 1 of 3"),
    ],
)
def test_a_cell_is_the_mean_over_seeds_where_it_is_defined_with_the_lowest_and_highest(values, expected, shown):
    rows = [measured(value, seed=seed) for seed, value in enumerate(values)]
    rows = [row | {"verdict": NO_DIFFERENCE} if not math.isfinite(row["sigma"]) else row for row in rows]
    cell = board_of(rows_of(rows)).cells["a", NetworkColumn("small_cnn", "erm", len(values))]
    assert asdict(cell) == pytest.approx(asdict(expected))
    assert shown in said_of(rows + [measured(0.2, seed=seed, group="b") for seed in range(len(values))])


def test_the_end_of_a_training_is_its_last_epoch_or_else_the_latest_that_was_measured():
    rows = [
        measured(-0.1, epoch=9, asked_as="best"),
        measured(-0.2, epoch=5, asked_as="last, 5"),
        measured(-0.3, epoch=1, asked_as="first", by="ddn"),
        measured(-0.4, epoch=2, asked_as="middle", by="ddn"),
    ]
    assert [row.value for row in at_the_end(rows_of(rows))] == [-0.2, -0.4]


def test_the_lowest_group_is_counted_over_networks_and_ties_count_for_all_who_share_them():
    rows = [
        attacked(share, seed=seed, group=group)
        for seed, shares in enumerate([(0.1, 0.1, 0.4), (0.3, 0.2, 0.4), (0.5, 0.5, 0.5)])
        for group, share in zip("abc", shares, strict=True)
    ]
    found = lowest_of(rows_of(rows))
    assert found is not None
    assert (found.groups, found.times, found.networks) == (("b",), 2, 3)
    assert lowest_of(rows_of([attacked(0.0, group=group) for group in "ab"])) is None


def test_accuracy_without_attack_is_that_of_all_samples_by_the_first_attack_or_else_by_the_first_estimator():
    rows = rows_of([attacked(0.5, natural=0.5, size=10), attacked(0.5, natural=1.0, size=90, group="b")])
    accuracy, _ = quantities(boards_of(rows), accuracy_board(rows))
    assert list(accuracy.values.values()) == [pytest.approx(0.95)]
    for some, expected in (([measured(), attacked(natural=0.7)], [0.7]), ([measured()], [0.9])):
        board = accuracy_board(rows_of(some))
        assert board is not None
        assert [row.value for row in board.rows] == expected
    assert accuracy_board(rows_of([attacked(natural=math.nan)])) is None


def test_methods_are_compared_in_pairs_of_the_same_seed_and_data():
    rows = rows_of(
        [
            attacked(value, method=method, seed=seed)
            for method, values in {"erm": (0.1, 0.5), "madry": (0.4, 0.4), "fat": (0.2,)}.items()
            for seed, value in enumerate(values)
        ]
    )
    (lowest,) = quantities(boards_of(rows), None)
    found = change(lowest.values, "madry", "erm")
    assert found is not None
    assert (found.mean, found.low, found.high) == (pytest.approx(0.1), pytest.approx(-0.1), pytest.approx(0.3))
    assert (found.defined, found.above, found.below) == (2, 1, 1)
    alone = change(lowest.values, "fat", "erm")
    assert alone is not None
    assert alone.defined == 1
    assert change(lowest.values, "fat", "trades") is None
    rows = rows_of([attacked(method="erm", data="digits"), attacked(method="madry", data="faces")])
    assert change(quantities(boards_of(rows), None)[0].values, "madry", "erm") is None


def test_signs_at_the_first_and_last_epoch_are_counted_against_chance():
    deepfool, *others = courses_of(read_rows(example_study()))
    assert not others  # attacks were made at the last epoch only
    assert "in 0 of 24 pairs of a group and a network" in network_sentences.course_sentence(deepfool)
    stages = deepfool.stages["cnn", "erm"]
    assert list(stages) == ["epoch 1", "epoch 4"]
    assert {row.value for row in stages["epoch 1"] if row.group == "a"} == {-SIGMAS["a"]}


def test_epochs_have_numbers_or_the_names_of_the_study_and_one_asked_for_in_two_ways_is_one_epoch():
    asked = (("first", 0, 1), ("first", 1, 1), ("last", 0, 7), ("last", 1, 9))
    rows = [measured(0.1 * epoch, seed=seed, epoch=epoch, asked_as=word) for word, seed, epoch in asked]
    (course,) = courses_of(rows_of(rows))
    assert list(course.stages["small_cnn", "erm"]) == ["epoch 1", "last"]
    rows = [measured(epoch=5, asked_as="last, best"), measured(epoch=1, asked_as="first")]
    (course,) = courses_of(rows_of(rows))
    assert list(course.stages["small_cnn", "erm"]) == ["epoch 1", "epoch 5"]
    rows += [measured(seed=1, epoch=5, asked_as="last"), measured(seed=1, epoch=1, asked_as="first")]
    rows += [measured(seed=1, epoch=3, asked_as="best")]
    (course,) = courses_of(rows_of(rows))
    stages = course.stages["small_cnn", "erm"]
    assert [(name, len(some)) for name, some in stages.items()] == [("epoch 1", 2), ("best", 2), ("epoch 5", 2)]
    assert courses_of(rows_of([measured(epoch=5, asked_as="last, best")])) == []


def test_few_seeds_are_no_proof_and_the_chance_is_told():
    assert chance_of_agreement(1) == 1.0
    assert "trained once" in network_sentences.few_seeds(1)
    assert "a probability of 25 %" in network_sentences.few_seeds(3)
    assert "hints, not proof" in network_sentences.few_seeds(5)
    assert "hints" not in network_sentences.few_seeds(6)
    assert any("hints, not proof" in text for text in sections_over_networks(example_study())[0].cautions)
    alone = sections_over_networks(example_study(seeds=(0,)))[0].cautions
    assert "Every network was trained once: another seed could reverse a small difference." in alone


# What is said --------------------------------------------------------------------------------------------------------


def test_the_answer_says_who_is_reached_first_in_how_many_networks_and_what_methods_change(sections):
    answer = sections[0].answer
    assert "In all 8 networks some groups differ significantly from the rest, as far as attacks can tell." in answer
    assert "By “class”, “a” lies closest to the boundary in all 8 networks and is significantly less robust" in answer
    assert "(34 % closer than everyone else on average, by deepfool)" in answer
    assert "it is also misclassified most often under pgd at radius 0.1, in all 8." in answer
    assert "Compared with erm, madry lowers accuracy by 2.0 points on average (lower in 4 of 4 pairs)" in answer
    assert sections[0].about == "8 networks · 2 models · 2 methods · 2 seeds"


def test_all_groups_of_a_tie_are_named():
    rows = [
        attacked(share, seed=seed, group=group, verdict=LESS_ROBUST if less else NO_DIFFERENCE)
        for seed in (0, 1)
        for group, share, less in (("a", 0.0, True), ("b", 0.0, seed == 0), ("c", 0.4, False))
    ]
    said = said_of(rows)
    assert "“a” and “b” are misclassified most often in all 2 networks and are significantly less robust" in said
    assert "than the rest in 1 of 2 (at most 0 % of each are still classified correctly on average)" in said
    alone = [measured(sigma, seed=seed, group=group) for seed in (0, 1) for group, sigma in SIGMAS.items()]
    assert "; “a” and “b” are misclassified most often under pgd at radius 8/255, in all 2." in said_of(rows + alone)
    tied = [measured(-0.4, seed=seed, group="b") for seed in (0, 1)]
    said = said_of([*rows, *(row for row in alone if row["group"] != "b"), *tied])
    assert "“a” and “b” lie closest to the boundary in all 2 networks" in said
    assert "they are also misclassified most often under pgd" in said


def test_a_partition_that_could_not_be_judged_is_never_called_equal():
    few = [measured(-0.6, group="a", partition="class", verdict=TOO_FEW)]
    few += [measured(0.2, group="b", partition="class", verdict=TOO_FEW)]
    alike = [measured(sigma, group=group, partition="ink") for group, sigma in (("c", -0.1), ("d", 0.1))]
    said = said_of([*few, *alike])
    assert "No significant difference between groups was found in the only network that could be judged." in said
    assert "By “class” nothing could be judged: no group has enough samples, or none is comparable." in said
    assert "By “ink” nothing" not in said
    assert "which may be chance: too few samples to judge" in said
    unequal = [measured(sigma, group=group, partition="ink") for group, sigma in (("c", -0.5), ("d", 0.5))]
    assert "By “class” nothing could be judged" in said_of([*few, *unequal])
    assert "This is no proof of equality" in said_of(alike)
    said = said_of(few)
    assert "no group has enough samples" in said
    assert "Not judged in any network (too few samples, or not comparable): “a” and “b”." in said


def test_groups_and_pairs_that_point_both_ways_are_named_without_promising_a_direction():
    rows = [measured(sigma, seed=seed) for seed, sigma in enumerate((-0.3, 0.3))]
    rows += [measured(0.1, seed=seed, group="b") for seed in (0, 1)]
    some = "Significantly less robust in some networks and significantly more robust in others: “a”."
    assert some in said_of(rows)
    rows = [
        attacked(value, method=method, seed=seed, verdict=LESS_ROBUST)
        for method, values in {"erm": (0.1, 0.5), "madry": (0.4, 0.4)}.items()
        for seed, value in enumerate(values)
    ]
    rows += [attacked(0.9, method=method, seed=seed, group="b") for method in ("erm", "madry") for seed in (0, 1)]
    said = said_of(rows)
    assert "changes the lowest robust accuracy of any group (pgd at radius 8/255) by +10 points on average" in said
    assert "(higher in 1, lower in 1 of 2 pairs)" in said


def test_a_network_that_was_not_trained_is_not_compared_as_a_method():
    given = [measured(sigma, model="mine", method="as given", epoch=0, group=group) for group, sigma in SIGMAS.items()]
    overview, part = sections_over_networks(pd.DataFrame(given))
    assert "seed" not in overview.about
    assert not any("trained once" in text for text in overview.cautions)
    run = folded(overview, "What was run").tables[0]
    assert cells_of(run, "Not trained here")[0].text == "mine"
    assert not any(row[0].text in ("Seeds", "Methods", "Epochs measured") for row in run.rows)
    assert part.tables[0].columns[1].detail == "as given"
    assert "Methods against" not in said_of(given)
    both = sections_over_networks(pd.concat([pd.DataFrame(given), example_study()]))
    models = {row[0].text for table in folded(both[1], "Methods against erm").tables for row in table.rows}
    assert models == {"cnn", "linear"}


def test_several_data_are_named_and_of_many_partitions_the_answer_tells_of_two():
    parts = [
        example_study().assign(data=data, partition=part) for data in ("digits", "faces") for part in ("sex", "age")
    ]
    overview, *rest = sections_over_networks(pd.concat(parts))
    assert [(section.title, section.about.split(" · ")[0]) for section in rest] == [
        ("By sex", "digits"),
        ("By age", "digits"),
        ("By sex", "faces"),
        ("By age", "faces"),
    ]
    assert "By “age” on digits" in overview.answer
    assert "2 more partitions are described below." in overview.answer
    assert "By “age” on faces" in rest[3].answer
    assert any("On faces, compared with erm, madry lowers accuracy" in sentence for sentence in overview.sentences)


# What is shown -------------------------------------------------------------------------------------------------------


def test_a_table_has_the_range_the_marks_and_the_lowest_of_every_network(sections):
    sigma, near, far = sections[1].tables
    assert [(column.name, column.detail) for column in sigma.columns] == [
        ("group", "σ by deepfool"),
        ("cnn", "erm, 2 seeds"),
        ("cnn", "madry, 2 seeds"),
        ("linear", "erm, 2 seeds"),
        ("linear", "madry, 2 seeds"),
    ]
    assert cells_of(sigma, "a")[0] == Cell("−39.5 %", "[−40.0, −39.0]", "▼ 2 of 2", "less")
    assert cells_of(sigma, "c")[0] == Cell("+50.5 %", "[+50.0, +51.0]", "▲ 2 of 2", "more")
    assert near.columns[0].detail == "robust accuracy under pgd at radius 8/255"
    assert far.columns[0].detail == "robust accuracy under pgd at radius 0.1"
    assert cells_of(near, "a")[0] == Cell("20.0 %", "[20.0, 20.0]", "lowest", "less")
    assert cells_of(near, "b")[0].note == ""
    assert "σ by deepfool: upper bounds (attacks), L2 norm." in sigma.caption


def test_accuracy_methods_and_epochs_are_folded(sections):
    part = sections[1]
    accuracy = folded(part, "Accuracy without an attack").tables[0]
    assert [cell.text for cell in cells_of(accuracy, "a")] == ["90.0 %", "88.0 %", "90.0 %", "88.0 %"]
    methods = folded(part, "Methods against erm")
    lowest = methods.tables[1]
    assert lowest.columns[2].name == "lowest σ"
    assert [cell.text for cell in lowest.rows[0]] == ["cnn", "erm", "−39.5 %", "–", "–"]
    assert lowest.rows[1][3:] == (Cell("+10.0", "[+10.0, +10.0]", mark="more"), Cell("higher in 2 of 2 pairs"))
    assert network_sentences.few_seeds(2) in methods.sentences
    course = folded(part, "During training: deepfool")
    assert [column.name for column in course.tables[0].columns] == ["group", "epoch 1", "epoch 4"]
    assert [cell.text for cell in cells_of(course.tables[0], "a")] == ["+40.0 %", "−39.5 %"]


def test_what_was_run_and_what_names_and_bounds_mean_is_there(sections):
    run = folded(sections[0], "What was run").tables[0]
    told = {row[0].text: row[1].text for row in run.rows}
    assert told == {
        "Data": "digits",
        "Groups": "class",
        "Models": "cnn and linear",
        "Methods": "erm and madry",
        "Seeds": "0 and 1",
        "Epochs measured": "1 and 4",
        "Estimators": "deepfool",
        "Attacks": "pgd at radius 8/255 and pgd at radius 0.1",
    }
    assert len(folded(sections[0], "All measurements").tables[0].rows) == 3
    assert folded(sections[0], "What the names stand for").tables[0].rows == ((Cell("erm"), Cell("Plain training.")),)
    topics = {each.topic for each in sections[0].explanations}
    assert topics == {"Means over seeds", "σ, the relative distance", "The verdicts", "What the bounds mean"}
    assert "corrected by Holm" in sections[0].method


def test_large_tables_are_folded_and_the_lowest_group_of_each_network_is_shown_instead():
    names = [f"region {i:02d}" for i in range(30)]
    rows = [attacked(0.02 * i, group=name, seed=seed) for i, name in enumerate(names) for seed in (0, 1)]
    rows += [
        measured(0.02 * i - 0.3, group=name, seed=seed, model=model)
        for i, name in enumerate(names)
        for seed in (0, 1)
        for model in ("x", "y", "z")
    ]
    part = sections_over_networks(pd.DataFrame(rows))[1]
    assert len(part.tables) == 2  # at most one table per measurement is shown at once
    lowest = part.tables[1]
    assert [column.name for column in lowest.columns][2:] == ["lowest group", "σ", "lowest in", "significant in"]
    assert [cell.text for cell in lowest.rows[0]] == ["x", "erm, 2 seeds", "region 00", "−30.0 %", "2 of 2", "2 of 2"]
    assert len(folded(part, "Every group: σ by deepfool").tables[0].rows) == 30
    assert len(folded(part, "Every group: robust accuracy under pgd at radius 8/255").tables[0].rows) == 30
    equal = [attacked(0.0, group=group, model=model) for group in "ab" for model in "uvwxy"]
    rows = sections_over_networks(pd.DataFrame(equal))[1].tables[0].rows
    assert [row[2].text for row in rows] == ["all equal"] * 5


def test_failures_are_named_and_many_of_them_are_folded():
    *_, failed = sections_over_networks(example_study(), failures=[f"seed {i}: no file" for i in range(12)])
    assert (failed.title, failed.about, len(failed.sentences)) == ("What could not be done", "12 tasks", 10)
    assert folded(failed, "2 more").sentences == ("seed 10: no file", "seed 11: no file")
    assert "12 tasks could not be done" in sections_over_networks(example_study(), failures=["a"] * 12)[0].cautions[0]


# The figure ----------------------------------------------------------------------------------------------------------


def test_colours_diverge_from_zero_end_at_a_limit_and_hold_their_own_numbers(sections):
    (matrix,) = sections[1].figures
    assert matrix.rows == ("a", "b", "c")
    assert matrix.values[0][:2] == (pytest.approx(-0.395), pytest.approx(-0.295))
    assert matrix.texts[0][0] == "a, cnn, erm: σ = −39.5 % [−40.0, −39.0]"
    (heat,) = draw(matrix).data
    assert heat.zmin == -heat.zmax
    assert dict(heat.colorscale)[0.5].upper() == "#FFFFFF"
    assert list(heat.text[0])[:2] == ["−40 %", "−30 %"]
    rows = [measured(value, group=group) for group, value in {"a": -1.0, "b": 6.4, "c": math.nan}.items()]
    (matrix,) = sections_over_networks(pd.DataFrame(rows))[1].figures
    (heat,) = draw(matrix).data
    assert [row[0] for row in heat.z][:2] == [heat.zmin, heat.zmax] == [-1.0, 1.0]
    assert math.isnan(heat.z[2][0])
    assert [row[0] for row in heat.text] == ["−100 %", "+640 %", ""]
    assert matrix.texts[2][0] == "c, small_cnn, erm: σ is undefined"


# The page ------------------------------------------------------------------------------------------------------------


def test_the_page_shows_every_section_and_is_the_same_every_time():
    html = page_of(example_study(), meanings=[("erm", "Plain training.")])
    page = Page(html)
    assert page.open == []
    for text in ("By class", "Methods against erm", "Plain training.", "▼ 2 of 2", "lowest", "What the bounds mean"):
        assert text in page.text
    assert page.text.count("In all 8 networks some groups differ") == 1  # the answer is not repeated below the heading
    assert html == page_of(example_study(), meanings=[("erm", "Plain training.")])
    assert not [a for _, a in page.tags if a.get("src") or a.get("href", "#")[0] != "#"]
    assert "goes from" not in page.text
    rows = [attacked(0.1 * epoch, epoch=epoch, asked_as=word) for epoch, word in ((1, "first"), (4, "last"))]
    assert "goes from 10 % to 40 %, on average over networks" in Page(page_of(pd.DataFrame(rows))).text
    frame = example_study().replace({"group": {"a": "1", "b": "2", "c": "3"}})
    assert page_of(frame.assign(group=frame["group"].astype(int))) == page_of(frame)  # names may be numbers


def test_names_of_strangers_are_text():
    rows = []
    for i, name in enumerate(HOSTILE):
        about = {"group": name, "data": HOSTILE[0], "model": HOSTILE[1], "partition": HOSTILE[2], "by": HOSTILE[5]}
        for method in (HOSTILE[3], HOSTILE[4]):
            rows += [measured(0.2 * i - 0.5, method=method, **about), attacked(0.1 * i, method=method, **about)]
            rows += [measured(0.2 * i, method=method, epoch=1, asked_as=HOSTILE[6], **about)]
    page = Page(page_of(pd.DataFrame(rows), failures=HOSTILE, meanings=[(HOSTILE[0], HOSTILE[1])]))
    assert page.open == []
    assert not [tag for tag, _ in page.tags if tag in ("img", "b", "i")]
    assert len(page.scripts) == 3  # a figure's numbers, plotly, and our own
    assert all(a["href"].startswith("#") for tag, a in page.tags if tag == "a")


def test_contents_lead_to_every_section_and_failures_are_named():
    parts = [example_study().assign(data=data, partition=part) for data in "xy" for part in ("sex", "age")]
    page = Page(page_of(pd.concat(parts), failures=["one"]))
    targets = [a["href"][1:] for tag, a in page.tags if tag == "a"]
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    assert set(targets) <= set(ids)
    assert targets[:6] == [f"section-{i}" for i in range(1, 7)]
    nothing = Page(page_of(pd.DataFrame(), failures=["digits, seed 0: no group <b>'nobody'</b>"]))
    assert "This study has no answer: nothing could be compared." in nothing.text
    assert "One task could not be done" in nothing.text
    assert "no group <b>'nobody'</b>" in nothing.text


def test_no_page_shows_nan():
    rows = [measured(math.nan, group="a"), measured(math.nan, group="b", seed=1), attacked(math.nan, natural=math.nan)]
    rows += [measured(0.1, group="b", method="madry"), measured(0.1, epoch=1, asked_as="first")]
    words = Page(page_of(pd.DataFrame(rows))).text.lower().split()
    assert not [word for word in words if "nan" in word.strip("“”[](),.;").split("−")]
    assert "nan" not in Page(page_of(example_study())).text.lower().replace("finance", "")
