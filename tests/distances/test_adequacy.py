"""Attack adequacy: settled for strong attacks; not settled, or with alarms, where gradients are masked."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.distances.adequacy import adequacy, chosen_of, rising
from fairmargin.distances.combine import Tightest
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.proxies.first_order import FirstOrder
from fairmargin.distances.searches.ddn import DDN
from fairmargin.distances.searches.deepfool import DeepFool
from fairmargin.distances.searches.fmn import FMN
from fairmargin.models.as_classifier import as_classifier
from tests.distances.saturated import problem
from tests.perturbation.networks import mlp, test_digits


@dataclass(frozen=True)
class Weak:
    """Attack that returns three times the distances of DeepFool."""

    norm: Norm = Norm.L2
    steps: int = 8

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2})
    revision: ClassVar[int] = 1

    def __call__(self, model, x, y, *, keys):
        found = DeepFool()(model, x, y, keys=keys)
        return Distances(3 * found.values, found.correct, Bound.UPPER, self.norm)


def kinds(row):
    return {alarm.kind for alarm in row.raised}


def linear(count=80):
    x = np.random.default_rng(0).normal(size=(count, 2))
    return ([3.0, 4.0], 0.0), x, (x @ [3, 4] > 0).astype(int), Partition.by("sex", ["F", "M"] * (count // 2))


@pytest.mark.parametrize("estimator", [DeepFool(), FMN(steps=40), DDN(steps=40)], ids=["deepfool", "fmn", "ddn"])
def test_a_working_attack_on_a_linear_model_has_settled_without_an_alarm(estimator):
    found = adequacy(*linear(), estimator)
    assert found.verdict == "settled"
    assert found.alarmed == ()
    assert [row.size for row in found] == [40, 40]
    assert {alarm.kind for alarm in found["F"].alarms} == {
        "no gradient", "noise is nearer", "distances jump", "unreached", "found by a reference only"
    }  # fmt: skip


def test_a_working_attack_on_a_small_network_has_settled_without_an_alarm():
    x, y = test_digits(90)
    found = adequacy(
        as_classifier(mlp(), bounds=(0, 1)), x, y, Partition.by("half", y < 5), FMN(steps=64), per_group=30
    )
    assert found.verdict == "settled"
    assert found.alarmed == ()
    assert found.budgets == ("16 steps", "32 steps", "64 steps", "128 steps", "256 steps")


def test_a_weak_attack_on_masked_gradients_has_not_settled_and_raises_alarms_for_that_group_only():
    model, x, y, half = problem()
    found = adequacy(model, x, y, half, FMN(steps=16))
    assert found.verdict == "not settled"
    assert kinds(found["masked"]) >= {"no gradient", "noise is nearer"}
    assert kinds(found["plain"]) == set()
    masked = found["masked"]
    assert masked.sigmas_alone[found.audited] > 0.05  # it seems the more robust one, and both have the same boundary
    assert abs(masked.sigmas[-1]) < abs(masked.sigmas_alone[found.audited])
    assert masked.mean_change.high < 0
    assert "“masked”" in " ".join(found.sentences())


def test_an_attack_without_gradients_has_settled_but_raises_alarms():
    model, x, y, half = problem()
    found = adequacy(model, x, y, half, DeepFool(published=True, steps=4))
    assert found.verdict == "settled"
    assert kinds(found["masked"]) >= {"no gradient", "unreached", "noise is nearer"}
    aided = adequacy(model, x, y, half, DeepFool())
    assert kinds(aided["masked"]) == {"no gradient", "found by a reference only"}
    assert kinds(aided["plain"]) == set()


def test_noise_is_nearer_than_a_weak_attack():
    found = adequacy(*linear(), Weak())
    assert all(kinds(row) == {"noise is nearer"} for row in found)
    assert found.verdict == "settled"


def test_exact_distances_and_proxies_have_nothing_to_settle():
    assert adequacy(*linear(), ExactLinear()).headline.startswith("The distances are exact")
    assert adequacy(*linear(), FirstOrder()).verdict == "nothing to settle"


def test_the_order_of_the_samples_changes_nothing():
    model, x, y, half = problem(100)
    first = adequacy(model, x, y, half, FMN(steps=8), per_group=20)
    order = np.random.default_rng(2).permutation(100)
    turned = adequacy(model, x[order], y[order], half.take(order), FMN(steps=8), per_group=20)
    assert turned.budgets == first.budgets
    for row, other in zip(first, turned, strict=True):
        assert [(a.kind, a.hits, a.of) for a in other.alarms] == [(a.kind, a.hits, a.of) for a in row.alarms]
        np.testing.assert_allclose(other.means_alone, row.means_alone, rtol=1e-12)
        assert other.size == row.size == 20


def test_the_choice_in_a_group_does_not_depend_on_the_other_groups():
    keys = np.random.default_rng(0).integers(0, 2**63, 300).astype(np.uint64)
    sex = Partition.by("sex", np.where(np.arange(300) < 280, "F", "M"))
    chosen = chosen_of(keys, sex, 50)
    assert np.bincount(sex.membership[chosen]).tolist() == [50, 20]
    finer = sex & Partition.by("old", np.arange(300) % 2 == 0)
    kept = chosen_of(keys, Partition.by("f", np.where(np.arange(300) < 280, "F", "x")), 50)
    assert set(chosen[chosen < 280]) == set(kept[kept < 280])
    assert len(chosen_of(keys, finer, 50)) == 120


def test_the_budget_of_every_member_of_tightest_rises():
    ladder = rising(Tightest(FMN(steps=8), DeepFool(steps=4)))
    assert ladder.estimators[ladder.audited] == Tightest(FMN(steps=8), DeepFool(steps=4))
    assert ladder.estimators[-1] == Tightest(FMN(steps=32), DeepFool(steps=16))
    assert ladder.names == ("0.25× the steps", "0.5× the steps", "1× the steps", "2× the steps", "4× the steps")
    found = adequacy(*linear(40), Tightest(FMN(steps=8), DeepFool(steps=4)))
    assert found.verdict == "settled"


def test_budgets_may_be_given():
    reports = []
    found = adequacy(
        *linear(40),
        DeepFool(),
        budgets=[FMN(steps=5), DeepFool(), FMN(steps=40)],
        progress=lambda done, total: reports.append((done, total)),
    )
    assert found.budgets == ("budget 1", "budget 2", "budget 3")
    assert found.audited == 1
    assert reports == [(i, 6) for i in range(1, 7)]
