"""The operators of ONNX that are known, each with a function that says it in torch."""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fairmargin.models.onnx_translation import NotTranslatedError, Operator, Translation, Value

Translate = Callable[[Translation, Operator], Value]
_CONVOLUTIONS = {3: nn.Conv1d, 4: nn.Conv2d}
_LARGEST = {3: nn.MaxPool1d, 4: nn.MaxPool2d}
_AVERAGES = {3: nn.AvgPool1d, 4: nn.AvgPool2d}
_NORMS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}


def _of(kinds: dict[int, Any], x: Value) -> Any:
    if x.axes not in kinds:
        raise NotTranslatedError(f"of a value with {x.axes} axes")
    return kinds[x.axes]


# Layers with weights.


def _gemm(to: Translation, op: Operator) -> Value:
    op.requires("transA", 0)
    weight = op.constant(1) if op.setting("transB", 0) else op.constant(1).T
    return _linear(to, op.data(), op.setting("alpha", 1.0) * weight, op.constant(2), op.setting("beta", 1.0))


def _matmul(to: Translation, op: Operator) -> Value:
    weight = op.constant(1)
    if weight.ndim != 2:
        raise NotTranslatedError(f"by an array of {weight.ndim} axes")
    return _linear(to, op.data(), weight.T)


def _linear(to: Translation, x: Value, weight: Any, bias: Any = None, factor: float = 1.0) -> Value:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    _fill(layer.weight, weight)
    if bias is not None:
        _fill(layer.bias, factor * np.broadcast_to(bias, (1, len(weight)))[0])
    return to.call(layer, x)


def _convolution(to: Translation, op: Operator) -> Value:
    weight, bias = op.constant(1), op.constant(2)
    x, padding = _padded_for(to, op, weight.shape[2:])
    groups = int(op.setting("group", 1))
    strides, dilations = _steps(op, x, "strides"), _steps(op, x, "dilations")
    layer = _of(_CONVOLUTIONS, x)(
        weight.shape[1] * groups, len(weight), weight.shape[2:], strides, padding, dilations, groups, bias is not None
    )
    _fill(layer.weight, weight)
    if bias is not None:
        _fill(layer.bias, bias)
    return to.call(layer, x)


def _batch_norm(to: Translation, op: Operator) -> Value:
    op.requires("training_mode", 0)
    x = op.data()
    weight, bias, mean, variance = (op.constant(place) for place in (1, 2, 3, 4))
    layer = _of(_NORMS, x)(len(mean), eps=op.setting("epsilon", 1e-5))
    for tensor, array in zip(
        (layer.weight, layer.bias, layer.running_mean, layer.running_var), (weight, bias, mean, variance), strict=True
    ):
        _fill(tensor, array)
    return to.call(layer, x)


def _fill(tensor: Any, array: Any) -> None:
    tensor.data = torch.tensor(np.array(array))


# Windows.


def _max_pool(to: Translation, op: Operator) -> Value:
    x, padding = _padded_for(to, op, op.setting("kernel_shape"), -math.inf)
    layer = _of(_LARGEST, x)(
        tuple(op.setting("kernel_shape")),
        _steps(op, x, "strides"),
        padding,
        _steps(op, x, "dilations"),
        ceil_mode=bool(op.setting("ceil_mode", 0)),
    )
    return to.call(layer, x)


def _average_pool(to: Translation, op: Operator) -> Value:
    counted = bool(op.setting("count_include_pad", 0))
    given, (x, padding) = op.data(), _padded_for(to, op, op.setting("kernel_shape"))
    if x is not given and not counted:
        raise NotTranslatedError("with uneven padding that does not count")
    if any(each != 1 for each in _steps(op, x, "dilations")):
        raise NotTranslatedError("with dilations")
    layer = _of(_AVERAGES, x)(
        tuple(op.setting("kernel_shape")),
        _steps(op, x, "strides"),
        padding,
        ceil_mode=bool(op.setting("ceil_mode", 0)),
        count_include_pad=counted,
    )
    return to.call(layer, x)


def _steps(op: Operator, x: Value, name: str) -> tuple[int, ...]:
    return tuple(int(each) for each in op.setting(name, [1] * (x.axes - 2)))


