"""Files of a run folder: complete or not there at all, and never reached through a symbolic link."""

import contextlib
import errno
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from hrac.errors import HracError

CONFIG = "config.json"
METRICS = "metrics.csv"
TIMING = "timing.csv"
CHECKPOINT = "checkpoint.safetensors"
POLICIES = "policy"
BEST = "best"
"""The policies of each seed's best evaluation."""
TENSORBOARD = "tensorboard"
EVENTS = "events.out.tfevents."
"""Start of the names of TensorBoard's files."""

_RANDOM = r"[a-z0-9_]{8}"  # what mkstemp puts into a name
_LEFTOVER = re.compile(rf"\.({'|'.join(map(re.escape, (CONFIG, METRICS, TIMING, CHECKPOINT)))})\.{_RANDOM}\.tmp")
_LEFTOVER_POLICY = re.compile(rf"\.seed-\d+\.safetensors\.{_RANDOM}\.tmp")

if sys.platform == "win32":
    _OPENED = os.O_BINARY | os.O_NOINHERIT
else:
    _OPENED = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FileError(HracError, OSError):
    """A file that cannot be read or written; the message names it."""


@contextlib.contextmanager
def naming(path: Path, doing: str = "written") -> Iterator[None]:
    """Turns errors of the operating system into a `FileError` that names this file."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{path} cannot be {doing}: {error.strerror or error}") from error


def open_regular(path: Path, flags: int) -> int:
    """Open a regular file, never a link, a device or a pipe, and return its descriptor. Raises `FileError`."""
    with naming(path, "opened"):
        if sys.platform == "win32":  # which cannot open a file without following links
            refuse_link(path)
        try:
            handle = os.open(path, flags | _OPENED, 0o644)
        except OSError as error:
            if error.errno == errno.ELOOP:
                refuse_link(path)
            raise
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise FileError(f"{path} is no regular file")
        return handle


def open_to_read(path: Path, most_bytes: int | None = None) -> IO[bytes]:
    """Open a regular file of at most this size; raises `FileError`."""
    file = os.fdopen(open_regular(path, os.O_RDONLY), "rb")
    size = os.fstat(file.fileno()).st_size
    if most_bytes is not None and size > most_bytes:
        file.close()
        raise FileError(f"{path} has {size:,} bytes, more than the {most_bytes:,} that such a file may have")
    return file


def read(path: Path, most_bytes: int | None = None) -> bytes:
    """The content of a regular file; raises `FileError`."""
    with open_to_read(path, most_bytes) as file, naming(path, "read"):
        return file.read()


def refuse_link(path: Path) -> None:
    """Raise `FileError` if the path is a symbolic link."""
    if path.is_symlink():
        raise FileError(f"{path} is a symbolic link: it is not followed")


def folder_within(path: Path) -> Path:
    """A folder in a run folder, made if it is not there; raises `FileError` if it is a link."""
    with naming(path, "made"):
        path.mkdir(exist_ok=True)
    refuse_link(path)
    return path


def to_write(path: str | Path, formats: Sequence[str], name: str = "path") -> Path:
    """A path to write a picture or a film to, whose folder is made; raises `FileError` for another format or a link."""
    path = Path(path)
    if path.suffix not in formats:
        *others, last = formats
        raise FileError(f"{name} must end in {', '.join(others)} or {last}, got {str(path)!r}")
    refuse_link(path)
    with naming(path.parent, "made"):
        path.parent.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, which replaces the old one when it is complete: a crash at any moment leaves one of the two."""
    with naming(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                if sys.platform != "win32":
                    os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
            os.replace(temporary, path)  # noqa: PTH105
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        if sys.platform != "win32":  # where a folder cannot be opened
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def write_atomic(path: Path, content: bytes) -> None:
    """Write a whole file; raises `FileError`."""
    with atomic(path) as file:
        file.write(content)


class Appended:
    """A file to append to. There is no buffer, so an error belongs to the present write."""

    def __init__(self, path: Path, new: bool = False) -> None:
        self._path = path
        flags = os.O_CREAT | os.O_EXCL if new else 0
        self._file = os.fdopen(open_regular(path, os.O_WRONLY | os.O_APPEND | flags), "ab", buffering=0)

    def write(self, content: bytes) -> None:
        """Append; raises `FileError`."""
        left = memoryview(content)
        with naming(self._path):
            while left:
                left = left[self._file.write(left) :]

    def size(self) -> int:
        """Bytes so far, safely on disk; raises `FileError`."""
        with naming(self._path):
            os.fsync(self._file.fileno())
            return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def remove_leftovers(folder: Path) -> None:
    """Delete temporary files of `atomic` that a crash left in a run folder, and nothing else."""
    for place, pattern in ((folder, _LEFTOVER), (folder / POLICIES, _LEFTOVER_POLICY), (folder / BEST, _LEFTOVER_POLICY)):
        if place != folder and (place.is_symlink() or not place.is_dir()):
            continue
        for path in place.iterdir():
            if pattern.fullmatch(path.name):
                with naming(path, "removed"):
                    path.unlink(missing_ok=True)
