"""Where every gradient-based estimator begins: samples as the model sees them, and which are classified correctly."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairmargin.core.arrays import Ints
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.protocol import Found
from fairmargin.models.network import Network, finite
from fairmargin.perturbation.closest import Closest
from fairmargin.perturbation.tiles import by_tiles


@dataclass(frozen=True, slots=True, eq=False)
class Started:
    """Samples in the model's own precision, with the plain model's scores.

    Parameters
    ----------
    x, y
        Rows and class positions.
    scores
        Of the plain model.
    correct_at
        The positions of the samples that it classifies as `y` says: only these have a way to go.
    """

    x: Tensor
    y: Tensor
    scores: Tensor
    correct_at: Tensor

    def distances(self, values: Tensor, bound: Bound, norm: Norm, tried: Tensor | None = None) -> Distances:
        """Distances with 0 for misclassified samples; `tried` is kept where nothing was found."""
        correct = torch.zeros(len(self.y), dtype=torch.bool, device=self.y.device)
        correct[self.correct_at] = True
        found = torch.where(correct, values.double(), 0.0).cpu().numpy()
        looked = None
        if tried is not None and np.isinf(found).any():
            looked = np.where(np.isinf(found), tried.double().cpu().numpy(), 0.0)
        return Distances(found, correct.cpu().numpy(), bound, norm, tried=looked)

    def found(self, closest: Closest, tried: Tensor | None = None) -> Found:
        """Upper bounds, and the nearest misclassified inputs that were found."""
        lost = torch.zeros_like(closest.distance, dtype=torch.bool)
        lost[self.correct_at] = torch.isinf(closest.distance[self.correct_at])
        points = torch.where(lost[:, None], torch.nan, closest.point)
        return Found(self.distances(closest.distance, Bound.UPPER, closest.norm, tried), points.cpu().numpy())


def started(network: Network, x: Any, y: Ints) -> Started:
    """The samples as the model sees them, and what it says of them."""
    # By way of numpy, which knows more kinds of numbers than torch (other byte orders, for instance).
    kind = np.float64 if network.dtype is torch.float64 else np.float32
    with np.errstate(over="ignore"):  # too large for single precision becomes infinity: the scores show it
        held = np.array(x, dtype=kind)
    rows = torch.as_tensor(held, device=network.device).to(network.dtype).flatten(1)
    labels = torch.as_tensor(np.array(y), device=network.device)
    (scores,) = by_tiles(network, lambda tile: (finite(network.plain(tile)),), rows)
    return Started(rows, labels, scores, torch.nonzero(scores.argmax(dim=1) == labels)[:, 0])
