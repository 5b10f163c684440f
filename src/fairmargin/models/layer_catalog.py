"""The layers and calls that proofs know, each with a function that reads it: its arguments and result → a step."""

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairmargin.models.affine import averaged, convolution, dense, diagonal, moved
from fairmargin.models.layers import Kind, Largest, Rectified

KNOWN = (
    "Linear, Conv1d, Conv2d, ReLU, MaxPool2d, AvgPool2d, AdaptiveAvgPool2d, BatchNorm in evaluation, Flatten, "
    "reshaping, slicing, padding with zeros, means, sums of two branches, constant factors and offsets, Dropout and "
    "Identity"
)
Reader = Callable[..., Kind | None]  # None: the value passes unchanged


class NotKnownError(Exception):
    """What about a known layer is not known."""


def _sample(x: Tensor) -> tuple[int, ...]:
    return tuple(x.shape[1:])


def _in_order(args: Any, *defaults: Any) -> tuple[Any, ...]:
    """The arguments after the first, those given by place before those given by name."""
    if len(args) - 1 > len(defaults):
        raise NotKnownError("with arguments that are not known here")
    return (*args[1:], *defaults[len(args) - 1 :])


def _pair(value: Any, axes: int = 2) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * axes


# What follows reads one kind of call each: (arguments, result, its settings) → the step.


def _linear(args: Any, out: Tensor, layer: nn.Linear) -> Kind:
    return dense(layer.weight, layer.bias)


