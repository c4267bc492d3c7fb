"""A training that kills itself on entering a system call: `python killed.py RUN FOLDER CALL NUMBER`.

CALL is rename, fsync or write; a write is cut off in the middle. With NUMBER 0 nothing is killed, and how often each call was
made is printed.
"""

import os
import signal
import sys
from pathlib import Path

import small

NAME, FOLDER, CALL, NUMBER = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
COUNTS = dict.fromkeys(("rename", "fsync", "write"), 0)


def _dies(call):
    COUNTS[call] += 1
    return call == CALL and COUNTS[call] == NUMBER


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


def _dying(call, original):
    def entered(*arguments, **named):
        if _dies(call):
            _die()
        return original(*arguments, **named)

    return entered


class Dying:
    """A file that is written."""

    def __init__(self, file):
        self._file = file

    def write(self, content):
        if _dies("write"):
            self._file.write(memoryview(content)[: len(content) // 2])
            self._file.flush()
            _die()
        return self._file.write(content)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()


_fdopen = os.fdopen


def fdopen(handle, mode="r", *arguments, **named):
    """Files to write are counted."""
    file = _fdopen(handle, mode, *arguments, **named)
    return Dying(file) if mode in ("wb", "ab") else file


os.replace = _dying("rename", os.replace)
os.fsync = _dying("fsync", os.fsync)
os.fdopen = fdopen
small.train(NAME, FOLDER)
print(*COUNTS.values())
