"""Each test of this folder has a cache of its own, so that it sees what is decoded and what is left behind."""

from pathlib import Path

import pytest

from fairmargin.data.fetch.cache import FOLDER_VARIABLE


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the cache of this test."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def kept_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use one cache for all tests of real files, so that they are decoded once."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path_factory.getbasetemp() / "kept-cache"))
