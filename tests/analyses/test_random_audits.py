"""Random audits that combine weights, clusters, controls, failed searches and extreme sizes: results never disagree."""

import math
import warnings

import numpy as np
import pytest

from fairmargin.analyses.audit import AuditResult, audit
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError
from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE, Estimate
from fairmargin.inference.settings import AuditSettings

SEEDS_PER_TEST, TESTS = 40, 5


def random_case(rng: np.random.Generator) -> tuple[Distances, Partition, AuditSettings]:
    sizes = rng.choice([1, 2, 29, 30, 49, 50, 80], rng.choice([1, 2, 2, 3, 5]))
    samples, unit = int(sizes.sum()), float(rng.choice([1e-58, 1e-20, 1.0, 1.0, 1e50]))
    kind = rng.integers(4)
    drawn = (rng.gamma(2, 1, samples), rng.lognormal(0, 2, samples), rng.integers(1, 5, samples), np.ones(samples))
    values = drawn[kind] * unit
    correct = rng.random(samples) >= rng.choice([0, 0.1, 0.97, 1])
    tried = unit * np.where(rng.random(samples) < 0.2, rng.choice([0, np.inf, np.nan]), rng.gamma(3, 1, samples))
    failed = correct & (rng.random(samples) < rng.choice([0, 0, 0.1, 0.5, 1]))
    values = np.where(correct, np.where(failed, np.inf, values), 0.0)
    options: dict[str, object] = {"smallest_group": int(rng.choice([2, 30])), "resamples": 200}
    if rng.random() < 0.3:
        options["up_to"] = min(unit, 1e18)
    if rng.random() < 0.4:
        options["cluster"] = rng.permutation(samples) // 2 if rng.random() < 0.5 else np.arange(samples) // 2
    if rng.random() < 0.5:
        weights = np.append(1, rng.integers(0, 3, samples - 1))
        options["sample_weight"] = weights * float(rng.choice([1e-300, 1.0, 1e300]))
    if rng.random() < 0.3:
        options["control"] = Partition.by("stratum", rng.integers(0, 2, samples))
    groups = Partition("g", [f"g{i}" for i in range(len(sizes))], np.repeat(np.arange(len(sizes)), sizes))
    return Distances(values, correct, "exact", "l2", tried=tried), groups, AuditSettings(**options)  # type: ignore[arg-type]


def estimates_of(result: AuditResult) -> list[Estimate]:
    curves = () if result.curves is None else result.curves.groups
    owners = (*result.groups, result.overall, *curves)
    found = [getattr(owner, name) for owner in owners for name in owner.__dataclass_fields__]
    return [each for each in found if isinstance(each, Estimate)]


def excludes_0(estimate: Estimate) -> bool:
    return estimate.low > 0 or estimate.high < 0


@pytest.mark.parametrize("first", range(0, SEEDS_PER_TEST * TESTS, SEEDS_PER_TEST))
def test_verdict_interval_and_p_agree_and_nothing_is_undefined_without_a_reason(first: int) -> None:
    audited = 0
    for seed in range(first, first + SEEDS_PER_TEST):
        case = random_case(np.random.default_rng(seed))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                result = audit(*case)
            except InputError:  # no distance is known
                continue
        audited += 1
        for row in result:
            judged, rejected = row.verdict in (LESS_ROBUST, MORE_ROBUST), row.p_adjusted < case[2].alpha
            if row.verdict in (LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE):
                assert judged == rejected, (seed, row)
                for each in (row.sigma, row.gap_to_rest):
                    assert math.isnan(each.high) or excludes_0(each) == rejected, (seed, row)
            else:
                assert row.reason, (seed, row)
            if row.sigma_bounds is not None and row.sigma_bounds.is_defined:
                assert not excludes_0(row.sigma_bounds) or excludes_0(row.sigma), (seed, row)
        for each in estimates_of(result):
            assert not each.contradiction(), (seed, each)
            assert each.reason or not any(map(math.isnan, (each.value, each.low, each.high))), (seed, each)
        assert AuditResult.from_json(result.to_json()).to_json() == result.to_json()
        text = str(result)
        assert not any(word in text.replace("“", " ").split() for word in ("nan", "None", "inf")), (seed, text)
    assert audited > SEEDS_PER_TEST // 2
