"""Everything that one run learns, and its updates after a round (Algorithm 1).

    learn  after a round of n steps:
             controller updates                                 controller.learn
             n / k manager updates, or several times as many    manager.learn
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


class AgentState(NamedTuple):
    """Everything that one run learns."""

    manager: TD3State | None
    """None where there is no manager."""
    controller: ControllerState
    adjacency: AdjacencyState | None
    """None where adjacency is not learned."""
    ways: Int[Array, "cells cells"] | None = None
    """`next_cells` of the present adjacency table; None without `manager.way_pull`."""

    @property
    def actors(self) -> Actors:
        """What is needed to act."""
        embedding = None if self.adjacency is None else self.adjacency.embedding
        manager = None if self.manager is None else self.manager.actor
        return Actors(manager, self.controller.actor, embedding)


def init(key: PRNGKeyArray, setup: Setup) -> AgentState:
    """An untrained agent."""
    key_manager, key_controller, key_adjacency = jax.random.split(key, 3)
    learned = setup.cfg.adjacency.source != "none"
    return AgentState(
        manager=manager.init(key_manager, setup) if setup.has_manager else None,
        controller=controller.init(key_controller, setup),
        adjacency=network.init(key_adjacency, setup.space.goal_dim, setup.cfg.adjacency) if learned else None,
        ways=None if setup.grid is None else jnp.full((setup.grid.size,) * 2, ways.NONE, jnp.int32),
    )


def learn(
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
