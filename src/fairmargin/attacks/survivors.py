"""Samples of an attack and the best input found for each. Every input is verified with the original model."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fairmargin.attacks.losses import Loss
from fairmargin.attacks.protocol import Attack, accepted_norm, check_attack
from fairmargin.core.arrays import Floats, Ints, Keys, same_length
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.core.radius import as_radii
from fairmargin.distances.gradient_search import Started, key_rows, started
from fairmargin.errors import InputError, ModelError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.network import TILE, Network, space
from fairmargin.models.protocol import Classifier, as_rows, check_inside, in_model_order
from fairmargin.models.torch_model import TorchClassifier
from fairmargin.perturbation.balls import Ball
from fairmargin.perturbation.tiles import by_tiles

_AT_ONCE = 512  # samples attacked at a time, which limits memory and does not change results
_STREAMS = 1 << 44  # first random stream of attacks; estimators of distances use other streams


@dataclass(slots=True, eq=False)
class Survivors:
    """Samples under attack, with the best input found so far for each.

    The best input is one that the original model misclassifies, or else the one with the largest loss. Search
    algorithms offer inputs, which are moved into the ball and evaluated with the original model. Searches may therefore
    use approximations of the model, and may leave the ball by rounding errors.

    Parameters
    ----------
    network, norm, loss
        Model, norm of the radius, and the loss that orders inputs that are not misclassified.
    samples, shape
        Samples in the precision of the model, one row each, with their classes and scores; and the shape of one sample.
    exact, box
        Samples as given by the user, and low, high and scale of the domain, in double precision.
    radius, keys
        Radius and random key of each sample.
    best, best_loss
        Best input so far and its loss; initially the sample.
    fooled
        Whether the best input is misclassified. Samples that are misclassified initially are not attacked.
    """

    network: Network
    norm: Norm
    loss: Loss
    samples: Started
    shape: tuple[int, ...]
    exact: Tensor
    box: tuple[Tensor, Tensor, Tensor]
    radius: Tensor
    keys: Tensor
    best: Tensor
    best_loss: Tensor
    fooled: Tensor

    @classmethod
    def of(
        cls, network: Network, domain: Domain, norm: Norm, loss: Loss, x: Any, y: Ints, radius: Floats, keys: Keys
    ) -> "Survivors":
        """Create the state of an attack before any search. The samples must have been checked."""
        samples = started(network, x, y)
        exact, radii = (torch.as_tensor(each, device=network.device) for each in (as_rows(x), radius))
        return cls(
            network=network,
            norm=norm,
            loss=loss,
            samples=samples,
            shape=tuple(x.shape[1:]),
            exact=exact,
            box=space(domain, tuple(x.shape[1:]), torch.float64, network.device),
            radius=radii,
            keys=key_rows(keys, samples),
            best=samples.x.clone(),
            best_loss=loss(samples.scores, samples.y).double(),
            fooled=samples.scores.argmax(dim=1) != samples.y,
        )

    @property
    def remaining(self) -> Tensor:
        """Positions of the samples with a radius above 0 for which no misclassified input was found."""
        return torch.nonzero(~self.fooled & (self.radius > 0))[:, 0]

    def ball(self, center: Tensor, radius: Tensor) -> Ball:
        """Return the balls around samples in the precision of the model."""
        network = self.network
        return Ball.around(center, self.norm, radius, network.low, network.high, network.scale)

    def offer(self, which: Tensor, candidates: Tensor) -> Tensor:
        """Evaluate one candidate for each of the remaining samples `which` and return which are misclassified."""
        if not len(which):
            return torch.zeros(0, dtype=torch.bool, device=which.device)
        moved, fooled, loss = by_tiles(
            self.network, self._judge, candidates, self.exact[which], self.radius[which], self.samples.y[which]
        )
        better = fooled | (loss > self.best_loss[which])
        self.best[which[better]] = moved[better]
        self.best_loss[which[better]] = loss[better]
        self.fooled[which] = fooled
        return fooled

    def offer_some(self, which: Tensor, chosen: Tensor, candidates: Tensor) -> Tensor:
        """Offer the candidates of the chosen samples and return which samples are not misclassified now."""
        at = torch.nonzero(chosen)[:, 0]
        keep = torch.ones(len(which), dtype=torch.bool, device=which.device)
        keep[at] = ~self.offer(which[at], candidates[at])
        return keep

    def draws(self, which: Tensor, stream: int) -> Tensor:
        """Return the random numbers from which `Ball.random_start` computes points, by key and stream."""
        extra = 0 if self.norm is Norm.LINF else 2
        features = self.samples.x.shape[1] + extra
        rows = np.empty((len(which), features))
        for i, generator in enumerate(self._generators(which, stream)):
            rows[i] = generator.standard_normal(features) if extra else generator.uniform(-1, 1, features)
        return torch.as_tensor(rows).to(self.samples.x)

    def uniforms(self, which: Tensor, stream: int, part: int, count: int) -> Tensor:
        """Return `count` uniform numbers in [0, 1) for each sample, by its key, the stream and a part of the stream."""
        rows = np.empty((len(which), count))
        for i, generator in enumerate(self._generators(which, stream, part)):
            rows[i] = generator.random(count)
        return torch.as_tensor(rows, device=which.device)

    def _generators(self, which: Tensor, stream: int, part: int = 0) -> Iterator[np.random.Generator]:
        """Yield the random generator of each sample."""
        for key in self.keys[which].tolist():
            yield np.random.Generator(np.random.Philox(key=[key % 2**64, _STREAMS + stream], counter=[0, 0, 0, part]))

    def best_inputs(self) -> Floats:
        """Return the best inputs in double precision. Features that did not change have the value given by the user."""
        moved = self.best != self.samples.x
        return np.asarray(torch.where(moved, self.best.double(), self.exact).cpu().numpy())

    def _judge(self, x: Tensor, exact: Tensor, radius: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the inputs moved into their balls, whether each is misclassified, and their losses."""
        moved = Ball.around(exact, self.norm, radius, *self.box).admissible(x)
        scores = self.network.plain(moved)
        # Far from the data the scores can overflow; such an input does not count.
        sound = torch.isfinite(scores).all(dim=1)
        loss = torch.where(sound, self.loss(scores, y).double(), -torch.inf)
        return moved, (scores.argmax(dim=1) != y) & sound, loss


