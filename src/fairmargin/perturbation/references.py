"""Inputs to fall back on where a search finds nothing: a set fixed in advance, so that no sample leans on its batch."""

import torch
from torch import Tensor

from fairmargin.core.norm import Norm
from fairmargin.models.network import Network
from fairmargin.perturbation.lengths import length
from fairmargin.perturbation.tiles import by_tiles

_NEAREST = 8  # references that are tried for a sample, nearest first: immutable features can spoil the first
_STAND_INS = 64


def nearest_references(network: Network, start: Tensor, y: Tensor, norm: Norm) -> Tensor:
    """For each sample the nearest references of another prediction, nearest first, as rows of `references_of(network)`.

    Fewer than eight where there are fewer references; −1 stands for none.
    """
    references = references_of(network)
    (classes,) = by_tiles(network, lambda rows: (network.plain(rows).argmax(dim=1),), references)

    def nearest(rows: Tensor, y: Tensor) -> tuple[Tensor]:
        # One at a time: side by side they would take as much memory as all samples of a shard.
        far = torch.stack([length(there.double() - rows.double(), norm, network.scale) for there in references], dim=1)
        order = torch.where(classes == y[:, None], torch.inf, far).sort(dim=1, stable=True)
        return (torch.where(torch.isfinite(order.values), order.indices, -1)[:, :_NEAREST],)

    (found,) = by_tiles(network, nearest, start, y)
    return found


def references_of(network: Network) -> Tensor:
    """The network's own; else noise over the whole domain, the same for everyone, where the domain has limits."""
    if network.references is not None:
        return network.references
    movable = network.scale != 0
    low, width = network.low, network.high - network.low
    bounded = torch.isfinite(width) & movable
    generator = torch.Generator().manual_seed(0)
    noise = torch.rand(_STAND_INS, len(low), generator=generator, dtype=torch.float64).to(low)
    # Features without limits stay near 0: nobody can say how far is far.
    return torch.where(bounded, torch.where(bounded, low, 0.0) + noise * torch.where(bounded, width, 0.0), 0.0)
