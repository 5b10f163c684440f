"""A model from a file or an import path, without running foreign code unasked."""

import importlib
import importlib.util
import inspect
import os
import pickle
import sys
import zipfile
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from fairmargin.core.domain import Domain
from fairmargin.errors import ModelError, UntrustedError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier

_CONVERT = 'np.savez("model.npz", weight=..., bias=..., classes=...)'
_SUPPORTED = (
    "Expected a file .npz (arrays weight, bias and optionally classes), .skops, .joblib, .pkl or .pickle, or an import "
    "path such as package.module:name or path/to/file.py:name"
)


def load_model(spec: str, *, trust: bool = False) -> object:
    """The model that `spec` names: a file, or an import path to an object or to a function that makes it.

    Guarantee: without `trust`, reading a *file* runs no code from it. An import path runs the module it names, as any
    `import` does.

    Parameters
    ----------
    spec
        "model.npz", "model.skops", "model.joblib", "model.pkl", "package.module:name" or "path/to/file.py:name".
    trust
        Whether files that can run code when read (.joblib, .pkl, .pickle, and .skops with unknown types) may be.

    >>> load_model("model.pkl")
    Traceback (most recent call last):
    ...
    fairmargin.errors.ModelError: There is no model file 'model.pkl' in this folder. Check the path.
    """
    # Files first: a path may hold a colon too, for instance C:\\models\\model.npz.
    suffix = Path(spec).suffix.lower()
    if suffix in _READERS:
        path = Path(spec)
        if not path.is_file():
            folder = "in this folder" if path.parent == Path() else f"in {str(path.parent)!r}"
            raise ModelError(f"There is no model file {path.name!r} {folder}. Check the path.")
        return _READERS[suffix](path, trust)
    module, colon, name = spec.rpartition(":")
    if not colon or not module or not name:
        raise ModelError(f"Cannot tell what model {spec!r} means. {_SUPPORTED}.")
    return _called(_attribute(_imported(module), module, name), spec)


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
        raise ModelError(f"A linear model is written as .npz; given {target.name!r}.")
    classes = np.array(model.classes)
    if classes.dtype == object or classes.tolist() != list(model.classes):
        raise ModelError("The classes mix types, which .npz cannot hold; use all numbers or all strings as `classes`.")
    where = model.domain
    half = target.with_name(f".{target.name}.{os.getpid()}")  # a reader never sees half a file
    with half.open("wb") as stream:
        np.savez(
            stream,
            weight=model.weight,
            bias=model.bias,
            classes=classes,
            low=where.low,
            high=where.high,
            scale=where.scale,
            features=np.array(model.feature_names, dtype=str),
        )
    half.replace(target)


def _read_npz(path: Path, trust: bool) -> LinearClassifier:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, KeyError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise ModelError(
            f"'{path}' cannot be read as an .npz of plain arrays ({error}). Write it with {_CONVERT}."
        ) from None
    missing = [name for name in ("weight", "bias") if name not in arrays]
    if missing:
        held = ", ".join(sorted(arrays)) or "nothing"
        raise ModelError(
            f"'{path}' lacks the array {' and '.join(missing)}; it holds {held}. Write it with {_CONVERT}."
        )
    try:
        domain = Domain(**{name: arrays[name] for name in ("low", "high", "scale") if name in arrays})
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"'{path}' holds a domain (low, high, scale) that cannot be: {str(error).rstrip('.')}."
        ) from None
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
            f"Reading '{path}' can run any code that its maker put in. If you made it yourself, pass --trust-model "
            f"(trust=True). Otherwise ask for the coefficients of a linear model, written with {_CONVERT}."
        )
    try:
        if path.suffix.lower() == ".joblib":
            import joblib

            return joblib.load(path)
        with path.open("rb") as stream:
            return pickle.load(stream)
    except Exception as error:  # unpickling runs foreign code, which may raise anything
        raise ModelError(
            f"'{path}' cannot be unpickled here ({type(error).__name__}: {error}). It may be damaged, or need the "
            "packages, in the versions, that it was written with."
        ) from error


def _read_skops(path: Path, trust: bool) -> object:
    try:
        from skops import io
    except ImportError:
        raise ModelError(f"Reading '{path}' needs the package skops: `pip install skops`.") from None
    try:
        unknown = io.get_untrusted_types(file=path)
    except Exception as error:  # a damaged archive, in skops' many ways of saying so
        raise ModelError(f"'{path}' cannot be read by skops ({type(error).__name__}: {error}).") from error
    if unknown and not trust:
        raise UntrustedError(
            f"'{path}' holds types that skops does not know to be safe: {', '.join(unknown)}. If you made the file "
            "yourself, pass --trust-model (trust=True)."
        )
    return io.load(path, trusted=unknown)


_READERS = {
    ".npz": _read_npz,
    ".joblib": _read_pickle,
    ".pkl": _read_pickle,
    ".pickle": _read_pickle,
    ".skops": _read_skops,
}


def _imported(module: str) -> ModuleType:
    try:
        return _from_file(Path(module)) if module.endswith(".py") else importlib.import_module(module)
    except ModelError:
        raise
    except (Exception, SystemExit) as error:  # the module is the user's own code, which may even try to exit
        hint = "" if module.endswith(".py") else " Is it installed here? A file is named as in path/to/file.py:name."
        raise ModelError(f"Importing '{module}' failed with {type(error).__name__}: {error}.{hint}") from error


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ModelError(f"There is no file '{path}'. Check the path.")
    name = f"fairmargin_model_{path.stem}"
    description = importlib.util.spec_from_file_location(name, path)
    assert description is not None
    assert description.loader is not None
    module = importlib.util.module_from_spec(description)
    sys.modules[name] = module  # dataclasses and pickles defined there look their module up by name
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)  # as `python file.py` does, so that it finds its neighbours
    try:
        description.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


def _attribute(module: ModuleType, where: str, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            public = ", ".join(key for key in vars(module) if not key.startswith("_")) or "nothing"
            raise ModelError(f"'{where}' has no '{name}'; it defines {public}.")
        found = getattr(found, part)
    return found


def _called(found: Any, spec: str) -> object:
    """The object itself, or what it makes if it is a function."""
    if not inspect.isfunction(found):
        return found
    required = [p.name for p in inspect.signature(found).parameters.values() if p.default is p.empty and p.kind < 2]
    if required:
        raise ModelError(f"'{spec}' is a function that needs {', '.join(required)}; one without arguments is expected.")
    try:
        return found()
    except (Exception, SystemExit) as error:  # the function is the user's own code
        raise ModelError(f"Calling '{spec}' failed with {type(error).__name__}: {error}.") from error
