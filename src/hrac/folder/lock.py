"""One training at a time in a run folder."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from hrac.errors import HracError


class BusyFolderError(HracError, RuntimeError):
    """A run folder in which another process trains."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second training out of the folder. The lock ends with the process, however that ends."""
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyFolderError(f"{folder} is being trained in by another process") from None
        yield
