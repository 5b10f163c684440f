"""Means from few expensive and many cheap distances are right for all cheap ones, and precise for good ones."""

import importlib.util
import sys
import types
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.precision.allocation import Errors, allocate
from fairmargin.inference.precision.control_variate import Pool, chances, control_variate_means, sizes_by
from fairmargin.inference.precision.log_contrast import log_contrast
from fairmargin.inference.precision.prediction import cross_predictions
from fairmargin.inference.precision.rounds import REFERENCE, PrecisionTarget, to_precision
from tests.peers import peer

KINDS = {  # reference distances of n correct samples, their cheap distances, and the true mean
    "good": (lambda rng, n: rng.gamma(2, 0.5, n), lambda rng, r: r * rng.lognormal(0, 0.25, len(r)), 1.0),
    "useless": (lambda rng, n: rng.gamma(1.5, 0.5, n), lambda rng, r: rng.gamma(1, 1, len(r)), 0.75),
    "bent": (lambda rng, n: rng.gamma(1.5, 0.5, n), lambda rng, r: r**2 * rng.lognormal(0, 0.3, len(r)), 0.75),
}
ACCURACY = 0.9


def _normal_interval(mean, error, alpha, alternative):
    """Return the two-sided interval of statsmodels' function of this name."""
    assert alternative == "two-sided"
    reach = stats.norm.ppf(1 - alpha / 2) * error
    return mean - reach, mean + reach


STUBS = {
    "numba": {"njit": lambda function: function},
    "gdown": {},
    "statsmodels": {},
    "statsmodels.regression": {},
    "statsmodels.regression.linear_model": {"OLS": None, "WLS": None},
    "statsmodels.stats": {},
    "statsmodels.stats.weightstats": {
        "_zconfint_generic": _normal_interval,
        "_zstat_generic": None,
        "_zstat_generic2": None,
    },
}


def draw(rng, kind, samples):
    """Return which samples are correct, their reference distances, and their cheap distances."""
    make, cheapen, _ = KINDS[kind]
    correct = rng.random(samples) < ACCURACY
    r = make(rng, samples)
    return correct, np.where(correct, r, 0.0), np.where(correct, cheapen(rng, r), 0.0)


def pools(rng, kind, groups, samples, few, by_size):
    """Return many groups of one kind, in which the reference measured `few` correct samples, and their true means."""
    correct, r, c = draw(rng, kind, groups * samples)
    group = np.repeat(np.arange(groups), samples)
    chance, known, size = np.ones(len(r)), np.full(len(r), np.nan), np.ones(len(r))
    for g in range(groups):
        own = g * samples + np.flatnonzero(correct[g * samples : (g + 1) * samples])
        size[own] = sizes_by(c[own]) if by_size else 1.0
        chance[own] = chances(size[own], few)
        place = (rng.permutation(len(own)) + 0.5) / len(own)
        taken = own[np.argsort(place / chance[own])[:few]]
        known[taken] = r[taken]
    pool = Pool(group, np.full(groups, samples), correct, c, known, chance, size)
    return pool, r.reshape(groups, samples).mean(axis=1)


def covered(means, truth):
    reach = stats.t.ppf(0.975, means.freedom) * np.sqrt(means.error2) / means.mean
    return float((np.abs(np.log(means.mean / truth)) <= reach).mean())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("few", "by_size"), [(30, False), (60, True)])
def test_intervals_cover_for_the_population_and_for_these_samples(kind, few, by_size):
    pool, own = pools(np.random.default_rng(1), kind, 1000, 300, few, by_size)
    for finite, truth in ((False, ACCURACY * KINDS[kind][2]), (True, own)):
        # More than 95 %: no group's largest residual counts as smaller than is usual, and 30 samples seldom hold it.
        assert 0.93 <= covered(control_variate_means(pool, finite=finite), truth) <= 0.99


def test_a_good_cheap_estimator_and_a_draw_by_size_shorten_and_a_useless_one_does_not_mislead():
    rng = np.random.default_rng(2)
    good, useless, sized = (
        control_variate_means(pools(rng, kind, 200, 1000, 50, by_size)[0], finite=True)
        for kind, by_size in (("good", False), ("useless", False), ("good", True))
    )
    assert np.median(good.correlation) > 0.85
    assert np.median(good.error2 / (good.spread2 / 50)) < 0.35
    assert abs(useless.mean.mean() / (ACCURACY * 0.75) - 1) < 0.01
    assert np.median(useless.error2 / (useless.spread2 / 50)) < 1.1
    assert sized.error2.mean() < 0.8 * good.error2.mean()


def test_with_the_reference_everywhere_it_is_the_plain_mean():
    pool, own = pools(np.random.default_rng(4), "bent", 3, 200, 1000, True)
    found = control_variate_means(pool, finite=True)
    np.testing.assert_allclose(found.mean, own, rtol=1e-12)
    np.testing.assert_allclose(found.error2, 0, atol=1e-15)


