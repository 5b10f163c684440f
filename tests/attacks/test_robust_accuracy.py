"""Robust accuracy: results of attacks are verified with the model and must lie in the ball and the box."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

from fairmargin.attacks.catalog import parse_attack
from fairmargin.attacks.outcomes import attack_shard
from fairmargin.attacks.robust_accuracy import attack_samples, robust_accuracy, spelled
from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.engine.task import Task
from fairmargin.inference.settings import AuditSettings
from fairmargin.models.as_classifier import as_classifier
from tests.distances.confirmation import assert_independent_of_the_batch

QUICK = AuditSettings(resamples=200)
WEIGHT, BIAS = np.array([0.6, -0.8, 0.3]), 0.1


@dataclass(frozen=True)
class Own:
    """User-defined attack, made from a function of samples, radius and class positions."""

    move: Callable
    norm: Norm = Norm.L2

    needs: ClassVar[str] = "predict"
    norms: ClassVar[frozenset[Norm]] = frozenset(Norm)
    revision: ClassVar[int] = 1

    def __call__(self, model, x, y, *, radius, keys):
        return self.move(x, y, np.broadcast_to(radius, len(x))[:, None])


def straight(x, y, radius):
    """Optimal attack against the linear model below, in L2."""
    return x + np.where(y == 1, -1, 1)[:, None] * radius * WEIGHT / np.linalg.norm(WEIGHT)


def samples(count=200, seed=0):
    """Return samples, labels of which some are wrong, and groups."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 3))
    y = (x @ WEIGHT + BIAS + 0.3 * rng.normal(size=count) > 0).astype(int)
    return x, y, Partition.by("sex", rng.choice(["F", "M"], count))


def audited(attack, radius=0.4, count=200, **given):
    """Return the robust accuracy of the linear model under an attack, and the exact distances."""
    x, y, sex = samples(count)
    found = robust_accuracy((WEIGHT, BIAS), x, y, attack, sex, radius=radius, settings=QUICK, **given)
    return found, measure((WEIGHT, BIAS), x, y, ExactLinear(attack.norm)), sex


def test_fools_exactly_the_samples_of_a_linear_model_within_the_radius():
    found, exact, sex = audited(Own(straight))
    for row, (_, mask) in zip(found, sex, strict=True):
        assert row.wrong == (~exact.correct[mask]).sum() > 0
        assert row.withstood == (exact.values[mask] > 0.4).sum() > 0
        assert row.fooled == (exact.correct[mask] & (exact.values[mask] <= 0.4)).sum() > 0
    assert (found.bound, found.attack, found.norm, found.radius) == (Bound.UPPER, "Own", Norm.L2, 0.4)


def test_an_attack_that_changes_nothing_gives_robust_accuracy_equal_to_accuracy():
    found, _, _ = audited(Own(lambda x, y, radius: x))
    assert found.overall.fooled == 0
    assert found.overall.robust_accuracy.value == found.overall.natural_accuracy.value < 1


@pytest.mark.parametrize("text", ["fgsm", "pgd:steps=5", "pgd:norm=l2,steps=5"])
def test_attacks_of_the_catalog_are_nearly_exact_on_a_linear_model_and_named_by_their_text(text):
    found, exact, _ = audited(parse_attack(text), radius=0.3)
    truth = (exact.values > 0.3).sum()
    assert truth <= found.overall.withstood <= truth + 10
    assert found.attack == text


def test_outcomes_are_upper_bounds_of_distances():
    x, y, _ = samples()
    outcome = attack_samples((WEIGHT, BIAS), x, y, Own(straight), radius=0.4)
    assert outcome.bound is Bound.UPPER
    assert (outcome.values >= measure((WEIGHT, BIAS), x, y, ExactLinear()).values - 1e-12).all()
    assert outcome.values[np.isfinite(outcome.values) & (outcome.values > 0)] == pytest.approx(0.4)
    assert (outcome.tried[outcome.unreached] == 0.4).all()
    assert (outcome.values[~outcome.correct] == 0).all()


