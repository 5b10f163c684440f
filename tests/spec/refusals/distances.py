"""What `fairmargin.distances` refuses."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import nn

import fairmargin as fm
from fairmargin.core.distances import Distances, concatenate
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances.adequacy import adequacy
from fairmargin.distances.catalog import CERTIFICATES, ESTIMATORS, PROXIES, describe, parse_estimator
from fairmargin.distances.combine import Tightest, tightest
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.foreign import FromAttack
from fairmargin.distances.measure import measure
from fairmargin.distances.nearest import nearest
from fairmargin.distances.proxies.first_order import FirstOrder
from fairmargin.distances.proxies.last_two_radii import LastTwoRadii
from fairmargin.distances.searches.ddn import DDN
from fairmargin.distances.searches.deepfool import DeepFool
from fairmargin.distances.verified import Verified
from fairmargin.errors import InputError, ModelError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.references import Referenced
from tests.spec.refusals import Refusal

X = np.array([[0.2, 0.2], [0.4, 0.1], [0.9, 0.9]])
PAIR = LinearClassifier([[0.0, 0.0], [1.0, 1.0]], [0.0, -1.0], classes=("no", "yes"))
LABELS = ["no", "no", "yes"]
BOXED = LinearClassifier(PAIR.weight, PAIR.bias, domain=Domain(0, 1))
FOUR = LinearClassifier(np.vstack([np.eye(2), -np.eye(2)]), np.zeros(4), ("a", "b", "c", "d"), Domain(-1, 1))
SEX = fm.Partition.by("sex", ["F", "M", "F"])


@dataclass(frozen=True)
class Own:
    """User-defined estimator that returns no inputs and knows single classes only."""

    norm: Norm = Norm.L2
    needs: ClassVar[str] = "linear"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2})
    revision: ClassVar[int] = 1

    def __call__(self, model: Any, x: Any, y: Any, *, keys: Any) -> Distances:
        return Distances(np.ones(len(x)), np.ones(len(x), bool), "upper", self.norm)


class Layered(Own):
    """The same, for models with layers."""

    needs = "layers"


class Stepless(Own):
    """The same, for models that predict."""

    needs = "predict"


class Scores(nn.Module):
    """Network whose scores are a function of the inputs."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        return self.function(x)


class Deceptive(nn.Module):
    """Network that computes something else while it is traced."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores."""
        return self.inner(x) if isinstance(x, torch.fx.Proxy) else self.inner(x) + 0.01 * x[:, :1].square()


def not_a_number(x: torch.Tensor) -> torch.Tensor:
    """Return scores that are NaN for the third sample."""
    return torch.stack([x[:, 0], 1 - x[:, 0]], dim=1) / (x[:, :1] < 0.5)


# Settings of estimators: class, invalid setting, message --------------------------------------------------------


