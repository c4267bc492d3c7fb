"""The numbers of played episodes, and of subgoals: see docs/metrics.md. For NumPy and JAX alike."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Shaped

from hrac.agents.decide import Setup, judged_adjacent
from hrac.envs.base import KnownDistances
from hrac.nets import MLP
from hrac.spaces import AnyArray
from hrac.worlds.base import Episode

Mean = tuple[AnyArray, AnyArray]
"""A total and a weight, so that means over episodes, rounds and copies can be put together later."""


def summarise(
    episode: Episode, embedding: MLP | None, setup: Setup, known: KnownDistances | None, ends_on_success: bool
) -> dict[str, Mean]:
    """The numbers of episodes (..., time, episodes), each as a total and how many things it is a total over."""
    xp, k, alive = episode.alive.__array_namespace__(), setup.cfg.k, episode.alive
    time = xp.arange(alive.shape[-2]).reshape(*[1] * (alive.ndim - 2), -1, 1)
    nothing_follows = xp.concatenate([~alive[..., 1:, :], xp.ones_like(alive[..., :1, :])], axis=-2)
    first = alive & (time % k == 0)
    last = alive & (nothing_follows | ((time + 1) % k == 0))
    total, length = mean_where(alive, episode.reward, axis=-2)
    one = xp.ones_like(length)
    numbers = {"eval/return": (total, one), "eval/episode_length": (length, one)}
    measured = subgoal_numbers(episode.obs, episode.subgoal, episode.next_obs, embedding, setup, known)
    for name, values in measured.items():
        numbers[f"eval/{name}"] = mean_where(last if name == "subgoal_miss" else first, values, axis=-2)
    if ends_on_success:
        numbers["eval/success"] = (xp.any(episode.terminated & alive, axis=-2).astype(one.dtype), one)
    return numbers


def mean_where(mask: Bool[AnyArray, "*n"], values: Shaped[AnyArray, "*n"], axis: int | None = None) -> Mean:
    """Total and weight, of all or along an axis, of the values where the mask holds."""
    xp, wide = mask.__array_namespace__(), _wide(mask)
    return xp.sum(xp.where(mask, values.astype(wide), 0.0), axis=axis), xp.sum(mask.astype(wide), axis=axis)


def _wide(like: AnyArray) -> Any:
    """The host can afford to add up in double precision."""
    return np.float64 if isinstance(like, np.ndarray) else np.float32


def subgoal_numbers(
    obs: Float[AnyArray, "*n obs"],
    subgoal: Float[AnyArray, "*n goal"],
    next_obs: Float[AnyArray, "*n obs"],
    embedding: MLP | None,
    setup: Setup,
    known: KnownDistances | None,
) -> dict[str, Shaped[AnyArray, "*n"]]:
    """Of each step: is its subgoal judged adjacent, is it truly within k steps, how far from it did the step end.

    The judgement needs an adjacency network, the truth an environment that knows its distances.
    """
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
        numbers["subgoal_within_k"] = steps.reshape(obs.shape[:-1]) <= setup.cfg.k
    return numbers
