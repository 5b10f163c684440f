"""A model as the steps it is made of, for those who must look inside: proofs, not searches."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fairmargin.models.affine import Affine


@dataclass(frozen=True, slots=True)
class Rectified:
    """max(z, 0), entry by entry."""


@dataclass(frozen=True, slots=True, eq=False)
class Largest:
    """The largest value of each window of each channel.

    Parameters
    ----------
    members
        The flat positions, in a channel, of each window's values, (values, windows); −1 for padding.
    """

    members: Tensor

    @property
    def norm(self) -> float:
        """By how much a step of the largest values can be longer (L2) than the step of all values."""
        inside = self.members[self.members >= 0]
        return math.sqrt(int(torch.bincount(inside.flatten()).amax()))


@dataclass(frozen=True, slots=True)
class Added:
    """The sum of two earlier values."""


Kind = Affine | Rectified | Largest | Added


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step of a model.

    Parameters
    ----------
    kind
        What it does.
    sources
        Whose values it takes: 0 is the input, i the i-th step.
    shape
        Of its value, for one sample.
    """

    kind: Kind
    sources: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many numbers its value has."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """A model's steps in the order in which they are taken; the last one's value are the scores.

    Parameters
    ----------
    shape
        Of a sample.
    steps
        The first has number 1.
    precision
        The kind of number that the model calculates with; the steps themselves are in double precision.
    """

    shape: tuple[int, ...]
    steps: tuple[Step, ...]
    precision: torch.dtype

    @property
    def widest(self) -> int:
        """The largest number of values that a step has, or the input."""
        return max(math.prod(self.shape), *(step.size for step in self.steps))

    @property
    def bent(self) -> int:
        """How many values go into a ReLU or a maximum."""
        sizes = [math.prod(self.shape), *(step.size for step in self.steps)]
        bending = (step for step in self.steps if isinstance(step.kind, (Rectified, Largest)))
        return sum(sizes[step.sources[0]] for step in bending)

    def scores(self, rows: Tensor) -> Tensor:
        """The scores of samples as rows, in double precision."""
        values = [rows.double().reshape(len(rows), *self.shape)]
        for step in self.steps:
            values.append(value_of(step, [values[source] for source in step.sources]))
        return values[-1]


def value_of(step: Step, sources: list[Tensor]) -> Tensor:
    """What a step makes of the values it takes."""
    match step.kind:
        case Affine():
            return step.kind.apply(sources[0]) + step.kind.bias
        case Rectified():
            return sources[0].clamp(min=0)
        case Largest():
            return windows(sources[0], step.kind.members).amax(dim=2).reshape(-1, *step.shape)
        case Added():
            return sources[0] + sources[1]


def windows(values: Tensor, members: Tensor, padding: float = -math.inf) -> Tensor:
    """The values of each window, (samples, channels, values, windows), with that number where it reaches outside.

    >>> windows(torch.tensor([[[1.0, 2.0, 3.0]]]), torch.tensor([[0, 2], [1, -1]])).tolist()
    [[[[1.0, 3.0], [2.0, -inf]]]]
    """
    flat = values.flatten(2)
    picked = flat[:, :, members.clamp(min=0).flatten()].reshape(*flat.shape[:2], *members.shape)
    return torch.where(members >= 0, picked, padding)
