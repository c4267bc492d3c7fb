"""How an environment of one's own is seen: which numbers are goal space, which only the manager sees, and in which units.

Inside the library, goal space is measured in cells from its centre, so that metres and radians can stand side by side, and
networks see numbers of ordinary size. Continuous actions are between -1 and 1.

>>> view = View(goal=(2,), cell=(0.5,), centre=(1.0,), manager_only=(0,))
>>> [part.tolist() for part in view.read([7.0, 8.0, 3.0])]
[[4.0, 8.0], [7.0]]
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hrac.spaces import Actions, Box, Discrete

GOAL_KEYS = ("observation", "achieved_goal", "desired_goal")
"""What the dictionaries of Gymnasium's goal environments hold."""

GoalFunction: TypeAlias = Callable[[Any], ArrayLike]
"""From an environment's observation to the agent's point of goal space."""


class View(NamedTuple):
    """How the observations and actions of an environment are translated."""

    goal: tuple[int, ...] | GoalFunction | None
    """Goal space: indices of the observation, or a function of it. None: `achieved_goal` of a dictionary."""
    cell: tuple[float, ...]
    """The size of a cell in each coordinate of goal space, in the environment's units."""
    centre: tuple[float, ...]
    """The point of goal space that is zero inside the library."""
    manager_only: tuple[int, ...] = ()
    """Indices of the observation that the controller may not see. Of a dictionary, that is `desired_goal`."""
    action_low: tuple[float, ...] | None = None
    """Lowest action, in the environment's units; None: actions are discrete."""
    action_high: tuple[float, ...] | None = None
    """Highest."""
    action_type: str = "float32"
    """The type of its numbers."""
    first_choice: int = 0
    """The number of the first of discrete actions."""
    states: int = 0
    """An observation is one of so many numbered states: networks see a one at its place and zeros elsewhere. 0: it is not."""
    first_state: int = 0
    """The number of the first state."""
    target: tuple[int, ...] | GoalFunction | None = None
    """Where the target of an episode is: a point of goal space, named as `goal` is. None: of a dictionary, it is
    `desired_goal`; else the task shows none."""

    def read(self, observation: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """An observation that starts with the point of goal space, in cells; and what only the manager sees."""
        if isinstance(observation, Mapping):
            rest, achieved, desired = (np.atleast_1d(np.asarray(observation[key], np.float64)) for key in GOAL_KEYS)
            return np.concatenate([self.inside(achieved), rest]), self.inside(desired)
        numbers = np.atleast_1d(np.asarray(observation, np.float64))
        rest = np.delete(numbers, self._named)
        if self.states and len(rest):
            rest = (np.arange(self.states) == rest - self.first_state).astype(np.float64)
        hidden = numbers[list(self.manager_only)]
        if self.target is not None:
            hidden = np.concatenate([hidden, self.inside(_point(self.target, observation))])
        return np.concatenate([self.inside(self.position(observation)), rest]), hidden

    def rest_dim(self, size: int) -> int:
        """How many numbers of an observation of this size follow the point of goal space, for both levels."""
        rest = size - len(self._named)
        return self.states if self.states and rest else rest

    def inside(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        """A point of goal space as the library sees it."""
        return (point - np.array(self.centre)) / np.array(self.cell)

    def outside(self, point: NDArray[np.floating]) -> NDArray[np.float64]:
        """A point of goal space in the environment's units."""
        return point * np.array(self.cell) + np.array(self.centre)

    def position(self, observation: Any) -> NDArray[np.float64]:
        """The point of goal space of an observation, in the environment's units."""
        if self.goal is None:
            return np.atleast_1d(np.asarray(observation["achieved_goal"], np.float64))
        return _point(self.goal, observation)

    @property
    def _named(self) -> list[int]:
        """Indices of the observation that have a meaning of their own."""
        points = [index for part in (self.goal, self.target) if isinstance(part, tuple) for index in part]
        return [*points, *self.manager_only]

    @property
    def shows_target(self) -> bool:
        """Whether the target of an episode is known. It is then the end of what only the manager sees."""
        return self.goal is None or self.target is not None

    @property
    def actions(self) -> Box:
        """Continuous actions, as networks see them."""
        assert self.action_low is not None
        return Box((-1.0,) * len(self.action_low), (1.0,) * len(self.action_low))

    def act(self, action: Any, actions: Actions) -> Any:
        """An action of the networks as one of the environment."""
        if isinstance(actions, Discrete):
            return int(action) + self.first_choice
        low, high = np.asarray(self.action_low), np.asarray(self.action_high)
        scaled = low + (np.clip(action, -1.0, 1.0) + 1.0) / 2.0 * (high - low)
        return np.clip(scaled, low, high).astype(self.action_type)


def _point(named: tuple[int, ...] | GoalFunction, observation: Any) -> NDArray[np.float64]:
    """A point of goal space that indices or a function find in an observation."""
    if isinstance(named, tuple):
        return np.atleast_1d(np.asarray(observation, np.float64))[list(named)]
    return np.atleast_1d(np.asarray(named(observation), np.float64))
