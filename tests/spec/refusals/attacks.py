"""What `fairmargin.attacks` refuses."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import torch

from fairmargin.attacks.ascent import slope
from fairmargin.attacks.catalog import ATTACKS, describe_attack, parse_attack
from fairmargin.attacks.protocol import check_attack
from fairmargin.attacks.robust_accuracy import attack_samples, robust_accuracy
from fairmargin.core.domain import Domain
from fairmargin.core.keys import sample_keys
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.distances.catalog import ESTIMATORS
from fairmargin.errors import InputError, ModelError
from fairmargin.inference.settings import AuditSettings
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.spec.refusals import Refusal

WEIGHT, BIAS = np.array([0.6, -0.8, 0.3]), 0.1
X = np.random.default_rng(0).normal(size=(20, 3))
MODEL = (WEIGHT, BIAS)
CLASSIFIER = as_classifier(MODEL)
Y = CLASSIFIER.predict(X)
SEX = Partition.by("sex", ["F", "M"] * 10)
PGD, SHORT = parse_attack("pgd:steps=1"), Partition.by("g", ["a", "b"])


@dataclass(frozen=True)
class Own:
    """User-defined attack, made from a function of samples."""

    move: Callable[[Any], Any]
    norm: Norm = Norm.L2

    needs: ClassVar[str] = "predict"
    norms: ClassVar[frozenset[Norm]] = frozenset(Norm)
    revision: ClassVar[int] = 1

    def __call__(self, model: Any, x: Any, y: Any, *, radius: Any, keys: Any) -> Any:
        return self.move(x)


class Labels:
    """Classifier that returns labels only."""

    classes, domain, offers, tile = (0, 1), Domain(0, 1), frozenset({"predict"}), 1
    scores: Any = None

    def predict(self, x: Any) -> Any:
        """Return the first class."""
        return np.zeros(len(x), np.int64)

    def fingerprint(self) -> str:
        """Return a name."""
        return "labels"


class Flat(Labels):
    """Classifier whose scores have the wrong shape."""

    def scores(self, x: Any) -> Any:
        """Return one number per sample."""
        return np.zeros(len(x))


class Contrary(Labels):
    """Classifier that predicts the class with the smaller score."""

    def scores(self, x: Any) -> Any:
        """Return two numbers per sample."""
        return np.stack([np.zeros(len(x)), np.ones(len(x))], axis=1)


class Detached(torch.nn.Module):
    """Network without a gradient."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        return torch.stack([x[:, 0], 1 - x[:, 0]], dim=1).detach()


