"""How far a cell of a sweep is, read from its run folder alone."""

import enum
import functools
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hrac import config as configs
from hrac.config import Config
from hrac.errors import HracError
from hrac.experiments.sweep import Cell
from hrac.folder import files, lock, reading
from hrac.folder.files import CONFIG, METRICS, TIMING
from hrac.folder.log import LogError
from hrac.folder.progress import Status as Numbers
from hrac.training import session


class SweepError(HracError, ValueError):
    """A sweep that cannot be run; the message says why and what to do."""


class State(enum.StrEnum):
    """What has become of a cell."""

    NOT_STARTED = "not started"
    RUNNING = "running"
    STOPPED = "stopped"
    FINISHED = "finished"
    FAILED = "failed"


class Status(NamedTuple):
    """The state of a cell."""

    state: State
    numbers: Numbers
    """Of its last evaluation."""
    error: str = ""
    """Why it failed."""


NOTHING = Numbers(0, math.nan, math.nan, math.nan, math.nan)


def read(cell: Cell) -> Status:
    """The state of a cell; raises `HracError` if its folder cannot be read or belongs to another configuration.

    It is finished when its checkpoint and an evaluation of all of its seeds are at the last step.
    """
    folder, config = cell.folder, cell.config
    if not os.path.lexists(folder / CONFIG):
        return Status(State.RUNNING if lock.held(folder) else State.NOT_STARTED, NOTHING)
    require_same(cell)
    running, numbers = lock.held(folder), _numbers(folder, config)
    if running:
        return Status(State.RUNNING, numbers)
    reached, last = session.steps_reached(folder), config.training.total_env_steps
    finished = reached >= last and numbers.step >= last
    return Status(State.FINISHED if finished else State.STOPPED, numbers)


def require_same(cell: Cell) -> None:
    """Raise `SweepError` if the folder of a cell has a run of another configuration."""
    found = reading.read_config(cell.folder)
    if different := configs.differences(found, cell.config):
        name = different[0]
        was, wanted = configs.value_of(found, name), configs.value_of(cell.config, name)
        raise SweepError(
            f"{cell.folder} has a run with {name} = {was!r:.80}, the sweep has {wanted!r:.80}: "
            "go on with the settings it was started with, or choose another folder (--out)"
        )


def _numbers(folder: Path, config: Config) -> Numbers:
    try:
        return _read_numbers(folder, config.seeds, *_stamp(folder / METRICS), *_stamp(folder / TIMING))
    except ValueError as error:
        raise LogError(f"{folder}: {METRICS} or {TIMING} is damaged: {error}") from None


def _stamp(path: Path) -> tuple[int, int]:
    """Changes when the file does."""
    try:
        about = path.stat()
    except OSError:
        return 0, 0
    return about.st_mtime_ns, about.st_size


@functools.lru_cache(maxsize=1024)
def _read_numbers(folder: Path, seeds: tuple[int, ...], *stamps: int) -> Numbers:
    """The last evaluation that has all seeds; `stamps` are for the cache."""
    found: dict[int, dict[str, dict[int, float]]] = {}
    for seed, step, name, value in _rows(folder / METRICS, 4):
        if name in ("eval/return", "eval/success"):
            found.setdefault(int(step), {}).setdefault(name, {})[int(seed)] = float(value)
    complete = [step for step, names in found.items() if set(names.get("eval/return", ())) == set(seeds)]
    if not complete:
        return NOTHING
    last = max(complete)
    paces = [float(pace) for *_, pace in _rows(folder / TIMING, 3)]
    success = found[last].get("eval/success")
    return NOTHING._replace(
        step=last,
        steps_per_second=paces[-1] if paces else math.nan,
        eval_return=_mean(found[last]["eval/return"]),
        success=_mean(success) if success else math.nan,
    )


def _mean(values: Mapping[int, float]) -> float:
    return sum(values.values()) / len(values)


def _rows(path: Path, fields: int) -> list[list[str]]:
    """The complete lines of a table without its header: a process may be writing the last one. Raises `LogError`."""
    if not path.exists():
        return []
    text = files.read(path).decode(errors="replace")
    rows = [line.split(",") for line in text[: text.rfind("\n") + 1].splitlines()[1:]]
    if wrong := [row for row in rows if len(row) != fields]:
        raise LogError(f"{path} is damaged: {','.join(wrong[0])[:80]!r} is no line of it")
    return rows
