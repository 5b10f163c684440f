"""Inputs to fall back on where a search finds nothing: a set fixed in advance, so that no sample leans on its batch."""

import torch
from torch import Tensor

from fairmargin.core.norm import Norm
from fairmargin.models.network import Network
from fairmargin.perturbation.lengths import length
from fairmargin.perturbation.tiles import by_tiles

_NEAREST = 8  # that are tried for a sample: one is enough where the model answers to the bit, as on GPUs it may not
_STAND_INS = 64


def nearest_references(network: Network, start: Tensor, y: Tensor, norm: Norm) -> Tensor:
    """For each sample the references to try, nearest first, as rows of `references_of(network)`; −1 stands for none.

    Those of another prediction, at most eight. Where some features cannot move, all: a reference with the sample's own
    values in these is another input, which may be taken for any class.
    """
    references = references_of(network)
    mixed = bool((network.scale == 0).any())

    def predicted(rows: Tensor) -> tuple[Tensor]:
        scores = network.plain(rows)
        return (torch.where(torch.isfinite(scores).all(dim=1), scores.argmax(dim=1), -1),)

    (classes,) = by_tiles(network, predicted, references)

    def nearest(rows: Tensor, y: Tensor) -> tuple[Tensor]:
        # One at a time: side by side they would take as much memory as all samples of a shard.
        far = torch.stack([length(there.double() - rows.double(), norm, network.scale) for there in references], dim=1)
        if not mixed:
            far = torch.where((classes == y[:, None]) | (classes < 0), torch.inf, far)
        order = far.sort(dim=1, stable=True)
        tries = torch.where(torch.isfinite(order.values), order.indices, -1)
        return (tries if mixed else tries[:, :_NEAREST],)

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
    count = _STAND_INS if bounded.any() else 1  # without limits all would be one
    noise = torch.rand(count, len(low), generator=generator, dtype=torch.float64).to(low)
    # Features without limits stay near 0: nobody can say how far is far.
    return torch.where(bounded, torch.where(bounded, low, 0.0) + noise * torch.where(bounded, width, 0.0), 0.0)