class Poles(torch.nn.Module):
    """Network whose scores are infinite for some samples."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        return torch.stack([x[:, 0], 1 - x[:, 0]], dim=1) / (x[:, 1:] > 0.1)


@cache
def small(name: str) -> Any:
    """Return the attack with a small budget."""
    text = {"square": "square:queries=9", "autoattack": "autoattack:steps=2,targets=1,queries=9"}.get(name, name)
    return parse_attack(text)


def run(name: str, model: Any, x: Any, y: Any, radius: Any = 0.1, keys: Any = None) -> Any:
    """Run an attack of the catalog."""
    given = sample_keys(np.zeros((6, 1)), np.zeros(6, int))[: len(x)] if keys is None else keys
    return small(name)(model, x, y, radius=radius, keys=given)


SETTINGS: list[tuple[str, dict[str, Any], str]] = [
    ("pgd", {"steps": 0}, "must be at least 1"),
    ("pgd", {"steps": 2.5}, "must be a whole number"),
    ("pgd", {"restarts": 0}, "must be at least 1"),
    *(
        ("pgd", {"step": step}, "must be a positive fraction of the radius")
        for step in (0.0, float("nan"), "0.1", True)
    ),
    ("pgd", {"restarts": 2, "random_start": False}, "without a random start all restarts are identical"),
    ("pgd", {"loss": "hinge"}, "must be one of cross_entropy, margin, clipped_margin; given 'hinge'"),
    ("margin_pgd", {"confidence": -1.0}, "must be a positive number"),
    ("margin_pgd", {"restarts": 3, "random_start": False}, "`restarts` of MarginPGD is 3"),
    ("rfgsm", {"variant": "tramér"}, "must be one of tramer, projected; given 'tramér'"),
    ("rfgsm", {"start": 1.0}, "must lie between 0 and 1"),
    ("rfgsm", {"start": 0.0}, "must lie between 0 and 1"),
    ("rfgsm", {"steps": 0}, "must be at least 1"),
    ("apgd", {"steps": 0}, "must be at least 1"),
    ("apgd", {"restarts": 1.5}, "must be a whole number"),
    ("apgd", {"targets": -1, "loss": "dlr"}, "must be at least 1"),
    ("apgd", {"loss": "hinge"}, "must be one of cross_entropy, margin, dlr; given 'hinge'"),
    ("apgd", {"targets": 9}, "the loss 'cross_entropy' has no targeted form: choose margin or dlr"),
    ("square", {"queries": 0}, "must be at least 1"),
    ("square", {"restarts": 0}, "must be at least 1"),
    *(("square", {"share": share}, "must be more than 0 and at most 1") for share in (0.0, float("nan"), "half")),
    ("autoattack", {"steps": 0}, "must be at least 1"),
    ("autoattack", {"targets": 0}, "must be at least 1"),
    ("autoattack", {"queries": True}, "must be a whole number"),
]
TEXTS = [
    ("pdg", "Unknown attack `pdg`. Did you mean 'pgd'?", ""),
    ("", "Unknown attack", ""),
    ("pgd:step_size=1", "`pgd`: unknown field `step_size`. Did you mean 'steps'?", ""),
    ("pgd:steps=many", "`pgd`, field `steps`: expected a whole number, given 'many'", ""),
    ("pgd:steps", "expected field=value, given 'steps', as in 'pgd:steps=20,restarts=2'", ""),
    ("pgd:steps=1,steps=2", "`steps` is given twice", ""),
    ("pgd:steps=0", "`steps` of `pgd` must be at least 1", "steps"),
    ("pgd:norm=l1", "`pgd` does not support the norm L1; it supports l2, linf", ""),
    ("margin_pgd:restarts=2,random_start=no", "`restarts` of `margin_pgd` is 2", "restarts"),
    ("pgd:loss=hinge", "`loss` of `pgd` must be one of", "loss"),
]

# Arguments of the call of every attack ------------------------------------------------------------------------------

BOX = LinearClassifier(np.eye(3), np.zeros(3), domain=Domain(0, 1))
IN, LAST = np.full((6, 3), 0.5), np.full(6, 2)
CALLED: list[tuple[dict[str, Any], str, str, type[Exception]]] = [
    ({"y": LAST[:-1]}, "`y` has 5 entries but `x` has 6", "", InputError),
    ({"y": LAST + 1}, "between 0 and 2; given 3", "", InputError),
    ({"y": LAST - 3}, "between 0 and 2; given -1", "", InputError),
    ({"y": np.array(["a"] * 6)}, "must hold class positions", "", InputError),
    ({"x": IN[0]}, "one row per sample", "", InputError),
    ({"x": np.where(np.arange(3) == 2, np.nan, IN)}, "NaN or infinity", "", InputError),
    ({"x": IN + 1}, "is outside the domain", "", InputError),
    ({"keys": np.zeros(5, np.uint64)}, "`keys` has 5 entries but `x` has 6", "", InputError),
    ({"radius": -0.1}, "must not be negative", "radius", InputError),
    ({"radius": np.nan}, "must be finite", "radius", InputError),
    ({"radius": "a little"}, "must be a number such as 0.1 or a fraction such as 4/255", "radius", InputError),
    ({"radius": [0.1, 0.2]}, "`radius` has 2 numbers but there are 6 samples", "", InputError),
    ({"radius": [0.1] * 7}, "`radius` has 7 numbers but there are 6 samples", "", InputError),
    ({"radius": [0.1, 0.1, -0.1, 0.1, 0.1, 0.1]}, "must not be negative", "radius", InputError),
    ({"model": as_classifier(Poles(), classes=range(2)), "x": np.array([[0.5, 0.05]]), "y": np.ones(1, int)},
     "scores hold NaN or infinity", "", ModelError),
]  # fmt: skip
GRADIENTS = [name for name, kind in ATTACKS.items() if kind.needs == "gradient"]

# Arguments and results of `robust_accuracy` -------------------------------------------------------------------------

ORDER = "are arguments swapped? Expected model, x, y, attack, partition, in this order, and radius=…, settings=…."
SWAPPED: list[tuple[tuple[Any, ...], str]] = [
    ((MODEL, Y, X, PGD, SEX), "`x` is an array of one dimension, as labels are, `y` is an array of several"),
    ((PGD, X, Y, CLASSIFIER, SEX), "`model` is an attack, `attack` is a model"),
    ((PGD, X, Y, torch.nn.Linear(3, 2), SEX), "`model` is an attack, `attack` is a model"),
    ((MODEL, X, Y, SEX, PGD), "`attack` is a partition, `partition` is an attack"),
    ((MODEL, X, SEX, PGD, Y), "`y` is a partition"),
    ((MODEL, X, Y, SEX, 0.1), "`attack` is a partition, `partition` is a number"),
    ((X, CLASSIFIER, Y, PGD, SEX), "`x` is a model"),
    ((MODEL, X, Y, PGD, AuditSettings()), "`partition` is an `AuditSettings`"),
]
TOO_FAR = Own(lambda x: x - np.where(x @ WEIGHT + BIAS > 0, 0.404, -0.404)[:, None] * WEIGHT / np.linalg.norm(WEIGHT))
RESULTS: list[tuple[Own, str]] = [
    (TOO_FAR, "`Own` moved sample 0 out of its ball, by 0.404 instead of 0.4 in L2"),
    (Own(lambda x: x * np.nan), "returned NaN or infinity for sample 0"),
    (Own(lambda x: x[:, :2]), "of shape (20, 3); it returned shape (20, 2)"),
    (Own(lambda x: x.tolist()), "as one array; it returned a list"),
    (Own(lambda x: x.astype(str)), "that are real numbers"),
    (Own(lambda x: None), "it returned a NoneType"),
]


def never(x: Any) -> Any:
    """Fail if the attack is run."""
    raise AssertionError("attacked")


def audited(**changes: Any) -> Any:
    """Compute robust accuracy with some arguments changed."""
    usual = {"model": MODEL, "x": X, "y": Y, "attack": Own(never), "partition": SEX, "radius": 0.4}
    return robust_accuracy(**usual | changes)


def boxed(**domain: Any) -> dict[str, Any]:
    """Return arguments for a model with a domain, samples near a limit, and an attack that moves the first feature."""
    model = as_classifier(([1.0, 0.0, 0.0], 0.0), **domain)
    up = Own(lambda x: x + np.array([0.1, 0, 0]))
    return {"model": model, "x": np.full((20, 3), 0.95), "y": np.ones(20, int), "attack": up, "radius": 0.5}


AUDITED: list[tuple[dict[str, Any], str, str]] = [
    *(({"attack": attack}, words, "") for attack, words in RESULTS),
    ({"attack": TOO_FAR, "y": np.r_[1 - Y[:3], Y[3:]]}, "moved sample 3 out of its ball", ""),
    (boxed(bounds=(0, 1)), "out of the domain's box", ""),
    (boxed(domain=Domain(scale=[0.0, 1.0, 1.0])), "changed an immutable feature of sample 0", ""),
    (boxed(domain=Domain(scale=[0.5, 1.0, 1.0])) | {"radius": 0.19}, "by 0.2 instead of 0.19 in L2", ""),
    (boxed(bounds=(0, 1)) | {"radius": 4}, "The radius 4 in L2 is larger than the box; did you mean 4/255?", ""),
    (boxed(bounds=(1, 1)) | {"x": np.ones((20, 3))}, "All features are immutable", ""),
    *(({"radius": radius}, "adius", "radius") for radius in (-0.1, "four", float("nan"), float("inf"), None)),
    ({"radius": [0.1, 0.2]}, "`radius` has 2 numbers", ""),
    *(({"attack": wrong}, "`attack` must be an attack", "") for wrong in (ATTACKS["pgd"], "pgd", never)),
    *(
        ({"attack": ESTIMATORS[name]()}, "no such parameter. Pass an estimator of distances to `fm.measure`", "")
        for name in ("plumb", "exact_linear", "first_order")
    ),
    ({"partition": SHORT}, "`partition` has 2 entries but `x` has 20", ""),
    ({"settings": AuditSettings(control=SHORT)}, "`control` has 2 entries but `x` has 20", ""),
    ({"settings": AuditSettings(cluster=[1, 2])}, "20", ""),
    (
        {"settings": AuditSettings(sample_weight=np.ones(20))},
        "`sample_weight` does not go with robust accuracy, which counts samples",
        "sample_weight",
    ),
    *(({"seed": seed}, "`seed` must be a whole number, such as 0", "") for seed in ("a", 1.5, None, True, 2**200)),
    ({"y": np.arange(20) % 3}, "labels that are not among the model's classes in 6 of 20 samples", ""),
    ({"partition": 0.1, "radius": SEX}, f"`partition` is a number, `radius` is a partition: {ORDER}", ""),
    ({"settings": SEX}, f"`settings` is a partition: {ORDER}", ""),
]  # fmt: skip

REFUSALS = [
    *(
        Refusal(
            lambda _, name=name, setting=setting: ATTACKS[name](**setting),
            f"of {ATTACKS[name].__name__}; {words}",
            next(iter(setting)),
        )
        for name, setting, words in SETTINGS
    ),
    *(
        Refusal(
            lambda _, name=name, norm=norm: ATTACKS[name](norm=norm),
            f"`{ATTACKS[name].__name__}` does not support the norm",
        )
        for name in ATTACKS
        for norm in sorted(set(Norm) - ATTACKS[name].norms, key=str)
    ),
    *(Refusal(lambda _, name=name: ATTACKS[name](norm="l7"), "Unknown norm") for name in ATTACKS),
    *(Refusal(lambda _, text=text: parse_attack(text), words, field) for text, words, field in TEXTS),
    Refusal(lambda _: describe_attack(TOO_FAR), "`Own` is not in the catalog of attacks"),
    *(
        Refusal(lambda _, name=name: check_attack(CLASSIFIER, ATTACKS[name]), "given the class `;  must be an attack")
        for name in ATTACKS
    ),
    *(
        Refusal(
            lambda _, name=name, changes=changes: run(**{"name": name, "model": BOX, "x": IN, "y": LAST} | changes),
            words,
            field,
            error,
        )
        for name in ATTACKS
        for changes, words, field, error in CALLED
    ),
    *(
        Refusal(
            lambda _, name=name: run(name, Labels(), np.full((2, 3), 0.5), np.zeros(2, int)),
            f"`{ATTACKS[name].__name__}` needs from the model its gradients; `Labels` offers predict",
            error=ModelError,
        )
        for name in GRADIENTS
    ),
    *(
        Refusal(
            lambda _, name=name: run(
                name, as_classifier(Detached(), classes=range(2)), np.full((2, 2), 0.9, np.float32), np.zeros(2, int)
            ),
            "no gradient with respect to its inputs; choose an attack",
            error=ModelError,
        )
        for name in GRADIENTS
    ),
    *(
        Refusal(
            lambda _, kind=kind: run("square", kind(), np.full((2, 3), 0.5), np.zeros(2, int)), words, error=ModelError
        )
        for kind, words in (
            (Labels, "`Square` needs the scores; `Labels` returns labels only; scores(x)"),
            (Flat, "must return one number per class for each sample, shape (64, 2)"),
            (Contrary, "differs from the predicted class for 2 of 2 samples"),
        )
    ),
    Refusal(
        lambda _: slope(lambda at: at.detach().sum(dim=1), torch.ones(2, 2)),
        "no gradient with respect to its inputs",
        error=ModelError,
    ),
    *(Refusal(lambda _, given=given: robust_accuracy(*given, radius=0.1), f"{w}; {ORDER}") for given, w in SWAPPED),
    Refusal(
        lambda _: attack_samples(MODEL, Y, X, PGD, radius=0.1),
        "swapped? Expected model, x, y, attack, in this order, and radius=….",
    ),
    *(Refusal(lambda _, changes=changes: audited(**changes), words, field) for changes, words, field in AUDITED),
    Refusal(
        lambda _: audited(model=Labels(), x=np.abs(X).clip(0, 1), y=Y, attack=PGD, radius=0.1),
        "needs from the model its gradients",
        error=ModelError,
    ),
]