def settings() -> list[Refusal]:
    """Return the rows for invalid settings of estimators; the field of the error is the setting."""
    below, whole, positive = "must be at least 1; given {}", "must be a whole number; given {}", "a positive number"
    between, listed = "must lie between 0 and 1; given {}", "must be at least 1, or None for all; given {}"
    smoothed = "must be a whole number, at least 1; given {}"
    table: list[tuple[str, dict[str, Any], str]] = [
        ("alma", {"steps": 0}, below),
        ("alma", {"first_step": 0.0}, positive),
        ("alma", {"smoothing": 1.0}, between),
        ("carlini_wagner", {"steps": 0}, below),
        ("carlini_wagner", {"searches": -1}, below),
        ("carlini_wagner", {"learning_rate": 0.0}, positive),
        ("carlini_wagner", {"learning_rate": float("inf")}, positive),
        ("ddn", {"steps": 0}, below),
        ("ddn", {"radius": 0.0}, positive),
        ("ddn", {"radius": float("nan")}, positive),
        ("ddn", {"step_size": -1.0}, positive),
        ("ddn", {"radius_change": 1.0}, between),
        ("deepfool", {"steps": -3}, below),
        ("deepfool", {"rivals": 0}, listed),
        ("first_order", {"rivals": 0}, listed),
        ("fmn", {"steps": 0}, below),
        ("fmn", {"step_size": 0.0}, positive),
        ("fmn", {"radius_change": 1.5}, between),
        ("plumb", {"steps": 0}, below),
        *(("plumb", {"steps": steps}, whole) for steps in (2.5, "8", None, True)),
        ("smoothing", {"sigma": 0.0}, positive),
        ("smoothing", {"sigma": float("nan")}, positive),
        ("smoothing", {"alpha": 0.0}, "must lie between 0 and 0.5"),
        ("smoothing", {"alpha": 0.5}, "must lie between 0 and 0.5"),
        ("smoothing", {"draws": 0}, smoothed),
        ("smoothing", {"draws": 10.5}, smoothed),
        ("smoothing", {"draws": 9}, "must be at least 10 for alpha 0.001"),
        ("smoothing", {"pilot": True}, smoothed),
        ("smoothing", {"price": -0.1}, "must be a finite number, 0 or more"),
        ("smoothed_attack", {"sigma": -1.0}, positive),
        ("smoothed_attack", {"alpha": 0.7}, "must lie between 0 and 0.5"),
        *(("smoothed_attack", {field: 0}, smoothed) for field in ("draws", "steps", "copies", "pilot")),
        ("verified", {"method": "lp"}, "must be one of auto, crown-ibp, crown; given 'lp'"),
        ("verified", {"steps": 0}, below),
    ]
    rows = []
    for name, setting, words in table:
        ((field, value),) = setting.items()
        said = f"`{field}` of {ESTIMATORS[name].__name__} ; {words.format(repr(value))}"
        rows.append(Refusal(lambda _, name=name, setting=setting: ESTIMATORS[name](**setting), said, field))
    return [
        *rows,
        Refusal(lambda _: LastTwoRadii(steps=0), "`steps` of DeepFool must be at least 1", "steps"),
        *(
            Refusal(lambda _, name=name, norm=norm: ESTIMATORS[name](norm=norm), "cannot measure in; it measures in")
            for name in ESTIMATORS
            for norm in sorted(set(Norm) - ESTIMATORS[name].norms, key=str)
        ),
        *(Refusal(lambda _, name=name: ESTIMATORS[name](norm="l7"), "Unknown norm") for name in ESTIMATORS),
    ]


# Texts ----------------------------------------------------------------------------------------------------------

TEXTS = [
    ("", "Unknown estimator", ""),
    ("exact_liner", "Unknown estimator `exact_liner`. Did you mean 'exact_linear'? There are: exact", ""),
    ("ddn:step=3", "`ddn`: unknown field `step`. Did you mean 'steps'? There are: norm, steps", ""),
    ("ddn:steps=many", "field `steps`: expected a whole number, given 'many'", ""),
    ("ddn:steps=1.5", "field `steps`: expected a whole number, given '1.5'", ""),
    ("ddn:radius=1/0", "field `radius`: expected a number, given '1/0'", ""),
    ("deepfool:published=maybe", "field `published`: expected true or false, given 'maybe'", ""),
    ("ddn:norm=l7", "field `norm`: Unknown norm 'l7'", ""),
    ("ddn:steps", "expected field=value, given 'steps'", ""),
    ("ddn:steps=1,steps=2", "`steps` is given twice", ""),
    ("ddn:steps=0", "`steps` of `ddn` must be at least 1", "steps"),
    ("plumb:norm=l1", "`plumb` cannot measure in L1; it measures in l2, linf", ""),
    ("deepfool+deepfol", "Unknown estimator `deepfol`", ""),
    ("deepfool+", "expected an estimator on both sides of +", ""),
    ("+deepfool", "expected an estimator on both sides of +", ""),
    ("deepfool+deepfool:norm=linf", "Joined estimators must measure in one norm", ""),
    ("deepfool+fmn:norm=linf", "`fmn` measures in L∞, `deepfool` in L2", ""),
    ("deepfool+exact_linear", "'deepfool+exact_linear': `exact_linear` needs more from a model; Use it alone", ""),
    *((f"deepfool+{name}", f"`{name}` is a proxy; cannot be joined by +", "") for name in sorted(PROXIES)),
    *((f"deepfool+{name}", f"`{name}` is a lower bound, and + joins upper bounds", "") for name in CERTIFICATES),
]

# Samples, labels and models -------------------------------------------------------------------------------------

