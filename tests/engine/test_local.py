import json
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairmargin.engine.catalog import parse_engine
from fairmargin.engine.local import Processes, Serial
from fairmargin.engine.shared import Sent, Shared
from fairmargin.engine.task import Engine, Task
from fairmargin.errors import FairmarginError, InputError
from tests.engine.functions import (
    die,
    double,
    fail_on_three,
    ignores_interrupts,
    leave_at_once,
    mark_and_sleep,
    slow_double,
    threads_in_use,
    whereabouts,
)


class Counted:
    """Argument that counts how often it is pickled."""

    pickled = 0

    def __reduce__(self) -> tuple[type, tuple[int]]:
        Counted.pickled += 1
        return int, (3,)


class Asked(list[Task[int]]):
    """List of tasks that counts how many were requested."""

    count = 0

    def __iter__(self) -> Iterator[Task[int]]:
        for task in super().__iter__():
            self.count += 1
            yield task


def alive(pid: int) -> bool:
    """Return whether a process is running; a zombie process (state Z) is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def eventually(question: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if question():
            return True
        time.sleep(0.05)
    return question()


def marks(folder: Path) -> list[int]:
    return [int(text) for path in folder.glob("*.pid") if (text := path.read_text())]


def test_serial_keeps_the_order_of_the_tasks() -> None:
    assert [result for _, result in Serial().run([Task(str(i), double, (i,)) for i in (3, 1, 2)])] == [6, 2, 4]


def test_processes_run_tasks_in_other_processes_with_a_part_of_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    tasks = [Task("a", whereabouts), Task("b", whereabouts)]
    for _, (pid, threads) in Processes(workers=2).run(tasks):
        assert pid != os.getpid()
        assert 1 <= int(threads) <= max(1, (os.cpu_count() or 1) // 2)
    assert "OMP_NUM_THREADS" not in os.environ


@pytest.mark.parametrize(("wanted", "workers"), [(1, 1), (os.cpu_count(), 2)])
def test_workers_use_as_many_threads_as_omp_num_threads_says(
    monkeypatch: pytest.MonkeyPatch, wanted: int, workers: int
) -> None:
    for name in ("MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", str(wanted))
    for _, found in Processes(workers).run([Task(str(i), threads_in_use) for i in range(workers)]):
        assert set(found.values()) == {wanted}, found


SCRIPT = """
import json
import torch  # each worker imports this script, and with it torch, before it is told its share
from fairmargin.engine.local import Processes
from fairmargin.engine.task import Task
from tests.engine.functions import threads_in_use
if __name__ == "__main__":
    print(json.dumps([found for _, found in Processes(workers=2).run([Task(name, threads_in_use) for name in "ab"])]))
