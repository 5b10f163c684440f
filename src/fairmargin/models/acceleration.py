"""Faster copies of a torch module: what can be done, done, and which pays, by one short trial."""

import copy
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from fairmargin.core.progress import Count, silent
from fairmargin.errors import InputError, ModelError
from fairmargin.models.folding import ChannelsLast, Compiled, folded
from fairmargin.models.trial import Pass, Trial, one_pass

_GAIN = 1.05  # a copy that is hardly faster is not worth a second set of last digits
_COMPILING_PAYS = 300.0  # seconds that the run would take: compiling takes a minute, in every worker


@dataclass(frozen=True, slots=True)
class Acceleration:
    """How a faster copy of a module is made.

    Parameters
    ----------
    fold
        BatchNorm folded into the convolution or linear layer before it.
    channels_last
        Images laid out with their channels last in memory.
    compiled
        Compiled by `torch.compile`.
    threads
        On how many threads; 0 leaves torch's setting. Bits do not depend on it.

    >>> print(Acceleration(fold=True, threads=1))
    BatchNorm folded, 1 thread
    """

    fold: bool = False
    channels_last: bool = False
    compiled: bool = False
    threads: int = 0

    def __str__(self) -> str:
        count = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        words = {"BatchNorm folded": self.fold, "channels last": self.channels_last, "compiled": self.compiled}
        said = [word for word, meant in (words | {count: self.threads > 0}).items() if meant]
        return ", ".join(said) or "plain"

    def encode(self) -> dict[str, bool | int]:
        """The fields by name, for JSON."""
        return asdict(self)

    @classmethod
    def decode(cls, content: Any) -> "Acceleration":
        """What `encode` gave.

        >>> Acceleration.decode(Acceleration(fold=True).encode()) == Acceleration(fold=True)
        True
        """
        kinds = {name: type(value) for name, value in asdict(PLAIN).items()}
        if not isinstance(content, Mapping) or {name: type(value) for name, value in content.items()} != kinds:
            expected = ", ".join(f"{name} ({kind.__name__})" for name, kind in kinds.items())
            raise InputError(f"An acceleration has the fields {expected}; given {content!r}.")
        return cls(**content)


PLAIN = Acceleration()
_COPIES = (Acceleration(fold=True, channels_last=True), Acceleration(fold=True), Acceleration(channels_last=True))


def accelerated(module: nn.Module, acceleration: Acceleration) -> nn.Module:
    """A copy of the module made faster that way; the module itself if there is nothing to do.

    Guarantee: the module is untouched. What cannot be done is a `ModelError` with the reason.
    """
    if replace(acceleration, threads=0) == PLAIN:
        return module
    if acceleration.compiled and not _has_compiler():
        raise ModelError("there is no C++ compiler here")
    try:
        made = copy.deepcopy(module)
    except Exception as error:  # whatever the user's attributes raise when they are copied
        raise ModelError(f"the module cannot be copied ({type(error).__name__}: {error})") from None
    for part in made.modules():
        part.training = False
    for parameter in made.parameters():
        parameter.requires_grad_(False)
        parameter.grad = None
    if acceleration.fold:
        made = folded(made)
    if acceleration.channels_last:
        made = ChannelsLast(made)
    if acceleration.compiled:
        made = Compiled(made)
    return made


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads for a while; 0 changes nothing."""
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which faster copy a trial chose, and what it saw.

    Parameters
    ----------
    acceleration
        The choice.
    sentence
        Says it, for a report.
    seconds
        How long each copy took for one tile, forward and backward, by its words; the median.
    reasons
        Why copies were left out, by their words.
    """

    acceleration: Acceleration
    sentence: str
    seconds: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "acceleration": self.acceleration.encode(),
            "sentence": self.sentence,
            "seconds": dict(self.seconds),
            "reasons": dict(self.reasons),
        }

    @classmethod
    def decode(cls, content: Any) -> "Choice":
        """What `encode` gave."""
        if not isinstance(content, Mapping) or set(content) != {part.name for part in fields(cls)}:
            raise InputError(f"A choice has the fields acceleration, sentence, seconds, reasons; given {content!r}.")
        return cls(**dict(content) | {"acceleration": Acceleration.decode(content["acceleration"])})


class Accelerable(Protocol):
    """A classifier that searches with a copy of its module: `TorchClassifier`, a dataclass."""

    @property
    def module(self) -> nn.Module:
        """The module itself."""

    @property
    def tile(self) -> int:
        """How many samples it is given at once."""


