"""The two levels together (Algorithm 1): who proposes what, who acts, and what is learned from a round.

    act    for every step of every copy:
             clock 0: the manager proposes a subgoal           propose (explore) / propose_greedy (evaluate)
             else: the subgoal is carried on by h              SubgoalSpace.transition
             the controller acts for it                        act
    learn  after a round of n steps:
             1 controller update over the windows that ended   a2c.update
             n / k manager updates on minibatches of windows   td3.update
             (of two levels by TD3, on the host: `continuous`)
    The adjacency network is trained apart, every C steps      adjacency.learn

Everything is for one run; the training loop maps it over runs.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from hrac.adjacency import network
from hrac.adjacency.network import AdjacencyState
from hrac.agents import a2c, td3
from hrac.agents.a2c import A2CState, ControllerStep
from hrac.agents.subgoals import SubgoalSpace
from hrac.agents.td3 import Metrics, Penalty, Settings, TD3State, Transition
from hrac.config import Config


class AgentState(NamedTuple):
    """All that is learned in one run."""

    manager: TD3State
    controller: A2CState | TD3State
    adjacency: AdjacencyState


class Intent(NamedTuple):
    """What the hierarchy keeps between two steps of an episode."""

    subgoal: Float[Array, "*n goal"]
    clock: Int[Array, "*n"]
    """Steps since the last proposal; at 0 a new subgoal is due."""


def init(key: PRNGKeyArray, obs_dim: int, num_actions: int, space: SubgoalSpace, cfg: Config) -> AgentState:
    """An untrained agent."""
    key_manager, key_controller, key_adjacency = jax.random.split(key, 3)
    return AgentState(
        manager=td3.init(key_manager, obs_dim, space.dimensions, manager_settings(cfg)),
        controller=a2c.init(key_controller, obs_dim, space.dimensions, num_actions, cfg.controller),
        adjacency=network.init(key_adjacency, space.dimensions, cfg.adjacency),
    )


def manager_settings(cfg: Config) -> Settings:
    """The manager's TD3."""
    level = cfg.manager
    return Settings(
        hidden=level.hidden,
        actor_learning_rate=level.actor_learning_rate,
        critic_learning_rate=level.critic_learning_rate,
        soft_update_rate=level.soft_update_rate,
        discount=level.discount,
        reward_scale=level.reward_scale,
        penalty_weight=level.eta,
        huber=level.critic_loss == "huber",
        critic_weight_decay=level.critic_weight_decay,
        target_noise_sigma=level.target_noise_sigma,
        target_noise_clip=level.target_noise_clip,
    )


def manager_metrics(metrics: Metrics) -> Metrics:
    """TD3's numbers under the manager's names; its penalty is how far subgoals leave the k-step region."""
    return {"manager/too_far" if name == "penalty" else f"manager/{name}": number for name, number in metrics.items()}


def too_far(agent: AgentState, space: SubgoalSpace, cfg: Config) -> Penalty:
    """The adjacency loss of a subgoal,  max(||psi(phi(s)) - psi(g)|| - eps_k, 0)  (Eq. 13)."""

    def penalty(obs: Float[Array, " obs"], subgoal: Float[Array, " goal"]) -> Float[Array, ""]:
        position = space.phi(obs)
        apart = network.distance(agent.adjacency.embedding, position, space.target(subgoal, position))
        return jax.nn.relu(apart - cfg.manager.hinge)

    return penalty


def judged_adjacent(
    agent: AgentState, subgoal: Float[Array, " goal"], position: Float[Array, " goal"], space: SubgoalSpace, cfg: Config
) -> Bool[Array, ""]:
    """Whether the adjacency network takes the subgoal to be within k steps."""
    apart = network.distance(agent.adjacency.embedding, position, space.target(subgoal, position))
    return apart < cfg.adjacency.threshold


def propose_greedy(agent: AgentState, obs: Float[Array, " obs"], space: SubgoalSpace) -> Float[Array, " goal"]:
    """The manager's subgoal without noise."""
    return td3.act(agent.manager.actor, obs, space)


def propose(
    key: PRNGKeyArray, agent: AgentState, obs: Float[Array, " obs"], ready: Bool[Array, ""], space: SubgoalSpace, cfg: Config
) -> Float[Array, " goal"]:
    """A subgoal to explore with: uniform over the map until learning starts (`ready`), then the manager's with noise.

    Of several noisy candidates, a random one among those judged adjacent is taken; if there is none, the plain subgoal.
    """
    key_uniform, key_noise, key_pick = jax.random.split(key, 3)
    position = space.phi(obs)
    plain = propose_greedy(agent, obs, space)
    keys = jax.random.split(key_noise, cfg.manager.candidates)
    noisy = jax.vmap(lambda k: space.perturb(k, plain, cfg.manager.noise_sigma))(keys)
    if cfg.manager.candidates == 1:
        chosen = noisy[0]
    else:
        adjacent = jax.vmap(lambda subgoal: judged_adjacent(agent, subgoal, position, space, cfg))(noisy)
        lottery = jnp.where(adjacent, jax.random.uniform(key_pick, adjacent.shape), -1.0)
        chosen = jnp.where(jnp.any(adjacent), noisy[jnp.argmax(lottery)], plain)
    return jnp.where(ready, chosen, space.uniform(key_uniform, position))


def act(
    key: PRNGKeyArray, agent: AgentState, obs: Float[Array, " obs"], subgoal: Float[Array, " goal"], space: SubgoalSpace
) -> Int[Array, ""]:
    """The controller's action: a draw from its policy."""
    shown = space.shown(subgoal, space.phi(obs))
    return jax.random.categorical(key, a2c.logits(agent.controller.actor, obs, shown))


def carry_on(intent: Intent, obs: Array, next_obs: Array, last: Bool[Array, ""], space: SubgoalSpace) -> Intent:
    """The intent for the next step: the subgoal seen from there, or a new one due when the window is over."""
    subgoal = space.transition(intent.subgoal, space.phi(obs), space.phi(next_obs))
    return Intent(subgoal, jnp.where(last, 0, intent.clock + 1))


def learn(
    key: PRNGKeyArray, agent: AgentState, steps: ControllerStep, batches: Transition, space: SubgoalSpace, cfg: Config
) -> tuple[AgentState, Metrics]:
    """One controller update over a round's steps, then a manager update for each minibatch of windows (updates, batch)."""
    assert isinstance(agent.controller, A2CState)
    controller, controller_metrics = a2c.update(agent.controller, steps, cfg.controller)

    every, settings, penalty = cfg.manager.value_every_gradient_steps, manager_settings(cfg), too_far(agent, space, cfg)

    def some(manager: TD3State, drawn: tuple[Transition, Array]) -> tuple[TD3State, list[Metrics]]:
        """`every` updates, the first of them with the actor's value term."""
        metrics, (group, keys) = [], drawn
        for index in range(every):
            batch = jax.tree.map(lambda leaf, i=index: leaf[i], group)
            manager, numbers = td3.update(keys[index], manager, batch, space, penalty, settings, index == 0)
            metrics.append(numbers)
        return manager, metrics

    groups = jax.tree.map(lambda leaf: leaf.reshape(-1, every, *leaf.shape[1:]), batches)
    keys = jax.random.split(key, (len(batches.reward) // every, every))
    manager, numbers = jax.lax.scan(some, agent.manager, (groups, keys))
    metrics = controller_metrics | manager_metrics(jax.tree.map(lambda *values: jnp.mean(jnp.stack(values)), *numbers))
    return agent._replace(manager=manager, controller=controller), metrics
