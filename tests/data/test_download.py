"""Downloads from a server that cuts, refuses, redirects, is silent or sends the wrong bytes."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import md5, sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from filelock import FileLock

from fairmargin.data.card import Card, OfficialFile
from fairmargin.data.catalog import DATASETS
from fairmargin.data.fetch.download import download, transfer
from fairmargin.errors import InputError

CONTENT = np.random.RandomState(0).bytes(700_000)
CARD = Card("Things", "things", (), "none", "none", "none", "none")


@dataclass
class Behaviour:
    """The behaviour of a test's server, and the ranges that were requested."""

    content: bytes = CONTENT
    ranges: bool = True
    cut_after: int | None = None  # bytes of each answer after which the connection breaks
    status: int = 200
    announce: bool = True
    surplus: bytes = b""
    redirect: str = ""
    requests: list[str | None] = field(default_factory=list)


@contextmanager
def served(behaviour: Behaviour) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            span = self.headers.get("Range")
            behaviour.requests.append(span)
            if behaviour.redirect and self.path != "/real":
                self.send_response(302)
                self.send_header("Location", behaviour.redirect)
                self.end_headers()
                return
            start = int(re.match(r"bytes=(\d+)-", span)[1]) if span and behaviour.ranges else 0
            total = len(behaviour.content)
            if behaviour.status != 200 or start >= total:
                self.send_response(416 if start >= total else behaviour.status)
                self.send_header("Content-Range", f"bytes */{total}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = behaviour.content[start:]
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
            if behaviour.announce:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: behaviour.cut_after] + behaviour.surplus)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/things.bin"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def card(url: str, content: bytes = CONTENT, name: str = "things.bin") -> Card:
    sums = {"md5": md5(content).hexdigest(), "sha256": sha256(content).hexdigest()}
    return replace(CARD, files=(OfficialFile(name, url, **sums),))


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")