def _convolution(args: Any, out: Tensor, layer: nn.Conv1d | nn.Conv2d) -> Kind:
    if layer.padding_mode != "zeros":
        raise NotKnownError(f"with padding_mode={layer.padding_mode!r}; only zeros")
    given, padding = layer.padding, tuple(0 for _ in layer.stride)
    if given == "same":
        total = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
        if any(each % 2 for each in total):
            raise NotKnownError("with padding='same' and an even kernel, which is padded unevenly")
        padding = tuple(each // 2 for each in total)
    elif given != "valid":
        padding = tuple(int(each) for each in given)
    settings = layer.stride, padding, layer.dilation, layer.groups
    return convolution(layer.weight, layer.bias, *settings, _sample(args[0]))


def _batch_norm(args: Any, out: Tensor, layer: nn.BatchNorm1d | nn.BatchNorm2d) -> Kind:
    if layer.running_mean is None or layer.running_var is None or layer.training:
        raise NotKnownError("without fixed statistics: its answer depends on the batch")
    mean, variance = layer.running_mean.detach().double(), layer.running_var.detach().double()
    factor = (variance + layer.eps).rsqrt()
    factor = factor if layer.weight is None else factor * layer.weight.detach().double()
    offset = torch.zeros_like(mean) if layer.bias is None else layer.bias.detach().double()
    parts = (factor, offset - mean * factor, offset.abs() + (mean * factor).abs())
    factor, offset, size = (part.reshape(-1, *(1 for _ in out.shape[2:])) for part in parts)
    return diagonal(factor, offset, size, terms=6)


def _relu(args: Any, out: Tensor, layer: Any = None, inplace: bool = False) -> Kind:
    return Rectified()


def _max_pool(args: Any, out: Tensor, layer: nn.MaxPool2d) -> Kind:
    return _largest(args[0], out, layer.kernel_size, layer.stride, layer.padding, layer.dilation)


def _max_pool_call(
    args: Any,
    out: Tensor,
    kernel_size: Any = None,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Kind:
    given = _in_order(args, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    return _largest(args[0], out, *given[:4])


def _largest(x: Tensor, out: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Kind:
    if x.dim() != 4:
        raise NotKnownError("of something other than images (channels, height, width)")
    kernel, padding, dilation = _pair(kernel), _pair(padding), _pair(dilation)
    stride = kernel if stride is None or stride == [] else _pair(stride)
    axes = []
    for size, length, k, s, p, d in zip(x.shape[2:], out.shape[2:], kernel, stride, padding, dilation, strict=True):
        at = torch.arange(length, device=x.device)[None] * s - p + torch.arange(k, device=x.device)[:, None] * d
        axes.append(torch.where((at >= 0) & (at < size), at, -1))
    rows, columns = axes[0][:, None, :, None], axes[1][None, :, None, :]
    members = torch.where((rows >= 0) & (columns >= 0), rows * x.shape[3] + columns, -1)
    return Largest(members.reshape(kernel[0] * kernel[1], -1))


def _average_pool(args: Any, out: Tensor, layer: nn.AvgPool2d) -> Kind:
    return averaged(layer, _sample(args[0]), args[0], math.prod(_pair(layer.kernel_size)))


def _average_pool_call(
    args: Any,
    out: Tensor,
    kernel_size: Any = None,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Kind:
    kernel, *others = _in_order(args, kernel_size, stride, padding, ceil_mode, count_include_pad)
    return averaged(
        lambda z: functional.avg_pool2d(z, kernel, *others), _sample(args[0]), args[0], math.prod(_pair(kernel))
    )


def _adaptive_pool(args: Any, out: Tensor, layer: nn.AdaptiveAvgPool2d) -> Kind:
    return averaged(layer, _sample(args[0]), args[0], math.prod(args[0].shape[2:]))


def _adaptive_pool_call(args: Any, out: Tensor, output_size: Any = None) -> Kind:
    (size,) = _in_order(args, output_size)
    pool = nn.AdaptiveAvgPool2d(size)
    return _adaptive_pool(args, out, pool)


def _mean(args: Any, out: Tensor, dim: Any = None, keepdim: bool = False) -> Kind:
    axes, keep = _in_order(args, dim, keepdim)
    axes = tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)
    if axes == (None,) or any(axis % args[0].dim() == 0 for axis in axes):
        raise NotKnownError("over the samples")
    return averaged(lambda z: z.mean(axes, keep), _sample(args[0]), args[0], terms=args[0][0].numel())


def _reshaped(args: Any, out: Tensor, layer: Any = None, start_dim: int = 0, end_dim: int = -1) -> Kind:
    shape = _sample(out)
    return moved(lambda z: z.reshape(len(z), *shape), _sample(args[0]), out)


def _squeezed(args: Any, out: Tensor, dim: Any = None) -> Kind:
    return _reshaped(args, out)


def _sliced(args: Any, out: Tensor) -> Kind:
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    if index[0] != slice(None) or not all(isinstance(each, (slice, int)) for each in index):
        raise NotKnownError(f"by {args[1]!r}; only by slices and numbers, and not of samples")
    return moved(lambda z: z[index], _sample(args[0]), out)


def _padded(args: Any, out: Tensor, pad: Any = None, mode: str = "constant", value: Any = None) -> Kind:
    widths, mode, value = _in_order(args, pad, mode, value)
    if mode != "constant" or value not in (None, 0):
        raise NotKnownError(f"with mode={mode!r} and value={value!r}; only zeros")
    return moved(lambda z: functional.pad(z, widths), _sample(args[0]), out)


def _axes_moved(args: Any, out: Tensor, source: Any = None, destination: Any = None) -> Kind:
    one, other = _in_order(args, source, destination)
    if not isinstance(one, int) or not isinstance(other, int) or 0 in (one % args[0].dim(), other % args[0].dim()):
        raise NotKnownError("that moves the axis of samples")
    return moved(lambda z: z.movedim(one, other), _sample(args[0]), out)


def _unchanged(args: Any, out: Tensor, layer: nn.Module | None = None) -> None:
    if layer is not None and layer.training and not isinstance(layer, nn.Identity):
        raise NotKnownError("in training mode, which is random")


def _dropout_call(args: Any, out: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> None:
    share, random, _ = _in_order(args, p, training, inplace)
    if random and share:
        raise NotKnownError("in training mode, which is random")


def _sum(args: Any, out: Tensor) -> Kind:
    return _shifted(args, out, 1.0)


def _difference(args: Any, out: Tensor) -> Kind:
    return _shifted(args, out, -1.0)


def _product(args: Any, out: Tensor) -> Kind:
    return _scaled(_constant(args, out), out)


def _quotient(args: Any, out: Tensor) -> Kind:
    return _scaled(1 / _constant(args, out), out)


def _constant(args: Any, out: Tensor) -> Tensor:
    """The second argument as a number for each of a sample's values."""
    if args[0].shape != out.shape:
        raise NotKnownError("with a constant of more axes than the value has")
    other = torch.as_tensor(args[1], device=out.device).detach().double()
    if other.dim() == out.dim():
        if other.shape[0] != 1:
            raise NotKnownError("with a constant that differs from sample to sample")
        other = other[0]
    return other


def _shifted(args: Any, out: Tensor, sign: float) -> Kind:
    offset = sign * _constant(args, out)
    return diagonal(torch.ones_like(offset), offset, offset.abs(), terms=1)


def _scaled(factor: Tensor, out: Tensor) -> Kind:
    none = torch.zeros_like(factor)
    return diagonal(factor, none, none, terms=2)


# By exact type: a subclass may calculate something else.
LAYERS: dict[type, Reader] = {
    nn.Linear: _linear,
    nn.Conv1d: _convolution,
    nn.Conv2d: _convolution,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.ReLU: _relu,
    nn.MaxPool2d: _max_pool,
    nn.AvgPool2d: _average_pool,
    nn.AdaptiveAvgPool2d: _adaptive_pool,
    nn.Flatten: _reshaped,
    nn.Unflatten: _reshaped,
    nn.Dropout: _unchanged,
    nn.Dropout1d: _unchanged,
    nn.Dropout2d: _unchanged,
    nn.Identity: _unchanged,
}
CALLS: dict[Any, Reader] = {
    functional.relu: _relu,
    torch.relu: _relu,
    "relu": _relu,
    "relu_": _relu,
    functional.max_pool2d: _max_pool_call,
    torch.max_pool2d: _max_pool_call,
    functional.avg_pool2d: _average_pool_call,
    functional.adaptive_avg_pool2d: _adaptive_pool_call,
    torch.mean: _mean,
    "mean": _mean,
    torch.flatten: _reshaped,
    "flatten": _reshaped,
    "view": _reshaped,
    "reshape": _reshaped,
    torch.reshape: _reshaped,
    "squeeze": _squeezed,
    torch.squeeze: _squeezed,
    operator.getitem: _sliced,
    functional.pad: _padded,
    "movedim": _axes_moved,
    "contiguous": _unchanged,
    functional.dropout: _dropout_call,
    operator.add: _sum,
    operator.iadd: _sum,
    torch.add: _sum,
    operator.sub: _difference,
    operator.mul: _product,
    operator.truediv: _quotient,
}
SUMS = frozenset({operator.add, operator.iadd, torch.add})  # of two values that both depend on the input
