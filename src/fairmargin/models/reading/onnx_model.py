"""Read ONNX files by rebuilding their graphs in torch. They contain no code, so files of any origin can be read."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import fx

from fairmargin.errors import ModelError, reason_of
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.reading.onnx_operators import (
    OPERATORS,
    Constant,
    NotTranslatedError,
    Operator,
    Translation,
    Value,
    is_affine,
)

_SAMPLES = 100  # number of random samples if the file does not fix the batch size
_LINEAR = "LinearClassifier"  # the ONNX operator for linear models of scikit-learn
_SOFTMAXES = {"Softmax": torch.softmax, "LogSoftmax": torch.log_softmax}
_CLASSICAL = "ai.onnx.ml"
_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
# How outputs in torch and in ONNX Runtime may differ, which add in a different order: scores relative to the largest
# score, and the minimum proportion of equal labels.
_APART, _SAME = 1e-3, 0.99


def read_onnx(path: Path) -> fx.GraphModule | LinearClassifier:
    """Read the model in an ONNX file as a torch module, or as a `LinearClassifier` if scikit-learn's operator is used.

    Guarantee: no code of the file is run. The scores for random samples agree with ONNX Runtime; otherwise an error is
    raised. A softmax at the end is left out, which changes no prediction: its gradients vanish if a model is certain.
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
    except Exception as error:  # protobuf, the checker and the runtime raise different exceptions
        raise ModelError(
            f"'{path}' cannot be read as an ONNX model ({reason_of(error)}). It may be damaged, or its weights, "
            "which can be in a second file, are not beside it."
        ) from None
    try:
        read = _Reading(model).read()
    except NotTranslatedError as reason:
        raise ModelError(
            f"'{path}' has {reason}. Supported are {', '.join(sorted({*OPERATORS, _LINEAR}))}. Export the model "
            "without it, or load it in torch or scikit-learn and give an import path: --model path/to/file.py:name."
        ) from None
    expected = session.run([session.get_outputs()[0].name], {session.get_inputs()[0].name: read.example})[0]
    if not read.agrees(np.asarray(expected)):
        raise ModelError(
            f"'{path}', read with torch, does not return the same outputs as ONNX Runtime, so it cannot be measured. "
            "This is a bug in Fairmargin: please report it, with the file."
        )
    return read.model


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """A model read from a file, with what is needed to compare it with ONNX Runtime.

    Parameters
    ----------
    model
        The model.
    example
        Random samples that the model takes.
    softmax
        Operator name of the softmax that was left out at the end; empty if there is none.
    """

    model: fx.GraphModule | LinearClassifier
    example: npt.NDArray[Any]
    softmax: str = ""

    def agrees(self, expected: npt.NDArray[Any]) -> bool:
        """Return whether the model reproduces the expected first output for the example, labels or scores."""
        if isinstance(self.model, LinearClassifier):
            classes, predicted = np.array(self.model.classes), self.model.predict(self.example)
            labels = classes[expected.argmax(axis=1) % len(classes)] if expected.ndim == 2 else expected
            return bool(np.mean(classes[predicted] == labels) >= _SAME)
        with torch.no_grad():
            found = _SOFTMAXES.get(self.softmax, lambda scores, _: scores)(self.model(torch.tensor(self.example)), -1)
        apart = np.abs(found.numpy() - expected).max() if found.shape == expected.shape else np.inf
        return bool(apart <= _APART * max(1.0, np.abs(expected).max()))


