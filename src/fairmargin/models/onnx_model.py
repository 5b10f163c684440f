"""Read ONNX files and rebuild their graphs in torch. Such a file holds no code, so that anyone's may be read."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import fx

from fairmargin.errors import ModelError
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.onnx_operators import OPERATORS, is_affine
from fairmargin.models.onnx_translation import Constant, NotTranslatedError, Operator, Translation, Value

_SAMPLES = 100  # of the example, where the file leaves their number open
_LINEAR = "LinearClassifier"  # of ONNX's operators for classical models: what scikit-learn's linear ones become
_CHANCES = {"Softmax": torch.softmax, "LogSoftmax": torch.log_softmax}
_CLASSICAL = "ai.onnx.ml"
_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
# Of torch and ONNX Runtime, which round in another order: how far apart scores may be, as a share of the largest, and
# the least share of equal labels.
_APART, _SAME = 1e-3, 0.99


def read_onnx(path: Path) -> fx.GraphModule | LinearClassifier:
    """The model in an ONNX file: a torch module, or a `LinearClassifier` where scikit-learn's has become one.

    Guarantee: no code of the file is run. On random samples its scores are those of ONNX Runtime, or it is refused.
    A softmax at the end is left out, which changes no decision: its gradients vanish where a model is sure.
    """
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise ModelError(
            f"Reading '{path}' needs the package {error.name}: `pip install 'fairmargin[onnx]'`."
        ) from None
    try:
        model = onnx.load(path)
        if model.functions:
            from onnx.inliner import inline_local_functions

            model = inline_local_functions(model)
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # protobuf's, the checker's and the runtime's many ways of saying it
        raise ModelError(
            f"'{path}' cannot be read as an ONNX model ({_first_line(error)}). It may be damaged, or its weights, "
            "which can lie in a second file, are not beside it."
        ) from None
    try:
        read = _Reading(model).read()
    except NotTranslatedError as reason:
        raise ModelError(
            f"'{path}' has {reason}. Known are {', '.join(sorted({*OPERATORS, _LINEAR}))}. Export the model without "
            "it, or load it in torch or scikit-learn and name it by an import path: --model path/to/file.py:name."
        ) from None
    theirs = session.run([session.get_outputs()[0].name], {session.get_inputs()[0].name: read.example})[0]
    if not read.agrees(np.asarray(theirs)):
        raise ModelError(
            f"'{path}', read with torch, does not answer as ONNX Runtime does, so that nothing can be measured. This "
            "is a defect of Fairmargin's: please report it, with the file."
        )
    return read.model


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """What was read.

    Parameters
    ----------
    model
        The result.
    example
        Samples such as it takes.
    chances
        The kind of softmax that is left out at its end, if any.
    """

    model: fx.GraphModule | LinearClassifier
    example: npt.NDArray[Any]
    chances: str = ""

    def agrees(self, theirs: npt.NDArray[Any]) -> bool:
        """Return whether the file's first output for the example, labels or scores, is that of the model."""
        if isinstance(self.model, LinearClassifier):
            classes, predicted = np.array(self.model.classes), self.model.predict(self.example)
            labels = classes[theirs.argmax(axis=1) % len(classes)] if theirs.ndim == 2 else theirs
            return bool(np.mean(classes[predicted] == labels) >= _SAME)
        with torch.no_grad():
            ours = _CHANCES.get(self.chances, lambda scores, _: scores)(self.model(torch.tensor(self.example)), -1)
        apart = np.abs(ours.numpy() - theirs).max() if ours.shape == theirs.shape else np.inf
        return bool(apart <= _APART * max(1.0, np.abs(theirs).max()))


