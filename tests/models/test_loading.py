import pickle

import joblib
import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier

from fairmargin.core.domain import Domain
from fairmargin.errors import ModelError, UntrustedError
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.loading import load_model, save_linear

MODEL = LinearClassifier([[0.0, 1.0], [1.0, 0.0]], [0.5, 0.0], classes=("a", "b"), domain=Domain([0, -np.inf], 1))


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


def test_says_how_to_install_skops(tmp_path, monkeypatch):
    (tmp_path / "model.skops").write_bytes(b"")
    monkeypatch.setitem(__import__("sys").modules, "skops", None)
    with pytest.raises(ModelError, match="pip install skops"):
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
        ("model.onnx", "Cannot tell what model"),
        ("", "Cannot tell what model"),
        ("module:", "Cannot tell what model"),
    ],
)
def test_says_what_a_spec_may_be(spec, message):
    with pytest.raises(ModelError, match=message):
        load_model(spec)


def test_says_that_the_users_module_fails(tmp_path):
    (tmp_path / "mine.py").write_text("1 / 0")
    with pytest.raises(ModelError, match="failed with ZeroDivisionError"):
        load_model(f"{tmp_path / 'mine.py'}:net")
