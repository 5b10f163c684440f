"""What every engine in the catalog keeps."""

import signal
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from fairmargin.engine.catalog import ENGINES
from fairmargin.engine.local import Serial
from fairmargin.engine.shared import Shared
from fairmargin.engine.task import Engine, Task
from fairmargin.errors import FairmarginError
from tests.engine.functions import (
    LeavesWhenReceived,
    ReceivedOnce,
    double,
    fail_on_three,
    leave,
    name_of,
    raise_unpicklable,
    slow_double,
    total,
)


@pytest.fixture(params=sorted(ENGINES), scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Yield an engine of each kind. Ray is started once, because this takes seconds."""
    make: Callable[..., Engine] = ENGINES[request.param]
    if request.param == "ray":
        pytest.importorskip("ray", reason="Ray is not installed: pip install 'fairmargin[ray]'")
        with make(workers=2).session():
            yield make(workers=2)
    else:
        yield make() if request.param == "serial" else make(workers=2)


def numbered(function: Callable[..., int], count: int, *more: float) -> list[Task[int]]:
    return [Task(f"task-{i}", function, (i, *more)) for i in range(count)]


def test_gives_every_task_its_own_result(engine: Engine) -> None:
    tasks = numbered(double, 25)
    assert {task.key: result for task, result in engine.run(tasks)} == {task.key: task.run() for task in tasks}


def test_yields_each_task_exactly_once(engine: Engine) -> None:
    assert sorted(task.key for task, _ in engine.run(numbered(double, 25))) == sorted(f"task-{i}" for i in range(25))


def test_runs_nothing_for_an_empty_list(engine: Engine) -> None:
    assert list(engine.run([])) == []


def test_yields_the_first_result_long_before_the_last_task_has_run(engine: Engine) -> None:
    next(engine.run(numbered(double, 1)), None)  # warm the file cache for the workers' imports
    running = engine.run(numbered(slow_double, 12, 0.12))
    started = time.perf_counter()
    next(running)
    first = time.perf_counter() - started
    rest = len(list(running))
    assert rest == 11
    assert first < (time.perf_counter() - started) - 0.36


def test_raises_the_exception_of_a_task_as_itself(engine: Engine) -> None:
    with pytest.raises(LookupError, match="three is not here"):
        list(engine.run(numbered(fail_on_three, 8)))


@pytest.mark.parametrize("how", ["sys.exit", "exit", "GeneratorExit", "Unusual"])
def test_an_attempt_to_end_the_process_is_an_error_that_says_where(engine: Engine, how: str) -> None:
    name = "SystemExit" if "exit" in how else how
    with pytest.raises(FairmarginError, match=rf"tried to end the program \({name}.*functions\.py', line \d+"):
        list(engine.run([Task(f"task-{i}", leave, (i, how)) for i in range(4)]))


def test_ctrl_c_is_not_an_error() -> None:
    with pytest.raises(KeyboardInterrupt):
        list(Serial().run([Task("a", signal.default_int_handler, (signal.SIGINT, None))]))


@pytest.mark.parametrize("shared", [False, True])
def test_an_argument_that_ends_the_process_that_receives_it_is_an_error(engine: Engine, shared: bool) -> None:
    if isinstance(engine, Serial):
        pytest.skip("no other process receives it")
    argument = Shared("leaves", LeavesWhenReceived()) if shared else LeavesWhenReceived()
    with pytest.raises(FairmarginError, match=r"tried to end the program \(SystemExit"):
        list(engine.run([Task("a", double, (argument,))]))


def test_an_exception_that_cannot_be_sent_is_an_error_that_says_what_it_was(engine: Engine) -> None:
    with pytest.raises(Exception, match="this holds a lock"):
        list(engine.run([Task("a", raise_unpicklable)]))


def test_arguments_and_results_may_be_large(engine: Engine) -> None:
    values = np.arange(4_000_000.0)  # 32 MB
    ((_, found),) = engine.run([Task("a", np.negative, (values,))])
    assert found.tobytes() == (-values).tobytes()


def test_shared_objects_are_sent_to_each_worker_once(engine: Engine) -> None:
    shared = Shared("received", ReceivedOnce())
    with engine.session() as session:
        for count in (12, 4):
            found = dict(session.run([Task(str(i), name_of, (shared, i)) for i in range(count)]))
            assert len(set(found.values())) <= 2  # each worker made one object of it


def test_more_shared_objects_than_a_worker_keeps_reach_every_task(engine: Engine) -> None:
    shared = [Shared(f"numbers-{i}", np.full(1000, i)) for i in range(7)]
    tasks = [Task(f"{i} {j}", total, (shared[i], [shared[j]])) for i in range(7) for j in range(7)]
    for task, found in engine.run(tasks):
        assert found == 1000 * sum(map(int, task.key.split()))


def test_stops_when_closed_early(engine: Engine) -> None:
    running = engine.run(numbered(slow_double, 200, 0.1))
    next(running)
    started = time.perf_counter()
    running.close()
    assert time.perf_counter() - started < 5  # all tasks would take 10 s in two workers
    assert list(running) == []


def test_a_session_gives_every_task_of_several_calls_its_own_result(engine: Engine) -> None:
    with engine.session() as session:
        for count in (3, 0, 5):
            found = {task.key: result for task, result in session.run(numbered(double, count))}
            assert found == {f"task-{i}": 2 * i for i in range(count)}


def test_a_session_within_a_session_is_the_same_one(engine: Engine) -> None:
    with engine.session() as outer:
        with outer.session() as inner:
            assert inner is outer
        assert [result for _, result in outer.run(numbered(double, 1))] == [0]  # leaving the inner one closed nothing


def test_a_session_goes_on_after_a_task_that_failed(engine: Engine) -> None:
    with engine.session() as session:
        with pytest.raises(LookupError):
            list(session.run(numbered(fail_on_three, 8)))
        assert [result for _, result in session.run([Task("a", double, (4,))])] == [8]


def test_a_call_that_is_closed_early_leaves_the_other_calls_of_its_session_alone(engine: Engine) -> None:
    with engine.session() as session:
        other, abandoned = session.run(numbered(double, 20)), session.run(numbered(slow_double, 50, 0.05))
        first = next(other)
        next(abandoned)
        abandoned.close()
        assert sorted(result for _, result in (first, *other)) == [2 * i for i in range(20)]


def test_calls_of_a_session_may_alternate(engine: Engine) -> None:
    with engine.session() as session:
        pairs = zip(session.run(numbered(double, 6)), session.run(numbered(fail_on_three, 3)), strict=False)
        assert [(a.key[:4], b.key[:4]) for (a, _), (b, _) in pairs] == [("task", "task")] * 3