def _padded_for(to: Translation, op: Operator, kernel: Any, filler: float = 0.0) -> tuple[Value, tuple[int, ...]]:
    """What a window goes over, and the even padding that is left to the layer; uneven padding is a call of its own."""
    x = op.data()
    before, after = _pads(op, x, tuple(kernel))
    if before == after:
        return x, before
    widths = _last_first(list(zip(before, after, strict=True)))
    return to.call(functional.pad, x, widths, "constant", filler), (0,) * len(before)


def _pads(op: Operator, x: Value, kernel: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    mode = op.setting("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        axes = zip(x.example.shape[2:], kernel, _steps(op, x, "strides"), _steps(op, x, "dilations"), strict=True)
        totals = [max((-(-size // s) - 1) * s + d * (k - 1) + 1 - size, 0) for size, k, s, d in axes]
        less, more = tuple(each // 2 for each in totals), tuple(each - each // 2 for each in totals)
        return (less, more) if mode == "SAME_UPPER" else (more, less)
    given = [int(each) for each in op.setting("pads", [0] * 2 * len(kernel))]
    return tuple(given[: len(kernel)]), tuple(given[len(kernel) :])


def _mean_over(to: Translation, op: Operator) -> Value:
    x = op.data()
    axes = op.numbers(1, "axes")
    if not axes and op.setting("noop_with_empty_axes", 0):
        return x
    return to.call(torch.mean, x, _inner(x, axes or range(x.axes)), bool(op.setting("keepdims", 1)))


def _mean_of_all(to: Translation, op: Operator) -> Value:
    return to.call(torch.mean, op.data(), tuple(range(2, op.data().axes)), True)


def _largest_of_all(to: Translation, op: Operator) -> Value:
    return to.call(torch.amax, op.data(), tuple(range(2, op.data().axes)), True)


# Shapes.


def _inner(x: Value, axes: Any) -> tuple[int, ...]:
    """Axes counted from the front; the samples' may not be among them."""
    found = tuple(sorted(int(axis) % x.axes for axis in axes))
    if 0 in found:
        raise NotTranslatedError("along the samples")
    return found


def _flattened(to: Translation, op: Operator) -> Value:
    if op.axis(1, op.data().axes) != 1:
        raise NotTranslatedError(f"with axis={op.setting('axis')}")
    return to.call(torch.flatten, op.data(), 1)


def _reshaped(to: Translation, op: Operator) -> Value:
    x, target = op.data(), op.numbers(1, "shape")
    assert target is not None
    size = tuple(x.example.shape)
    if not op.setting("allowzero", 0):
        target = [size[place] if each == 0 else each for place, each in enumerate(target)]
    return _in_shape(to, x, tuple(x.example.reshape(target).shape))


def _in_shape(to: Translation, x: Value, shape: tuple[int, ...]) -> Value:
    if shape[:1] != tuple(x.example.shape[:1]):
        raise NotTranslatedError("which does not keep samples apart")
    return to.call(torch.flatten, x, 1) if len(shape) == 2 else to.call("reshape", x, -1, *shape[1:])


def _squeezed(to: Translation, op: Operator) -> Value:
    x, axes = op.data(), op.numbers(1, "axes")
    ones = [axis for axis, size in enumerate(x.example.shape) if axis and size == 1]
    gone = ones if axes is None else _inner(x, axes)
    return _in_shape(to, x, tuple(size for axis, size in enumerate(x.example.shape) if axis not in gone))


def _unsqueezed(to: Translation, op: Operator) -> Value:
    x, axes = op.data(), op.numbers(1, "axes")
    assert axes is not None
    shape = list(x.example.shape)
    for axis in sorted(each % (x.axes + len(axes)) for each in axes):
        shape.insert(axis, 1)
    return _in_shape(to, x, tuple(shape))


def _transposed(to: Translation, op: Operator) -> Value:
    order = list(op.setting("perm", range(op.data().axes)[::-1]))
    if order[0] != 0:
        raise NotTranslatedError("which moves the axis of samples")
    return to.call("permute", op.data(), *order)


def _joined(to: Translation, op: Operator) -> Value:
    parts = [op.data(place) for place in range(len(op.inputs))]
    return to.call(torch.cat, parts, *_inner(parts[0], [op.setting("axis", 1)]))


def _sliced(to: Translation, op: Operator) -> Value:
    x, starts, ends = op.data(), op.numbers(1, "starts"), op.numbers(2, "ends")
    assert starts is not None
    assert ends is not None
    axes = op.numbers(3, "axes", range(len(starts)))
    steps = op.numbers(4, default=[1] * len(starts))
    assert axes is not None
    assert steps is not None
    index = [slice(None)] * x.axes
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step < 1:
            raise NotTranslatedError("backwards")
        index[_inner(x, [axis])[0]] = slice(start, min(end, torch.iinfo(torch.int64).max), step)
    return to.call(operator.getitem, x, tuple(index))


def _picked(to: Translation, op: Operator) -> Value:
    x, places = op.data(), np.asarray(op.constant(1))
    (axis,) = _inner(x, [op.setting("axis", 0)])
    if places.ndim > 0:
        return to.call(operator.getitem, x, (*[slice(None)] * axis, places.tolist()))
    return to.call(operator.getitem, x, (*[slice(None)] * axis, int(places)))


def _framed(to: Translation, op: Operator) -> Value:
    x, widths = op.data(), op.numbers(1, "pads")
    assert widths is not None
    mode = {"constant": "constant", "reflect": "reflect", "edge": "replicate"}.get(op.setting("mode", "constant"))
    if mode is None:
        raise NotTranslatedError(f"with mode={op.setting('mode')!r}")
    axes = op.numbers(3, default=range(x.axes))
    assert axes is not None
    both = [(0, 0)] * x.axes
    for place, axis in enumerate(axes):
        both[axis % x.axes] = widths[place], widths[place + len(axes)]
    if both[0] != (0, 0):
        raise NotTranslatedError("along the samples")
    if mode == "constant":
        filler = float(np.asarray(op.constant(2, "value", 0.0)).reshape(()))
        return to.call(functional.pad, x, _last_first(both), mode, filler)
    if both[1] != (0, 0):
        raise NotTranslatedError(f"of channels with mode={op.setting('mode')!r}")
    return to.call(functional.pad, x, _last_first(both[2:]), mode)


def _last_first(widths: Sequence[tuple[int, int]]) -> list[int]:
    """Widths on both sides of each axis, as torch wants them."""
    return [width for pair in reversed(widths) for width in pair]


# Arithmetic.


def _with(function: Any) -> Translate:
    """Of two values, or of a value and a constant on its right."""

    def translate(to: Translation, op: Operator) -> Value:
        first, second = op.inputs
        if isinstance(first, Value):
            return to.call(function, first, second if isinstance(second, Value) else _small(second, first))
        return to.call(function, _small(first, op.data(1)), op.data(1))

    return translate


def _either_way(function: Any) -> Translate:
    """The same where the order does not matter: a value comes first, where proofs look for it."""

    def translate(to: Translation, op: Operator) -> Value:
        first, second = op.inputs
        pair = (first, second) if isinstance(first, Value) else (second, first)
        return _with(function)(to, Operator(op.kind, pair, op.attributes))

    return translate


def _minus(to: Translation, op: Operator) -> Value:
    first = op.inputs[0]
    if isinstance(first, Value):
        return _with(operator.sub)(to, op)
    return to.call(operator.add, to.call(operator.mul, op.data(1), -1.0), _small(first, op.data(1)))


def _negative(to: Translation, op: Operator) -> Value:
    return to.call(operator.mul, op.data(), -1.0)


def _small(constant: Any, beside: Value) -> Any:
    """A constant as a number where it is one; it must be the same for all samples."""
    array = np.asarray(constant)
    if array.ndim > beside.axes or (array.ndim == beside.axes and array.shape[0] != 1):
        raise NotTranslatedError("with a constant that differs from sample to sample")
    return array.item() if array.ndim == 0 else array


def _clipped(to: Translation, op: Operator) -> Value:
    low, high = (op.constant(place, name) for place, name in ((1, "min"), (2, "max")))
    low, high = (None if each is None else float(np.asarray(each).reshape(())) for each in (low, high))
    return to.call(nn.ReLU(), op.data()) if (low, high) == (0.0, None) else to.call(torch.clamp, op.data(), low, high)


def _same(to: Translation, op: Operator) -> Value:
    return op.data()


def _cast(to: Translation, op: Operator) -> Value:
    if int(op.setting("to")) not in _FLOATS:
        raise NotTranslatedError("to another kind of number than floats")
    return op.data()


def _function(function: Any) -> Translate:
    return lambda to, op: to.call(function, op.data())


def _layer(make: Callable[[Operator], nn.Module]) -> Translate:
    return lambda to, op: to.call(make(op), op.data())


def _softmax(make: Any) -> Translate:
    def translate(to: Translation, op: Operator) -> Value:
        return to.call(make(*_inner(op.data(), [op.setting("axis", -1)])), op.data())

    return translate


def _gated(to: Translation, op: Operator) -> Value:
    slope, x = np.asarray(op.constant(1)), op.data()
    below = to.call(torch.clamp, x, None, 0.0)
    return to.call(operator.add, to.call(nn.ReLU(), x), to.call(operator.mul, below, _small(slope, x)))


def _hard_sigmoid(to: Translation, op: Operator) -> Value:
    line = to.call(operator.mul, op.data(), float(op.setting("alpha", 0.2)))
    return to.call(torch.clamp, to.call(operator.add, line, float(op.setting("beta", 0.5))), 0.0, 1.0)


def _scaler(to: Translation, op: Operator) -> Value:
    offset, scale = (np.atleast_2d(op.setting(name, default)) for name, default in (("offset", 0.0), ("scale", 1.0)))
    return to.call(operator.mul, to.call(operator.sub, op.data(), offset), scale)


_FLOATS = (1, 11)  # float and double, as ONNX numbers them
_AFFINE: dict[str, Translate] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": _either_way(operator.add),
    "Sub": _minus,
    "Neg": _negative,
    "Identity": _same,
    "Dropout": _same,
    "Cast": _cast,
    "Flatten": _flattened,
    "Reshape": _reshaped,
    "Squeeze": _squeezed,
    "Unsqueeze": _unsqueezed,
    "Gather": _picked,
    "Slice": _sliced,
    "Scaler": _scaler,
}
OPERATORS: dict[str, Translate] = {
    **_AFFINE,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Clip": _clipped,
    "Concat": _joined,
    "Conv": _convolution,
    "Div": _with(operator.truediv),
    "Elu": _layer(lambda op: nn.ELU(op.setting("alpha", 1.0))),
    "Erf": _function(torch.erf),
    "Exp": _function(torch.exp),
    "Gelu": _layer(lambda op: nn.GELU(op.setting("approximate", "none"))),
    "GlobalAveragePool": _mean_of_all,
    "GlobalMaxPool": _largest_of_all,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _function(functional.hardswish),
    "LRN": _layer(
        lambda op: nn.LocalResponseNorm(
            op.setting("size"), op.setting("alpha", 1e-4), op.setting("beta", 0.75), op.setting("bias", 1.0)
        )
    ),
    "LeakyRelu": _layer(lambda op: nn.LeakyReLU(op.setting("alpha", 0.01))),
    "Log": _function(torch.log),
    "LogSoftmax": _softmax(nn.LogSoftmax),
    "MaxPool": _max_pool,
    "Mul": _either_way(operator.mul),
    "PRelu": _gated,
    "Pad": _framed,
    "Pow": _with(operator.pow),
    "ReduceMean": _mean_over,
    "Relu": _layer(lambda op: nn.ReLU()),
    "Sigmoid": _layer(lambda op: nn.Sigmoid()),
    "Softmax": _softmax(nn.Softmax),
    "Softplus": _function(functional.softplus),
    "Softsign": _function(functional.softsign),
    "Sqrt": _function(torch.sqrt),
    "Tanh": _function(torch.tanh),
    "Transpose": _transposed,
}


def is_affine(op: Operator) -> bool:
    """Whether an operator is affine in the model's input; a model made of such alone is linear."""
    scaled = op.kind in ("Mul", "Div") and not isinstance(op.inputs[1], Value)
    return op.kind in _AFFINE or scaled or (op.kind == "Mul" and not isinstance(op.inputs[0], Value))