"""


def test_workers_of_a_script_that_imports_torch_use_their_share_of_threads(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    share = max(1, len(os.sched_getaffinity(0)) // 2)
    assert [set(found.values()) for found in json.loads(done.stdout)] == [{share}] * 2


def test_workers_ignore_ctrl_c() -> None:
    assert [ignored for _, ignored in Processes(workers=1).run([Task("a", ignores_interrupts)])] == [True]


def test_processes_yield_a_quick_task_before_a_slow_one_given_earlier() -> None:
    tasks = [Task("slow", slow_double, (1, 2.0)), *(Task(f"quick-{i}", double, (i,)) for i in range(3))]
    assert [task.key for task, _ in Processes(workers=2).run(tasks)][-1] == "slow"


def test_processes_do_not_pickle_all_tasks_in_advance() -> None:
    Counted.pickled = 0
    tasks = Asked(Task(str(i), double, (Counted(),)) for i in range(50))
    running = Processes(workers=1).run(tasks)
    assert next(running)[1] == 6
    running.close()
    assert 0 < tasks.count <= 5
    assert 0 < Counted.pickled <= 5


def slowly(running: Iterator[tuple[Task[int], int]], seen: list[int]) -> None:
    """Consume results so slowly that several tasks finish between two of them."""
    for _, result in running:
        seen.append(result)
        time.sleep(0.15)


def test_results_that_finished_before_a_failure_are_yielded_in_the_order_given() -> None:
    seen: list[int] = []
    with pytest.raises(LookupError):
        slowly(Processes(workers=1).run([Task(str(i), fail_on_three, (i,)) for i in range(6)]), seen)
    assert seen in ([0, 1, 2], [0, 1, 2, 4])  # 4 may have finished by the time that 3 is seen to have failed


def test_a_worker_that_ends_abruptly_gives_an_error_with_advice() -> None:
    with pytest.raises(FairmarginError, match=r"Results of finished tasks are kept.*fewer workers.*--engine serial"):
        list(Processes(workers=2).run([Task(str(i), die, (i,)) for i in range(4)]))


UNGUARDED = """
from fairmargin.engine.local import Processes
from fairmargin.engine.task import Task
print(list(Processes(workers=2).run([Task("a", abs, (-1,))])))
"""


def test_a_script_without_a_main_guard_gives_an_error_that_names_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    last = ended.stderr.strip().splitlines()[-1]
    assert ended.returncode == 1
    assert "before their first task. Each worker imports the script" in last
    assert '`if __name__ == "__main__":`' in last


def test_a_worker_that_exits_with_code_0_gives_an_error() -> None:
    with pytest.raises(FairmarginError, match=r"ended abruptly.*`os._exit`"):
        list(Processes(workers=1).run([Task(str(i), leave_at_once, (i,)) for i in range(2)]))


def test_closing_early_stops_all_workers(tmp_path: Path) -> None:
    tasks = [Task("0", double, (1,)), *(Task(str(i), mark_and_sleep, (str(tmp_path), i, 60.0)) for i in range(1, 9))]
    before = set(multiprocessing.active_children())
    running = Processes(workers=2).run(tasks)
    next(running)
    assert eventually(lambda: len(marks(tmp_path)) >= 1)
    workers = set(multiprocessing.active_children()) - before
    assert len(workers) == 2
    running.close()
    assert not any(alive(pid) for pid in marks(tmp_path))
    assert not workers & set(multiprocessing.active_children())


def pids(engine: Engine, count: int) -> set[int]:
    return {pid for _, (pid, _) in engine.run([Task(str(i), whereabouts) for i in range(count)])}


def test_calls_of_a_session_share_their_workers() -> None:
    with Processes(workers=1).session() as session:
        assert pids(session, 2) == pids(session, 3)


def test_calls_without_a_session_do_not_share_workers() -> None:
    assert not pids(Processes(workers=1), 1) & pids(Processes(workers=1), 1)


def test_a_session_starts_no_more_workers_than_it_has_tasks() -> None:
    before = set(multiprocessing.active_children())
    with Processes(workers=8).session() as session:
        assert len(pids(session, 1)) == 1
        assert len(set(multiprocessing.active_children()) - before) == 1


@pytest.mark.parametrize("count", [1, 3])
def test_the_share_of_threads_depends_on_the_engine_and_not_on_the_number_of_tasks(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("fairmargin.engine.local.processors", lambda: 6)
    with Processes(workers=3).session() as session:
        shares = {share for _, (_, share) in session.run([Task(str(i), whereabouts) for i in range(count)])}
    assert shares == {"2"}


def test_leaving_a_session_stops_all_workers(tmp_path: Path) -> None:
    before = set(multiprocessing.active_children())
    with Processes(workers=2).session() as session:
        found = pids(session, 4)
        running = session.run([Task(str(i), mark_and_sleep, (str(tmp_path), i, 60.0 * i)) for i in range(3)])
        next(running)
        assert eventually(lambda: len(marks(tmp_path)) >= 2)
    assert not any(alive(pid) for pid in (*found, *marks(tmp_path)))
    assert not set(multiprocessing.active_children()) - before


def test_a_call_that_ended_early_does_not_block_the_next_one(tmp_path: Path) -> None:
    with Processes(workers=1).session() as session:
        running = session.run([Task(str(i), mark_and_sleep, (str(tmp_path), i, 600.0 * i)) for i in range(3)])
        next(running)
        assert eventually(lambda: len(marks(tmp_path)) == 2)
        running.close()
        assert not pids(session, 1) & set(marks(tmp_path))  # a new worker: the old one was amid ten minutes


def test_files_of_shared_objects_are_removed_with_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Processes(workers=1).session() as session:
        for _ in range(2):
            assert [len(found) for _, found in session.run([Task("a", bytes, (Shared("b", b"abc"),))])] == [3]
        (folder,) = tmp_path.glob("fairmargin-shared-*")
        assert len(list(folder.iterdir())) == 2  # the object, and the mark that a worker has started
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not list(tmp_path.iterdir())


def test_shared_objects_that_no_task_needs_are_removed_beyond_a_limit() -> None:
    there: dict[int, bytes] = {}

    def put(content: bytes) -> int:
        there[len(there) + 1] = content
        return len(there)

    sent = Sent(put, there.pop, limit=2500)
    first, second = ({name: Shared(name, bytes(1000))} for name in "ab")
    sent.use(first)
    sent.use(second)
    sent.use({"c": Shared("c", bytes(1000))})
    assert len(there) == 3  # all are needed
    sent.release(tuple(second))
    assert sorted(there) == [1, 3]
    sent.release("ac")
    assert sorted(there) == [1, 3]  # within the limit
    sent.use(first)
    assert sent.bytes < 3500  # it was still there


@pytest.mark.parametrize("function", [die, leave_at_once])
def test_a_session_starts_new_workers_after_one_ended_abruptly(function: Callable[[int], object]) -> None:
    with Processes(workers=2).session() as session:
        with pytest.raises(FairmarginError, match="ended abruptly"):
            list(session.run([Task(str(i), function, (i,)) for i in range(3)]))
        assert len(pids(session, 1)) == 1


def test_a_worker_that_ends_between_two_calls_is_replaced() -> None:
    with Processes(workers=1).session() as session:
        (first,) = pids(session, 1)
        os.kill(first, signal.SIGKILL)
        assert eventually(lambda: session._pool is not None and bool(session._pool._broken))
        (second,) = pids(session, 1)
        assert second != first


DRIVER = """
import signal
import sys
from fairmargin.engine.local import Processes
from fairmargin.engine.task import Task
from tests.engine.functions import ignores_interrupts, mark_and_sleep
if __name__ == "__main__":
    # A runner that was started in the background hands its children a deaf ear for Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        # One worker is soon idle, the other amid a task.
        tasks = [Task(str(i), mark_and_sleep, (sys.argv[1], i, 60.0 * i)) for i in range(2)]
        if sys.argv[2] == "run":
            list(Processes(workers=2).run(tasks))
        with Processes(workers=2).session() as session:
            list(session.run([Task("a", ignores_interrupts)]))
            list(session.run(tasks))
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.mark.parametrize("how", ["run", "session"])
@pytest.mark.parametrize(
    ("sent", "to_the_whole_terminal", "code"),
    [(signal.SIGINT, True, 130), (signal.SIGINT, False, 130), (signal.SIGKILL, False, -signal.SIGKILL)],
    ids=["ctrl-c", "interrupted", "killed"],
)
def test_workers_end_when_the_parent_process_is_stopped(
    tmp_path: Path, sent: signal.Signals, to_the_whole_terminal: bool, code: int, how: str
) -> None:
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path}
    driver = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path), how],
        env=environment,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert eventually(lambda: len(marks(tmp_path)) == 2, seconds=120)
        time.sleep(0.3)
        (os.killpg if to_the_whole_terminal else os.kill)(driver.pid, sent)
        _, complaints = driver.communicate(timeout=50)
    finally:
        driver.kill()
    assert driver.returncode == code
    assert b"Traceback" not in complaints
    assert eventually(lambda: not any(alive(pid) for pid in marks(tmp_path)))