def test_a_radius_is_a_number_a_text_or_one_number_per_sample():
    ways = [audited(Own(straight), radius)[0].to_json() for radius in (0.25, "1/4", np.full(200, 0.25))]
    assert ways[0] == ways[1] == ways[2]
    radii = np.where(samples()[2].membership == 0, 0.1, 0.6)
    mixed, exact, _ = audited(Own(straight), radii)
    assert mixed.overall.withstood == (exact.values > radii).sum()
    assert (mixed.smallest_radius, mixed.radius) == (0.1, 0.6)


def test_the_outcome_of_a_sample_does_not_depend_on_other_samples():
    def run(x, y):
        return attack_samples((WEIGHT, BIAS), x, y, parse_attack("pgd:steps=3,norm=l2"), radius=0.3).values

    assert_independent_of_the_batch(run, *samples(150, seed=3)[:2])


def test_only_correct_samples_are_attacked_and_an_attack_cannot_modify_them():
    x, y, _ = samples()
    seen = []

    def overwriting(x, y, radius):
        seen.append(len(x))
        moved = straight(x, y, radius)
        x[:], y[:] = 99.0, 0
        return moved

    before = x.copy()
    spoilt, plain = (attack_samples((WEIGHT, BIAS), x, y, Own(f), radius=0.4) for f in (overwriting, straight))
    assert sum(seen) == plain.correct.sum() < len(x)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(spoilt.values, plain.values)


def test_results_in_single_precision_may_exceed_the_radius_by_rounding():
    rng = np.random.default_rng(4)
    x = rng.random((90, 1, 4, 4), dtype=np.float32)
    layer = torch.nn.Linear(16, 3)
    weight = torch.tensor(rng.normal(size=(3, 16)), dtype=torch.float32)
    layer.load_state_dict({"weight": weight, "bias": -0.5 * weight.sum(dim=1)})  # a grey image lies on the boundary
    model = torch.nn.Sequential(torch.nn.Flatten(), layer)
    y = as_classifier(model, device="cpu").predict(x)
    for text, radius in (("fgsm", "8/255"), ("pgd:norm=l2,steps=8", 0.3)):
        outcome = attack_samples(model, x, y, parse_attack(text), radius=radius)
        assert outcome.correct.all()
        assert 0 < outcome.unreached.sum() < 90


def test_length_is_measured_in_units_of_the_domains_scale():
    x, model = np.array([[1.0, 0.0]]), as_classifier(([1.0, 0.0], 0.0), domain=Domain(scale=[10.0, 1.0]))
    left = Own(lambda x, y, radius: x - np.array([2.0, 0.0]))
    assert attack_samples(model, x, [1], left, radius=0.2).values == pytest.approx(0.2)


def test_progress_reaches_the_number_of_samples():
    reports = []
    audited(Own(straight), count=1500, progress=lambda *at: reports.append(at))
    assert reports == [(1024, 1500), (1500, 1500)]


def test_the_task_of_an_attack_can_run_in_another_process():
    x, y, _ = samples(30)
    task = Task("k", attack_shard, (as_classifier((WEIGHT, BIAS)), parse_attack("pgd:steps=3"), x, y, 0.3, 0))
    assert pickle.loads(pickle.dumps(task)).run().values.tolist() == task.run().values.tolist()


def test_the_text_of_an_attack_names_the_fields_that_differ_from_the_default():
    assert spelled(parse_attack("pgd:steps=20")) == "pgd"
    assert parse_attack(spelled(parse_attack("pgd:step=1/8"))) == parse_attack("pgd:step=1/8")


def test_classes_without_samples_give_a_warning():
    x, y = np.random.default_rng(0).random((40, 4), dtype=np.float32), np.arange(40) % 3
    groups = Partition.by("g", list("ab") * 20)

    def warnings(outputs):
        attack = parse_attack("fgsm")
        found = robust_accuracy(torch.nn.Linear(4, outputs), x, y, attack, groups, radius=0.1, settings=QUICK)
        return [each for each in found.warnings if "classes apart" in each]

    assert warnings(3) == []
    assert warnings(5) == [
        "The model tells 5 classes apart, and the samples have 3 of them: none is of class 3, 4. Was it built for "
        "these data?"
    ]
    assert "none is of class 3, 4, 5, 6, 7 and 4 more." in warnings(12)[0]
