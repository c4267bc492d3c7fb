"""The two levels when both are TD3: what a round's experience is to each, off-policy correction, and learning.

    learn  after a round of n steps:
             n controller updates on minibatches of steps        td3.update on the intrinsic reward
             n / k manager updates on minibatches of windows     correct, then td3.update with the adjacency loss

Everything is for one run; the training loop maps it over runs. Acting is done by NumPy on the host: `training.collect`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from hrac.adjacency import network
from hrac.agents import td3
from hrac.agents.hierarchy import AgentState, manager_metrics, manager_settings, too_far
from hrac.agents.subgoals import SubgoalSpace
from hrac.agents.td3 import Metrics, Settings, TD3State, Transition
from hrac.agents.windows import Trajectory, intrinsic_rewards, manager_windows
from hrac.config import Config
from hrac.nets import MLP


class ActionBox(NamedTuple):
    """The environment's actions."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def squash(self, raw: Float[Array, " action"]) -> Float[Array, " action"]:
        """tanh over the range."""
        low, high = self.bounds()
        return (low + high) / 2 + (high - low) / 2 * jnp.tanh(raw)

    def bounds(self) -> tuple[Float[Array, " action"], Float[Array, " action"]]:
        """Lowest and highest action."""
        return jnp.asarray(self.low, jnp.float32), jnp.asarray(self.high, jnp.float32)


class Stretch(NamedTuple):
    """A window with all that happened in it, for the off-policy correction."""

    window: Transition
    obs: Float[Array, "*n k obs"]
    action: Float[Array, "*n k action"]
    inside: Bool[Array, "*n k"]
    """Which of the k steps there were: an episode can end before."""


def init(key: PRNGKeyArray, obs_dim: int, space: SubgoalSpace, actions: ActionBox, cfg: Config) -> AgentState:
    """An untrained agent."""
    key_manager, key_controller, key_adjacency = jax.random.split(key, 3)
    seen = obs_dim - space.context + space.dimensions
    return AgentState(
        manager=td3.init(key_manager, obs_dim, space.dimensions, manager_settings(cfg)),
        controller=td3.init(key_controller, seen, len(actions.low), controller_settings(cfg)),
        adjacency=network.init(key_adjacency, space.dimensions, cfg.adjacency),
    )


def controller_settings(cfg: Config) -> Settings:
    """The controller's TD3."""
    level = cfg.controller
    return Settings(
        hidden=level.hidden,
        actor_learning_rate=level.learning_rate,
        critic_learning_rate=level.critic_learning_rate,
        soft_update_rate=level.soft_update_rate,
        discount=level.discount,
        reward_scale=level.reward_scale,
        huber=True,
        critic_weight_decay=level.critic_weight_decay,
        target_noise_sigma=level.target_noise_sigma,
        target_noise_clip=level.target_noise_clip,
        output_penalty=level.output_penalty,
    )


def stretches(trajectory: Trajectory, cfg: Config) -> tuple[Stretch, Bool[Array, " steps"]]:
    """One stretch for each step after the tail, and whether a window did end at that step."""
    window, ended = manager_windows(trajectory, cfg)
    end = jnp.arange(cfg.k, len(trajectory.reward))
    index = (end - trajectory.clock[cfg.k :])[:, None] + jnp.arange(cfg.k)[None, :]
    inside = index <= end[:, None]
    index = jnp.minimum(index, end[:, None])
    return Stretch(window, trajectory.obs[index], trajectory.action[index], inside), ended


def controller_transitions(trajectory: Trajectory, space: SubgoalSpace, cfg: Config) -> Transition:
    """Every step after the tail as the controller learns from it: the next subgoal is the same point, seen from there."""
    new = jax.tree.map(lambda leaf: leaf[cfg.k :], trajectory)

    def inputs(obs: Array, subgoal: Array, next_obs: Array) -> tuple[Array, Array]:
        after = space.transition(subgoal, space.phi(obs), space.phi(next_obs))
        return space.controller_input(obs, subgoal), space.controller_input(next_obs, after)

    seen, seen_next = jax.vmap(inputs)(new.obs, new.subgoal, new.next_obs)
    stopped = new.terminated | new.truncated
    if cfg.controller.ends_with_window:
        stopped = stopped | new.last
    return Transition(seen, new.action, intrinsic_rewards(new, space, cfg), seen_next, ~stopped)


