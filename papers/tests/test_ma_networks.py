"""Ma's trained claims: verdicts on made-up accuracies, both ways, and studies that can be planned at every scale."""

from dataclasses import replace

import numpy as np
import pytest

from fairmargin.core.progress import silent
from fairmargin.runner.trainer import make_method
from fairmargin.study.study_file import make_study
from fairmargin_papers.ma import networks as ma_networks
from fairmargin_papers.ma.claims import (
    CHANGES,
    class_rows,
    fat_rows,
    further_rows,
    on_trades_rows,
    slope_of,
    sweep_rows,
    weight_places,
    weight_rows,
    weight_values,
)
from fairmargin_papers.ma.figures import cells_table, classes_table
from fairmargin_papers.ma.measures import (
    Swept,
    attack_number,
    guarded,
    lost,
    mean_accuracy,
    places_of,
    relative_change,
    share_of_cells,
    variation,
    vcra,
    worst_class,
)
from fairmargin_papers.ma.paper import CLAIMS as PRINTED
from fairmargin_papers.ma.sweep import (
    ATTACKS,
    FAT,
    FAT_TRADES,
    FGSM,
    MADRY,
    PGD,
    TRADES,
    Sweep,
    further_sweep,
    main_sweep,
    weighted,
)
from fairmargin_papers.shared.claims import lettered
from fairmargin_papers.shared.paper import SCALES, Assignment, NotPossibleHereError

CLAIMS = {claim.number: claim for claim in PRINTED}
RADII = (4, 8, 12, 16)
MANY = np.full(10, 1e9)  # so many test samples that chance adds nothing to a variance


def assignment(scale, folder):
    return Assignment(scale, folder, CLAIMS, silent)


def sweep():
    return Sweep(
        data={"data": "cifar10", "size": 16},
        networks=("small_cnn",),
        radii={MADRY: RADII, TRADES: RADII, FAT: RADII, FAT_TRADES: (8, 16)},
        steps=3,
        step=0.5,
        training={"epochs": 3},
        seeds=(0, 1, 2),
        weights=(1.0, 10.0),
    )


def swept(spread_of, mean_of, noise=0.0):
    """Classes at mean ± spread, by method and radius; seeds differ a little, so that intervals have a width."""
    stream, shares = np.random.default_rng(3), {}
    half = np.where(np.arange(10) % 2 == 0, 1.0, -1.0)
    for method, radius in sweep().trained():
        base = mean_of(method, radius) + spread_of(method, radius) * half
        shares[method, radius] = np.clip(base + noise * stream.standard_normal((3, 3, 2, 10)), 0, 1)
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    return Swept(sweep(), tuple(names), MANY, shares, dict.fromkeys(shares, np.full((3, 10), 0.6)))


def rising(_method, radius):
    return 0.02 + radius / 200


def falling(_method, radius):
    return 0.12 - radius / 200


def level(_method, _radius):
    return 0.3


def by_name(rows):
    return {row.name: row for row in lettered(rows)}


def verdicts(rows):
    return {name: row.verdict for name, row in by_name(rows).items()}


def test_variance_and_accuracy_that_rise_with_the_radius_hold():
    found = verdicts(sweep_rows(CLAIMS, swept(rising, lambda m, r: 0.3 + r / 100, 0.002), ""))
    assert set(found) == {"7a", "7b", "8", *(f"9{letter}" for letter in "abcdef"), *(f"10{x}" for x in "abcdefghi")}
    assert set(found.values()) == {"holds"}


def test_variance_and_accuracy_that_fall_with_the_radius_do_not_hold():
    found = verdicts(sweep_rows(CLAIMS, swept(falling, lambda m, r: 0.5 - r / 100, 0.002), ""))
    assert {found[name] for name in ("7a", "8", "9a", "9b", "9c", "9d", "10a", "10b", "10c", "10d", "10e", "10f")} == {
        "does not hold"
    }


def test_a_row_says_of_how_many_classes_nothing_withstands():
    found = swept(rising, lambda m, r: 0.3 + r / 100, 0.002)
    shares = {place: values.copy() for place, values in found.shares.items()}
    shares[MADRY, 16][..., :3] = 0.0
    rows = by_name(sweep_rows(CLAIMS, replace(found, shares=shares), ""))
    assert "Trained with 16/255, 3 of 10 classes have a robust accuracy of 0" in rows["7a"].remark
    assert "accuracy of 0" not in rows["10a"].remark
    assert rows["8"].ours.endswith(" points per 4/255")  # a change of per cent
    assert rows["8"].ours.count("→") == 3  # all four radii: a line can rise although its last value falls


