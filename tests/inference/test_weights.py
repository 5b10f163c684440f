"""Samples with weights: each counts as so many samples in means, and is one sample for the precision of a mean."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.analyses.audit import audit
from fairmargin.analyses.comparison import compare
from fairmargin.core.codec import decode, encode
from fairmargin.core.curve import RobustnessCurve
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference import bootstrap
from fairmargin.inference.bootstrap import resampled_moments
from fairmargin.inference.cubature import few_units
from fairmargin.inference.design import Design
from fairmargin.inference.estimate import LESS_ROBUST, NOT_COMPARABLE, TOO_FEW
from fairmargin.inference.groups import compare_groups
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.shares import binomial_interval
from fairmargin.inference.units import LARGE, effective_units, group_means, make_cells, mean_and_error2
from tests.inference.builders import exact, groups_of

law = settings(max_examples=50, deadline=None, derandomize=True)
DESIGNS = ["alone", "clusters", "clusters across groups", "control"]


def quick(**how):
    return AuditSettings(resamples=200, **how)


def example(seed=0, size=240):
    """Return distances of three groups, and weights that depend on the group and the distance."""
    rng = np.random.default_rng(seed)
    groups = Partition.by("g", rng.choice(["a", "b", "c"], size))
    values = rng.gamma(2, 1 + 0.5 * groups.membership) * (rng.random(size) < 0.9)
    return values, groups, rng.integers(1, 5, size) * (1.0 + (values > 2))


def design_of(name, groups, seed=0):
    """Return the control and the clusters of a named design."""
    rng = np.random.default_rng([seed, 1])
    if name == "control":
        return {"control": Partition.by("class", rng.choice(["x", "y"], len(groups)))}
    if name == "clusters":
        return {"cluster": groups.membership * 100 + rng.integers(0, 40, len(groups))}
    return {"cluster": rng.integers(0, 90, len(groups))} if name == "clusters across groups" else {}


def taken(partition, rows):
    return None if partition is None else Partition(partition.name, partition.labels, partition.membership[rows])


def results(values, groups, how):
    """Return an audit, and a comparison with distances that vary by sample, as texts."""
    after = exact(values * (1 + 0.2 * np.sin(values)))
    paired = how.model_copy(update={"control": None})
    return audit(exact(values), groups, how).to_json(), compare(exact(values), after, groups, paired).to_json()


# What weights mean. --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DESIGNS)
def test_equal_weights_change_nothing_to_the_last_bit(name):
    values, groups, _ = example()
    design = design_of(name, groups)
    weighted = quick(**design, sample_weight=np.full(len(values), 0.1))
    assert results(values, groups, weighted) == results(values, groups, quick(**design))


@pytest.mark.parametrize("name", DESIGNS)
def test_only_the_ratios_of_weights_matter(name):
    values, groups, weights = example()
    first, second = (quick(**design_of(name, groups), sample_weight=unit * weights) for unit in (1.0, 2.0**900))
    assert results(values, groups, first) == results(values, groups, second)


@pytest.mark.parametrize("name", DESIGNS)
def test_the_order_of_weighted_rows_changes_nothing_to_the_last_bit(name):
    values, groups, weights = example()
    weights = weights * np.random.default_rng(3).lognormal(0, 1, len(values))
    design, order = design_of(name, groups), np.random.default_rng(2).permutation(len(values))
    cluster, control = design.get("cluster"), design.get("control")
    moved = quick(
        control=taken(control, order),
        cluster=None if cluster is None else cluster[order],
        sample_weight=weights[order],
    )
    here = results(values, groups, quick(**design, sample_weight=weights))
    assert results(values[order], taken(groups, order), moved) == here


@pytest.mark.parametrize("name", DESIGNS)
def test_samples_of_weight_0_count_as_absent(name):
    values, groups, weights = example()
    weights = np.where(np.arange(len(values)) % 3, weights, 0.0)
    design, there = design_of(name, groups), np.flatnonzero(weights)
    cluster = design.get("cluster")
    without = quick(
        control=taken(design.get("control"), there),
        cluster=None if cluster is None else cluster[there],
        sample_weight=weights[there],
    )
    found = audit(exact(values), groups, quick(**design, sample_weight=weights))
    assert found.warnings[-1] == "80 of 240 samples have weight 0 and count as absent."
    assert encode(found.groups) == encode(audit(exact(values[there]), taken(groups, there), without).groups)


@pytest.mark.parametrize("name", DESIGNS)
def test_means_are_those_of_samples_that_occur_as_often_as_their_weight_says(name):
    values, groups, weights = example()
    design, often = design_of(name, groups), np.repeat(np.arange(len(values)), weights.astype(int))
    cluster = np.arange(len(values)) if "cluster" not in design else design["cluster"]
    repeated = quick(control=taken(design.get("control"), often), cluster=cluster[often])
    one = audit(exact(values), groups, quick(**design, sample_weight=weights))
    other = audit(exact(values[often]), taken(groups, often), repeated)
    for row in one:
        same = other[row.group]
        for field in ("accuracy", "robustness", "sigma", "gap_to_rest"):
            assert getattr(row, field).value == pytest.approx(getattr(same, field).value, rel=1e-9)
        assert row.unreached == same.unreached
        assert row.curve.at(np.linspace(0, 5, 50)) == pytest.approx(same.curve.at(np.linspace(0, 5, 50)))
        assert row.curve.area() == pytest.approx(row.robustness.value)
        assert (row.size, row.effective) != (same.size, same.size)
    assert one.overall.robustness.value == pytest.approx(other.overall.robustness.value)
    assert one.overall.accuracy.value == pytest.approx(other.overall.accuracy.value)
    columns = [each.to_frame()["robustness_bias_max"].to_numpy() for each in (one, other)]
    assert columns[0] == pytest.approx(columns[1])


@pytest.mark.parametrize("name", ["alone", "clusters", "clusters across groups"])
def test_the_standard_error_is_that_of_the_obvious_loop(name):
    values, groups, weights = example()
    cluster = design_of(name, groups).get("cluster", np.arange(len(values)))
    how = quick(sample_weight=weights, cluster=None if name == "alone" else cluster)
    means, _ = compare_groups(values, groups, how, how.cluster_codes(len(values)))
    for g, (_, mask) in enumerate(groups):
        mean = np.average(values[mask], weights=weights[mask])
        units = [mask & (cluster == who) for who in sorted(set(cluster[mask].tolist()))]
        squares = sum((weights[unit] * (values[unit] - mean)).sum() ** 2 for unit in units)
        # Clusters across groups are resampled from all of them, so that their number is that of all clusters.
        count = len(set(cluster.tolist())) if name == "clusters across groups" else len(units)
        error2 = count / (count - 1) * squares / weights[mask].sum() ** 2
        assert means.mean[g] == pytest.approx(mean)
        assert means.error2[g] == pytest.approx(error2)


def test_weights_matter_for_groups_that_were_sampled_unequally():
    """Of each group, 80 % of the far samples were drawn and 20 % of the near ones: their mean is far too large."""
    covered = {"weighted": 0, "unweighted": 0}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        population = rng.gamma(2, 1, 1_000)
        far, first = population > 1.7, np.arange(1_000) < 500
        share = np.where(far == first, 0.8, 0.2)
        drawn = rng.random(1_000) < share
        groups, values = Partition.by("g", first[drawn].tolist()), exact(population[drawn])
        for name, how in (("weighted", quick(sample_weight=1 / share[drawn])), ("unweighted", quick())):
            sigma = audit(values, groups, how).groups[0].sigma
            covered[name] += sigma.low <= 0 <= sigma.high
    assert covered["weighted"] >= 6
    assert covered["unweighted"] == 0


# Effective numbers. --------------------------------------------------------------------------------------------------


def test_the_effective_number_of_units_is_that_of_equal_ones_with_the_same_error():
    cells = make_cells(np.arange(6.0), groups_of(4, 2), None, None, np.array([1.0, 1, 1, 1, 3, 1]))
    assert cells is not None
    assert effective_units(cells.moments()).tolist() == [4, 1.6]


@law
@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=40))
def test_the_effective_number_lies_between_1_and_the_number_of_samples(weights):
    design = Design.of(AuditSettings(sample_weight=weights), len(weights))
    size = design.effective(np.arange(len(weights)))
    assert size * (1 + 1e-12) >= 1
    assert size <= len(weights) * (1 + 1e-12)


def test_verdicts_are_decided_by_the_effective_number():
    rng = np.random.default_rng(0)
    values, groups = exact(rng.gamma(2, 1, 300) * np.repeat([1.0, 4.0], 150)), groups_of(150, 150)
    weights = np.where(np.arange(300) % 10, 1e-6, 1.0)
    assert audit(values, groups, quick())["g0"].verdict == LESS_ROBUST
    found = audit(values, groups, quick(sample_weight=weights))
    assert {row.verdict for row in found} == {TOO_FEW}
    assert found["g0"].reason == "it has 15 effective samples; a reliable interval needs 30, a verdict 50"
    changed = compare(values, exact(2 * values.values), groups, quick(sample_weight=weights))
    assert {row.verdict for row in changed} == {TOO_FEW}


def test_all_weight_on_one_sample_leaves_one_sample():
    values, groups, _ = example()
    found = audit(exact(values), groups, quick(sample_weight=np.arange(len(values)) == 7))
    (row,) = found
    assert (row.size, row.verdict, row.reason) == (1, NOT_COMPARABLE, "there is no sample outside the group")
    assert np.isnan(row.robustness.low)
    assert row.robustness.reason == f"group {row.group!r} has 1 independent sample; an interval needs at least 2"
    nearly = audit(exact(values), groups, quick(sample_weight=np.where(np.arange(len(values)) == 7, 1.0, 1e-9)))
    assert {row.verdict for row in nearly} == {TOO_FEW}


def test_a_group_without_weight_is_left_out_and_named():
    values, groups, weights = example()
    weights = np.where(groups.membership == 1, 0.0, weights)
    found = audit(exact(values), groups, quick(sample_weight=weights))
    assert [row.group for row in found] == ["a", "c"]
    absent = (groups.membership == 1).sum()
    said = f"{absent} of 240 samples have weight 0 and count as absent, among them all of “b”, which is left out."
    assert found.warnings == (said,)
    assert compare(exact(values), exact(values), groups, quick(sample_weight=weights)).warnings[-1] == said


def test_accuracy_is_covered_where_misclassified_samples_have_larger_weights():
    """The interval of a weighted share allows for weights that depend on what is counted."""
    rng, covered, trials = np.random.default_rng(0), 0, 400
    for _ in range(trials):
        hits = rng.random(200) < 0.8
        weights = np.where(hits, rng.choice([1.0, 2.0], 200), rng.choice([1.0, 9.0], 200))
        truth = 0.8 * 1.5 / (0.8 * 1.5 + 0.2 * 5)
        value, size = Design(None, weights).share(hits, np.arange(200))
        low, high = binomial_interval(value * size, size, 0.95)
        covered += low <= truth <= high
    assert covered / trials >= 0.93


# Large cells. --------------------------------------------------------------------------------------------------------


@law
@given(st.lists(st.tuples(st.floats(0.1, 10), st.just(0.0) | st.floats(0.01, 100)), min_size=1, max_size=80))
def test_few_units_have_the_moments_of_all_and_are_among_them(pairs):
    samples, total = np.array(sorted(pairs)).T
    units, shares = few_units(samples, total)
    assert len(units) <= 15
    assert shares.min() > 0
    for i in range(5):
        for j in range(5 - i):
            expected = np.mean(samples**i * total**j)
            assert shares @ (samples[units] ** i * total[units] ** j) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("tail", ["gamma", "Pareto", "95 % zeros"])
def test_sums_drawn_from_few_units_are_distributed_as_those_of_drawn_units(tail, monkeypatch):
    rng, size = np.random.default_rng(1), 2_000
    values = {"gamma": rng.gamma(2, 1, size), "Pareto": rng.pareto(3, size)}.get(tail, rng.gamma(2, 1, size))
    values = values * (rng.random(size) < 0.05) if tail == "95 % zeros" else values
    weights = rng.lognormal(0, 1, size) * np.where(values > 1, 2.0, 1.0)
    cells = make_cells(values, groups_of(size), None, None, weights / weights.mean())
    assert cells is not None

    def quantiles(seed):
        mean, error2 = zip(
            *(mean_and_error2(part[:, 0, 0]) for part in resampled_moments(cells, 20_000, seed)), strict=True
        )
        observed, _ = group_means(cells.moments())
        t = np.log(np.concatenate(mean) / observed) * np.concatenate(mean) / np.sqrt(np.concatenate(error2))
        return np.quantile(t, [0.005, 0.025, 0.5, 0.975, 0.995])

    from_few = quantiles(1)
    monkeypatch.setattr(bootstrap, "LARGE", LARGE * 1_000)
    assert from_few == pytest.approx(quantiles(2), abs=0.12)


# Settings and stored curves. -----------------------------------------------------------------------------------------


def test_weights_have_a_mean_of_1_whatever_their_unit():
    for unit in (1e-300, 1.0, 1e300):
        weights = AuditSettings(sample_weight=unit * np.array([1.0, 2.0, 3.0])).weights(3)
        assert weights == pytest.approx([0.5, 1.0, 1.5])


def test_a_weighted_curve_is_stored_with_its_weights():
    curve = RobustnessCurve([3.0, 1.0, np.inf], [1.0, 2.0, 5.0])
    again = decode(RobustnessCurve, encode(curve))
    assert (again.values.tolist(), again.weights.tolist()) == ([1, 3, np.inf], [2, 1, 5])
    assert again.at([0.0, 1.0, 3.0]).tolist() == [1.0, 0.75, 0.625]


def test_distances_that_are_all_equal_have_a_band_of_their_effective_number():
    design = Design(None, np.array([1.0, 3.0]))
    curve = RobustnessCurve.of(Distances([1.0, 1.0], [True, True], "exact", "l2"), None, design.weights)
    assert design.curve_size(curve, 1.6) == 1.6


def test_effective_numbers_stand_beside_sizes_only_where_weights_make_them_differ() -> None:
    values, groups = np.random.default_rng(0).gamma(2, 1, 120), groups_of(60, 60)
    weights = np.append(np.repeat([8.0, 1.0], 30), np.ones(60))
    found = audit(exact(values), groups, AuditSettings(resamples=200, sample_weight=weights))
    cells = [cell.text for row in found.section().tables[0].rows for cell in row]
    assert {"60 (37)", "60 (60)"} <= set(cells)
    assert found["g0"].reason == "it has 37 effective samples, enough for an interval; a verdict needs 50"
    equal = audit(exact(values), groups, AuditSettings(resamples=200))
    assert [cell.text for row in equal.section().tables[0].rows for cell in row].count("60") == 2
