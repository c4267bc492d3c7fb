"""The complete state of a training of R runs, and the steps of Algorithm 1."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hrac.adjacency import learn as adjacency_learn
from hrac.adjacency.sources import Table, make_source
from hrac.adjacency.ways import next_cells
from hrac.agents.decide import Actors
from hrac.config import Config, from_dict, to_dict
from hrac.envs.base import Environment, HostTask, KnownCells
from hrac.envs.view import View
from hrac.folder import checkpoint
from hrac.folder.log import Row
from hrac.runs import Parts, join
from hrac.settings import TrainingConfig
from hrac.training import replay
from hrac.training.best import Best
from hrac.training.learn import LearnedRuns, RunState, accuracy_runs, init_runs, learn_runs
from hrac.training.memory import TrajectoryMemory
from hrac.worlds.base import Collected, DivergedError, Visited
from hrac.worlds.make import make_setup, make_world
from hrac.worlds.numbers import Mean
from hrac.worlds.streams import Stream, run_keys

Tree = TypeVar("Tree")


TRACED = ("round_env_steps", "envs_per_run", "quiet_share", "averaging_env_steps")
"""The settings of `training` that compiled programs use."""


def traced_part(config: Config) -> Config:
    """The configuration without the settings that compiled programs do not use, so that changing these needs no compilation."""
    used = {name: getattr(config.training, name) for name in TRACED}
    training = TrainingConfig(total_env_steps=config.adjacency.pretrain_env_steps + 1, **used)
    return dataclasses.replace(config, task="", method="", seeds=(0,), training=training)


class Training:
    """The complete state of a training of R runs, and the steps of Algorithm 1."""

    def __init__(self, config: Config, task: Environment | HostTask) -> None:
        self.config = config
        self._parts = Parts(len(config.seeds))
        self.setup = make_setup(task, traced_part(config))
        self.world = make_world(task, self.setup, config, self._parts)
        self.view: View | None = getattr(task, "view", None)
        """How an environment of one's own is seen."""
        oracle = task if config.adjacency.source == "oracle" and isinstance(task, KnownCells) else None
        truth = None if oracle is None else (oracle.cells, oracle.cell_distances)
        sources = [make_source(config.adjacency, config.k, self.setup.space.goal_dim, truth) for _ in config.seeds]
        self.sources = [source for source in sources if source is not None]
        """One source of pairs per run; empty if adjacency is not learned."""
        self._runs: list[RunState] = [
            init_runs(keys, setup=self.setup) for keys in self._parts.split(run_keys(config.seeds, Stream.INIT))
        ]
        self._thread = ThreadPoolExecutor(1) if config.training.overlap else None
        """Hands learning to the device if `training.overlap`. That takes a while, in which the next round is collected."""
        self._learning: tuple[int, Future[list[LearnedRuns]]] | None = None
        """What the thread hands over, and the step after it."""
        self.memory = TrajectoryMemory()
        self.env_steps = 0
        self._learn_keys = self._parts.split(run_keys(config.seeds, Stream.LEARN))
        self._is_ready: NDArray[np.bool_] = np.zeros(len(config.seeds), bool)
        self._older: list[Actors] | None = None
        """The actors before the learning of the last round, which act next if `training.overlap`."""
        self.best = Best(len(config.seeds))
        self._sums: dict[str, NDArray[np.float64]] = {}
        """Totals and weights (2, runs) of the metrics since the last evaluation."""
        self._pending: list[tuple[int, list[dict[str, Mean]]]] = []
        """Metrics, in parts, of rounds that were not added up yet, so that nothing waits for the device."""

    @property
    def ended(self) -> bool:
        """Whether all steps are made."""
        return self.env_steps >= self.config.training.total_env_steps

    def due(self, every_env_steps: int) -> bool:
        """Whether the last round crossed a multiple of a number of steps."""
        before = self.env_steps - self.config.training.round_env_steps
        return self.env_steps // every_env_steps > before // every_env_steps

    def pretrain(self, poll: Callable[[], None] = lambda: None) -> list[Row]:
        """Random behaviour, then the first adjacency network. `poll` is called often and may raise to stop."""
        cfg = self.config.adjacency
        if not self.sources:
            return []
        if self.sources[0].needs_random_walk:
            self.memory.append(self.world.random_walk(cfg.pretrain_env_steps, poll))
            self.env_steps = cfg.pretrain_env_steps
        return self.update_adjacency(cfg.pretrain_epochs, poll)

    def round(self) -> None:
        """Collect a round, store it, and make its updates."""
        index = self.env_steps // self.config.training.round_env_steps
        ready, actors = self.ready(), self._older or self.actors()
        with self._naming_the_step():
            collected = self.world.collect(actors, ready, index)
        experience = (self.runs, collected, ready, index)
        self.env_steps += self.config.training.round_env_steps
        if self._thread is not None:
            self._older = jax.device_get(self.actors())  # this waits for learning that the device did during the round
            self._learning = self.env_steps, self._thread.submit(self.learned, *experience)
        else:
            self._keep(self.env_steps, self.learned(*experience))
        if len(self._pending) > 1:  # the device is at most one round behind
            jax.block_until_ready(self._pending[-2][1])
        if self.sources:
            self.memory.append([part.visited for part in collected])

    @property
    def runs(self) -> list[RunState]:
        """The runs, in parts. They wait until the last round's learning is handed to the device."""
        if self._learning is not None:
            step, learning = self._learning
            self._keep(step, learning.result())
            self._learning = None
        return self._runs

    def _keep(self, step: int, learned: list[LearnedRuns]) -> None:
        """Go on with the runs after the round that ended at a step. Its metrics are added up later."""
        self._runs = [runs for runs, _ in learned]
        self._pending.append((step, [metrics for _, metrics in learned]))

    def learned(
        self, runs: list[RunState], collected: list[Collected], ready: NDArray[np.bool_], index: int
    ) -> list[LearnedRuns]:
        """Store a round, and make its updates in the runs that are ready. The runs before it are used up."""
        static: dict[str, Any] = {"setup": self.setup, "known": self.world.known, "ends_on_success": self.world.ends_on_success}
        return [
            learn_runs(keys, part, jnp.asarray(index), *jax.device_put((flags, new)), learning=bool(flags.any()), **static)
            for keys, part, flags, new in zip(self._learn_keys, runs, self._parts.split(ready), collected, strict=True)
        ]

    def actors(self) -> list[Actors]:
        """The present actors, in parts."""
        return [part.agent.actors for part in self.runs]

    def policies(self) -> list[Actors]:
        """What is evaluated and saved, in parts: the actors, averaged over time if so configured."""
        return [part.agent.policy for part in self.runs]

    def ready(self) -> NDArray[np.bool_]:
        """Which runs have stored enough windows to learn from. Once all have, this is not checked again."""
        if not self._is_ready.all():
            stored = np.concatenate([np.asarray(part.replay.window_count) for part in self.runs])
            self._is_ready = stored >= self.config.manager.start_windows
        return self._is_ready

    def update_adjacency(self, epochs: int | None = None, poll: Callable[[], None] = lambda: None) -> list[Row]:
        """Add the positions visited since the last update to the sources, and fine-tune the networks."""
        if not self.sources:
            return []
        cfg, losses = self.config.adjacency, []
        epochs = cfg.update_epochs if epochs is None else epochs
        for run, source in enumerate(self.sources):
            if self.memory:
                source.extend(*self.memory.sequences(run))
        self.memory.clear()
        for index, part in enumerate(self._parts.slices):
            rngs = [np.random.default_rng([seed, Stream.PAIRS, self.env_steps]) for seed in self.config.seeds[part]]
            agent = self.runs[index].agent
            assert agent.adjacency is not None
            adjacency, loss = adjacency_learn.train(agent.adjacency, self.sources[part], rngs, epochs, cfg, poll)
            agent = agent._replace(adjacency=adjacency)
            if self.setup.grid is not None:
                tables = [source.table for source in self.sources[part] if isinstance(source, Table)]
                found = [next_cells(table, self.setup.grid) for table in tables]
                agent = agent._replace(ways=jnp.asarray(np.stack(found)))
            self.runs[index] = self.runs[index]._replace(agent=agent)
            losses.append(loss)
        numbers = {"adjacency/loss": np.asarray(join(losses))}
        counted = [source.numbers() for source in self.sources]
        numbers |= {name: np.array([each[name] for each in counted]) for name in counted[0]}
        if self.world.known is not None:
            cells = jnp.asarray(self.world.known.cells, jnp.float32)
            steps = self.world.known.cell_distances
            truth = jnp.asarray((steps >= 0) & (steps <= self.config.k))
            measured = [accuracy_runs(part.agent, cells, truth, threshold=cfg.threshold) for part in self.runs]
            numbers["adjacency/accuracy"] = np.asarray(join(measured))
        return self._rows(numbers)

    def evaluate(self) -> list[Row]:
        """Play evaluation episodes. Returns their means, and the means of training metrics since the last evaluation."""
        self.settle()
        train = {
            name: np.where(weight > 0, total / np.maximum(weight, 1), np.nan)
            for name, (total, weight) in sorted(self._sums.items())
        }
        self._sums = {}
        with self._naming_the_step():
            played = self.world.evaluate(self.policies(), self.config.training.eval_episodes, self.env_steps)
        sums = {name: both.sum(axis=-1) for name, both in played.items()}
        means = {name: total / weight for name, (total, weight) in sums.items()}
        self._require_finite(means, self.env_steps)
        self.best.see(means, join(self.policies()), self.env_steps)
        return self._rows(train | means)

    def settle(self) -> None:
        """Add up the rounds' metrics, and make sure that every number so far is finite."""
        present, runs = self.runs, len(self.config.seeds)
        for step, parts in self._pending:
            for part, metrics in zip(self._parts.slices, jax.device_get(parts), strict=True):
                for name, both in metrics.items():  # a part that does not learn yet has fewer metrics
                    numbers = self._sums.setdefault(name, np.zeros((2, runs)))
                    numbers[:, part] += np.stack(both)
            self._require_finite({name: total for name, (total, _) in self._sums.items()}, step)
        self._pending = []
        finite = join([jax.device_get(_finite_leaves(part)) for part in present])
        for path, flags in jax.tree_util.tree_leaves_with_path(finite):
            self._require_finite({jax.tree_util.keystr(path): np.where(flags, 0.0, np.nan)}, self.env_steps)

    @contextlib.contextmanager
    def _naming_the_step(self) -> Iterator[None]:
        """If something diverges, the error names the step."""
        try:
            yield
        except DivergedError as error:
            raise DivergedError(f"{error} after step {self.env_steps:,}") from error

    def _require_finite(self, numbers: dict[str, NDArray[np.floating]], step: int) -> None:
        for name, values in numbers.items():
            if (bad := np.flatnonzero(~np.isfinite(values))).size:
                value, seed = values[bad[0]], self.config.seeds[bad[0]]
                raise DivergedError(f"{name} of seed {seed} is {value} in the round that ended at step {step:,}")

    def _rows(self, numbers: dict[str, NDArray[np.floating]]) -> list[Row]:
        return [
            Row(seed, self.env_steps, name, float(value))
            for name, values in numbers.items()
            for seed, value in zip(self.config.seeds, values, strict=True)
            if not np.isnan(value)  # nothing to average
        ]

    def snapshot(self) -> checkpoint.Arrays:
        """The complete state as named arrays."""
        self.settle()
        arrays = checkpoint.flatten(replay.trimmed(join(self.runs)), "runs")
        for seed, source in zip(self.config.seeds, self.sources, strict=False):
            arrays |= {f"source/{seed}/{name}": array for name, array in source.snapshot().items()}
        arrays |= {f"memory/{name}": array for name, array in self.memory.to_arrays().items()}
        arrays |= {f"sums/{name}": array.copy() for name, array in self._sums.items()}
        arrays |= {f"world/{name}": array for name, array in self.world.snapshot().items()}
        arrays |= self.best.snapshot()
        return arrays if self._older is None else arrays | checkpoint.flatten(join(self._older), "older")

    def restore(self, arrays: checkpoint.Arrays, env_steps: int, path: Path) -> None:
        """Continue exactly from a snapshot, which was read from `path`. One that does not fit raises an error of some type."""
        within = lambda prefix: {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}  # noqa: E731
        runs = checkpoint.unflatten(replay.padded(arrays, join(self.runs), "runs"), join(self.runs), "runs", path)
        if any(name.startswith("older") for name in arrays):
            self._older = self._parts.split(checkpoint.unflatten(arrays, join(self.actors()), "older", path))
        self.best.restore(arrays, join(self.actors()), path)
        self._runs = [jax.device_put(part) for part in self._parts.split(runs)]
        for seed, source in zip(self.config.seeds, self.sources, strict=False):
            source.restore(within(f"source/{seed}/"))
        checkpoint.require_alike(arrays, {f"world/{name}": array for name, array in self.world.snapshot().items()}, path)
        self.world.restore(within("world/"))
        self.memory = TrajectoryMemory()
        if memory := within("memory/"):
            shape = (len(self.config.seeds), memory["done"].shape[1], self.config.training.envs_per_run)
            position = jax.ShapeDtypeStruct((*shape, self.setup.space.goal_dim), jnp.float32)
            done = jax.ShapeDtypeStruct(shape, jnp.bool_)
            checkpoint.require_alike(memory, {"position": position, "after": position, "done": done}, path)
            self.memory.append([Visited(**memory)])
        self._sums, self._is_ready, self.env_steps = within("sums/"), np.zeros_like(self._is_ready), env_steps