def test_a_file_is_downloaded_checked_and_renamed(tmp_path):
    reports = []
    with served(Behaviour()) as url:
        (path,) = download(card(url), tmp_path / "new" / "folder", lambda *step: reports.append(step))
    assert path == tmp_path / "new" / "folder" / "things.bin"
    assert path.read_bytes() == CONTENT
    assert not path.with_name("things.bin.part").exists()
    assert reports[-1] == ("Downloading things.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in reports] == sorted(done for _, done, _ in reports)
    assert len(reports) >= 3


def test_a_genuine_file_is_not_downloaded_again(tmp_path):
    (tmp_path / "things.bin").write_bytes(CONTENT)
    reports, behaviour = [], Behaviour()
    with served(behaviour) as url:
        download(card(url), tmp_path, lambda *step: reports.append(step))
    assert behaviour.requests == []
    assert reports == [("things.bin exists", len(CONTENT), len(CONTENT))]


def test_another_file_of_the_same_name_is_neither_overwritten_nor_accepted(tmp_path):
    (tmp_path / "things.bin").write_bytes(b"mine")
    behaviour = Behaviour()
    with (
        served(behaviour) as url,
        pytest.raises(InputError, match=r"things\.bin exists but is not the published file.*Move it away"),
    ):
        download(card(url), tmp_path)
    assert (tmp_path / "things.bin").read_bytes() == b"mine"
    assert behaviour.requests == []


@pytest.mark.parametrize(
    ("part", "ranges", "requests"),
    [
        (CONTENT[:300_000], True, ["bytes=300000-"]),
        (CONTENT[:300_000], False, ["bytes=300000-"]),
        (b"x" * 1000, True, ["bytes=1000-", None]),
        (CONTENT, True, ["bytes=700000-"]),
        (CONTENT, False, ["bytes=700000-"]),
        (CONTENT + b"too much", True, ["bytes=700008-", None]),
        (CONTENT + b"too much", False, ["bytes=700008-"]),
        (b"x" * len(CONTENT), True, ["bytes=700000-", None]),
        (b"x" * len(CONTENT), False, ["bytes=700000-"]),
    ],
)
def test_a_partial_file_is_continued_or_replaced(part, ranges, requests, tmp_path):
    (tmp_path / "things.bin.part").write_bytes(part)
    behaviour = Behaviour(ranges=ranges)
    with served(behaviour) as url:
        (path,) = download(card(url), tmp_path)
    assert path.read_bytes() == CONTENT
    assert behaviour.requests == requests


@pytest.mark.parametrize("link", ["symbolic", "hard"])
def test_a_partial_file_that_is_a_link_is_not_written_through(link, tmp_path):
    victim, part = tmp_path / "victim", tmp_path / "data" / "things.bin.part"
    victim.write_bytes(CONTENT[:1000])
    part.parent.mkdir()
    part.symlink_to(victim) if link == "symbolic" else part.hardlink_to(victim)
    behaviour = Behaviour()
    with served(behaviour) as url:
        (path,) = download(card(url), tmp_path / "data")
    assert path.read_bytes() == CONTENT
    assert victim.read_bytes() == CONTENT[:1000]
    assert not path.is_symlink()


def test_interrupted_downloads_continue_where_they_stopped(tmp_path):
    behaviour = Behaviour(cut_after=200_000)
    with served(behaviour) as url:
        (path,) = download(card(url), tmp_path)
    assert path.read_bytes() == CONTENT
    assert behaviour.requests == [None, "bytes=200000-", "bytes=400000-", "bytes=600000-"]


def test_after_too_many_interruptions_a_later_call_continues(tmp_path):
    behaviour = Behaviour(cut_after=100_000)
    with served(behaviour) as url:
        with pytest.raises(InputError, match=r"\(the connection was interrupted\).* 400,000 bytes received are kept"):
            download(card(url), tmp_path)
        assert not (tmp_path / "things.bin").exists()
        (path,) = download(card(url), tmp_path)
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("wrong", [{"md5": "0" * 32}, {"sha256": "0" * 64}])
def test_a_file_with_a_wrong_checksum_is_deleted(wrong, tmp_path):
    with served(Behaviour()) as url:
        genuine = card(url)
        published = replace(genuine, files=(replace(genuine.files[0], **wrong),))
        with pytest.raises(InputError, match=r"not things\.bin as published: the checksum differs.* put it into"):
            download(published, tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == []


def test_no_more_bytes_are_read_than_announced(tmp_path):
    with served(Behaviour(surplus=b"surplus" * 1000)) as url:
        (path,) = download(card(url), tmp_path)
    assert path.read_bytes() == CONTENT


def test_a_server_that_announces_no_length_is_read_up_to_a_limit(tmp_path, monkeypatch):
    with served(Behaviour(announce=False)) as url:
        (path,) = download(card(url), tmp_path / "a")
        assert path.read_bytes() == CONTENT
        monkeypatch.setattr("fairmargin.data.fetch.download._LARGEST", 1000)
        transfer(url, tmp_path / "b.part")
        assert (tmp_path / "b.part").stat().st_size == 1000


@pytest.mark.parametrize("status", [403, 404, 500])
def test_an_error_of_the_server_says_which_file_to_put_where(status, tmp_path):
    behaviour = Behaviour(status=status)
    with served(behaviour) as url, pytest.raises(InputError) as failure:
        download(card(url), tmp_path)
    assert f"things.bin could not be downloaded from {url} (the server answered {status}" in str(failure.value)
    assert f"put it into {tmp_path}" in str(failure.value)
    assert len(behaviour.requests) == 1


def test_a_server_that_is_silent_or_unreachable_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("fairmargin.data.fetch.download._TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/things.bin"
        with pytest.raises(InputError, match=r"\(timed out\)"):
            download(card(url), tmp_path)
    with pytest.raises(InputError, match=r"things\.bin could not be downloaded from http://127.* \(.*refused.*put it"):
        download(card(url), tmp_path)


def test_redirections_are_followed_within_http_only(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(CONTENT)
    with served(Behaviour(redirect="/real")) as url:
        (path,) = download(card(url), tmp_path / "a")
        assert path.read_bytes() == CONTENT
    for address in (secret.as_uri(), "ftp://127.0.0.1/x", "data:,x"):
        with served(Behaviour(redirect=address)) as url, pytest.raises(InputError, match="could not be downloaded"):
            download(card(url), tmp_path / "b")
    assert not (tmp_path / "b" / "things.bin").exists()


def test_files_may_be_in_subfolders(tmp_path):
    with served(Behaviour()) as url:
        (path,) = download(card(url, name="deep/things.bin"), tmp_path)
    assert path == tmp_path / "deep" / "things.bin"


def test_two_downloads_into_one_folder_are_refused(tmp_path):
    with FileLock(tmp_path / ".download.lock"), pytest.raises(InputError, match="Another process is downloading"):
        download(card("http://127.0.0.1:9/x"), tmp_path)


def test_every_downloadable_file_of_the_catalog_has_a_checksum():
    files = [file for entry in DATASETS.values() for file in entry.card.files if file.url]
    assert len(files) >= 11
    for file in files:
        assert file.url.startswith(("https://", "http://"))
        assert file.sha256 or file.md5, file.name
