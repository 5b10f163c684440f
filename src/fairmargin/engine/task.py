"""What an engine runs, and what an engine is."""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from fairmargin.errors import InputError, exits_refused

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Task(Generic[T]):
    """A call to be made later, perhaps in another process.

    Parameters
    ----------
    key
        Names the task; the engine only hands it back.
    function
        Defined at the top level of a module (or an object of a class that is), so that another process can import it.
    arguments
        What the function is called with; they travel to the worker by pickle.

    >>> Task("two", pow, (2, 1)).run()
    2
    """

    key: str
    function: Callable[..., T]
    arguments: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        # A lambda works in one process and fails in two: refuse it in both, so that engines are interchangeable.
        name = getattr(self.function, "__qualname__", "")
        if "<lambda>" in name or "<locals>" in name:
            raise InputError(
                f"The function of task {self.key!r} is {name!r}, which another process cannot import. "
                "Define it at the top level of a module and pass what it needs in `arguments`."
            )

    def run(self) -> T:
        """Make the call, here and now; an attempt to end the process is an error."""
        with exits_refused():
            return self.function(*self.arguments)


class Engine(Protocol):
    """Runs tasks and yields each with its result as it finishes, in any order.

    An exception raised by a task is raised by the generator; results yielded before it stand. Closing the generator
    early cancels the rest of its tasks, and those of no other call.

    What has several calls of `run` to make opens a session, so that its workers start once:

    >>> from fairmargin.engine.local import Serial
    >>> with Serial().session() as engine:
    ...     first = [result for _, result in engine.run([Task("a", abs, (-1,))])]
    ...     second = [result for _, result in engine.run([Task("b", abs, (-2,))])]
    >>> first + second
    [1, 2]
    """

    def run(self, tasks: Sequence[Task[T]]) -> Generator[tuple[Task[T], T], None, None]:
        """Start the tasks and yield (task, result) pairs."""
        ...

    def session(self) -> "AbstractContextManager[Engine]":
        """Return an engine whose calls share their workers until the block is left; within it, a session is shared."""
        ...


def session_of(engine: Engine) -> AbstractContextManager[Engine]:
    """Return a session of an engine; an engine of the user's without sessions is used as it is."""
    session = getattr(engine, "session", None)
    return nullcontext(engine) if session is None else session()
