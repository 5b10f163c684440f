"""Randomness of every step from its place in the training, so that a restart repeats it."""

from hashlib import blake2b

import torch


def seed_of(*place: object) -> int:
    """A number for a place such as (seed, "noise", epoch, step): the same whenever it is asked for.

    >>> seed_of(0, "order", 1) == seed_of(0, "order", 1), seed_of(0, "order", 1) == seed_of(0, "order", 2)
    (True, False)
    """
    return int.from_bytes(blake2b(repr(place).encode(), digest_size=8).digest(), "little") >> 1


def generator_of(*place: object) -> torch.Generator:
    """A generator for that place."""
    return torch.Generator().manual_seed(seed_of(*place))


def seed_dropout(seed: int) -> None:
    """Seed what layers draw from.

    Not `torch.manual_seed`: where there is no GPU that notes a call stack for each, a tenth of a small network's step.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
