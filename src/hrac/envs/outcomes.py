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
TRIED = 1_000
"""Pairs of goals that a table is checked with, most of them near to each other."""
STEPS = 30
"""Random steps that it is checked with."""


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

    def fits(self, distance: float, reward: float, ended: bool) -> bool:
        """Whether this is what the table says of a distance, up to one entry."""
        entry = min(round(distance / self.step), len(self.rewards) - 1)
        near = slice(max(entry - 1, 0), entry + 2)
        slack = 1e-6 * (max(self.rewards) - min(self.rewards))
        rewarded = min(self.rewards[near]) - slack <= reward <= max(self.rewards[near]) + slack
        return rewarded and ended in self.ends[near]


def by_distance(
    env: gymnasium.Env[Any, Any], low: NDArray[np.float64], high: NDArray[np.float64], cell: tuple[float, ...]
) -> ByDistance:
    """The table of a goal environment, for goals between two corners, in its units; raises `TaskError` if it has none.

    A new episode is begun in the environment.
    """
    name = type(env.unwrapped).__name__
    if not env.has_wrapper_attr("compute_reward"):
        raise TaskError(
            f"manager.hindsight must be 0 on {name}, or give it a method compute_reward(achieved_goal, desired_goal, info)"
        )
    widest = float(np.linalg.norm(high - low))
    asked = [_asked(env, low + share * (high - low), low) for share in np.linspace(0.0, 1.0, ENTRIES)]
    table = ByDistance(cell, widest / (ENTRIES - 1), *map(tuple, zip(*asked, strict=True)))
    if not np.isfinite(table.rewards).all():
        raise TaskError(f"manager.hindsight must be 0 on {name}, whose compute_reward is not finite for some goals")
    for achieved, desired in _pairs(low, high):
        if not table.fits(float(np.linalg.norm(achieved - desired)), *_asked(env, achieved, desired)):
            raise TaskError(
                f"manager.hindsight must be 0 on {name}, whose rewards or ends for other goals depend on more than the "
                "distance between the two goals"
            )
    _check_steps(env, table, name)
    return table


def _asked(env: gymnasium.Env[Any, Any], achieved: NDArray[np.float64], desired: NDArray[np.float64]) -> tuple[float, bool]:
    """What a goal environment says of one pair of goals."""
    with naming("the first copy", "compute_reward"):
        reward = float(env.get_wrapper_attr("compute_reward")(achieved, desired, {}))
    if not env.has_wrapper_attr("compute_terminated"):
        return reward, False
    with naming("the first copy", "compute_terminated"):
        return reward, bool(env.get_wrapper_attr("compute_terminated")(achieved, desired, {}))


def _pairs(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pairs of goals between the corners, in all directions, at distances of all orders of magnitude."""
    rng = np.random.default_rng(0)
    first = rng.uniform(low, high, (TRIED, len(low)))
    direction = rng.normal(size=first.shape)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    distance = np.linalg.norm(high - low) * float(ENTRIES) ** -rng.uniform(size=(TRIED, 1))
    return np.stack([first, np.clip(first + distance * direction, low, high)], axis=1)


def _check_steps(env: gymnasium.Env[Any, Any], table: ByDistance, name: str) -> None:
    """Raise `TaskError` unless random steps are paid as the table says: a wrapper, or `step` itself, may pay otherwise."""
    env.action_space.seed(0)
    env.reset(seed=0)
    for _ in range(STEPS):
        seen, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        apart = float(np.linalg.norm(np.asarray(seen["achieved_goal"]) - np.asarray(seen["desired_goal"])))
        if not any(table.fits(apart, float(reward), end) for end in (False, True)):
            raise TaskError(
                f"manager.hindsight must be 0 on {name}, which pays {float(reward):g} for a step for which its compute_reward "
                "says something else"
            )
        if terminated or truncated:
            env.reset()
