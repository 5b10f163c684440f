import copy
import pickle
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from torch import nn

from fairmargin.core.domain import Domain
from fairmargin.distances.measure import measure, measure_shard
from fairmargin.distances.searches.deepfool import DeepFool
from fairmargin.engine.catalog import parse_engine
from fairmargin.engine.local import Processes
from fairmargin.engine.shared import Shared
from fairmargin.engine.task import Task
from fairmargin.errors import ModelError, UntrustedError
from fairmargin.models.architectures.catalog import build_architecture
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.loading import load_model, save_linear

SHARED = Path(__file__).parents[3] / "shared"
MODEL = LinearClassifier([[0.0, 1.0], [1.0, 0.0]], [0.5, 0.0], classes=("a", "b"), domain=Domain([0, -np.inf], 1))

FITTED = LogisticRegression().fit([[0.0, 1.0], [1.0, 0.0], [2.0, 0.5]], [0, 1, 1])


class OwnRegression(LogisticRegression):
    """A type that skops does not know."""


def test_reads_back_what_it_wrote(tmp_path):
    save_linear(MODEL, tmp_path / "model.npz")
    assert load_model(str(tmp_path / "model.npz")).fingerprint() == MODEL.fingerprint()
    assert [path.name for path in tmp_path.iterdir()] == ["model.npz"]


def test_reads_plain_arrays_with_numbered_classes(tmp_path):
    np.savez(tmp_path / "model.npz", weight=np.eye(3), bias=np.zeros(3))
    assert load_model(str(tmp_path / "model.npz")).classes == (0, 1, 2)


def test_refuses_to_write_classes_of_mixed_types(tmp_path):
    mixed = LinearClassifier([[0.0], [1.0]], [0, 0], classes=(1, "a"))
    with pytest.raises(ModelError, match="mix types"):
        save_linear(mixed, tmp_path / "model.npz")


def test_writes_only_npz(tmp_path):
    with pytest.raises(ModelError, match=r"as \.npz"):
        save_linear(MODEL, tmp_path / "model.pkl")


@pytest.mark.parametrize("suffix", ["npz", "pkl", "joblib", "skops"])
def test_says_that_a_file_is_missing(tmp_path, suffix):
    with pytest.raises(ModelError, match="There is no model file"):
        load_model(str(tmp_path / f"model.{suffix}"))


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 half an archive"])
def test_says_that_an_npz_is_damaged(tmp_path, content):
    (tmp_path / "model.npz").write_bytes(content)
    with pytest.raises(ModelError, match=r"cannot be read as an \.npz"):
        load_model(str(tmp_path / "model.npz"))


def test_says_that_an_npz_was_cut_short(tmp_path):
    save_linear(MODEL, tmp_path / "model.npz")
    whole = (tmp_path / "model.npz").read_bytes()
    (tmp_path / "model.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match=r"cannot be read as an \.npz"):
        load_model(str(tmp_path / "model.npz"))


def test_names_the_arrays_that_an_npz_lacks(tmp_path):
    np.savez(tmp_path / "model.npz", weight=np.eye(2), biases=np.zeros(2))
    with pytest.raises(ModelError, match="lacks the array bias; it holds biases, weight"):
        load_model(str(tmp_path / "model.npz"))


class Bomb:
    def __reduce__(self):
        return (exec, ("raise SystemError('code ran')",))


def test_never_runs_code_hidden_in_an_npz(tmp_path):
    np.savez(tmp_path / "model.npz", weight=np.array([Bomb()], dtype=object), bias=np.zeros(1), allow_pickle=True)
    with pytest.raises(ModelError, match="plain arrays"):
        load_model(str(tmp_path / "model.npz"))


@pytest.mark.parametrize("suffix", ["pkl", "pickle", "joblib"])
def test_does_not_unpickle_without_trust(tmp_path, suffix):
    (tmp_path / f"model.{suffix}").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(UntrustedError, match=r"can run any code .* --trust-model .* np.savez"):
        load_model(str(tmp_path / f"model.{suffix}"))


def test_unpickles_with_trust(tmp_path):
    fitted = RidgeClassifier().fit([[0.0], [1.0]], [0, 1])
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(fitted))
    joblib.dump(fitted, tmp_path / "model.joblib")
    for name in ("model.pkl", "model.joblib"):
        assert load_model(str(tmp_path / name), trust=True).predict([[1.0]]) == [1]


