"""Padded tiles of one size: whatever is calculated for a sample is calculated among the same number of rows.

Matrix products, convolutions and even sums choose their order of additions by the size of the batch, and another order
gives other last bits. In tiles of one size a row's result is its own.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from fairmargin.models.network import Network


def by_tiles(network: Network, function: Callable[..., tuple[Tensor, ...]], *rows: Tensor) -> tuple[Tensor, ...]:
    """What `function` returns for the rows, calculated tile by tile.

    Guarantee: as long as `function` treats its rows independently, a row's result does not depend on the others, on
    their number or on their order. The last tile is padded with copies of its last row, whose results are dropped.

    Parameters
    ----------
    network
        Whose tile.
    function
        Takes tensors of exactly `network.tile` rows and returns such tensors.
    rows
        Tensors with one row a sample, as many in each, at least one.

    >>> import numpy as np
    >>> from fairmargin.models.linear import LinearClassifier
    >>> with LinearClassifier([[1.0], [0.0]], [0.0, 0.0]).network((1,)) as network:
    ...     by_tiles(network, lambda x: (x.sum(dim=1), x + 1), torch.tensor([[1.0], [2.0]]))
    (tensor([1., 2.]), tensor([[2.],
            [3.]]))
    """
    count, parts = len(rows[0]), []
    for start in range(0, count, network.tile):
        tile = [_padded(row[start : start + network.tile], network.tile) for row in rows]
        parts.append([result[: count - start] for result in function(*tile)])
    return tuple(torch.cat(results) for results in zip(*parts, strict=True))


def _padded(rows: Tensor, size: int) -> Tensor:
    if len(rows) == size:
        return rows
    return torch.cat([rows, rows[-1:].expand(size - len(rows), *rows.shape[1:])])
