"""Cells in processes of this machine, so that memory is returned and one that crashes does not end the others."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from hrac.experiments.sweep import Cell
from hrac.folder import files
from hrac.sweeps import work
from hrac.sweeps.board import Board
from hrac.sweeps.work import Report

GPU_MEMORY = "XLA_PYTHON_CLIENT_MEM_FRACTION"
SECONDS_TO_END = 20.0

APART: dict[str, Any]
"""Ctrl-C of the terminal does not reach a process that is started with these options."""
if sys.platform == "win32":
    APART, STOP = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}, signal.CTRL_BREAK_EVENT
else:
    APART, STOP = {"start_new_session": True}, signal.SIGINT


def run(cells: Sequence[Cell], board: Board, stop: Callable[[], bool], end: float | None = None, jobs: int = 1) -> None:
    """Train cells, `jobs` at once, until all have ended or `stop()`. Cells that others train are left alone."""
    waiting, running, told = deque(cells), list[_Child](), False
    shared = {GPU_MEMORY: f"{0.9 / jobs:.3f}"} if jobs > 1 else {}
    try:
        while running or (waiting and not stop()):
            while waiting and len(running) < jobs and not stop():
                if board.wanted(cell := waiting.popleft()):
                    running.append(_Child(cell, end, shared | dict(os.environ)))
            if stop() and not told:
                told = True
                board.say("stopping: each cell writes a checkpoint ...")
                for child in running:
                    child.interrupt()
            for child in [child for child in running if child.ended]:
                running.remove(child)
                board.ended(child.cell, child.report(told))
            board.refresh()
            time.sleep(0.1)
    finally:
        for child in running:
            child.interrupt()  # a second time: it ends at once
        for child in running:
            child.kill()


class _Child:
    """The process of a cell. It has no terminal, so that Ctrl-C reaches it once, from here."""

    def __init__(self, cell: Cell, end: float | None, environment: dict[str, str]) -> None:
        self.cell = cell
        log = files.open_regular(work.log_of(cell.folder), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hrac.sweeps.child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                text=True,
                **APART,
            )
        finally:
            os.close(log)
        self._input, self._output = self._process.stdin, self._process.stdout
        assert self._input is not None
        with contextlib.suppress(BrokenPipeError):  # it has died already, which its exit code tells
            self._input.write(json.dumps(work.order(cell, end)) + "\n")
            self._input.flush()

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def report(self, told: bool) -> Report:
        """How it ended; `told` to end, it need not have reported anything."""
        assert self._output is not None
        lines = self._output.read().splitlines()
        self._close()
        with contextlib.suppress(ValueError, IndexError):
            return dict(json.loads(lines[-1]))
        if told:
            return {"end": work.STOPPED, "error": ""}
        code = self._process.returncode
        reason = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return {"end": work.FAILED, "error": f"{reason}; {_last_line(self.cell)}"}

    def interrupt(self) -> None:
        self._process.send_signal(STOP)

    def kill(self) -> None:
        """Wait for its end, but not long."""
        try:
            self._process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._close()

    def _close(self) -> None:
        for pipe in (self._input, self._output):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def _last_line(cell: Cell) -> str:
    lines = files.read(work.log_of(cell.folder)).decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
