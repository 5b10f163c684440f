"""What all tests share: a cache folder of their own, so that nobody's is touched and each dataset is decoded once."""

import os

# Before torch is loaded: where several workers share the processors, threads of each would only wait for one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

from fairmargin.data.fetch.cache import FOLDER_VARIABLE


@pytest.fixture(scope="session", autouse=True)
def _cache_of_the_tests(tmp_path_factory, worker_id):
    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent  # the workers of one run share theirs
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, str(shared / "fairmargin-cache"))
        yield
