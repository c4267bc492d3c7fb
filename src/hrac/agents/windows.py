"""Experience, and how it is divided into the windows of the two levels.

A window is the time of one subgoal: k steps, or fewer if the episode ends first. A window may begin in one round and end in the
next. So A2C's steps of a round (`controller_steps`) begin with the last k steps of the round before, the tail. A window is
learned from as a whole, in the round in which it ends, and every step is used exactly once.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from hrac.agents.a2c import Beyond, ControllerStep, returns_to_window_end
from hrac.agents.decide import Setup
from hrac.agents.subgoals import SubgoalSpace, reached
from hrac.agents.td3 import Transition
from hrac.config import Config
from hrac.envs.base import Outcome
from hrac.settings import A2C, TD3
from hrac.spaces import AnyArray, Box


class Trajectory(NamedTuple):
    """Consecutive steps of one environment copy, one episode after another."""

    obs: Float[AnyArray, "*time obs"]
    subgoal: Float[AnyArray, "*time goal"]
    """The subgoal that the controller acted for."""
    action: Shaped[AnyArray, "*action"]
    reward: Float[AnyArray, "*time"]
    next_obs: Float[AnyArray, "*time obs"]
    """The true next observation, also where the episode ended."""
    terminated: Bool[AnyArray, "*time"]
    truncated: Bool[AnyArray, "*time"]
    clock: Int[AnyArray, "*time"]
    """Steps since the subgoal was proposed, 0 to k - 1."""
    last: Bool[AnyArray, "*time"]
    """Whether the step is the last of its window."""


class Window(NamedTuple):
    """A window as the manager sees it, with its steps for the off-policy correction."""

    whole: Transition
    obs: Float[Array, "*n k obs"]
    action: Shaped[Array, "*action"]
    inside: Bool[Array, "*n k"]
    """Which of the k steps belong to the window: an episode can end earlier."""


def empty_steps(setup: Setup, count: int) -> Trajectory:
    """Empty steps, each of which is a window by itself."""
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
    """The window of k steps (..., k), of which those `inside` belong to it: s_t, g_t, the sum of rewards, s_t+k."""
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
    """The steps of one copy, after a tail of k steps, with their returns. Only windows that end after the tail are valid."""
    k, time = cfg.k, jnp.arange(len(trajectory.reward))
    rewards = intrinsic_rewards(trajectory, space, cfg)
    window_end = jax.lax.cummin(jnp.where(trajectory.last, time, len(time)), reverse=True)
    return ControllerStep(
        seen=space.controller_input(trajectory.obs, trajectory.subgoal),
        action=trajectory.action,
        ret=returns_to_window_end(rewards, trajectory.last, cfg.controller.discount, k),
        valid=(window_end >= k) & (window_end < len(time)),
        beyond=_beyond(trajectory, window_end, space, cfg),
    )


def _beyond(trajectory: Trajectory, window_end: Int[Array, " time"], space: SubgoalSpace, cfg: Config) -> Beyond | None:
    """What follows the window of each step, if returns go on past its end. After the end of an episode nothing follows."""
    assert isinstance(cfg.controller, A2C)
    if not cfg.controller.bootstraps:
        return None
    time = jnp.arange(len(window_end))
    end = jnp.minimum(window_end, len(time) - 1)
    last = jax.tree.map(lambda leaf: leaf[end], trajectory)
    subgoal = space.transition(last.subgoal, space.phi(last.obs), space.phi(last.next_obs))
    weight = jnp.asarray(cfg.controller.discount, jnp.float32) ** (end - time + 1).astype(jnp.float32)
    return Beyond(
        seen=space.controller_input(last.next_obs, subgoal),
        weight=jnp.where(last.terminated | last.truncated, 0.0, weight),
    )


def controller_transitions(new: Trajectory, space: SubgoalSpace, cfg: Config) -> Transition:
    """Steps as TD3 learns from them: the next subgoal is the same point, as seen from the next position."""
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


def with_subgoals(
    steps: Trajectory, points: Float[Array, "*n goal"], where: Bool[Array, "*n"], space: SubgoalSpace
) -> Trajectory:
    """The same steps with these points as subgoals at some of them."""
    subgoal = space.towards(points, space.phi(steps.obs))
    return steps._replace(subgoal=jnp.where(where[..., None], subgoal, steps.subgoal))


def with_targets(
    steps: Trajectory,
    inside: Bool[Array, "*n k"],
    points: Float[Array, "*n goal"],
    where: Bool[Array, "*n"],
    space: SubgoalSpace,
    outcome: Outcome,
) -> tuple[Trajectory, Bool[Array, "*n k"]]:
    """Windows (..., k) with these points as targets of the task at some of them, and which of their steps belong to them.

    They are paid as these targets would have paid, and end where these are reached, if that ends an episode.
    """
    targets, after = points[..., None, :], space.phi(steps.next_obs)
    reward, ended = outcome(after, targets)
    ended = jax.lax.optimization_barrier(ended)  # where nothing ends, the compiler would take seconds to sum up the constant
    _, had_ended = outcome(after, space.shown_target(steps.obs))  # an end at the old target does not count
    over = jnp.cumsum((ended & inside).astype(jnp.int32), axis=-1)
    before = (over == 0) | ((over == 1) & ended)
    told = steps._replace(
        obs=space.with_target(steps.obs, targets),
        reward=reward,
        next_obs=space.with_target(steps.next_obs, targets),
        terminated=(over > 0) | (steps.terminated & ~had_ended),
    )
    chosen = lambda new, old: jnp.where(where.reshape(*where.shape, *[1] * (new.ndim - where.ndim)), new, old)  # noqa: E731
    return jax.tree.map(chosen, told, steps), chosen(inside & before, inside)


def intrinsic_rewards(trajectory: Trajectory, space: SubgoalSpace, cfg: Config) -> Float[Array, "*time"]:
    """1 where a step reached its subgoal, else 0; or minus the distance to the subgoal after the step; or the environment's."""
    target, after = space.target(trajectory.subgoal, space.phi(trajectory.obs)), space.phi(trajectory.next_obs)
    if cfg.controller.intrinsic_reward == "environment":
        return cfg.manager.reward_scale * trajectory.reward
    if cfg.controller.intrinsic_reward == "distance":
        return -jnp.linalg.norm(target - after, axis=-1)
    return reached(target, after, cfg.controller).astype(jnp.float32)
