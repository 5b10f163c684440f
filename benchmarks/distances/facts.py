"""What is the same in every run on one machine: success, mean, median and passes of a contestant on a model."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

import numpy as np
import torch

from distances.models import Subject
from distances.ours import Watched, code_version, distances, witnessed
from distances.outcome import fallback, lengths, settled, successes
from distances.passes import counted
from distances.peers import Peer, in_batches
from fairmargin.models.torch_model import TorchClassifier

_ROUNDED = 0.00005  # how much a mean printed with four decimals may be off


@dataclass(frozen=True, slots=True)
class Fact:
    """One contestant on one model.

    Parameters
    ----------
    version
        What the numbers depend on beside the samples: a hash of a peer's settings, or of our code; "" if unknown.
    mean, median
        Over all samples; where it failed, the fallback counts.
    forward, backward
        Passes per sample.
    measured
        The date.
    taken_from
        The page that the numbers were copied from, rounded as printed there; "" if a run stored them.
    """

    model: str
    library: str
    name: str
    steps: int
    norm: str
    version: str
    settings: Mapping[str, float]
    samples: int
    success: float
    mean: float
    median: float
    forward: float
    backward: float
    measured: str
    taken_from: str = ""

    @property
    def key(self) -> str:
        """The contestant's name, unique on a model."""
        return f"{self.library} {self.name} {self.steps}"

    @property
    def counted(self) -> float:
        """The mean that ratios are formed with: one that was rounded counts with the end that is worse for us."""
        if not self.taken_from:
            return self.mean
        return self.mean + _ROUNDED if self.ours else self.mean - _ROUNDED

    @property
    def passes(self) -> float:
        """Half of forward and backward: one forward and one backward pass count as one."""
        return (self.forward + self.backward) / 2

    @property
    def ours(self) -> bool:
        """Whether it is Fairmargin's."""
        return self.library == "fairmargin"


def of_peer(peer: Peer, subject: Subject, steps: int, settings: Mapping[str, float]) -> Fact:
    """Run a peer once and count."""
    x, y = subject.x[: peer.samples], subject.y[: peer.samples]
    with counted(subject.model) as passes:
        found = in_batches(peer.attack, subject.model, x, y, steps, settings)
        forward, backward = passes.forward / len(x), passes.backward / len(x)
    success = successes(subject.model, x, y, found)
    if not forward:
        raise RuntimeError(f"{peer.key}: no pass was counted. Does it go past the module's hook?")
    near = settled(subject.model, x, y, found)
    values = _filled(subject, peer.norm, lengths(near - x, peer.norm), successes(subject.model, x, y, near))
    return Fact(
        subject.name, peer.library, peer.name, steps, _word(peer.norm), settings_version(settings), dict(settings),
        len(x), float(success.double().mean()), float(values.mean()), float(np.median(values)), forward, backward,
        date.today().isoformat(),
    )  # fmt: skip


def of_ours(text: str, subject: Subject, classifier: TorchClassifier) -> Fact:
    """Run one of our estimators once, count, and check the points behind its distances."""
    watched = Watched(classifier)
    found = distances(watched, subject, text)
    passes, proven = watched.passes, witnessed(watched, subject, found)
    order = np.inf if found.norm.value == "linf" else 2.0
    values = _filled(subject, order, torch.as_tensor(found.values), proven)
    name, steps = spelled(text)
    return Fact(
        subject.name, "fairmargin", name, steps, found.norm.value, code_version(), {}, len(values),
        float(proven.double().mean()), float(values.mean()), float(np.median(values)),
        passes.forward / len(values), passes.backward / len(values), date.today().isoformat(),
    )  # fmt: skip


def spelled(text: str) -> tuple[str, int]:
    """The name and the steps in an estimator's spelling: "plumb:norm=l2,steps=8" is plumb with 8."""
    name, _, fields = text.partition(":")
    given = dict(part.split("=") for part in fields.split(",") if part)
    suffix = " Linf" if given.get("norm") == "linf" else ""
    return name + suffix, int(given.get("steps", 0))


def settings_version(settings: Mapping[str, float]) -> str:
    """A hash of a peer's settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


def _filled(subject: Subject, norm: float, values: torch.Tensor, success: torch.Tensor) -> np.ndarray:
    if not success.all():
        values = fallback(subject, norm).fill(values, success)
    return values.numpy()


def _word(norm: float) -> str:
    return "linf" if norm == np.inf else "l2"
