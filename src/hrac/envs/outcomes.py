"""What a goal environment would have paid for another goal, as a table that runs on any device.

Gymnasium's goal environments say it by two methods, `compute_reward` and `compute_terminated`. The second may be missing: then
a goal that is reached ends nothing. Both take single goals and run on the host. In most environments they depend on the
distance between the two goals alone. So they are asked once for many distances, and then looked up.
"""

import dataclasses
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hrac.envs.copies import naming
from hrac.envs.look import TaskError
from hrac.spaces import AnyArray

ENTRIES = 4_000
"""Distances in a table."""
TRIED = 200
"""Random pairs of goals that a table is checked with."""


@dataclasses.dataclass(frozen=True)
class ByDistance:
    """Rewards and ends by the distance of two points of goal space: an `Outcome`."""

    cell: tuple[float, ...]
    """The size of a cell in the environment's units. Points are in cells, distances in units."""
    step: float
    """The distance between two entries."""
    rewards: tuple[float, ...]
    """Beyond the last entry they stay the same."""
    ends: tuple[bool, ...]

    def __call__(self, points: AnyArray, targets: AnyArray) -> tuple[AnyArray, AnyArray]:
        """What steps that lead to points (..., goal) are paid with targets (..., goal), and whether they end the episode."""
        xp = points.__array_namespace__()
        away = points - targets
        apart = xp.linalg.norm(away * xp.broadcast_to(xp.asarray(self.cell, dtype=points.dtype), away.shape), axis=-1)
        entry = xp.clip(xp.round(apart / self.step), 0, len(self.rewards) - 1).astype(int)
        return xp.asarray(self.rewards, dtype=points.dtype)[entry], xp.asarray(self.ends)[entry]


def by_distance(
    env: gymnasium.Env[Any, Any], low: NDArray[np.float64], high: NDArray[np.float64], cell: tuple[float, ...]
) -> ByDistance:
    """The table of a goal environment, for goals between two corners, in its units; raises `TaskError` if it has none."""
    source = env.unwrapped
    if not hasattr(source, "compute_reward"):
        raise TaskError(
            f"manager.hindsight must be 0 on {type(source).__name__}, or give it a method "
            "compute_reward(achieved_goal, desired_goal, info)"
        )
    rng = np.random.default_rng(0)
    pairs = rng.uniform(low, high, (TRIED, 2, len(low)))
    ways = pairs[:, 1] - pairs[:, 0]
    widest = float(np.linalg.norm(high - low))
    distances = np.linspace(0.0, widest, ENTRIES)
    direction = ways[0] / np.linalg.norm(ways[0])
    asked = [_asked(source, low + distance * direction, low) for distance in distances]
    table = ByDistance(cell, widest / (ENTRIES - 1), *map(tuple, zip(*asked, strict=True)))
    _check(source, table, pairs)
    return table


def _asked(source: Any, achieved: NDArray[np.float64], desired: NDArray[np.float64]) -> tuple[float, bool]:
    """What a goal environment says of one pair of goals."""
    with naming("the first copy", "compute_reward"):
        reward = float(source.compute_reward(achieved, desired, {}))
    if not hasattr(source, "compute_terminated"):
        return reward, False
    with naming("the first copy", "compute_terminated"):
        return reward, bool(source.compute_terminated(achieved, desired, {}))


def _check(source: Any, table: ByDistance, pairs: NDArray[np.float64]) -> None:
    """Raise `TaskError` unless the table says of random pairs what the environment says, up to one entry."""
    for achieved, desired in pairs:
        entry = round(float(np.linalg.norm(achieved - desired)) / table.step)
        near = slice(max(entry - 1, 0), entry + 2)
        reward, end = _asked(source, achieved, desired)
        spread = max(table.rewards) - min(table.rewards)
        fits = min(table.rewards[near]) - 1e-6 * spread <= reward <= max(table.rewards[near]) + 1e-6 * spread
        if not (fits and end in table.ends[near]):
            raise TaskError(
                f"manager.hindsight must be 0 on {type(source).__name__}, whose rewards or ends for other goals depend on more "
                "than the distance between the two goals"
            )