class _Reading:
    """A walk through a graph of ONNX: constants are worked out, everything else is said in torch."""

    def __init__(self, model: Any) -> None:
        self.graph, self.opsets = model.graph, model.opset_import
        self.values: dict[str, Value | Constant] = {}
        self.unknown: dict[str, str] = {}  # names of values that cannot be translated, with the reason
        self.affine = True

    def read(self) -> _Read:
        """The whole of it."""
        from onnx import numpy_helper

        self.values = {each.name: numpy_helper.to_array(each) for each in self.graph.initializer}
        sparse = [each.values.name for each in self.graph.sparse_initializer]
        self.unknown = {name: f"sparse weights ('{name}')" for name in sparse}
        inputs = [each for each in self.graph.input if each.name not in {*self.values, *sparse}]
        if len(inputs) != 1:
            raise NotTranslatedError(f"{len(inputs)} inputs ({', '.join(each.name for each in inputs)}); expected one")
        example = _example(inputs[0])
        self.to = Translation(torch.tensor(example))
        self.values[inputs[0].name] = self.to.input
        last, chances = self._last()
        for node in self.graph.node:
            if node.op_type == _LINEAR and node.domain == _CLASSICAL:
                return self._classical(node, example)
            self._take(node)
            if last in node.output:
                break
        if not last:
            raise self._outputs()
        if last in self.unknown:
            raise NotTranslatedError(self.unknown[last])
        scores = self.values.get(last)
        if chances and isinstance(scores, Value) and scores.axes == 2 and scores.example.shape[1] == 1:
            raise NotTranslatedError(f"a {chances} over one number per sample, which is the same for every input")
        if not isinstance(scores, Value):
            raise NotTranslatedError("an output that does not depend on the values of the input")
        return _Read(self.to.module(scores), example, chances)

    def _last(self) -> tuple[str, str]:
        """The name of the scores, and the kind of softmax that is left out after them."""
        makers = {name: node for node in self.graph.node for name in node.output}
        classical = [node.op_type for node in makers.values() if node.domain == _CLASSICAL]
        outputs = [each.name for each in self.graph.output]
        if _LINEAR in classical or (classical and len(outputs) > 1):
            return "", ""  # labels and chances are returned: the scores, or an operator that is not known, are inside
        if len(outputs) != 1:
            raise self._outputs()
        name, chances = outputs[0], ""
        while (maker := makers.get(name)) is not None and maker.op_type in ("Identity", *_CHANCES):
            if maker.op_type in _CHANCES:
                if chances or _settings(maker).get("axis", -1) not in (-1, 1):  # 0: over the samples, no chances
                    break
                chances = maker.op_type
            name = maker.input[0]
        return name, chances

    def _outputs(self) -> NotTranslatedError:
        outputs = [each.name for each in self.graph.output]
        return NotTranslatedError(f"{len(outputs)} outputs ({', '.join(outputs)}); expected one, the scores")

    def _take(self, node: Any) -> None:
        absent = [name for name in node.input if name and name not in self.values]
        reasons = [self.unknown.get(name, f"no operator that makes '{name}'") for name in absent]
        if reasons:  # an error only if the scores depend on it, which is seen at the end
            self.unknown |= dict.fromkeys(node.output, reasons[0])
            return
        given = tuple(self.values[name] if name else None for name in node.input)
        if node.op_type in _RANDOM:
            raise NotTranslatedError(f"{_named(node)}, which is random")
        if node.op_type == "Shape" and isinstance(given[0], Value):
            start, end = _settings(node).get("start", 0), _settings(node).get("end")
            self.values[node.output[0]] = np.array(given[0].example.shape[start:end])
        elif not any(isinstance(each, Value) for each in given):
            self.values |= zip(filter(None, node.output), _worked_out(node, given, self.opsets), strict=True)
        else:
            operator = Operator(node.op_type, given, _settings(node))
            self.values[node.output[0]] = self._said(node, operator)
            self.affine &= is_affine(operator)
            for place, name in enumerate(node.output[1:], start=2):
                self.unknown[name] = f"a use of output {place} of {_named(node)}, of which only the first is known here"

    def _said(self, node: Any, operator: Operator) -> Value:
        named = _named(node)
        if node.op_type not in OPERATORS:
            raise NotTranslatedError(f"{named}, which is not known here")
        try:
            return OPERATORS[node.op_type](self.to, operator)
        except NotTranslatedError as reason:
            raise NotTranslatedError(f"{named} {reason}") from None
        except (RuntimeError, TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
            raise NotTranslatedError(f"{named}, which cannot be said in torch ({_first_line(error)})") from None

    def _classical(self, node: Any, example: npt.NDArray[Any]) -> _Read:
        """A linear model of scikit-learn's at the end of affine steps: exact."""
        given, settings = self.values.get(node.input[0]), _settings(node)
        if not isinstance(given, Value) or not self.affine:
            raise NotTranslatedError(f"the operator {_LINEAR} after steps that are not affine")
        labels = settings.get("classlabels_strings") or settings.get("classlabels_ints") or []
        intercepts = np.asarray(settings.get("intercepts", 0.0), dtype=np.float64).reshape(-1)
        weight = np.asarray(settings["coefficients"], dtype=np.float64).reshape(len(intercepts), -1)
        if len(weight) == 1 and len(labels) == 2:  # the second label where the score is above 0
            weight, intercepts = np.vstack([np.zeros_like(weight), weight]), np.append(0.0, intercepts)
        before = self.to.module(given).double()
        with torch.no_grad():  # affine: what it makes of 0 and of each axis is all that it does
            origin = before(torch.zeros(1, example.shape[1], dtype=torch.float64)).numpy()[0]
            axes = before(torch.eye(example.shape[1], dtype=torch.float64)).numpy() - origin
        linear = LinearClassifier(weight @ axes.T, intercepts + weight @ origin, labels or range(len(weight)))
        return _Read(linear, example)


def _example(declared: Any) -> npt.NDArray[Any]:
    """Random samples such as the input is declared to be."""
    from onnx import helper

    if not declared.type.HasField("tensor_type"):
        given = declared.type.WhichOneof("value")
        raise NotTranslatedError(
            f"an input ('{declared.name}') that is no tensor ({given}); expected float32 or float64"
        )
    kind = declared.type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    if dtype not in (np.dtype("float32"), np.dtype("float64")):
        raise NotTranslatedError(
            f"an input of {dtype}; expected float32 or float64, so that it can be changed a little"
        )
    sizes = [each.dim_value for each in kind.shape.dim]
    if len(sizes) < 2 or not all(sizes[1:]):
        shown = " × ".join(str(each.dim_value or each.dim_param or "?") for each in kind.shape.dim)
        raise NotTranslatedError(f"an input of {shown or 'unknown size'}; expected samples of one known shape")
    return np.random.default_rng(0).random((sizes[0] or _SAMPLES, *sizes[1:])).astype(dtype)


def _worked_out(node: Any, given: tuple[Any, ...], opsets: Any) -> Iterator[Constant]:
    """Return what a node makes of constants."""
    from onnx import AttributeProto, helper
    from onnx.reference import ReferenceEvaluator

    inputs = {name: value for name, value in zip(node.input, given, strict=True) if name}
    try:
        declared = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in inputs.items()
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        model = helper.make_model(helper.make_graph([node], "constant", declared, outputs), opset_imports=opsets)
        return iter([np.asarray(each) for each in ReferenceEvaluator(model).run(None, inputs)])
    except Exception as error:  # an operator that the evaluator lacks, or that fails on these constants
        if any(each.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for each in node.attribute):
            raise NotTranslatedError(f"{_named(node)}, whose inner graph uses other values of the model") from None
        raise NotTranslatedError(f"{_named(node)}, which cannot be worked out here ({_first_line(error)})") from None


def _named(node: Any) -> str:
    return f"the operator {node.op_type}" + (f" ('{node.name}')" if node.name else "")


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0].rstrip(".")


def _settings(node: Any) -> dict[str, Any]:
    from onnx import helper

    found = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    return {name: _text(value) for name, value in found.items()}


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return [_text(each) for each in value] if isinstance(value, list) else value
