"""What is needed to act, apart from training: one small file per seed, and the policy it makes."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from hrac import config as configs
from hrac.agents import continuous, hierarchy
from hrac.agents.continuous import ActionBox
from hrac.agents.hierarchy import AgentState
from hrac.config import Config
from hrac.envs.base import Environment, HostTask
from hrac.folder import checkpoint
from hrac.folder.files import POLICIES, folder_within
from hrac.training.acting import Actors, Hierarchy
from hrac.training.spaces import subgoal_space

MOST_BYTES = 2_000_000_000
"""Of a policy file: far more than the largest networks that can be learned."""


def path_of(folder: Path, seed: int) -> Path:
    """Where a run folder keeps a seed's policy."""
    return folder / POLICIES / f"seed-{seed}.safetensors"


def save(folder: Path, agents: AgentState, config: Config) -> None:
    """Write the policy of every seed: the two actors and the adjacency embedding."""
    folder_within(folder / POLICIES)
    for index, seed in enumerate(config.seeds):
        agent = jax.tree.map(lambda leaf, i=index: leaf[i], agents)
        facts = {"seed": seed, "config": configs.to_dict(config)}
        checkpoint.save(path_of(folder, seed), "policy", checkpoint.flatten(_acting_part(agent), "agent"), facts)


def read(path: Path) -> tuple[checkpoint.Arrays, Config, int]:
    """What a policy file holds: arrays, configuration (but for what suited the machine) and seed. Raises `CheckpointError`."""
    arrays, facts = checkpoint.load(path, "policy", MOST_BYTES)
    with checkpoint.understanding(path):
        config = configs.replace(configs.from_dict(facts["config"]), {"training.env_threads": None})
        if type(seed := facts["seed"]) is not int or seed not in config.seeds:
            raise ValueError(f"seed {seed!r} is none of its configuration's")
        return arrays, config, seed


def agent_from(arrays: checkpoint.Arrays, path: Path, blank: AgentState) -> AgentState:
    """An agent that can act as the saved one did; what only learning needs is that of a blank one. Raises `CheckpointError`."""
    actor, controller, embedding = checkpoint.unflatten(arrays, _acting_part(blank), "agent", path)
    return jax.device_put(
        AgentState(
            blank.manager._replace(actor=actor),
            blank.controller._replace(actor=controller),
            blank.adjacency._replace(embedding=embedding),
        )
    )


def _acting_part(agent: AgentState) -> tuple[Any, Any, Any]:
    return agent.manager.actor, agent.controller.actor, agent.adjacency.embedding


class Policy:
    """A trained agent for a plain Gymnasium loop: it keeps its own subgoal clock.

    Call `reset()` when an episode begins and `act(observation)` at each step.
    """

    def __init__(self, arrays: checkpoint.Arrays, path: Path, env: Environment, config: Config, seed: int) -> None:
        self.env, self.space, self.config, self.seed = env, subgoal_space(env, config), config, seed
        blank = hierarchy.init(jax.random.key(0), env.obs_dim, env.num_actions, self.space, config)
        self.agent = agent_from(arrays, path, blank)
        self._key = jax.random.key(seed)
        self._act = jax.jit(self._act_once)
        self.reset()

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode: a subgoal is due. With a seed, the actions that follow are repeatable."""
        if seed is not None:
            self._key = jax.random.key(seed)
        self._clock = 0
        self._subgoal: Array = jnp.zeros(self.space.dimensions)
        self._obs: Array = jnp.zeros(self.env.obs_dim)

    @property
    def target(self) -> NDArray[np.float32]:
        """The point of goal space that the present subgoal asks for."""
        return np.asarray(self.space.target(self._subgoal, self.space.phi(self._obs)))

    def act(self, observation: Any) -> int:
        """The action for an observation."""
        obs = jnp.asarray(observation, jnp.float32)
        if obs.shape != (self.env.obs_dim,):
            raise ValueError(f"observation must have shape ({self.env.obs_dim},), got {obs.shape}")
        if not np.isfinite(obs).all():
            raise ValueError(f"observation must be finite, got {np.asarray(obs)}")
        self._key, key = jax.random.split(self._key)
        due = jnp.asarray(self._clock == 0)
        action, self._subgoal = self._act(key, self.agent, obs, self._obs, self._subgoal, due)
        self._obs = obs
        self._clock = (self._clock + 1) % self.config.k
        return int(action)

    def _act_once(
        self, key: Array, agent: AgentState, obs: Array, before: Array, subgoal: Array, due: Array
    ) -> tuple[Array, Array]:
        carried = self.space.transition(subgoal, self.space.phi(before), self.space.phi(obs))
        subgoal = jnp.where(due, hierarchy.propose_greedy(agent, obs, self.space), carried)
        return hierarchy.act(key, agent, obs, subgoal, self.space), subgoal


class HostPolicy:
    """A trained agent of two TD3 levels for a plain Gymnasium loop; like `Policy`, with actions that are arrays."""

    def __init__(self, arrays: checkpoint.Arrays, path: Path, task: HostTask, config: Config, seed: int) -> None:
        self.task, self.config, self.seed, one = task, config, seed, task.batch(1, 1)
        self.space, actions = subgoal_space(one, config), ActionBox(one.action_low, one.action_high)
        self.obs_dim, self.context_dim = one.obs_dim, one.context_dim
        blank = continuous.init(jax.random.key(0), one.obs_dim + one.context_dim, self.space, actions, config)
        self.agent = agent_from(arrays, path, blank)
        self.actors = Actors.of(jax.tree.map(lambda leaf: leaf[None], self.agent))
        self.hierarchy = Hierarchy(self.space, actions)
        self.reset()

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode: a subgoal is due. (Nothing is drawn, so the seed changes nothing.)"""
        self._clock = 0
        self._subgoal = np.zeros((1, 1, self.space.dimensions), np.float32)
        self._obs = np.zeros((1, 1, self.obs_dim + self.context_dim), np.float32)

    @property
    def target(self) -> NDArray[np.float32]:
        """The point of goal space that the present subgoal asks for."""
        return self._obs[0, 0, : self.space.dimensions] + self._subgoal[0, 0]

    def act(self, observation: Any) -> NDArray[np.float32]:
        """The action for an observation: an array, or a dictionary with `observation` and `desired_goal`."""
        obs = self._read(observation)
        if self._clock == 0:
            self._subgoal = self.hierarchy.propose(self.actors, obs)
        else:
            self._subgoal = self.hierarchy.carry_on(self._subgoal, self._obs, obs)
        self._obs = obs
        self._clock = (self._clock + 1) % self.config.k
        return self.hierarchy.act(self.actors, obs, self._subgoal)[0, 0]

    def _read(self, observation: Any) -> NDArray[np.float32]:
        if isinstance(observation, dict):
            if missing := {"observation", "desired_goal"} - observation.keys():
                raise ValueError(f"observation has no {', '.join(sorted(missing))}")
            observation = np.concatenate([observation["observation"], observation["desired_goal"]])
        obs, size = np.asarray(observation, np.float32), self.obs_dim + self.context_dim
        if obs.shape != (size,):
            form = "" if self.context_dim == 0 else ' (or a dictionary with "observation" and "desired_goal")'
            raise ValueError(f"observation must have shape ({size},){form}, got {obs.shape}")
        if not np.isfinite(obs).all():
            raise ValueError(f"observation must be finite, got {obs}")
        return obs[None, None]
