"""The two levels acting for many copies of many runs, by NumPy on the host.

For a few dozen copies the networks are too small to be worth a trip to the device and back at every step.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from hrac.agents.continuous import ActionBox
from hrac.agents.hierarchy import AgentState
from hrac.agents.subgoals import SubgoalSpace
from hrac.nets import MLP

Numbers = NDArray[np.float32]
Function = TypeVar("Function", bound=Callable[..., Any])
_BLAS = ThreadpoolController()


def undivided(function: Function) -> Function:
    """For what steps copies and acts in turn: matrix products in it are not divided among threads.

    NumPy's library would do that even with these small ones, and its threads then wait for the next in a busy loop, on the
    cores that the copies are to be stepped on. The limit holds for the whole process while the function runs, so such functions
    are to be called by one thread at a time.
    """
    return _BLAS.wrap(limits=1, user_api="blas")(function)


class Actors(NamedTuple):
    """What is needed to act, of all runs, as NumPy arrays (runs, ...)."""

    manager: MLP
    controller: MLP
    embedding: MLP

    @classmethod
    def of(cls, agents: AgentState) -> "Actors":
        """A copy on the host."""
        return jax.device_get(cls(agents.manager.actor, agents.controller.actor, agents.adjacency.embedding))


def forward(network: MLP, x: Numbers) -> Numbers:
    """Outputs (runs, n, out) of the runs' networks for their inputs (runs, n, in)."""
    for weight, bias in zip(network.weights[:-1], network.biases[:-1], strict=True):
        x = np.maximum(np.matmul(x, weight) + bias[:, None], 0.0)
    return np.matmul(x, network.weights[-1]) + network.biases[-1][:, None]


class Hierarchy:
    """Proposals, actions and the subgoals' transition, for positions in arrays (runs, n, ...)."""

    def __init__(self, space: SubgoalSpace, actions: ActionBox) -> None:
        assert space.relative, "only displacements are proposed on the host"
        self.space = space
        low, high = (np.asarray(bound, np.float32) for bound in jax.device_get(space.bounds()))
        self.reach: Numbers = high
        self.low, self.high = np.array(actions.low, np.float32), np.array(actions.high, np.float32)
        self._middle: Numbers = np.mean([self.low, self.high], axis=0, dtype=np.float32)
        self._half: Numbers = self.high - self._middle
        assert np.array_equal(low, -high)

    def propose(self, actors: Actors, obs: Numbers) -> Numbers:
        """The manager's subgoals without noise."""
        return np.tanh(forward(actors.manager, obs)) * self.reach

    def perturb(self, subgoal: Numbers, noise: Numbers) -> Numbers:
        """With noise, within the range."""
        return np.clip(subgoal + noise, -self.reach, self.reach)

    def act(self, actors: Actors, obs: Numbers, subgoal: Numbers) -> Numbers:
        """The controller's actions without noise."""
        seen = obs[..., : obs.shape[-1] - self.space.context]
        inputs = np.concatenate([seen, subgoal], axis=-1)
        if not self.space.sees_position:
            inputs[..., : self.space.dimensions] = 0.0
        return self._middle + self._half * np.tanh(forward(actors.controller, inputs))

    def carry_on(self, subgoal: Numbers, obs: Numbers, next_obs: Numbers) -> Numbers:
        """h(g, s, s') = g + phi(s) - phi(s')."""
        dimensions = self.space.dimensions
        return subgoal + obs[..., :dimensions] - next_obs[..., :dimensions]

    def distance(self, actors: Actors, obs: Numbers, subgoal: Numbers) -> Numbers:
        """Learned distance from where the agent is to where the subgoal asks it to go."""
        position = obs[..., : self.space.dimensions]
        apart = forward(actors.embedding, position) - forward(actors.embedding, position + subgoal)
        return np.sqrt(np.square(apart).sum(axis=-1) + 1e-12)
