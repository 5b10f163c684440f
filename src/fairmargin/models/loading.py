"""Loading of models from files and import paths, without running untrusted code."""

import copy
import io
import os
import pickle
import zipfile
import zlib
from pathlib import Path

import numpy as np

from fairmargin.core.domain import Domain
from fairmargin.errors import ModelError, UntrustedError
from fairmargin.models.architectures.catalog import ARCHITECTURES, build_architecture
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.reading.torch_files import SUFFIXES, TorchFile, kind_of, read_checkpoint, refuse
from fairmargin.models.reading.user_file import imported
from fairmargin.store.atomic import atomic_write_bytes

_ARCHITECTURE = "arch:"
# Types that skops does not list as safe, although reading them runs no code of the file: parts of fitted classifiers of
# scikit-learn, and the boosters of XGBoost and LightGBM, which parse their own formats.
_HARMLESS = frozenset(
    {
        "collections.OrderedDict",
        "lightgbm.basic.Booster",
        "lightgbm.sklearn.LGBMClassifier",
        "numpy.dtype",
        "sklearn.compose._column_transformer._RemainderColsList",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.tree._tree.Tree",
        "xgboost.core.Booster",
        "xgboost.sklearn.XGBClassifier",
    }
)
_HARMLESS_MODULES = (
    "sklearn._loss.",
    "sklearn.calibration.",
    "sklearn.metrics.",
    "sklearn.model_selection._split.",
    "sklearn.neural_network._stochastic_optimizers.",
    "sklearn.utils._metadata_requests.",
)
_CONVERT = 'np.savez("model.npz", weight=..., bias=..., classes=...)'
_SUPPORTED = (
    "Expected a file .npz (arrays weight, bias and optionally classes), .onnx, .skops, .joblib, .pkl or .pickle; a "
    "model of XGBoost in a file .json or .ubj, or of LightGBM in a file .txt; "
    "arch:NAME with a file of weights; an import path such as package.module:name or path/to/file.py:name; or, "
    "trusted, a torch module in a file .pt, .pth, .pt2 or .ts"
)


def load_model(
    spec: str,
    *,
    trust: bool = False,
    weights: str = "",
    shape: tuple[int, ...] | None = None,
    classes: int | None = None,
) -> object:
    """Load the model that `spec` names: a file, a network of the catalog, or an object or function in Python code.

    Guarantee: without `trust`, reading a *file* runs no code from it. An import path runs the module it names, like any
    `import` does.

    Parameters
    ----------
    spec
        "model.npz", "model.onnx", "model.skops", "model.joblib", "model.pkl", "arch:resnet20", "package.module:name",
        "path/to/file.py:name", a model of XGBoost: "model.json", "model.ubj", one of LightGBM: "model.txt", or a torch
        module: "model.pt", "model.pt2", "model.ts".
    trust
        Whether to read files that can run code (.joblib, .pkl, .pickle, .skops with unknown types, whole torch modules,
        TorchScript, exported programs).
    weights
        Path of a .safetensors file or a checkpoint with the weights of the torch network that `spec` names.
    shape, classes
        Shape of one sample and number of classes, for networks of the catalog.

    >>> load_model("model.pkl")
    Traceback (most recent call last):
    ...
    fairmargin.errors.ModelError: There is no model file 'model.pkl' in this folder. Check the path.
    >>> load_model("arch:resnet20", shape=(3, 32, 32), classes=10)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    fairmargin.errors.ModelError: 'arch:resnet20' names a network without its weights, which would be untrained. ...
    """
    if spec.startswith(_ARCHITECTURE):
        return _built(spec, weights, trust, shape, classes)
    # Check for files first: a path can also contain a colon, for instance C:\\models\\model.npz.
    suffix = Path(spec).suffix.lower()
    if suffix in _READERS:
        path = Path(spec)
        if not path.is_file():
            folder = "in this folder" if path.parent == Path() else f"in {str(path.parent)!r}"
            raise ModelError(f"There is no model file {path.name!r} {folder}. Check the path.")
        return _with_weights(_READERS[suffix](path, trust), spec, weights, trust)
    module, colon, name = spec.rpartition(":")
    if not colon or not module or not name:
        raise ModelError(f"Unknown model {spec!r}. {_SUPPORTED}.")
    found, fresh = imported(spec)
    return _with_weights(found, spec, weights, trust, fresh=fresh)