def test_infinite_cheap_distances_are_taken_for_the_largest_seen():
    pool, own = pools(np.random.default_rng(5), "good", 1, 2000, 200, False)
    cheap = np.where(pool.correct & (np.arange(2000) % 50 == 0), np.inf, pool.cheap)
    found = control_variate_means(replace(pool, cheap=cheap), finite=True)
    assert abs(found.mean[0] - own[0]) < 4 * np.sqrt(found.error2[0])
    assert np.isfinite(found.error2).all()


def test_a_prediction_never_depends_on_the_samples_own_reference():
    rng = np.random.default_rng(6)
    cheap = rng.gamma(2, 1, 100)
    reference = np.where(np.arange(100) < 60, cheap + rng.normal(size=100), np.nan)
    everyone = np.ones(100), np.repeat([0, 1], 50), np.ones(100, dtype=bool)
    before = cross_predictions(cheap, reference, *everyone)
    reference[7] = 1e6
    after = cross_predictions(cheap, reference, *everyone)
    assert before[7] == after[7]
    assert before[8] != after[8]


def test_a_group_that_is_never_right_has_mean_0_and_one_with_one_reference_has_none():
    group, r = np.repeat([0, 1, 2], 40), np.full(120, np.nan)
    r[40], r[80:] = 1.0, 1.0 + np.arange(40) / 40
    pool = Pool(group, np.full(3, 40), group > 0, np.ones(120), r, np.ones(120), np.ones(120))
    found = control_variate_means(pool, finite=True)
    assert found.mean[0] == 0
    assert np.isnan(found.mean[1])
    assert found.mean[2] == pytest.approx(r[80:].mean())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=50), st.integers(1, 60), st.floats(0, 0.3))
def test_chances_add_up_and_grow_with_the_size(size, count, least):
    size = np.array(size)
    chance = chances(size, count, least)
    assert ((chance > 0) & (chance <= 1)).all()
    assert chance.sum() >= min(count, len(size)) * (1 - 1e-6)
    assert (np.diff(chance[np.argsort(size)]) >= -1e-12).all()


def test_plain_means_agree_with_ppi_python(monkeypatch):
    missing = {name for name in STUBS if "." not in name and importlib.util.find_spec(name) is None}
    for name, parts in STUBS.items():  # packages that ppi_py imports for other purposes than the mean
        if name.partition(".")[0] in missing:
            stub = types.ModuleType(name)
            vars(stub).update(parts)
            monkeypatch.setitem(sys.modules, name, stub)
    ppi = peer("ppi_py")
    rng = np.random.default_rng(7)
    cheap = rng.gamma(2, 1, 4000)
    r = 0.8 * cheap + rng.normal(size=4000)
    known = np.arange(4000) < 400
    pool = Pool(
        np.zeros(4000, dtype=np.int64), np.array([4000]), np.ones(4000, dtype=bool), cheap, np.where(known, r, np.nan),
        np.full(4000, 0.1), np.ones(4000),
    )  # fmt: skip
    found = control_variate_means(pool, finite=False)
    predicted = cross_predictions(cheap, pool.reference, np.ones(4000), pool.group, pool.correct)
    # ppi_py averages predictions over the unlabelled samples, this package over all; with this λ both are equal.
    given = predicted[known], predicted[~known]
    theirs = float(np.squeeze(ppi.ppi_mean_pointestimate(r[known], *given, lam=0.9)))
    low, high = map(float, map(np.squeeze, ppi.ppi_mean_ci(r[known], *given, alpha=0.05, lam=0.9)))
    assert found.mean[0] == pytest.approx(theirs, rel=1e-9)
    assert float(np.sqrt(found.error2[0])) == pytest.approx((high - low) / 2 / stats.norm.ppf(0.975), rel=0.05)


def test_sigma_and_its_limits_are_those_of_a_bootstrap():
    rng = np.random.default_rng(8)
    groups = [rng.gamma(2, s, n) for s, n in ((1.0, 300), (1.2, 500), (0.7, 200))]
    sizes = np.array([300, 500, 200])
    mean, error2 = np.array([g.mean() for g in groups]), np.array([g.var(ddof=1) / len(g) for g in groups])
    third = np.array([((g - g.mean()) ** 3).mean() / len(g) ** 2 for g in groups])
    found = log_contrast(mean, error2, third, sizes - 1.0, sizes, finite=True, confidence=0.95)
    draws = np.array([[rng.choice(g, len(g)).mean() for g in groups] for _ in range(2000)])
    rest = (draws @ sizes)[:, None] - draws * sizes
    sigma = draws / (rest / (sizes.sum() - sizes)) - 1
    np.testing.assert_allclose(found.sigma_low, np.quantile(sigma, 0.025, axis=0), atol=0.02)
    np.testing.assert_allclose(found.sigma_high, np.quantile(sigma, 0.975, axis=0), atol=0.02)


