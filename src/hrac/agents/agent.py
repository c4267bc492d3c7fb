"""Everything that one run learns, and its updates after a round (Algorithm 1).

    learn  after a round of n steps:
             controller updates                                 controller.learn
             n / k manager updates, or several times as many    manager.learn
             the average of the actors, if one is kept
    every C steps, separately: the adjacency network            adjacency.learn

Everything is for one run; training maps it over runs. Acting is in `decide`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from hrac.adjacency import network, ways
from hrac.adjacency.network import AdjacencyState
from hrac.agents import controller, manager
from hrac.agents.a2c import ControllerStep
from hrac.agents.controller import ControllerState
from hrac.agents.decide import Actors, Setup
from hrac.agents.td3 import Metrics, TD3State, Transition
from hrac.agents.windows import Window


class Averaged(NamedTuple):
    """Actors with their weights averaged over time."""

    actors: Actors
    """Without the adjacency network."""
    rounds: Int[Array, ""]
    """Rounds learned from so far."""

    @classmethod
    def of(cls, actors: Actors) -> "Averaged":
        """The average before anything was learned, in arrays of its own: buffers that are donated must not be shared."""
        return cls(jax.tree.map(jnp.copy, _without_adjacency(actors)), jnp.zeros((), jnp.int32))

    def including(self, actors: Actors, share: float) -> "Averaged":
        """The average with the actors after one more round, which have at least this share in it.

        At first they have more, so that the average spans no more than about the last tenth of all rounds so far.
        """
        rate = jnp.maximum(min(share, 1.0), 10.0 / (self.rounds.astype(jnp.float32) + 10.0))
        moved = jax.tree.map(lambda mean, new: mean + rate * (new - mean), self.actors, _without_adjacency(actors))
        return Averaged(moved, self.rounds + 1)


def _without_adjacency(actors: Actors) -> Actors:
    return actors._replace(embedding=None)


class AgentState(NamedTuple):
    """Everything that one run learns."""

    manager: TD3State | None
    """None where there is no manager."""
    controller: ControllerState
    adjacency: AdjacencyState | None
    """None where adjacency is not learned."""
    ways: Int[Array, "cells cells"] | None = None
    """`next_cells` of the present adjacency table; None without `manager.way_pull`."""
    averaged: Averaged | None = None
    """None without `training.averaging_env_steps`."""

    @property
    def actors(self) -> Actors:
        """What is needed to act."""
        embedding = None if self.adjacency is None else self.adjacency.embedding
        manager = None if self.manager is None else self.manager.actor
        return Actors(manager, self.controller.actor, embedding)

    @property
    def policy(self) -> Actors:
        """What is evaluated and saved."""
        if self.averaged is None:
            return self.actors
        return self.averaged.actors._replace(embedding=self.actors.embedding)


def init(key: PRNGKeyArray, setup: Setup) -> AgentState:
    """An untrained agent."""
    key_manager, key_controller, key_adjacency = jax.random.split(key, 3)
    learned = setup.cfg.adjacency.source != "none"
    agent = AgentState(
        manager=manager.init(key_manager, setup) if setup.has_manager else None,
        controller=controller.init(key_controller, setup),
        adjacency=network.init(key_adjacency, setup.space.goal_dim, setup.cfg.adjacency) if learned else None,
        ways=None if setup.grid is None else jnp.full((setup.grid.size,) * 2, ways.NONE, jnp.int32),
    )
    if setup.cfg.training.averaging_env_steps == 0:
        return agent
    return agent._replace(averaged=Averaged.of(agent.actors))


def learn(
    key: PRNGKeyArray, agent: AgentState, steps: ControllerStep | Transition, windows: Window | None, setup: Setup
) -> tuple[AgentState, Metrics]:
    """Updates of both levels, then the average of their actors, if one is kept."""
    agent, metrics = _learn(key, agent, steps, windows, setup)
    if agent.averaged is None:
        return agent, metrics
    share = setup.cfg.training.round_env_steps / setup.cfg.training.averaging_env_steps
    return agent._replace(averaged=agent.averaged.including(agent.actors, share)), metrics


def _learn(
    key: PRNGKeyArray, agent: AgentState, steps: ControllerStep | Transition, windows: Window | None, setup: Setup
) -> tuple[AgentState, Metrics]:
    """Controller updates, then manager updates with the updated controller, if there is a manager."""
    key_controller, key_manager = jax.random.split(key)
    low, low_metrics = controller.learn(key_controller, agent.controller, steps, setup)
    agent = agent._replace(controller=low)
    if agent.manager is None or windows is None:
        return agent, low_metrics
    actors = agent.actors
    high, high_metrics = manager.learn(
        key_manager, agent.manager, actors.controller, actors.embedding, windows, setup, agent.ways
    )
    return agent._replace(manager=high), low_metrics | high_metrics
