"""Tracing of torch modules into steps: the supported layers and calls, and the walk through the traced graph."""

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from fairmargin.errors import ModelError, reason_of
from fairmargin.models.layers.affine import averaged, convolution, dense, diagonal, moved
from fairmargin.models.layers.steps import Added, Kind, Largest, Layers, Rectified, Step
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.protocol import Classifier
from fairmargin.models.torch_model import TorchClassifier

SUPPORTED = (
    "Linear, Conv1d, Conv2d, ReLU, MaxPool2d, AvgPool2d, AdaptiveAvgPool2d, BatchNorm in evaluation, Flatten, "
    "reshaping, slicing, padding with zeros, means, sums of two branches, constant factors and offsets, Dropout and "
    "Identity"
)
Reader = Callable[..., Kind | None]  # None means that the value is unchanged
_SAMPLES = 3  # number of samples in the example, to detect calls that do not keep samples separate
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


class NotSupportedError(Exception):
    """Raised if the settings of a layer are not supported; the message is the end of a sentence."""


def _sample(x: Tensor) -> tuple[int, ...]:
    return tuple(x.shape[1:])


def _in_order(args: Any, *defaults: Any) -> tuple[Any, ...]:
    """Return the arguments after the first one, positional arguments before keyword arguments."""
    if len(args) - 1 > len(defaults):
        raise NotSupportedError("with arguments that are not supported")
    return (*args[1:], *defaults[len(args) - 1 :])


def _pair(value: Any, axes: int = 2) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * axes


# Each of the following functions reads one kind of call: (arguments, result, settings) → step.


def _linear(args: Any, out: Tensor, layer: nn.Linear) -> Kind:
    return dense(layer.weight, layer.bias)


