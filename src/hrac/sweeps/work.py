"""One cell in one process: started, or continued from its checkpoint, with a log beside its folder."""

import contextlib
import os
import socket
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hrac import api
from hrac import config as configs
from hrac.errors import HracError
from hrac.experiments.sweep import Cell
from hrac.folder import files
from hrac.folder.files import CONFIG
from hrac.folder.lock import BusyFolderError
from hrac.folder.opening import RunFolderError
from hrac.folder.progress import Plain
from hrac.sweeps import status
from hrac.sweeps.status import State
from hrac.training.session import steps_reached

Order = dict[str, Any]
"""What to train, in plain values for JSON."""
Report = dict[str, str]
"""How it ended: `end` is one of the ends below, `error` says why it failed."""

FINISHED, STOPPED, BUSY, FAILED = "finished", "stopped", "busy", "failed"


def order(cell: Cell, end: float | None = None, patience: float = 2.0) -> Order:
    """An order to train a cell until it is finished or until the time `end`, in seconds since 1970.

    A folder that another process trains in is tried again for `patience` seconds.
    """
    return {"folder": str(cell.folder.absolute()), "config": configs.to_dict(cell.config), "end": end, "patience": patience}


def log_of(folder: Path) -> Path:
    """What a cell's processes printed."""
    return folder.with_name(f"{folder.name}.log")


def obey(given: Order) -> Report:
    """Train as ordered. Errors are reported, not raised."""
    cell = Cell(Path(given["folder"]), configs.from_dict(given["config"]), {})
    if not cell.folder.parent.is_dir():
        missing = (
            f"{cell.folder.parent} is not there on {socket.gethostname()}: the folder of a sweep must be shared by all machines"
        )
        return {"end": FAILED, "error": missing}
    with _logging(log_of(cell.folder)):
        try:
            return {"end": _train(cell, given["end"], given["patience"]), "error": ""}
        except BusyFolderError:
            return {"end": BUSY, "error": ""}
        except KeyboardInterrupt:
            return {"end": STOPPED, "error": ""}
        except (HracError, OSError) as error:
            print(f"error: {error}", flush=True)
            return {"end": FAILED, "error": " ".join(str(error).split())}
        except Exception as error:  # a bug: its traceback is in the log
            traceback.print_exc()
            return {"end": FAILED, "error": f"{type(error).__name__}: {error}".partition("\n")[0]}


def _train(cell: Cell, end: float | None, patience: float) -> str:
    patient_until = time.monotonic() + patience
    while True:
        found = (cell.folder / CONFIG).exists()
        try:
            state = status.read(cell).state
            if state == State.FINISHED:
                return FINISHED
            if state == State.RUNNING:
                raise BusyFolderError(f"another process trains in {cell.folder}")
            minutes = None if end is None else (end - time.time()) / 60
            if minutes is not None and minutes <= 0:
                return STOPPED
            return FINISHED if _start(cell, found, minutes) else STOPPED
        except BusyFolderError:
            if time.monotonic() > patient_until:
                raise
        except RunFolderError:
            if found or not (cell.folder / CONFIG).exists():
                raise  # otherwise another process began a run just now
        time.sleep(0.2)


def _start(cell: Cell, found: bool, minutes: float | None) -> bool:
    """Train a cell; whether it is finished then."""
    shown = Plain(cell.config.training.total_env_steps)
    who = f"process {os.getpid()} on {socket.gethostname()}"
    print(f"{who}: {f'goes on from step {steps_reached(cell.folder):,}' if found else 'starts'}", flush=True)
    if found:
        outcome = api.resume(cell.folder, display=shown, minutes=minutes)
    else:
        outcome = api.run(cell.config, cell.folder, shown, minutes)
    print(f"{who}: {'finished' if outcome.finished else 'stopped'} at step {outcome.env_steps:,}", flush=True)
    return outcome.finished


@contextlib.contextmanager
def _logging(path: Path) -> Iterator[None]:
    """What Python prints is appended to a file."""
    handle = files.open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with os.fdopen(handle, "a") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        yield
