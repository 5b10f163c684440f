"""Sources of files: folders and archives, also damaged and hostile ones, and the search for them."""

import os
import tarfile
from pathlib import Path

import pytest

from fairmargin.data.card import Card, OfficialFile
from fairmargin.data.fetch import sources
from fairmargin.data.fetch.sources import Source, data_folder, locate
from fairmargin.errors import InputError
from tests.data.files import Files, pack, write

FILES = {"set/a.txt": b"first" * 400, "set/deep/b.bin": bytes(range(256)) * 9, "set/c.txt": b""}
KINDS = ("folder", ".zip", ".tar", ".tar.gz", ".tar.xz", ".tar.bz2")
CARD = Card("Things", "things", (), "none", "none", "none", "none", (OfficialFile("things.tar.gz", "https://x.org/t"),))


def packed(place: Path, kind: str, files: Files = FILES) -> Path:
    return write(place, files) if kind == "folder" else pack(place / f"things{kind}", files)


def everything(_: str) -> bool:
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_folder_zip_and_tar_agree(tmp_path, kind):
    source = Source(packed(tmp_path / "place", kind))
    assert source.kind == {"folder": "folder", ".zip": "zip"}.get(kind, "tar")
    assert sorted(source.names()) == sorted(FILES)
    assert dict(source.members(everything)) == FILES
    assert [name for name, _ in source.members(lambda name: name.endswith(".txt"))] == [
        name for name in source.names() if name.endswith(".txt")
    ]


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_archive_is_named(tmp_path, kind, share):
    noise = {f"set/{i}.bin": os.urandom(3000) for i in range(5)}
    path = packed(tmp_path, kind, noise)
    # A plain tar ends in many zeros that hold nothing.
    whole = path.read_bytes().rstrip(b"\0") if kind == ".tar" else path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    for read in (Source(path).names, lambda: list(Source(path).members(everything))):
        with pytest.raises(InputError, match=rf"{path.name} cannot be read.*download it again"):
            read()


@pytest.mark.parametrize("damage", ["truncated between two members", "an invalid header"])
def test_a_plain_tar_that_ends_too_early_is_refused(tmp_path, damage):
    path = packed(tmp_path, ".tar", {"one": b"1" * 512, "two": b"2" * 512})
    content = path.read_bytes()
    path.write_bytes(content[:1024] if damage.startswith("truncated") else content[:1024] + b"x" * 512 + content[1536:])
    with pytest.raises(InputError, match=r"things.tar cannot be read"):
        Source(path).names()


def test_a_damaged_member_of_a_zip_is_refused(tmp_path):
    path = packed(tmp_path, ".zip", {"noise": os.urandom(5000)})
    content = bytearray(path.read_bytes())
    content[2000] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"things.zip cannot be read \(Bad CRC"):
        list(Source(path).members(everything))


@pytest.mark.parametrize("name", ["notes.md", "notes.zip", "empty.tar.gz"])
def test_a_file_that_is_not_an_archive_is_named(tmp_path, name):
    (tmp_path / name).write_bytes(b"" if name.startswith("empty") else b"Just some words.")
    for read in (Source(tmp_path / name).names, lambda: list(Source(tmp_path / name).members(everything))):
        with pytest.raises(
            InputError, match=rf"{name} cannot be read. It is not a zip or tar archive, or it is truncated"
        ):
            read()


def test_a_member_with_a_path_outside_of_its_archive_is_harmless(tmp_path):
    for kind in (".zip", ".tar"):
        path = packed(tmp_path / "inside", kind, {"../../climbed.txt": b"!", "/tmp/../climbed": b"!"})
        assert len(list(Source(path).members(everything))) == 2
    assert sorted(item.name for item in tmp_path.rglob("*")) == ["inside", "things.tar", "things.zip"]


def test_links_in_a_tar_are_not_followed(tmp_path):
    path = tmp_path / "links.tar"
    with tarfile.open(path, "w") as tar:
        link = tarfile.TarInfo("a.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    assert Source(path).names() == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_that_is_too_large_is_not_read(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(sources, "_LARGEST", 1999)
    path = packed(tmp_path / "place", kind)
    with pytest.raises(InputError, match=r"set/a.txt has 2,000 bytes; at most 1,999"):
        list(Source(path).members(lambda name: name.endswith("a.txt")))


def test_the_checksum_of_an_archive_depends_on_its_content_only(tmp_path):
    path = packed(tmp_path, ".zip")
    other = tmp_path / "renamed.zip"
    other.write_bytes(path.read_bytes())
    assert Source(path).checksum() == Source(other).checksum()
    other.write_bytes(path.read_bytes() + b"\0")
    assert Source(path).checksum() != Source(other).checksum()


def test_the_checksum_of_a_folder_changes_with_every_file(tmp_path):
    source = Source(packed(tmp_path / "place", "folder"))
    seen = {source.checksum()}
    assert source.checksum() in seen
    file = source.path / "set" / "a.txt"
    before = file.stat()
    file.write_bytes(b"F" + file.read_bytes()[1:])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # the same name, size and date
    seen.add(source.checksum())
    file.rename(file.with_name("z.txt"))
    seen.add(source.checksum())
    (source.path / "new.txt").touch()
    seen.add(source.checksum())
    seen.add(Source(packed(tmp_path / "other", "folder")).checksum())
    assert len(seen) == 5


def holds_a(place: Path) -> bool:
    return (place / "a.txt").is_file()


def test_a_folder_is_found_at_the_root_and_one_level_below(tmp_path):
    packed(tmp_path / "data", "folder")
    for root in (tmp_path / "data" / "set", tmp_path / "data"):
        assert locate("things", CARD, root, folder=holds_a).path == tmp_path / "data" / "set"
    with pytest.raises(InputError, match="No files of things"):
        locate("things", CARD, tmp_path, folder=holds_a)


def test_an_archive_is_found_by_its_path_beside_other_files_and_one_level_below(tmp_path):
    path = packed(tmp_path / "data" / "things", ".tar.gz")
    for root in (path, path.parent, path.parent.parent):
        assert locate("things", CARD, root, folder=holds_a, archives=("thing*.tar.gz",)).path == path


def test_a_folder_is_preferred_to_an_archive(tmp_path):
    packed(tmp_path, ".tar.gz")
    packed(tmp_path, "folder")
    assert locate("things", CARD, tmp_path, folder=holds_a, archives=("*.tar.gz",)).path == tmp_path / "set"


def test_without_a_root_the_cache_folder_is_searched(tmp_path):
    assert data_folder("things") == tmp_path / "cache" / "files" / "things"
    path = packed(data_folder("things"), ".zip")
    assert locate("things", CARD, None, folder=holds_a, archives=("*.zip",)).path == path


def test_if_nothing_is_found_the_message_says_which_file_to_put_where(tmp_path):
    with pytest.raises(InputError) as usual:
        locate("things", CARD, None, folder=holds_a)
    assert str(data_folder("things")) in str(usual.value)
    assert "Put things.tar.gz there, or give their folder or archive with --root" in str(usual.value)
    assert "`fairmargin data things --download`" in str(usual.value)
    with pytest.raises(InputError, match=rf"No files of things at {tmp_path}\. Put things\.tar\.gz there\."):
        locate("things", CARD, tmp_path, folder=holds_a)


def test_a_folder_that_cannot_be_searched_is_named(tmp_path):
    def denied(place: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    with pytest.raises(InputError, match=rf"{tmp_path} cannot be searched for things \(Permission denied\)"):
        locate("things", CARD, tmp_path, folder=denied)
