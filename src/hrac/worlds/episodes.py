"""Episodes of one policy without exploration, on the device or on the host: for evaluations and pictures."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from hrac.agents.decide import Actors, Setup
from hrac.envs.base import Environment, HostTask
from hrac.envs.sketch import Drawable, Sketch, sketch_at
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

    def watch(self, episode_seed: int, look: Callable[[Any], None] | None = None) -> tuple[Episode, list[Sketch]]:
        """One episode, step by step (time, ...), and the map before each step and at the end, if the task has one.

        `look` is given the copy of an environment on the host at the same times.
        """
        sketches: list[Sketch] = []
        evaluation = self.task.evaluation()
        if isinstance(evaluation, HostTask):

            def seen(env: Any) -> None:
                if hasattr(env, "sketch") and self.setup.space.goal_dim > 1:
                    sketches.append(env.sketch(0))
                if look is not None:
                    look(env)

            seeds = np.array([episode_seed])
            played = host.play(evaluation, self._one_run, seeds, self.setup, threads=1, look=seen)
        else:
            keys = jax.random.key(episode_seed)[None]
            played = jax.device_get(device.play(keys, self._one_run, episodes=1, env=evaluation, setup=self.setup))
        made = played.alive[0, :, 0]
        episode = jax.tree.map(lambda leaf: leaf[0, made, 0], played)
        if isinstance(evaluation, Drawable):  # a task on the device; on the host it is the copy that has a map
            observations = (*episode.obs, episode.next_obs[-1])
            sketches = sketches or [sketch_at(evaluation, obs) for obs in observations]
        return episode, sketches
