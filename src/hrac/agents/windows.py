"""Experience, and how it is cut into the windows of the two levels.

A window is the life of one subgoal: k steps, or fewer where the episode ends first. Rounds do not respect windows. What is
learned from a round (`controller_steps`) begins with the last k steps of the round before, its tail: a window is learned from
in the round in which it ends, whole, and every step is used exactly once.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from hrac.agents.a2c import ControllerStep, returns_to_window_end
from hrac.agents.decide import Setup
from hrac.agents.subgoals import SubgoalSpace, reached
from hrac.agents.td3 import Transition
from hrac.config import Config
from hrac.settings import TD3
from hrac.spaces import AnyArray, Box


class Trajectory(NamedTuple):
    """Consecutive steps of one environment copy; episodes follow one another."""

    obs: Float[AnyArray, "*time obs"]
    subgoal: Float[AnyArray, "*time goal"]
    """The subgoal the controller acted on."""
    action: Shaped[AnyArray, "*action"]
    reward: Float[AnyArray, "*time"]
    next_obs: Float[AnyArray, "*time obs"]
    """The true next observation, also where the episode ended."""
    terminated: Bool[AnyArray, "*time"]
    truncated: Bool[AnyArray, "*time"]
    clock: Int[AnyArray, "*time"]
    """Steps since the subgoal was proposed, 0 to k - 1."""
    last: Bool[AnyArray, "*time"]
    """Whether the step is its window's last."""


class Window(NamedTuple):
    """A window as the manager sees it, with all that happened in it for the off-policy correction."""

    whole: Transition
    obs: Float[Array, "*n k obs"]
    action: Shaped[Array, "*action"]
    inside: Bool[Array, "*n k"]
    """Which of the k steps there were: an episode can end before."""


def empty_steps(setup: Setup, count: int) -> Trajectory:
    """Steps that belong to nothing: each is a window of its own."""
    zeros = jnp.zeros
    return Trajectory(
        obs=zeros((count, setup.obs_dim)),
        subgoal=zeros((count, setup.space.goal_dim)),
        action=zeros((count, setup.actions.outputs)) if isinstance(setup.actions, Box) else zeros(count, jnp.int32),
        reward=zeros(count),
        next_obs=zeros((count, setup.obs_dim)),
        terminated=zeros(count, bool),
        truncated=zeros(count, bool),
        clock=zeros(count, jnp.int32),
        last=jnp.ones(count, bool),
    )


def manager_window(steps: Trajectory, inside: Bool[Array, "*n k"], cfg: Config) -> Window:
    """The window that k steps (..., k) make, of which those `inside` are its own: s_t, g_t, the sum of rewards, s_t+k."""
    first = lambda leaf: leaf[..., 0, :]  # noqa: E731
    stopped = steps.terminated | (steps.truncated & (not cfg.manager.bootstrap_at_time_limit))
    whole = Transition(
        obs=first(steps.obs),
        action=first(steps.subgoal),
        reward=jnp.sum(jnp.where(inside, steps.reward, 0.0), axis=-1),
        next_obs=steps.next_obs[..., -1, :],
        bootstrap=~stopped[..., -1],
    )
    return Window(whole, steps.obs, steps.action, inside)


def controller_steps(trajectory: Trajectory, space: SubgoalSpace, cfg: Config) -> ControllerStep:
    """The steps of one copy, a tail of k before them, with their returns. Those of windows that ended after the tail count."""
    k, time = cfg.k, jnp.arange(len(trajectory.reward))
    rewards = intrinsic_rewards(trajectory, space, cfg)
    window_end = jax.lax.cummin(jnp.where(trajectory.last, time, len(time)), reverse=True)
    return ControllerStep(
        seen=space.controller_input(trajectory.obs, trajectory.subgoal),
        action=trajectory.action,
        ret=returns_to_window_end(rewards, trajectory.last, cfg.controller.discount, k),
        valid=(window_end >= k) & (window_end < len(time)),
    )


def controller_transitions(new: Trajectory, space: SubgoalSpace, cfg: Config) -> Transition:
    """Steps as TD3 learns from them: the next subgoal is the same point, seen from there."""
    after = space.transition(new.subgoal, space.phi(new.obs), space.phi(new.next_obs))
    stopped = new.terminated | new.truncated
    if isinstance(cfg.controller, TD3) and cfg.controller.ends_with_window:
        stopped = stopped | new.last
    return Transition(
        obs=space.controller_input(new.obs, new.subgoal),
        action=new.action,
        reward=intrinsic_rewards(new, space, cfg),
        next_obs=space.controller_input(new.next_obs, after),
        bootstrap=~stopped,
    )


def intrinsic_rewards(trajectory: Trajectory, space: SubgoalSpace, cfg: Config) -> Float[Array, "*time"]:
    """1 where a step reached the subgoal it was taken for, else 0; or minus the distance at which it left it.

    A step that ends with the agent on its back has `controller.fallen_penalty` less.
    """
    target, after = space.target(trajectory.subgoal, space.phi(trajectory.obs)), space.phi(trajectory.next_obs)
    if cfg.controller.intrinsic_reward == "distance":
        rewards = -jnp.linalg.norm(target - after, axis=-1)
    else:
        rewards = reached(target, after, cfg.controller.reach_radius).astype(jnp.float32)
    return rewards if cfg.controller.fallen_penalty == 0 else rewards - fall_costs(trajectory, space, cfg)


def fall_costs(trajectory: Trajectory, space: SubgoalSpace, cfg: Config) -> Float[Array, "*time"]:
    """What lying on its back costs the controller: the penalty for each step that ends so, else 0."""
    assert space.fallen is not None, "a task whose agent cannot fall has no penalty for it (`tasks.make_env` sees to that)"
    return jnp.where(space.fallen(trajectory.next_obs), cfg.controller.fallen_penalty, 0.0)
