"""Sources of files: a folder, a zip archive or a tar archive, and the search for the source of a dataset."""

import hashlib
import io
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path

from fairmargin.data.card import Card
from fairmargin.data.fetch.cache import cache_folder
from fairmargin.errors import FairmarginError, InputError, MissingDataError

_BLOCK = 2**20
_LARGEST = 2**32  # no dataset has a file above 4 GiB; a larger one may be an archive made to exhaust memory
_ZERO_BLOCK = bytes(tarfile.BLOCKSIZE)
# The exceptions that readers of damaged archives raise.
BROKEN = (OSError, EOFError, zlib.error, LZMAError, tarfile.TarError, zipfile.BadZipFile, RuntimeError, ValueError)


@dataclass(frozen=True, slots=True)
class Source:
    """A folder, a zip archive or a tar archive (also .gz, .xz, .bz2) with files.

    Members are named by their paths inside the source, with forward slashes. Nothing is extracted to disk, so member
    names with ".." are harmless.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_bytes(b"hello")
    >>> list(Source(folder).members(lambda name: name.endswith(".txt")))
    [('a.txt', b'hello')]
    """

    path: Path

    @property
    def kind(self) -> str:
        """The kind of source: "folder", "zip" or "tar"."""
        if self.path.is_dir():
            return "folder"
        return "zip" if self.path.suffix.lower() == ".zip" else "tar"

    def names(self) -> list[str]:
        """List all files: sorted for a folder, in archive order otherwise. A compressed tar is read completely."""
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
        """Yield name and content of the selected files, one at a time, in the order of `names`."""
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
        except FairmarginError:  # already has a clear message
            raise
        except BROKEN as error:
            raise self._damaged(error) from error

    def checksum(self) -> str:
        """Compute the sha256 of an archive; for a folder, of its path and the names, sizes and times of its files."""
        digest = hashlib.sha256()
        try:
            if self.kind == "folder":
                # Files from reproducible archives all have the same date, so the path of the folder and the time of
                # the last inode change are needed to distinguish two such folders.
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
            raise InputError(f"{self.path}: {name} has {size:,} bytes; at most {_LARGEST:,} are supported.")

    def _damaged(self, error: BaseException) -> InputError:
        if self.path.is_file() and not (tarfile.is_tarfile(self.path) or zipfile.is_zipfile(self.path)):
            what = (
                "It is not a zip or tar archive, or it is truncated: give a folder or an archive, or download it again."
            )
            return InputError(f"{self.path} cannot be read. {what}")
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".:")
        return InputError(f"{self.path} cannot be read ({reason}). It may be truncated: download it again.")


def _files(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the files of a tar archive in order, since a compressed archive cannot be read backwards."""
    for member in tar:
        if member.isfile():
            yield member
    # tarfile stops silently at an invalid header. Compressed archives have checksums; a plain tar must end in zeros.
    if isinstance(tar.fileobj, io.BufferedReader):
        tar.fileobj.seek(tar.offset)
        if tar.fileobj.read(tarfile.BLOCKSIZE) != _ZERO_BLOCK:
            raise tarfile.ReadError("unexpected end of data")


def data_folder(name: str) -> Path:
    """Return the folder in which the files of a dataset are searched, and saved, if no root is given."""
    return cache_folder() / "files" / name


def locate(
    name: str, card: Card, root: Path | None, *, folder: Callable[[Path], bool], archives: Sequence[str] = ()
) -> Source:
    """Find the source of a dataset: the root itself, a folder or archive in it, or one level below.

    The root is a folder or an archive; None is the default folder. `folder` returns whether a folder directly contains
    the files of the dataset; `archives` are patterns such as "cifar-10-*.tar.gz". Name and card are for error messages.
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
    raise MissingDataError(_missing_files(name, card, start, root is None, archives))


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


def _missing_files(name: str, card: Card, start: Path, is_default: bool, archives: Sequence[str]) -> str:
    files = ", ".join(file.name for file in card.files) or ", ".join(archives)
    shown = start.resolve() if start == Path() else start  # "at .." could be read as the parent folder
    found = f"No files of {name} at {shown}." if start.exists() else f"There is no folder {start} with files of {name}."
    downloadable = all(file.url for file in card.files) and bool(card.files)
    fetch = f" `fairmargin data {name} --download` downloads them." if downloadable else ""
    where = "there, or give their folder or archive with --root (root=)" if is_default else "there"
    return f"{found} Put {files} {where}.{fetch} `fairmargin data {name}` shows their origin."
