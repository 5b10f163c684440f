"""The samples of an attack, and what was found for each: the one place that decides whether it succeeded."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fairmargin.attacks.losses import Loss
from fairmargin.attacks.opening import check_scores_decide, opened
from fairmargin.attacks.protocol import Attack, check_attack
from fairmargin.core.arrays import Floats, Ints, Keys, same_length
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.core.radius import as_radii
from fairmargin.distances.gradient_search import key_rows
from fairmargin.distances.starting import Started, started
from fairmargin.errors import InputError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.feature_order import in_model_order
from fairmargin.models.network import Network, space
from fairmargin.models.protocol import as_rows, check_inside
from fairmargin.models.torch_model import TorchClassifier
from fairmargin.perturbation.balls import Ball
from fairmargin.perturbation.tiles import by_tiles

_AT_ONCE = 512  # samples in memory at a time; no result depends on it
START = 1 << 44  # the part of a sample's randomness that beginnings are drawn from; distances use others


@dataclass(slots=True, eq=False)
class Survivors:
    """Samples under attack, and for each the best input so far: misclassified by the plain model, or of largest loss.

    Searches only propose; they need not be right, and may leave the ball by a rounding.

    Parameters
    ----------
    network, norm, loss
        The model, how length is measured, and what orders inputs that are not misclassified.
    begun, shape
        The samples as the model sees them, rows of numbers, and the shape that one of them has.
    exact, box
        The samples as they were given, and low, high and scale of the domain, in double precision.
    radius, keys
        One number a sample.
    point, height
        The best input so far and its loss; at first the sample.
    fooled
        Whether it is misclassified; samples that are from the beginning are not attacked.
    """

    network: Network
    norm: Norm
    loss: Loss
    begun: Started
    shape: tuple[int, ...]
    exact: Tensor
    box: tuple[Tensor, Tensor, Tensor]
    radius: Tensor
    keys: Tensor
    point: Tensor
    height: Tensor
    fooled: Tensor

    @classmethod
    def of(
        cls, network: Network, domain: Domain, norm: Norm, loss: Loss, x: Any, y: Ints, radius: Floats, keys: Keys
    ) -> "Survivors":
        """Checked samples of which nothing is found yet."""
        begun = started(network, x, y)
        exact, radii = (torch.as_tensor(each, device=network.device) for each in (as_rows(x), radius))
        return cls(
            network=network,
            norm=norm,
            loss=loss,
            begun=begun,
            shape=tuple(x.shape[1:]),
            exact=exact,
            box=space(domain, tuple(x.shape[1:]), torch.float64, network.device),
            radius=radii,
            keys=key_rows(keys, begun),
            point=begun.x.clone(),
            height=loss(begun.scores, begun.y).double(),
            fooled=begun.scores.argmax(dim=1) != begun.y,
        )

    @property
    def left(self) -> Tensor:
        """The positions of samples that are classified correctly so far and may move."""
        return torch.nonzero(~self.fooled & (self.radius > 0))[:, 0]

    def ball(self, start: Tensor, radius: Tensor) -> Ball:
        """Around some of the samples, as the model sees them."""
        network = self.network
        return Ball.around(start, self.norm, radius, network.low, network.high, network.scale)

    def offer(self, which: Tensor, candidates: Tensor) -> Tensor:
        """Consider one input for each of the samples `which`, all of them survivors; whether it is misclassified."""
        if not len(which):
            return torch.zeros(0, dtype=torch.bool, device=which.device)
        settled, fooled, height = by_tiles(
            self.network, self._judge, candidates, self.exact[which], self.radius[which], self.begun.y[which]
        )
        better = fooled | (height > self.height[which])
        self.point[which[better]] = settled[better]
        self.height[which[better]] = height[better]
        self.fooled[which] = fooled
        return fooled

    def draws(self, which: Tensor, turn: int) -> Tensor:
        """What random starts are made of, from each sample's key and the turn."""
        extra = 0 if self.norm is Norm.LINF else 2
        features = self.begun.x.shape[1] + extra
        rows = np.empty((len(which), features))
        for i, source in enumerate(self._sources(which, turn)):
            rows[i] = source.standard_normal(features) if extra else source.uniform(-1, 1, features)
        return torch.as_tensor(rows).to(self.begun.x)

    def uniforms(self, which: Tensor, turn: int, part: int, count: int) -> Tensor:
        """So many numbers between 0 and 1 for each sample, from its key, the turn and the part of it."""
        rows = np.empty((len(which), count))
        for i, source in enumerate(self._sources(which, turn, part)):
            rows[i] = source.random(count)
        return torch.as_tensor(rows, device=which.device)

    def _sources(self, which: Tensor, turn: int, part: int = 0) -> Iterator[np.random.Generator]:
        for key in self.keys[which].tolist():
            yield np.random.Generator(np.random.Philox(key=[key % 2**64, START + turn], counter=[0, 0, 0, part]))

    def rows(self) -> Floats:
        """The best inputs in double precision, with every feature that the model sees unmoved as it was given."""
        moved = self.point != self.begun.x
        return np.asarray(torch.where(moved, self.point.double(), self.exact).cpu().numpy())

    def _judge(self, x: Tensor, exact: Tensor, radius: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        settled = Ball.around(exact, self.norm, radius, *self.box).admissible(x)
        scores = self.network.plain(settled)
        # So far away that the scores overflow, the model says nothing.
        sound = torch.isfinite(scores).all(dim=1)
        height = torch.where(sound, self.loss(scores, y).double(), -torch.inf)
        return settled, (scores.argmax(dim=1) != y) & sound, height


def attacked(
    attack: Attack,
    model: Any,
    x: Any,
    y: Ints,
    radius: Any,
    keys: Keys,
    *,
    loss: Loss,
    search: Callable[[Survivors], None],
) -> npt.NDArray[np.floating[Any]]:
    """What an attack returns: the samples checked, `search` run on them some hundreds at a time, and its best inputs.

    Guarantee: every input lies inside the domain's box and, measured in double precision from the sample as given,
    within the radius; a feature that cannot move is untouched.

    Parameters
    ----------
    attack, model, x, y, radius, keys
        As `Attack.__call__` is given them.
    loss
        What orders inputs where none is misclassified.
    search
        Offers inputs for the survivors it is given.
    """
    classifier = as_classifier(model)
    check_attack(classifier, attack)
    samples = np.asarray(in_model_order(classifier, x))
    classes = _checked(samples, y, keys, len(classifier.classes))
    radii = as_radii(radius, len(samples))
    if not len(samples):
        return samples.astype(np.float64)
    if isinstance(classifier, TorchClassifier):
        classifier = classifier.looked_at(samples)
    check_inside(classifier.domain, as_rows(samples))
    found = np.empty(samples.shape)
    with opened(classifier, attack, tuple(samples.shape[1:])) as network:
        for first in range(0, len(samples), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            survivors = Survivors.of(
                network, classifier.domain, attack.norm, loss, samples[part], classes[part], radii[part], keys[part]
            )
            check_scores_decide(classifier, samples[part], survivors.begun.scores)
            search(survivors)
            found[part] = survivors.rows().reshape(samples[part].shape)
        wide = network.dtype is torch.float64 or samples.dtype.itemsize > 4
    return found if wide else found.astype(np.float32)


def _checked(x: npt.NDArray[Any], y: Any, keys: Any, classes: int) -> Ints:
    """The class positions, after a look at what belongs together."""
    if x.ndim < 2:
        raise InputError(f"`x` must hold one row a sample; its shape is {x.shape}. One sample is `x[None]`.")
    positions = np.asarray(y)
    if positions.ndim != 1 or (positions.dtype.kind not in "iu" and positions.size):
        raise InputError(
            f"`y` must hold class positions, one whole number a sample; its shape is {positions.shape} and its type "
            f"{positions.dtype}. `encode_labels(model, y)` makes them of label values."
        )
    same_length(x=x, y=positions, keys=keys)
    wrong = (positions < 0) | (positions >= classes)
    if wrong.any():
        raise InputError(
            f"`y` holds class positions between 0 and {classes - 1}; given {positions[wrong][0]}. "
            "`encode_labels(model, y)` makes them of label values."
        )
    return positions.astype(np.int64)
