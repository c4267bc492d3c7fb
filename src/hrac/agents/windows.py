"""Experience, and how it is cut into the windows of the two levels.

A window is the life of one subgoal: k steps, or fewer where the episode ends first. Rounds do not respect windows, so a
trajectory begins with the last k steps of the round before (its tail): a window is learned from in the round in which it
ends, whole, and every step is used exactly once.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from hrac.agents.a2c import ControllerStep, returns_to_window_end
from hrac.agents.subgoals import SubgoalSpace, reached
from hrac.agents.td3 import Transition
from hrac.config import Config


class Trajectory(NamedTuple):
    """Consecutive steps of one environment copy; episodes follow one another."""

    obs: Float[Array, "*time obs"]
    subgoal: Float[Array, "*time goal"]
    """The subgoal the controller acted on."""
    action: Shaped[Array, "*action"]
    reward: Float[Array, "*time"]
    next_obs: Float[Array, "*time obs"]
    """The true next observation, also where the episode ended."""
    terminated: Bool[Array, "*time"]
    truncated: Bool[Array, "*time"]
    clock: Int[Array, "*time"]
    """Steps since the subgoal was proposed, 0 to k - 1."""
    last: Bool[Array, "*time"]
    """Whether the step is its window's last."""


def empty_tail(k: int, obs_dim: int, goal_dim: int) -> Trajectory:
    """k steps that belong to nothing, to put before a first round."""
    zeros = jnp.zeros
    return Trajectory(
        obs=zeros((k, obs_dim)),
        subgoal=zeros((k, goal_dim)),
        action=zeros(k, jnp.int32),
        reward=zeros(k),
        next_obs=zeros((k, obs_dim)),
        terminated=zeros(k, bool),
        truncated=zeros(k, bool),
        clock=zeros(k, jnp.int32),
        last=jnp.ones(k, bool),
    )


def manager_windows(trajectory: Trajectory, cfg: Config) -> tuple[Transition, Bool[Array, " steps"]]:
    """One window for each step after the tail, and whether a window did end at that step."""
    k = cfg.k
    end = jnp.arange(k, len(trajectory.reward))
    start = end - trajectory.clock[k:]
    index = start[:, None] + jnp.arange(k)[None, :]
    inside = index <= end[:, None]
    reward = jnp.sum(jnp.where(inside, trajectory.reward[jnp.minimum(index, end[:, None])], 0.0), axis=1)
    stopped = trajectory.terminated[k:] | (trajectory.truncated[k:] & (not cfg.manager.bootstrap_at_time_limit))
    window = Transition(
        obs=trajectory.obs[start],
        action=trajectory.subgoal[start],
        reward=reward,
        next_obs=trajectory.next_obs[k:],
        bootstrap=~stopped,
    )
    return window, trajectory.last[k:]


def controller_steps(trajectory: Trajectory, space: SubgoalSpace, cfg: Config) -> ControllerStep:
    """All steps with their returns; those of windows that ended after the tail are valid."""
    k, time = cfg.k, jnp.arange(len(trajectory.reward))
    rewards = intrinsic_rewards(trajectory, space, cfg)
    window_end = jax.lax.cummin(jnp.where(trajectory.last, time, len(time)), reverse=True)
    return ControllerStep(
        obs=trajectory.obs,
        subgoal=jax.vmap(lambda g, o: space.shown(g, space.phi(o)))(trajectory.subgoal, trajectory.obs),
        action=trajectory.action,
        ret=returns_to_window_end(rewards, trajectory.last, cfg.controller.discount, k),
        valid=(window_end >= k) & (window_end < len(time)),
    )


def intrinsic_rewards(trajectory: Trajectory, space: SubgoalSpace, cfg: Config) -> Float[Array, " time"]:
    """1 where a step reached the subgoal it was taken for, else 0; or minus the distance at which it left it.

    A step that ends with the agent on its back has `controller.fallen_penalty` less.
    """

    def one(step: Trajectory) -> Array:
        target, after = space.target(step.subgoal, space.phi(step.obs)), space.phi(step.next_obs)
        if cfg.controller.intrinsic_reward == "distance":
            return -jnp.linalg.norm(target - after)
        return reached(target, after, cfg.controller.reach_radius).astype(jnp.float32)

    rewards = jax.vmap(one)(trajectory)
    return rewards if cfg.controller.fallen_penalty == 0 else rewards - fall_costs(trajectory, space, cfg)


def fall_costs(trajectory: Trajectory, space: SubgoalSpace, cfg: Config) -> Float[Array, " time"]:
    """What lying on its back costs the controller: the penalty for each step that ends so, else 0."""
    assert space.fallen is not None, "a task whose agent cannot fall has no penalty for it (`tasks.make_env` sees to that)"
    return jnp.where(space.fallen(trajectory.next_obs), cfg.controller.fallen_penalty, 0.0)
