"""The files of a dataset, wherever they lie: in a folder, in a zip or in a tar."""

import hashlib
import io
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path

from fairmargin.data.cache import cache_folder
from fairmargin.data.card import Card
from fairmargin.errors import FairmarginError, InputError, MissingDataError

_BLOCK = 2**20
_LARGEST = 2**32  # no dataset has a single file beyond 4 GiB: more is an archive made to fill the memory
_ZERO_BLOCK = bytes(tarfile.BLOCKSIZE)
# What readers of damaged archives raise, in their many ways.
BROKEN = (OSError, EOFError, zlib.error, LZMAError, tarfile.TarError, zipfile.BadZipFile, RuntimeError, ValueError)


@dataclass(frozen=True, slots=True)
class Source:
    """A folder, a zip or a tar (also .gz, .xz, .bz2) with files in it.

    Members are named as inside it, with forward slashes. Nothing is unpacked to disk, so that a member whose name
    climbs out of the archive can do no harm.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_bytes(b"hello")
    >>> list(Source(folder).members(lambda name: name.endswith(".txt")))
    [('a.txt', b'hello')]
    """

    path: Path

    @property
    def kind(self) -> str:
        """ "folder", "zip" or "tar"."""
        if self.path.is_dir():
            return "folder"
        return "zip" if self.path.suffix.lower() == ".zip" else "tar"

    def names(self) -> list[str]:
        """Every file; of a folder sorted, of an archive in its own order (a compressed tar is read whole for that)."""
        try:
            if self.kind == "folder":
                return sorted(p.relative_to(self.path).as_posix() for p in self.path.rglob("*") if p.is_file())
            if self.kind == "zip":
                with zipfile.ZipFile(self.path) as archive:
                    return [info.filename for info in archive.infolist() if not info.is_dir()]
            with tarfile.open(self.path) as tar:
                return [member.name for member in _files(tar)]
        except BROKEN as error:
            raise self._damaged(error) from error

    def members(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
        """The name and content of the wanted files, one at a time, in the order of `names`."""
        try:
            if self.kind == "folder":
                for name in filter(wanted, self.names()):
                    self._check_size(name, (self.path / name).stat().st_size)
                    yield name, (self.path / name).read_bytes()
            elif self.kind == "zip":
                with zipfile.ZipFile(self.path) as archive:
                    for info in archive.infolist():
                        if not info.is_dir() and wanted(info.filename):
                            self._check_size(info.filename, info.file_size)
                            yield info.filename, archive.read(info)
            else:
                with tarfile.open(self.path) as tar:
                    for member in _files(tar):
                        if wanted(member.name):
                            self._check_size(member.name, member.size)
                            content = tar.extractfile(member)
                            assert content is not None
                            yield member.name, content.read()
        except FairmarginError:  # a sentence already
            raise
        except BROKEN as error:
            raise self._damaged(error) from error

    def checksum(self) -> str:
        """sha256 of an archive; of a folder, of where it lies and of the names, sizes and times of its files."""
        digest = hashlib.sha256()
        try:
            if self.kind == "folder":
                # Files unpacked from reproducible archives all bear one date: the place and the time of the last change
                # of the inode keep two such folders apart.
                digest.update(f"{self.path.resolve()}\n".encode(errors="surrogateescape"))
                for name in self.names():
                    state = (self.path / name).stat()
                    line = f"{name}\0{state.st_size}\0{state.st_mtime_ns}\0{state.st_ctime_ns}\n"
                    digest.update(line.encode(errors="surrogateescape"))
            else:
                with self.path.open("rb") as stream:
                    while block := stream.read(_BLOCK):
                        digest.update(block)
        except OSError as error:
            raise self._damaged(error) from error
        return digest.hexdigest()

    def _check_size(self, name: str, size: int) -> None:
        if size > _LARGEST:
            raise InputError(f"{self.path}: {name} is said to be {size:,} bytes long; no file of a dataset is.")

    def _damaged(self, error: BaseException) -> InputError:
        if self.path.is_file() and not (tarfile.is_tarfile(self.path) or zipfile.is_zipfile(self.path)):
            what = "It is no zip or tar, or it is cut short: give a folder or an archive, or fetch it again."
            return InputError(f"{self.path} cannot be read. {what}")
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".:")
        return InputError(f"{self.path} cannot be read ({reason}). It may be cut short: fetch it again.")


def _files(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The files of a tar, in order: a compressed one has no way back."""
    for member in tar:
        if member.isfile():
            yield member
    # At a header that is none, tarfile just stops. Compression has checksums of its own; a plain tar must end in zeros.
    if isinstance(tar.fileobj, io.BufferedReader):
        tar.fileobj.seek(tar.offset)
        if tar.fileobj.read(tarfile.BLOCKSIZE) != _ZERO_BLOCK:
            raise tarfile.ReadError("unexpected end of data")


def data_folder(name: str) -> Path:
    """Where the files of a dataset are looked for, and downloaded to, when no root is given."""
    return cache_folder() / "files" / name


def locate(
    name: str, card: Card, root: Path | None, *, folder: Callable[[Path], bool], archives: Sequence[str] = ()
) -> Source:
    """The dataset's source at `root`: the root itself, what lies in it, or one level below.

    Parameters
    ----------
    name, card
        For the sentence that says which file to put where.
    root
        A folder or an archive; None for the usual place.
    folder
        Whether a folder directly holds the dataset's files.
    archives
        Patterns of archive names, such as "cifar-10-*.tar.gz".
    """
    start = data_folder(name) if root is None else Path(root)
    if start.is_file():
        return Source(start)
    if start.is_dir():
        try:
            found = _found(start, folder, archives)
        except OSError as error:
            raise InputError(f"{start} cannot be searched for {name} ({error.strerror or error}).") from error
        if found is not None:
            return Source(found)
    raise MissingDataError(_what_to_put_where(name, card, start, root is None, archives))


def _found(start: Path, folder: Callable[[Path], bool], archives: Sequence[str]) -> Path | None:
    below = sorted(path for path in start.iterdir() if path.is_dir())
    for place in (start, *below):
        if folder(place):
            return place
    for place in (start, *below):
        for pattern in archives:
            for path in sorted(place.glob(pattern)):
                return path
    return None


def _what_to_put_where(name: str, card: Card, start: Path, usual: bool, archives: Sequence[str]) -> str:
    files = ", ".join(file.name for file in card.files) or ", ".join(archives)
    shown = start.resolve() if start == Path() else start  # "at .." would be read as another folder
    found = f"No files of {name} at {shown}." if start.exists() else f"The files of {name} are not here ({start})."
    able = all(file.url for file in card.files) and bool(card.files)
    fetch = f" `fairmargin data {name} --download` fetches them where the network allows." if able else ""
    where = "there, or name their folder or archive with --root (root=)" if usual else "there"
    return f"{found} Put {files} {where}.{fetch} `fairmargin data {name}` says where they come from."
