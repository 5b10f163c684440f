"""How the attacks of other libraries are called: one row of a table a library."""

import inspect
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fairmargin.errors import InputError
from fairmargin.models.network import Network
from fairmargin.perturbation.tiles import by_tiles


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """What an attack is given.

    Parameters
    ----------
    network
        The model.
    x, y
        Samples in their own shape, and class positions.
    epsilons
        Radii, for attacks that want them.
    """

    network: Network
    x: Tensor
    y: Tensor
    epsilons: tuple[float, ...] | None


Call = Callable[[Asked], tuple[object, ...]]  # samples that the attack found, once for each radius


class AsModule(nn.Module):
    """The measured model as a module that takes any number of samples; inside it still sees full tiles."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """One score per class."""
        if not len(x):
            return x.new_zeros(0, self.network.classes)
        rows = x.reshape(len(x), -1).to(self.network.dtype)
        (scores,) = by_tiles(self.network, lambda tile: (self.network.scores(tile),), rows)
        return scores


def call_of(attack: Any, *, arrays: bool) -> Call:
    """How to call the attack; what cannot be called is refused."""
    if isinstance(attack, type):
        raise InputError(
            f"`attack` must be an attack that is ready, not the class `{attack.__name__}`: make one of it."
        )
    for recognise, call in _CALLS:
        if recognise(attack):
            return partial(call, attack)
    if not callable(attack):
        raise InputError(
            f"`attack` must be an attack of foolbox, ART or torchattacks, a function `(model, x, y)` as in adv-lib, or "
            f"a function `(x, y)`; given {attack!r}."
        )
    return partial(_by_arrays if arrays else _by_tensors, attack)


def is_foolbox(attack: object) -> bool:
    """Whether it is an attack of foolbox."""
    return _is_of("foolbox", attack)


def is_fixed_epsilon(attack: object) -> bool:
    """Whether it is an attack of foolbox that asks for a radius."""
    return is_foolbox(attack) and any(base.__name__ == "FixedEpsilonAttack" for base in type(attack).__mro__)


def is_given_the_model(attack: object) -> bool:
    """Whether the attack works on the measured model; others were made with a model of their own."""
    return is_foolbox(attack) or (not _is_of("art", attack) and _takes_a_model(attack))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Global random numbers that begin with the seed; afterwards they go on as if nothing had been drawn."""
    numbers, python = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(numbers)
            random.setstate(python)


def _is_of(package: str, attack: object) -> bool:
    # By name, so that no package is imported for those who do not use it.
    return any(base.__module__.split(".")[0] == package for base in type(attack).__mro__)


def _takes_a_model(attack: Any) -> bool:
    """Whether the first of three or more arguments is called a model, as in adv-lib."""
    try:
        names = list(inspect.signature(attack).parameters)
    except (TypeError, ValueError):  # some built-in functions do not say
        return False
    return len(names) >= 3 and names[0] == "model"


def _of_foolbox(attack: Any, asked: Asked) -> tuple[object, ...]:
    from foolbox.models.pytorch import PyTorchModel

    network = asked.network
    movable = network.scale != 0
    bounds = float(network.low[movable].min()), float(network.high[movable].max())
    model = PyTorchModel(AsModule(network), bounds=bounds, device=network.device)
    _, clipped, _ = attack(model, asked.x, asked.y, epsilons=asked.epsilons)
    return tuple(clipped) if asked.epsilons is not None else (clipped,)


def _of_art(attack: Any, asked: Asked) -> tuple[object, ...]:
    return (attack.generate(x=asked.x.cpu().numpy(), y=asked.y.cpu().numpy()),)


def _with_model(attack: Any, asked: Asked) -> tuple[object, ...]:
    return (attack(AsModule(asked.network), asked.x, asked.y),)


def _by_tensors(attack: Any, asked: Asked) -> tuple[object, ...]:
    return (attack(asked.x, asked.y),)


def _by_arrays(attack: Any, asked: Asked) -> tuple[object, ...]:
    return (attack(asked.x.cpu().numpy(), asked.y.cpu().numpy()),)


# Tried in order; whatever else can be called is given samples and labels.
_CALLS: tuple[tuple[Callable[[Any], bool], Callable[[Any, Asked], tuple[object, ...]]], ...] = (
    (is_foolbox, _of_foolbox),
    (lambda attack: _is_of("art", attack) and hasattr(attack, "generate"), _of_art),
    (_takes_a_model, _with_model),
)
