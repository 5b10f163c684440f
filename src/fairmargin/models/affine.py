"""Layers that are affine in their inputs, with all that a proof asks of them: |W|, W², Wᵀ, and how they are rounded."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from fairmargin.models.spectral import convolution_norm, dense_norm

Linear = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """z ↦ W z + b for samples along the first axis, in double precision.

    Parameters
    ----------
    apply, absolute, adjoint
        z ↦ W z, z ↦ |W| z and a ↦ Wᵀ a.
    squared
        z ↦ W² z (each weight squared); None where that is not at hand.
    bias, bias_size
        b, and the sizes of all that is added up to make it; both broadcast to one sample's output.
    norm
        By how much it can lengthen a vector (L2), at most.
    terms
        How many products or roundings an output is made of; 0 where values are only moved about.
    one_to_one
        Whether every input goes into at most one output, and every output comes of at most one input.
    """

    apply: Linear
    absolute: Linear
    adjoint: Linear
    squared: Linear | None
    bias: Tensor
    bias_size: Tensor
    norm: float
    terms: int
    one_to_one: bool = False


def dense(weight: Tensor, bias: Tensor | None) -> Affine:
    """A fully connected layer, along the last axis.

    >>> layer = dense(torch.tensor([[1.0, -2.0]]), None)
    >>> z = torch.ones(1, 2, dtype=torch.float64)
    >>> layer.apply(z).item(), layer.absolute(z).item(), layer.adjoint(z[:, :1]).tolist()
    (-1.0, 3.0, [[1.0, -2.0]])
    """
    rows = weight.detach().double()
    size, square = rows.abs(), rows.square()
    offset = _offset(bias, rows)
    return Affine(
        apply=lambda z: functional.linear(z, rows),
        absolute=lambda z: functional.linear(z, size),
        adjoint=lambda a: a @ rows,
        squared=lambda z: functional.linear(z, square),
        bias=offset,
        bias_size=offset.abs(),
        norm=dense_norm(rows),
        terms=rows.shape[1],
    )


def convolution(
    weight: Tensor,
    bias: Tensor | None,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    shape: tuple[int, ...],
) -> Affine:
    """A convolution over one or two axes, padded with zeros, of samples of that shape (channels, …).

    >>> layer = convolution(torch.ones(1, 1, 2, 2), None, (1, 1), (0, 0), (1, 1), 1, (1, 2, 3))
    >>> layer.adjoint(torch.ones(1, 1, 1, 2, dtype=torch.float64)).tolist()
    [[[[1.0, 2.0, 1.0], [1.0, 2.0, 1.0]]]]
    """
    kernel = weight.detach().double()
    convolve = functional.conv1d if kernel.dim() == 3 else functional.conv2d
    none = [0] * len(stride)
    offset = _offset(bias, kernel)
    offset = offset if bias is None else offset.reshape(-1, *(1 for _ in stride))

    def with_kernel(by: Tensor) -> Linear:
        return lambda z: convolve(z, by, None, stride, padding, dilation, groups)

    def adjoint(a: Tensor) -> Tensor:
        like = a.new_empty(1).expand(len(a), *shape)  # only its shape is read
        mask = [True, False, False]
        back: Tensor = torch.ops.aten.convolution_backward(
            a, like, kernel, None, stride, padding, dilation, False, none, groups, mask
        )[0]
        return back

    return Affine(
        apply=with_kernel(kernel),
        absolute=with_kernel(kernel.abs()),
        adjoint=adjoint,
        squared=with_kernel(kernel.square()),
        bias=offset,
        bias_size=offset.abs(),
        norm=convolution_norm(kernel, groups),
        terms=kernel[0].numel(),
    )


def diagonal(factor: Tensor, bias: Tensor, bias_size: Tensor, terms: int) -> Affine:
    """A factor and an offset a feature; all broadcast to one sample.

    >>> layer = diagonal(*(torch.tensor([-2.0]), torch.tensor([1.0]), torch.tensor([1.0])), terms=2)
    >>> layer.apply(torch.tensor([[3.0]])).item(), layer.absolute(torch.tensor([[3.0]])).item()
    (-6.0, 6.0)
    """
    by = factor.detach().double()
    size, square = by.abs(), by.square()
    return Affine(
        apply=lambda z: z * by,
        absolute=lambda z: z * size,
        adjoint=lambda a: a * by,
        squared=lambda z: z * square,
        bias=bias.detach().double(),
        bias_size=bias_size.detach().double(),
        norm=float(size.amax()),
        terms=terms,
        one_to_one=True,
    )


def moved(move: Linear, shape: tuple[int, ...], like: Tensor) -> Affine:
    """Values moved about, left out, or put among zeros, none of them used twice: `move` of samples of that shape.

    >>> layer = moved(lambda z: z[:, ::2], (3,), torch.zeros(0))
    >>> layer.adjoint(torch.tensor([[5.0, 7.0]])).tolist()
    [[5.0, 0.0, 7.0]]
    """
    zero = torch.zeros((), dtype=torch.float64, device=like.device)
    return Affine(move, move, _transposed(move, shape), move, zero, zero, norm=1.0, terms=0, one_to_one=True)


def averaged(average: Linear, shape: tuple[int, ...], like: Tensor, terms: int) -> Affine:
    """Means of values: `average` is linear, its weights are not negative, and at most `terms` go into one mean."""
    zero, transpose = torch.zeros((), dtype=torch.float64, device=like.device), _transposed(average, shape)
    rows = average(torch.ones(1, *shape, dtype=torch.float64, device=like.device))
    norm = float((rows.amax() * transpose(torch.ones_like(rows)).amax()).sqrt())
    return Affine(average, average, transpose, None, zero, zero, norm * (1 + 1e-9), terms + 1)


def _offset(bias: Tensor | None, like: Tensor) -> Tensor:
    return like.new_zeros(()) if bias is None else bias.detach().double()


def _transposed(function: Linear, shape: tuple[int, ...]) -> Linear:
    """The transpose of a linear function, which is what differentiating it applies."""

    def transpose(a: Tensor) -> Tensor:
        with torch.enable_grad():
            z = a.new_zeros((len(a), *shape)).requires_grad_(True)
            (back,) = torch.autograd.grad(function(z), z, a)
        return back

    return transpose
