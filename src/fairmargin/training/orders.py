"""Which samples each step of an epoch looks at."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fairmargin.errors import InputError
from fairmargin.training.seeds import generator_of


def orders_of(pools: Sequence[Tensor], batch: int, place: tuple[int, ...]) -> list[list[Tensor]]:
    """For each part of a method the positions of each step's samples, all parts with as many steps.

    Guarantee: of the largest pool every sample is drawn once; a smaller one is gone through again and again, each time
    in another order, and an empty one stays empty. Batches have nearly one size, at most `batch`. None has a single
    sample, which BatchNorm could not learn from, unless that was asked for or the pool has no more: of 3 samples in
    batches of 2 one batch is made.

    Parameters
    ----------
    pools
        For each part, which samples belong to it.
    batch
        The samples of a step.
    place
        Where in the training this is: all randomness comes from it.

    >>> [len(step) for step in orders_of([torch.ones(10, dtype=torch.bool)], 4, (0, 0))[0]]
    [4, 3, 3]
    """
    positions = [pool.nonzero().flatten() for pool in pools]
    largest = max(map(len, positions))
    if not largest:
        raise InputError("The method is for samples of which the data have none. Use another partition.")
    steps = math.ceil(largest / batch) if batch == 1 else min(math.ceil(largest / batch), max(largest // 2, 1))
    orders = []
    for number, own in enumerate(positions):
        if not len(own):
            orders.append([own] * steps)
            continue
        wanted = largest if len(own) == largest else steps * min(batch, len(own))
        random = generator_of("order", *place, number)
        rounds = (own[torch.randperm(len(own), generator=random)] for _ in range(math.ceil(wanted / len(own))))
        orders.append(list(torch.cat(list(rounds))[:wanted].tensor_split(steps)))
    return orders