def _built(spec: str, weights: str, trust: bool, shape: tuple[int, ...] | None, classes: int | None) -> object:
    """Build a network of the catalog and load its weights."""
    ARCHITECTURES.find(spec.removeprefix(_ARCHITECTURE), ModelError)
    if not weights:
        raise ModelError(
            f"{spec!r} names a network without its weights, which would be untrained. Give their file: --weights FILE "
            "(`weights=`)."
        )
    if shape is None or classes is None:
        raise ModelError(f"{spec!r} must fit the data: give the `shape` of one sample and the number of `classes`.")
    from torch.random import fork_rng

    from fairmargin.models.reading.weights import load_weights

    with fork_rng(devices=[]):  # initial weights are overwritten; keep the global random state unchanged
        network = build_architecture(spec.removeprefix(_ARCHITECTURE), shape, classes)
    load_weights(network, Path(weights), trust=trust, user="the data")
    return network


def _with_weights(model: object, spec: str, weights: str, trust: bool, *, fresh: bool = True) -> object:
    """Load weights, if given, into the model.

    An object that is not newly created is copied first, because it may be loaded again with other weights.
    """
    if not weights:
        return model
    if not any(base.__module__ == "torch.nn.modules.module" for base in type(model).__mro__):
        raise ModelError(
            f"--weights is for torch networks; {spec!r} is a `{type(model).__name__}`, which has its own. Leave it out."
        )
    from torch import nn

    from fairmargin.models.reading.weights import load_weights

    assert isinstance(model, nn.Module)
    if not fresh:
        try:
            model = copy.deepcopy(model)
        except Exception as error:  # copying the user's attributes can raise anything
            raise ModelError(
                f"{spec!r} cannot be copied to load weights into it ({type(error).__name__}: {error}). Give a function "
                "that creates it."
            ) from error
    load_weights(model, Path(weights), trust=trust)
    return model


def save_linear(model: LinearClassifier, path: str | os.PathLike[str]) -> None:
    """Write a linear model, with its domain, as an .npz that `load_model` reads without running code.

    >>> import tempfile
    >>> model = LinearClassifier([[0.0], [1.0]], [0.0, -1.0], classes=("no", "yes"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_linear(model, folder + "/model.npz")
    ...     load_model(folder + "/model.npz").fingerprint() == model.fingerprint()
    True
    """
    target = Path(path)
    if target.suffix.lower() != ".npz":
        raise ModelError(f"A linear model must be saved as .npz; given {target.name!r}.")
    classes = np.array(model.classes)
    if classes.dtype == object or classes.tolist() != list(model.classes):
        raise ModelError("The classes mix types, which .npz cannot store; use all numbers or all strings as `classes`.")
    where = model.domain
    content = io.BytesIO()
    np.savez(
        content,
        weight=model.weight,
        bias=model.bias,
        classes=classes,
        low=where.low,
        high=where.high,
        scale=where.scale,
        features=np.array(model.feature_names, dtype=str),
    )
    atomic_write_bytes(target, content.getvalue())


def _read_npz(path: Path, trust: bool) -> LinearClassifier:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, KeyError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise ModelError(
            f"'{path}' cannot be read as an .npz of plain arrays ({error}). Write it with {_CONVERT}. If labels "
            "or names are text in an array of objects, convert them: `classes=model.classes_.astype(str)`."
        ) from None
    missing = [name for name in ("weight", "bias") if name not in arrays]
    if missing:
        found = ", ".join(sorted(arrays)) or "nothing"
        raise ModelError(
            f"'{path}' lacks the array {' and '.join(missing)}; it holds {found}. Write it with {_CONVERT}."
        )
    try:
        domain = Domain(**{name: arrays[name] for name in ("low", "high", "scale") if name in arrays})
    except (TypeError, ValueError) as error:
        raise ModelError(f"'{path}' holds an invalid domain (low, high, scale): {str(error).rstrip('.')}.") from None
    names = [str(name) for name in arrays.get("features", ())]
    try:
        model = as_classifier((arrays["weight"], arrays["bias"]), classes=arrays.get("classes"), domain=domain)
        assert isinstance(model, LinearClassifier)
        return LinearClassifier(model.weight, model.bias, model.classes, model.domain, names)
    except ModelError as error:
        raise ModelError(f"'{path}': {error}") from None


