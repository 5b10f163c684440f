"""Imports of the user's code, by module name or from a file, also in other processes."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from fairmargin.errors import ModelError

_PREFIX = "fairmargin_model_"
_DIGEST = "__fairmargin_digest__"


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
    description = importlib.util.spec_from_file_location(name, whole)
    assert description is not None
    module = importlib.util.module_from_spec(description)
    setattr(module, _DIGEST, digest)
    sys.modules[name] = module  # dataclasses and pickles defined there look their module up by name
    sys.path.insert(0, str(whole.parent))  # as `python file.py` does, so that it can import files beside it
    try:
        # Compile here, because Python's own cache does not notice a change within the same second.
        exec(compile(source, str(whole), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(whole.parent))
    return module


@dataclass(frozen=True, slots=True)
class Origin:
    """A module of the user that another process cannot import by its name alone.

    Parameters
    ----------
    name
        Name in `sys.modules`.
    file
        Path of the file.
    digest
        Hash of the file, if it was imported by `import_file`; empty for a file that such a file imported.
    """

    name: str
    file: str
    digest: str = ""

    def import_again(self) -> None:
        """Import the module in this process, unless it is already imported."""
        if self.name in sys.modules:
            return
        if self.digest:
            if getattr(import_file(Path(self.file)), _DIGEST) != self.digest:
                raise ModelError(
                    f"'{self.file}' changed while it was in use. Start again, and do not edit it meanwhile."
                )
            return
        folder = str(_home(Path(self.file)))
        sys.path.insert(0, folder)
        try:
            importlib.import_module(self.name)
        finally:
            sys.path.remove(folder)


def origins_of(network: Any) -> tuple[Origin, ...]:
    """Return the modules of the user that another process needs to load this torch module."""
    importable = {Path(folder or ".").resolve() for folder in sys.path}
    found = {}
    for name in sorted({name.split(".")[0] for name in _module_names(network)} - {"__main__", "builtins", "torch"}):
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if file and (name.startswith(_PREFIX) or _home(Path(file)) not in importable):
            found[name] = Origin(name, file, getattr(module, _DIGEST, ""))
    return tuple(found.values())


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
