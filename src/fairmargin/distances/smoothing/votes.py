"""Votes of a model on noisy copies of a sample: counts of classes, from the sample's own random numbers."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints, Keys, is_number
from fairmargin.errors import InputError
from fairmargin.models.protocol import Classifier, Differentiable

if TYPE_CHECKING:
    from fairmargin.models.network import Network

# Streams of a sample's random numbers. They are far from 0, since searches draw directions from the same key.
PILOT, FINAL, SEARCH, RAY, CONFIRM = (stage << 40 for stage in range(1, 6))

_NUMBERS_AT_ONCE = 2**20  # maximum number of values of noise at a time, for models without tiles
_NO_CLASS = -1

Rows = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Poll:
    """A model that counts votes on noisy copies of one sample at a time; `polling` makes one.

    Guarantee: a count depends on the row, the key, the stage and the number of draws, and on nothing else: the copies
    of a sample are evaluated separately from other samples, in padded tiles if the model has tiles.

    Parameters
    ----------
    ask
        Function from rows to class positions; -1 where a score of the model is not finite, which counts for no class.
    classes
        Number of classes.
    deviation
        Standard deviation of the noise in each feature; 0 for immutable features.
    kind
        Floating-point type of rows and noise.
    block
        Number of copies evaluated at a time, so that memory does not grow with the number of draws.
    """

    ask: Callable[[Rows], Ints]
    classes: int
    deviation: Rows
    kind: type[np.floating[Any]]
    block: int

    def rows(self, x: Any) -> Rows:
        """Return samples of any shape as rows of the poll's floating-point type."""
        return np.array(x, dtype=self.kind).reshape(len(x), -1)

    def copies(self, row: Rows, key: np.uint64 | int, stage: int, draws: int) -> Iterator[Rows]:
        """Yield `draws` noisy copies of the row in blocks; the first copies are the same for any number of draws."""
        source = np.random.Generator(np.random.Philox(key=[int(key), stage]))
        for start in range(0, draws, self.block):
            shape = min(self.block, draws - start), len(row)
            noise = source.standard_normal(shape, dtype=self.kind)
            noise *= self.deviation
            noise += row
            yield noise

    def count(self, row: Rows, key: np.uint64 | int, stage: int, draws: int) -> Ints:
        """Count the classes of `draws` noisy copies; copies without finite scores are not counted."""
        counts = np.zeros(self.classes, dtype=np.int64)
        for copies in self.copies(row, key, stage, draws):
            votes = self.ask(copies)
            counts += np.bincount(votes[votes != _NO_CLASS], minlength=self.classes)
        return counts


@contextmanager
def polling(model: Classifier, shape: tuple[int, ...], sigma: float) -> Iterator[Poll]:
    """Prepare a model to vote on samples of that shape under noise of `sigma` × the domain's scale in each feature.

    >>> from fairmargin.models.linear import LinearClassifier
    >>> with polling(LinearClassifier([[0.0], [1.0]], [0.0, -1.0]), (1,), sigma=0.5) as poll:
    ...     poll.count(np.array([1.5]), key=7, stage=PILOT, draws=1000).tolist()
    [156, 844]
    """
    features = math.prod(shape)
    deviation = np.where(model.domain.movable(features), sigma * model.domain.flat(features)[2], 0.0)
    if model.tile > 1 and isinstance(model, Differentiable):
        # The same classes as `predict` returns, but the network is opened once for all draws, and scores that are not
        # finite are no error.
        with model.network(shape) as network:
            kind = _kind_of(network)
            yield Poll(_asking(network, kind), network.classes, deviation.astype(kind), kind, network.tile)
        return
    block = max(model.tile, _NUMBERS_AT_ONCE // max(1, features) // model.tile * model.tile)

    def ask(rows: Rows) -> Ints:
        padded = rows if len(rows) % model.tile == 0 else np.pad(rows, ((0, -len(rows) % model.tile), (0, 0)), "edge")
        return model.predict(padded.reshape(len(padded), *shape))[: len(rows)]

    yield Poll(ask, len(model.classes), deviation, np.float64, block)


def pilot_votes(poll: Poll, rows: Rows, keys: Keys, draws: int) -> Ints:
    """Return the counts of each sample's pilot, one row per sample."""
    counts = [poll.count(row, key, PILOT, draws) for row, key in zip(rows, keys, strict=True)]
    return np.stack(counts) if counts else np.zeros((0, poll.classes), dtype=np.int64)


def winners(counts: Ints) -> Ints:
    """Return the class with most votes of each row, the first of several equal ones; -1 where no vote was counted.

    >>> winners(np.array([[1, 4, 4], [0, 0, 0]])).tolist()
    [1, -1]
    """
    return np.where(counts.any(axis=1), counts.argmax(axis=1), _NO_CLASS)


def check_smoothing(estimator: object, sigma: float, alpha: float, counts: dict[str, int]) -> None:
    """Refuse invalid noise, levels and numbers of draws."""
    name = type(estimator).__name__
    if not is_number(sigma) or not 0 < sigma < math.inf:
        raise InputError(
            "must be a positive number, in units of the domain's scale", field="sigma", given=sigma, of=name
        )
    if not is_number(alpha) or not 0 < alpha < 0.5:
        raise InputError(
            "must lie between 0 and 0.5, the probability that a certificate is wrong",
            field="alpha",
            given=alpha,
            of=name,
        )
    for field, value in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError("must be a whole number, at least 1", field=field, given=value, of=name)


def subject_of(sigma: float) -> str:
    """Return the subject of the distances: the classifier smoothed by this noise, which is not the model itself.

    >>> subject_of(0.25)
    'smoothed(0.25)'
    """
    return f"smoothed({sigma:g})"


def _kind_of(network: "Network") -> type[np.floating[Any]]:
    """Return the numpy type of the network's inputs."""
    import torch

    return np.float64 if network.dtype is torch.float64 else np.float32


def _asking(network: "Network", kind: type[np.floating[Any]]) -> Callable[[Rows], Ints]:
    """Return a function from rows to class positions that evaluates the plain network in padded tiles."""
    import torch

    def ask(rows: Rows) -> Ints:
        tile = np.empty((network.tile, rows.shape[1]), dtype=kind)
        tile[: len(rows)], tile[len(rows) :] = rows, rows[-1]
        scores = network.plain(torch.from_numpy(tile).to(network.device, network.dtype))
        votes = torch.where(torch.isfinite(scores).all(dim=1), scores.argmax(dim=1), _NO_CLASS)
        return votes[: len(rows)].cpu().numpy().astype(np.int64, copy=False)

    return ask
