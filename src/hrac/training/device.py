"""Training with an environment written in JAX: whole rounds are programs on the device."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hrac.config import Config
from hrac.envs.base import Environment, KnownDistances
from hrac.training import rounds
from hrac.training.spaces import subgoal_space
from hrac.training.state import Training, join, program
from hrac.training.streams import Stream


class DeviceTraining(Training):
    """R runs in a JAX environment."""

    def __init__(self, config: Config, env: Environment) -> None:
        super().__init__(config, subgoal_space(env, config))
        self.env = env
        self.known = env if isinstance(env, KnownDistances) else None
        self._static = {"env": env, "space": self.space, "cfg": program(config)}
        self._round_keys = jnp.stack([self._keys(Stream.ACT), self._keys(Stream.LEARN)], axis=1)
        self.parts = self._each(rounds.init_runs, self._keys(Stream.INIT))
        self._learning = [False] * len(self.parts)

    def _each(self, function: Callable[..., Any], keys: jax.Array, *arguments: Any) -> list[Any]:
        """Call a compiled function for each part with its runs' keys."""
        return [function(keys[part], *arguments, **self._static) for part in self._slices]

    def _walks(self, env_steps: int) -> tuple[NDArray[np.floating], int]:
        episodes = -(-env_steps // self.env.time_limit)
        walks = join(self._each(rounds.wander_runs, self._keys(Stream.WANDER), episodes))
        return np.asarray(walks), self.env.time_limit

    def round(self) -> None:
        """Collect and learn for one round."""
        index = self.env_steps // self.config.training.round_env_steps
        results = [
            rounds.round_runs(self._round_keys[part], runs, jnp.asarray(index), self._is_learning(number), **self._static)
            for number, (part, runs) in enumerate(zip(self._slices, self.parts, strict=True))
        ]
        self.parts = [runs for runs, _, _ in results]
        self._finish_round([metrics for _, metrics, _ in results], join([visited for _, _, visited in results]))

    def _is_learning(self, part: int) -> bool:
        """Whether any run of a part has stored enough to learn from: a program without learning serves until then."""
        if not self._learning[part]:
            self._learning[part] = bool((self.parts[part].windows.size >= self.config.manager.start_windows).any())
        return self._learning[part]

    def _play(self, episodes: int) -> dict[str, NDArray[np.float64]]:
        keys, index = self._keys(Stream.EVAL), jnp.asarray(self.env_steps)
        played = join(
            [
                rounds.evaluate_runs(keys[part], runs.agent, index, episodes, **self._static)
                for part, runs in zip(self._slices, self.parts, strict=True)
            ]
        )
        return {name: np.asarray(jnp.stack(both), np.float64).sum(axis=-1) for name, both in played.items()}
