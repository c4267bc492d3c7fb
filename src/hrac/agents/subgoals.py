"""What a subgoal means: its range, the point it asks for, how it changes between proposals, and when it is reached.

Goal space is the first coordinates of the observation: phi(s) = s[:dimensions], the agent's position.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray


class SubgoalSpace(NamedTuple):
    """The goal space of a task and the form of its subgoals. All methods are for one subgoal."""

    relative: bool
    """Displacements from the present position, instead of positions."""
    low: tuple[float, ...]
    """Lowest position in goal space."""
    high: tuple[float, ...]
    """Highest position."""
    displacement: bool = False
    """Whether the controller is shown absolute subgoals as displacements from where it stands."""
    reach: float | None = None
    """Relative subgoals are within +- this; None: the extent of the map."""
    context: int = 0
    """Numbers at an observation's end that only the manager sees."""
    sees_position: bool = True
    """Whether the controller sees where it is."""
    fallen: Callable[[Any], Any] | None = None
    """Tells from an observation whether the agent lies on its back; None: the task cannot tell."""

    @property
    def dimensions(self) -> int:
        """Coordinates of goal space."""
        return len(self.low)

    def phi(self, obs: Float[Array, " obs"]) -> Float[Array, " goal"]:
        """Where in goal space an observation is."""
        return obs[: self.dimensions]

    def squash(self, raw: Float[Array, " goal"]) -> Float[Array, " goal"]:
        """A network's output as a subgoal: sigmoid over the map (absolute) or tanh over +-its extent (relative)."""
        low, high = self.bounds()
        return jnp.tanh(raw) * high if self.relative else low + jax.nn.sigmoid(raw) * (high - low)

    def bounds(self) -> tuple[Float[Array, " goal"], Float[Array, " goal"]]:
        """Lowest and highest subgoal."""
        low, high = jnp.asarray(self.low, jnp.float32), jnp.asarray(self.high, jnp.float32)
        if self.relative and self.reach is not None:
            return jnp.full_like(low, -self.reach), jnp.full_like(low, self.reach)
        return (low - high, high - low) if self.relative else (low, high)

    def perturb(self, key: PRNGKeyArray, subgoal: Float[Array, " goal"], sigma: float) -> Float[Array, " goal"]:
        """Gaussian exploration noise, clipped to the range."""
        low, high = self.bounds()
        return jnp.clip(subgoal + sigma * jax.random.normal(key, subgoal.shape), low, high)

    def uniform(self, key: PRNGKeyArray, position: Float[Array, " goal"]) -> Float[Array, " goal"]:
        """A subgoal that asks for a uniformly random point of the map, or of those within reach."""
        if self.relative and self.reach is not None:
            return jax.random.uniform(key, position.shape, minval=-self.reach, maxval=self.reach)
        low, high = jnp.asarray(self.low, jnp.float32), jnp.asarray(self.high, jnp.float32)
        point = low + jax.random.uniform(key, low.shape) * (high - low)
        return point - position if self.relative else point

    def target(self, subgoal: Float[Array, " goal"], position: Float[Array, " goal"]) -> Float[Array, " goal"]:
        """The point of goal space that a subgoal asks for when held at `position`."""
        return position + subgoal if self.relative else subgoal

    def shown(self, subgoal: Float[Array, " goal"], position: Float[Array, " goal"]) -> Float[Array, " goal"]:
        """The subgoal as the controller sees it."""
        return self.target(subgoal, position) - position if self.displacement else subgoal

    def controller_input(self, obs: Float[Array, " obs"], subgoal: Float[Array, " goal"]) -> Float[Array, " seen"]:
        """What the controller is given: the observation as far as it may see it, then the subgoal."""
        seen = obs[: len(obs) - self.context]
        if not self.sees_position:
            seen = jnp.concatenate([jnp.zeros(self.dimensions, seen.dtype), seen[self.dimensions :]])
        return jnp.concatenate([seen, self.shown(subgoal, self.phi(obs))])

    def transition(
        self, subgoal: Float[Array, " goal"], position: Float[Array, " goal"], after: Float[Array, " goal"]
    ) -> Float[Array, " goal"]:
        """h(g, s, s') = g + phi(s) - phi(s'): the same point, seen from the next position."""
        return subgoal + position - after if self.relative else subgoal


def reached(target: Float[Array, " goal"], position: Float[Array, " goal"], radius: float) -> Bool[Array, ""]:
    """Within `radius` of the target in every coordinate: the binary intrinsic reward of the grid worlds."""
    return jnp.all(jnp.abs(target - position) <= radius)
