"""Files that are either wholly there or not there at all."""

import os
import tempfile
from pathlib import Path


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that a crash at any moment leaves the old one or the new one, complete."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove_leftovers(folder: Path) -> None:
    """Delete the temporary files of writes that a crash cut off."""
    for path in folder.rglob(".*.tmp"):
        path.unlink()
