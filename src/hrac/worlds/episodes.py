"""Episodes of one policy without exploration, on the device or on the host: for evaluations and pictures."""

from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from hrac.agents.decide import Actors, Setup
from hrac.envs.base import Environment, HostTask
from hrac.envs.sketch import Drawable, Sketch
from hrac.worlds import device, host
from hrac.worlds.base import Episode
from hrac.worlds.streams import Stream


class Player(NamedTuple):
    """A policy's networks and the task they act in."""

    task: Environment | HostTask
    actors: Actors
    setup: Setup

    @property
    def _one_run(self) -> Actors:
        return jax.tree.map(lambda leaf: leaf[None], self.actors)

    def evaluate(self, episodes: int, random_seed: int) -> dict[str, NDArray[Any]]:
        """Totals and weights (2, episodes) of the episodes' metrics (docs/metrics.md)."""
        if isinstance(self.task, HostTask):
            seeds = host.copy_seeds((random_seed,), episodes, Stream.EVAL)
            numbers = host.evaluate(self.task.evaluation(), self._one_run, seeds, self.setup, None)
            return {name: both[:, 0] for name, both in numbers.items()}
        keys = jax.random.fold_in(jax.random.key(random_seed), 0)[None]
        static = {"episodes": episodes, "env": self.task.evaluation(), "setup": self.setup}
        played = jax.device_get(device.evaluate(keys, self._one_run, **static))
        return {name: np.stack(both).astype(np.float64)[:, 0] for name, both in played.items()}

    def watch(self, episode_seed: int) -> tuple[Episode, list[Sketch]]:
        """One episode, step by step (time, ...), and the map before each step, if the task has one."""
        sketches: list[Sketch] = []
        if isinstance(self.task, HostTask):

            def look(env: Any) -> None:
                if hasattr(env, "sketch") and self.setup.space.goal_dim > 1:
                    sketches.append(env.sketch(0))

            seeds = np.array([episode_seed])
            episode = host.play(self.task.evaluation(), self._one_run, seeds, self.setup, threads=1, look=look)
        else:
            env = self.task.evaluation()
            keys = jax.random.key(episode_seed)[None]
            episode = jax.device_get(device.play(keys, self._one_run, episodes=1, env=env, setup=self.setup))
            if isinstance(env, Drawable):
                sketches = [env.sketch()] * episode.alive.shape[1]
        made = episode.alive[0, :, 0]
        return jax.tree.map(lambda leaf: leaf[0, made, 0], episode), sketches
