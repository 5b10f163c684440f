"""What only the engine `ray` keeps: a cluster that is joined or started, workers and nodes that are lost."""

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairmargin.engine.ray as engine_ray
from fairmargin.engine.catalog import parse_engine
from fairmargin.engine.ray import Ray, RaySession
from fairmargin.engine.shared import Shared
from fairmargin.engine.task import Task
from fairmargin.errors import FairmarginError, InputError
from tests.engine.functions import (
    die,
    die_once,
    double,
    fail_on_three,
    mark_and_sleep,
    span,
    threads_in_use,
    total,
)
from tests.engine.test_local import Asked, alive, eventually, marks
from tests.stories.examples import fairmargin, refused, write_images


def test_without_ray_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'fairmargin\[ray\]'.*no wheel for Python 3\.\d+"):
        list(Ray().run([Task("a", abs, (-1,))]))


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("ray", Ray()),
        ("ray:address=auto", Ray("auto")),
        ("ray:address=ray://host:10001", Ray("ray://host:10001")),
        ("ray:workers=2,gpus=1", Ray(workers=2, gpus=1)),
    ],
)
def test_the_engine_is_created_from_its_name_and_options(text: str, engine: object) -> None:
    assert parse_engine(text) == engine


ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'fairmargin[ray]'")


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("somewhere", r"`address` of Ray must be auto, HOST:PORT or ray://HOST:PORT; given 'somewhere'"),
        ("http://host:1", "must be auto, HOST:PORT or ray://HOST:PORT"),
        ("127.0.0.1:1", r"no Ray cluster at 127\.0\.0\.1:1 that this machine can reach.*refused.*Check the address"),
        ("ray://127.0.0.1:1", r"no Ray cluster at ray://127\.0\.0\.1:1 that this machine can reach"),
        ("auto", r"No Ray cluster runs on this machine.*ray start --head"),
    ],
)
def test_an_address_without_a_cluster_is_refused(
    address: str, sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))  # other clusters of this machine are not found there
    with pytest.raises(InputError, match=sentence):
        list(Ray(address).run([Task("a", abs, (-1,))]))


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.9.0"),
            r"same versions.*Ray: 2\.9\.0",
        ),
        (ImportError("No module named 'grpc'"), r"further packages.*grpc.*fairmargin\[ray\]"),
        (RuntimeError("Token authentication is enabled but no token"), "RAY_AUTH_TOKEN"),
        (ConnectionError("not a node"), r"not a node.*ray://HOST:10001"),
    ],
)
def test_the_reason_why_a_cluster_cannot_be_joined_is_explained(
    error: Exception, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: Any) -> None:
        raise error

    monkeypatch.setattr(ray, "init", fail)
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(InputError, match=sentence):
        list(Ray(f"127.0.0.1:{server.getsockname()[1]}").run([Task("a", abs, (-1,))]))