def _read_pickle(path: Path, trust: bool) -> object:
    if not trust:
        raise UntrustedError(
            f"Reading '{path}' can run any code that its author put in. If you created it yourself, pass --trust-model "
            "(trust=True). Otherwise ask for a .skops file, or for the coefficients of a linear model, written with "
            f"{_CONVERT}."
        )
    try:
        if path.suffix.lower() == ".joblib":
            import joblib

            return joblib.load(path)
        with path.open("rb") as stream:
            return pickle.load(stream)
    except Exception as error:  # unpickling runs arbitrary code, which can raise anything
        raise ModelError(
            f"'{path}' cannot be unpickled here ({type(error).__name__}: {error}). It may be damaged, or need the "
            "packages and versions that it was written with."
        ) from error


def _read_skops(path: Path, trust: bool) -> object:
    try:
        from skops import io
    except ImportError:
        raise ModelError(f"Reading '{path}' needs the package skops: pip install 'fairmargin[skops]'.") from None
    try:
        unknown = io.get_untrusted_types(file=path)
    except Exception as error:  # skops raises different exceptions for damaged archives
        raise ModelError(f"'{path}' cannot be read by skops ({type(error).__name__}: {error}).") from error
    unsafe = [name for name in unknown if name not in _HARMLESS and not name.startswith(_HARMLESS_MODULES)]
    if unsafe and not trust:
        raise UntrustedError(
            f"'{path}' holds types that skops does not know to be safe: {', '.join(unsafe)}. If you created the file "
            "yourself, pass --trust-model (trust=True)."
        )
    return io.load(path, trusted=unknown)


def _read_onnx(path: Path, trust: bool) -> object:
    from fairmargin.models.reading.onnx_model import read_onnx

    return read_onnx(path)


def _read_xgboost(path: Path, trust: bool) -> object:
    try:
        from xgboost import Booster
        from xgboost.core import XGBoostError
    except ImportError:
        raise ModelError(f"Reading '{path}' needs the package xgboost: pip install xgboost.") from None
    try:
        return Booster(model_file=path)
    except (XGBoostError, UnicodeDecodeError) as error:  # XGBoost quotes damaged files in its errors
        said = str(error).strip().splitlines()[0]
        raise ModelError(f"'{path}' cannot be read as a model of XGBoost ({said}). Check the file.") from None


def _read_lightgbm(path: Path, trust: bool) -> object:
    try:
        from lightgbm import Booster
        from lightgbm.basic import LightGBMError
    except ImportError:
        raise ModelError(f"Reading '{path}' needs the package lightgbm: pip install lightgbm.") from None
    try:
        return Booster(model_file=path)
    except LightGBMError as error:
        raise ModelError(f"'{path}' cannot be read as a model of LightGBM ({error}). Check the file.") from None


def _read_torch(path: Path, trust: bool) -> object:
    from torch import nn

    from fairmargin.models.reading.weights import weights_in

    kind = kind_of(path)
    weights_only = ModelError(
        f"'{path}' holds weights only, without the network. Name the network that they belong to: --model "
        f"arch:NAME --weights {path} (`fairmargin list architectures`), or --model path/to/file.py:function."
    )
    if kind is TorchFile.SAFETENSORS:
        raise weights_only
    if kind is TorchFile.CHECKPOINT:
        content = read_checkpoint(path, trust=trust)
        entries = content.items() if isinstance(content, dict) else ()
        modules = (
            {"": content} if isinstance(content, nn.Module) else {k: v for k, v in entries if isinstance(v, nn.Module)}
        )
        if len(modules) == 1:
            return next(iter(modules.values()))
        if modules:
            raise ModelError(
                f"'{path}' holds several modules: {', '.join(map(str, modules))}. Save only one of them, with "
                "`torch.save`."
            )
        if weights_in(content):
            raise weights_only
        raise ModelError(f"Expected a torch module in '{path}'; found a `{type(content).__name__}`. Check the file.")
    if not trust:
        raise refuse(path, kind.value)
    from fairmargin.models.reading.programs import read_program

    return read_program(path, kind)


_READERS = {
    ".npz": _read_npz,
    ".joblib": _read_pickle,
    ".pkl": _read_pickle,
    ".pickle": _read_pickle,
    ".onnx": _read_onnx,
    ".skops": _read_skops,
    ".json": _read_xgboost,
    ".ubj": _read_xgboost,
    ".txt": _read_lightgbm,
    **dict.fromkeys(SUFFIXES, _read_torch),
}
