from dataclasses import replace
from html import unescape

import numpy as np
import pytest

from fairmargin.core.curve import RobustnessCurve
from fairmargin.presentation.section import Curves, Line
from fairmargin.report import draw as drawn
from fairmargin.report import figures as plot
from fairmargin.report.draw import escape
from tests.report.examples import (
    HOSTILE,
    REASON,
    crowded_result,
    example_group,
    example_result,
    hostile_result,
    undefined_group,
)


def lines(figure):
    return [trace for trace in figure.data if trace.mode == "lines" and trace.fill is None]


def bands(figure):
    return [trace for trace in figure.data if trace.fill == "toself"]


def height(trace, radius):
    return float(trace.y[np.searchsorted(trace.x, np.float32(radius), side="right") - 1])


def test_every_group_has_a_step_curve_with_its_size_and_a_band_between_0_and_1():
    figure = plot.curves(example_result(), everyone=False)
    assert len(lines(figure)) == len(bands(figure)) == 3
    assert {trace.line.shape for trace in lines(figure)} == {"hv"}
    assert all(0 <= band.y.min() <= band.y.max() <= 1 for band in bands(figure))
    assert figure.layout.xaxis.title.text == "perturbation radius τ (L2)"
    assert figure.layout.yaxis.title.text == "share still classified correctly"
    names = [trace.name for trace in lines(plot.curves(example_result(groups=[example_group("8", size=1234)])))]
    assert names == ["8 (n = 1,234)"]


def test_the_drawn_curve_is_the_exact_one_up_to_the_thickness_of_a_line():
    values = np.random.default_rng(0).gamma(2, 1, 50_000)
    figure = plot.curves(example_result(groups=[replace(example_group(), curve=RobustnessCurve(values))]))
    (line,) = lines(figure)
    assert len(line.x) <= 400
    radii = np.random.default_rng(1).uniform(0.01, float(line.x[-1]), 500)
    exact = RobustnessCurve(values).at(radii)
    assert max(abs(height(line, r) - e) for r, e in zip(radii, exact, strict=True)) < 0.006


@pytest.mark.parametrize(
    ("values", "radii", "heights"),
    [([0.0, 1.0, 3.0, 4.0], [0.0, 1.0, 3.0, 4.0], [0.75, 0.5, 0.25, 0.0]), ([0.0, 0.0], [0.0], [0.0])],
)
def test_a_small_group_is_drawn_with_every_step(values, radii, heights):
    figure = plot.curves(example_result(groups=[replace(example_group(), curve=RobustnessCurve(values))]))
    (line,) = lines(figure)
    assert (line.x.tolist()[:4], line.y.tolist()[:4]) == (radii, heights)


def test_unreached_samples_keep_a_curve_up_to_the_end_of_the_axis():
    values = [0.5, 1.0, np.inf, np.inf]
    figure = plot.curves(example_result(groups=[replace(example_group(), curve=RobustnessCurve(values))]))
    (line,) = lines(figure)
    assert line.y[-1] == 0.5
    assert line.x[-1] == pytest.approx(figure.layout.xaxis.range[1])


def test_the_band_lies_around_the_curve_by_its_half_width():
    figure = plot.curves(example_result(groups=[replace(example_group(), curve=RobustnessCurve([1.0, 2.0]), band=0.2)]))
    (band,) = bands(figure)
    assert sorted(set(np.round(band.y.astype(float), 3))) == [0.0, 0.2, 0.3, 0.7, 0.8, 1.0]


def test_a_band_that_says_nothing_is_left_out():
    assert bands(plot.curves(example_result(groups=[example_group(), undefined_group()])))[0].legendgroup.startswith(
        "8"
    )
    assert len(bands(plot.curves(example_result(groups=[example_group(), undefined_group()])))) == 1


def test_the_curve_of_everyone_pools_all_samples():
    groups = [
        replace(example_group("a"), curve=RobustnessCurve([1.0])),
        replace(example_group("b"), curve=RobustnessCurve([2.0] * 3)),
    ]
    figure = plot.curves(example_result(groups=groups))
    (everyone,) = [trace for trace in lines(figure) if trace.name == "everyone"]
    assert height(everyone, 1.5) == 0.75


