"""The metrics of a run folder for TensorBoard: a folder per seed, so that seeds lie in one chart, and the settings."""

import os
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import masked_crc32c
from tensorboardX.summary import hparams

from hrac.folder.files import EVENTS, TENSORBOARD, Appended, folder_within
from hrac.folder.log import Row

SHOWN = ("eval/return", "eval/success")
"""The metrics beside the settings."""


class TensorBoard:
    """Appends to TensorBoard's files: RUN/tensorboard/seed-N, and RUN/tensorboard itself for the speed.

    It opens a file for each write and closes it again, so that hundreds of seeds need no more open files than one. Errors are
    raised at once, in this thread.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], step: int | None = None) -> None:
        """New files are made at the first write. With a step they go on after the checkpoint of that step."""
        self._folder, self._settings, self._step = folder / TENSORBOARD, settings, step
        self._files: dict[Path, Path] = {}

    def write(self, rows: Sequence[Row]) -> None:
        """Append rows, each to the file of its seed."""
        for seed in dict.fromkeys(row.seed for row in rows):
            scalars = [_scalar(row.step, row.name, row.value) for row in rows if row.seed == seed]
            self._append(self._folder / f"seed-{seed}", scalars)

    def write_speed(self, step: int, steps_per_second: float) -> None:
        """Append the speed of all seeds together."""
        self._append(self._folder, [_scalar(step, "time/steps_per_second", steps_per_second)])

    def close(self) -> None:
        """Nothing is open."""

    def _append(self, place: Path, events: Iterable[Event]) -> None:
        new = place not in self._files
        if new:
            folder_within(self._folder)
            self._files[place] = folder_within(place) / _name(place)
        file = Appended(self._files[place], new=new)
        try:
            everything = [*(self._beginning(place) if new else ()), *events]
            file.write(b"".join(_record(event.SerializeToString()) for event in everything))
        finally:
            file.close()

    def _beginning(self, place: Path) -> Iterator[Event]:
        yield Event(wall_time=time.time(), file_version="brain.Event:2")
        if self._step is not None:  # TensorBoard forgets what was logged after the checkpoint
            yield Event(wall_time=time.time(), step=self._step + 1, session_log=SessionLog(status=SessionLog.START))
        elif place != self._folder:
            experiment, begun, _ = hparams(dict(_flat(self._settings)), dict.fromkeys(SHOWN))
            yield Event(wall_time=time.time(), summary=experiment)
            yield Event(wall_time=time.time(), summary=begun)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str | bool | float]]:
    """Dotted names, and values that TensorBoard knows; those that are not set are left out.

    >>> dict(_flat({"k": 10, "manager": {"eta": 20.0, "hidden": [300, 300], "value_scale": None}}))
    {'k': 10, 'manager.eta': 20.0, 'manager.hidden': '[300, 300]'}
    """
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif value is not None:
            yield prefix + name, value if isinstance(value, str | bool | int | float) else str(value)


def _name(place: Path) -> str:
    """A name that no file has."""
    name = f"{EVENTS}{int(time.time()):010}.{socket.gethostname()}.{os.getpid()}"
    return f"{name}.{len(list(place.glob(f'{name}.*')))}"


def _record(content: bytes) -> bytes:
    """A record of TensorBoard's file: the length, the content, and a checksum of each."""
    length = struct.pack("<Q", len(content))
    return length + struct.pack("<I", masked_crc32c(length)) + content + struct.pack("<I", masked_crc32c(content))


def _scalar(step: int, tag: str, value: float) -> Event:
    return Event(wall_time=time.time(), step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)]))
