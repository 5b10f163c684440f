"""Evaluation of batches in padded tiles of a fixed number of rows.

Matrix products, convolutions and sums choose the order of additions by the size of the batch, and a different order
gives a different rounding error. In tiles of a fixed size, the result of a row does not depend on the other rows.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from fairmargin.models.network import Network, padded


def by_tiles(network: Network, function: Callable[..., tuple[Tensor, ...]], *rows: Tensor) -> tuple[Tensor, ...]:
    """Apply `function` to rows tile by tile and return the concatenated results.

    Guarantee: if `function` treats rows independently, the result of a row does not depend on the number, order or
    content of the other rows. The last tile is padded with copies of its last row, and their results are removed.

    Parameters
    ----------
    network
        Model that states the number of rows of a tile.
    function
        Function that takes tensors with exactly `network.tile` rows and returns a tuple of such tensors.
    rows
        Tensors with one row per sample, all of the same length, which is at least 1.

    >>> import numpy as np
    >>> from fairmargin.models.linear import LinearClassifier
    >>> with LinearClassifier([[1.0], [0.0]], [0.0, 0.0]).network((1,)) as network:
    ...     by_tiles(network, lambda x: (x.sum(dim=1), x + 1), torch.tensor([[1.0], [2.0]]))
    (tensor([1., 2.]), tensor([[2.],
            [3.]]))
    """
    count, parts = len(rows[0]), []
    for start in range(0, count, network.tile):
        tile = [padded(row[start : start + network.tile], network.tile) for row in rows]
        parts.append([result[: count - start] for result in function(*tile)])
    return tuple(torch.cat(results) for results in zip(*parts, strict=True))
