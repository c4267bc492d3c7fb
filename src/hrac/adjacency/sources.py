"""Sources of the labelled pairs of positions that the adjacency network learns from. `adjacency.source` chooses one.

table          the k-step relation of explored cells, built from trajectories (the paper's adjacency matrix)
oracle         the true relation, from an environment that knows its distances
trajectories   pairs drawn from stored trajectories directly: at most k steps apart, or at least 4 k
none           no adjacency network at all
"""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hrac.adjacency.pairs import TablePairs, TrajectoryPairs
from hrac.adjacency.table import AdjacencyTable
from hrac.config import ConfigError
from hrac.settings import AdjacencyConfig

Positions = NDArray[np.floating]
Episodes = NDArray[np.integer]
Arrays = dict[str, NDArray[Any]]
Truth = tuple[NDArray[np.integer], NDArray[np.integer]]
"""All positions (cells, goal) of an environment, and the steps from each of them to each (cells, cells)."""


@runtime_checkable
class Source(Protocol):
    """Where one run's pairs come from."""

    needs_random_walk: bool
    """Whether it has no pairs before random behaviour has been collected."""

    def extend(self, positions: Positions, episodes: Episodes) -> None:
        """Add trajectories: positions (steps, goal) in time order, each with the number of its episode."""
        ...

    def pairs(self) -> TablePairs | TrajectoryPairs:
        """The present pairs, to draw minibatches from."""
        ...

    @property
    def epoch_pairs(self) -> int:
        """How many pairs an epoch has: all pairs of explored cells, unordered unless `adjacency.directed`."""
        ...

    def numbers(self) -> dict[str, float]:
        """For the log: see docs/metrics.md."""
        ...

    def snapshot(self) -> Arrays:
        """The complete state as named arrays."""
        ...

    def restore(self, arrays: Arrays) -> None:
        """Continue exactly from a snapshot."""
        ...


class Table:
    """The k-step relation of explored cells."""

    needs_random_walk = True

    def __init__(self, k: int, goal_dim: int, cfg: AdjacencyConfig) -> None:
        self.table = AdjacencyTable(k, cfg.cell_size, goal_dim, cfg.directed)

    def extend(self, positions: Positions, episodes: Episodes) -> None:
        """Add the pairs of trajectories to the relation."""
        self.table.update(positions, episodes)

    def pairs(self) -> TablePairs:
        """All pairs of explored cells."""
        return TablePairs(self.table)

    @property
    def epoch_pairs(self) -> int:
        """All pairs of explored cells, unordered unless directed."""
        return self.table.num_pairs

    def numbers(self) -> dict[str, float]:
        """How many cells were explored."""
        return {"adjacency/cells": float(len(self.table.cells)), "adjacency/pairs": float(self.table.num_adjacent)}

    def snapshot(self) -> Arrays:
        """Cells and adjacent pairs."""
        return {"cells": self.table.cells, "pairs": self.table.pairs}

    def restore(self, arrays: Arrays) -> None:
        """Continue exactly from a snapshot."""
        old = self.table
        self.table = AdjacencyTable.restore(
            old.k, old.cell_size, old.cells.shape[1], arrays["cells"], arrays["pairs"], old.directed
        )


class Oracle(Table):
    """The true k-step relation of all cells; experience adds nothing."""

    needs_random_walk = False

    def __init__(self, k: int, goal_dim: int, cfg: AdjacencyConfig, truth: Truth) -> None:
        super().__init__(k, goal_dim, cfg)
        self.table = AdjacencyTable.from_distances(k, cfg.cell_size, *truth, directed=cfg.directed)

    def extend(self, positions: Positions, episodes: Episodes) -> None:
        """Do nothing: the relation is complete."""


class Trajectories:
    """Stored trajectories, without a relation: the same pair may be drawn as near at one time and as far at another."""

    needs_random_walk = True

    def __init__(self, k: int, goal_dim: int, cfg: AdjacencyConfig) -> None:
        self._k = k
        self._cells = AdjacencyTable(k, cfg.cell_size, goal_dim, cfg.directed)
        self._positions: Positions = np.zeros((0, goal_dim), np.float32)
        self._episodes: Episodes = np.zeros(0, np.int64)

    def extend(self, positions: Positions, episodes: Episodes) -> None:
        """Store trajectories."""
        self._cells.explore(positions)
        first = self._episodes[-1] + 1 if len(self._episodes) else 0
        self._positions = np.concatenate([self._positions, positions.astype(np.float32)])
        self._episodes = np.concatenate([self._episodes, episodes - episodes[0] + first])

    def pairs(self) -> TrajectoryPairs:
        """All pairs of steps of one episode that are near or far enough in time."""
        return TrajectoryPairs(self._positions, self._episodes, self._k)

    @property
    def epoch_pairs(self) -> int:
        """As many as a table would have, so that both make the same number of gradient steps."""
        return self._cells.num_pairs

    def numbers(self) -> dict[str, float]:
        """How many cells were explored."""
        return {"adjacency/cells": float(len(self._cells.cells))}

    def snapshot(self) -> Arrays:
        """Everything stored."""
        return {"cells": self._cells.cells, "positions": self._positions, "episodes": self._episodes}

    def restore(self, arrays: Arrays) -> None:
        """Continue exactly from a snapshot."""
        old, no_pairs = self._cells, np.zeros(0, np.int64)
        self._cells = AdjacencyTable.restore(
            self._k, old.cell_size, old.cells.shape[1], arrays["cells"], no_pairs, old.directed
        )
        self._positions, self._episodes = arrays["positions"], arrays["episodes"]


def make_source(cfg: AdjacencyConfig, k: int, goal_dim: int, truth: Truth | None) -> Source | None:
    """The source that a configuration names, for one run; None if adjacency is not learned. Raises `ConfigError`."""
    match cfg.source:
        case "none":
            return None
        case "table":
            return Table(k, goal_dim, cfg)
        case "trajectories":
            return Trajectories(k, goal_dim, cfg)
    if truth is None:
        raise ConfigError(
            "adjacency.source must be 'none', 'table' or 'trajectories' here, got 'oracle': this task does not know its true "
            "distances (`cells`, `cell_distances`)"
        )
    return Oracle(k, goal_dim, cfg, truth)
