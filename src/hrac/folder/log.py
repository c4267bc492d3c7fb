"""Metrics of a run folder: `metrics.csv` (exactly repeatable), `timing.csv` (not), and the same for TensorBoard."""

import csv
import io
import os
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from hrac.errors import HracError
from hrac.folder.files import write_atomic

METRICS = "metrics.csv"
TIMING = "timing.csv"
METRICS_HEADER = "seed,step,name,value\n"
TIMING_HEADER = "step,seconds,steps_per_second\n"


class Row(NamedTuple):
    """One number of one run."""

    seed: int
    step: int
    name: str
    value: float


class LogError(HracError, ValueError):
    """A log that cannot be read or does not fit its checkpoint; the message says how."""


class RunLog:
    """Appends metrics to a run folder; `offset` is the length of `metrics.csv` that a checkpoint remembers."""

    def __init__(self, folder: Path, keep: int | None = None, step: int = 0) -> None:
        """Start new files, or go on after the first `keep` bytes of `metrics.csv`, which a checkpoint at `step` knows of."""
        self._metrics_path, self._timing_path = folder / METRICS, folder / TIMING
        self.seconds = 0.0
        """What the training had taken at the last evaluation before a checkpoint."""
        if keep is None:
            write_atomic(self._metrics_path, METRICS_HEADER.encode())
            write_atomic(self._timing_path, TIMING_HEADER.encode())
        else:
            content = self._metrics_path.read_bytes() if self._metrics_path.exists() else b""
            if len(content) < keep:
                raise LogError(f"{self._metrics_path} has {len(content)} bytes, its checkpoint knows of {keep}: it was cut")
            timing = self._timing_until(step)
            write_atomic(self._metrics_path, content[:keep])
            write_atomic(self._timing_path, timing.encode())
        self._metrics = self._metrics_path.open("a", newline="")
        self._timing = self._timing_path.open("a", newline="")
        self._events = EventFileWriter(str(folder))
        if keep is not None:  # tells TensorBoard to forget what was logged after the checkpoint
            session = SessionLog(status=SessionLog.START)
            self._events.add_event(Event(wall_time=time.time(), step=step + 1, session_log=session))

    def _timing_until(self, last_step: int) -> str:
        """The part of `timing.csv` that belongs to a checkpoint. A last line that was cut off in writing does not."""
        text = self._timing_path.read_text() if self._timing_path.exists() else ""
        kept = []
        for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines()[1:], start=2):
            try:
                step, seconds, _ = map(float, line.split(","))
            except ValueError:
                raise LogError(f"{self._timing_path}, line {number} is not {TIMING_HEADER.strip()}: {line!r}") from None
            if step <= last_step:
                kept.append(line + "\n")
                self.seconds = seconds
        return TIMING_HEADER + "".join(kept)

    @property
    def offset(self) -> int:
        """Bytes of `metrics.csv` so far, safely on disk."""
        self._metrics.flush()
        os.fsync(self._metrics.fileno())
        return self._metrics_path.stat().st_size

    def write(self, rows: list[Row]) -> None:
        """Append rows."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows((row.seed, row.step, row.name, repr(float(np.float32(row.value)))) for row in rows)
        self._metrics.write(text.getvalue())
        self._metrics.flush()
        for row in rows:
            self._event(row.step, f"{row.name}/seed{row.seed}", row.value)

    def write_timing(self, step: int, seconds: float, steps_per_second: float) -> None:
        """Append how fast it goes."""
        self._timing.write(f"{step},{seconds:.3f},{steps_per_second:.1f}\n")
        self._timing.flush()
        self._event(step, "time/steps_per_second", steps_per_second)

    def close(self) -> None:
        """Flush and close all files."""
        self._metrics.close()
        self._timing.close()
        self._events.close()

    def _event(self, step: int, tag: str, value: float) -> None:
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
        self._events.add_event(Event(wall_time=time.time(), step=step, summary=summary))


def read(folder: Path) -> list[Row]:
    """All rows of a run folder's `metrics.csv`; raises `LogError`."""
    path = folder / METRICS
    if not path.exists():
        raise LogError(f"{folder} is no run folder: it has no {METRICS}")
    rows = []
    with path.open(newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            try:
                rows.append(Row(int(row["seed"]), int(row["step"]), row["name"], float(row["value"])))
            except (KeyError, TypeError, ValueError):
                raise LogError(f"{path}, line {number} is not seed,step,name,value: {row}") from None
    return rows