def test_up_to_twelve_groups_differ_in_colour_or_dash():
    figure = plot.curves(example_result([str(i) for i in range(12)]), everyone=False)
    assert len({(trace.line.color, trace.line.dash) for trace in lines(figure)}) == 12


def test_of_many_groups_only_the_least_and_the_most_robust_stand_out():
    figure = plot.curves(crowded_result(), everyone=False)
    coloured = [trace for trace in lines(figure) if trace.line.color != drawn.GREY]
    assert len(lines(figure)) == 30
    assert {trace.name.split(" (")[0] for trace in coloured} == {"region 01", "region 28"}
    assert [trace.name for trace in lines(figure) if trace.showlegend and trace not in coloured] == ["28 other groups"]


def test_the_cap_is_marked():
    assert any(note.text == "cap" for note in plot.curves(example_result(up_to=1.0)).layout.annotations)
    assert not plot.curves(example_result()).layout.annotations


def test_sigma_is_drawn_with_its_interval_in_order_and_verdicts_differ_in_shape():
    assert len({symbol for _, symbol in drawn.MARKS.values()}) == len(drawn.MARKS)
    result = example_result()
    figure = plot.sigma_intervals(result)
    assert list(figure.layout.yaxis.ticktext) == ["8", "0", "1"]
    for trace in figure.data:
        for place, value, up, down in zip(trace.y, trace.x, trace.error_x.array, trace.error_x.arrayminus, strict=True):
            row = result[figure.layout.yaxis.ticktext[place]]
            assert value == row.sigma.value
            assert (value - down, value + up) == pytest.approx((row.sigma.low, row.sigma.high))
            assert trace.name == row.verdict


def test_a_group_without_sigma_is_listed_with_the_reason_and_not_as_zero():
    figure = plot.sigma_intervals(example_result(groups=[example_group(), undefined_group("rare")]))
    assert "rare" in figure.layout.yaxis.ticktext
    assert sum(len(trace.x) for trace in figure.data) == 1
    (note,) = figure.layout.annotations
    assert note.text.startswith("undefined")
    assert note.hovertext == f"undefined: {REASON}"
    nothing = plot.sigma_intervals(example_result(groups=[undefined_group("a"), undefined_group("b")]))
    assert (len(nothing.data), len(nothing.layout.annotations)) == (0, 2)


@pytest.mark.parametrize("draw", [plot.curves, plot.sigma_intervals])
def test_no_name_reaches_plotly_as_markup_or_template(draw):
    figure = draw(hostile_result())
    texts = [trace.name or "" for trace in figure.data] + list(figure.layout.yaxis.ticktext or ())
    texts += [str(text) for trace in figure.data for text in (trace.customdata if trace.customdata is not None else ())]
    texts += [trace.hovertemplate or "" for trace in figure.data]
    assert any("&lt;script" in text for text in texts)
    for text in texts:
        bare = text.replace("<br>", "").replace("<extra></extra>", "")
        for ours in ("%{x:.3~g}", "%{y:.1%}", "%{customdata}"):
            bare = bare.replace(ours, "")
        assert "<" not in bare
        assert "%{" not in bare
    assert [unescape(escape(name)) for name in HOSTILE] == list(HOSTILE)


def test_names_that_shorten_to_the_same_text_stay_apart():
    names = [f"{'a' * 20}{middle}{'b' * 20}" for middle in "xyz"]
    labels = plot.sigma_intervals(example_result(names)).layout.yaxis.ticktext
    assert len(set(labels)) == 3


@pytest.mark.parametrize("unit", [1e-50, 1.0, 1e50])
def test_curves_of_tiny_and_huge_distances_are_drawn_at_their_radii(unit):
    line = Line("a (n = 2)", x=(0.0, unit, 2 * unit), y=(1.0, 0.5, 0.0), band=0.1, place=0)
    with np.errstate(all="raise"):
        figure = drawn.draw(Curves(title="t", x_label="x", y_label="y", lines=(line,), end=2 * unit))
    assert [max(trace.x) for trace in figure.data] == pytest.approx([2 * unit] * 2, rel=1e-6)
