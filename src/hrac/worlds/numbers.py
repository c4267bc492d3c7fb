"""The metrics of played episodes and of subgoals: see docs/metrics.md. For NumPy and JAX alike."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import jax
import numpy as np
from jaxtyping import Bool, Float, Shaped

from hrac.adjacency.network import Embedding
from hrac.agents.decide import Setup, judged_adjacent
from hrac.envs.base import KnownDistances, known_distances
from hrac.spaces import AnyArray
from hrac.worlds.base import Episode

Mean = tuple[AnyArray, AnyArray]
"""A total and a weight, so that means over episodes, rounds and copies can be combined later."""
InWall: TypeAlias = Callable[[AnyArray], AnyArray]
"""Whether positions (n, goal) are in a wall."""


@runtime_checkable
class Played(Protocol):
    """A task whose episodes are measured. It may also know its distances, and its walls (`in_wall`).

    One with `may_end_before` names its time limit by it, before which an episode may end without success.
    """

    @property
    def ends_on_success(self) -> bool:
        """Whether an episode that terminates has succeeded."""
        ...


STUCK_WINDOWS = 5
"""An agent that has not left a cell for so many windows is stuck."""
AT_WINDOW_END = ("subgoal_miss", "window_displacement")
FAILURES = {
    "failed_fallen": "on the back",
    "failed_early": "ended early",
    "failed_stuck": "stuck",
    "failed_out_of_time": "out of time",
}
"""Why an episode was no success, in words."""


def summarise(episode: Episode, embedding: Embedding | None, setup: Setup, task: Played) -> dict[str, Mean]:
    """The metrics of evaluation episodes (..., time, episodes) of a task, each as a total and a weight."""
    xp, k, alive, known = episode.alive.__array_namespace__(), setup.cfg.k, episode.alive, known_distances(task)
    time = _times(alive)
    nothing_follows = xp.concatenate([~alive[..., 1:, :], xp.ones_like(alive[..., :1, :])], axis=-2)
    first = alive & (time % k == 0)
    last = alive & (nothing_follows | ((time + 1) % k == 0))
    total, length = mean_where(alive, episode.reward, axis=-2)
    ones = xp.ones_like(length)
    numbers = {"eval/return": (total, ones), "eval/episode_length": (length, ones)}
    measured = subgoal_numbers(episode.obs, episode.subgoal, episode.next_obs, embedding, setup, known)
    measured |= travel_numbers(episode, setup, getattr(task, "in_wall", None))
    for name, values in measured.items():
        numbers[f"eval/{name}"] = mean_where(last if name in AT_WINDOW_END else first, values, axis=-2)
    for name, happened in endings(episode, setup, task).items():
        numbers[f"eval/{name}"] = (happened.astype(ones.dtype), ones)
    return numbers


def travel_numbers(episode: Episode, setup: Setup, in_wall: InWall | None) -> dict[str, Shaped[AnyArray, "*n"]]:
    """For each step: the length of its subgoal, whether that is in a wall, and the way since its window began."""
    xp, space, k = episode.alive.__array_namespace__(), setup.space, setup.cfg.k
    position, after = space.phi(episode.obs), space.phi(episode.next_obs)
    begun = xp.take(position, xp.arange(position.shape[-3]) // k * k, axis=-3)
    numbers = {"window_displacement": xp.linalg.norm(after - begun, axis=-1)}
    if setup.cfg.manager.subgoals == "none":
        return numbers
    target = space.target(episode.subgoal, position)
    numbers["subgoal_length"] = xp.linalg.norm(target - position, axis=-1)
    if in_wall is not None:
        numbers["subgoal_in_wall"] = in_wall(target.reshape(-1, space.goal_dim)).reshape(target.shape[:-1])
    return numbers


def endings(episode: Episode, setup: Setup, task: Played) -> dict[str, Bool[AnyArray, "*n"]]:
    """For each episode: whether it succeeded, or why not; and whether its agent is on its back at the end, if it can fall."""
    xp, alive, space = episode.alive.__array_namespace__(), episode.alive, setup.space
    length = xp.sum(alive, axis=-2)
    end = length[..., None, :, None] - 1  # (..., 1, episodes, 1)
    last_obs = xp.take_along_axis(episode.next_obs, end, axis=-3)
    ended = {}
    if space.fallen is not None:
        ended["fallen"] = space.fallen(last_obs)[..., 0, :]
    if not task.ends_on_success:
        return ended
    recent = alive & (_times(alive) > end[..., 0] - STUCK_WINDOWS * setup.cfg.k)
    way = xp.linalg.norm(space.phi(episode.next_obs) - space.phi(last_obs), axis=-1)
    stuck = xp.max(xp.where(recent, way, 0.0), axis=-2) <= setup.cfg.adjacency.cell_size
    success = xp.any(episode.terminated & alive, axis=-2)
    left = ~success
    ended["success"] = success
    if "fallen" in ended:
        ended["failed_fallen"] = left & ended["fallen"]
        left = left & ~ended["fallen"]
    if (limit := getattr(task, "may_end_before", None)) is not None:
        early = length < limit
        ended["failed_early"] = left & early
        left = left & ~early
    return ended | {"failed_stuck": left & stuck, "failed_out_of_time": left & ~stuck}


def _times(alive: Bool[AnyArray, "*n time episodes"]) -> AnyArray:
    """The number of each step, with as many axes (..., time, 1)."""
    return alive.__array_namespace__().arange(alive.shape[-2]).reshape(*[1] * (alive.ndim - 2), -1, 1)


def mean_where(mask: Bool[AnyArray, "*n"], values: Shaped[AnyArray, "*n"], axis: int | None = None) -> Mean:
    """Total and weight of the values where the mask is true, of all or along an axis."""
    xp, wide = mask.__array_namespace__(), _wide(mask)
    return xp.sum(xp.where(mask, values.astype(wide), 0.0), axis=axis), xp.sum(mask.astype(wide), axis=axis)


def _wide(like: AnyArray) -> Any:
    """Sums on the host are in double precision."""
    return np.float64 if isinstance(like, np.ndarray) else np.float32


def subgoal_numbers(
    obs: Float[AnyArray, "*n obs"],
    subgoal: Float[AnyArray, "*n goal"],
    next_obs: Float[AnyArray, "*n obs"],
    embedding: Embedding | None,
    setup: Setup,
    known: KnownDistances | None,
) -> dict[str, Shaped[AnyArray, "*n"]]:
    """For each step: whether its subgoal is judged adjacent, whether it is truly within k steps, its distance after the step.

    The first needs an adjacency network, the second an environment that knows its distances. Without subgoals there is nothing.
    """
    if setup.cfg.manager.subgoals == "none":
        return {}
    xp, space = obs.__array_namespace__(), setup.space
    position, after = space.phi(obs), space.phi(next_obs)
    target = space.target(subgoal, position)
    numbers = {}
    if embedding is not None:
        numbers["subgoal_judged_adjacent"] = judged_adjacent(embedding, subgoal, position, setup)
    numbers["subgoal_miss"] = xp.linalg.norm(target - after, axis=-1)
    if known is not None:
        rows = (points.reshape(-1, space.goal_dim) for points in (position, target))
        steps = xp.asarray(jax.vmap(known.steps_between)(*rows))
        numbers["subgoal_within_k"] = ((steps >= 0) & (steps <= setup.cfg.k)).reshape(obs.shape[:-1])
    return numbers
