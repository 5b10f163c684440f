"""What the tests of the papers share: the cache folder of all tests, and each paper run once at smoke scale."""

import fcntl
import json

import pytest

from tests.conftest import _cache_of_the_tests  # noqa: F401 - a fixture


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
