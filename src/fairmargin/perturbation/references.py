"""Inputs to fall back on where a search finds nothing: a set fixed in advance, so that no sample leans on its batch."""

import torch
from torch import Tensor

from fairmargin.core.norm import Norm
from fairmargin.models.network import Network
from fairmargin.perturbation.lengths import in_units
from fairmargin.perturbation.tiles import by_tiles

_NEAREST = 8  # that are tried for a sample: one is enough where the model answers to the bit, as on GPUs it may not
_STAND_INS = 64
_POWER = {Norm.L1: 1.0, Norm.L2: 2.0, Norm.LINF: float("inf")}


def nearest_references(network: Network, start: Tensor, y: Tensor, norm: Norm) -> Tensor:
    """For each sample the references to try, nearest first, as rows of `references_of(network)`; −1 stands for none.

    Those of another prediction, at most eight. Where some features cannot move, all: a reference with the sample's own
    values in these is another input, which may be taken for any class.
    """
    distance, _ = _distances_to_references(network, start, y, norm)
    order = distance.sort(dim=1, stable=True)
    tries = torch.where(torch.isfinite(order.values), order.indices, -1)
    return tries if _mixed(network) else tries[:, :_NEAREST]


def references_by_class(network: Network, start: Tensor, y: Tensor, norm: Norm) -> Tensor:
    """The same references in another order: the nearest of each predicted class, nearest class first, then the second…

    Neighbours of one class lead to one place of the boundary; other classes to others.
    """
    distance, classes = _distances_to_references(network, start, y, norm)
    order = distance.sort(dim=1, stable=True)
    kinds = classes[order.indices]
    # How many nearer references of its own class each one has.
    nearer = torch.stack([((kinds == kinds[:, j : j + 1])[:, :j]).sum(dim=1) for j in range(kinds.shape[1])], dim=1)
    turns = torch.where(torch.isfinite(order.values), nearer, len(classes)).sort(dim=1, stable=True).indices
    tries = torch.where(torch.isfinite(order.values), order.indices, -1)
    return tries.gather(1, turns)


def _distances_to_references(network: Network, start: Tensor, y: Tensor, norm: Norm) -> tuple[Tensor, Tensor]:
    """From each sample to each reference, `inf` where that cannot be of use; and the references' predicted classes."""
    references = references_of(network)

    def predicted(rows: Tensor) -> tuple[Tensor]:
        scores = network.plain(rows)
        return (torch.where(torch.isfinite(scores).all(dim=1), scores.argmax(dim=1), -1),)

    (classes,) = by_tiles(network, predicted, references)

    def to_each(rows: Tensor, y: Tensor) -> tuple[Tensor]:
        far = torch.cdist(in_units(rows, network.scale), in_units(references, network.scale), _POWER[norm]).double()
        useless = (classes == y[:, None]) | (classes < 0)
        return (far if _mixed(network) else torch.where(useless, torch.inf, far),)

    (distance,) = by_tiles(network, to_each, start, y)
    return distance, classes


def _mixed(network: Network) -> bool:
    """Whether some features cannot move."""
    return bool((network.scale == 0).any())


def references_of(network: Network) -> Tensor:
    """The network's own; else noise over the whole domain, the same for everyone, where the domain has limits."""
    if network.references is not None:
        return network.references
    movable = network.scale != 0
    low, width = network.low, network.high - network.low
    bounded = torch.isfinite(width) & movable
    generator = torch.Generator().manual_seed(0)
    count = _STAND_INS if bounded.any() else 1  # without limits all would be one
    noise = torch.rand(count, len(low), generator=generator, dtype=torch.float64).to(low)
    # Features without limits stay near 0: nobody can say how far is far.
    return torch.where(bounded, torch.where(bounded, low, 0.0) + noise * torch.where(bounded, width, 0.0), 0.0)
