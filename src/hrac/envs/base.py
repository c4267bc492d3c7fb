"""What an agent can live in, when it is written in JAX.

An environment is two pure functions for one copy; callers `vmap` them. It knows nothing of agents, subgoals or k. It does
not reset itself: `terminated` (the task ended) and `truncated` (time ran out) come back apart, with the true last
observation, and the caller decides.
"""

from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from numpy.typing import NDArray

State: TypeAlias = Any
"""A pytree of arrays that only its environment looks into."""


class Step(NamedTuple):
    """What one step gives. `obs` is the observation after the step, also when the episode ended there."""

    state: State
    obs: Float[Array, " obs"]
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


@runtime_checkable
class Environment(Protocol):
    """One copy of a JAX environment with discrete actions, whose observation starts with the agent's position."""

    @property
    def num_actions(self) -> int:
        """How many actions there are."""
        ...

    @property
    def obs_dim(self) -> int:
        """Numbers in an observation."""
        ...

    @property
    def time_limit(self) -> int:
        """Steps after which an episode is truncated."""
        ...

    @property
    def position_low(self) -> tuple[float, ...]:
        """Lowest coordinates a position can have."""
        ...

    @property
    def position_high(self) -> tuple[float, ...]:
        """Highest coordinates."""
        ...

    def reset(self, key: PRNGKeyArray) -> tuple[State, Float[Array, " obs"]]:
        """A first state and its observation."""
        ...

    def step(self, key: PRNGKeyArray, state: State, action: Int[Array, ""]) -> Step:
        """The consequence of an action."""
        ...

    def exploring(self) -> "Environment":
        """The same world for random behaviour: random starts, and the task does not end the episode."""
        ...


@runtime_checkable
class KnownDistances(Protocol):
    """An environment that also knows how far apart its positions truly are: for measuring and for oracles, not for agents."""

    @property
    def cells(self) -> NDArray[np.integer]:
        """All positions (cells, dimensions)."""
        ...

    @property
    def cell_distances(self) -> NDArray[np.integer]:
        """Steps from each of them to each (cells, cells)."""
        ...

    def steps_between(self, position: Float[Array, " pos"], target: Float[Array, " pos"]) -> Int[Array, ""]:
        """True number of steps from one position to another, each taken as its nearest cell."""
        ...