def choose(
    classifier: Accelerable,
    x: Any,
    *,
    passes: int = 0,
    progress: Count | None = None,
) -> Choice:
    """The way to search that is fastest here, by one short trial; the plain model unless another is 5 % faster.

    Forward and backward on one tile, each way in turn, again and again; medians are compared. A copy is left out if its
    scores differ from the model's by more than 0.1 %, or if a sample's bits depend on its place in the tile.

    Guarantee: the module is untouched. The trial takes some seconds, or 2 % of a run that is long.

    Parameters
    ----------
    classifier
        A `TorchClassifier`.
    x
        Some of the samples that will be measured; the first of them are used.
    passes
        About how many tiles the run will calculate, forward and backward; compiling is tried for long runs only.
    progress
        Called with (ways tried, ways there are).
    """
    idle = _nothing_to_gain(classifier.module)
    if idle:
        return Choice(PLAIN, f"The plain model: {idle}.")
    if len(x) == 0:
        raise InputError("`x` is empty: a trial needs at least one sample.")
    trial, tell, ways = _begun(classifier, x, passes), progress or silent, len(_COPIES) + 2
    tell(0, ways)
    one = Acceleration(threads=1)
    if torch.get_num_threads() > 1 and all(part.device.type == "cpu" for part in classifier.module.parameters()):
        trial.admit(one)  # first of all: on a machine shared with others the rest of the trial is faster by it
    trial.race(PLAIN, one)
    trial.restart()  # where several threads wait for one another, that alone took the time
    threads_too = 1 if trial.seconds.get(one, math.inf) * _GAIN < trial.seconds[PLAIN] else 0
    copies = [replace(way, threads=threads_too) for way in _COPIES]
    for done, way in enumerate(copies, start=1):
        tell(done, ways)
        trial.admit(way)
    trial.race(Acceleration(threads=threads_too), *copies)
    tell(ways - 1, ways)
    if passes * trial.seconds[trial.best] > _COMPILING_PAYS:
        best = trial.best
        trial.admit(replace(best, compiled=True))
        trial.race(best, replace(best, compiled=True))
    tell(ways, ways)
    return decided(trial.seconds, trial.reasons, torch.get_num_threads())


def decided(seconds: Mapping[Acceleration, float], reasons: Mapping[Acceleration, str], all_threads: int) -> Choice:
    """The choice that follows from the seconds a tile of each way; `PLAIN` is among them.

    >>> decided({PLAIN: 1.36, Acceleration(fold=True): 1.0}, {}, 2).sentence
    'BatchNorm folded, 2 threads: 1.36 times as fast as the plain model in a trial.'
    >>> decided({PLAIN: 9.0, Acceleration(threads=1): 1.0}, {}, 2).sentence
    'The plain model on 1 thread: 2 threads were slower in a trial.'
    >>> decided({PLAIN: 1.04, Acceleration(fold=True): 1.0}, {}, 2).sentence
    'The plain model: no faster copy was found in a trial.'
    """
    fastest = min(seconds.values())
    # The simplest of those that are about as fast as any: another trial would find the same.
    chosen = min((way for way, value in seconds.items() if value < fastest * _GAIN), key=_changes)
    spoken = {str(way): value for way, value in seconds.items()}, {str(way): why for way, why in reasons.items()}
    if chosen == PLAIN:
        return Choice(PLAIN, "The plain model: no faster copy was found in a trial.", *spoken)
    plain = Acceleration(threads=chosen.threads)  # a gain is told against the plain model on as many threads
    if chosen == plain:
        sentence = f"The plain model on {plain}: {all_threads} threads were slower in a trial."
        return Choice(chosen, sentence, *spoken)
    gain = seconds.get(plain, seconds[PLAIN]) / seconds[chosen]
    words = str(replace(chosen, threads=chosen.threads or all_threads))
    words = words[0].upper() + words[1:]
    return Choice(chosen, f"{words}: {gain:.2f} times as fast as the plain model in a trial.", *spoken)


def _changes(way: Acceleration) -> int:
    return way.fold + way.channels_last + (way.threads > 0) + 4 * way.compiled


def _begun(classifier: Accelerable, x: Any, passes: int) -> Trial[Acceleration]:
    """A trial on one tile of the samples, repeated where they are fewer."""
    some = np.asarray(x[: classifier.tile])
    shape = some.shape[1:]
    rows = torch.as_tensor(np.resize(some, (classifier.tile, *shape))).flatten(1)
    ready: dict[Acceleration, Any] = {}  # each copy is made once, and forgotten with the trial

    def run(way: Acceleration, rows: Tensor) -> Pass:
        if way not in ready:
            ready[way] = cast(Any, replace)(classifier, acceleration=way)
        with ready[way].network(shape) as network:
            return one_pass(network.scores, rows.to(network.device, network.dtype))

    return Trial(PLAIN, run, rows, passes)


def _nothing_to_gain(module: nn.Module) -> str:
    """Why a trial would be wasted, or nothing."""
    kinds = (nn.modules.conv._ConvNd, nn.modules.batchnorm._BatchNorm)
    if not any(isinstance(part, kinds) for part in module.modules()):
        return "it shows no convolution and no BatchNorm that could be made faster"
    if any(parameter.dtype == torch.float64 for parameter in module.parameters()):
        return "it calculates with 64 bits"
    return ""


def _has_compiler() -> bool:
    return any(shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++", "c++", "cl") if name)
