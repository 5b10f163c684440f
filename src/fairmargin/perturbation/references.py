"""Reference inputs, which searches use if they find nothing.

The set of references is fixed in advance, so that the result for a sample does not depend on its batch.
"""

import torch
from torch import Tensor

from fairmargin.core.norm import Norm
from fairmargin.models.network import Network
from fairmargin.perturbation.lengths import in_units
from fairmargin.perturbation.tiles import by_tiles

_NEAREST = 8  # maximum number tried per sample; one is enough if the model is deterministic, which GPUs may not be
_STAND_INS = 64  # number of random references of a model without references of its own
_POWER = {Norm.L1: 1.0, Norm.L2: 2.0, Norm.LINF: float("inf")}


def nearest_references(network: Network, start: Tensor, y: Tensor, norm: Norm) -> Tensor:
    """Return for each sample the references to try, nearest first.

    References are given as row numbers of `references_of(network)`; −1 stands for none. They are the references with
    another predicted class, at most eight. If some features are immutable, all references are returned, because a
    reference changes its predicted class when its immutable features are replaced by those of the sample.
    """
    distance, _ = _distances_to_references(network, start, y, norm)
    order = distance.sort(dim=1, stable=True)
    tries = torch.where(torch.isfinite(order.values), order.indices, -1)
    return tries if _mixed(network) else tries[:, :_NEAREST]


def references_by_class(network: Network, start: Tensor, y: Tensor, norm: Norm) -> Tensor:
    """Return the same references in rounds: the nearest of each predicted class, then the second nearest, and so on.

    References of different classes lead to different parts of the boundary.
    """
    distance, classes = _distances_to_references(network, start, y, norm)
    order = distance.sort(dim=1, stable=True)
    kinds = classes[order.indices]
    # Number of nearer references of the same class, for each reference.
    nearer = torch.stack([((kinds == kinds[:, j : j + 1])[:, :j]).sum(dim=1) for j in range(kinds.shape[1])], dim=1)
    turns = torch.where(torch.isfinite(order.values), nearer, len(classes)).sort(dim=1, stable=True).indices
    tries = torch.where(torch.isfinite(order.values), order.indices, -1)
    return tries.gather(1, turns)


def _distances_to_references(network: Network, start: Tensor, y: Tensor, norm: Norm) -> tuple[Tensor, Tensor]:
    """Return the distances from samples to references, and the references' predicted classes.

    The distance is `inf` if the reference has the sample's class, or scores that are not finite.
    """
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
    """Return whether some features are immutable."""
    return bool((network.scale == 0).any())


def references_of(network: Network) -> Tensor:
    """Return the network's own references; if it has none, uniform noise over the domain with a fixed seed."""
    if network.references is not None:
        return network.references
    movable = network.scale != 0
    low, width = network.low, network.high - network.low
    bounded = torch.isfinite(width) & movable
    generator = torch.Generator().manual_seed(0)
    count = _STAND_INS if bounded.any() else 1  # without limits all references would be equal
    noise = torch.rand(count, len(low), generator=generator, dtype=torch.float64).to(low)
    # Features without limits are 0, because no range is known for them.
    return torch.where(bounded, torch.where(bounded, low, 0.0) + noise * torch.where(bounded, width, 0.0), 0.0)
