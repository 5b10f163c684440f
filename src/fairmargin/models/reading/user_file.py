"""Imports of the user's code, by module name or from a file, also in other processes."""

import atexit
import importlib
import importlib.util
import inspect
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from fairmargin.errors import ModelError

_PREFIX = "fairmargin_model_"
_DIGEST, _SOURCE = "__fairmargin_digest__", "__fairmargin_source__"
_STANDARD = Path(sysconfig.get_path("stdlib")).resolve()


def imported(spec: str) -> tuple[Any, bool]:
    """Return the object that "package.module:name" or "path/to/file.py:name" names, and whether it was newly created.

    A function, or a class of torch modules, is called without arguments; any other object is returned unchanged.
    Exceptions of the user's code become a `ModelError`.
    """
    module, _, name = spec.rpartition(":")
    found = _attribute(_module(module), module, name)
    if inspect.isfunction(found) or _is_network_class(found):
        return _called(found, spec), True
    return found, False


def import_file(path: Path) -> ModuleType:
    """Import a .py file; files with equal names in different folders are different modules.

    Guarantee: a file that has not changed is not run again, so that its classes stay the same.
    """
    if not path.is_file():
        raise ModelError(f"There is no file '{path}'. Check the path.")
    whole = path.resolve()
    name = f"{_PREFIX}{whole.stem}_{sha256(str(whole).encode()).hexdigest()[:12]}"
    source = whole.read_bytes()
    digest = sha256(source).hexdigest()
    known = sys.modules.get(name)
    if known is not None and getattr(known, _DIGEST, "") == digest:
        return known
    return _executed(name, whole, source)


def _executed(name: str, file: Path, source: bytes) -> ModuleType:
    """Make a module from the source of a file."""
    description = importlib.util.spec_from_file_location(name, file)
    assert description is not None
    module = importlib.util.module_from_spec(description)
    setattr(module, _DIGEST, sha256(source).hexdigest())
    setattr(module, _SOURCE, source)
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses and pickles defined there look their module up by name
    try:
        # As `python file.py` does, so that it can import files beside it. Compile here, because Python's own cache does
        # not notice a change within the same second.
        with _first_on_path(file.parent):
            exec(compile(source, str(file), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
        raise
    # Workers receive the classes and functions themselves, since they cannot import them.
    for each in (module, *_beside(file.parent)):
        cloudpickle.register_pickle_by_value(each)
    return module


def _beside(folder: Path) -> Iterator[ModuleType]:
    """Yield the modules that were imported from a folder, except installed ones."""
    for name, module in list(sys.modules.items()):
        top, is_source = _own_module(name.split(".")[0]), (getattr(module, "__file__", None) or "").endswith(".py")
        if top is not None and is_source and _home(Path(top.__file__ or "")) == folder.resolve():
            yield module


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


@dataclass(frozen=True, slots=True)
class Origin:
    """A module of the user, with its source, for processes that cannot import it, also on other machines.

    Parameters
    ----------
    name
        Name in `sys.modules`.
    file
        Path of the file where it was imported first.
    digest
        Hash of the file, if it was imported by `import_file`; otherwise empty.
    sources
        The module and those that it can import from beside it: their paths below the folder that must be on `sys.path`,
        with their contents.
    """

    name: str
    file: str
    digest: str
    sources: Mapping[str, bytes]

    def import_again(self) -> None:
        """Import the module in this process, unless it is already imported."""
        known = sys.modules.get(self.name)
        if known is not None and (not self.digest or getattr(known, _DIGEST, "") == self.digest):
            return
        if self.digest:
            path = Path(self.file).name
            _executed(self.name, self._folder() / path, self.sources[path])
        elif importlib.util.find_spec(self.name) is None:
            with _first_on_path(self._folder()):
                importlib.import_module(self.name)

    def _folder(self) -> Path:
        """Return the original folder if it is on this machine with the same content, else one with the sources."""
        original = _home(Path(self.file))
        if all(_content(original / path) == source for path, source in self.sources.items()):
            return original
        folder = Path(tempfile.mkdtemp(prefix="fairmargin-model-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        for path, source in self.sources.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(source)
        return folder


def origins_of(network: Any) -> tuple[Origin, ...]:
    """Return the modules of the user that another process needs to load this torch module."""
    names = {name.split(".")[0] for name in _module_names(network)}
    own = {name: Path(module.__file__ or "") for name in sorted(names) if (module := _own_module(name))}
    return tuple(Origin(name, str(file), *_sources(name, _home(file))) for name, file in own.items())


def is_in_main(network: Any) -> bool:
    """Return whether classes or functions of this torch module are defined in a script or notebook."""
    return "__main__" in _module_names(network)


def _own_module(name: str) -> ModuleType | None:
    """Return a top-level module unless it is installed, where other machines can have it too."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if module is None or not file or not file.endswith(".py") or name in ("__main__", "__mp_main__", "fairmargin"):
        return None
    whole = Path(file).resolve()
    installed = whole.is_relative_to(_STANDARD) or {"site-packages", "dist-packages"} & set(whole.parts)
    return None if installed else module


def _sources(name: str, home: Path) -> tuple[str, dict[str, bytes]]:
    """Return the digest of a module, and its source with those of the modules that were imported from beside it."""
    found = {}
    for module in _beside(home):
        top, file = module.__name__.split(".")[0], Path(module.__file__ or "")
        content = getattr(module, _SOURCE, None) or _content(file)
        if content is not None and (top == name or (name.startswith(_PREFIX) and not top.startswith(_PREFIX))):
            found[file.resolve().relative_to(home).as_posix()] = content
    return getattr(sys.modules[name], _DIGEST, ""), found


def _content(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None


def _module_names(network: Any) -> Iterator[str]:
    for part in network.modules():
        for value in (part, *vars(part).values()):
            yield type(value).__module__
            if inspect.isfunction(value) or inspect.isclass(value):
                yield value.__module__


def _home(file: Path) -> Path:
    """Return the folder that must be on `sys.path` to import the top-level module of this file."""
    whole = file.resolve()
    return whole.parent.parent if whole.name == "__init__.py" else whole.parent


def _module(name: str) -> ModuleType:
    try:
        return import_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except (ModelError, KeyboardInterrupt):
        raise
    except BaseException as error:  # the user's code can raise anything, even SystemExit
        hint = "" if name.endswith(".py") else " Is it installed here? For a file, give path/to/file.py:name."
        raise ModelError(f"Importing '{name}' failed with {type(error).__name__}: {error}.{hint}") from error


def _attribute(module: ModuleType, where: str, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            public = ", ".join(key for key in vars(module) if not key.startswith("_")) or "nothing"
            raise ModelError(f"'{where}' has no '{name}'; it defines {public}.")
        found = getattr(found, part)
    return found


def _is_network_class(found: Any) -> bool:
    # Compare names, because `issubclass` would import torch for every model.
    return inspect.isclass(found) and any(base.__module__ == "torch.nn.modules.module" for base in found.__mro__)


def _called(found: Any, spec: str) -> object:
    kind = "class" if inspect.isclass(found) else "function"
    required = [p.name for p in inspect.signature(found).parameters.values() if p.default is p.empty and p.kind < 2]
    if required:
        raise ModelError(f"'{spec}' is a {kind} that needs {', '.join(required)}; expected one without arguments.")
    try:
        made: object = found()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's code can raise anything
        raise ModelError(f"Calling '{spec}' failed with {type(error).__name__}: {error}.") from error
    return made