@pytest.mark.parametrize("suffix", ["pkl", "joblib"])
def test_says_that_a_trusted_pickle_is_damaged(tmp_path, suffix):
    (tmp_path / f"model.{suffix}").write_bytes(b"nonsense")
    with pytest.raises(ModelError, match="cannot be unpickled here"):
        load_model(str(tmp_path / f"model.{suffix}"), trust=True)


def test_reads_a_skops_file_of_known_types_without_trust(tmp_path):
    io = pytest.importorskip("skops.io", reason="needs skops: pip install -c constraints.txt -e '.[dev]'")
    io.dump(FITTED, tmp_path / "model.skops")
    x = np.random.default_rng(0).normal(size=(20, 2))
    read = as_classifier(load_model(str(tmp_path / "model.skops")))
    np.testing.assert_array_equal(read.predict(x), as_classifier(FITTED).predict(x))


def test_a_skops_file_of_unknown_types_is_read_only_when_trusted(tmp_path):
    io = pytest.importorskip("skops.io", reason="needs skops: pip install -c constraints.txt -e '.[dev]'")
    io.dump(OwnRegression().fit([[0.0, 1.0], [1.0, 0.0]], [0, 1]), tmp_path / "model.skops")
    with pytest.raises(UntrustedError, match=r"OwnRegression.*--trust-model"):
        load_model(str(tmp_path / "model.skops"))
    assert isinstance(load_model(str(tmp_path / "model.skops"), trust=True), OwnRegression)


def test_says_that_a_skops_file_is_damaged(tmp_path):
    pytest.importorskip("skops.io", reason="needs skops: pip install -c constraints.txt -e '.[dev]'")
    (tmp_path / "model.skops").write_bytes(b"nonsense")
    with pytest.raises(ModelError, match="cannot be read by skops"):
        load_model(str(tmp_path / "model.skops"))


def test_says_how_to_install_skops(tmp_path, monkeypatch):
    (tmp_path / "model.skops").write_bytes(b"")
    monkeypatch.setitem(__import__("sys").modules, "skops", None)
    with pytest.raises(ModelError, match=r"pip install 'fairmargin\[skops\]'"):
        load_model(str(tmp_path / "model.skops"))


CODE = """
from fairmargin.models.linear import LinearClassifier
model = LinearClassifier([[0.0], [1.0]], [0.0, 0.0])
def make(): return model
def make_of(size): return model
def broken(): raise RuntimeError("no weights")
"""


@pytest.mark.parametrize("name", ["model", "make"])
def test_imports_an_object_or_what_a_function_makes(tmp_path, name):
    (tmp_path / "mine.py").write_text(CODE)
    assert isinstance(load_model(f"{tmp_path / 'mine.py'}:{name}"), LinearClassifier)


def test_imports_from_an_installed_module():
    assert load_model("fairmargin.models.linear:LinearClassifier") is LinearClassifier


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("modle", "has no 'modle'; it defines LinearClassifier, model"),
        ("make_of", "needs size"),
        ("broken", "no weights"),
    ],
)
def test_says_why_an_import_path_gives_no_model(tmp_path, name, message):
    (tmp_path / "mine.py").write_text(CODE)
    with pytest.raises(ModelError, match=message):
        load_model(f"{tmp_path / 'mine.py'}:{name}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("no_such_package.models:net", "Importing 'no_such_package.models' failed"),
        ("no/such/file.py:net", "There is no file"),
        ("model.tflite", "Unknown model"),
        ("", "Unknown model"),
        ("module:", "Unknown model"),
    ],
)
def test_says_what_a_spec_may_be(spec, message):
    with pytest.raises(ModelError, match=message):
        load_model(spec)


def test_says_that_the_users_module_fails(tmp_path):
    (tmp_path / "mine.py").write_text("1 / 0")
    with pytest.raises(ModelError, match="failed with ZeroDivisionError"):
        load_model(f"{tmp_path / 'mine.py'}:net")


# ---- torch: networks of the catalog and of the user, with weights

IMAGES = np.random.default_rng(0).random((5, 1, 8, 8), dtype=np.float32)


def small(seed=0, classes=3):
    torch.manual_seed(seed)
    return build_architecture("small_cnn", (1, 8, 8), classes).eval()


def scores(module, x=IMAGES):
    with torch.no_grad():
        return module(torch.as_tensor(x))