class BallAttack:
    """Base class of attacks that offer inputs to `Survivors`: subclasses define `objective` and `search`."""

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2, Norm.LINF})
    revision: ClassVar[int] = 1

    norm: Norm

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))

    @property
    def objective(self) -> Loss:
        """Loss that orders inputs that are not misclassified."""
        raise NotImplementedError

    def search(self, survivors: Survivors) -> None:
        """Offer inputs for the remaining samples."""
        raise NotImplementedError

    def __call__(self, model: Any, x: Any, y: Ints, *, radius: Any, keys: Keys) -> npt.NDArray[np.floating[Any]]:
        """Return the best input found for each sample. The sample's key determines its random numbers.

        Guarantee: every input lies inside the domain's box and within the radius of the sample as given by the user,
        measured in double precision. Immutable features do not change.
        """
        classifier = as_classifier(model)
        check_attack(classifier, self)
        samples = np.asarray(in_model_order(classifier, x))
        classes = _checked(samples, y, keys, len(classifier.classes))
        radii = as_radii(radius, len(samples))
        if not len(samples):
            return samples.astype(np.float64)
        if isinstance(classifier, TorchClassifier):
            classifier = classifier.with_outputs_for(samples)
        check_inside(classifier.domain, as_rows(samples))
        found = np.empty(samples.shape)
        with open_network(classifier, self, tuple(samples.shape[1:])) as network:
            for first in range(0, len(samples), _AT_ONCE):
                part = slice(first, first + _AT_ONCE)
                given = samples[part], classes[part], radii[part], keys[part]
                survivors = Survivors.of(network, classifier.domain, self.norm, self.objective, *given)
                check_scores_decide(classifier, samples[part], survivors.samples.scores)
                self.search(survivors)
                found[part] = survivors.best_inputs().reshape(samples[part].shape)
            wide = network.dtype is torch.float64 or samples.dtype.itemsize > 4
        return found if wide else found.astype(np.float32)


