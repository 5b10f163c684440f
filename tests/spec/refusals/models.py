"""What `fairmargin.models` refuses."""

import pickle
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from sklearn.decomposition import KernelPCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC, LinearSVC
from torch import nn

from fairmargin.core.domain import Domain
from fairmargin.errors import ModelError, UntrustedError
from fairmargin.models.architectures.catalog import build_architecture
from fairmargin.models.architectures.pretrained import pretrained
from fairmargin.models.architectures.sizing import features_left
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.layers.tracing import layers_of
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.loading import load_model, save_linear
from fairmargin.models.normalized import Normalized
from fairmargin.models.protocol import encode_labels
from fairmargin.models.reading.weights import load_weights
from fairmargin.models.references import as_references
from fairmargin.models.search_copy import folded
from fairmargin.models.sklearn_model import from_sklearn
from tests.models.modules import Formula
from tests.spec.refusals import Refusal

PAIR = LinearClassifier([[0.0, 0.0], [1.0, 1.0]], [0.0, -1.0], classes=("no", "yes"))
X, Y = np.random.default_rng(0).random((20, 2)), [0, 1] * 10
WEIGHTS = {name: part.clone() for name, part in nn.Linear(2, 3).state_dict().items()}

of_model = partial(Refusal, error=ModelError)
untrusted = partial(Refusal, error=UntrustedError)


class Own:
    """Someone's classifier, which is no dataclass."""

    classes, domain, offers, tile = (0, 1), Domain(), frozenset({"predict"}), 1

    def predict(self, x):
        return np.zeros(len(x), dtype=np.int64)

    def fingerprint(self):
        return "own"


class Contrary(LogisticRegression):
    """A subclass, which may predict something else."""

    def predict(self, x):
        return super().predict(x)[::-1]


def predicted(function, shape=(4,), classes=3):
    """Predict with a module that is a function."""
    return as_classifier(Formula(function), classes=range(classes)).predict(np.zeros((2, *shape), np.float32))


def raising(error):
    def function(x):
        raise error

    return function


def file(name, content=b"nonsense"):
    """Write a file to the folder of the call; anything but bytes as torch does, text as it is."""
    path = Path(name)
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, str):
        path.write_text(content)
    elif path.suffix == ".safetensors":
        save_file(content, path)
    else:
        torch.save(content, path)
    return str(path)


def arrays(**content):
    np.savez("model.npz", **content)
    return "model.npz"


