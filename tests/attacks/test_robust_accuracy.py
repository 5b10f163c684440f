"""Robust accuracy: results of attacks are verified with the model and must lie in the ball and the box."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

from fairmargin.attacks.catalog import ATTACKS, parse_attack
from fairmargin.attacks.outcomes import attack_shard
from fairmargin.attacks.robust_accuracy import attack_samples, robust_accuracy, spelled
from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.distances.catalog import ESTIMATORS
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.engine.task import Task
from fairmargin.errors import InputError, ModelError
from fairmargin.inference.settings import AuditSettings
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier

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


def nowhere(x, y, radius):
    return x


def samples(count: int = 200, seed: int = 0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 3))
    y = (x @ WEIGHT + BIAS + 0.3 * rng.normal(size=count) > 0).astype(int)
    return x, y, Partition.by("sex", rng.choice(["F", "M"], count))


def test_fools_exactly_the_samples_of_a_linear_model_within_the_radius() -> None:
    x, y, sex = samples()
    exact = measure((WEIGHT, BIAS), x, y, ExactLinear())
    found = robust_accuracy((WEIGHT, BIAS), x, y, Own(straight), sex, radius=0.4, settings=QUICK)
    for row, (_, mask) in zip(found, sex, strict=True):
        assert row.wrong == (~exact.correct[mask]).sum() > 0
        assert row.withstood == (exact.values[mask] > 0.4).sum() > 0
        assert row.fooled == (exact.correct[mask] & (exact.values[mask] <= 0.4)).sum() > 0
    assert found.bound is Bound.UPPER
    assert (found.attack, found.norm, found.radius) == ("Own", Norm.L2, 0.4)


def test_an_attack_that_changes_nothing_gives_robust_accuracy_equal_to_accuracy() -> None:
    x, y, sex = samples()
    found = robust_accuracy((WEIGHT, BIAS), x, y, Own(nowhere), sex, radius=0.4, settings=QUICK)
    assert found.overall.fooled == 0
    assert found.overall.robust_accuracy.value == found.overall.natural_accuracy.value < 1


@pytest.mark.parametrize("text", ["fgsm", "pgd:steps=5", "pgd:norm=l2,steps=5"])
def test_attacks_of_the_catalog_give_upper_bounds_that_are_nearly_exact_on_a_linear_model(text: str) -> None:
    x, y, sex = samples()
    attack = parse_attack(text)
    exact = measure((WEIGHT, BIAS), x, y, ExactLinear(attack.norm))
    found = robust_accuracy((WEIGHT, BIAS), x, y, attack, sex, radius=0.3, settings=QUICK)
    truth = (exact.values > 0.3).sum()
    assert truth <= found.overall.withstood <= truth + 10
    assert found.attack == text


def test_outcomes_are_upper_bounds_of_distances() -> None:
    x, y, _ = samples()
    outcome = attack_samples((WEIGHT, BIAS), x, y, Own(straight), radius=0.4)
    exact = measure((WEIGHT, BIAS), x, y, ExactLinear())
    assert outcome.bound is Bound.UPPER
    assert (outcome.values >= exact.values - 1e-12).all()
    assert outcome.values[np.isfinite(outcome.values) & (outcome.values > 0)] == pytest.approx(0.4)
    assert (outcome.tried[outcome.unreached] == 0.4).all()
    assert (outcome.values[~outcome.correct] == 0).all()


def test_a_radius_is_a_number_a_text_or_one_number_per_sample() -> None:
    x, y, sex = samples()
    ways = [
        robust_accuracy((WEIGHT, BIAS), x, y, Own(straight), sex, radius=radius, settings=QUICK)
        for radius in (0.25, "1/4", np.full(len(x), 0.25))
    ]
    assert ways[0].to_json() == ways[1].to_json() == ways[2].to_json()
    radii = np.where(sex.membership == 0, 0.1, 0.6)
    mixed = robust_accuracy((WEIGHT, BIAS), x, y, Own(straight), sex, radius=radii, settings=QUICK)
    exact = measure((WEIGHT, BIAS), x, y, ExactLinear())
    assert mixed.overall.withstood == (exact.values > radii).sum()
    assert (mixed.smallest_radius, mixed.radius) == (0.1, 0.6)


def test_the_outcome_of_a_sample_does_not_depend_on_other_samples() -> None:
    x, y, _ = samples(150, seed=3)
    attack = parse_attack("pgd:steps=3,norm=l2")
    whole = attack_samples((WEIGHT, BIAS), x, y, attack, radius=0.3)
    order = np.random.default_rng(1).permutation(150)
    mixed = attack_samples((WEIGHT, BIAS), x[order], y[order], attack, radius=0.3)
    assert mixed.values.tolist() == whole.values[order].tolist()
    few = attack_samples((WEIGHT, BIAS), x[:7], y[:7], attack, radius=0.3)
    assert few.values.tolist() == whole.values[:7].tolist()


def test_only_correct_samples_are_attacked_and_an_attack_cannot_modify_them() -> None:
    x, y, _ = samples()
    correct = as_classifier((WEIGHT, BIAS)).predict(x) == y
    seen = []

    def overwriting(x, y, radius):
        seen.append(len(x))
        moved = straight(x, y, radius)
        x[:], y[:] = 99.0, 0
        return moved

    before = x.copy()
    spoilt = attack_samples((WEIGHT, BIAS), x, y, Own(overwriting), radius=0.4)
    assert sum(seen) == correct.sum() < len(x)
    assert (x == before).all()
    assert spoilt.values.tolist() == attack_samples((WEIGHT, BIAS), x, y, Own(straight), radius=0.4).values.tolist()


def test_results_in_single_precision_may_exceed_the_radius_by_rounding() -> None:
    rng = np.random.default_rng(4)
    x = rng.random((90, 1, 4, 4), dtype=np.float32)
    layer = torch.nn.Linear(16, 3)
    weight = torch.tensor(rng.normal(size=(3, 16)), dtype=torch.float32)
    layer.load_state_dict({"weight": weight, "bias": -0.5 * weight.sum(dim=1)})  # a grey image lies on the boundary
    model = torch.nn.Sequential(torch.nn.Flatten(), layer)
    y = as_classifier(model, device="cpu").predict(x)
    groups = Partition.by("class", y)
    for text, radius in (("fgsm", "8/255"), ("pgd:norm=l2,steps=8", 0.3)):
        found = robust_accuracy(model, x, y, parse_attack(text), groups, radius=radius, settings=QUICK)
        assert found.overall.wrong == 0
        assert 0 < found.overall.fooled < 90


# Invalid attacks ----------------------------------------------------------------------------------------------


def too_far(x, y, radius):
    return straight(x, y, radius * 1.01)


@pytest.mark.parametrize(
    ("move", "said"),
    [
        (too_far, "`Own` moved sample 0 out of its ball, by 0.404 instead of 0.4 in L2"),
        (lambda x, y, radius: x * np.nan, "returned NaN or infinity for sample 0"),
        (lambda x, y, radius: x[:, :2], r"of shape \(\d+, 3\); it returned shape \(\d+, 2\)"),
        (lambda x, y, radius: x.tolist(), "as one array; it returned a list"),
        (lambda x, y, radius: x.astype(str), "real numbers"),
        (lambda x, y, radius: None, "it returned a NoneType"),
    ],
)
def test_an_attack_with_invalid_results_is_refused(move, said: str) -> None:
    x, y, sex = samples()
    y = as_classifier((WEIGHT, BIAS)).predict(x)
    with pytest.raises(InputError, match=said):
        robust_accuracy((WEIGHT, BIAS), x, y, Own(move), sex, radius=0.4)


def test_the_error_names_the_index_of_the_sample() -> None:
    x, y, sex = samples()
    y = as_classifier((WEIGHT, BIAS)).predict(x)
    y[:3] = 1 - y[:3]  # misclassified, so not attacked
    with pytest.raises(InputError, match="moved sample 3 out of its ball"):
        robust_accuracy((WEIGHT, BIAS), x, y, Own(too_far), sex, radius=0.4)


def test_an_attack_that_leaves_the_box_or_changes_immutable_features_is_refused() -> None:
    x, y = np.full((5, 3), 0.95), np.ones(5, dtype=int)
    groups = Partition.by("g", list("ababa"))

    def up(x, y, radius):
        return x + np.array([0.1, 0, 0])

    boxed = as_classifier(([1.0, 0.0, 0.0], 0.0), bounds=(0, 1))
    with pytest.raises(InputError, match="out of the domain's box"):
        robust_accuracy(boxed, x, y, Own(up), groups, radius=0.5)
    fixed = as_classifier(([1.0, 0.0, 0.0], 0.0), domain=Domain(scale=[0.0, 1.0, 1.0]))
    with pytest.raises(InputError, match="changed an immutable feature of sample 0"):
        robust_accuracy(fixed, x, y, Own(up), groups, radius=0.5)


def test_length_is_measured_in_units_of_the_domains_scale() -> None:
    x, y, groups = np.array([[1.0, 0.0]]), [1], Partition.by("g", ["a"])

    def left(x, y, radius):
        return x - np.array([2.0, 0.0])

    model = as_classifier(([1.0, 0.0], 0.0), domain=Domain(scale=[10.0, 1.0]))
    assert robust_accuracy(model, x, y, Own(left), groups, radius=0.2, settings=QUICK).overall.fooled == 1
    with pytest.raises(InputError, match=r"by 0.2 instead of 0.19 in L2"):
        robust_accuracy(model, x, y, Own(left), groups, radius=0.19)


# Invalid arguments ---------------------------------------------------------------------------------------


def test_a_radius_larger_than_the_box_is_refused_with_a_suggestion() -> None:
    x, y, groups = np.full((4, 3), 0.5), [0, 1, 0, 1], Partition.by("g", list("abab"))
    model = as_classifier((WEIGHT, BIAS), bounds=(0, 1))
    with pytest.raises(InputError, match=r"The radius 4 in L∞ is larger than the box.*did you mean 4/255\?"):
        robust_accuracy(model, x, y, ATTACKS["fgsm"](), groups, radius=4)
    with pytest.raises(InputError, match="All features are immutable"):
        robust_accuracy(as_classifier((WEIGHT, BIAS), bounds=(1, 1)), x, y, ATTACKS["fgsm"](), groups, radius=0.1)


@pytest.mark.parametrize("radius", [-0.1, "four", float("nan"), float("inf"), None, [0.1, 0.2]])
def test_an_invalid_radius_is_refused(radius) -> None:
    x, y, sex = samples(20)
    with pytest.raises(InputError, match=r"[Rr]adius"):
        robust_accuracy((WEIGHT, BIAS), x, y, Own(straight), sex, radius=radius)


def test_a_value_that_is_not_an_attack_is_refused() -> None:
    x, y, sex = samples(20)
    for wrong in (ATTACKS["pgd"], "pgd", straight):
        with pytest.raises(InputError, match="`attack` must be an attack"):
            robust_accuracy((WEIGHT, BIAS), x, y, wrong, sex, radius=0.1)


def test_an_attack_that_needs_gradients_is_refused_for_a_model_without_them() -> None:
    x, y, sex = samples(20)

    class Opaque(LinearClassifier):
        offers = frozenset({"predict"})

    with pytest.raises(ModelError, match="needs from the model its gradients"):
        robust_accuracy(Opaque(np.vstack([0 * WEIGHT, WEIGHT]), [0, BIAS]), x, y, ATTACKS["pgd"](), sex, radius=0.1)


@pytest.mark.parametrize("wrong", ["partition", "control", "cluster"])
def test_groups_of_another_length_are_refused_before_anything_is_attacked(wrong: str) -> None:
    x, y, sex = samples(20)
    short = Partition.by("g", ["a", "b"])
    plan = AuditSettings(control=short if wrong == "control" else None, cluster=[1, 2] if wrong == "cluster" else None)

    def never(x, y, radius):
        raise AssertionError("attacked")

    with pytest.raises(InputError, match="20"):
        robust_accuracy(
            (WEIGHT, BIAS), x, y, Own(never), short if wrong == "partition" else sex, radius=0.1, settings=plan
        )


def test_progress_reaches_the_number_of_samples() -> None:
    x, y, sex = samples(1500)
    told = []
    robust_accuracy(
        (WEIGHT, BIAS), x, y, Own(straight), sex, radius=0.1, settings=QUICK, progress=lambda *at: told.append(at)
    )
    assert told == [(1024, 1500), (1500, 1500)]


def test_the_task_of_an_attack_can_run_in_another_process() -> None:
    x, y, _ = samples(30)
    model = as_classifier((WEIGHT, BIAS))
    task = Task("k", attack_shard, (model, parse_attack("pgd:steps=3"), x, y, 0.3, 0))
    assert pickle.loads(pickle.dumps(task)).run().values.tolist() == task.run().values.tolist()


def test_an_attack_has_the_text_form_of_its_option() -> None:
    assert spelled(parse_attack("pgd:norm=l2,steps=7")) == "pgd:norm=l2,steps=7"
    assert spelled(parse_attack("pgd:steps=20")) == "pgd"
    assert spelled(Own(straight)) == "Own"
    assert parse_attack(spelled(parse_attack("pgd:step=1/8"))) == parse_attack("pgd:step=1/8")


@pytest.mark.parametrize("name", ["plumb", "exact_linear", "first_order"])
def test_an_estimator_of_distances_is_refused_as_an_attack(name: str) -> None:
    x, y, sex = samples(20)
    with pytest.raises(InputError, match=r"no such parameter. Pass an estimator of distances to `fm.measure`"):
        robust_accuracy((WEIGHT, BIAS), x, y, ESTIMATORS[name](), sex, radius=0.1)


@pytest.mark.parametrize("seed", ["a", 1.5, None, True, 2**200])
def test_an_invalid_seed_is_refused(seed) -> None:
    x, y, sex = samples(20)
    with pytest.raises(InputError, match="`seed` must be a whole number, such as 0; given"):
        robust_accuracy((WEIGHT, BIAS), x, y, Own(straight), sex, radius=0.1, seed=seed)


def test_classes_without_samples_give_a_warning_and_labels_without_a_class_are_refused() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((40, 4), dtype=np.float32), np.arange(40) % 3
    groups = Partition.by("g", list("ab") * 20)
    found = {
        outputs: robust_accuracy(
            torch.nn.Linear(4, outputs), x, y, parse_attack("fgsm"), groups, radius=0.1, settings=QUICK
        )
        for outputs in (3, 5, 12)
    }
    noted = {outputs: [each for each in kept.warnings if "classes apart" in each] for outputs, kept in found.items()}
    assert noted[3] == []
    assert noted[5] == [
        "The model tells 5 classes apart, and the samples have 3 of them: none is of class 3, 4. Was it built for "
        "these data?"
    ]
    assert "none is of class 3, 4, 5, 6, 7 and 4 more." in noted[12][0]
    with pytest.raises(InputError, match=r"labels that are not among the model's classes in 13 of 40 samples"):
        robust_accuracy(torch.nn.Linear(4, 2), x, y, parse_attack("fgsm"), groups, radius=0.1)


X, Y, SEX = samples(20)
MODEL, PGD = (WEIGHT, BIAS), parse_attack("pgd:steps=1")
ORDER = r"are arguments swapped\? Expected model, x, y, attack, partition, in this order, and radius=…, settings=…\."


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((MODEL, Y, X, PGD, SEX), "`x` is an array of one dimension, as labels are, `y` is an array of several"),
        ((PGD, X, Y, as_classifier(MODEL), SEX), "`model` is an attack, `attack` is a model"),
        ((PGD, X, Y, torch.nn.Linear(3, 2), SEX), "`model` is an attack, `attack` is a model"),
        ((MODEL, X, Y, SEX, PGD), "`attack` is a partition, `partition` is an attack"),
        ((MODEL, X, SEX, PGD, Y), "`y` is a partition"),
        ((MODEL, X, Y, SEX, 0.1), "`attack` is a partition, `partition` is a number"),
        ((X, as_classifier(MODEL), Y, PGD, SEX), "`x` is a model"),
        ((MODEL, X, Y, PGD, QUICK), "`partition` is an `AuditSettings`"),
    ],
)
def test_swapped_arguments_are_refused_with_their_order(given, said: str) -> None:
    with pytest.raises(InputError, match=f"{said}.*: {ORDER}"):
        robust_accuracy(*given, radius=0.1)


def test_a_radius_or_settings_of_another_type_are_refused() -> None:
    with pytest.raises(InputError, match=f"`partition` is a number, `radius` is a partition: {ORDER}"):
        robust_accuracy(MODEL, X, Y, PGD, 0.1, radius=SEX)
    with pytest.raises(InputError, match=f"`settings` is a partition: {ORDER}"):
        robust_accuracy(MODEL, X, Y, PGD, SEX, radius=0.1, settings=SEX)
    with pytest.raises(InputError, match=r"swapped\? Expected model, x, y, attack, in this order, and radius=…\."):
        attack_samples(MODEL, Y, X, PGD, radius=0.1)
