"""The user's own code: imported by name or from a file, and found again by other processes."""

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
    """What "package.module:name" or "path/to/file.py:name" names, and whether it was made just now.

    A function, or a class of torch modules, is called without arguments; anything else is the object itself. What the
    user's code raises becomes a `ModelError` that names it.
    """
    module, _, name = spec.rpartition(":")
    found = _attribute(_module(module), module, name)
    if inspect.isfunction(found) or _is_network_class(found):
        return _called(found, spec), True
    return found, False


def import_file(path: Path) -> ModuleType:
    """The module that a .py file defines; files of one name in different folders are different modules.

    Guarantee: a file that did not change since it was read is not run again, so that its classes stay the same.
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
    sys.path.insert(0, str(whole.parent))  # as `python file.py` does, so that it finds its neighbours
    try:
        # Compiled here: Python's own cache would take a file that was changed within a second for the old one.
        exec(compile(source, str(whole), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(whole.parent))
    return module


@dataclass(frozen=True, slots=True)
class Origin:
    """A module of the user's that another process cannot import by its name alone.

    Parameters
    ----------
    name
        As in `sys.modules`.
    file
        Where it was read from.
    digest
        Of the file, if it was read by `import_file`; a neighbour that such a file imported has none.
    """

    name: str
    file: str
    digest: str = ""

    def read_again(self) -> None:
        """Import it here, unless it is."""
        if self.name in sys.modules:
            return
        if self.digest:
            if getattr(import_file(Path(self.file)), _DIGEST) != self.digest:
                raise ModelError(f"'{self.file}' changed while it was in use. Start again, and leave it as it is.")
            return
        folder = str(_home(Path(self.file)))
        sys.path.insert(0, folder)
        try:
            importlib.import_module(self.name)
        finally:
            sys.path.remove(folder)


def origins_of(network: Any) -> tuple[Origin, ...]:
    """Where classes and functions inside a torch module come from, if another process must be told."""
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
    """The folder that must be on the path for a top-level module of this file to be imported."""
    whole = file.resolve()
    return whole.parent.parent if whole.name == "__init__.py" else whole.parent


def _module(name: str) -> ModuleType:
    try:
        return import_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except (ModelError, KeyboardInterrupt):
        raise
    except BaseException as error:  # the module is the user's own code, which may even try to exit
        hint = "" if name.endswith(".py") else " Is it installed here? A file is named as in path/to/file.py:name."
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
    # By name: asking `issubclass` would import torch for everyone.
    return inspect.isclass(found) and any(base.__module__ == "torch.nn.modules.module" for base in found.__mro__)


def _called(found: Any, spec: str) -> object:
    kind = "class" if inspect.isclass(found) else "function"
    required = [p.name for p in inspect.signature(found).parameters.values() if p.default is p.empty and p.kind < 2]
    if required:
        raise ModelError(f"'{spec}' is a {kind} that needs {', '.join(required)}; one without arguments is expected.")
    try:
        made: object = found()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the function is the user's own code
        raise ModelError(f"Calling '{spec}' failed with {type(error).__name__}: {error}.") from error
    return made