def test_noise_alone_decides_nothing():
    found = sweep_rows(CLAIMS, swept(level, level, 0.05), "")
    assert sum(row.verdict == "undecided" for row in found) >= len(found) - 2
    assert all(row.interval[0] < row.interval[1] for row in found)


def test_the_variance_may_rise_while_classes_become_more_alike_for_their_accuracy():
    # As in the paper's own table: PGD-20 accuracy 3.5 → 22.5 %, VCRA 0.10 → 1.28, so √VCRA ÷ accuracy 0.89 → 0.50.
    found = sweep_rows(CLAIMS, swept(lambda m, r: 0.02 + 0.005 * r, lambda m, r: 0.02 + 0.012 * r, 0.0005), "")
    rows = by_name(found)
    assert rows["9a"].verdict == "holds"
    assert rows["9e"].verdict == "does not hold"
    assert rows["9e"].text.startswith("(ours)")
    assert "0.89 → 0.50" in rows["9e"].printed


def test_a_variation_that_is_not_defined_is_undecided_and_says_so():
    found = by_name(sweep_rows(CLAIMS, swept(lambda m, r: 0.0, lambda m, r: 0.0), ""))
    assert found["9e"].verdict == "undecided"
    assert found["9e"].interval is None
    assert "not defined" in found["9e"].ours
    assert slope_of(RADII, np.full((3, 4), np.nan)) is None


def test_each_class_is_held_against_its_own_printed_direction():
    made = swept(level, lambda m, r: 0.5)
    shift = np.zeros(10)
    shift[[3, 4]], shift[[7, 8]] = -0.1, 0.2
    last = made.shares[MADRY, 16] + shift + 0.01 * np.arange(3)[:, None, None, None]
    made = replace(made, shares={**made.shares, (MADRY, 16): last})
    found = class_rows(CLAIMS[11], made, "")
    assert [row.verdict for row in found[:4]] == ["holds"] * 4
    assert len(found) == 5
    assert found[0].printed.startswith("−4.2")
    assert "+21.00" in found[2].ours
    upside_down = replace(made, shares={**made.shares, (MADRY, 4): last, (MADRY, 16): made.shares[MADRY, 4]})
    assert [row.verdict for row in class_rows(CLAIMS[11], upside_down, "")[:4]] == ["does not hold"] * 4
    assert [made.classes[place] for place, _, _ in CHANGES.values()] == list(CHANGES)


def test_a_class_of_other_data_is_named_beside_the_one_that_it_stands_for():
    made = replace(swept(level, level, 0.01), classes=tuple("0123456789"))
    assert "cat (here: 3)" in class_rows(CLAIMS[11], made, "")[0].text


def fairer(method, _radius):
    return {MADRY: 0.2, TRADES: 0.2}.get(method, 0.15)


def test_a_method_that_is_fairer_everywhere_at_equal_accuracy_is_seen():
    made = swept(fairer, level, 0.004)
    found = by_name(fat_rows(CLAIMS, made, ""))
    assert found["12a"].ours == "lower in 72 of 72 cells (100%)"
    assert found["12a"].chance == 0.5
    assert {found[name].verdict for name in ("12a", "12b", "13b", "14")} == {"holds"}
    assert found["14"].interval[1] < 0
    assert {row.verdict for row in on_trades_rows(CLAIMS[16], made, "")[1:]} == {"holds"}


def test_a_method_that_is_less_fair_and_less_accurate_is_refuted():
    made = swept(lambda m, r: 0.35 - fairer(m, r), lambda m, r: 0.5 if m == MADRY else 0.4, 0.004)
    found = verdicts(fat_rows(CLAIMS, made, ""))
    assert found == dict.fromkeys(("12a", "12b", "13a", "13b", "14"), "does not hold")


def cells(*seeds):
    """Differences of 4 × 6 cells for each seed."""
    return np.broadcast_to(np.reshape(seeds, (-1, 1, 1)), (len(seeds), 4, 6))


