import copy
import pickle
import shutil
import subprocess
import sys
import zipfile
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
from tests.models.hostile import Bomb

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


def test_unpickles_with_trust(tmp_path):
    fitted = RidgeClassifier().fit([[0.0], [1.0]], [0, 1])
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(fitted))
    joblib.dump(fitted, tmp_path / "model.joblib")
    for name in ("model.pkl", "model.joblib"):
        assert load_model(str(tmp_path / name), trust=True).predict([[1.0]]) == [1]


def test_a_skops_file_of_unknown_types_is_read_only_when_trusted(tmp_path, monkeypatch):
    io = pytest.importorskip("skops.io", reason="needs skops: pip install -c constraints.txt -e '.[dev]'")
    path, x = tmp_path / "model.skops", np.random.default_rng(0).normal(size=(20, 2))
    io.dump(FITTED, path)
    np.testing.assert_array_equal(as_classifier(load_model(str(path))).predict(x), as_classifier(FITTED).predict(x))
    io.dump(OwnRegression().fit([[0.0, 1.0], [1.0, 0.0]], [0, 1]), path)
    with pytest.raises(UntrustedError, match=r"OwnRegression.*--trust-model"):
        load_model(str(path))
    assert isinstance(load_model(str(path), trust=True), OwnRegression)
    path.write_bytes(b"nonsense")
    with pytest.raises(ModelError, match="cannot be read by skops"):
        load_model(str(path))
    monkeypatch.setitem(sys.modules, "skops", None)
    with pytest.raises(ModelError, match=r"pip install 'fairmargin\[skops\]'"):
        load_model(str(path))


CODE = """
from fairmargin.models.linear import LinearClassifier
model = LinearClassifier([[0.0], [1.0]], [0.0, 0.0])
def make(): return model
"""


@pytest.mark.parametrize("name", ["model", "make"])
def test_imports_an_object_or_what_a_function_makes(tmp_path, name):
    (tmp_path / "mine.py").write_text(CODE)
    assert isinstance(load_model(f"{tmp_path / 'mine.py'}:{name}"), LinearClassifier)
    assert load_model("fairmargin.models.linear:LinearClassifier") is LinearClassifier


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


def test_says_that_an_object_cannot_be_copied(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch, threading\nnet = torch.nn.Linear(1, 2)\nnet.lock = threading.Lock()"
    )
    torch.save(nn.Linear(1, 2).state_dict(), tmp_path / "weights.pt")
    with pytest.raises(ModelError, match=r"cannot be copied .* Give a function that creates it"):
        load_model(f"{tmp_path / 'mine.py'}:net", weights=str(tmp_path / "weights.pt"))


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


def test_networks_of_the_users_files_and_programs_are_measured_in_other_processes(tmp_path):
    file = write_network(tmp_path)
    torch.jit.trace(small(), torch.zeros(2, 1, 8, 8)).save(tmp_path / "traced.pt")
    models = [
        as_classifier(load_model(f"{file}:net"), mean=0.5, std=0.5),
        as_classifier(load_model(f"{file}:neighbours")),
        as_classifier(load_model(str(tmp_path / "traced.pt"), trust=True)),
    ]
    labels = [model.predict(IMAGES) for model in models]
    every = [Task(str(i), measure_shard, (models[i], DeepFool(), IMAGES, labels[i])) for i in range(3)]
    elsewhere = {task.key: result.values for task, result in Processes(workers=1).run(every)}
    for i, model in enumerate(models):
        np.testing.assert_array_equal(measure(model, IMAGES, labels[i], DeepFool()).values, elsewhere[str(i)])


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


IMAGE = torch.zeros(2, 1, 8, 8)
DYNAMIC = ({0: torch.export.Dim.DYNAMIC},)
WRITERS = {
    "whole": torch.save,
    "entry": lambda net, path: torch.save({"model": net, "epoch": 3}, path),
    "script": lambda net, path: torch.jit.script(net).save(path),
    "trace": lambda net, path: torch.jit.trace(net, IMAGE).save(path),
    "export": lambda net, path: torch.export.save(torch.export.export(net, (IMAGE,), dynamic_shapes=DYNAMIC), path),
}
FORMS = [
    ("whole", "model.pt"),
    ("whole", "model.pth"),
    ("entry", "model.ckpt"),
    ("script", "model.ts"),
    ("script", "model.pt"),
    ("trace", "model.torchscript"),
    ("export", "model.pt2"),
]


