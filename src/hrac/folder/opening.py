"""Opens a folder to train in: for a new run if there is none, or for the run that is there."""

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from hrac.errors import HracError
from hrac.folder.files import (
    BEST,
    CHECKPOINT,
    CONFIG,
    EVENTS,
    METRICS,
    POLICIES,
    TENSORBOARD,
    TIMING,
    naming,
    remove_leftovers,
)
from hrac.folder.lock import LOCK, locked
from hrac.folder.log import METRICS_HEADER

FOLDERS = (POLICIES, BEST, TENSORBOARD)


class RunFolderError(HracError, ValueError):
    """A folder that cannot be trained in or loaded from; the message says why and what to do."""


@contextlib.contextmanager
def new(wanted: Path, unique: bool = False) -> Iterator[Path]:
    """A folder for a new run, locked. With `unique` it is a new folder, if need be with a number at the end of its name.

    An error before the first metrics removes everything again, so that the corrected command can use the same folder.
    """
    if not unique:
        _require_no_run(wanted)
    folder, made = _make(wanted, unique)
    with locked(folder):
        _require_no_run(folder)  # another process may have started a run there
        remove_leftovers(folder)
        try:
            yield folder
        except Exception:
            if not _has_learned(folder):
                _undo(folder, made)
            raise


@contextlib.contextmanager
def existing(folder: Path) -> Iterator[None]:
    """The folder of a run, locked."""
    if not (folder / CONFIG).is_file():
        raise RunFolderError(f"{folder} is no run folder: it has no {CONFIG}")
    with locked(folder):
        remove_leftovers(folder)
        yield


def _require_no_run(folder: Path) -> None:
    """Raise if the folder has files that a run would overwrite."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise RunFolderError(f"{folder} is a file, a folder is needed")
    if os.path.lexists(folder / CONFIG):
        raise RunFolderError(f"{folder} already holds a run: go on with it (--resume {folder}) or choose another folder")
    for path in _own_files(folder):
        raise RunFolderError(f"{folder} holds a {path.name} without a {CONFIG}: nothing is overwritten, choose another folder")


def _own_files(folder: Path) -> list[Path]:
    """Files and folders with the names of a run's, except its lock."""
    named = [folder / name for name in (METRICS, TIMING, CHECKPOINT, *FOLDERS)]
    return [path for path in named if os.path.lexists(path)] + list(folder.glob(f"{EVENTS}*"))


def _make(wanted: Path, unique: bool) -> tuple[Path, list[Path]]:
    """Make a folder. Returns it and all folders that were made, the innermost first."""
    made = [path for path in wanted.parents if not path.exists()]
    with naming(wanted, "made"):
        wanted.parent.mkdir(parents=True, exist_ok=True)
    names = (wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}") for number in itertools.count(1))
    for folder in names:
        with naming(folder, "made"):
            try:
                folder.mkdir()
                return folder, [folder, *made]
            except FileExistsError:
                if not unique:
                    return folder, made
    raise AssertionError


def _has_learned(folder: Path) -> bool:
    metrics = folder / METRICS
    return metrics.exists() and metrics.stat().st_size > len(METRICS_HEADER)


def _undo(folder: Path, made: list[Path]) -> None:
    with contextlib.suppress(OSError):  # what cannot be removed stays: the first error is more important
        for path in [folder / CONFIG, *_own_files(folder), folder / LOCK]:
            if path.name in FOLDERS:  # which are empty before the first metrics
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
        for path in made:
            path.rmdir()