def test_the_command_line_refuses_an_address_without_a_cluster(tmp_path: Path) -> None:
    data, model = write_images(tmp_path, count=20)
    arguments = ["audit", "--model", model, "--data", data, "--group", "camera", "--out", tmp_path / "run"]
    assert "no Ray cluster at 127.0.0.1:1" in refused(fairmargin(*arguments, "--engine", "ray:address=127.0.0.1:1"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make a home without a token, in which Ray could write one."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("home")
        patch.setenv("HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def session(home: Path) -> Iterator[RaySession]:
    with Ray(workers=2).session() as session:
        yield session


def test_a_ray_that_was_started_is_private(session: RaySession, home: Path) -> None:
    assert not list(home.rglob("*token*"))
    folder = Path(ray._private.worker._global_node.get_session_dir_path())
    assert stat.S_IMODE(folder.parents[1].stat().st_mode) == 0o700
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads /proc, which only Linux has")
def test_a_ray_that_was_started_listens_to_this_machine_only(session: RaySession) -> None:
    found = {address for process in descendants(os.getpid()) for address in listened_by(process)}
    assert found
    assert all("0100007F" in address or address.endswith("01000000") for address in found), found  # 127.0.0.1, ::1


def descendants(parent: int) -> list[int]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = [parent]
    for process in found:
        found += [child for child, of in parents.items() if of == process]
    return found


def listened_by(process: int) -> set[str]:
    """Return the addresses that a process listens to, as /proc writes them."""
    with contextlib.suppress(OSError):
        sockets = {os.readlink(path) for path in Path(f"/proc/{process}/fd").iterdir()}
        lines = [
            line.split() for file in ("tcp", "tcp6") for line in Path(f"/proc/net/{file}").read_text().splitlines()
        ]
        return {words[1].partition(":")[0] for words in lines if words[3] == "0A" and f"socket:[{words[9]}]" in sockets}
    return set()


def test_a_session_within_the_process_uses_the_ray_that_runs(session: RaySession) -> None:
    assert [result for _, result in Ray("somewhere").run([Task("a", double, (2,))])] == [4]
    assert ray.is_initialized()


def test_tasks_use_as_many_threads_as_they_reserve(session: RaySession) -> None:
    ((_, found),) = Ray(cpus=2).run([Task("a", threads_in_use)])
    assert set(found.values()) == {int(os.environ.get("OMP_NUM_THREADS") or 2)}


def test_at_most_that_many_tasks_run_at_the_same_time(session: RaySession) -> None:
    spans = sorted(found for _, found in Ray(workers=1).run([Task(str(i), span, (0.1,)) for i in range(6)]))
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_few_tasks_are_sent_in_advance(session: RaySession) -> None:
    tasks = Asked(Task(str(i), double, (i,)) for i in range(50))
    running = session.run(tasks)
    next(running)
    running.close()
    assert 0 < tasks.count <= 8


def test_a_task_that_lost_its_worker_runs_again(session: RaySession, tmp_path: Path) -> None:
    tasks = [Task(str(i), die_once, (str(tmp_path), i)) for i in range(4)]
    assert sorted(result for _, result in session.run(tasks)) == [0, 2, 4, 6]
    assert len(list(tmp_path.iterdir())) == 4


def test_a_task_that_always_loses_its_worker_gives_an_error_with_advice(session: RaySession) -> None:
    with pytest.raises(FairmarginError, match=r"lost its worker or its node 4 times.*are kept.*--engine serial"):
        list(session.run([Task("a", die, (1,))]))


def test_closing_early_ends_the_tasks(session: RaySession, tmp_path: Path) -> None:
    running = session.run([Task(str(i), mark_and_sleep, (str(tmp_path), i, 60.0 * i)) for i in range(3)])
    next(running)
    assert eventually(lambda: len(marks(tmp_path)) >= 2)
    running.close()
    assert eventually(lambda: not any(alive(pid) for pid in marks(tmp_path)[1:]), seconds=10)


def test_more_than_the_cluster_has_is_refused(session: RaySession) -> None:
    with pytest.raises(InputError, match=r"`gpus` of Ray asks for 1 GPUs per task, and the cluster has 0"):
        list(Ray(gpus=1).run([Task("a", double, (1,))]))


def test_results_that_finished_before_a_failure_are_yielded(session: RaySession) -> None:
    seen = []
    with pytest.raises(LookupError, match="three is not here") as caught:  # noqa: PT012
        for _, result in Ray(workers=1).run([Task(str(i), fail_on_three, (i,)) for i in range(6)]):
            seen.append(result)
    assert seen == [0, 1, 2]
    assert "functions.py" in caught.value.__notes__[0]  # says where in the worker


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        (
            "_VERSION",
            "no_such_package:name",
            r"cannot import fairmargin \(No module named 'no_such_package'\).*runtime_env",
        ),
        ("__version__", "99.0", r"has fairmargin 0\.\d+.*this machine 99\.0.*runtime_env"),
    ],
)
def test_a_cluster_without_this_package_is_refused(
    session: RaySession, monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str
) -> None:
    monkeypatch.setattr(engine_ray, name, value)
    with pytest.raises(InputError, match=sentence):
        engine_ray._check_package(ray)


@pytest.mark.parametrize("error", ["ObjectStoreFullError", "OutOfDiskError"])
def test_too_small_an_object_store_is_explained(
    session: RaySession, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    def fail(_: object) -> None:
        raise getattr(ray.exceptions, error)("full")

    monkeypatch.setattr(ray, "put", fail)
    with pytest.raises(FairmarginError, match=r"object store of Ray is too small.*--object-store-memory.*are kept"):
        list(session.run([Task("a", total, (Shared("zeros", np.zeros(3)), []))]))


DRIVER = """
import signal, sys
from fairmargin.engine.ray import Ray
from fairmargin.engine.task import Task
from tests.engine.functions import mark_and_sleep
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        list(Ray(workers=2).run([Task(str(i), mark_and_sleep, (sys.argv[1], i, 600.0)) for i in range(4)]))
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)], ids=["ctrl-c", "killed"])
def test_ray_and_its_tasks_end_with_the_process_that_started_it(
    tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "HOME": str(tmp_path)}
    driver = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)], env=environment, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        assert eventually(lambda: len(marks(tmp_path)) == 2, seconds=120)
        # Agents of Ray end a minute after the process that they report on.
        processes = [
            each for each in descendants(driver.pid) if b"Agent" not in Path(f"/proc/{each}/cmdline").read_bytes()
        ]
        assert len(processes) > 4
        (os.kill if sent is signal.SIGKILL else os.killpg)(driver.pid, sent)
        _, complaints = driver.communicate(timeout=60)
    finally:
        driver.kill()
    assert driver.returncode == code
    assert b"Traceback" not in complaints
    assert eventually(lambda: not any(alive(process) for process in processes), seconds=30)