@pytest.mark.parametrize(
    ("differences", "share", "interval"),
    [
        (cells(0, 0, 0), 1 / 2, (0.211, 0.789)),  # ties count half
        # Student's t alone would be certain; the interval is that of coin flips, one per pair of networks.
        (np.ones((2, 1, 6)), 1, (0.025**0.5, 1)),
        (cells(1, 1, 1), 1, (0.025 ** (1 / 12), 1)),
        (cells(1), 1, (0, 1)),  # a single seed
        (cells(1, 1, -1), 2 / 3, (0, 1)),  # seeds that disagree
    ],
)
def test_a_share_of_cells_is_never_more_certain_than_coin_flips(differences, share, interval):
    found = share_of_cells(differences)
    assert found.share == pytest.approx(share)
    assert (found.low, found.high) == pytest.approx(interval, abs=1e-3)


def test_one_cell_that_differs_makes_the_share_less_certain():
    almost = np.ones((3, 4, 6))
    almost[0, 0, 0] = -1
    assert share_of_cells(almost).low < share_of_cells(np.ones((3, 4, 6))).low


def test_a_change_relative_to_nothing_is_none():
    assert relative_change(np.ones((2, 3)), np.zeros((2, 3))) is None
    assert relative_change(np.full((2, 3), 3.0), np.full((2, 3), 4.0)).mean == pytest.approx(-25)


def lambda_spread(method, _radius):
    return {MADRY: 0.2, FAT: 0.18, weighted(1.0): 0.15, weighted(10.0): 0.1}.get(method, 0.2)


def test_values_of_lambda_are_in_order_and_begin_with_madry():
    order, spread, rate = weight_values(swept(lambda_spread, level), PGD)
    assert order == (0.0, 0.1, 1.0, 10.0)
    assert spread[0].tolist() == pytest.approx([4.0, 3.24, 2.25, 1.0])
    assert rate[0].tolist() == pytest.approx([30.0] * 4)


def test_a_larger_lambda_that_lowers_the_variance_holds_and_one_that_raises_it_does_not():
    down = verdicts(weight_rows(CLAIMS[15], swept(lambda_spread, level, 0.003), ""))
    up = verdicts(weight_rows(CLAIMS[15], swept(lambda m, r: 0.3 - lambda_spread(m, r), level, 0.003), ""))
    assert down == {"15a": "holds", "15b": "holds"}
    assert up["15a"] == "does not hold"
    costly = swept(lambda_spread, lambda m, r: 0.3 if m == MADRY else 0.2, 0.003)
    assert verdicts(weight_rows(CLAIMS[15], costly, ""))["15b"] == "does not hold"


def test_further_data_have_rows_for_both_statements():
    found = further_rows(CLAIMS[16], swept(lambda m, r: rising(m, r) * (0.8 if m == FAT else 1), level, 0.001), "")
    assert verdicts(found) == {"16a": "holds", "16b": "undecided", "16c": "holds", "16d": "holds"}


def test_networks_that_learned_nothing_leave_rows_undecided_whatever_their_variance():
    made = swept(rising, lambda m, r: 0.3 + r / 100, 0.002)
    natural = made.natural[MADRY, 16].copy()
    natural[1] = np.eye(10)[4]  # always the same class
    broken = replace(made, natural={**made.natural, (MADRY, 16): natural})
    found = by_name(sweep_rows(CLAIMS, broken, ""))
    assert found["7a"].verdict == "undecided"
    assert "1 of 12 networks learned nothing" in found["7a"].remark
    assert found["10a"].verdict == "holds"  # of other networks
    assert lost(broken, places_of(broken, MADRY, FAT)) == 1
    assert guarded([CLAIMS[7]], made, places_of(made, MADRY)) == [CLAIMS[7]]
    assert weight_places(made) == ((MADRY, 8), (FAT, 8), (weighted(1.0), 8), (weighted(10.0), 8))


def test_chance_adds_nothing_to_the_variance_on_average():
    stream, true, size = np.random.default_rng(0), np.array([0.2, 0.3, 0.5, 0.6]), 50
    drawn = stream.binomial(size, true, (8_000, 4)) / size
    plain, less = np.var(drawn, axis=1).mean(), vcra(drawn, np.full(4, float(size))).mean()
    assert less == pytest.approx(np.var(true), rel=0.02)
    assert plain > 1.1 * np.var(true)


def test_measures_look_along_the_classes():
    shares = np.array([[[0.2, 0.4], [0.0, 0.0]]])
    assert np.allclose(mean_accuracy(shares), [[0.3, 0.0]])
    assert worst_class(shares).tolist() == [[0.2, 0.0]]
    assert np.isnan(variation(shares, np.array([1e9, 1e9]))[0, 1])