@pytest.mark.parametrize("name", ["weights.pt", "weights.safetensors"])
def test_builds_a_network_of_the_catalog_with_its_weights(tmp_path, name):
    (save_file if name.endswith("safetensors") else torch.save)(small().state_dict(), tmp_path / name)
    torch.manual_seed(7)
    before = torch.get_rng_state()
    found = load_model("arch:small_cnn", weights=str(tmp_path / name), shape=(1, 8, 8), classes=3)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(scores(found.eval()), scores(small()))


def test_weights_for_images_serve_flat_samples_too(tmp_path):
    torch.save(small().state_dict(), tmp_path / "weights.pt")
    found = load_model("arch:small_cnn", weights=str(tmp_path / "weights.pt"), shape=(64,), classes=3)
    assert torch.equal(scores(found.eval(), IMAGES.reshape(5, 64)), scores(small()))


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("arch:small_cnn", {"shape": (1, 8, 8), "classes": 3}, "would be untrained.* --weights FILE"),
        ("arch:small_cnn", {"weights": "w.pt"}, "give the `shape` of one sample and the number of `classes`"),
        ("arch:smallcnn", {"weights": "w.pt", "shape": (1, 8, 8), "classes": 3}, "Did you mean 'small_cnn'"),
        ("arch:small_cnn", {"weights": "no/w.pt", "shape": (1, 8, 8), "classes": 3}, "no file of weights 'no/w.pt'"),
    ],
)
def test_says_what_a_network_of_the_catalog_lacks(spec, options, message):
    with pytest.raises(ModelError, match=message):
        load_model(spec, **options)


def test_says_that_the_data_have_another_number_of_classes(tmp_path):
    torch.save(small(classes=100).state_dict(), tmp_path / "weights.pt")
    with pytest.raises(ModelError, match=r"The file has 100 classes, the data 3\."):
        load_model("arch:small_cnn", weights=str(tmp_path / "weights.pt"), shape=(1, 8, 8), classes=3)


@pytest.mark.shared
@pytest.mark.skipif(not (SHARED / "weights").is_dir(), reason="needs ../shared with the public weights")
@pytest.mark.parametrize(
    ("spec", "name", "shape"),
    [
        ("arch:resnet20", "cifar10-resnet20-12fca82f.th", (3, 32, 32)),
        ("arch:mnist_cnn", "mnist-lenet5madry-clean.pt", (1, 28, 28)),
        ("arch:mnist_cnn", "mnist-lenet5madry-adversarial.pt", (1, 28, 28)),
    ],
)
def test_reads_the_public_weights(spec, name, shape):
    found = load_model(spec, weights=str(SHARED / "weights" / name), shape=shape, classes=10)
    assert scores(found.eval(), np.zeros((1, *shape), dtype=np.float32)).shape == (1, 10)


NETWORK = """
import torch
from torch import nn
from {neighbour} import Scaled

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed({seed})
        self.scaled, self.last = Scaled(), nn.Linear(64, 3)
    def forward(self, x):
        return self.last(self.scaled(x.flatten(1)))

def make(): return Net()
def neighbours(): return nn.Sequential(nn.Flatten(), Scaled(), nn.Linear(64, 3))
net = Net()
class Sized(nn.Module):
    def __init__(self, size): super().__init__()
"""
SCALED = """
from torch import nn

class Scaled(nn.Module):
    def forward(self, x): return 2 * x
"""


def write_network(folder, seed=0, neighbour="neighbour"):
    folder.mkdir(exist_ok=True)
    (folder / f"{neighbour}.py").write_text(SCALED)
    (folder / "mine.py").write_text(NETWORK.format(seed=seed, neighbour=neighbour))
    return str(folder / "mine.py")


@pytest.fixture(autouse=True)
def forget_neighbours():
    yield
    for name in [name for name in sys.modules if name.startswith("neighbour")]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["net", "make", "Net"])
def test_loads_weights_into_the_users_own_network(tmp_path, name):
    file = write_network(tmp_path)
    given = {"module." + key: torch.ones_like(part) for key, part in load_model(f"{file}:make").state_dict().items()}
    torch.save(given, tmp_path / "weights.pt")
    found = load_model(f"{file}:{name}", weights=str(tmp_path / "weights.pt"))
    assert torch.equal(found.last.weight, torch.ones(3, 64))
    assert not torch.equal(load_model(f"{file}:{name}").last.weight, torch.ones(3, 64)), "a user's object was changed"


