"""One training at a time in a run folder."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from hrac.errors import HracError
from hrac.folder.files import FileError, naming, open_regular

LOCK = ".lock"

if sys.platform == "win32":
    from filelock import lock_descriptor

    def _lock(handle: int, shared: bool = False) -> bool:
        """Windows has only exclusive locks here: two that ask `held` at once may take each other for a training."""
        return lock_descriptor(handle, blocking=False)

else:
    import fcntl

    def _lock(handle: int, shared: bool = False) -> bool:
        """Lock an open file until it is closed. Returns whether that was possible."""
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class BusyFolderError(HracError, RuntimeError):
    """Another process trains in this run folder."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Prevent a second training in the folder. The lock ends with the process, however that ends."""
    path = folder / LOCK
    with os.fdopen(open_regular(path, os.O_RDWR | os.O_CREAT)) as file:
        with naming(path, "locked"):
            try:
                # A start that fails removes the file. A process that opened it just before has no valid lock.
                ours = _lock(file.fileno()) and os.path.samestat(os.fstat(file.fileno()), path.lstat())
            except FileNotFoundError:
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
        return not _lock(file.fileno(), shared=True)
