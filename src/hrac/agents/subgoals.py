"""What a subgoal means: its range, the point it stands for, how it changes between proposals, and when it is reached.

Goal space is the first coordinates of the observation: phi(s) = s[:goal_dim], the agent's position. Everything here is for
NumPy and JAX alike. Shapes are trailing axes: a function for one subgoal works for any number of subgoals.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float

from hrac.settings import ControllerSettings
from hrac.spaces import AnyArray, Box


class SubgoalSpace(NamedTuple):
    """The goal space of a task and the form of its subgoals."""

    relative: bool
    """Whether subgoals are displacements from the present position, instead of positions."""
    low: tuple[float, ...]
    """Lowest position in goal space."""
    high: tuple[float, ...]
    """Highest position."""
    shown_relative: bool = False
    """Whether the controller sees absolute subgoals as displacements from its position."""
    reach: float | tuple[float, ...] | None = None
    """Relative subgoals are within +- this, in all coordinates or in each; None: the extent of the map."""
    context: int = 0
    """Numbers at the end of an observation that only the manager sees."""
    sees_position: bool = True
    """Whether the controller sees its position. If not, it still sees a third coordinate, the height."""
    sees_context: bool = False
    """Whether the controller sees the context too."""
    fallen: Callable[[AnyArray], AnyArray] | None = None
    """From an observation to whether the agent lies on its back; None: the task has no such function."""

    @property
    def goal_dim(self) -> int:
        """Number of coordinates of goal space."""
        return len(self.low)

    def phi(self, obs: Float[AnyArray, "*n obs"]) -> Float[AnyArray, "*n goal"]:
        """The point of goal space of an observation."""
        return obs[..., : self.goal_dim]

    def task(self, obs: Float[AnyArray, "*n obs"]) -> Float[AnyArray, "*n goal"]:
        """The subgoal that stands for the target of the task."""
        return self.towards(self.shown_target(obs), self.phi(obs))

    def shown_target(self, obs: Float[AnyArray, "*n obs"]) -> Float[AnyArray, "*n goal"]:
        """The target of the task, which is the end of an observation on tasks that show one."""
        return obs[..., obs.shape[-1] - self.goal_dim :]

    def with_target(self, obs: Float[AnyArray, "*n obs"], target: Float[AnyArray, "*#n goal"]) -> Float[AnyArray, "*n obs"]:
        """The observation with another target of the task."""
        xp, rest = obs.__array_namespace__(), obs[..., : obs.shape[-1] - self.goal_dim]
        return xp.concatenate([rest, xp.broadcast_to(target, (*rest.shape[:-1], self.goal_dim))], axis=-1)

    @property
    def _map(self) -> Box:
        return Box(self.low, self.high)

    @property
    def _range(self) -> Box:
        """All possible subgoals."""
        if not self.relative:
            return self._map
        if self.reach is None:
            extent = tuple(high - low for low, high in zip(self.low, self.high, strict=True))
        else:
            extent = self.reach if isinstance(self.reach, tuple) else (self.reach,) * self.goal_dim
        return Box(tuple(-most for most in extent), extent)

    def bounds(self, like: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Lowest and highest subgoal, as arrays that broadcast against `like` (..., goal)."""
        return self._range.bounds(like)

    def squash(self, raw: Float[AnyArray, "*n goal"]) -> Float[AnyArray, "*n goal"]:
        """A network's output as a subgoal: sigmoid over the map (absolute) or tanh over the range (relative)."""
        xp, (low, high) = raw.__array_namespace__(), self.bounds(raw)
        return xp.tanh(raw) * high if self.relative else low + _sigmoid(raw) * (high - low)

    def explore(self, subgoal: Float[AnyArray, "*#n goal"], noise: Float[AnyArray, "*#n goal"]) -> Float[AnyArray, "*#n goal"]:
        """A subgoal with exploration noise, clipped to the range."""
        return subgoal.__array_namespace__().clip(subgoal + noise, *self.bounds(subgoal))

    def uniform(self, unit: Float[AnyArray, "*n goal"], position: Float[AnyArray, "*n goal"]) -> Float[AnyArray, "*n goal"]:
        """The subgoal that numbers between 0 and 1 stand for: a point of the map, or of those within reach."""
        within_reach = self.relative and self.reach is not None
        low, high = (self._range if within_reach else self._map).bounds(position)
        point = (low + unit * (high - low)).astype(position.dtype)
        return point if within_reach else self.towards(point, position)

    def target(
        self, subgoal: Float[AnyArray, "*#n goal"], position: Float[AnyArray, "*#n goal"]
    ) -> Float[AnyArray, "*#n goal"]:
        """The point of goal space that a subgoal stands for, seen from `position`."""
        return position + subgoal if self.relative else subgoal

    def towards(self, point: Float[AnyArray, "*#n goal"], position: Float[AnyArray, "*#n goal"]) -> Float[AnyArray, "*#n goal"]:
        """The subgoal that stands for a point of goal space, seen from `position`."""
        return point - position if self.relative else point

    def shown(self, subgoal: Float[AnyArray, "*n goal"], position: Float[AnyArray, "*n goal"]) -> Float[AnyArray, "*n goal"]:
        """The subgoal as the controller sees it."""
        return self.target(subgoal, position) - position if self.shown_relative else subgoal

    def controller_input(
        self, obs: Float[AnyArray, "*n obs"], subgoal: Float[AnyArray, "*n goal"]
    ) -> Float[AnyArray, "*n seen"]:
        """The controller's input: the part of the observation that it may see, then the subgoal."""
        xp, seen = obs.__array_namespace__(), obs[..., : self.seen_dim(obs.shape[-1])]
        if not self.sees_position:
            plane = min(self.goal_dim, 2)
            hidden = xp.zeros((*seen.shape[:-1], plane), dtype=seen.dtype)
            seen = xp.concatenate([hidden, seen[..., plane:]], axis=-1)
        return xp.concatenate([seen, self.shown(subgoal, self.phi(obs))], axis=-1)

    def seen_dim(self, obs_dim: int) -> int:
        """How many numbers of an observation the controller sees."""
        return obs_dim if self.sees_context else obs_dim - self.context

    def transition(
        self,
        subgoal: Float[AnyArray, "*#n goal"],
        position: Float[AnyArray, "*#n goal"],
        after: Float[AnyArray, "*#n goal"],
    ) -> Float[AnyArray, "*#n goal"]:
        """h(g, s, s') = g + phi(s) - phi(s'): the same point, as seen from the next position."""
        return subgoal + position - after if self.relative else subgoal


def reached(
    target: Float[AnyArray, "*n goal"], position: Float[AnyArray, "*n goal"], cfg: ControllerSettings
) -> Bool[AnyArray, "*n"]:
    """Near enough to the target, in every coordinate or in a straight line: the binary intrinsic reward."""
    xp = target.__array_namespace__()
    if cfg.reach_measure == "euclidean":
        return xp.linalg.norm(target - position, axis=-1) <= cfg.reach_radius
    return xp.all(xp.abs(target - position) <= cfg.reach_radius, axis=-1)


def _sigmoid(x: AnyArray) -> AnyArray:
    return 1.0 / (1.0 + np.exp(-x)) if isinstance(x, np.ndarray) else jax.nn.sigmoid(x)