def test_says_that_a_class_of_networks_needs_arguments(tmp_path):
    with pytest.raises(ModelError, match="is a class that needs size"):
        load_model(f"{write_network(tmp_path)}:Sized")


def test_says_that_an_object_cannot_be_copied(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch, threading\nnet = torch.nn.Linear(1, 2)\nnet.lock = threading.Lock()"
    )
    torch.save(nn.Linear(1, 2).state_dict(), tmp_path / "weights.pt")
    with pytest.raises(ModelError, match=r"cannot be copied .* Give a function that creates it"):
        load_model(f"{tmp_path / 'mine.py'}:net", weights=str(tmp_path / "weights.pt"))


def test_says_that_weights_are_for_torch_networks(tmp_path):
    save_linear(MODEL, tmp_path / "model.npz")
    torch.save({}, tmp_path / "weights.pt")
    with pytest.raises(ModelError, match=r"--weights is for torch networks; .* is a `LinearClassifier`"):
        load_model(str(tmp_path / "model.npz"), weights=str(tmp_path / "weights.pt"))


def test_two_files_of_one_name_do_not_collide(tmp_path):
    one, two = (write_network(tmp_path / name, i, f"neighbour_{name}") for i, name in enumerate("ab"))
    first, second = load_model(f"{one}:net"), load_model(f"{two}:net")
    assert type(first).__module__ != type(second).__module__
    assert not torch.equal(first.last.weight, second.last.weight)
    assert pickle.loads(pickle.dumps(first)).last.weight.equal(first.last.weight)


def test_a_file_is_run_again_only_if_it_changed(tmp_path):
    file = write_network(tmp_path)
    assert type(load_model(f"{file}:net")) is type(load_model(f"{file}:make"))
    before = load_model(f"{file}:net")
    write_network(tmp_path, seed=1)
    assert not torch.equal(load_model(f"{file}:net").last.weight, before.last.weight)


def test_a_file_that_fails_leaves_nothing_behind(tmp_path):
    (tmp_path / "mine.py").write_text("import sys\nsys.exit(3)")
    before, path = set(sys.modules), list(sys.path)
    with pytest.raises(ModelError, match="SystemExit"):
        load_model(f"{tmp_path / 'mine.py'}:net")
    assert not [name for name in set(sys.modules) - before if name.startswith("fairmargin_model")]
    assert sys.path == path


# ---- torch: other processes


def tasks(model):
    y = model.predict(IMAGES)
    return [Task(str(i), measure_shard, (model, DeepFool(), IMAGES[i:], y[i:])) for i in range(2)]


def measured_elsewhere(models):
    every = [replace(task, key=f"{i}-{task.key}") for i, model in enumerate(models) for task in tasks(model)]
    found = {task.key: result.values for task, result in Processes(workers=1).run(every)}
    return [found[f"{i}-0"] for i in range(len(models))]


def test_networks_of_the_users_files_and_programs_are_measured_in_other_processes(tmp_path):
    file = write_network(tmp_path)
    torch.jit.trace(small(), torch.zeros(2, 1, 8, 8)).save(tmp_path / "traced.pt")
    models = [
        as_classifier(load_model(f"{file}:net"), mean=0.5, std=0.5),
        as_classifier(load_model(f"{file}:neighbours")),
        as_classifier(load_model(str(tmp_path / "traced.pt"), trust=True)),
    ]
    for model, elsewhere in zip(models, measured_elsewhere(models), strict=True):
        np.testing.assert_array_equal(measure(model, IMAGES, model.predict(IMAGES), DeepFool()).values, elsewhere)


CLASSIFIER = """
import numpy as np
from neighbour import flipped
from fairmargin.core.domain import Domain

class Sign:
    classes, domain, offers, tile = (0, 1), Domain(), frozenset({"predict"}), 1
    def predict(self, x):
        return flipped(np.asarray(x).sum(axis=1) > 0)
    def fingerprint(self):
        return "sign"

sign = Sign()
"""


