"""The metrics of played episodes and of subgoals: see docs/metrics.md. For NumPy and JAX alike."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Shaped

from hrac.adjacency.network import Embedding
from hrac.agents.decide import Setup, judged_adjacent
from hrac.envs.base import KnownDistances
from hrac.spaces import AnyArray
from hrac.worlds.base import Episode

Mean = tuple[AnyArray, AnyArray]
"""A total and a weight, so that means over episodes, rounds and copies can be combined later."""


def summarise(
    episode: Episode, embedding: Embedding | None, setup: Setup, known: KnownDistances | None, ends_on_success: bool
) -> dict[str, Mean]:
    """The metrics of episodes (..., time, episodes), each as a total and a weight."""
    xp, k, alive = episode.alive.__array_namespace__(), setup.cfg.k, episode.alive
    time = xp.arange(alive.shape[-2]).reshape(*[1] * (alive.ndim - 2), -1, 1)
    nothing_follows = xp.concatenate([~alive[..., 1:, :], xp.ones_like(alive[..., :1, :])], axis=-2)
    first = alive & (time % k == 0)
    last = alive & (nothing_follows | ((time + 1) % k == 0))
    total, length = mean_where(alive, episode.reward, axis=-2)
    ones = xp.ones_like(length)
    numbers = {"eval/return": (total, ones), "eval/episode_length": (length, ones)}
    measured = subgoal_numbers(episode.obs, episode.subgoal, episode.next_obs, embedding, setup, known)
    for name, values in measured.items():
        numbers[f"eval/{name}"] = mean_where(last if name == "subgoal_miss" else first, values, axis=-2)
    if ends_on_success:
        numbers["eval/success"] = (xp.any(episode.terminated & alive, axis=-2).astype(ones.dtype), ones)
    return numbers


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
