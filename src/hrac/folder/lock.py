"""One training at a time in a run folder."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from hrac.errors import HracError
from hrac.folder.files import FileError, naming, open_regular

LOCK = ".lock"


class BusyFolderError(HracError, RuntimeError):
    """Another process trains in this run folder."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Prevent a second training in the folder. The lock ends with the process, however that ends."""
    path = folder / LOCK
    with os.fdopen(open_regular(path, os.O_RDWR | os.O_CREAT)) as file:
        with naming(path, "locked"):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A start that fails removes the file. A process that opened it just before has no valid lock.
                ours = os.path.samestat(os.fstat(file.fileno()), path.lstat())
            except (BlockingIOError, FileNotFoundError):
                ours = False
        if not ours:
            raise BusyFolderError(f"another process trains in {folder}")
        yield


def held(folder: Path) -> bool:
    """Whether a process trains in the folder. A training that starts at this very moment is refused, and should try again."""
    try:
        handle = open_regular(folder / LOCK, os.O_RDONLY)
    except FileError:
        if not os.path.lexists(folder / LOCK):
            return False
        raise
    with os.fdopen(handle) as file, naming(folder / LOCK, "locked"):
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
