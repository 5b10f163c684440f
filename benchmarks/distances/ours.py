"""Fairmargin's own estimators: the table of those that take part, their passes, and the points behind their distances.

To let another one take part, add a line to `OURS`: its spelling on the command line. Names that the catalog does not
hold (yet) are left out, and the run says so.
"""

import ast
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from distances.models import ROOT, Subject, predictions
from distances.passes import Passes
from fairmargin.core.arrays import Ints
from fairmargin.core.distances import Distances
from fairmargin.core.domain import Domain
from fairmargin.distances.catalog import ESTIMATORS, parse_estimator
from fairmargin.distances.measure import measure
from fairmargin.models.network import Network
from fairmargin.models.torch_model import TorchClassifier

OURS = (
    "deepfool:norm=l2",
    *(f"plumb:norm=l2,steps={steps}" for steps in (2, 3, 4, 5, 6, 8, 12, 20, 30, 40, 60, 100, 300, 900)),
    "ddn:norm=l2,steps=50",
    "fmn:norm=l2,steps=50",
    "deepfool:norm=linf",
    *(f"plumb:norm=linf,steps={steps}" for steps in (8, 20, 40)),
    "fmn:norm=linf,steps=50",
)
_SAME = 1e-5  # two distances that differ by less, relatively, are one, calculated in two ways


def known(texts: tuple[str, ...] = OURS) -> list[str]:
    """Those of the table that the catalog holds."""
    return [text for text in texts if text.partition(":")[0] in ESTIMATORS]


@cache
def code_version() -> str:
    """A hash of the code that our numbers come from, without comments: points of another version are measured again."""
    first = {type(parse_estimator(text)).__module__ for text in known()}
    modules, asked = set[str](), {*first, measure.__module__, TorchClassifier.__module__}
    while asked:
        modules |= asked
        asked = {name for module in asked for name in _imported(module)} - modules
    return hashlib.sha256("".join(_bare(name) for name in sorted(modules)).encode()).hexdigest()[:12]


def _imported(module: str) -> Iterator[str]:
    """Fairmargin's modules that a module imports."""
    for node in ast.walk(ast.parse(_file(module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fairmargin."):
            yield node.module


def _bare(module: str) -> str:
    """A module's code without comments and docstrings, which change no number."""
    tree = ast.parse(_file(module).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


def _file(module: str) -> Path:
    path = ROOT / "src" / Path(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def as_measured(subject: Subject) -> tuple[TorchClassifier, str]:
    """The model as users measure it, and a sentence on the copy that searches calculate with."""
    classifier = TorchClassifier(subject.model, tuple(range(10)), Domain(0, 1))
    how = classifier.search_copy(tuple(subject.x.shape[1:]))
    done = [words for words, meant in (("BatchNorm folded", how.fold), ("channels last", how.channels_last)) if meant]
    return classifier, f"Searched by a copy of the model: {', '.join(done)}." if done else "Searched as it is."


def distances(classifier: Any, subject: Subject, text: str) -> Distances:
    """The estimator's distances of the subject's samples; the tuning samples are the references, fixed in advance."""
    return measure(
        classifier,
        subject.x.numpy(),
        subject.y.numpy(),
        parse_estimator(text),
        references=subject.x_tuning.numpy(),
        progress=False,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """A classifier that counts the rows it is asked for, padding included, and keeps what its plain model was shown."""

    inner: TorchClassifier
    passes: Passes = field(default_factory=Passes)
    shown: list[Tensor] = field(default_factory=list)

    @property
    def classes(self) -> tuple[Any, ...]:
        return self.inner.classes

    @property
    def domain(self) -> Domain:
        return self.inner.domain

    @property
    def offers(self) -> frozenset[str]:
        return self.inner.offers

    @property
    def tile(self) -> int:
        return self.inner.tile

    def predict(self, x: Any) -> Ints:
        return self.inner.predict(x)

    def fingerprint(self) -> str:
        return self.inner.fingerprint()

    @contextmanager
    def network(self, shape: tuple[int, ...]) -> Iterator[Network]:
        with self.inner.network(shape) as network:

            def scores(rows: Tensor) -> Tensor:
                out = network.scores(rows)
                self.passes.watch(len(rows), out)
                return out

            def plain(rows: Tensor) -> Tensor:
                self.passes.forward += len(rows)
                self.shown.append(rows.detach().reshape(len(rows), *shape).float().clone())
                return network.plain(rows)

            yield replace(network, scores=scores, plain=plain)


def witnessed(watched: Watched, subject: Subject, found: Distances) -> Tensor:
    """Which distances are those of an input that the plain model, asked afresh, takes for another class.

    The estimators return distances, not points; so every input that they showed to the plain model is looked through.
    """
    shown = torch.cat(watched.shown)
    classes = predictions(subject.model, shown)
    values = torch.as_tensor(found.values)
    order = torch.inf if found.norm.value == "linf" else 2.0
    proven = torch.zeros(len(values), dtype=torch.bool)
    x, points = subject.x.flatten(1), shown.flatten(1)
    inside = ((points >= 0) & (points <= 1)).all(dim=1)
    # In double precision and blocks: by matrix products, and not all at once.
    rough = torch.cat([torch.cdist(block.double(), x.double(), p=order).float() for block in points.split(4096)])
    for i, (value, label) in enumerate(zip(values, subject.y, strict=True)):
        near = ((rough[:, i] - value).abs() <= 1e-3 * value + 1e-6) & (classes != label) & inside
        exact = torch.linalg.vector_norm(points[near].double() - x[i].double(), ord=order, dim=1)
        proven[i] = bool(((exact - value).abs() <= _SAME * value + 1e-9).any())
    return proven