def _checked(x: npt.NDArray[Any], y: Any, keys: Any, classes: int) -> Ints:
    """Check samples, class positions and keys, and return the class positions as int64."""
    if x.ndim < 2:
        raise InputError(
            f"`x` must hold one row per sample; its shape is {x.shape}. Pass a single sample as `x[None]`."
        )
    positions = np.asarray(y)
    if positions.ndim != 1 or (positions.dtype.kind not in "iu" and positions.size):
        raise InputError(
            f"`y` must hold class positions, one whole number per sample; its shape is {positions.shape} and its "
            f"dtype {positions.dtype}. Use `encode_labels(model, y)` to convert labels."
        )
    same_length(x=x, y=positions, keys=keys)
    wrong = (positions < 0) | (positions >= classes)
    if wrong.any():
        raise InputError(
            f"`y` must hold class positions between 0 and {classes - 1}; given {positions[wrong][0]}. "
            "Use `encode_labels(model, y)` to convert labels."
        )
    return positions.astype(np.int64)


@contextmanager
def open_network(model: Classifier, attack: Attack, shape: tuple[int, ...]) -> Iterator[Network]:
    """Open a model as a `Network` for samples of this shape.

    A model without gradients must have a method `scores(x)` that returns one number per class for each sample.
    """
    if "gradient" in model.offers:
        with model.network(shape) as network:  # type: ignore[attr-defined]
            yield network
    else:
        yield _network_of_scores(model, attack, shape)


def _network_of_scores(model: Any, attack: Attack, shape: tuple[int, ...]) -> Network:
    """Return a network without gradients that evaluates the method `scores` of a model."""
    name, kind = type(attack).__name__, type(model).__name__
    if not callable(getattr(model, "scores", None)):
        raise ModelError(
            f"`{name}` needs the scores of a model, but `{kind}` returns labels only. Add a method `scores(x)` that "
            "returns one number per class, the largest for the predicted class, for instance `predict_proba(x)`."
        )
    classes = len(model.classes)

    def plain(rows: Tensor) -> Tensor:
        samples = rows.detach().numpy().reshape(len(rows), *shape)
        scores = np.array(model.scores(samples), dtype=np.float64)
        if scores.shape != (len(rows), classes):
            raise ModelError(
                f"`{kind}.scores` must return one number per class for each sample, shape {(len(rows), classes)}; "
                f"it returned shape {scores.shape}."
            )
        return torch.from_numpy(scores)

    def without_gradient(rows: Tensor) -> Tensor:
        raise ModelError(f"`{name}` needs gradients, but `{kind}` does not offer them.")

    low, high, scale = space(model.domain, shape, torch.float64, torch.device("cpu"))
    tile = model.tile if model.tile > 1 else TILE
    return Network(without_gradient, plain, classes, tile, low, high, scale)


def check_scores_decide(model: Classifier, x: Any, scores: Tensor) -> None:
    """Raise an error if a model without gradients does not predict the class with the largest score."""
    if "gradient" in model.offers:
        return  # such a model predicts the class with the largest score by construction
    differing = np.flatnonzero(model.predict(x) != scores.argmax(dim=1).numpy())
    if differing.size:
        raise ModelError(
            f"The class with the largest score of `{type(model).__name__}.scores` differs from the predicted class for "
            f"{differing.size:,} of {len(x):,} samples (first sample {differing[0]}). Make both methods agree."
        )
