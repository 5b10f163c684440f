"""How much a linear layer can lengthen a vector at most: upper bounds, where power iteration gives lower ones.

For a symmetric G = WᵀW, ‖W‖² = ‖G‖ = ‖G^m‖^(1/m), and no eigenvalue exceeds the largest sum of sizes in a row. Each
squaring of G takes the square root of what that bound overshoots by.

Reference: B. Delattre et al., "Efficient bound of Lipschitz constant for convolutional layers by Gram iteration", ICML
2023.
"""

import math

import torch
from torch import Tensor

_SQUARINGS = 6
_PRODUCTS = 3e7  # more are not spent on a squaring: it is done once for a shard
_ROUNDING = 1 + 1e-7  # far above that of the sums here


def dense_norm(weight: Tensor) -> float:
    """At least the largest singular value of a matrix, and hardly more.

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
    """At least the norm of a convolution padded with zeros, of images of any size and with any stride.

    Such a convolution is a part of the one over an endless image, whose Gram matrix is a convolution again.

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
    """The kernel of W Wᵀ, by way of frequencies, in a frame so large that nothing wraps around."""
    height, width = kernel.shape[2:]
    frame = (2 * height - 1, 2 * width - 1)
    waves = torch.fft.rfft2(kernel, s=frame).permute(2, 3, 0, 1)
    product = (waves @ waves.mH).permute(2, 3, 0, 1)
    gram: Tensor = torch.fft.irfft2(product, s=frame)
    return gram.roll((height - 1, width - 1), dims=(2, 3))


def _cost(kernel: Tensor) -> int:
    return kernel.shape[0] ** 2 * kernel.shape[1] * (2 * kernel.shape[2] - 1) * (2 * kernel.shape[3] - 1)


def _scaled(gram: Tensor, log: float, power: float) -> tuple[Tensor, float]:
    """The matrix with its largest entry 1, and the logarithm that keeps the book: powers overflow soon."""
    size = float(gram.abs().amax())
    return (gram, log) if size == 0 else (gram / size, log + math.log(size) / power)


def _root(size: Tensor, log: float, power: float) -> float:
    return math.pow(float(size), 1 / power) * math.exp(log) * _ROUNDING


def _by_sums(columns: Tensor, rows: Tensor) -> float:
    return float((columns.amax() * rows.amax()).sqrt()) * _ROUNDING