@pytest.mark.parametrize("engine", ["processes:workers=1", "ray:workers=1"])
def test_a_classifier_of_the_users_files_works_in_other_processes(tmp_path, engine):
    if engine.startswith("ray"):
        pytest.importorskip("ray", reason="Ray is not installed: pip install 'fairmargin[ray]'")
    (tmp_path / "neighbour.py").write_text("def flipped(x):\n    return 1 - x.astype(int)\n")
    (tmp_path / "mine.py").write_text(CLASSIFIER)
    model = as_classifier(load_model(f"{tmp_path / 'mine.py'}:sign"))
    shutil.rmtree(tmp_path)  # as on another machine
    task = Task("a", predicted, (Shared("model", model), np.array([[1.0], [-1.0]])))
    ((_, found),) = parse_engine(engine).run([task])
    assert found.tolist() == [0, 1]


def predicted(model, x):
    return model.predict(x)


def test_a_classifier_is_pickled_with_all_that_makes_it(tmp_path):
    model = as_classifier(load_model(f"{write_network(tmp_path)}:net"), mean=0.5, std=0.5, classes=list("abc"), tile=32)
    again = pickle.loads(pickle.dumps(model))
    assert again.fingerprint() == model.fingerprint()
    assert (again.classes, again.tile) == (("a", "b", "c"), 32)


def test_a_file_that_changed_or_is_missing_is_received_as_it_was(tmp_path):
    model = as_classifier(load_model(f"{write_network(tmp_path)}:net"))
    beside = as_classifier(load_model(f"{tmp_path / 'mine.py'}:neighbours"))
    content = {each.fingerprint(): pickle.dumps(each) for each in (model, beside)}
    shutil.rmtree(tmp_path)
    write_network(tmp_path, seed=5)
    (tmp_path / "neighbour.py").unlink()
    for fingerprint, received in content.items():
        (tmp_path / "received").write_bytes(received)
        command = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).fingerprint())"
        found = subprocess.run(
            [sys.executable, "-c", command, str(tmp_path / "received")], capture_output=True, text=True, check=True
        )
        assert found.stdout.strip() == fingerprint


def test_says_that_a_module_cannot_be_sent():
    module = nn.Linear(2, 2)
    module.activation = lambda x: x
    with pytest.raises(ModelError, match=r"cannot be sent to another process .* --engine serial"):
        pickle.dumps(as_classifier(module))


# ---- torch: files


@pytest.mark.parametrize("name", ["weights.pt", "weights.pth", "weights.safetensors", "weights.ckpt"])
@pytest.mark.parametrize("trust", [False, True])
def test_says_that_a_file_of_weights_is_no_model(tmp_path, name, trust):
    state = small().state_dict()
    save_file(state, tmp_path / name) if name.endswith("safetensors") else torch.save(
        {"state_dict": state}, tmp_path / name
    )
    with pytest.raises(ModelError, match=r"holds weights only.* --model arch:NAME --weights"):
        load_model(str(tmp_path / name), trust=trust)


def as_whole(net, path):
    torch.save(net, path)


def as_entry(net, path):
    torch.save({"model": net, "epoch": 3}, path)


def as_script(net, path):
    torch.jit.script(net).save(path)


def as_trace(net, path):
    torch.jit.trace(net, torch.zeros(2, 1, 8, 8)).save(path)


def as_exported(net, path):
    dynamic = ({0: torch.export.Dim.DYNAMIC},)
    torch.export.save(torch.export.export(net, (torch.zeros(2, 1, 8, 8),), dynamic_shapes=dynamic), path)


FORMS = [
    (as_whole, "model.pt"),
    (as_whole, "model.pth"),
    (as_entry, "model.ckpt"),
    (as_script, "model.ts"),
    (as_script, "model.pt"),
    (as_trace, "model.torchscript"),
    (as_exported, "model.pt2"),
]


