"""Metrics of a run folder: `metrics.csv` (exactly repeatable) and `timing.csv` (not)."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from hrac.errors import HracError
from hrac.folder.files import METRICS, TIMING, Appended, write_atomic
from hrac.folder.files import read as read_file

METRICS_HEADER = "seed,step,name,value\n"
TIMING_HEADER = "step,seconds,steps_per_second\n"


class Row(NamedTuple):
    """One number of one run."""

    seed: int
    step: int
    name: str
    value: float


@runtime_checkable
class Logger(Protocol):
    """Receives the numbers of a training: those of `metrics.csv`, when they are written there."""

    def write(self, rows: Sequence[Row]) -> None:
        """Take the numbers of one step."""
        ...

    def close(self) -> None:
        """The training has ended, in whatever way."""
        ...


class LogError(HracError, ValueError):
    """A log that cannot be read or does not fit its checkpoint; the message says how."""


class RunLog:
    """Appends metrics to a run folder; `offset` is the length of `metrics.csv` that a checkpoint remembers."""

    def __init__(self, folder: Path, keep: int | None = None, step: int = 0) -> None:
        """Start new files, or continue after the first `keep` bytes of `metrics.csv`, those of a checkpoint at `step`."""
        metrics, timing = folder / METRICS, folder / TIMING
        self.seconds = 0.0
        """Seconds of training until the last evaluation before the checkpoint."""
        if keep is None:
            write_atomic(metrics, METRICS_HEADER.encode())
            write_atomic(timing, TIMING_HEADER.encode())
        else:
            content = read_file(metrics) if metrics.exists() else b""
            if len(content) < keep:
                raise LogError(f"{metrics} has {len(content)} bytes, its checkpoint knows of {keep}: it was cut")
            before = self._timing_until(timing, step)
            write_atomic(metrics, content[:keep])
            write_atomic(timing, before.encode())
        self._metrics, self._timing = Appended(metrics), Appended(timing)

    def _timing_until(self, path: Path, last_step: int) -> str:
        """The part of `timing.csv` that belongs to a checkpoint. An incomplete last line does not."""
        text = _read_text(path) if path.exists() else ""
        kept = []
        for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines()[1:], start=2):
            try:
                step, seconds, _ = map(float, line.split(","))
            except ValueError:
                raise LogError(f"{path}, line {number} is not {TIMING_HEADER.strip()}: {line!r}") from None
            if step <= last_step:
                kept.append(line + "\n")
                self.seconds = seconds
        return TIMING_HEADER + "".join(kept)

    @property
    def offset(self) -> int:
        """Bytes of `metrics.csv` so far, safely on disk."""
        return self._metrics.size()

    def write(self, rows: Sequence[Row]) -> None:
        """Append rows."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows((row.seed, row.step, row.name, repr(float(np.float32(row.value)))) for row in rows)
        self._metrics.write(text.getvalue().encode())

    def write_timing(self, step: int, seconds: float, steps_per_second: float) -> None:
        """Append the time and the speed."""
        self._timing.write(f"{step},{seconds:.3f},{steps_per_second:.1f}\n".encode())

    def close(self) -> None:
        """Close both files."""
        self._metrics.close()
        self._timing.close()


def read(folder: Path) -> list[Row]:
    """All rows of a run folder's `metrics.csv`; raises `LogError`."""
    path = _log_of(folder)
    return list(_rows(path, _read_text(path)))


class Salvaged(NamedTuple):
    """What can be read of a damaged log."""

    rows: list[Row]
    """All before the damage."""
    damage: str | None
    """What is wrong; None: nothing is."""


def salvage(folder: Path) -> Salvaged:
    """The rows of a `metrics.csv` up to a line that is half-written or damaged; raises `LogError` if there is no such file."""
    path, rows, damage = _log_of(folder), [], None
    content = read_file(path)
    complete = content[: content.rfind(b"\n") + 1]
    if complete != content:
        damage = f"{path} ends in the middle of a line, which is left out"
    text = complete.decode(errors="replace")
    try:
        for row in _rows(path, text):
            rows.append(row)  # one by one, so that those before an error are kept
    except LogError as error:
        damage = f"{error}. The {len(rows):,} rows before it are shown"
    return Salvaged(rows, damage)


class Timing(NamedTuple):
    """The time of an evaluation."""

    step: int
    seconds: float
    """Of training so far."""
    steps_per_second: float
    """Of all seeds together, since the evaluation before."""


def read_timing(folder: Path) -> list[Timing]:
    """All rows of a run folder's `timing.csv`; raises `LogError`."""
    path = folder / TIMING
    if not path.exists():
        raise LogError(f"{folder} has no {TIMING}")
    rows = []
    try:
        for line in csv.DictReader(io.StringIO(_read_text(path), newline="")):
            rows.append(Timing(int(line["step"]), float(line["seconds"]), float(line["steps_per_second"])))
    except (csv.Error, KeyError, TypeError, ValueError) as error:
        raise error if isinstance(error, LogError) else LogError(f"{path} is not a table of times: {error}") from None
    return rows


def _log_of(folder: Path) -> Path:
    path = folder / METRICS
    if not path.exists():
        raise LogError(f"{folder} is no run folder: it has no {METRICS}")
    return path


def _rows(path: Path, text: str) -> Iterator[Row]:
    try:
        for number, row in enumerate(csv.DictReader(io.StringIO(text, newline="")), start=2):
            try:
                yield Row(int(row["seed"]), int(row["step"]), row["name"], float(row["value"]))
            except (KeyError, TypeError, ValueError):
                raise LogError(f"{path}, line {number} is not seed,step,name,value: {row}") from None
    except csv.Error as error:
        raise LogError(f"{path} is no table: {error}") from None


def _read_text(path: Path) -> str:
    try:
        return read_file(path).decode()
    except UnicodeDecodeError as error:
        raise LogError(f"{path} is no text: {error}") from None