def test_arrays_keep_seeds_radii_attacks_and_tests_apart():
    made = swept(level, level)
    marked = made.shares[MADRY, 8].copy()
    marked[1, attack_number(PGD), 1, 5] = 0.77
    made = replace(made, shares={**made.shares, (MADRY, 8): marked})
    assert made.at(MADRY, PGD, 20)[1, 1, 5] == 0.77
    assert 0.77 not in made.at(MADRY, PGD, 16)
    assert 0.77 not in made.at(MADRY, FGSM, 20)


@pytest.mark.parametrize("scale", SCALES)
def test_the_studies_of_every_scale_can_be_planned(scale, tmp_path):
    given = assignment(scale, tmp_path)
    for chosen in (main_sweep(given), further_sweep(given)):
        members = make_study(chosen.sections()).members
        assert {len(member.measurements) for member in members} == {len(ATTACKS)}
        assert {len(each.options.radius) for each in members[0].measurements} == {len(chosen.tests)}
        expected = len(list(chosen.trained())) + sum(len(chosen.radii[MADRY]) for _ in chosen.networks[1:])
        assert len(members) == expected * len(chosen.seeds)


def test_the_paper_scale_is_the_papers(tmp_path):
    chosen = main_sweep(assignment("paper", tmp_path))
    members = make_study(chosen.sections()).members
    assert {member.model.model for member in members} == {"arch:resnet18", "arch:resnet50"}
    assert {member.train.epochs for member in members} == {120}
    methods = [make_method(member.train) for member in members]
    assert {(method.steps, method.step) for method in methods} == {(20, 0.1)}
    assert {round(method.radius * 255) for method in methods} == set(RADII)
    assert further_sweep(assignment("paper", tmp_path)).name == "cifar100"


def test_lambda_reaches_the_method(tmp_path):
    chosen = main_sweep(assignment("laptop", tmp_path))
    members = make_study(chosen.sections()).members
    weights = {each.method: make_method(each.train).weight for each in members if each.method.startswith("fat")}
    assert weights["fat 8/255"] == weights["fat_trades 8/255"] == 0.1
    assert weights["fat λ=10 8/255"] == 10.0


def test_without_cifar100_only_its_own_row_stays_untested(tmp_path, monkeypatch):
    def missing(*_):
        raise NotPossibleHereError("there is no CIFAR-100 here")

    monkeypatch.setattr(ma_networks, "run_grid", missing)
    found, notes = ma_networks._further(assignment("laptop", tmp_path))
    assert [(row.verdict, row.remark) for row in found] == [("not tested", "there is no CIFAR-100 here")]
    assert notes == ()


def test_pictures_can_be_drawn_even_of_networks_that_withstand_nothing():
    nothing = swept(lambda m, r: 0.0, lambda m, r: 0.0)
    assert len(ma_networks._pictures(nothing, nothing)) == 5


def test_every_cell_of_the_table_stands_beside_the_printed_one():
    table = cells_table(swept(rising, rising))
    assert len(table.rows) == 3 * 2 * 4
    rows = {row[:3]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    last = rows["C&W", "20/255", "16/255"]
    assert (last["madry printed"], last["fat printed"]) == ("12.65", "12.99")  # of two columns of one name the second
    assert table.rows[0][3:7] == (table.rows[0][3], "1.90", table.rows[0][5], "1.76")
    spread, mean = rising("madry", 16), rising("madry", 16)
    assert last["VCRA ·10⁻², madry"] == f"{100 * spread**2:.2f}"
    assert last["robust %, trades"] == f"{100 * mean:.1f}"


def test_classes_are_listed_with_their_change_and_the_printed_one():
    table = classes_table(swept(rising, level, noise=0.01))
    assert [row[-1] for row in table.rows] == ["–"] * 3 + ["−4.2", "−3.8"] + ["–"] * 2 + ["+11.5", "+28.2", "–"]
    assert all("±" in row[-2] for row in table.rows)


def test_remarks_say_with_what_the_claim_was_tested(tmp_path):
    chosen = main_sweep(assignment("laptop", tmp_path))
    said = ma_networks.remark_on(assignment("laptop", tmp_path), chosen, chosen.network)
    assert "small_cnn on CIFAR-10 shrunk to 16×16" in said
    assert "nothing about the claim" in ma_networks.remark_on(assignment("smoke", tmp_path), chosen, "small_cnn")
