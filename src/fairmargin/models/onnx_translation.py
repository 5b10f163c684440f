"""A graph of ONNX on its way to a graph of torch: what has been translated so far, and one operator's view of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, fx, nn

Constant = npt.NDArray[Any]


class NotTranslatedError(Exception):
    """What about an operator is not known here, as the end of a sentence."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """Something that depends on the input.

    Parameters
    ----------
    node
        Its place in the graph of torch.
    example
        What it is for an example, samples along the first axis.
    """

    node: fx.Node
    example: Tensor

    @property
    def axes(self) -> int:
        """How many axes it has, the samples' among them."""
        return self.example.dim()


class Translation:
    """A graph of torch that grows call by call, each tried at once on an example.

    Guarantee: a call that does not keep samples apart is refused.

    Parameters
    ----------
    example
        Of the input.
    """

    def __init__(self, example: Tensor) -> None:
        # With its tracer and its own name it is the same module, by its fingerprint, after it was sent elsewhere.
        self.root, self.graph = nn.Module(), fx.Graph(tracer_cls=fx.Tracer)
        self.input = Value(self.graph.placeholder("x"), example)

    def call(self, target: Any, *args: Any, **settings: Any) -> Value:
        """Add a call of a layer, of a function, or of a tensor's method by its name.

        A `Value` among the arguments is taken from the graph, and an array becomes a constant of the module.
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
            raise NotTranslatedError("which does not keep samples apart")
        return Value(node, out)

    def module(self, scores: Value) -> fx.GraphModule:
        """The graph as a module that returns these scores."""
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
    """One node of a graph of ONNX, with what it takes.

    Parameters
    ----------
    kind
        Its name, such as "Conv".
    inputs
        In order; None where one is left out.
    attributes
        By name.
    """

    kind: str
    inputs: tuple[Value | Constant | None, ...]
    attributes: Mapping[str, Any]

    def data(self, place: int = 0) -> Value:
        """The input at that place, which must depend on the model's input."""
        found = self.inputs[place]
        if not isinstance(found, Value):
            raise NotTranslatedError(f"whose input {place + 1} is a constant")
        return found

    def constant(self, place: int, attribute: str = "", default: Any = None) -> Any:
        """The constant at that place, or the attribute that held it in earlier versions of ONNX."""
        found = self.inputs[place] if place < len(self.inputs) else None
        if isinstance(found, Value):
            raise NotTranslatedError(f"whose input {place + 1} depends on the data")
        return self.attributes.get(attribute, default) if found is None else found

    def numbers(self, place: int, attribute: str = "", default: Any = None) -> list[int] | None:
        """The same as a list of whole numbers."""
        found = self.constant(place, attribute, default)
        return None if found is None else [int(each) for each in np.asarray(found).reshape(-1)]

    def setting(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)

    def axis(self, default: int, axes: int) -> int:
        """The attribute `axis`, counted from the front."""
        return int(self.setting("axis", default)) % axes

    def requires(self, name: str, *allowed: Any) -> None:
        """Refuse an attribute with another value than these, the first of them being the default."""
        given = self.setting(name, allowed[0])
        if given not in allowed:
            raise NotTranslatedError(f"with {name}={given!r}")


def _mapped(args: Any, pick: Any) -> Any:
    if isinstance(args, Value):
        return pick(args)
    if isinstance(args, (tuple, list)):
        return type(args)(_mapped(part, pick) for part in args)
    return args
