"""What all tests share: a cache folder of their own, so that nobody's is touched and each dataset is decoded once."""

import os

# Before torch is loaded: where several workers share the processors, threads of each would only wait for one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import fcntl
import json

import pytest

from fairmargin.data.cache import FOLDER_VARIABLE


@pytest.fixture(scope="session", autouse=True)
def _cache_of_the_tests(tmp_path_factory, worker_id):
    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent  # the workers of one run share theirs
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, str(shared / "fairmargin-cache"))
        yield


@pytest.fixture(scope="session")
def smoke(tmp_path_factory, worker_id):
    """A paper at smoke scale, run once by whichever worker comes first: its folder and what `--json` said."""
    from tests.fixtures.record import reproduced

    base = tmp_path_factory.getbasetemp()
    shared = (base if worker_id == "master" else base.parent) / "papers"
    shared.mkdir(exist_ok=True)

    def of(name):
        folder, said = shared / name, shared / f"{name}.json"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # closing the file gives it back
            if not said.exists():
                said.write_text(json.dumps(reproduced(name, folder)), encoding="utf-8")
        return folder, json.loads(said.read_text(encoding="utf-8"))

    return of