SLOW_START = """
import os
import signal
import sys
import time
from pathlib import Path
from fairmargin.engine.local import Processes
from fairmargin.engine.task import Task
if __name__ == "__mp_main__":  # a worker that is being started
    Path(sys.argv[1], "held").write_text(str(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])))
    Path(sys.argv[1], "0.pid").write_text(str(os.getpid()))
    while True:
        time.sleep(0.01)
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        list(Processes(workers=1).run([Task("a", abs, (-1,))]))
    except KeyboardInterrupt:
        sys.exit(130)
"""


def test_ctrl_c_while_a_worker_starts_leaves_no_traceback_and_no_worker(tmp_path: Path) -> None:
    script = tmp_path / "slow_start.py"
    script.write_text(SLOW_START)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    driver = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)], env=environment, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        assert eventually(lambda: len(marks(tmp_path)) == 1, seconds=120)
        os.killpg(driver.pid, signal.SIGINT)
        _, complaints = driver.communicate(timeout=50)
    finally:
        driver.kill()
    assert (tmp_path / "held").read_text() == "True"  # or it might print a traceback before its parent ends it
    assert (driver.returncode, complaints.decode()) == (130, "")
    assert eventually(lambda: not any(alive(pid) for pid in marks(tmp_path)))


def test_a_task_refuses_a_function_that_a_worker_could_not_import() -> None:
    with pytest.raises(InputError, match="top level of a module"):
        Task("a", lambda: 1)


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("serial", Serial()),
        ("processes", Processes()),
        ("processes:workers=3", Processes(3)),
        (" processes: workers = 3 ", Processes(3)),
    ],
)
def test_an_engine_is_created_from_its_name_and_options(text: str, engine: object) -> None:
    assert parse_engine(text) == engine


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("seriel", r"Unknown engine `seriel`\. Did you mean 'serial'\? There are: serial, processes, ray\."),
        ("processes:worker=2", r"`processes`: unknown field `worker`\. Did you mean 'workers'\? There are: workers\."),
        ("serial:workers=2", r"`serial`: unknown field `workers`\. There are none\."),
        ("processes:workers", r"expected field=value, given 'workers', as in 'processes:workers=2'"),
        ("processes:workers=two", "`processes`, field `workers`: expected a whole number, given 'two'"),
        ("processes:workers=0", "at least 1; given 0"),
    ],
)
def test_an_invalid_engine_is_refused_with_an_explanation(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_engine(text)