class Plain(nn.Module):
    """A network that TorchScript and torch.export can read."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm, self.last = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Linear(72, 3)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.conv(x))).flatten(1))


class Other(Plain):
    def forward(self, x):
        return -self.last(torch.relu(self.norm(self.conv(x))).flatten(1))


@pytest.mark.parametrize(("form", "name"), FORMS)
def test_a_whole_network_in_a_file_is_read_with_trust_only_and_measured(tmp_path, form, name):
    net = Plain().eval()
    WRITERS[form](net, tmp_path / name)
    with pytest.raises(UntrustedError, match=r"can run any code.*--trust-model.*state_dict"):
        load_model(str(tmp_path / name))
    model = as_classifier(load_model(str(tmp_path / name), trust=True), mean=0.5, std=0.5)
    plain = as_classifier(net, mean=0.5, std=0.5)
    y = plain.predict(IMAGES)
    np.testing.assert_array_equal(model.predict(IMAGES), y)
    expected = measure(plain, IMAGES, y, DeepFool()).values
    np.testing.assert_allclose(measure(model, IMAGES, y, DeepFool()).values, expected, rtol=2e-3)
    assert len(model.classes) == 3


@pytest.mark.parametrize(("form", "name"), FORMS[3:])
def test_a_program_can_be_copied_sent_and_distinguished(tmp_path, form, name):
    WRITERS[form](Plain().eval(), tmp_path / name)
    program = load_model(str(tmp_path / name), trust=True)
    (tmp_path / "other").mkdir()
    WRITERS[form](Other().eval(), tmp_path / "other" / name)
    other = load_model(str(tmp_path / "other" / name), trust=True)
    assert as_classifier(program).fingerprint() != as_classifier(other).fingerprint()
    for again in (copy.deepcopy(program), pickle.loads(pickle.dumps(program))):
        assert as_classifier(again).fingerprint() == as_classifier(program).fingerprint()
        assert torch.equal(scores(again), scores(program))


def test_weights_are_loaded_into_a_trusted_program_and_pickled_with_it(tmp_path):
    WRITERS["trace"](Plain().eval(), tmp_path / "model.ts")
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


def archive(bomb, path, *names):
    """Write an archive like a program of torch, in which every pickle is a bomb."""
    with zipfile.ZipFile(path, "w") as whole:
        for name in names:
            whole.writestr(f"model/{name}", pickle.dumps(bomb, protocol=2))


OLD = {"_use_new_zipfile_serialization": False}
PROGRAM = ("archive_format", "data.pkl", "models/model.json", "data/sample_inputs/model.pt")
HIDING = {
    "pickle": lambda bomb, path: path.write_bytes(pickle.dumps(bomb)),
    "whole": torch.save,
    "entry": WRITERS["entry"],
    "old": lambda bomb, path: torch.save({"weight": torch.zeros(2), "x": bomb}, path, **OLD),
    "like a script": lambda bomb, path: archive(bomb, path, "constants.pkl", "data.pkl", "code/__torch__.py"),
    "like a checkpoint": lambda bomb, path: archive(bomb, path, "data.pkl", "version"),
    "like a program": lambda bomb, path: archive(bomb, path, *PROGRAM),
    "like an old program": lambda bomb, path: archive(bomb, path, "serialized_exported_program.json", "state_dict.pt"),
}


@pytest.mark.parametrize("write", HIDING.values(), ids=HIDING)
@pytest.mark.parametrize("suffix", ["pt", "pth", "th", "ckpt", "bin", "tar", "pt2", "ts", "jit", "pkl", "safetensors"])
def test_never_runs_code_hidden_in_a_model_or_its_weights(tmp_path, write, suffix):
    path, marker = tmp_path / f"model.{suffix}", tmp_path / "marker"
    write(Bomb(marker), path)
    with pytest.raises((UntrustedError, ModelError)):
        load_model(str(path))
    with pytest.raises((UntrustedError, ModelError)):
        load_model("arch:small_cnn", weights=str(path), shape=(1, 8, 8), classes=3)
    assert not marker.exists()