def test_more_precision_asks_for_more_and_a_cheaper_estimator_for_a_larger_pool():
    sizes = np.array([5000, 5000])
    errors = Errors(np.ones(2), np.full(2, 0.05), np.full(2, 0.45), np.zeros(2), sizes, np.ones(2))

    def plan(precision, cheap):
        return allocate(
            errors, precision=precision, confidence=0.95, finite=False, costs=(cheap, 100.0), least=np.array([30, 30]),
            safety=1.0,
        )  # fmt: skip

    assert plan(0.05, 3.0).cost > 2 * plan(0.1, 3.0).cost
    assert (plan(0.1, 1.0).pool > plan(0.1, 10.0).pool).all()
    reached = errors.at(plan(0.1, 3.0).reference.astype(float), plan(0.1, 3.0).pool.astype(float))
    assert 1.9 * np.sqrt(reached.sum()) <= 0.1
    assert (plan(0.001, 3.0).pool == sizes).all()


def audited(kinds, samples, seed, target, log=None):
    """Audit simulated groups to a precision; append each call of an estimator to `log`."""
    rng = np.random.default_rng(seed)
    parts = [draw(rng, kind, samples) for kind in kinds]
    correct, r, c = (np.concatenate(column) for column in zip(*parts, strict=True))
    cheap = [c, np.where(correct, rng.gamma(2, 1, len(r)), 0.0)]

    def measure(which, rows):
        if log is not None:
            log.append((which, rows))
        values = r if which == REFERENCE else cheap[which]
        return Distances(values[rows], correct[rows], "upper" if which == REFERENCE else "neither", "l2")

    partition = Partition("kind", list(map(str, range(len(kinds)))), np.repeat(np.arange(len(kinds)), samples))
    return to_precision(measure, partition, rng.integers(0, 2**63, len(r)).astype(np.uint64), target)


TARGET = PrecisionTarget(precision=0.2, confidence=0.95, finite=False, pilot=30, up_to=np.inf, costs=(3.0, 100.0))


def test_the_whole_procedure_covers_although_a_pilot_planned_it():
    kinds = ("good", "useless", "bent")
    truth = ACCURACY * np.array([KINDS[k][2] for k in kinds])
    rest = (truth.sum() - truth) / 2
    hits, met = [], []
    for seed in range(80):
        found = audited(kinds, 1000, seed, TARGET).contrast
        hits.append((found.sigma_low <= truth / rest - 1) & (truth / rest - 1 <= found.sigma_high))
        met.append(found.half_width <= 0.2)
    assert 0.91 <= np.mean(hits) <= 0.985
    assert np.mean(met) > 0.95


def test_it_measures_no_sample_twice_and_keeps_the_pilot():
    log = []
    answer = audited(("good", "bent"), 1000, 0, TARGET, log)
    for which in (0, REFERENCE):
        rows = np.concatenate([rows for w, rows in log if w == which])
        assert len(rows) == len(np.unique(rows))
    assert answer.counts[-1] == sum(len(rows) for w, rows in log if w == REFERENCE) >= answer.means.measured.sum()


def test_the_pilot_prefers_the_cheap_estimator_that_pays_and_none_where_none_does():
    costs = TARGET.costs
    several = PrecisionTarget(0.1, 0.95, False, 30, np.inf, (costs[0], 3.0, costs[1]))
    assert audited(("good", "good"), 3000, 1, several).cheap == 0
    expensive = PrecisionTarget(0.1, 0.95, False, 30, np.inf, (90.0, 90.0, 100.0))
    assert audited(("good", "useless"), 3000, 1, expensive).cheap is None


def test_a_precision_beyond_the_samples_takes_all_and_says_what_was_reached():
    answer = audited(("good", "bent"), 200, 2, PrecisionTarget(0.01, 0.95, True, 30, np.inf, (3.0, 100.0)))
    assert (answer.contrast.half_width < 0.02).all()
    assert answer.means.measured.sum() > 0.8 * ACCURACY * 400
    population = audited(("good", "bent"), 200, 2, PrecisionTarget(0.01, 0.95, False, 30, np.inf, (3.0, 100.0)))
    assert (population.contrast.half_width > 0.05).all()


def test_unreached_references_are_capped_the_same_for_all_groups():
    def measure(which, rows):
        values = 1.0 + rows % 7 / 7
        values = np.where((rows % 10 == 0) & (which == REFERENCE), np.inf, values)
        return Distances(
            values, np.ones(len(rows), dtype=bool), "upper", "l2", tried=np.where(np.isinf(values), 5.0, 0.0)
        )

    partition = Partition.by("half", ["a", "b"] * 200)
    keys = np.random.default_rng(0).integers(0, 2**63, 400).astype(np.uint64)
    answer = to_precision(measure, partition, keys, TARGET)
    assert answer.up_to == pytest.approx(1 + 6 / 7)
    assert "no finite distance" in answer.cap_reason
