"""Every ratio in docs/benchmarks.md and docs/benchmarks-audits.md is recomputed from the stored measurements."""

import json
import re
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from distances.peers import PEERS
from distances.store import Point, read, write
from distances.tuning import edges, ranges, tuned_entries
from distances.write import rendered

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
ROWS = json.loads((ROOT / "benchmarks" / "measured.json").read_text(encoding="utf-8"))["rows"]
TITLES = {"LeNet-5, Fashion-MNIST": "lenet", "ResNet-20, CIFAR-10": "resnet20", "robust CNN, MNIST": "robust"}
NAMES = {"LeNet": "lenet", "ResNet-20": "resnet20", "robust MNIST": "robust"}
STEPS = {"fast": 12, "accurate": 40}
TUNED = [(model, name, entry) for model, entries in tuned_entries().items() for name, entry in entries.items()]
RATIO = re.compile(r"[\d.]+×")


def sections():
    """Return the sections of the page by title."""
    return dict(part.split("\n", 1) for part in PAGE.split("\n## ")[1:])


def cells(text):
    """Return the rows of the tables in a text, without headers."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    ruled = next(i for i, line in enumerate(lines) if set("".join(line)) <= set("-"))
    return [[cell.strip() for cell in line] for line in lines[ruled + 1 :]]


def contestant(model, library, name, steps):
    (row,) = [r for r in ROWS if (r["model"], r["library"], r["name"], r["steps"]) == (model, library, name, steps)]
    return row


def passes(row):
    return (row["forward"] + row["backward"]) / 2


def pace(row):
    return row["pace"]


def is_ours(row):
    return row["library"] == "fairmargin"


def counted(row):
    """Return the mean; if only four decimals are known, with the rounding error that is worse for Fairmargin."""
    off = 0.00005 if row["taken_from"] else 0.0
    return row["mean"] + off if is_ours(row) else row["mean"] - off


def cheapest(mine, cost):
    """Return the lowest cost of a peer for the mean of one of our rows, and whether any peer reaches that mean."""
    curves = defaultdict(list)
    for row in ROWS:
        alike = (row["model"], row["norm"]) == (mine["model"], mine["norm"]) and row["samples"] >= mine["samples"]
        if alike and not is_ours(row) and cost(row) is not None:
            curves[row["library"], row["name"]].append((cost(row), counted(row)))
    if not curves:
        return None
    reached = [paid for curve in curves.values() if (paid := first_below(sorted(curve), counted(mine))) is not None]
    if reached:
        return min(reached), True
    return min((mean, paid) for curve in curves.values() for paid, mean in curve)[1], False


def first_below(curve, mean):
    """Return the cost at which a curve through (cost, mean) first reaches a mean, linear in the log of the cost."""
    if curve[0][1] <= mean:
        return curve[0][0]
    for (left, high), (right, low) in pairwise(curve):
        if low <= mean:
            return left * (right / left) ** ((high - mean) / (high - low))
    return None


def bar_ratio(what):
    """Return the ratio of a bar, and the text that the page prints."""
    if found := re.fullmatch(r"(passes|wall time), (.*), (fast|accurate)", what):
        cost = passes if found[1] == "passes" else pace
        mine = contestant(NAMES[found[2]], "fairmargin", "plumb", STEPS[found[3]])
        paid, reached = cheapest(mine, cost)
        return paid / cost(mine), ("" if reached else ">") + f"{paid / cost(mine):.2f}×"
    if found := re.fullmatch(r"lowest mean, (.*)", what):
        here = [r for r in ROWS if (r["model"], r["norm"]) == (NAMES[found[1]], "l2") and passes(r) <= 1000.5]
        here = [r for r in here if r["samples"] == max(row["samples"] for row in here)]
        ours = min(counted(r) for r in here if is_ours(r) and r["success"] == 1)
        ratio = ours / min(counted(r) for r in here if not is_ours(r))
        return ratio, f"{ratio:.3f}×"
    if found := re.fullmatch(r"wall time / bare passes, (.*), (fast|accurate)", what):
        ratio = contestant(NAMES[found[1]], "fairmargin", "plumb", STEPS[found[2]])["overhead"]
        return ratio, f"{ratio:.2f}×"
    found = re.fullmatch(r"`deepfool` against (.*)'s, wall, (.*)", what)
    peer = contestant(NAMES[found[2]], found[1], "DeepFool", 100)
    mine = contestant(NAMES[found[2]], "fairmargin", "deepfool", 0)
    ratio = pace(peer) / pace(mine)
    return ratio if mine["mean"] <= peer["mean"] else 0.0, f"{ratio:.2f}×"


def test_the_page_and_its_pictures_are_rendered_from_the_stored_measurements():
    for path, text in rendered(read()).items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run `make bench-distances BENCH_ARGS=--write`"


def test_every_bar_is_recomputed_from_the_stored_measurements_and_says_whether_it_is_met():
    table = cells(sections()["The bars"])
    assert len(table) == 17
    for what, asked, said, met in table:
        ratio, printed = bar_ratio(what)
        assert re.match(r">?[\d.]+×", said)[0] == printed, what
        bound = float(asked.strip("≥≤ ×"))
        assert met == ("yes" if (ratio >= bound if "≥" in asked else ratio <= bound) else "**no**"), what


@pytest.mark.parametrize("norm", ["L2", "L∞"])
@pytest.mark.parametrize("title", TITLES)
def test_every_row_is_a_stored_measurement_and_its_ratio_is_recomputed(title, norm):
    stored = {
        (r["library"], r["name"], r["steps"]): r
        for r in ROWS
        if (r["model"], r["norm"]) == (TITLES[title], "l2" if norm == "L2" else "linf")
    }
    shown = cells(sections()[f"{title}, {norm}"])
    assert len(shown) == len(stored)
    for who, steps, success, mean, median, both, time, bare, ratio in shown:
        library, name = re.sub(r"[*†]| \(first \d+\)", "", who).strip().split(" ", 1)
        row = stored[library, name, 0 if steps == "–" else int(steps)]
        assert [success, mean, median] == [f"{row['success']:.4g}", f"{row['mean']:.4f}", f"{row['median']:.4f}"]
        assert both == f"{row['forward']:.1f} / {row['backward']:.1f}"
        assert time == ("–" if row["pace"] is None else f"{row['pace']:.1f}")
        assert bare == ("–" if row["overhead"] is None else f"{row['overhead']:.2f}")
        assert ("†" in who) == bool(row["taken_from"])
        paid = cheapest(row, passes) if is_ours(row) else None
        if paid is None:
            assert ratio == ""
        else:
            assert ratio.endswith(f"{'' if paid[1] else '> '}{paid[0] / passes(row):.2f}×")


def test_every_printed_ratio_is_recomputed():
    checked = {RATIO.search(said)[0] for _, _, said, _ in cells(sections()["The bars"])}
    eight = contestant("lenet", "fairmargin", "plumb Linf", 8)
    checked.add(f"{cheapest(eight, passes)[0] / passes(eight):.2f}×")
    for title, text in sections().items():
        if title.startswith("Corrections"):
            assert set(RATIO.findall(text)) <= checked
        elif title == "The bars":
            assert all(len(RATIO.findall(said)) == 1 for _, _, said, _ in cells(text))
            assert not RATIO.search(text.split("\n|")[0])
        elif title.rpartition(", ")[0] in TITLES:
            assert len(RATIO.findall(text)) == sum(bool(line[-1]) for line in cells(text))
        else:
            assert not RATIO.search(text)


def test_withdrawn_claims_are_named_with_the_figures_that_replace_them():
    text = sections()["Corrections of 18 November 2026"]
    for figure in ("9.57", "0.9", "1.68 to 2.05", "1.07 to 1.86", "1.368", "1.301", "1.269", "0.871", "7.77"):
        assert figure in text
    for steps in (45, 100, 300):
        mean = contestant("robust", "adv-lib", "DDN", steps)["mean"]
        assert f"{mean:.3f} with {steps} passes" in text


@pytest.mark.parametrize(("model", "name", "entry"), TUNED, ids=[f"{model} {name}" for model, name, _ in TUNED])
def test_no_tuned_value_lies_at_an_end_of_its_range(model, name, entry):
    peer = next(p for p in PEERS if p.key == name.rpartition(" ")[0])
    assert entry["searched"].keys() == entry["settings"].keys() == ranges(peer, model).keys()
    assert not edges(entry["settings"], entry["searched"])
    assert not edges(entry["settings"], ranges(peer, model))


def test_values_at_or_beyond_an_end_of_their_range_are_found():
    # Values published for DDN with 20 steps on the robust network, and the range that was searched.
    searched = {"gamma": (0.03, 0.5), "init_norm": (0.3, 4.5)}
    assert edges({"gamma": 0.543, "init_norm": 8.59}, searched) == ["gamma", "init_norm"]
    assert edges({"gamma": 0.49}, {"gamma": (0.03, 0.5)}) == ["gamma"]
    assert edges({"gamma": 0.031}, {"gamma": (0.03, 0.5)}) == ["gamma"]
    assert edges({"gamma": 0.1}, {"gamma": (0.03, 0.5)}) == []


def test_every_peer_was_measured_with_its_own_tuned_settings():
    """Check the settings for the number of steps or, if these were not tuned, for the nearest tuned number."""
    for row in ROWS:
        peer = next((p for p in PEERS if p.key == f"{row['library']} {row['name']}"), None)
        if peer is None or not (peer.axes or peer.tuned_as):
            assert row["settings"] == {}
            continue
        tuned = {
            int(steps): entry["settings"]
            for model, (key, _, steps), entry in ((model, name.rpartition(" "), entry) for model, name, entry in TUNED)
            if model == row["model"] and key == (peer.tuned_as or peer.key)
        }
        assert row["settings"] == tuned[min(tuned, key=lambda steps: abs(steps - row["steps"]))], row["version"]


def test_the_page_names_peers_with_settings_tuned_for_another_number_of_steps():
    said = " ".join(sections()["How it was measured"].split())
    own = {(model, name) for model, name, _ in TUNED}
    for title, model in TITLES.items():
        peers = [f"{row['library']} {row['name']} {row['steps']}" for row in ROWS if row["model"] == model]
        tuned = {p.key for p in PEERS if p.axes}
        borrowing = {key for key in peers if key.rpartition(" ")[0] in tuned and (model, key) not in own}
        listed = re.search(rf"nearest number that was: .*?{title}: ([^;.]*)", said)
        assert set(listed[1].split(", ") if listed else ()) == borrowing


def test_the_bars_say_that_wall_times_are_compared_with_timed_peers_only():
    for what, _, said, _ in cells(sections()["The bars"]):
        assert ("timed peer" in said) == (what.startswith("wall time, ") and "reaches" in said)


def test_the_gain_of_plain_crown_on_robust_networks_is_that_of_its_table():
    text = (ROOT / "docs" / "benchmarks-audits.md").read_text(encoding="utf-8")
    quoted = text.partition("auto_LiRPA")[2].partition("\n## ")[0]
    gains = []
    for network, auto, _, crown, ratio in cells(quoted):
        gain = share(crown) / share(auto)
        assert float(ratio) == pytest.approx(gain, abs=0.05)
        if network.startswith(("PGD-trained", "provably robust")):
            gains.append(gain)
    low, high = re.search(r"([\d.]+) to ([\d.]+) times larger radii", text).groups()
    assert (float(low), float(high)) == (pytest.approx(min(gains), abs=0.05), pytest.approx(max(gains), abs=0.1))


def share(cell):
    return float(cell.partition(" %")[0])


def test_times_are_dropped_when_the_settings_of_a_contestant_change_and_kept_when_they_do_not():
    measured = read()
    timed = next(point for point in measured.points if point.pace is not None)
    same = measured.with_fact(replace(timed.fact, mean=1.0))
    other = measured.with_fact(replace(timed.fact, version="another", mean=1.0))
    assert len(same.points) == len(other.points) == len(measured.points)
    assert replace(timed, fact=replace(timed.fact, mean=1.0)) in same.points
    assert Point(replace(timed.fact, version="another", mean=1.0)) in other.points


def test_stored_measurements_are_read_as_they_were_written(tmp_path):
    write(read(), tmp_path / "measured.json")
    assert read(tmp_path / "measured.json") == read()
    assert (tmp_path / "measured.json").read_bytes() == (ROOT / "benchmarks" / "measured.json").read_bytes()