@jax.jit
def _finite_leaves(runs: Tree) -> Tree:
    """For each array of the state, in which runs it is finite."""
    return jax.tree.map(lambda leaf: jnp.all(jnp.isfinite(leaf.reshape(leaf.shape[0], -1)), axis=1), runs)


def save(training: Training, path: Path, metrics_bytes: int) -> None:
    """Write the complete state of a training, and the length of `metrics.csv` that belongs to it."""
    facts = {"env_steps": training.env_steps, "metrics_bytes": metrics_bytes, "config": to_dict(training.config)}
    checkpoint.save(path, "checkpoint", training.snapshot(), facts)


def load(training: Training, path: Path) -> int:
    """Restore a saved state; returns the length of `metrics.csv` that belongs to it. Raises `CheckpointError`."""
    arrays, facts = checkpoint.load(path, "checkpoint")
    with checkpoint.understanding(path):
        checkpoint.require_same(from_dict(facts["config"]), training.config, path)
        steps, metrics_bytes, limits = int(facts["env_steps"]), int(facts["metrics_bytes"]), training.config.training
        if metrics_bytes < 0 or not 0 <= steps < limits.total_env_steps + limits.round_env_steps:
            raise ValueError(f"{steps} steps and {metrics_bytes} bytes of metrics are impossible")
        training.restore(arrays, steps, path)
        return metrics_bytes