given = {"model": PAIR, "x": X, "y": LABELS, "estimator": ExactLinear()}
UNKNOWN = as_classifier(nn.Sequential(nn.Linear(2, 3), nn.Sigmoid()), classes=range(3))
MEASURED: list[tuple[dict[str, Any], str, str, type[Exception]]] = [
    (
        {"x": np.zeros((10_000, 2)), "y": ["no"] * 9_990},
        "`y` has 9,990 labels but `x` has 10,000 samples",
        "",
        InputError,
    ),
    ({"y": 3}, "`y` must hold one label per sample; given 3", "", InputError),
    ({"y": ["no", "maybe", "no"]}, "first 'maybe' at index 1", "", InputError),
    ({"x": np.zeros((0, 2)), "y": []}, "`x` is empty", "", InputError),
    ({"x": np.zeros(3)}, "`x` must hold one row per sample", "", InputError),
    ({"x": [[1.0], [1.0, 2.0]]}, "`x`", "", InputError),
    ({"x": csr_array(X)}, "`x` is a sparse matrix; pass `x.toarray()`", "", InputError),
    ({"x": np.where(X == 0.1, np.nan, X)}, "sample 1, feature 1", "", InputError),
    (
        {"model": BOXED, "x": X * 100, "y": [0] * 3},
        "sample 0 has 20 in feature 0, outside [0, 1]. Scale",
        "",
        InputError,
    ),
    *(({"seed": seed}, "`seed` must be a whole number", "", InputError) for seed in ("a", None, 1.5, True, 2**130)),
    ({"estimator": "exact_linear"}, "`estimator` must be an estimator; given 'exact_linear'", "", InputError),
    ({"estimator": ExactLinear}, "must be an estimator; given the class `ExactLinear`", "", InputError),
    ({"estimator": None}, "must be an estimator; given None", "", InputError),
    ({"estimator": Own(Norm.L1)}, "`Own` cannot measure in L1; it measures in l2", "", InputError),
    (
        {"model": Referenced(PAIR, np.zeros((1, 2))), "estimator": Layered()},
        "`Layered` needs from the model its layers; `Referenced` offers gradient, predict",
        "",
        ModelError,
    ),
    *(
        ({"estimator": DeepFool(), "references": these}, "`references`", "", InputError)
        for these in (np.zeros((3, 5)), np.full((1, 2), np.nan), "those", [])
    ),
    *(
        (
            {"model": as_classifier(Scores(not_a_number), classes=("no", "yes")), "estimator": ESTIMATORS[name]()},
            "scores hold NaN or infinity",
            "",
            ModelError,
        )
        for name in ESTIMATORS
        if name != "exact_linear"
    ),
    (
        {"model": UNKNOWN, "y": [0, 1, 2], "estimator": Verified()},
        "a layer `Sigmoid` at `1`. Supported are Linear",
        "",
        ModelError,
    ),
    (
        {"model": as_classifier(Deceptive(), classes=range(3)), "y": [0, 1, 2], "estimator": Verified()},
        "other scores than the model",
        "",
        ModelError,
    ),
    ({"estimator": Tightest(DeepFool(), FirstOrder())}, "A proxy bounds the distance on neither side", "", InputError),
]

# Classes to keep, for `measure` and `nearest` alike ---------------------------------------------------------------

KEPT = [
    (("a", "b", "c", "d"), "names all 4 classes"),
    (["a", "b", "c", "d", "a"], "names all 4 classes"),
    ([], "names no class"),
    ("e", "`keep` holds labels that are not among the model's classes in 1 of 1 entries"),
    (["a", 3], "not among the model's classes in 1 of 2 entries"),
    ([["a"], ["b"]], "must be one-dimensional"),
]
BLIND = FromAttack(lambda x, y: x + 0.3)  # an attack that holds a model of its own

# Distances that cannot be combined --------------------------------------------------------------------------------


def of(values: list[float], bound: str = "upper", norm: str = "l2", subject: str = "model") -> Distances:
    """Return distances with these values."""
    return Distances(values, [v > 0 for v in values], bound, norm, subject)


def contradicting(bound: str, values: list[float]) -> Refusal:
    """Return the row for bounds that contradict exact distances in one sample."""
    words = "contradict the exact ones in 1 of 2 samples; Are they of the same model"
    return Refusal(lambda _: tightest(of([1.0, 2.0], "exact"), of(values, bound)), words)


