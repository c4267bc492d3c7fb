"""What an agent can live in. Environments know nothing of agents, subgoals or k.

`Environment` is written in JAX: two pure functions for one copy, which callers `vmap`. `BatchEnvironment` lives on the host:
one object holds many copies and steps them together. Neither resets itself: `terminated` (the task ended) and `truncated`
(time ran out) come back apart, with the true last observation, and the caller decides.

Both say the same about a task: its actions (`hrac.spaces`), the sizes of what is seen, the time limit, and the bounds of the
agent's position, with which every observation starts. What sets an episode's task, such as a target, is its context. Only a
manager sees it. In JAX it stands at the end of the observation; on the host it comes apart from it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num, PRNGKeyArray
from numpy.typing import ArrayLike, NDArray

from hrac.errors import HracError
from hrac.spaces import Actions

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
    """One copy of a JAX environment, whose observation starts with the agent's position."""

    @property
    def actions(self) -> Actions:
        """What it can be told to do."""
        ...

    @property
    def obs_dim(self) -> int:
        """Numbers in an observation, those of the context included."""
        ...

    @property
    def context_dim(self) -> int:
        """How many numbers at the end of an observation set the episode's task. They stay the same in an episode."""
        ...

    @property
    def ends_on_success(self) -> bool:
        """Whether an episode that terminates has succeeded. If not, none is said to have."""
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

    def step(self, key: PRNGKeyArray, state: State, action: Num[Array, "*action"]) -> Step:
        """The consequence of an action."""
        ...

    def exploring(self) -> "Environment":
        """The same world for random behaviour: random starts, and the task does not end the episode."""
        ...

    def evaluation(self) -> "Environment":
        """The world as it is evaluated: success, where there is such a thing, terminates an episode."""
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


class BatchStep(NamedTuple):
    """What one step of a batch gives, a row for each copy that was stepped. `obs` is the one after the step, as in `Step`."""

    obs: NDArray[np.float64]
    reward: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


@runtime_checkable
class BatchEnvironment(Protocol):
    """Many copies of an environment on the host; observations start with the agent's position.

    A copy's fate depends on its own seed and actions only. `ids` names copies by number, in order, or by a mask of all
    (`rows_of`). Stepping on after an episode's end must work: random behaviour does not care for ends.

    An environment whose agent can fall may also have `fallen`, a function from observations (..., obs) to whether the agent
    lies on its back (...), for NumPy and JAX alike.
    """

    num_envs: int
    """How many copies there are."""
    obs_dim: int
    """Numbers in an observation."""
    context_dim: int
    """Numbers that set an episode's task (such as a target) and stay the same in it. They are not in the observation."""
    actions: Actions
    """What a copy can be told to do."""
    time_limit: int
    """Steps after which an episode is truncated."""
    position_low: tuple[float, ...]
    """Lowest coordinates a position can have."""
    position_high: tuple[float, ...]
    """Highest coordinates."""

    @property
    def context(self) -> NDArray[np.float64]:
        """What sets the present episodes' tasks (copies, context_dim)."""
        ...

    def reset(self, ids: ArrayLike | None = None, seeds: ArrayLike | None = None) -> NDArray[np.float64]:
        """Begin an episode in some copies (default: all), with new seeds if given; their first observations."""
        ...

    def step(self, actions: ArrayLike, ids: ArrayLike | None = None) -> BatchStep:
        """Move some copies (default: all) on by one step."""
        ...

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """The complete state as named arrays."""
        ...

    def restore(self, snapshot: dict[str, NDArray[Any]]) -> None:
        """Go on exactly from a snapshot."""
        ...


class SimulationError(HracError, RuntimeError):
    """The physics of some copies broke down; the message names them."""

    def __init__(self, copies: Sequence[int]) -> None:
        self.copies = copies
        names = f"{list(copies[:5])}{' and more' if len(copies) > 5 else ''}"
        super().__init__(f"the physics of copies {names} became unstable (from an odd state?); reset them to go on")


@runtime_checkable
class HostTask(Protocol):
    """A task on the host, of which any number of copies can be made."""

    @property
    def ends_on_success(self) -> bool:
        """Whether an episode that terminates has succeeded. If not, none is said to have."""
        ...

    def batch(self, num_envs: int, threads: int | None = None) -> BatchEnvironment:
        """This many copies, on this many threads (None: one per core)."""
        ...

    def evaluation(self) -> "HostTask":
        """The task as it is evaluated: success, where there is such a thing, terminates an episode."""
        ...


def rows_of(ids: ArrayLike | None, num_envs: int) -> NDArray[np.int64]:
    """The copies that `ids` names: by number, in order, or by a mask of all; None for all. Raises `ValueError`."""
    everyone = np.arange(num_envs)
    if ids is None:
        return everyone
    array = np.atleast_1d(np.asarray(ids))
    rows = everyone[array] if array.dtype == np.bool_ else array.astype(np.int64)
    if rows.size and (rows[0] < 0 or rows[-1] >= num_envs or (np.diff(rows) <= 0).any()):
        raise ValueError(f"ids must be different copies from 0 to {num_envs - 1}, in order, got {ids!r}")
    return rows


def checked_seeds(seeds: ArrayLike, count: int) -> NDArray[np.int64]:
    """One seed for each of `count` copies. Raises `ValueError`."""
    array = np.asarray(seeds)
    if array.shape != (count,) or array.dtype.kind not in "iu" or (array < 0).any() or (array >= 2**63).any():
        raise ValueError(f"seeds must be {count} integers from 0 to 2**63 - 1, one for each copy that is reset, got {seeds!r}")
    return array.astype(np.int64)