def cut(path):
    """Cut a file in half."""
    Path(path).write_bytes(Path(path).read_bytes()[: Path(path).stat().st_size // 2])
    return path


def flipped(path):
    """Change eight bytes inside the first array of an archive."""
    content = bytearray(Path(path).read_bytes())
    content[400:408] = b"\xff" * 8
    Path(path).write_bytes(content)
    return path


def saved(model, name="model.npz"):
    save_linear(model, name)
    return name


def fitted(*steps):
    return Pipeline([*((f"step{i}", step) for i, step in enumerate(steps)), ("last", LogisticRegression())]).fit(X, Y)


def squeezenet(content, name="other.pt"):
    return pretrained("squeezenet1_0", (3, 33, 33), 10, file(name, content))


def loaded(content, name="weights.pt", **options):
    return load_weights(nn.Linear(2, 3), Path(file(name, content)), **options)


CODE = """
model = 3
def make_of(size): return size
def broken(): raise RuntimeError("no weights")
import torch
class Sized(torch.nn.Module):
    def __init__(self, size): super().__init__()
"""

LINEAR = [
    Refusal(lambda _: PAIR.predict([[0, 0], [0, 0], [0, np.nan]]), "NaN or infinity, first nan in sample 2, feature 1"),
    Refusal(lambda _: PAIR.predict(np.zeros((1, 3))), "has 3 features; but the model takes 2"),
    Refusal(lambda _: PAIR.predict([["a", "b"]]), "must hold numbers only"),
    Refusal(lambda _: LinearClassifier([[0, 0], [1, 1]], [0, 0], domain=Domain([0, 0, 0], 1)), "sample has 2"),
    of_model(lambda _: LinearClassifier([[1.0, 2.0]], [0.0]), "one row per class"),
    of_model(lambda _: LinearClassifier([[1.0], [2.0]], [0.0]), "must hold 2 numbers"),
    of_model(lambda _: LinearClassifier([[1.0], [np.nan]], [0.0, 0.0]), "NaN or infinity in 1 of 2"),
    of_model(lambda _: LinearClassifier([["a"], ["b"]], [0.0, 0.0]), "must hold numbers"),
    of_model(lambda _: LinearClassifier([[0.0], [1.0]], [0, 0], classes=("a", "a")), "names a class twice: 'a', 'a'"),
    of_model(lambda _: LinearClassifier([[0.0], [1.0]], [0, 0], classes=(1, True)), "names a class twice: 1, True"),
    of_model(lambda _: LinearClassifier([[0.0], [1.0]], [0, 0], classes=("a",)), "names 1 classes"),
    Refusal(
        lambda _: encode_labels(PAIR, ["no", "maybe", "yes", "never"]),
        "in 2 of 4 samples (first 'maybe' at index 1); are 'no', 'yes'",
    ),
    Refusal(lambda _: encode_labels(PAIR, [0, 1]), "labels are int, the classes str: convert"),
    *(
        Refusal(lambda _, y=y: encode_labels(PAIR, y), f"`y` must; {words}")
        for y, words in [(np.eye(2), "argmax"), ([[0], [1]], "(2, 1)"), ("yes", "'yes'"), (3, "given 3")]
    ),
]
CONVERSION = [
    Refusal(lambda _: as_classifier(PAIR, bounds=(0, 1), domain=Domain(0, 1)), "not both"),
    Refusal(lambda _: as_classifier(PAIR, bounds=1.0), "must be a pair; given 1.0", "bounds"),
    Refusal(lambda _: as_classifier(PAIR, bounds=(0, 1, 2)), "must be a pair; given (0, 1, 2)", "bounds"),
    of_model(lambda _: as_classifier((np.eye(2), "x")), "must be (weight, bias), two arrays of numbers"),
    of_model(lambda _: as_classifier(([[1.0, 2.0]], [1.0, 2.0])), "needs one bias; given 2 biases"),
    of_model(lambda _: as_classifier(Own(), bounds=(0, 1)), "defines its own domain"),
    *(
        of_model(
            lambda _, model=model: as_classifier(model),
            f"Cannot read a model of type `{kind}`; Supported are: a Fairmargin `Classifier`; a linear model",
        )
        for model, kind in [("model.npz", "str"), (None, "NoneType"), (3, "int")]
    ),
    of_model(lambda _: as_classifier(LinearClassifier), "given the class `LinearClassifier`. Create an object of it"),
    of_model(lambda _: as_classifier(WEIGHTS), "Cannot read a model of type"),
]
NETWORKS = [
    of_model(lambda _: as_classifier(nn.Linear(3, 1), classes=["only"]), "at least 2 classes; `classes` names 1"),
    Refusal(lambda _: as_classifier(nn.Linear(2, 3), classes=3), "`classes` must be a sequence"),
    Refusal(lambda _: as_classifier(nn.Linear(2, 3), classes="abc"), "`classes` must be a sequence; 'abc'"),
    of_model(lambda _: as_classifier(nn.Linear(2, 3), classes=["a", "b", "a"]), "`classes` names a class twice"),
    of_model(lambda _: as_classifier(Formula(torch.sin)), "Cannot tell how many classes `Formula` has; classes=range"),
    *(
        Refusal(lambda _, d=d: as_classifier(nn.Linear(2, 3), device=d), f"cannot be {d!r} here; Use 'cpu'", "device")
        for d in ("gpu", "cuda:7", "abacus", 3.5)
    ),
    Refusal(lambda _: as_classifier(nn.Linear(2, 3), tile=0), "must be at least 1; given 0", "tile"),
    Refusal(lambda _: as_classifier(nn.Linear(2, 3), tile=-1), "must be at least 1; given -1", "tile"),
    *(
        of_model(lambda _, f=function: predicted(f), words)
        for function, words in [
            (lambda x: x[:, :1], "returns shape (64, 1); One number per sample is for two classes"),
            (lambda x: x[:, 0], "returns shape (64,); One number per sample is for two classes"),
            (lambda x: (x[:, :3], x), "returns a tuple; expected one score per class, shape (64, 3)"),
            (lambda x: {"logits": x[:, :3]}, "returns a dict"),
            (lambda x: x, "returns shape (64, 4) for 64 samples; shape (64, 3). Give the label values with `classes=`"),
            (lambda x: x[:5, :3], "returns shape (5, 3) for 64 samples"),
            (lambda x: None, "returns a NoneType"),
            (lambda x: x[:, :3].to(torch.complex64), "returns complex numbers"),
            (lambda x: x[:, :3].long(), "returns int64 numbers; shape (64, 3), of floating-point numbers"),
            (lambda x: x.argmax(dim=1), "returns int64 numbers; shape (64, 3), of floating-point numbers"),
            (lambda x: x[:, :3] > 0, "returns bool numbers; floating-point numbers"),
            (lambda x: x[:, :3] * torch.nan, "Are its weights damaged"),
            (raising(KeyError("inside")), "The model cannot take; KeyError: 'inside'"),
            (raising(AttributeError("a")), "The model cannot take; (a)"),
            (raising(StopIteration()), "The model cannot take; (StopIteration)"),
            (raising(OSError()), "The model cannot take; (OSError)"),
        ]
    ),
    of_model(lambda _: predicted(lambda x: x.expand(-1, 3, -1, -1), (1, 8, 8)), "(64, 3, 8, 8); pooling or flattening"),
    *(
        of_model(
            lambda _, shape=shape: as_classifier(
                nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 4))
            ).predict(np.zeros((2, *shape), np.float32)),
            f"cannot take 64 samples of shape {shape}; made for?",
        )
        for shape in [(64,), (8, 8), (3, 8, 8), (1, 5, 5)]
    ),
    of_model(lambda _: folded(Formula(lambda x: x if x.sum() > 0 else -x)), "its steps cannot be traced"),
    of_model(lambda _: layers_of("no model", (4,)), "layers of a `str` cannot be read"),
]
NORMALISATION = [
    *(
        of_model(lambda _, mean=mean, std=std: Normalized(nn.Identity(), mean, std), words)
        for mean, std, words in [
            ((0.1, 0.2, 0.3), (1.0, 0.0, 1.0), "must be greater than 0; given 0 in place 1 of 3"),
            (0.0, -1.0, "must be greater than 0; given -1"),
            ((0.1, 0.2, 0.3), (1.0, 1.0), "`mean` of a normalisation has 3 numbers but `std` has 2"),
            ("half", 1.0, "`mean` of a normalisation must hold numbers"),
            (0.0, None, "`std` of a normalisation must hold numbers"),
            (float("nan"), 1.0, "`mean` of a normalisation must hold finite numbers; nan"),
            (0.0, float("inf"), "`std` of a normalisation must hold finite numbers; inf"),
            ((), 1.0, "`mean` of a normalisation must hold finite numbers; ()"),
        ]
    ),
    *(
        of_model(
            lambda _, shape=shape: Normalized(nn.Identity(), (0.1, 0.2, 0.3), 1.0)(torch.zeros(shape)),
            f"has 3 numbers but a sample has {shape[1]} channels; {shape[1:]}",
        )
        for shape in [(2, 1, 4, 4), (2, 48), (2, 4)]  # one channel is not broadcast
    ),
    of_model(lambda _: Normalized(nn.Identity(), 0.5, 1.0)(torch.zeros(3)), "along the first axis; given (3,)"),
]
REFERENCES = [
    Refusal(lambda _, given=given: as_references(given, (2,), Domain(0, 9)), words, "references")
    for given, words in [
        (np.zeros((3, 5)), "of the same shape as in `x`, (2,); their shape is (5,)"),
        (np.zeros((3, 2, 1)), "their shape is (2, 1)"),
        (np.zeros(2), "`references` must hold at least one sample, one row each; (2,)"),
        (np.zeros((0, 2)), "at least one sample, as in"),
        ([], "is empty"),
        (np.array([[np.nan, 1.0], [1.0, 1.0]]), "NaN or infinity in 1 of 2"),
        ([[1.0, np.inf]], "NaN or infinity in 1 of 1"),
        (np.array([[1.0, 200.0]]), "is outside the domain in 1 of 1 samples"),
        ([["a", "b"]], "must hold numbers"),
        ([[1.0], [1.0, 2.0]], "must hold numbers, one row per sample"),
        ("training", "must hold samples, as `x` does; given 'training'"),
        (7, "must hold samples, as `x` does; given 7"),
    ]
]
SKLEARN = [
    *(
        of_model(lambda _, step=step: from_sklearn(fitted(step)), f"Step 'step0{name}; {words}")
        for step, name, words in [
            (PolynomialFeatures(), "' (PolynomialFeatures)", "is not known to be affine"),
            (KernelPCA(), "' (KernelPCA)", "is not known to be affine"),
            (MinMaxScaler(clip=True), "' (MinMaxScaler)", "clips"),
            (MaxAbsScaler(clip=True), "' (MaxAbsScaler)", "clips"),
            (make_pipeline(PolynomialFeatures()), ".polynomialfeatures' (PolynomialFeatures)", "not known"),
        ]
    ),
    *(
        of_model(lambda _, m=m: from_sklearn(m.fit(X, Y)), f"The model ({name}) is not known to be a linear; {words}")
        for m, name, words in [
            (RandomForestClassifier(3), "RandomForestClassifier", "Supported are LogisticRegression"),
            (SVC(kernel="linear"), "SVC", "Supported are LogisticRegression"),
            (Contrary(), "Contrary", "Supported are"),
            (GridSearchCV(RidgeClassifier(), {"alpha": [1.0]}, cv=2), "GridSearchCV", "best_estimator_"),
        ]
    ),
    of_model(lambda _: from_sklearn(RidgeClassifier().fit(X, np.eye(20)[:, :3])), "several labels"),
    of_model(lambda _: from_sklearn(LogisticRegression()), "(LogisticRegression) has not been fitted"),
    of_model(lambda _: from_sklearn(make_pipeline(StandardScaler(), LinearSVC())), "(LinearSVC) has not been fitted"),
    of_model(lambda _: from_sklearn(Pipeline([("nothing", "passthrough")])), "has no steps; Supported are"),
    of_model(lambda _: from_sklearn(make_pipeline(StandardScaler())), "(StandardScaler); Supported are"),
]
FILES = [
    of_model(lambda _: save_linear(LinearClassifier([[0.0], [1.0]], [0, 0], classes=(1, "a")), "a.npz"), "mix types"),
    of_model(lambda _: save_linear(PAIR, "model.pkl"), "as .npz"),
    *(
        of_model(lambda _, name=name: load_model(name), f"There is no model file '{name}'")
        for name in ("model.npz", "model.pkl", "model.joblib", "model.skops", "model.pt")
    ),
    *(
        of_model(lambda _, content=content: load_model(file("model.npz", content)), f"an .npz of plain arrays{words}")
        for content, words in [(b"", " (No data"), (b"nonsense", " (This file"), (b"PK\x03\x04 half", " (File is")]
    ),
    of_model(lambda _: load_model(cut(saved(PAIR))), "cannot be read as an .npz"),
    of_model(lambda _: load_model(flipped(arrays(weight=np.eye(200), bias=np.zeros(200)))), "model.npz"),
    of_model(lambda _: load_model(arrays(weight=[["a"], ["b"]], bias=[0, 0])), "weight; arrays of numbers"),
    of_model(lambda _: load_model(arrays(weight=np.eye(2), bias=[0, 0], low="a")), "low"),
    of_model(lambda _: load_model(arrays(weight=np.eye(2), biases=[0])), "lacks the array bias; holds biases, weight"),
    of_model(lambda _: load_model(arrays(weight=np.array([Own()], object), bias=[0])), "an .npz of plain arrays (Obj"),
    of_model(
        lambda _: load_model(arrays(weight=np.eye(2), bias=[0, 0], classes=np.array(["no", "yes"], object))),
        "an .npz of plain arrays (Obj; classes=model.classes_.astype(str)",
    ),
    *(
        untrusted(
            lambda _, name=name: load_model(file(name, pickle.dumps(3))),
            f"Reading '{name}' can run any code; --trust-model; np.savez",
        )
        for name in ("model.pkl", "model.pickle", "model.joblib")
    ),
    *(
        of_model(lambda _, name=name: load_model(file(name), trust=True), f"'{name}' cannot be")
        for name in ("a.pkl", "a.joblib", "a.pt2", "a.ts", "a.pt", "a.pth")
    ),
    *(
        of_model(lambda _, spec=spec: load_model(spec), words)
        for spec, words in [
            ("no_such_package.models:net", "Importing 'no_such_package.models' failed"),
            ("no/such/file.py:net", "There is no file"),
            ("model.tflite", "Unknown model 'model.tflite'"),
            ("", "Unknown model ''"),
            ("module:", "Unknown model 'module:'"),
        ]
    ),
    *(
        of_model(lambda _, name=name: load_model(f"{file('mine.py', CODE)}:{name}"), words)
        for name, words in [
            ("modle", "has no 'modle'; it defines model"),
            ("make_of", "is a function that needs size"),
            ("broken", "RuntimeError: no weights"),
            ("Sized", "is a class that needs size"),
        ]
    ),
    of_model(lambda _: load_model(f"{file('mine.py', '1 / 0')}:net"), "failed with ZeroDivisionError"),
    of_model(lambda _: load_model(saved(PAIR), weights="weights.pt"), "for torch networks; is a `LinearClassifier`"),
    *(
        of_model(lambda _, o=options: load_model("arch:small_cnn", **o), words)
        for options, words in [
            ({"shape": (1, 8, 8), "classes": 3}, "would be untrained; --weights FILE"),
            ({"weights": "w.pt"}, "give the `shape` of one sample and the number of `classes`"),
            ({"weights": "no/w.pt", "shape": (1, 8, 8), "classes": 3}, "no file of weights 'no/w.pt'"),
        ]
    ),
    *(
        of_model(
            lambda _, name=name, trust=trust: load_model(file(name, WEIGHTS), trust=trust),
            f"'{name}' holds weights only; --model arch:NAME --weights",
        )
        for name, trust in [("w.pt", False), ("w.pth", True), ("w.safetensors", False), ("w.ckpt", True)]
    ),
    of_model(
        lambda _: load_model(file("two.pt", {"one": nn.Linear(1, 2), "two": nn.Linear(1, 2)}), trust=True),
        "several modules: one, two",
    ),
    of_model(lambda _: load_model(file("none.pt", [1, 2]), trust=True), "found a `list`"),
]
STATE_DICTS = [
    of_model(lambda _: load_weights(nn.Linear(2, 3), Path("none.pt")), "There is no file of weights"),
    *(
        of_model(lambda _, content=content: loaded(content), "holds no weights: expected tensors by name")
        for content in (3, [], {}, {"epoch": 3}, {3: torch.zeros(1)}, torch.zeros(2))
    ),
    untrusted(lambda _: loaded({"x": Own()}), "holds pickled objects; Own; --trust-model; torch.save; arch:NAME"),
    of_model(lambda _: loaded({"w": torch.zeros(1)}), "No names match: do the weights belong to another architecture?"),
    of_model(lambda _: loaded({"model": WEIGHTS, "ema": WEIGHTS}), "several weights that fit: 'model', 'ema'"),
    of_model(
        lambda _: loaded(nn.Linear(2, 100).state_dict(), user="the data"), "The file has 100 classes, the data 3."
    ),
    of_model(
        lambda _: load_weights(nn.Conv2d(1, 2, 3), Path(file("w.pt", nn.Conv2d(3, 2, 3).state_dict()))),
        "The file takes inputs with 3 channels, the network 1.",
    ),
]
ARCHITECTURES = [
    *(
        of_model(lambda _, shape=shape: build_architecture("small_cnn", shape, 2), words)
        for shape, words in [
            ((63,), "63 numbers are no square grey image; `logistic`"),
            ((28, 28), "(1, 28, 28): `x[:, None]`"),
            ((3, 4, 5, 6), "Reshape `x` to (samples, channels, height, width)"),
            ((), "positive whole numbers; given ()"),
            ((3, 0, 8), "positive whole numbers; given (3, 0, 8)"),
            ((3, 8.0, 8), "positive whole numbers; given (3, 8.0, 8)"),
            ("3x8x8", "positive whole numbers; given '3x8x8'"),
            (64, "positive whole numbers; given 64"),
            ((1, 3, 3), "a network for small images such as `resnet8`."),
        ]
    ),
    of_model(lambda _: build_architecture("lenet5", (1, 3, 3), 2), "small images such as `small_cnn` or `resnet8`."),
    of_model(lambda _: build_architecture("vgg13", (1, 28, 28), 2), "at least 32×32 pixels; given 28×28"),
    *(
        of_model(lambda _, c=c: build_architecture("small_cnn", (1, 8, 8), c), f"whole number of classes; given {c!r}")
        for c in (1, 0, -3, 2.0, True, "ten", None)
    ),
    of_model(lambda _: build_architecture("resnet-20", (3, 32, 32), 10), "`resnet-20`. Did you mean 'resnet20'?"),
    of_model(
        lambda _: features_left("odd", lambda channels: [nn.Conv2d(channels + 1, 2, 1)], (3, 8, 8)),
        "`odd` cannot take images with 3 channels",
    ),
    *(
        of_model(lambda _, name=name, content=content: squeezenet(content, name), words)
        for name, content, words in [
            ("cut.pth", b"PK\x03\x04 cut short", "cut.pth' cannot be read as a torch checkpoint"),
            ("empty.pt", b"", "empty.pt' cannot be read as a torch checkpoint"),
            ("cut.safetensors", b"\x10\x00", "cut.safetensors' cannot be read as .safetensors"),
            ("a.pt", {"other.weight": torch.zeros(2)}, "the weights of `squeezenet1_0`: it has no `features.0.weight`"),
            (
                "a.pt",
                {"features.0.weight": torch.zeros(96, 3, 7, 7), "classifier.1.weight": torch.zeros(5, 9, 1, 1)},
                "does not hold the weights of `squeezenet1_0`; features.0.bias",
            ),
            (
                "a.pt",
                {"features.0.weight": torch.zeros(96), "classifier.1.weight": torch.zeros(5, 9, 1, 1)},
                "it has no `features.0.weight` of at least two axes",
            ),
            ("a.pt", [1, 2], "holds no state dict; found a list"),
            ("a.pt", {"features.0.weight": 3}, "holds no state dict; found a dict"),
        ]
    ),
    of_model(lambda _: pretrained("squeezenet1_0", (3, 33, 33), 10, "none.pt"), "There is no file of weights"),
    of_model(lambda _: pretrained("resnet18", (3, 9, 9), 10), "`resnet18`. Did you mean 'resnet18_imagenet'"),
    of_model(lambda _: pretrained("squeezenet1_0", (81,), 10), "takes images; (81,)"),
]
REFUSALS = [
    of_model(lambda _: load_model("arch:lgistic"), "Unknown architecture `lgistic`. Did you mean 'logistic'?"),
    *LINEAR,
    *CONVERSION,
    *NETWORKS,
    *NORMALISATION,
    *REFERENCES,
    *SKLEARN,
    *FILES,
    *STATE_DICTS,
    *ARCHITECTURES,
]