COMBINED: list[tuple[Any, str]] = [
    (of([1.0, 2.0], norm="linf"), "Distances 2 are of model in L∞, distances 1 of model in L2"),
    (of([1.0, 2.0], subject="smoothed(0.25)"), "Distances 2 are of smoothed(0.25) in L2"),
    (replace(of([1.0, 2.0]), keep=["a", "b"]), "Distances 2 keep the classes 'a', 'b', distances 1 each sample's own"),
    (of([1.0, 2.0, 3.0]), "Distances 2 are of 3 samples, distances 1 of 2"),
    (of([1.0, 0.0]), "differ in which samples are classified correctly, in 1 of 2 (first at index 1)"),
    (of([1.0, 2.0], "lower"), "Upper and lower bounds were given"),
    (of([1.0, 2.0], "neither"), "A proxy bounds the distance on neither side"),
    ([1.0, 2.0], "argument 2 is [1.0, 2.0]"),
    (DeepFool(), "To join estimators, use `fm.Tightest`"),
]
JOINED: list[tuple[tuple[Any, ...], str]] = [
    ((), "two or more estimators; given 0"),
    ((DeepFool(),), "two or more estimators; given 1"),
    ((DeepFool(), DeepFool("linf")), "`DeepFool` measures in L∞, `DeepFool` in L2"),
    ((DeepFool(), ExactLinear()), "`ExactLinear` needs more from a model than gradients"),
    ((DeepFool(), DeepFool), "`Tightest` takes estimators"),
    ((of([1.0]), of([2.0])), "For distances already measured, use `fm.tightest`"),
]

# Attacks of other libraries ---------------------------------------------------------------------------------------


def raises(x: Any, y: Any) -> Any:
    """Raise an error with a message of two lines."""
    raise KeyError("no such layer\nand a second line")


def without_gradients(model: Any, x: Any, y: Any) -> Any:
    """Ask for a gradient that was not recorded."""
    with torch.no_grad():
        scores = model(x.requires_grad_(True))
    return torch.autograd.grad(scores.sum(), x)[0]


ATTACKS: list[tuple[Callable[..., Any], str]] = [
    (raises, "`raises` failed on 64 samples of shape (2,) (KeyError: 'no such layer"),
    (without_gradients, "`without_gradients` failed; (RuntimeError: element 0 of tensors does not require grad"),
    (lambda x, y: x[:-1], "must return samples of shape (64, 2); it returned shape (63, 2)"),
    (lambda x, y: x[:, :1], "it returned shape (64, 1)"),
    (lambda x, y: x.flatten(), "it returned shape (128,)"),
    (lambda x, y: [*x], "as one tensor or array; it returned a list"),
    (lambda x, y: None, "it returned a NoneType"),
    (lambda x, y: np.full((64, 2), "far"), "that are numbers; it returned an array of <U3"),
    (lambda x, y: x + 1j, "real numbers; it returned torch.complex128"),
    (lambda x, y, z: x, "TypeError"),
]


def foolbox_pgd() -> Any:
    """Return an attack of foolbox at a fixed radius."""
    import foolbox

    return foolbox.attacks.LinfPGD()


# Adequacy ---------------------------------------------------------------------------------------------------------

ADEQUACY: list[tuple[dict[str, Any], str]] = [
    ({"budgets": [DDN()]}, "two or more estimators with rising budgets"),
    ({"budgets": [DDN(steps=3), DDN(steps=4)]}, "without DeepFool"),
    ({"budgets": 5}, "`budgets` must be a list of estimators"),
    ({"budgets": DDN()}, "two or more estimators with rising budgets"),
    ({"budgets": [DDN, DeepFool()]}, "`budgets` must be a list of estimators"),
    *(({"per_group": n}, "`per_group` must be a whole number, at least 1; given") for n in (0, "64", 2.5, True)),
    ({"seed": "a"}, "`seed` must be a whole number; given 'a'"),
    ({"confidence": "95"}, "`confidence` must be a number; given '95'"),
    ({"confidence": 3}, "`confidence`"),
    ({"up_to": [1]}, "`up_to` must be a number"),
    ({"tolerance": -1}, "`tolerance`"),
    ({"tolerance": "x"}, "`tolerance`"),
    ({"partition": ["F", "M"] * 20}, "`partition` must be a `Partition`; given a list"),
    ({"partition": fm.Partition.by("sex", ["F", "M"])}, "`partition` has 2 entries"),
    ({"y": None}, "`y` must hold one label per sample; given None"),
    ({"y": [0]}, "`y` has 1 entries"),
    ({"x": [[1.0], [1.0, 2.0]]}, "`x` must hold one row of numbers per sample"),
    ({"x": None}, "`x` must hold"),
    ({"estimator": DeepFool}, "must be an estimator"),
    ({"estimator": Stepless()}, "has no field `steps`"),
]


