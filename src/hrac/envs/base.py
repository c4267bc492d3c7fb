"""What an environment is. Environments know nothing of agents, subgoals or k.

`Environment` is written in JAX: two pure functions for one copy, which callers `vmap`. `BatchEnvironment` runs on the host:
one object holds many copies and steps them together. Neither resets itself: `terminated` (the task ended) and `truncated`
(time ran out) are separate, with the true last observation, and the caller resets.

Both describe a task by its actions (`hrac.spaces`), the sizes of observations, the time limit, and the bounds of the agent's
position, with which every observation starts. Numbers that set the task of an episode, such as a target, are its context. Only
a manager sees them. In JAX they are at the end of the observation; on the host they are separate from it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num, PRNGKeyArray
from numpy.typing import ArrayLike, NDArray

from hrac.errors import HracError
from hrac.spaces import Actions, AnyArray

State: TypeAlias = Any
"""A pytree of arrays that only its environment reads."""


Outcome: TypeAlias = Callable[[AnyArray, AnyArray], tuple[AnyArray, AnyArray]]
"""From the positions (..., goal) after steps and targets (..., goal) of the task to what these steps are paid (...) and whether
they end the episode (...), for NumPy and JAX alike. Both must follow from the two points alone."""


class Step(NamedTuple):
    """The result of one step. `obs` is the observation after the step, also when the episode ended there."""

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
        """The possible actions."""
        ...

    @property
    def obs_dim(self) -> int:
        """Numbers in an observation, including the context."""
        ...

    @property
    def context_dim(self) -> int:
        """How many numbers at the end of an observation set the task of an episode. They do not change during it."""
        ...

    @property
    def ends_on_success(self) -> bool:
        """Whether an episode that terminates has succeeded. If not, there is no success."""
        ...

    @property
    def time_limit(self) -> int:
        """Steps after which an episode is truncated."""
        ...

    @property
    def position_low(self) -> tuple[float, ...]:
        """Lowest coordinates of a position."""
        ...

    @property
    def position_high(self) -> tuple[float, ...]:
        """Highest coordinates of a position."""
        ...

    def reset(self, key: PRNGKeyArray) -> tuple[State, Float[Array, " obs"]]:
        """A first state and its observation."""
        ...

    def step(self, key: PRNGKeyArray, state: State, action: Num[Array, "*action"]) -> Step:
        """The result of an action."""
        ...

    def exploring(self) -> "Environment":
        """The environment for random behaviour: the task does not end the episode, and starts may be random."""
        ...

    def evaluation(self) -> "Environment":
        """The environment for evaluation: success, if the task has one, terminates an episode."""
        ...


@runtime_checkable
class KnownCells(Protocol):
    """An environment that knows how many steps apart its cells are: for oracles, not for agents."""

    @property
    def cells(self) -> NDArray[np.integer]:
        """All positions (cells, dimensions)."""
        ...

    @property
    def cell_distances(self) -> NDArray[np.integer]:
        """Steps from each of them to each (cells, cells); -1 where there is no way."""
        ...


@runtime_checkable
class KnownDistances(KnownCells, Protocol):
    """An environment in which these steps are exact, and known for any two positions: for metrics too."""

    def steps_between(self, position: Float[Array, " pos"], target: Float[Array, " pos"]) -> Int[Array, ""]:
        """True number of steps from one position to another, by their nearest cells; -1 if there is no way."""
        ...


def known_distances(env: object) -> KnownDistances | None:
    """The environment, if it knows its distances. `isinstance` would compute them first, on Python 3.11."""
    return cast(KnownDistances, env) if hasattr(type(env), "steps_between") else None


class BatchStep(NamedTuple):
    """The result of one step of a batch, one row per copy that was stepped. `obs` is after the step, as in `Step`."""

    obs: NDArray[np.float64]
    reward: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


@runtime_checkable
class BatchEnvironment(Protocol):
    """Many copies of an environment on the host; observations start with the agent's position.

    What happens in a copy depends on its own seed and actions only. `ids` names copies by number, in order, or by a mask of all
    (`rows_of`). Stepping after the end of an episode must work, because random behaviour ignores ends.

    Not all of this is asked of every environment. One that must be reset when an episode has ended says so by `steps_past_end =
    False`. One whose snapshots are not its complete state has `exact = False`: a resumed training then begins new episodes. One
    that holds resources has `close()`.

    An environment whose agent can fall may also have `fallen`, a function from observations (..., obs) to whether the agent
    lies on its back (...), for NumPy and JAX alike. A task that knows its walls may have `in_wall`, a method from positions
    (n, goal) to whether each is in one (n). One that shows a target may have `outcome`, an `Outcome`. One whose episodes do not
    end with success, but that knows it, may have `succeeded`: whether the last step of each copy was one (copies).
    """

    num_envs: int
    """Number of copies."""
    obs_dim: int
    """Numbers in an observation."""
    context_dim: int
    """How many numbers set the task of an episode, such as a target. They are constant in it and not in the observation."""
    actions: Actions
    """The possible actions."""
    time_limit: int
    """Steps after which an episode is truncated."""
    position_low: tuple[float, ...]
    """Lowest coordinates of a position."""
    position_high: tuple[float, ...]
    """Highest coordinates of a position."""

    @property
    def context(self) -> NDArray[np.float64]:
        """The numbers that set the tasks of the present episodes (copies, context_dim)."""
        ...

    def reset(self, ids: ArrayLike | None = None, seeds: ArrayLike | None = None) -> NDArray[np.float64]:
        """Start an episode in some copies (default: all), with new seeds if given. Returns their first observations."""
        ...

    def step(self, actions: ArrayLike, ids: ArrayLike | None = None) -> BatchStep:
        """Step some copies (default: all) once."""
        ...

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """The complete state as named arrays."""
        ...

    def restore(self, snapshot: dict[str, NDArray[Any]]) -> None:
        """Continue exactly from a snapshot."""
        ...


class SimulationError(HracError, RuntimeError):
    """The physics of some copies broke down; the message names them."""

    def __init__(self, copies: Sequence[int]) -> None:
        self.copies = copies
        names = f"{list(copies[:5])}{' and more' if len(copies) > 5 else ''}"
        super().__init__(f"the physics of copies {names} became unstable (from an unusual state?); reset them to continue")


@runtime_checkable
class HostTask(Protocol):
    """A task on the host, from which any number of copies can be made."""

    @property
    def ends_on_success(self) -> bool:
        """Whether an episode that terminates has succeeded. If not, there is no success."""
        ...

    def batch(self, num_envs: int, threads: int | None = None) -> BatchEnvironment:
        """This many copies, on this many threads (None: one per core)."""
        ...

    def evaluation(self) -> "HostTask":
        """The task for evaluation: success, if the task has one, terminates an episode."""
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
    """The same as an array, with one seed per copy. Raises `ValueError`."""
    array = np.asarray(seeds)
    if array.shape != (count,) or array.dtype.kind not in "iu" or (array < 0).any() or (array >= 2**63).any():
        raise ValueError(f"seeds must be {count} integers from 0 to 2**63 - 1, one for each copy that is reset, got {seeds!r}")
    return array.astype(np.int64)
