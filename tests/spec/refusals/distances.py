"""What `fairmargin.distances` refuses."""

from dataclasses import dataclass, replace
from typing import ClassVar

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
from fairmargin.distances.searches.ddn import DDN
from fairmargin.distances.searches.deepfool import DeepFool
from fairmargin.distances.verified import Verified
from fairmargin.errors import InputError, ModelError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.references import Referenced
from tests.distances.confirmation import of_formula
from tests.spec.refusals import Refusal

X = np.array([[0.2, 0.2], [0.4, 0.1], [0.9, 0.9]])
PAIR = LinearClassifier([[0.0, 0.0], [1.0, 1.0]], [0.0, -1.0], classes=("no", "yes"))
LABELS = ["no", "no", "yes"]
BOXED = LinearClassifier(PAIR.weight, PAIR.bias, domain=Domain(0, 1))
FOUR = LinearClassifier(np.vstack([np.eye(2), -np.eye(2)]), np.zeros(4), ("a", "b", "c", "d"), Domain(-1, 1))
SEX = fm.Partition.by("sex", ["F", "M", "F"])
BLIND = FromAttack(lambda x, y: x + 0.3)  # an attack that holds a model of its own


def each(call, cases, error=InputError):
    """Return one row per case: an argument of the call, the words, and the field if there is one."""
    return [Refusal(lambda _, given=given: call(given), words, *field, error=error) for given, words, *field in cases]


@dataclass(frozen=True)
class Own:
    """User-defined estimator that returns no inputs and knows single classes only."""

    norm: Norm = Norm.L2
    needs: ClassVar[str] = "linear"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2})
    revision: ClassVar[int] = 1

    def __call__(self, model, x, y, *, keys):
        return Distances(np.ones(len(x)), np.ones(len(x), bool), "upper", self.norm)


class Layered(Own):
    needs = "layers"


class Predicting(Own):
    needs = "predict"