def before_measuring(**changes: Any) -> None:
    """Check adequacy and fail if a measurement was made."""

    def progress(done: int, total: int) -> None:
        raise AssertionError("something was measured")

    keep = {"progress": progress} if "estimator" not in changes else {}
    adequacy(**{"model": PAIR, "x": X, "y": LABELS, "partition": SEX, "estimator": DeepFool()} | keep | changes)


REFUSALS = [
    *settings(),
    Refusal(lambda _: concatenate([]), "no distances"),
    *(
        Refusal(lambda _, other=other: concatenate([of([1.0]), other]), words)
        for other, words in (
            (of([1.0], norm="l1"), "Distances of part 1 are of"),
            (of([1.0], subject="smoothed(0.25)"), "Distances of part 1 are of"),
            (replace(of([1.0]), keep="no"), "part 1 keep the class 'no', those of part 0 each sample's own class"),
        )
    ),
    *(Refusal(lambda _, text=text: parse_estimator(text), words, field) for text, words, field in TEXTS),
    Refusal(lambda _: describe(FromAttack(raises)), "`FromAttack` is not in the catalog; cannot be stored by name"),
    Refusal(lambda _: describe(Tightest(DeepFool(), FromAttack(raises))), "is not in the catalog of estimators"),
    *(
        Refusal(lambda _, changes=changes: measure(**given | changes), words, field, error)
        for changes, words, field, error in MEASURED
    ),
    *(
        Refusal(lambda _, call=call, keep=keep: call(FOUR, X, ["a"] * 3, ExactLinear(), keep=keep), words)
        for call in (measure, nearest)
        for keep, words in KEPT
    ),
    *(
        Refusal(
            lambda _, estimator=estimator: measure(FOUR, X, ["a"] * 3, estimator, keep=["a", "b"]),
            "cannot keep several classes",
        )
        for estimator in (Own(), BLIND, Tightest(BLIND, DDN(steps=5)))
    ),
    *(
        Refusal(
            lambda _, name=name: nearest(PAIR, X, LABELS, ESTIMATORS[name]()),
            f"`{ESTIMATORS[name].__name__}` is a {words}",
        )
        for names, words in ((PROXIES, "proxy that bounds"), (CERTIFICATES, "certificate: it proves"))
        for name in sorted(names)
    ),
    *(
        Refusal(lambda _, estimator=estimator: nearest(PAIR, X, LABELS, estimator), "does not return the inputs")
        for estimator in (Own(), Tightest(DeepFool(), Stepless()))
    ),
    Refusal(lambda _: tightest(), "at least one `Distances`; given none"),
    *(Refusal(lambda _, other=other: tightest(of([1.0, 2.0]), other), words) for other, words in COMBINED),
    contradicting("upper", [0.9, 2.0]),
    contradicting("lower", [1.0, 2.1]),
    contradicting("lower", [1.0, np.inf]),
    contradicting("exact", [1.0, 1.5]),
    *(Refusal(lambda _, members=members: Tightest(*members), words) for members, words in JOINED),
    *(
        Refusal(lambda _, attack=attack: measure(BOXED, X, [0, 0, 1], FromAttack(attack)), words)
        for attack, words in ATTACKS
    ),
    *(
        Refusal(lambda _, attack=attack: FromAttack(attack), "`attack` must be an attack")
        for attack in (3, "pgd", None, DeepFool)
    ),
    Refusal(
        lambda _: FromAttack(foolbox_pgd(), "linf"),
        "`LinfProjectedGradientDescentAttack` works at a fixed radius: give `epsilons`",
    ),
    Refusal(lambda _: FromAttack(raises, epsilons=(1.0,)), "`epsilons` are for attacks of foolbox"),
    *(
        Refusal(
            lambda _, radii=radii: FromAttack(foolbox_pgd(), "linf", epsilons=radii),
            "`epsilons` must be radii greater than 0",
        )
        for radii in ((), (0.0,), (-1,), ("far",), (np.inf,), "near")
    ),
    *(
        Refusal(
            lambda _, changes=changes: before_measuring(**changes), words, "per_group" if "per_group" in changes else ""
        )
        for changes, words in ADEQUACY
    ),
]
