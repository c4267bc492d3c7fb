"""Policies: one small file per seed with what is needed to act, and the object that is loaded from it."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from hrac import config as configs
from hrac.agents import agent as agents
from hrac.agents.decide import Actors, Setup, SubgoalState, carry_on, decide
from hrac.config import Config
from hrac.envs.base import Environment, HostTask
from hrac.folder import checkpoint
from hrac.folder.files import POLICIES, folder_within
from hrac.spaces import Box
from hrac.worlds.episodes import Player
from hrac.worlds.host import action_noise
from hrac.worlds.make import make_setup

MOST_BYTES = 2_000_000_000
"""Limit for a policy file: far more than the largest possible networks."""


def path_of(folder: Path, seed: int) -> Path:
    """The path of a seed's policy in a run folder."""
    return folder / POLICIES / f"seed-{seed}.safetensors"


def save(folder: Path, actors: Actors, config: Config) -> None:
    """Write the policy of every seed, from the actors of all runs."""
    folder_within(folder / POLICIES)
    for index, seed in enumerate(config.seeds):
        single = jax.tree.map(lambda leaf, i=index: leaf[i], actors)
        facts = {"seed": seed, "config": configs.to_dict(config)}
        checkpoint.save(path_of(folder, seed), "policy", checkpoint.flatten(tuple(single), "agent"), facts)


def read(path: Path) -> tuple[checkpoint.Arrays, Config, int]:
    """The content of a policy file: arrays, configuration (without `env_threads`) and seed. Raises `CheckpointError`."""
    arrays, facts = checkpoint.load(path, "policy", MOST_BYTES)
    with checkpoint.understanding(path):
        config = configs.replace(configs.from_dict(facts["config"]), {"training.env_threads": None})
        if type(seed := facts["seed"]) is not int or seed not in config.seeds:
            raise ValueError(f"seed {seed!r} is not one of its configuration's seeds")
        return arrays, config, seed


def actors_from(arrays: checkpoint.Arrays, path: Path, setup: Setup) -> Actors:
    """The saved actors, whose shapes must fit the configuration. Raises `CheckpointError`."""
    like = jax.eval_shape(lambda: agents.init(jax.random.key(0), setup).actors)  # shapes only: nothing is computed
    return Actors(*checkpoint.unflatten(arrays, tuple(like), "agent", path))


class Policy:
    """A trained agent for a plain Gymnasium loop. It counts the steps of a subgoal itself.

    Call `reset()` at the start of an episode and `act(observation)` at each step.
    """

    def __init__(self, arrays: checkpoint.Arrays, path: Path, task: Environment | HostTask, config: Config, seed: int) -> None:
        self.task, self.config, self.seed = task, config, seed
        self.setup = make_setup(task, config)
        self.actors = actors_from(arrays, path, self.setup)
        self._rng = np.random.default_rng(seed)
        self.reset()

    def __repr__(self) -> str:
        return f"Policy({self.config.task}, {self.config.method}, seed {self.seed})"

    @property
    def player(self) -> Player:
        """Plays whole episodes with this policy."""
        return Player(self.task, self.actors, self.setup)

    def reset(self, seed: int | None = None) -> None:
        """Start an episode: a new subgoal is due. With a seed, the actions that are drawn can be repeated."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._state = SubgoalState(np.zeros(self.setup.space.goal_dim, np.float32), np.zeros((), np.int32))
        self._obs: NDArray[np.float32] | None = None

    @property
    def target(self) -> NDArray[np.float32]:
        """The point of goal space that the present subgoal stands for."""
        obs = np.zeros(self.setup.obs_dim, np.float32) if self._obs is None else self._obs
        return self.setup.space.target(self._state.subgoal, self.setup.space.phi(obs))

    def act(self, observation: Any) -> Any:
        """The action for an observation: an array, or a dictionary with `observation` and `desired_goal`.

        It is an integer if actions are discrete, else an array.
        """
        obs = self._read(observation)
        if self._obs is not None:
            window_over = np.asarray(self._state.clock == self.config.k - 1)
            self._state = carry_on(self._state, self._obs, obs, window_over, self.setup.space)
        box = isinstance(self.setup.actions, Box)
        noise = None if box else action_noise(self._rng, (self.setup.actions.outputs,), self.setup)
        subgoal, action = decide(self.actors, self._state, obs, self.setup, noise)
        self._state, self._obs = self._state._replace(subgoal=subgoal), obs
        return action if box else int(action)

    def _read(self, observation: Any) -> NDArray[np.float32]:
        context, size = self.setup.space.context, self.setup.obs_dim
        if isinstance(observation, dict):
            if missing := {"observation", "desired_goal"} - observation.keys():
                raise ValueError(f"observation has no {', '.join(sorted(missing))}")
            observation = np.concatenate([observation["observation"], observation["desired_goal"]])
        obs = np.asarray(observation, np.float32)
        if obs.shape != (size,):
            form = "" if context == 0 else ' (or a dictionary with "observation" and "desired_goal")'
            raise ValueError(f"observation must have shape ({size},){form}, got {obs.shape}")
        if not np.isfinite(obs).all():
            raise ValueError(f"observation must be finite, got {obs}")
        return obs