class _Reading:
    """Translator of an ONNX graph: constants are evaluated, and all other nodes become calls in torch."""

    def __init__(self, model: Any) -> None:
        self.graph, self.opsets = model.graph, model.opset_import
        self.values: dict[str, Value | Constant] = {}
        self.unknown: dict[str, str] = {}  # names of values that cannot be translated, with the reason
        self.affine = True

    def read(self) -> _Read:
        """Translate the whole graph."""
        from onnx import numpy_helper

        self.values = {each.name: numpy_helper.to_array(each) for each in self.graph.initializer}
        sparse = [each.values.name for each in self.graph.sparse_initializer]
        self.unknown = {name: f"sparse weights ('{name}')" for name in sparse}
        inputs = [each for each in self.graph.input if each.name not in {*self.values, *sparse}]
        if len(inputs) != 1:
            raise NotTranslatedError(f"{len(inputs)} inputs ({', '.join(each.name for each in inputs)}); expected one")
        example = _example(inputs[0])
        self.translation = Translation(torch.tensor(example))
        self.values[inputs[0].name] = self.translation.input
        last, softmax = self._last()
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
        if softmax and isinstance(scores, Value) and scores.axes == 2 and scores.example.shape[1] == 1:
            raise NotTranslatedError(f"a {softmax} over one number per sample, which is the same for every input")
        if not isinstance(scores, Value):
            raise NotTranslatedError("an output that does not depend on the values of the input")
        return _Read(self.translation.module(scores), example, softmax)

    def _last(self) -> tuple[str, str]:
        """Return the name of the scores, and the operator name of the softmax that is left out after them."""
        producers = {name: node for node in self.graph.node for name in node.output}
        classical = [node.op_type for node in producers.values() if node.domain == _CLASSICAL]
        outputs = [each.name for each in self.graph.output]
        if _LINEAR in classical or (classical and len(outputs) > 1):
            return "", ""  # labels and probabilities are returned; the scores are inside the graph
        if len(outputs) != 1:
            raise self._outputs()
        name, softmax = outputs[0], ""
        while (producer := producers.get(name)) is not None and producer.op_type in ("Identity", *_SOFTMAXES):
            if producer.op_type in _SOFTMAXES:
                if softmax or _settings(producer).get("axis", -1) not in (-1, 1):  # axis 0 is over the samples
                    break
                softmax = producer.op_type
            name = producer.input[0]
        return name, softmax

    def _outputs(self) -> NotTranslatedError:
        outputs = [each.name for each in self.graph.output]
        return NotTranslatedError(f"{len(outputs)} outputs ({', '.join(outputs)}); expected one, the scores")

    def _take(self, node: Any) -> None:
        absent = [name for name in node.input if name and name not in self.values]
        reasons = [self.unknown.get(name, f"no operator that computes '{name}'") for name in absent]
        if reasons:  # an error only if the scores depend on it, which is known at the end
            self.unknown |= dict.fromkeys(node.output, reasons[0])
            return
        given = tuple(self.values[name] if name else None for name in node.input)
        if node.op_type in _RANDOM:
            raise NotTranslatedError(f"{_named(node)}, which is random")
        if node.op_type == "Shape" and isinstance(given[0], Value):
            start, end = _settings(node).get("start", 0), _settings(node).get("end")
            self.values[node.output[0]] = np.array(given[0].example.shape[start:end])
        elif not any(isinstance(each, Value) for each in given):
            self.values |= zip(filter(None, node.output), _evaluated(node, given, self.opsets), strict=True)
        else:
            operator = Operator(node.op_type, given, _settings(node))
            self.values[node.output[0]] = self._translated(node, operator)
            self.affine &= is_affine(operator)
            for place, name in enumerate(node.output[1:], start=2):
                self.unknown[name] = f"a use of output {place} of {_named(node)}; only the first output is supported"

    def _translated(self, node: Any, operator: Operator) -> Value:
        named = _named(node)
        if node.op_type not in OPERATORS:
            raise NotTranslatedError(f"{named}, which is not supported")
        try:
            return OPERATORS[node.op_type](self.translation, operator)
        except NotTranslatedError as reason:
            raise NotTranslatedError(f"{named} {reason}") from None
        except (RuntimeError, TypeError, ValueError, IndexError, KeyError, AttributeError) as error:
            raise NotTranslatedError(f"{named}, which cannot be translated to torch ({reason_of(error)})") from None

    def _classical(self, node: Any, example: npt.NDArray[Any]) -> _Read:
        """Convert a linear model of scikit-learn at the end of affine steps to a `LinearClassifier`."""
        given, settings = self.values.get(node.input[0]), _settings(node)
        if not isinstance(given, Value) or not self.affine:
            raise NotTranslatedError(f"the operator {_LINEAR} after steps that are not affine")
        labels = settings.get("classlabels_strings") or settings.get("classlabels_ints") or []
        intercepts = np.asarray(settings.get("intercepts", 0.0), dtype=np.float64).reshape(-1)
        weight = np.asarray(settings["coefficients"], dtype=np.float64).reshape(len(intercepts), -1)
        if len(weight) == 1 and len(labels) == 2:  # the second label if the score is above 0
            weight, intercepts = np.vstack([np.zeros_like(weight), weight]), np.append(0.0, intercepts)
        before = self.translation.module(given).double()
        with torch.no_grad():  # an affine function is determined by its values at 0 and at the unit vectors
            origin = before(torch.zeros(1, example.shape[1], dtype=torch.float64)).numpy()[0]
            axes = before(torch.eye(example.shape[1], dtype=torch.float64)).numpy() - origin
        linear = LinearClassifier(weight @ axes.T, intercepts + weight @ origin, labels or range(len(weight)))
        return _Read(linear, example)


def _example(declared: Any) -> npt.NDArray[Any]:
    """Return random samples with the declared shape and type of the input."""
    from onnx import helper

    if not declared.type.HasField("tensor_type"):
        given = declared.type.WhichOneof("value")
        raise NotTranslatedError(
            f"an input ('{declared.name}') that is not a tensor ({given}); expected float32 or float64"
        )
    kind = declared.type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    if dtype not in (np.dtype("float32"), np.dtype("float64")):
        raise NotTranslatedError(
            f"an input of {dtype}; expected float32 or float64, so that small changes are possible"
        )
    sizes = [each.dim_value for each in kind.shape.dim]
    if len(sizes) < 2 or not all(sizes[1:]):
        shown = " × ".join(str(each.dim_value or each.dim_param or "?") for each in kind.shape.dim)
        raise NotTranslatedError(f"an input of {shown or 'unknown size'}; expected samples of one known shape")
    return np.random.default_rng(0).random((sizes[0] or _SAMPLES, *sizes[1:])).astype(dtype)


def _evaluated(node: Any, given: tuple[Any, ...], opsets: Any) -> Iterator[Constant]:
    """Evaluate a node whose inputs are all constants."""
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
    except Exception as error:  # an operator that the evaluator does not support, or that fails for these constants
        if any(each.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for each in node.attribute):
            raise NotTranslatedError(f"{_named(node)}, whose inner graph uses other values of the model") from None
        raise NotTranslatedError(f"{_named(node)}, which cannot be evaluated ({reason_of(error)})") from None


def _named(node: Any) -> str:
    return f"the operator {node.op_type}" + (f" ('{node.name}')" if node.name else "")


def _settings(node: Any) -> dict[str, Any]:
    from onnx import helper

    found = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    return {name: _text(value) for name, value in found.items()}


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return [_text(each) for each in value] if isinstance(value, list) else value
