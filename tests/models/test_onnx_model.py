"""Models from ONNX files return what ONNX Runtime returns, with all capabilities of torch and linear models."""

import pickle
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from skl2onnx import to_onnx
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler
from torch import nn

from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.distances.plumb.estimator import Plumb
from fairmargin.errors import ModelError
from fairmargin.models.architectures.catalog import build_architecture
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.layers.tracing import layers_of
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.loading import load_model
from fairmargin.models.reading import onnx_operators

RNG = np.random.default_rng(7)
IMAGE, ROW = (2, 6, 5), (4,)


def array(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def whole(*numbers):
    return np.array(numbers, dtype=np.int64)


def node(kind, given, made="out", **attributes):
    """Return a node; the names of its inputs and outputs are separated by spaces."""
    return helper.make_node(kind, given.split(), made.split(), **attributes)


def saved(path, nodes, shape, constants=None, *, out="out", batch="n", opset=18, kind=TensorProto.FLOAT, sparse=()):
    """Write a file with these nodes, from `x` to `out`."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", kind, [batch, *shape])],
        [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
        sparse_initializer=sparse,
    )
    # An older IR than the newest, which a runtime of the same day may not know yet.
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return str(path)


def of_the_runtime(path, x):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def ours(path, x):
    with torch.no_grad():
        return load_model(path)(torch.tensor(x)).numpy()


def assert_equals_the_runtime(path, shape, samples=5):
    x = np.random.default_rng(3).random((samples, *shape)).astype(np.float32)
    np.testing.assert_allclose(ours(path, x), of_the_runtime(path, x), rtol=1e-4, atol=1e-5)


OPERATORS = [
    # kind, shape of a sample, constants by place, attributes
    ("Gemm", ROW, [array(4, 3), array(3)], {"alpha": 0.5, "beta": 2.0}),
    ("Gemm", ROW, [array(3, 4)], {"transB": 1}),
    ("MatMul", ROW, [array(4, 3)], {}),
    ("Add", ROW, [array(4)], {}),
    ("Sub", ROW, [array(4)], {}),
    ("Mul", IMAGE, [array(1, 2, 1, 1)], {}),
    ("Div", ROW, [np.float32(4)], {}),
    ("Pow", ROW, [np.float32(2)], {}),
    ("Neg", ROW, [], {}),
    ("Conv", IMAGE, [array(3, 2, 3, 3), array(3)], {"pads": [1, 1, 1, 1], "strides": [2, 1]}),
    ("Conv", IMAGE, [array(4, 1, 3, 2)], {"group": 2, "dilations": [2, 1]}),
    ("Conv", IMAGE, [array(3, 2, 2, 2)], {"pads": [0, 1, 1, 0]}),
    ("Conv", IMAGE, [array(3, 2, 2, 3)], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ("Conv", IMAGE, [array(3, 2, 2, 3)], {"auto_pad": "SAME_LOWER"}),
    ("Conv", (2, 7), [array(3, 2, 3)], {"pads": [1, 1]}),
    ("BatchNormalization", IMAGE, [array(2), array(2), array(2), array(2) ** 2 + 0.5], {"epsilon": 1e-3}),
    ("BatchNormalization", ROW, [array(4), array(4), array(4), array(4) ** 2 + 0.5], {}),
    ("MaxPool", IMAGE, [], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("MaxPool", IMAGE, [], {"kernel_shape": [3, 2], "pads": [0, 0, 1, 1]}),
    ("MaxPool", IMAGE, [], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    ("AveragePool", IMAGE, [], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("AveragePool", IMAGE, [], {"kernel_shape": [2, 2], "pads": [0, 0, 1, 1], "count_include_pad": 1}),
    ("GlobalAveragePool", IMAGE, [], {}),
    ("GlobalMaxPool", IMAGE, [], {}),
    ("ReduceMean", IMAGE, [whole(-1, 2)], {"keepdims": 0}),
    ("Flatten", IMAGE, [], {}),
    ("Reshape", IMAGE, [whole(0, -1)], {}),
    ("Reshape", IMAGE, [whole(-1, 3, 20)], {}),
    ("Squeeze", (1, 4), [whole(1)], {}),
    ("Unsqueeze", ROW, [whole(1, -1)], {}),
    ("Transpose", IMAGE, [], {"perm": [0, 2, 3, 1]}),
    ("Slice", IMAGE, [whole(1, -3), whole(6, 9223372036854775807), whole(2, 3), whole(2, 1)], {}),
    ("Gather", IMAGE, [whole(1, 0, 1)], {"axis": 2}),
    ("Gather", IMAGE, [np.array(1)], {"axis": 1}),
    ("Pad", IMAGE, [whole(0, 0, 1, 2, 0, 1, 0, 0), np.float32(0.5)], {}),
    ("Pad", IMAGE, [whole(0, 0, 1, 2, 0, 0, 0, 1)], {"mode": "reflect"}),
    ("Pad", IMAGE, [whole(0, 0, 1, 2, 0, 0, 0, 1)], {"mode": "edge"}),
    ("Clip", ROW, [np.float32(0.2), np.float32(0.6)], {}),
    ("Clip", ROW, [np.float32(0)], {}),
    ("PRelu", ROW, [array(4)], {}),
    ("LRN", IMAGE, [], {"size": 3, "alpha": 0.5, "beta": 0.6, "bias": 2.0}),
    ("Softmax", IMAGE, [], {"axis": 1}),
    ("Elu", ROW, [], {"alpha": 0.7}),
    ("LeakyRelu", ROW, [], {"alpha": 0.3}),
    ("HardSigmoid", ROW, [], {"alpha": 0.9, "beta": -0.2}),
    *((kind, ROW, [], {}) for kind in ("Relu", "Sigmoid", "Tanh", "Exp", "Sqrt", "Erf", "Softplus", "Softsign")),
    *((kind, ROW, [], {}) for kind in ("HardSwish", "Identity", "Dropout", "Log")),
]


@pytest.mark.parametrize(("kind", "shape", "constants", "attributes"), OPERATORS, ids=lambda part: str(part)[:30])
def test_an_operator_returns_what_the_runtime_returns(tmp_path, kind, shape, constants, attributes):
    named = {f"c{place}": value for place, value in enumerate(constants)}
    positive = kind in ("Log", "Sqrt")
    nodes = [
        node("Add" if positive else "Sub", "x half", "given"),
        node(kind, " ".join(["given", *named]), "made", **attributes),
        node("Mul", "made two"),  # so that a softmax is not the last
    ]
    constants = {**named, "half": np.float32(0.5), "two": np.float32(2)}
    assert_equals_the_runtime(saved(tmp_path / "model.onnx", nodes, shape, constants), shape)


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("sides", [("c", "x"), ("x", "x"), ("x", "y"), ("y", "x")], ids="".join)
def test_arithmetic_of_values_and_constants_in_either_order(tmp_path, kind, sides):
    nodes = [node("Exp", "x", "y"), node("Add", "x one", "z")]
    sides = tuple("z" if side == "x" else side for side in sides)  # nothing is divided by 0
    nodes.append(node(kind, " ".join(sides)))
    constants = {"c": array(4), "one": np.float32(1)}
    assert_equals_the_runtime(saved(tmp_path / "model.onnx", nodes, ROW, constants), ROW)


def test_every_operator_of_the_table_is_tested():
    tested = {kind for kind, *_ in OPERATORS} | {"Concat", "LogSoftmax", "Gelu", "Cast", "Scaler"}  # those below
    assert tested == set(onnx_operators.OPERATORS)


@pytest.mark.parametrize(
    ("nodes", "opset"),
    [
        ([node("Relu", "x", "y"), node("Concat", "x y", axis=1)], 18),
        ([node("Gelu", "x", approximate="tanh")], 20),
        ([node("Cast", "x", to=TensorProto.FLOAT)], 18),
        ([node("ReduceMean", "x", axes=[2, 3], keepdims=0)], 13),  # an attribute until 18
    ],
    ids=["Concat", "Gelu", "Cast", "axes as an attribute"],
)
def test_operators_that_differ_in_form(tmp_path, nodes, opset):
    path = saved(tmp_path / "model.onnx", nodes, IMAGE, opset=opset)
    assert_equals_the_runtime(path, IMAGE)


def test_a_shape_that_the_graph_works_out_itself_holds_for_any_number_of_samples(tmp_path):
    # What `x.view(x.size(0), -1)` becomes.
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape first", "samples", axis=0),
        node("Unsqueeze", "samples zeroth", "row"),
        node("Concat", "row rest", "target", axis=0),
        node("Reshape", "x target"),
    ]
    constants = {"first": np.array(0), "zeroth": whole(0), "rest": whole(-1)}
    assert_equals_the_runtime(saved(tmp_path / "model.onnx", nodes, IMAGE, constants), IMAGE, samples=3)


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
def test_a_softmax_at_the_end_is_left_out(tmp_path, kind):
    nodes = [node("Gemm", "x w", "scores"), node(kind, "scores", axis=-1)]
    path = saved(tmp_path / "model.onnx", nodes, ROW, {"w": 500 * np.eye(4, dtype=np.float32)})
    x = np.random.default_rng(0).random((5, 4)).astype(np.float32)
    np.testing.assert_allclose(ours(path, x), 500 * x, rtol=1e-5)
    assert (ours(path, x).argmax(1) == of_the_runtime(path, x).argmax(1)).all()


@pytest.fixture(scope="module", params=[True, False], ids=["torch.export", "traced"])
def exported(request, tmp_path_factory):
    """Export networks by both of torch's exporters."""

    def export(network, shape):
        path = tmp_path_factory.mktemp("onnx") / "model.onnx"
        axes = {} if request.param else {"input_names": ["x"], "dynamic_axes": {"x": {0: "n"}}}
        torch.onnx.export(network.eval(), (torch.rand(2, *shape),), path, dynamo=request.param, verbose=False, **axes)
        return str(path)

    return export


@pytest.mark.parametrize(
    ("name", "shape"), [("small_cnn", (3, 16, 16)), ("lenet5", (1, 28, 28)), ("resnet8", (3, 16, 16))]
)
@pytest.mark.filterwarnings("ignore")
def test_a_network_from_torch_is_the_same_for_predictions_searches_and_certificates(exported, name, shape):
    torch.manual_seed(0)
    network = build_architecture(name, shape, 10)
    path = exported(network, shape)
    given, read = as_classifier(network), as_classifier(load_model(path))
    x = np.random.default_rng(0).random((20, *shape)).astype(np.float32)
    y = given.predict(x)
    assert len(read.classes) == 10
    assert (read.predict(x) == y).all()
    theirs, found = (measure(model, x[:6], y[:6], Plumb(steps=3)).values for model in (given, read))
    np.testing.assert_allclose(found, theirs, rtol=1e-2)
    with read.network(shape):  # certificates look inside
        scores = layers_of(read, shape).scores(torch.tensor(x[:3]).flatten(1))
    with torch.no_grad():
        torch.testing.assert_close(scores.float(), network(torch.tensor(x[:3])), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        LogisticRegression,
        RidgeClassifier,
        lambda: make_pipeline(StandardScaler(), LogisticRegression()),
        lambda: make_pipeline(RobustScaler(), LogisticRegression()),
        lambda: make_pipeline(MinMaxScaler(), PCA(3), LogisticRegression()),
    ],
    ids=["logistic", "ridge", "standardised", "robust scaler", "principal components"],
)
@pytest.mark.parametrize("data", [load_iris, load_breast_cancer], ids=["3 classes", "2 classes"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_linear_pipeline_of_sklearn_has_exact_distances(tmp_path, data, make):
    loaded = data()
    x, y = loaded.data.astype(np.float32), loaded.target_names[loaded.target]
    model = make().fit(x, y)
    (tmp_path / "model.onnx").write_bytes(to_onnx(model, x[:1]).SerializeToString())
    read = load_model(str(tmp_path / "model.onnx"))
    assert isinstance(read, LinearClassifier)
    assert read.classes == tuple(loaded.target_names[np.argsort(loaded.target_names)])
    expected = measure(as_classifier(model), x, y, ExactLinear()).values
    np.testing.assert_allclose(measure(read, x, y, ExactLinear()).values, expected, rtol=1e-3, atol=1e-4)


def test_a_model_from_a_file_is_the_same_in_another_process(tmp_path):
    nodes = [node("Gemm", "x w", "hidden"), node("Relu", "hidden")]
    path = saved(tmp_path / "model.onnx", nodes, ROW, {"w": array(4, 3)})
    model = as_classifier(load_model(path), classes=range(3))
    sent = pickle.loads(pickle.dumps(model))
    x = np.random.default_rng(0).random((9, 4))
    assert (sent.predict(x) == model.predict(x)).all()
    asked = (
        "from fairmargin.models.loading import load_model; from fairmargin.models.as_classifier import as_classifier; "
        f"print(as_classifier(load_model({path!r}), classes=range(3)).fingerprint())"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert model.fingerprint() == sent.fingerprint() == done.stdout.strip()


FLOATS = {"to": TensorProto.FLOAT}
CLASSICAL = {"domain": "ai.onnx.ml"}


def inner(kind, source):
    """Return a graph inside of an operator, which uses a value of the graph outside."""
    return helper.make_graph(
        [node(kind, source, "inside")], "inner", [], [helper.make_tensor_value_info("inside", 1, None)]
    )


def sparse(name):
    values, indices = numpy_helper.from_array(array(2), name), numpy_helper.from_array(whole(0, 5), f"{name}_places")
    return helper.make_sparse_tensor(values, indices, [4, 3])


POOL = node("MaxPool", "x", "largest places", kernel_shape=[2, 2], name="pool")
BRANCHES = {"then_branch": inner("Exp", "hidden"), "else_branch": inner("Neg", "hidden")}
CONSTANT = "an output that does not depend on the values of the input"
REFUSED = [
    # words of the message, nodes, shape of a sample, settings of the file
    (r"the operator Sin \('wave'\), which is not supported", [node("Sin", "x", name="wave")], ROW, {}),
    ("moves the axis of samples", [node("Transpose", "x", perm=[1, 0])], ROW, {}),
    ("an array of 1 axes", [node("MatMul", "x w")], ROW, {"constants": {"w": array(4)}}),
    ("along the samples", [node("ReduceMean", "x")], ROW, {}),
    ("an input of n × height; expected samples of one known shape", [node("Relu", "x")], ("height",), {}),
    ("an input of uint8; expected", [node("Cast", "x", to=1)], ROW, {"kind": TensorProto.UINT8}),
    (CONSTANT, [node("Identity", "w")], ROW, {"constants": {"w": array(1, 4)}}),
    (CONSTANT, [node("Shape", "x", "size"), node("ConstantOfShape", "size")], ROW, {}),
    (
        r"a use of output 2 of the operator MaxPool \('pool'\); only the first output is supported",
        [POOL, node("Cast", "places", "floats", **FLOATS), node("Flatten", "floats")],
        IMAGE,
        {},
    ),
    (
        "a use of output 2 of the operator Dropout",
        [node("Dropout", "x", "kept mask"), node("Cast", "mask", "floats", **FLOATS), node("Mul", "floats x")],
        ROW,
        {},
    ),
    (r"sparse weights \('w'\)", [node("MatMul", "x w")], ROW, {"sparse": [sparse("w")]}),
    (
        "the operator Constant, which cannot be evaluated",
        [node("Constant", "", "w", sparse_value=sparse("w")), node("MatMul", "x w")],
        ROW,
        {},
    ),
    (
        "the operator If, whose inner graph uses other values of the model",
        [node("Relu", "x", "hidden"), node("If", "yes", **BRANCHES)],
        ROW,
        {"constants": {"yes": np.array(True)}},
    ),
    (
        "the operator RandomNormal, which is random",
        [node("RandomNormal", "", "noise", shape=[1, 4]), node("Add", "x noise")],
        ROW,
        {},
    ),
    (
        "the operator Split, which is not supported",
        [
            node("Scaler", "x", "scaled", offset=[0.0], scale=[2.0], **CLASSICAL),
            node("Split", "scaled", "first out", axis=1, num_outputs=2),
        ],
        ROW,
        {},
    ),
    (
        "the operator Normalizer, which is not supported",
        [node("Normalizer", "x", "long", norm="L2", **CLASSICAL), node("Relu", "long")],
        ROW,
        {},
    ),
]


@pytest.mark.parametrize(("words", "nodes", "shape", "settings"), REFUSED, ids=lambda part: str(part)[:30])
def test_what_cannot_be_read_is_named_with_an_alternative(tmp_path, words, nodes, shape, settings):
    path = saved(tmp_path / "model.onnx", nodes, shape, **settings)
    with pytest.raises(ModelError, match=words) as refused:
        load_model(path)
    assert "--model path/to/file.py:name" in str(refused.value)
    assert words == CONSTANT or "does not depend" not in str(refused.value)


@pytest.mark.parametrize("last", ["Relu", "Softmax", "Identity"])
def test_a_network_behind_a_scaler_of_the_classical_operators_is_read(tmp_path, last):
    nodes = [
        node("Scaler", "x", "scaled", offset=[0.5, 0.0, 0.0, 1.0], scale=[1.0, 2.0, 3.0, 0.5], **CLASSICAL),
        node("Gemm", "scaled w", "hidden"),
        node(last, "hidden"),
    ]
    path = saved(tmp_path / "model.onnx", nodes, ROW, {"w": array(4, 3)})
    x = np.random.default_rng(3).random((5, 4)).astype(np.float32)
    found = ours(path, x)
    if last == "Softmax":
        found = np.exp(found) / np.exp(found).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, of_the_runtime(path, x), rtol=1e-4, atol=1e-5)


def classical(path, nodes, out):
    settings = {"coefficients": [1.0, 2, 3, 4, -1, -2, 3, -4], "intercepts": [0.0, 1], "classlabels_ints": [3, 7]}
    return saved(path, [node("LinearClassifier", "x", "label scores", **settings, **CLASSICAL), *nodes], ROW, out=out)


def test_a_linear_model_that_returns_only_its_scores_is_read_unless_their_sign_is_changed(tmp_path):
    model = load_model(classical(tmp_path / "model.onnx", [], "scores"))
    assert isinstance(model, LinearClassifier)
    assert model.classes == (3, 7)
    with pytest.raises(ModelError, match="does not return the same outputs as ONNX Runtime"):
        load_model(classical(tmp_path / "model.onnx", [node("Neg", "scores")], "out"))


def test_an_input_that_is_no_tensor_is_refused_by_name(tmp_path):
    graph = helper.make_graph(
        [node("SequenceAt", "x first")],
        "test",
        [helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(0), "first")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "a.onnx")
    with pytest.raises(ModelError, match=r"an input \('x'\) that is not a tensor \(sequence_type\)"):
        load_model(str(tmp_path / "a.onnx"))


def test_two_outputs_are_refused_by_name(tmp_path):
    path = saved(tmp_path / "model.onnx", [node("Relu", "x")], ROW)
    model = onnx.load(path)
    model.graph.node.append(node("Exp", "x", "features"))
    model.graph.output.append(helper.make_tensor_value_info("features", TensorProto.FLOAT, None))
    onnx.save(model, path)
    with pytest.raises(ModelError, match=r"2 outputs \(out, features\); expected one, the scores"):
        load_model(path)


def test_a_forest_is_refused(tmp_path):
    x, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(2, max_depth=2, random_state=0).fit(x.astype(np.float32), y)
    (tmp_path / "model.onnx").write_bytes(to_onnx(forest, x[:1].astype(np.float32)).SerializeToString())
    with pytest.raises(ModelError, match="TreeEnsembleClassifier"):
        load_model(str(tmp_path / "model.onnx"))


@pytest.mark.parametrize("content", [b"", b"nonsense"])
def test_a_damaged_file_is_an_error(tmp_path, content):
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(ModelError, match="cannot be read as an ONNX model"):
        load_model(str(tmp_path / "model.onnx"))


def test_weights_that_do_not_lie_beside_the_file_are_an_error(tmp_path):
    path = saved(tmp_path / "model.onnx", [node("Gemm", "x w")], ROW, {"w": array(4, 300)})
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert_equals_the_runtime(path, ROW)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ModelError, match="a second file, are not beside it"):
        load_model(path)


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_says_which_package_is_missing(tmp_path, monkeypatch, package):
    path = saved(tmp_path / "model.onnx", [node("Relu", "x")], ROW)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModelError, match=rf"needs the package {package}: `pip install 'fairmargin\[onnx\]'`"):
        load_model(path)


def test_a_translation_that_differs_from_the_runtime_is_refused(tmp_path, monkeypatch):
    path = saved(tmp_path / "model.onnx", [node("Tanh", "x")], ROW)
    monkeypatch.setitem(onnx_operators.OPERATORS, "Tanh", lambda to, op: to.call(nn.Sigmoid(), op.data()))
    with pytest.raises(ModelError, match="does not return the same outputs as ONNX Runtime"):
        load_model(path)