def correct(
    draws: Float[Array, "batch candidates goal"], controller: MLP, batch: Stretch, space: SubgoalSpace, actions: ActionBox
) -> Float[Array, "batch goal"]:
    """The subgoals that best explain, for the present controller, what was done in windows (HIRO's correction).

    Candidates are the stored subgoal, the displacement achieved, and `draws`. Each is carried along the window by h; the one
    whose actions come closest to those taken (squared error, summed over the window) is chosen.
    """
    achieved = jax.vmap(space.phi)(batch.window.next_obs) - jax.vmap(space.phi)(batch.window.obs)
    candidates = jnp.concatenate([batch.window.action[:, None], achieved[:, None], draws], axis=1)

    # Subgoals come last in what the controller is given, and h only adds to them: so a candidate adds a part of its own to the
    # sums of the first layer, and the rest of these is the same for all.
    def beside(obs: Array, start: Array) -> Array:
        origin = space.transition(jnp.zeros_like(start), start, space.phi(obs))
        return controller.first(space.controller_input(obs, origin))

    starts = jax.vmap(space.phi)(batch.window.obs)
    sums = jax.vmap(jax.vmap(beside, (0, None)))(batch.obs, starts)
    by_candidate = candidates @ controller.weights[0][-space.dimensions :]

    def error(added: Array) -> Array:
        chosen = jax.vmap(jax.vmap(lambda s: actions.squash(controller.after_first(s))))(sums + added[:, None])
        return jnp.sum(jnp.where(batch.inside[..., None], (chosen - batch.action) ** 2, 0.0), axis=(1, 2))

    # A CPU's cache holds the work on one candidate; an accelerator is kept busy by all of them at once.
    at_once = 1 if jax.default_backend() == "cpu" else candidates.shape[1]
    errors = jax.lax.map(error, jnp.swapaxes(by_candidate, 0, 1), batch_size=at_once)
    return jax.vmap(lambda options, wrong: options[jnp.argmin(wrong)])(candidates, errors.T)


def draw_candidates(
    key: PRNGKeyArray, batch: Stretch, space: SubgoalSpace, cfg: Config
) -> Float[Array, "batch candidates goal"]:
    """Random subgoals around the displacements achieved: N(displacement, half the range), clipped to the range."""
    achieved = jax.vmap(space.phi)(batch.window.next_obs) - jax.vmap(space.phi)(batch.window.obs)
    low, high = space.bounds()
    shape = (len(achieved), cfg.manager.correction_candidates, space.dimensions)
    spread = (0.25 * (high - low))[None, None, :]  # half of the range to each side
    return jnp.clip(achieved[:, None, :] + spread * jax.random.normal(key, shape), low[None, None, :], high[None, None, :])


def learn_controller(
    key: PRNGKeyArray, controller: TD3State, batches: Transition, actions: ActionBox, cfg: Config
) -> tuple[TD3State, Metrics]:
    """An update for each minibatch of steps (updates, batch)."""
    settings = controller_settings(cfg)

    def one(controller: TD3State, drawn: tuple[Array, Transition]) -> tuple[TD3State, Metrics]:
        key, batch = drawn
        return td3.update(key, controller, batch, actions, None, settings)

    keys = jax.random.split(key, len(batches.reward))
    controller, metrics = jax.lax.scan(one, controller, (keys, batches))
    return controller, {f"controller/{name}": jnp.mean(numbers) for name, numbers in metrics.items()}


def learn_manager(
    key: PRNGKeyArray, agent: AgentState, batches: Stretch, space: SubgoalSpace, actions: ActionBox, cfg: Config
) -> tuple[TD3State, Metrics]:
    """A correction and an update for each minibatch of windows (updates, batch)."""
    settings, penalty = manager_settings(cfg), too_far(agent, space, cfg)

    def one(manager: TD3State, drawn: tuple[Array, Stretch]) -> tuple[TD3State, Metrics]:
        key, batch = drawn
        key_draw, key_update = jax.random.split(key)
        window, metrics = batch.window, {}
        if cfg.manager.correction_candidates > 0:
            draws = draw_candidates(key_draw, batch, space, cfg)
            corrected = correct(draws, agent.controller.actor, batch, space, actions)
            metrics["corrected"] = jnp.mean(jnp.any(corrected != window.action, axis=1).astype(jnp.float32))
            window = window._replace(action=corrected)
        manager, numbers = td3.update(key_update, manager, window, space, penalty, settings)
        return manager, metrics | numbers

    keys = jax.random.split(key, len(batches.inside))
    manager, metrics = jax.lax.scan(one, agent.manager, (keys, batches))
    return manager, manager_metrics({name: jnp.mean(numbers) for name, numbers in metrics.items()})


def learn(
    key: PRNGKeyArray,
    agent: AgentState,
    steps: Transition,
    windows: Stretch,
    space: SubgoalSpace,
    actions: ActionBox,
    cfg: Config,
) -> tuple[AgentState, Metrics]:
    """Controller updates, then manager updates with the controller they lead to."""
    assert isinstance(agent.controller, TD3State)
    key_controller, key_manager = jax.random.split(key)
    controller, controller_numbers = learn_controller(key_controller, agent.controller, steps, actions, cfg)
    agent = agent._replace(controller=controller)
    manager, manager_numbers = learn_manager(key_manager, agent, windows, space, actions, cfg)
    return agent._replace(manager=manager), controller_numbers | manager_numbers
