"""From a torch module to its steps: its forward pass is traced once, and every call in it must be known."""

import operator
from typing import Any

import torch
from torch import Tensor, fx, nn

from fairmargin.errors import ModelError
from fairmargin.models.affine import dense, moved
from fairmargin.models.layer_catalog import CALLS, KNOWN, LAYERS, SUMS, NotKnownError, Reader
from fairmargin.models.layers import Added, Layers, Step
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.protocol import Classifier
from fairmargin.models.torch_model import TorchClassifier

_SAMPLES = 3  # of the example that goes through the graph: a call that does not keep them apart is noticed
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


def layers_of(model: Any, shape: tuple[int, ...]) -> Layers:
    """The steps of a classifier for samples of that shape; to be called while its `network` is open.

    A linear model is one step. A torch module is traced.

    >>> model = LinearClassifier([[1.0, 0.0], [0.0, 1.0]], [0.0, 3.0])
    >>> layers_of(model, (2,)).scores(torch.tensor([[1.0, 2.0]])).tolist()
    [[1.0, 5.0]]
    """
    inner = getattr(model, "model", None)
    if isinstance(inner, Classifier):  # a model with references, or one whose questions are counted
        return layers_of(inner, shape)
    if isinstance(model, LinearClassifier):
        weight, bias = torch.tensor(model.weight), torch.tensor(model.bias)
        flat = Step(moved(lambda z: z.flatten(1), shape, weight), (0,), (model.features,))
        return Layers(shape, (flat, Step(dense(weight, bias), (1,), (len(bias),))), torch.float64)
    if isinstance(model, TorchClassifier):
        return Layers(shape, read_steps(model.layered(), shape, model.device, model.dtype), model.dtype)
    raise ModelError(
        f"The layers of a `{type(model).__name__}` cannot be looked at; expected a torch module or a linear model. "
        "Choose an estimator that needs gradients or predictions only."
    )


def read_steps(module: nn.Module, shape: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> tuple[Step, ...]:
    """The steps of a module in evaluation mode, for samples of that shape.

    Guarantee: layers are recognised by their exact type, so that a subclass, which may calculate something else, is
    refused with a sentence, as is whatever is not in `KNOWN`. The caller compares the scores.
    """
    for name, part in module.named_modules():
        if any(getattr(part, hooks) for hooks in _HOOKS):
            raise _refusal(f"`{name or 'the model'}` ({type(part).__name__}) with hooks, which may change its values")
    whole = nn.Sequential(module)  # so that a module that is itself one layer is called as one
    try:
        graph = fx.Tracer().trace(whole)
    except Exception as error:  # tracing runs the user's forward on stand-ins, which may raise anything
        reason = (str(error) or type(error).__name__).strip().splitlines()[0].rstrip(".")
        raise ModelError(
            f"The model's layers cannot be read ({reason}): its forward pass depends on the values that go through it. "
            "Choose an estimator that needs gradients only."
        ) from None
    reading = _Reading(whole, torch.zeros(_SAMPLES, *shape, device=device, dtype=dtype))
    for node in graph.nodes:
        reading.read(node)
    return tuple(reading.steps)


class _Reading:
    """A walk through a traced graph: an example's values, and the number of the step that makes each of them."""

    def __init__(self, module: nn.Module, example: Tensor) -> None:
        self.module, self.example = module, example
        self.values: dict[fx.Node, Any] = {}
        self.places: dict[fx.Node, int] = {}
        self.steps: list[Step] = []

    def read(self, node: fx.Node) -> None:
        """Take one node of the graph."""
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
        called, words, reader = self._recognised(node)
        inputs = [source for source in node.all_input_nodes if source in self.places]
        if not inputs or _asks_for_shape(node):
            self.values[node] = called(*args, **settings)
            return
        if reader is None:
            raise _refusal(words)
        if _in_place(node, called) and any(len(source.users) > 1 for source in inputs):
            raise _refusal(f"{words}, which changes in place a value that is used elsewhere too")
        with torch.no_grad():
            out = called(*(part.clone() if isinstance(part, Tensor) else part for part in args), **settings)
        if not isinstance(out, Tensor) or len(out) != _SAMPLES:
            raise _refusal(f"{words}, which does not keep samples apart")
        sources = tuple(self.places[part] for part in node.args if isinstance(part, fx.Node) and part in self.places)
        if not sources or not isinstance(node.args[0], fx.Node) or node.args[0] not in self.places:
            raise _refusal(f"{words}, whose first argument does not depend on the input")
        if node.op == "call_module":
            settings = {"layer": called}
        pair = len(sources) == 2
        if pair and (node.target not in SUMS or args[0].shape != args[1].shape):
            raise _refusal(f"{words} of two values that both depend on the input")
        try:
            kind = Added() if pair else reader(args, out, **settings)
        except TypeError:  # an argument that the reader has no name for
            raise _refusal(f"{words} with arguments that are not known here") from None
        except NotKnownError as reason:
            raise _refusal(f"{words} {reason}") from None
        self.values[node] = out
        if kind is None:
            self.places[node] = sources[0]
            return
        self.steps.append(Step(kind, sources, tuple(out.shape[1:])))
        self.places[node] = len(self.steps)

    def _recognised(self, node: fx.Node) -> tuple[Any, str, Reader | None]:
        """What is called, how to name it in a sentence, and who reads it."""
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
        del self.steps[place:]  # what comes after the scores has no part in them
        if place == 0:
            shape = tuple(out.shape[1:])
            self.steps.append(Step(moved(lambda z: z, shape, out), (0,), shape))


def _refusal(what: str) -> ModelError:
    return ModelError(
        f"Nothing can be proven about this model, since it has {what}. Known are {KNOWN}. Choose an estimator that "
        "needs gradients only, or replace that part."
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
