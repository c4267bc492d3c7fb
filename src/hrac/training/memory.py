"""The trajectory buffer of Algorithm 1: positions visited since the last update of the adjacency tables."""

import numpy as np
from numpy.typing import NDArray

from hrac.runs import join
from hrac.worlds.base import Visited

FIELDS = Visited._fields


class TrajectoryMemory:
    """Rounds of visited positions of all runs. They stay on the device until they are needed."""

    def __init__(self) -> None:
        self._rounds: list[list[Visited]] = []

    def __bool__(self) -> bool:
        return bool(self._rounds)

    def append(self, parts: list[Visited]) -> None:
        """Add a round, in parts of the runs: arrays (runs, time, copies, ...)."""
        self._rounds.append(parts)

    def clear(self) -> None:
        """Forget everything."""
        self._rounds = []

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """All rounds, joined in time, for a checkpoint; empty if there are none."""
        if not self._rounds:
            return {}
        rounds = [join(parts) for parts in self._rounds]
        joined = {name: np.concatenate([np.asarray(getattr(v, name)) for v in rounds], axis=1) for name in FIELDS}
        self._rounds = [[Visited(**joined)]]
        return joined

    def sequences(self, run: int) -> tuple[NDArray[np.floating], NDArray[np.integer]]:
        """All of one run's positions (n, goal) in time order, copy after copy, each with the number of its episode.

        An episode's last state is included. An episode that the buffer's end cuts counts as ended there. There must be a round.
        """
        joined = self.to_arrays()
        position, after, done = (np.swapaxes(joined[name][run], 0, 1) for name in FIELDS)  # (copies, time, ...)
        closes = np.array(done, dtype=bool)
        closes[:, -1] = True
        # Each step contributes its position, and its next position too if no step follows.
        both = np.stack([position, after], axis=2).reshape(-1, position.shape[-1])
        keep = np.stack([np.ones_like(closes), closes], axis=2).reshape(-1)
        episode = np.cumsum(closes.reshape(-1)) - closes.reshape(-1)
        return both[keep], np.repeat(episode, 2)[keep]
