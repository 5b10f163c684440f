"""A model as a sequence of steps, for estimators that compute guarantees."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fairmargin.models.layers.affine import Affine


@dataclass(frozen=True, slots=True)
class Rectified:
    """The rectifier max(z, 0), applied to each value."""


@dataclass(frozen=True, slots=True, eq=False)
class Largest:
    """The maximum of each window of each channel.

    Parameters
    ----------
    members
        The values of each window, as their positions in the flattened channel: an array of shape (values per window,
        windows), with −1 for padding.
    """

    members: Tensor

    @property
    def norm(self) -> float:
        """The Lipschitz constant (L2): the square root of the number of windows that share a value."""
        inside = self.members[self.members >= 0]
        return math.sqrt(int(torch.bincount(inside.flatten()).amax()))


@dataclass(frozen=True, slots=True)
class Added:
    """The sum of the values of two earlier steps."""


Kind = Affine | Rectified | Largest | Added


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step of a model.

    Parameters
    ----------
    kind
        The operation.
    sources
        The numbers of the steps whose values it takes; 0 is the input.
    shape
        Shape of its value for one sample.
    """

    kind: Kind
    sources: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of entries of its value."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """The steps of a model in order; the values of the last step are the scores.

    Parameters
    ----------
    shape
        Shape of one sample.
    steps
        The steps; the first one has number 1.
    precision
        Floating-point type of the model; the steps are computed in double precision.
    """

    shape: tuple[int, ...]
    steps: tuple[Step, ...]
    precision: torch.dtype

    @property
    def widest(self) -> int:
        """The largest number of entries of the input and of all steps."""
        return max(math.prod(self.shape), *(step.size for step in self.steps))

    @property
    def bent(self) -> int:
        """The number of values that enter a ReLU or a maximum, the steps that are not linear."""
        sizes = [math.prod(self.shape), *(step.size for step in self.steps)]
        bending = (step for step in self.steps if isinstance(step.kind, (Rectified, Largest)))
        return sum(sizes[step.sources[0]] for step in bending)

    def scores(self, rows: Tensor) -> Tensor:
        """Compute the scores of samples, given as rows, in double precision."""
        values = [rows.double().reshape(len(rows), *self.shape)]
        for step in self.steps:
            values.append(value_of(step, [values[source] for source in step.sources]))
        return values[-1]


def value_of(step: Step, sources: list[Tensor]) -> Tensor:
    """Compute the value of a step from the values of its sources."""
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
    """Return the values of each window, with shape (samples, channels, values, windows) and `padding` outside.

    >>> windows(torch.tensor([[[1.0, 2.0, 3.0]]]), torch.tensor([[0, 2], [1, -1]])).tolist()
    [[[[1.0, 3.0], [2.0, -inf]]]]
    """
    flat = values.flatten(2)
    picked = flat[:, :, members.clamp(min=0).flatten()].reshape(*flat.shape[:2], *members.shape)
    return torch.where(members >= 0, picked, padding)
