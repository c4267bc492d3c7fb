"""What a world is: copies of an environment for every run, in which the two levels act.

A run is one seed. Arrays of all runs have a leading run axis. Runs are held in parts, with one program call per part
(`hrac.runs.Parts`): a world takes the networks of each part and returns the experience of each part.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Bool, Float, Shaped
from numpy.typing import NDArray

from hrac.agents.decide import Actors
from hrac.agents.subgoals import SubgoalSpace
from hrac.agents.windows import Trajectory
from hrac.envs.base import KnownDistances
from hrac.errors import HracError
from hrac.spaces import AnyArray


class DivergedError(HracError, RuntimeError):
    """A number is no longer finite; the message says which, where and when."""


class Visited(NamedTuple):
    """The positions before and after steps, for the adjacency tables (runs, time, copies, ...)."""

    position: Float[AnyArray, "*time goal"]
    after: Float[AnyArray, "*time goal"]
    done: Bool[AnyArray, "*time"]


class Collected(NamedTuple):
    """A round's steps."""

    trajectory: Trajectory
    """(runs, time, copies, ...)"""
    episode_return: Float[AnyArray, "*time"]
    """At each step, the reward of the episode so far (runs, time, copies)."""
    visited: Visited


class Episode(NamedTuple):
    """Played episodes without exploration, step by step (runs, time, episodes, ...), or one episode: (time, ...).

    All are padded to the length of the longest; `alive` marks the steps that were made.
    """

    obs: Float[AnyArray, "*time obs"]
    subgoal: Float[AnyArray, "*time goal"]
    action: Shaped[AnyArray, "*action"]
    reward: Float[AnyArray, "*time"]
    next_obs: Float[AnyArray, "*time obs"]
    terminated: Bool[AnyArray, "*time"]
    alive: Bool[AnyArray, "*time"]


@runtime_checkable
class World(Protocol):
    """Collects experience for all runs of a training."""

    ends_on_success: bool
    """Whether an episode that terminates in training has succeeded."""
    known: KnownDistances | None
    """The environment, if it knows its true distances."""
    exact: bool
    """Whether a snapshot is the complete state. If not, restoring it begins new episodes."""

    def collect(self, actors: list[Actors], ready: NDArray[Any], index: int) -> list[Collected]:
        """Let the two levels act and explore for round number `index`; `ready` (runs) says which runs have started to learn."""
        ...

    def random_walk(self, env_steps: int, poll: Callable[[], None]) -> list[Visited]:
        """Episodes of uniformly random actions, at least this many steps in total per run.

        `poll` is called often and may raise to stop.
        """
        ...

    def evaluate(self, actors: list[Actors], episodes: int, env_steps: int) -> dict[str, NDArray[Any]]:
        """Play episodes without exploration; totals and weights (2, runs, episodes) of their metrics (docs/metrics.md)."""
        ...

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """The complete state as named arrays."""
        ...

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Continue exactly from a snapshot."""
        ...


def visited(steps: Trajectory, space: SubgoalSpace) -> Visited:
    """The positions before and after the steps of a trajectory."""
    return Visited(space.phi(steps.obs), space.phi(steps.next_obs), steps.terminated | steps.truncated)
