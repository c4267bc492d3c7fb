"""What a run folder says of its run: its configuration, and a metric over training."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hrac import config as configs
from hrac.config import Config
from hrac.errors import HracError
from hrac.folder import files, log
from hrac.folder.files import CONFIG
from hrac.folder.log import Row
from hrac.folder.opening import RunFolderError

MOST_CONFIG_BYTES = 10_000_000


class Series(NamedTuple):
    """A metric over training: a number of each seed at each step."""

    seeds: tuple[int, ...]
    steps: NDArray[np.int64]
    """(n)"""
    values: NDArray[np.float64]
    """(seeds, n)"""

    @property
    def mean(self) -> NDArray[np.float64]:
        """Over seeds."""
        return self.values.mean(axis=0)


class NoSuchMetricError(HracError, ValueError):
    """A metric that a run folder does not have; the message names the metrics that it has."""


def read_config(folder: Path) -> Config:
    """The configuration of a run folder; raises `RunFolderError` if there is none."""
    path = folder / CONFIG
    if not path.exists():
        raise RunFolderError(f"{folder} is no run folder: it has no {CONFIG}")
    return configs.parse(files.read(path, MOST_CONFIG_BYTES), path)


def read_series(folder: Path, metric: str) -> Series:
    """A metric of a run folder, at the steps that all seeds have."""
    return series_of(folder, log.read(folder), metric)


def series_of(folder: Path, rows: Sequence[Row], metric: str) -> Series:
    """The same from rows that were read before."""
    table: dict[int, dict[int, float]] = {}
    for row in rows:
        if row.name == metric:
            table.setdefault(row.seed, {})[row.step] = row.value
    if not table:
        names = ", ".join(sorted({row.name for row in rows})) or "none yet"
        raise NoSuchMetricError(f"{folder} has no {metric!r}. Metrics are: {names}")
    steps = sorted(set.intersection(*(set(values) for values in table.values())))
    if not steps:
        raise NoSuchMetricError(f"{folder} has no step at which all of its {len(table)} seeds have {metric!r}")
    values = np.array([[values[step] for step in steps] for values in table.values()])
    return Series(tuple(table), np.array(steps), values)
