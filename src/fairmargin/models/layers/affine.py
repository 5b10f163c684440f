"""Affine layers, with what proofs need: |W|, W², Wᵀ, an upper bound of the norm, and the number of roundings.

The bound of the norm is computed by Gram iteration, where power iteration would give a lower bound. For a symmetric
G = WᵀW, ‖W‖² = ‖G‖ = ‖G^m‖^(1/m), and no eigenvalue exceeds the largest sum of absolute values in a row. Each squaring
of G takes the square root of the factor by which this bound is too large.

Reference: B. Delattre et al., "Efficient bound of Lipschitz constant for convolutional layers by Gram iteration", ICML
2023.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

Linear = Callable[[Tensor], Tensor]
_SQUARINGS = 6
_PRODUCTS = 3e7  # maximum number of products per squaring, which is done once per shard
_ROUNDING = 1 + 1e-7  # far above the rounding errors of the sums here


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """The map z ↦ W z + b for samples along the first axis, in double precision.

    Parameters
    ----------
    apply, absolute, adjoint
        The maps z ↦ W z, z ↦ |W| z and a ↦ Wᵀ a.
    squared
        The map z ↦ W² z (each weight squared); None if it is not available.
    bias, bias_size
        The vector b, and the sum of the absolute values of its terms; both broadcast to the output of one sample.
    norm
        Upper bound of the spectral norm of W.
    terms
        Number of products or roundings per output; 0 if values are only rearranged.
    one_to_one
        Whether each input affects at most one output, and each output depends on at most one input.
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
    """Return a fully connected layer, which acts along the last axis.

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
    """Return a convolution over one or two axes with zero padding, for samples of shape (channels, …).

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
        like = a.new_empty(1).expand(len(a), *shape)  # only its shape is used
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
    """Return a layer with one factor and one offset per feature; all are broadcast to one sample.

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
    """Return a layer that rearranges or drops values or inserts zeros; `move` must not use any value twice.

    >>> layer = moved(lambda z: z[:, ::2], (3,), torch.zeros(0))
    >>> layer.adjoint(torch.tensor([[5.0, 7.0]])).tolist()
    [[5.0, 0.0, 7.0]]
    """
    zero = torch.zeros((), dtype=torch.float64, device=like.device)
    return Affine(move, move, _transposed(move, shape), move, zero, zero, norm=1.0, terms=0, one_to_one=True)


def averaged(average: Linear, shape: tuple[int, ...], like: Tensor, terms: int) -> Affine:
    """Return a layer of means; `average` is linear with nonnegative weights and at most `terms` values per mean."""
    zero, transpose = torch.zeros((), dtype=torch.float64, device=like.device), _transposed(average, shape)
    rows = average(torch.ones(1, *shape, dtype=torch.float64, device=like.device))
    norm = float((rows.amax() * transpose(torch.ones_like(rows)).amax()).sqrt())
    return Affine(average, average, transpose, None, zero, zero, norm * (1 + 1e-9), terms + 1)


def _offset(bias: Tensor | None, like: Tensor) -> Tensor:
    return like.new_zeros(()) if bias is None else bias.detach().double()


def _transposed(function: Linear, shape: tuple[int, ...]) -> Linear:
    """Return the transpose of a linear function, computed as its vector-Jacobian product."""

    def transpose(a: Tensor) -> Tensor:
        with torch.enable_grad():
            z = a.new_zeros((len(a), *shape)).requires_grad_(True)
            (back,) = torch.autograd.grad(function(z), z, a)
        return back

    return transpose


def dense_norm(weight: Tensor) -> float:
    """Compute a tight upper bound of the largest singular value of a matrix.

    >>> 5.0 <= dense_norm(torch.tensor([[3.0, 0.0], [4.0, 0.0]])) < 5.01
    True
    """
    rows = weight.detach().double()
    rows = rows if rows.shape[0] <= rows.shape[1] else rows.T
    if rows.shape[0] ** 2 * rows.shape[1] > 30 * _PRODUCTS:
        return _by_sums(rows.abs().sum(dim=0), rows.abs().sum(dim=1))
    gram, power, log = rows @ rows.T, 2.0, 0.0
    for _ in range(_SQUARINGS):
        if len(gram) ** 3 > _PRODUCTS:
            break
        gram, log = _scaled(gram, log, power)
        gram, power = gram @ gram, power * 2
    return _root(gram.abs().sum(dim=1).amax(), log, power)


def convolution_norm(weight: Tensor, groups: int) -> float:
    """Compute an upper bound of the norm of a convolution with zero padding, for any image size and stride.

    Such a convolution is a restriction of the convolution on infinite images, whose Gram matrix is a convolution, too.

    >>> 4.0 <= convolution_norm(torch.ones(1, 1, 2, 2), 1) < 4.5
    True
    """
    return max(_one_group_norm(part) for part in torch.chunk(weight.detach().double(), groups))


def _one_group_norm(kernel: Tensor) -> float:
    kernel = kernel[:, :, None] if kernel.dim() == 3 else kernel
    kernel = kernel if kernel.shape[0] <= kernel.shape[1] else kernel.transpose(0, 1)
    if _cost(kernel) > _PRODUCTS:
        return _by_sums(kernel.abs().sum(dim=(0, 2, 3)), kernel.abs().sum(dim=(1, 2, 3)))
    gram, power, log = _gram(kernel), 2.0, 0.0
    for _ in range(_SQUARINGS):
        if _cost(gram) > _PRODUCTS:
            break
        gram, log = _scaled(gram, log, power)
        gram, power = _gram(gram), power * 2
    return _root(gram.abs().sum(dim=(1, 2, 3)).amax(), log, power)


def _gram(kernel: Tensor) -> Tensor:
    """Compute the kernel of W Wᵀ by Fourier transform, in a frame large enough to avoid wrap-around."""
    height, width = kernel.shape[2:]
    frame = (2 * height - 1, 2 * width - 1)
    waves = torch.fft.rfft2(kernel, s=frame).permute(2, 3, 0, 1)
    product = (waves @ waves.mH).permute(2, 3, 0, 1)
    gram: Tensor = torch.fft.irfft2(product, s=frame)
    return gram.roll((height - 1, width - 1), dims=(2, 3))


def _cost(kernel: Tensor) -> int:
    return kernel.shape[0] ** 2 * kernel.shape[1] * (2 * kernel.shape[2] - 1) * (2 * kernel.shape[3] - 1)


def _scaled(gram: Tensor, log: float, power: float) -> tuple[Tensor, float]:
    """Divide the matrix by its largest absolute entry, to prevent overflow.

    `gram` is a product of `power` factors, each W or its transpose, and `log` is the logarithm of the number by which
    each of these factors was divided so far. Both are returned with the new division included.
    """
    size = float(gram.abs().amax())
    return (gram, log) if size == 0 else (gram / size, log + math.log(size) / power)


def _root(size: Tensor, log: float, power: float) -> float:
    return math.pow(float(size), 1 / power) * math.exp(log) * _ROUNDING


def _by_sums(columns: Tensor, rows: Tensor) -> float:
    return float((columns.amax() * rows.amax()).sqrt()) * _ROUNDING
