"""The supported ONNX operators, each translated to calls in a torch graph."""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, fx, nn
from torch.nn import functional

Constant = npt.NDArray[Any]
_CONVOLUTIONS = {3: nn.Conv1d, 4: nn.Conv2d}
_LARGEST = {3: nn.MaxPool1d, 4: nn.MaxPool2d}
_AVERAGES = {3: nn.AvgPool1d, 4: nn.AvgPool2d}
_NORMS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}
_FLOATS = (1, 11)  # the ONNX numbers of the types float and double


class NotTranslatedError(Exception):
    """Raised if an operator is not supported; the message is the end of a sentence."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value in the graph that depends on the input.

    Parameters
    ----------
    node
        Node of the torch graph that computes the value.
    example
        The value for the example input, with samples along the first axis.
    """

    node: fx.Node
    example: Tensor

    @property
    def axes(self) -> int:
        """The number of axes, including that of the samples."""
        return self.example.dim()


class Translation:
    """A torch graph that is built call by call; each call is immediately evaluated on an example.

    Guarantee: a call that does not keep samples separate is refused.

    Parameters
    ----------
    example
        Example input.
    """

    def __init__(self, example: Tensor) -> None:
        # The tracer class keeps the fingerprint of the module the same after it was pickled.
        self.root, self.graph = nn.Module(), fx.Graph(tracer_cls=fx.Tracer)
        self.input = Value(self.graph.placeholder("x"), example)

    def call(self, target: Any, *args: Any, **settings: Any) -> Value:
        """Add a call of a layer, of a function, or of a method of tensors given by its name.

        Each `Value` in the arguments refers to a node of the graph, and each array becomes a buffer of the module.
        """
        seen: Any
        seen, given = _mapped(args, lambda part: part.example), _mapped(args, lambda part: part.node)
        given = tuple(self._kept(part) if isinstance(part, np.ndarray) else part for part in given)
        seen = tuple(self._tensor(part) if isinstance(part, np.ndarray) else part for part in seen)
        if isinstance(target, nn.Module):
            name = self._name()
            self.root.add_module(name, target.to(self.input.example.dtype).eval())
            node, made = self.graph.call_module(name, given), target
        elif isinstance(target, str):
            node, made = self.graph.call_method(target, given, settings), getattr(torch.Tensor, target)
        else:
            node, made = self.graph.call_function(target, given, settings), target
        with torch.no_grad():
            out = made(*seen, **settings)
        if not isinstance(out, Tensor) or out.shape[:1] != self.input.example.shape[:1]:
            raise NotTranslatedError("which does not keep samples separate")
        return Value(node, out)

    def module(self, scores: Value) -> fx.GraphModule:
        """Return the graph as a module with these scores as output."""
        self.graph.output(scores.node)
        module = fx.GraphModule(self.root, self.graph)
        module.graph.eliminate_dead_code()
        module.recompile()
        module.delete_all_unused_submodules()
        return module.eval()

    def _kept(self, array: Constant) -> fx.Node:
        name = self._name()
        self.root.register_buffer(name, self._tensor(array))
        return self.graph.get_attr(name)

    def _tensor(self, array: Constant) -> Tensor:
        return torch.tensor(array, dtype=self.input.example.dtype)

    def _name(self) -> str:
        return f"part_{len(self.graph.nodes)}"


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """One node of an ONNX graph with its inputs.

    Parameters
    ----------
    kind
        Name of the operator, such as "Conv".
    inputs
        Inputs in order; None for an omitted input.
    attributes
        Attributes by name.
    """

    kind: str
    inputs: tuple[Value | Constant | None, ...]
    attributes: Mapping[str, Any]

    def data(self, place: int = 0) -> Value:
        """Return the input at this position, which must depend on the input of the model."""
        found = self.inputs[place]
        if not isinstance(found, Value):
            raise NotTranslatedError(f"whose input {place + 1} is a constant")
        return found

    def constant(self, place: int, attribute: str = "", default: Any = None) -> Any:
        """Return the constant at this position, or the attribute that replaces it in earlier versions of ONNX."""
        found = self.inputs[place] if place < len(self.inputs) else None
        if isinstance(found, Value):
            raise NotTranslatedError(f"whose input {place + 1} depends on the data")
        return self.attributes.get(attribute, default) if found is None else found

    def numbers(self, place: int, attribute: str = "", default: Any = ()) -> list[int]:
        """Return the constant at this position as a list of integers."""
        return [int(each) for each in np.asarray(self.constant(place, attribute, default)).reshape(-1)]

    def setting(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or the default if it is not set."""
        return self.attributes.get(name, default)

    def axis(self, default: int, axes: int) -> int:
        """Return the attribute `axis` as a number that is not negative."""
        return int(self.setting("axis", default)) % axes

    def requires(self, name: str, *allowed: Any) -> None:
        """Refuse an attribute whose value is not one of these; the first one is the default."""
        given = self.setting(name, allowed[0])
        if given not in allowed:
            raise NotTranslatedError(f"with {name}={given!r}")


def _mapped(args: Any, pick: Any) -> Any:
    if isinstance(args, Value):
        return pick(args)
    if isinstance(args, (tuple, list)):
        return type(args)(_mapped(part, pick) for part in args)
    return args


Translate = Callable[[Translation, Operator], Value]


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
        raise NotTranslatedError("with asymmetric padding that is excluded from averages")
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
    """Return the input of a window and the symmetric padding for the layer; asymmetric padding is a separate call."""
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
    """Return axes as sorted numbers that are not negative; the axis of the samples is refused."""
    found = tuple(sorted(int(axis) % x.axes for axis in axes))
    if 0 in found:
        raise NotTranslatedError("along the samples")
    return found


def _flatten(to: Translation, op: Operator) -> Value:
    if op.axis(1, op.data().axes) != 1:
        raise NotTranslatedError(f"with axis={op.setting('axis')}")
    return to.call(torch.flatten, op.data(), 1)


def _reshape(to: Translation, op: Operator) -> Value:
    x, target = op.data(), op.numbers(1, "shape")
    size = tuple(x.example.shape)
    if not op.setting("allowzero", 0):
        target = [size[place] if each == 0 else each for place, each in enumerate(target)]
    return _in_shape(to, x, tuple(x.example.reshape(target).shape))


def _in_shape(to: Translation, x: Value, shape: tuple[int, ...]) -> Value:
    if shape[:1] != tuple(x.example.shape[:1]):
        raise NotTranslatedError("which does not keep samples separate")
    return to.call(torch.flatten, x, 1) if len(shape) == 2 else to.call("reshape", x, -1, *shape[1:])


def _squeeze(to: Translation, op: Operator) -> Value:
    x, axes = op.data(), op.numbers(1, "axes")
    ones = [axis for axis, size in enumerate(x.example.shape) if axis and size == 1]
    gone = _inner(x, axes) or ones
    return _in_shape(to, x, tuple(size for axis, size in enumerate(x.example.shape) if axis not in gone))


def _unsqueeze(to: Translation, op: Operator) -> Value:
    x, axes = op.data(), op.numbers(1, "axes")
    shape = list(x.example.shape)
    for axis in sorted(each % (x.axes + len(axes)) for each in axes):
        shape.insert(axis, 1)
    return _in_shape(to, x, tuple(shape))


def _transpose(to: Translation, op: Operator) -> Value:
    order = list(op.setting("perm", range(op.data().axes)[::-1]))
    if order[0] != 0:
        raise NotTranslatedError("which moves the axis of samples")
    return to.call("permute", op.data(), *order)


def _concat(to: Translation, op: Operator) -> Value:
    parts = [op.data(place) for place in range(len(op.inputs))]
    return to.call(torch.cat, parts, *_inner(parts[0], [op.setting("axis", 1)]))


def _slice(to: Translation, op: Operator) -> Value:
    x, starts, ends = op.data(), op.numbers(1, "starts"), op.numbers(2, "ends")
    axes = op.numbers(3, "axes", range(len(starts)))
    steps = op.numbers(4, default=[1] * len(starts))
    index = [slice(None)] * x.axes
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step < 1:
            raise NotTranslatedError("backwards")
        index[_inner(x, [axis])[0]] = slice(start, min(end, torch.iinfo(torch.int64).max), step)
    return to.call(operator.getitem, x, tuple(index))


def _gather(to: Translation, op: Operator) -> Value:
    x, places = op.data(), np.asarray(op.constant(1))
    (axis,) = _inner(x, [op.setting("axis", 0)])
    if places.ndim > 0:
        return to.call(operator.getitem, x, (*[slice(None)] * axis, places.tolist()))
    return to.call(operator.getitem, x, (*[slice(None)] * axis, int(places)))


def _pad(to: Translation, op: Operator) -> Value:
    x, widths = op.data(), op.numbers(1, "pads")
    mode = {"constant": "constant", "reflect": "reflect", "edge": "replicate"}.get(op.setting("mode", "constant"))
    if mode is None:
        raise NotTranslatedError(f"with mode={op.setting('mode')!r}")
    axes = op.numbers(3, default=range(x.axes))
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
    """Flatten the widths on both sides of each axis, with the last axis first as in `torch.nn.functional.pad`."""
    return [width for pair in reversed(widths) for width in pair]


# Arithmetic.


def _with(function: Any) -> Translate:
    """Make the translation of a function of two arguments, of which one can be a constant."""

    def translate(to: Translation, op: Operator) -> Value:
        first, second = op.inputs
        if isinstance(first, Value):
            return to.call(function, first, second if isinstance(second, Value) else _small(second, first))
        return to.call(function, _small(first, op.data(1)), op.data(1))

    return translate


def _either_way(function: Any) -> Translate:
    """Make the translation of a commutative function; a constant becomes the second argument, as proofs need it."""

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
    """Convert a constant to a number if it has no axes; it must be the same for all samples."""
    array = np.asarray(constant)
    if array.ndim > beside.axes or (array.ndim == beside.axes and array.shape[0] != 1):
        raise NotTranslatedError("with a constant that differs from sample to sample")
    return array.item() if array.ndim == 0 else array


def _clip(to: Translation, op: Operator) -> Value:
    low, high = (op.constant(place, name) for place, name in ((1, "min"), (2, "max")))
    low, high = (None if each is None else float(np.asarray(each).reshape(())) for each in (low, high))
    return to.call(nn.ReLU(), op.data()) if (low, high) == (0.0, None) else to.call(torch.clamp, op.data(), low, high)


def _same(to: Translation, op: Operator) -> Value:
    return op.data()


def _cast(to: Translation, op: Operator) -> Value:
    if int(op.setting("to")) not in _FLOATS:
        raise NotTranslatedError("to a type other than float or double")
    return op.data()


def _function(function: Any) -> Translate:
    return lambda to, op: to.call(function, op.data())


def _layer(make: Callable[[Operator], nn.Module]) -> Translate:
    return lambda to, op: to.call(make(op), op.data())


def _softmax(make: Any) -> Translate:
    def translate(to: Translation, op: Operator) -> Value:
        return to.call(make(*_inner(op.data(), [op.setting("axis", -1)])), op.data())

    return translate


def _prelu(to: Translation, op: Operator) -> Value:
    slope, x = np.asarray(op.constant(1)), op.data()
    below = to.call(torch.clamp, x, None, 0.0)
    return to.call(operator.add, to.call(nn.ReLU(), x), to.call(operator.mul, below, _small(slope, x)))


def _hard_sigmoid(to: Translation, op: Operator) -> Value:
    line = to.call(operator.mul, op.data(), float(op.setting("alpha", 0.2)))
    return to.call(torch.clamp, to.call(operator.add, line, float(op.setting("beta", 0.5))), 0.0, 1.0)


def _scaler(to: Translation, op: Operator) -> Value:
    offset, scale = (np.atleast_2d(op.setting(name, default)) for name, default in (("offset", 0.0), ("scale", 1.0)))
    return to.call(operator.mul, to.call(operator.sub, op.data(), offset), scale)


_AFFINE: dict[str, Translate] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": _either_way(operator.add),
    "Sub": _minus,
    "Neg": _negative,
    "Identity": _same,
    "Dropout": _same,
    "Cast": _cast,
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Gather": _gather,
    "Slice": _slice,
    "Scaler": _scaler,
}
OPERATORS: dict[str, Translate] = {
    **_AFFINE,
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "Concat": _concat,
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
    "PRelu": _prelu,
    "Pad": _pad,
    "Pow": _with(operator.pow),
    "ReduceMean": _mean_over,
    "Relu": _layer(lambda op: nn.ReLU()),
    "Sigmoid": _layer(lambda op: nn.Sigmoid()),
    "Softmax": _softmax(nn.Softmax),
    "Softplus": _function(functional.softplus),
    "Softsign": _function(functional.softsign),
    "Sqrt": _function(torch.sqrt),
    "Tanh": _function(torch.tanh),
    "Transpose": _transpose,
}


def is_affine(op: Operator) -> bool:
    """Return whether an operator is affine in the input of the model; a model with only such operators is linear."""
    scaled = op.kind in ("Mul", "Div") and not isinstance(op.inputs[1], Value)
    return op.kind in _AFFINE or scaled or (op.kind == "Mul" and not isinstance(op.inputs[0], Value))
