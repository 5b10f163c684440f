"""Objects that many tasks use. They are sent to a worker once; after that, a task carries only their names."""

import io
import pickle
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import cloudpickle

T = TypeVar("T")
Place = TypeVar("Place")

_RECEIVED = 4  # shared objects that a worker process keeps: usually a model, and the samples of the last tasks
_SENT = 1 << 30  # bytes of shared objects that are kept for workers that may still need them


class Shared(Generic[T]):
    """Argument of tasks that is sent to each worker at most once. The function of the task receives its value.

    Parameters
    ----------
    name
        Identifies the content: objects of equal names are the same object.
    value
        The object. It is pickled when the first task that needs it is sent to a worker; serial engines use it as it is.

    >>> from fairmargin.engine.task import Task
    >>> Task("a", len, (Shared("letters", "abc"),)).run()
    3
    """

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: T) -> None:
        self.name, self.value = name, value

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.value)  # complete, for engines that do not treat shared objects specially


def call(function: Callable[..., T], arguments: tuple[Any, ...]) -> T:
    """Call a function with the values of the arguments that are shared.

    >>> call(max, (Shared("two", 2), 1))
    2
    """
    return function(*(each.value if isinstance(each, Shared) else each for each in arguments))


def pickled(content: Any) -> tuple[bytes, dict[str, Shared[Any]]]:
    """Pickle an object without the shared objects in it, and return these by their names."""
    stream = io.BytesIO()
    pickler = _Separating(stream)
    pickler.dump(content)
    return stream.getvalue(), pickler.found


class _Separating(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickler that leaves out shared objects, and includes classes and functions of a script or notebook."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream)
        self.found: dict[str, Shared[Any]] = {}

    def persistent_id(self, each: Any) -> str | None:
        if not isinstance(each, Shared):
            return None
        self.found[each.name] = each
        return each.name


class Sent(Generic[Place]):
    """The shared objects that workers can fetch.

    An object stays while a task in flight needs it. After that, it stays until objects that were used later exceed the
    limit; then it is removed, and sent again if another task needs it.

    Parameters
    ----------
    put
        Makes a pickled object available to workers, and returns where it is.
    remove
        Makes the place unavailable.
    limit
        Total size of the objects that are kept, in bytes.
    """

    def __init__(
        self,
        put: Callable[[bytes], Place],
        remove: Callable[[Place], object],
        limit: int = _SENT,
    ) -> None:
        self._put, self._remove, self._limit = put, remove, limit
        self._places: OrderedDict[str, tuple[Place, int]] = OrderedDict()
        self._users = Counter[str]()
        self._lock = threading.Lock()  # `release` may be called by the thread in which a task ends
        self.bytes = 0
        """Total size of the objects that were sent."""

    def use(self, objects: Mapping[str, Shared[Any]]) -> dict[str, Place]:
        """Return where the objects of a task are, and keep them until `release` is called."""
        with self._lock:
            for name, shared in objects.items():
                if name not in self._places:
                    content = pickled(shared.value)[0]
                    self._places[name] = (self._put(content), len(content))
                    self.bytes += len(content)
                self._places.move_to_end(name)
                self._users[name] += 1
            return {name: self._places[name][0] for name in objects}

    def release(self, names: Iterable[str]) -> None:
        """Say that a task no longer needs its objects."""
        with self._lock:
            self._users.subtract(names)
            excess = sum(size for _, size in self._places.values()) - self._limit
            for name, (place, size) in list(self._places.items()):
                if excess <= 0:
                    break
                if self._users[name] <= 0:
                    del self._places[name], self._users[name]
                    self._remove(place)
                    excess -= size


class Received:
    """The shared objects that a worker process has received; those that were used last are kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Shared[Any]] = OrderedDict()

    def unpickled(self, content: bytes, fetch: Callable[[str], Any]) -> Any:
        """Unpickle what `pickled` returned. `fetch` returns the pickled value of a shared object, given its name."""

        def load(name: str) -> Shared[Any]:
            if name not in self._kept:
                self._kept[name] = Shared(name, pickle.loads(fetch(name)))
            self._kept.move_to_end(name)
            while len(self._kept) > _RECEIVED:
                self._kept.popitem(last=False)
            return self._kept[name]

        joining = _Joining(io.BytesIO(content))
        joining.persistent_load = load  # type: ignore[method-assign]
        return joining.load()


class _Joining(pickle.Unpickler):
    """Unpickler whose `persistent_load` can be set, which the class in C does not allow."""
