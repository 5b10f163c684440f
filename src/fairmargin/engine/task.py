"""The task, which is a unit of work, and the protocol of engines, which run tasks."""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from fairmargin.engine.shared import call
from fairmargin.errors import InputError, exits_refused

T = TypeVar("T")

DEVICE = "FAIRMARGIN_DEVICE"
"""Variable of the environment by which an engine says where the torch networks of its tasks compute: cpu or cuda."""


@dataclass(frozen=True, slots=True)
class Task(Generic[T]):
    """A function call to be executed later, possibly in another process.

    Parameters
    ----------
    key
        Name of the task, for the caller. The engine does not use it.
    function
        Function to call. It must be defined at the top level of a module, or be an object of a class that is, so that
        another process can import it.
    arguments
        Arguments of the call, which are sent to worker processes by pickle. What many tasks use is given as `Shared`,
        so that it is sent once; the function receives its value.

    >>> Task("two", pow, (2, 1)).run()
    2
    """

    key: str
    function: Callable[..., T]
    arguments: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        # Serial engines could run a lambda, but it is refused there too, so that engines are interchangeable.
        name = getattr(self.function, "__qualname__", "")
        if "<lambda>" in name or "<locals>" in name:
            raise InputError(
                f"The function of task {self.key!r} is {name!r}, which another process cannot import. "
                "Define it at the top level of a module and pass what it needs in `arguments`."
            )

    def run(self) -> T:
        """Call the function and return its result. An attempt to exit the process raises an error."""
        with exits_refused():
            return call(self.function, self.arguments)


class Engine(Protocol):
    """Protocol of engines, which run tasks and yield each task with its result as it finishes, in any order.

    If a task raises an exception, the generator raises it; results that were yielded before remain valid. Closing the
    generator early cancels its remaining tasks, and does not affect other calls of `run`.

    An engine whose workers may be on other machines has an attribute `shares_files` that is False.

    To call `run` several times, open a session, so that worker processes start only once:

    >>> from fairmargin.engine.local import Serial
    >>> with Serial().session() as engine:
    ...     first = [result for _, result in engine.run([Task("a", abs, (-1,))])]
    ...     second = [result for _, result in engine.run([Task("b", abs, (-2,))])]
    >>> first + second
    [1, 2]
    """

    def run(self, tasks: Sequence[Task[T]]) -> Generator[tuple[Task[T], T], None, None]:
        """Run the tasks and yield pairs (task, result)."""
        ...

    def session(self) -> "AbstractContextManager[Engine]":
        """Return a context manager with an engine whose calls of `run`, and whose sessions, share workers."""
        ...


def shares_files(engine: Engine) -> bool:
    """Return whether tasks can read and write files of this process; not so if the engine says otherwise."""
    return bool(getattr(engine, "shares_files", True))


def session_of(engine: Engine) -> AbstractContextManager[Engine]:
    """Return a session of an engine. A user's engine without a method `session` is used as it is."""
    session = getattr(engine, "session", None)
    return nullcontext(engine) if session is None else session()
