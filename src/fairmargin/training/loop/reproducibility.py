"""Make a training repeatable: seeds of each step, number of threads, and the identity of a training."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b, sha256

import torch
from torch import nn

from fairmargin.models.module_fingerprint import module_fingerprint
from fairmargin.training.recipe import TrainingMethod


def seed_of(*place: object) -> int:
    """Return a seed that depends only on a place in the training, such as (seed, "noise", epoch, step).

    >>> seed_of(0, "order", 1) == seed_of(0, "order", 1), seed_of(0, "order", 1) == seed_of(0, "order", 2)
    (True, False)
    """
    return int.from_bytes(blake2b(repr(place).encode(), digest_size=8).digest(), "little") >> 1


def generator_of(*place: object) -> torch.Generator:
    """Return a generator of random numbers for a place in the training."""
    return torch.Generator().manual_seed(seed_of(*place))


def seed_dropout(seed: int) -> None:
    """Seed the generators that layers draw from.

    It does not call `torch.manual_seed`, which without a GPU stores a call stack each time and takes a tenth of a small
    network's step.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Compute with this number of threads inside the block; 0 changes nothing."""
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def identity_of(model: nn.Module, method: TrainingMethod, epochs: int, *others: object) -> str:
    """Return a hash of everything that decides the result; `others` must have the same `repr` in every process.

    A method is identified by its recipes of all epochs, so that one in no catalog is identified too.
    """
    recipes = dict.fromkeys(repr(method.recipe(epoch, epochs)) for epoch in range(epochs))
    described = re.sub(r" at 0x[0-9a-f]+", "", str(list(recipes)))
    return sha256(repr((module_fingerprint(model), described, epochs, *others)).encode()).hexdigest()