class Deceptive(nn.Module):
    """Network that computes something else while it is traced."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 3)

    def forward(self, x):
        return self.inner(x) if isinstance(x, torch.fx.Proxy) else self.inner(x) + 0.01 * x[:, :1].square()


def infinite(x):
    """Return scores that are infinite for the third sample."""
    return torch.stack([x[:, 0], 1 - x[:, 0]], dim=1) / (x[:, :1] < 0.5)


# Settings of estimators -----------------------------------------------------------------------------------------------

BELOW, WHOLE, POSITIVE = "must be at least 1; given ", "must be a whole number; given ", "must be a positive number"
BETWEEN, RIVALS = "must lie between 0 and 1; given ", "must be at least 1, or None for all; given 0"
DRAWS, LEVEL = "must be a whole number, at least 1; given ", "must lie between 0 and 0.5"
SETTINGS = [
    ("alma", "first_step", 0.0, POSITIVE),
    ("alma", "smoothing", 1.0, BETWEEN),
    ("carlini_wagner", "searches", -1, BELOW),
    *(("carlini_wagner", "learning_rate", rate, POSITIVE) for rate in (0.0, float("inf"))),
    ("ddn", "step_size", -1.0, POSITIVE),
    ("ddn", "radius_change", 1.0, BETWEEN),
    *(("ddn", "radius", radius, POSITIVE) for radius in (0.0, float("nan"))),
    ("deepfool", "steps", -3, BELOW),
    ("deepfool", "rivals", 0, RIVALS),
    ("first_order", "rivals", 0, RIVALS),
    ("fmn", "step_size", 0.0, POSITIVE),
    ("fmn", "radius_change", 1.5, BETWEEN),
    *(("plumb", "steps", steps, WHOLE) for steps in (2.5, "8", None, True)),
    *((name, "steps", 0, BELOW) for name in ("alma", "carlini_wagner", "ddn", "deepfool", "fmn", "plumb", "verified")),
    *(("smoothing", "sigma", sigma, POSITIVE) for sigma in (0.0, float("nan"))),
    *(("smoothing", "alpha", alpha, LEVEL) for alpha in (0.0, 0.5)),
    *(("smoothing", *setting, DRAWS) for setting in (("draws", 0), ("draws", 10.5), ("pilot", True))),
    ("smoothing", "draws", 9, "must be at least 10 for alpha 0.001"),
    ("smoothing", "price", -0.1, "must be a finite number, 0 or more"),
    ("smoothed_attack", "sigma", -1.0, POSITIVE),
    ("smoothed_attack", "alpha", 0.7, LEVEL),
    *(("smoothed_attack", field, 0, DRAWS) for field in ("draws", "steps", "copies", "pilot")),
    ("verified", "method", "lp", "must be one of auto, crown-ibp, crown; given 'lp'"),
]
NORMS = [(name, norm) for name in ESTIMATORS for norm in sorted(set(Norm) - ESTIMATORS[name].norms, key=str)]


def build(setting):
    """Create the estimator of that name with one field."""
    name, field, value = setting
    return ESTIMATORS[name](**{field: value})


# Texts ----------------------------------------------------------------------------------------------------------

TEXTS = [
    ("", "Unknown estimator"),
    ("exact_liner", "Unknown estimator `exact_liner`. Did you mean 'exact_linear'? There are: exact"),
    ("ddn:step=3", "`ddn`: unknown field `step`. Did you mean 'steps'? There are: norm, steps"),
    ("ddn:steps=many", "field `steps`: expected a whole number, given 'many'"),
    ("ddn:steps=1.5", "field `steps`: expected a whole number, given '1.5'"),
    ("ddn:radius=1/0", "field `radius`: expected a number, given '1/0'"),
    ("deepfool:published=maybe", "field `published`: expected true or false, given 'maybe'"),
    ("ddn:norm=l7", "field `norm`: Unknown norm 'l7'"),
    ("ddn:steps", "expected field=value, given 'steps'"),
    ("ddn:steps=1,steps=2", "`steps` is given twice"),
    ("ddn:steps=0", "`steps` of `ddn` must be at least 1", "steps"),
    ("plumb:norm=l1", "`plumb` cannot measure in L1; it measures in l2, linf"),
    ("deepfool+deepfol", "Unknown estimator `deepfol`"),
    ("deepfool+", "expected an estimator on both sides of +"),
    ("+deepfool", "expected an estimator on both sides of +"),
    ("deepfool+deepfool:norm=linf", "Joined estimators must measure in the same norm"),
    ("deepfool+fmn:norm=linf", "`fmn` measures in L∞, `deepfool` in L2"),
    ("deepfool+exact_linear", "'deepfool+exact_linear': `exact_linear` needs more from a model; Use it alone"),
    *((f"deepfool+{name}", f"`{name}` is a proxy; cannot be joined by +") for name in sorted(PROXIES)),
    *((f"deepfool+{name}", f"`{name}` is a lower bound, and + joins upper bounds") for name in sorted(CERTIFICATES)),
]

# Samples, labels and models -------------------------------------------------------------------------------------

GIVEN = {"model": PAIR, "x": X, "y": LABELS, "estimator": ExactLinear()}
MEASURED = [
    ({"x": np.zeros((10_000, 2)), "y": ["no"] * 9_990}, "`y` has 9,990 labels but `x` has 10,000 samples"),
    ({"y": 3}, "`y` must hold one label per sample; given 3"),
    ({"y": ["no", "maybe", "no"]}, "first 'maybe' at index 1"),
    ({"x": np.zeros((0, 2)), "y": []}, "`x` is empty"),
    ({"x": np.zeros(3)}, "`x` must hold one row per sample"),
    ({"x": [[1.0], [1.0, 2.0]]}, "`x`"),
    ({"x": csr_array(X)}, "`x` is a sparse matrix; pass `x.toarray()`"),
    ({"x": np.where(X == 0.1, np.nan, X)}, "sample 1, feature 1"),
    ({"model": BOXED, "x": X * 100, "y": [0] * 3}, "sample 0 has 20 in feature 0, outside [0, 1]. Scale"),
    *(({"seed": seed}, "`seed` must be a whole number") for seed in ("a", None, 1.5, True, 2**130)),
    ({"estimator": "exact_linear"}, "`estimator` must be an estimator; given 'exact_linear'"),
    ({"estimator": ExactLinear}, "must be an estimator; given the class `ExactLinear`"),
    ({"estimator": None}, "must be an estimator; given None"),
    ({"estimator": Own(Norm.L1)}, "`Own` cannot measure in L1; it measures in l2"),
    *(
        ({"estimator": DeepFool(), "references": these}, "`references`", "references")
        for these in (np.zeros((3, 5)), np.full((1, 2), np.nan), "those", [])
    ),
    ({"estimator": Tightest(DeepFool(), FirstOrder())}, "A proxy bounds the distance on neither side"),
    *(
        ({"model": FOUR, "y": ["a"] * 3, "estimator": estimator, "keep": ["a", "b"]}, "cannot keep several classes")
        for estimator in (Own(), BLIND, Tightest(BLIND, DDN(steps=5)))
    ),
]
MODELS = [
    (
        {"model": Referenced(PAIR, np.zeros((1, 2))), "estimator": Layered()},
        "`Layered` needs from the model its layers; `Referenced` offers gradient, predict",
    ),
    *(
        (
            {"model": of_formula(infinite), "y": [0, 1, 0], "estimator": ESTIMATORS[name]()},
            "scores hold NaN or infinity",
        )
        for name in ESTIMATORS
        if not name.startswith("exact_")
    ),
    (
        {"model": as_classifier(nn.Sequential(nn.Linear(2, 3), nn.Sigmoid())), "y": [0, 1, 2], "estimator": Verified()},
        "a layer `Sigmoid` at `1`. Supported are Linear",
    ),
    (
        {"model": as_classifier(Deceptive(), classes=range(3)), "y": [0, 1, 2], "estimator": Verified()},
        "other scores than the model",
    ),
]

# Classes to keep, for `measure` and `nearest` alike ---------------------------------------------------------------

KEPT = [
    (("a", "b", "c", "d"), "names all 4 classes", "keep"),
    (["a", "b", "c", "d", "a"], "names all 4 classes", "keep"),
    ([], "names no class", "keep"),
    ("e", "`keep` holds labels that are not among the model's classes in 1 of 1 entries"),
    (["a", 3], "not among the model's classes in 1 of 2 entries"),
    ([["a"], ["b"]], "must be one-dimensional"),
]

# Distances that cannot be combined --------------------------------------------------------------------------------


def of(values, bound="upper", norm="l2", subject="model"):
    """Return distances with these values."""
    return Distances(values, [v > 0 for v in values], bound, norm, subject)


COMBINED = [
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
JOINED = [
    ((), "two or more estimators; given 0"),
    ((DeepFool(),), "two or more estimators; given 1"),
    ((DeepFool(), DeepFool("linf")), "`DeepFool` measures in L∞, `DeepFool` in L2"),
    ((DeepFool(), ExactLinear()), "`ExactLinear` needs more from a model than gradients"),
    ((DeepFool(), DeepFool), "`Tightest` takes estimators"),
    ((of([1.0]), of([2.0])), "For distances already measured, use `fm.tightest`"),
]

# Attacks of other libraries ---------------------------------------------------------------------------------------


def raises(x, y):
    """Raise an error with a message of two lines."""
    raise KeyError("no such layer\nand a second line")


def without_gradients(model, x, y):
    """Ask for a gradient that was not recorded."""
    with torch.no_grad():
        scores = model(x.requires_grad_(True))
    return torch.autograd.grad(scores.sum(), x)[0]


ATTACKS = [
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


def foolbox_pgd():
    """Return an attack of foolbox at a fixed radius."""
    import foolbox

    return foolbox.attacks.LinfPGD()


# Adequacy ---------------------------------------------------------------------------------------------------------

ADEQUACY = [
    ({"budgets": [DDN()]}, "two or more estimators with rising budgets"),
    ({"budgets": [DDN(steps=3), DDN(steps=4)]}, "without DeepFool"),
    ({"budgets": 5}, "`budgets` must be a list of estimators"),
    ({"budgets": DDN()}, "two or more estimators with rising budgets"),
    ({"budgets": [DDN, DeepFool()]}, "`budgets` must be a list of estimators"),
    *(
        ({"per_group": n}, "`per_group` must be a whole number, at least 1; given", "per_group")
        for n in (0, "64", 2.5, True)
    ),
    ({"seed": "a"}, "`seed` must be a whole number; given 'a'"),
    ({"confidence": "95"}, "`confidence` must be a number; given '95'", "confidence"),
    ({"confidence": 3}, "`confidence`", "confidence"),
    ({"up_to": [1]}, "`up_to` must be a number", "up_to"),
    ({"tolerance": -1}, "`tolerance`", "tolerance"),
    ({"tolerance": "x"}, "`tolerance`", "tolerance"),
    ({"partition": ["F", "M"] * 20}, "`partition` must be a `Partition`; given a list"),
    ({"partition": fm.Partition.by("sex", ["F", "M"])}, "`partition` has 2 entries"),
    ({"y": None}, "`y` must hold one label per sample; given None"),
    ({"y": [0]}, "`y` has 1 entries"),
    ({"x": [[1.0], [1.0, 2.0]]}, "`x` must hold one row of numbers per sample"),
    ({"x": None}, "`x` must hold"),
    ({"estimator": DeepFool}, "must be an estimator"),
    ({"estimator": Predicting()}, "has no field `steps`"),
]


def before_measuring(changes):
    """Check adequacy and fail if a measurement was made."""

    def progress(done, total):
        raise AssertionError("something was measured")

    reported = {} if "estimator" in changes else {"progress": progress}
    adequacy(**{"model": PAIR, "x": X, "y": LABELS, "partition": SEX, "estimator": DeepFool()} | reported | changes)


def attacked(attack):
    """Measure by an attack of another library."""
    return measure(BOXED, X, [0, 0, 1], FromAttack(attack))


REFUSALS = [
    *each(
        build,
        [
            ((name, field, value), f"`{field}` of {ESTIMATORS[name].__name__} ; {words}", field)
            for name, field, value, words in SETTINGS
        ],
    ),
    *each(build, [((name, "norm", norm), "cannot measure in; it measures in") for name, norm in NORMS]),
    *each(build, [((name, "norm", "l7"), "Unknown norm") for name in ESTIMATORS]),
    *each(build, [(("last_two_radii", "steps", 0), "`steps` of DeepFool must be at least 1", "steps")]),
    *each(parse_estimator, TEXTS),
    *each(
        describe,
        [
            (FromAttack(raises), "`FromAttack` is not in the catalog; cannot be stored by name"),
            (Tightest(DeepFool(), FromAttack(raises)), "is not in the catalog of estimators"),
        ],
    ),
    *each(lambda changes: measure(**GIVEN | changes), MEASURED),
    *each(lambda changes: measure(**GIVEN | changes), MODELS, ModelError),
    *each(lambda keep: measure(FOUR, X, ["a"] * 3, ExactLinear(), keep=keep), KEPT),
    *each(lambda keep: nearest(FOUR, X, ["a"] * 3, ExactLinear(), keep=keep), KEPT),
    *each(
        lambda estimator: nearest(PAIR, X, LABELS, estimator),
        [
            *(
                (ESTIMATORS[name](), f"`{ESTIMATORS[name].__name__}` is a proxy that bounds")
                for name in sorted(PROXIES)
            ),
            *(
                (ESTIMATORS[name](), f"`{ESTIMATORS[name].__name__}` is a certificate: it proves")
                for name in sorted(CERTIFICATES)
            ),
            (Own(), "does not return the inputs"),
            (Tightest(DeepFool(), Predicting()), "does not return the inputs"),
        ],
    ),
    *each(
        concatenate,
        [
            ([], "no distances"),
            ([of([1.0]), of([1.0], norm="l1")], "Distances of part 1 are of"),
            ([of([1.0]), of([1.0], subject="smoothed(0.25)")], "Distances of part 1 are of"),
            (
                [of([1.0]), replace(of([1.0]), keep="no")],
                "part 1 keep the class 'no', those of part 0 each sample's own class",
            ),
        ],
    ),
    *each(lambda several: tightest(*several), [((), "at least one `Distances`; given none")]),
    *each(lambda other: tightest(of([1.0, 2.0]), other), COMBINED),
    *each(
        lambda other: tightest(of([1.0, 2.0], "exact"), of(*other)),
        [
            ((values, bound), "contradict the exact ones in 1 of 2 samples; Are they of the same model")
            for bound, values in (
                ("upper", [0.9, 2.0]),
                ("lower", [1.0, 2.1]),
                ("lower", [1.0, np.inf]),
                ("exact", [1.0, 1.5]),
            )
        ],
    ),
    *each(lambda members: Tightest(*members), JOINED),
    *each(attacked, ATTACKS),
    *each(FromAttack, [(attack, "`attack` must be an attack") for attack in (3, "pgd", None, DeepFool)]),
    *each(
        lambda radii: FromAttack(foolbox_pgd(), "linf", epsilons=radii),
        [
            (None, "`LinfProjectedGradientDescentAttack` works at a fixed radius: give `epsilons`"),
            *(
                (radii, "`epsilons` must be radii greater than 0")
                for radii in ((), (0.0,), (-1,), ("far",), (np.inf,), "near")
            ),
        ],
    ),
    *each(lambda radii: FromAttack(raises, epsilons=radii), [((1.0,), "`epsilons` are for attacks of foolbox")]),
    *each(before_measuring, ADEQUACY),
]