class Plain(nn.Module):
    """What TorchScript and torch.export can read."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm, self.last = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Linear(72, 3)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.conv(x))).flatten(1))


class Other(Plain):
    def forward(self, x):
        return -self.last(torch.relu(self.norm(self.conv(x))).flatten(1))


@pytest.mark.parametrize(("write", "name"), FORMS)
def test_a_whole_network_in_a_file_is_read_with_trust_only_and_measured(tmp_path, write, name):
    net = Plain().eval()
    write(net, tmp_path / name)
    with pytest.raises(UntrustedError, match=r"can run any code.*--trust-model.*state_dict"):
        load_model(str(tmp_path / name))
    model = as_classifier(load_model(str(tmp_path / name), trust=True), mean=0.5, std=0.5)
    plain = as_classifier(net, mean=0.5, std=0.5)
    y = plain.predict(IMAGES)
    np.testing.assert_array_equal(model.predict(IMAGES), y)
    expected = measure(plain, IMAGES, y, DeepFool()).values
    np.testing.assert_allclose(measure(model, IMAGES, y, DeepFool()).values, expected, rtol=2e-3)
    assert len(model.classes) == 3


@pytest.mark.parametrize(("write", "name"), FORMS[3:])
def test_a_program_can_be_copied_sent_and_told_from_others(tmp_path, write, name):
    write(Plain().eval(), tmp_path / name)
    program = load_model(str(tmp_path / name), trust=True)
    (tmp_path / "other").mkdir()
    write(Other().eval(), tmp_path / "other" / name)
    other = load_model(str(tmp_path / "other" / name), trust=True)
    assert as_classifier(program).fingerprint() != as_classifier(other).fingerprint()
    for again in (copy.deepcopy(program), pickle.loads(pickle.dumps(program))):
        assert as_classifier(again).fingerprint() == as_classifier(program).fingerprint()
        assert torch.equal(scores(again), scores(program))


def test_weights_go_into_a_trusted_program_and_travel_with_it(tmp_path):
    as_trace(Plain().eval(), tmp_path / "model.ts")
    torch.save({name: torch.ones_like(part) for name, part in Plain().state_dict().items()}, tmp_path / "weights.pt")
    program = load_model(str(tmp_path / "model.ts"), trust=True, weights=str(tmp_path / "weights.pt"))
    again = pickle.loads(pickle.dumps(program))
    assert torch.equal(again.state_dict()["inner.last.weight"], torch.ones(3, 72))


def test_says_that_a_program_was_exported_for_other_batches(tmp_path):
    torch.export.save(torch.export.export(Plain().eval(), (torch.zeros(8, 1, 8, 8),)), tmp_path / "model.pt2")
    program = load_model(str(tmp_path / "model.pt2"), trust=True)
    with pytest.raises(ModelError, match=r"exported for exactly 8 samples at once.*Dim\.DYNAMIC.*tile=8"):
        as_classifier(program).predict(IMAGES)
    assert as_classifier(program, tile=8).predict(IMAGES).shape == (5,)


@pytest.mark.parametrize("name", ["model.pt2", "model.ts", "model.pt", "model.pth"])
@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04 half"])
def test_says_that_a_trusted_torch_file_is_damaged(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match="cannot be"):
        load_model(str(tmp_path / name), trust=True)


def test_says_that_a_file_holds_several_modules_or_none(tmp_path):
    torch.save({"one": nn.Linear(1, 2), "two": nn.Linear(1, 2)}, tmp_path / "two.pt")
    with pytest.raises(ModelError, match="several modules: one, two"):
        load_model(str(tmp_path / "two.pt"), trust=True)
    torch.save([1, 2], tmp_path / "none.pt")
    with pytest.raises(ModelError, match="found a `list`"):
        load_model(str(tmp_path / "none.pt"))


class Marker:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def as_lookalike(inner):
    """An archive that passes for a program of torch, every pickle in it a bomb."""

    def write(bomb, path):
        with zipfile.ZipFile(path, "w") as archive:
            for name in inner:
                archive.writestr(f"model/{name}", pickle.dumps(bomb, protocol=2))

    return write


def as_pickle(bomb, path):
    path.write_bytes(pickle.dumps(bomb))


@pytest.mark.parametrize(
    "write",
    [
        as_pickle,
        as_whole,
        as_entry,
        as_lookalike(["constants.pkl", "data.pkl", "code/__torch__.py", "version"]),
        as_lookalike(["data.pkl", "version"]),
        as_lookalike(["archive_format", "data.pkl", "models/model.json", "data/sample_inputs/model.pt"]),
        as_lookalike(["serialized_exported_program.json", "serialized_state_dict.pt"]),
    ],
)
@pytest.mark.parametrize("suffix", ["pt", "pth", "th", "ckpt", "bin", "tar", "pt2", "ts", "jit", "pkl", "safetensors"])
def test_never_runs_code_hidden_in_a_model_or_its_weights(tmp_path, write, suffix):
    path, marker = tmp_path / f"model.{suffix}", tmp_path / "marker"
    write(Marker(marker), path)
    with pytest.raises((UntrustedError, ModelError)):
        load_model(str(path))
    with pytest.raises((UntrustedError, ModelError)):
        load_model("arch:small_cnn", weights=str(path), shape=(1, 8, 8), classes=3)
    assert not marker.exists()