def _convolution(args: Any, out: Tensor, layer: nn.Conv1d | nn.Conv2d) -> Kind:
    if layer.padding_mode != "zeros":
        raise NotSupportedError(f"with padding_mode={layer.padding_mode!r}; only zeros")
    given, padding = layer.padding, tuple(0 for _ in layer.stride)
    if given == "same":
        total = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
        if any(each % 2 for each in total):
            raise NotSupportedError("with padding='same' and an even kernel, which needs asymmetric padding")
        padding = tuple(each // 2 for each in total)
    elif given != "valid":
        padding = tuple(int(each) for each in given)
    settings = layer.stride, padding, layer.dilation, layer.groups
    return convolution(layer.weight, layer.bias, *settings, _sample(args[0]))


def _batch_norm(args: Any, out: Tensor, layer: nn.BatchNorm1d | nn.BatchNorm2d) -> Kind:
    if layer.running_mean is None or layer.running_var is None or layer.training:
        raise NotSupportedError("without fixed statistics: its output depends on the batch")
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
        raise NotSupportedError("of something other than images (channels, height, width)")
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
        raise NotSupportedError("over the samples")
    return averaged(lambda z: z.mean(axes, keep), _sample(args[0]), args[0], terms=args[0][0].numel())


def _reshaped(args: Any, out: Tensor, layer: Any = None, start_dim: int = 0, end_dim: int = -1) -> Kind:
    shape = _sample(out)
    return moved(lambda z: z.reshape(len(z), *shape), _sample(args[0]), out)


def _squeezed(args: Any, out: Tensor, dim: Any = None) -> Kind:
    return _reshaped(args, out)


def _sliced(args: Any, out: Tensor) -> Kind:
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    if index[0] != slice(None) or not all(isinstance(each, (slice, int)) for each in index):
        raise NotSupportedError(f"by {args[1]!r}; only by slices and numbers, and not of samples")
    return moved(lambda z: z[index], _sample(args[0]), out)


def _padded(args: Any, out: Tensor, pad: Any = None, mode: str = "constant", value: Any = None) -> Kind:
    widths, mode, value = _in_order(args, pad, mode, value)
    if mode != "constant" or value not in (None, 0):
        raise NotSupportedError(f"with mode={mode!r} and value={value!r}; only zeros")
    return moved(lambda z: functional.pad(z, widths), _sample(args[0]), out)


def _axes_moved(args: Any, out: Tensor, source: Any = None, destination: Any = None) -> Kind:
    one, other = _in_order(args, source, destination)
    if not isinstance(one, int) or not isinstance(other, int) or 0 in (one % args[0].dim(), other % args[0].dim()):
        raise NotSupportedError("that moves the axis of samples")
    return moved(lambda z: z.movedim(one, other), _sample(args[0]), out)


def _unchanged(args: Any, out: Tensor, layer: nn.Module | None = None) -> None:
    if layer is not None and layer.training and not isinstance(layer, nn.Identity):
        raise NotSupportedError("in training mode, which is random")


def _dropout_call(args: Any, out: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> None:
    share, random, _ = _in_order(args, p, training, inplace)
    if random and share:
        raise NotSupportedError("in training mode, which is random")


def _sum(args: Any, out: Tensor) -> Kind:
    return _shifted(args, out, 1.0)


def _difference(args: Any, out: Tensor) -> Kind:
    return _shifted(args, out, -1.0)


def _product(args: Any, out: Tensor) -> Kind:
    return _scaled(_constant(args, out), out)


def _quotient(args: Any, out: Tensor) -> Kind:
    return _scaled(1 / _constant(args, out), out)


def _constant(args: Any, out: Tensor) -> Tensor:
    """Return the second argument as a constant for the values of one sample."""
    if args[0].shape != out.shape:
        raise NotSupportedError("with a constant of more axes than the value has")
    other = torch.as_tensor(args[1], device=out.device).detach().double()
    if other.dim() == out.dim():
        if other.shape[0] != 1:
            raise NotSupportedError("with a constant that differs from sample to sample")
        other = other[0]
    return other


def _shifted(args: Any, out: Tensor, sign: float) -> Kind:
    offset = sign * _constant(args, out)
    return diagonal(torch.ones_like(offset), offset, offset.abs(), terms=1)


def _scaled(factor: Tensor, out: Tensor) -> Kind:
    none = torch.zeros_like(factor)
    return diagonal(factor, none, none, terms=2)


# Exact types only, because a subclass may compute something else.
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


def layers_of(model: Any, shape: tuple[int, ...]) -> Layers:
    """Return the steps of a classifier for samples of this shape; call it while the `network` of the model is open.

    A linear model has one affine step. A torch module is traced.

    >>> model = LinearClassifier([[1.0, 0.0], [0.0, 1.0]], [0.0, 3.0])
    >>> layers_of(model, (2,)).scores(torch.tensor([[1.0, 2.0]])).tolist()
    [[1.0, 5.0]]
    """
    inner = getattr(model, "model", None)
    if isinstance(inner, Classifier):  # a wrapper, for instance a model with references
        return layers_of(inner, shape)
    if isinstance(model, LinearClassifier):
        weight, bias = torch.tensor(model.weight), torch.tensor(model.bias)
        flat = Step(moved(lambda z: z.flatten(1), shape, weight), (0,), (model.features,))
        return Layers(shape, (flat, Step(dense(weight, bias), (1,), (len(bias),))), torch.float64)
    if isinstance(model, TorchClassifier):
        return Layers(shape, read_steps(model.layered(), shape, model.device, model.dtype), model.dtype)
    raise ModelError(
        f"The layers of a `{type(model).__name__}` cannot be read; expected a torch module or a linear model. "
        "Choose an estimator that needs gradients or predictions only."
    )


def read_steps(module: nn.Module, shape: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> tuple[Step, ...]:
    """Trace a module in evaluation mode, for samples of this shape, and return its steps.

    Guarantee: layers are recognised by their exact type, because a subclass may compute something else. Everything that
    is not in `SUPPORTED` raises a `ModelError`. The caller compares the scores with those of the module.
    """
    for name, part in module.named_modules():
        if any(getattr(part, hooks) for hooks in _HOOKS):
            raise _refusal(f"`{name or 'the model'}` ({type(part).__name__}) with hooks, which may change its values")
    whole = nn.Sequential(module)  # so that a module that is a single layer becomes a call of this layer
    try:
        graph = fx.Tracer().trace(whole)
    except Exception as error:  # tracing runs the user's forward with proxies, which can raise anything
        raise ModelError(
            f"The model's layers cannot be read ({reason_of(error)}), because its forward pass depends on input "
            "values. Choose an estimator that needs gradients only."
        ) from None
    reading = _Reading(whole, torch.zeros(_SAMPLES, *shape, device=device, dtype=dtype))
    for node in graph.nodes:
        reading.read(node)
    return tuple(reading.steps)


class _Reading:
    """Converter of a traced graph to steps, with the value of each node for an example and the number of its step."""

    def __init__(self, module: nn.Module, example: Tensor) -> None:
        self.module, self.example = module, example
        self.values: dict[fx.Node, Any] = {}
        self.places: dict[fx.Node, int] = {}
        self.steps: list[Step] = []

    def read(self, node: fx.Node) -> None:
        """Read one node of the graph."""
        match node.op:
            case "placeholder":
                if self.places:
                    raise _refusal("a second input")
                self.values[node], self.places[node] = self.example, 0
            case "get_attr":
                self.values[node] = operator.attrgetter(str(node.target))(self.module)
            case "output":
                self._finish(node.args[0])
            case _:
                self._call(node)

    def _call(self, node: fx.Node) -> None:
        args: Any
        settings: Any
        args, settings = fx.node.map_arg((node.args, dict(node.kwargs)), lambda source: self.values[source])
        called, description, reader = self._recognised(node)
        inputs = [source for source in node.all_input_nodes if source in self.places]
        if not inputs or _asks_for_shape(node):
            self.values[node] = called(*args, **settings)
            return
        if reader is None:
            raise _refusal(description)
        if _in_place(node, called) and any(len(source.users) > 1 for source in inputs):
            raise _refusal(f"{description}, which changes in place a value that is also used elsewhere")
        with torch.no_grad():
            out = called(*(part.clone() if isinstance(part, Tensor) else part for part in args), **settings)
        if not isinstance(out, Tensor) or len(out) != _SAMPLES:
            raise _refusal(f"{description}, which does not keep samples separate")
        sources = tuple(self.places[part] for part in node.args if isinstance(part, fx.Node) and part in self.places)
        if not sources or not isinstance(node.args[0], fx.Node) or node.args[0] not in self.places:
            raise _refusal(f"{description}, whose first argument does not depend on the input")
        if node.op == "call_module":
            settings = {"layer": called}
        pair = len(sources) == 2
        if pair and (node.target not in SUMS or args[0].shape != args[1].shape):
            raise _refusal(f"{description} of two values that both depend on the input")
        try:
            kind = Added() if pair else reader(args, out, **settings)
        except TypeError:  # an argument that the reader does not have
            raise _refusal(f"{description} with arguments that are not supported") from None
        except NotSupportedError as reason:
            raise _refusal(f"{description} {reason}") from None
        self.values[node] = out
        if kind is None:
            self.places[node] = sources[0]
            return
        self.steps.append(Step(kind, sources, tuple(out.shape[1:])))
        self.places[node] = len(self.steps)

    def _recognised(self, node: fx.Node) -> tuple[Any, str, Reader | None]:
        """Return what a node calls, its description for error messages, and the function that reads it."""
        target: Any = node.target
        if node.op == "call_module":
            layer = self.module.get_submodule(target)
            where = f" at `{target[2:]}`" if target[2:] else ""
            return layer, f"a layer `{type(layer).__name__}`{where}", LAYERS.get(type(layer))
        if node.op == "call_method":
            return getattr(torch.Tensor, target, None), f"the operation `{target}`", CALLS.get(target)
        return target, f"the operation `{getattr(target, '__name__', target)}`", CALLS.get(target)

    def _finish(self, result: Any) -> None:
        if not isinstance(result, fx.Node) or result not in self.places:
            raise _refusal("an output that is not one tensor made of the input")
        place, out = self.places[result], self.values[result]
        del self.steps[place:]  # the scores do not depend on later steps
        if place == 0:
            shape = tuple(out.shape[1:])
            self.steps.append(Step(moved(lambda z: z, shape, out), (0,), shape))


def _refusal(what: str) -> ModelError:
    return ModelError(
        f"Guarantees cannot be computed for this model, because it has {what}. Supported are {SUPPORTED}. Choose an "
        "estimator that needs gradients only, or replace that part."
    )


def _asks_for_shape(node: fx.Node) -> bool:
    return node.target in ("size", "dim") or (node.target is getattr and node.args[1] in ("shape", "ndim"))


def _in_place(node: fx.Node, layer: Any) -> bool:
    return bool(
        getattr(layer, "inplace", False)
        or node.kwargs.get("inplace", False)
        or node.target in (operator.iadd, operator.imul, operator.isub, operator.itruediv)
        or (node.op == "call_method" and str(node.target).endswith("_"))
    )
