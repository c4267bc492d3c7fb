"""The complete state of a training of R runs, and the steps it is made of: what does not depend on where experience is made."""

import dataclasses
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hrac.adjacency import learn as adjacency_learn
from hrac.adjacency.table import AdjacencyTable
from hrac.agents.subgoals import SubgoalSpace
from hrac.config import Config, from_dict, to_dict
from hrac.envs.base import KnownDistances
from hrac.errors import HracError
from hrac.folder import checkpoint
from hrac.folder.files import CHECKPOINT
from hrac.folder.log import Row, RunLog
from hrac.settings import TrainingConfig
from hrac.training import policies, replay, rounds
from hrac.training.evaluate import Mean
from hrac.training.memory import TrajectoryMemory
from hrac.training.rounds import Visited
from hrac.training.streams import Stream

Tree = TypeVar("Tree")


class DivergedError(HracError, RuntimeError):
    """A number stopped being finite; the message says which, where and when."""


def program(config: Config) -> Config:
    """The configuration less what is no part of a compiled program, so that changing that needs no new compilation."""
    rounds_only = {name: getattr(config.training, name) for name in ("round_env_steps", "envs_per_run")}
    training = TrainingConfig(total_env_steps=config.adjacency.pretrain_env_steps + 1, **rounds_only)
    return dataclasses.replace(config, task="", method="", preset="", seeds=(0,), training=training)


class Training(ABC):
    """The complete state of a training of R runs, and the steps it is made of.

    Runs are held in parts, each one program. On an accelerator all runs are one part, mapped together. On a CPU each run is
    a part of its own: that is no slower, and makes a seed's numbers the same whatever other seeds are trained beside it.
    """

    parts: list[Any]
    """Pytrees with an `agent`, each of some runs."""
    known: KnownDistances | None = None
    """The environment, if it knows its true distances."""

    def __init__(self, config: Config, space: SubgoalSpace) -> None:
        self.config, self.space = config, space
        self._seeds = jax.vmap(jax.random.key)(jnp.asarray(config.seeds, jnp.uint32))
        size = 1 if jax.default_backend() == "cpu" else len(config.seeds)
        self._slices = [slice(start, start + size) for start in range(0, len(config.seeds), size)]
        self.tables = [AdjacencyTable(config.k, config.adjacency.cell_size, space.dimensions) for _ in config.seeds]
        self.memory = TrajectoryMemory()
        self.env_steps = 0
        self.sums: dict[str, NDArray[np.float64]] = {}
        """Totals and weights (2, runs) of the metrics since the last evaluation."""
        self._pending: list[tuple[int, list[dict[str, Mean]]]] = []
        """The parts' metrics of rounds that nobody has looked at yet, so that nothing waits for them."""

    @abstractmethod
    def _walks(self, env_steps: int) -> tuple[NDArray[np.floating], int]:
        """Positions (runs, episodes, time + 1, goal) of at least so many random steps, and how many an episode has."""

    @abstractmethod
    def round(self) -> None:
        """Collect and learn for one round."""

    @abstractmethod
    def _play(self, episodes: int) -> dict[str, NDArray[np.float64]]:
        """Evaluation episodes of all runs: totals and weights (2, runs) by name."""

    def _own_arrays(self) -> dict[str, NDArray[Any]]:
        """What is to be saved beside the parts."""
        return {}

    def _restore_own(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take it back."""
        del arrays

    def _keys(self, stream: Stream) -> jax.Array:
        return jax.vmap(lambda key: jax.random.fold_in(key, int(stream)))(self._seeds)

    def pretrain(self) -> list[Row]:
        """Random behaviour, then a first adjacency network."""
        cfg = self.config.adjacency
        positions, limit = self._walks(cfg.pretrain_env_steps)
        number = np.repeat(np.arange(positions.shape[1]), limit + 1)
        for table, walk in zip(self.tables, positions, strict=True):
            walk = walk.reshape(-1, walk.shape[-1])
            exactly = cfg.pretrain_env_steps + (cfg.pretrain_env_steps // limit) + 1  # states, each episode's last too
            table.update(walk[:exactly], number[:exactly])
        self.env_steps = cfg.pretrain_env_steps
        return self._train_adjacency(cfg.pretrain_epochs)

    def update_adjacency(self) -> list[Row]:
        """Extend the tables by what was visited lately, and fine-tune the networks."""
        for run, table in enumerate(self.tables):
            table.update(*self.memory.sequences(run))
        self.memory.clear()
        return self._train_adjacency(self.config.adjacency.update_epochs)

    def _train_adjacency(self, epochs: int) -> list[Row]:
        cfg = self.config.adjacency
        losses = []
        for index, part in enumerate(self._slices):
            rngs = [np.random.default_rng([seed, Stream.PAIRS, self.env_steps]) for seed in self.config.seeds[part]]
            agent = self.parts[index].agent
            adjacency, loss = adjacency_learn.train(agent.adjacency, self.tables[part], rngs, epochs, cfg)
            self.parts[index] = self.parts[index]._replace(agent=agent._replace(adjacency=adjacency))
            losses.append(loss)
        numbers = {
            "adjacency/loss": np.asarray(join(losses)),
            "adjacency/cells": np.array([len(table.cells) for table in self.tables]),
            "adjacency/pairs": np.array([table.num_adjacent for table in self.tables]),
        }
        if self.known is not None:
            cells = jnp.asarray(self.known.cells, jnp.float32)
            truth = jnp.asarray(self.known.cell_distances <= self.config.k)
            measured = [rounds.accuracy_runs(part.agent, cells, truth, threshold=cfg.threshold) for part in self.parts]
            numbers["adjacency/accuracy"] = np.asarray(join(measured))
        return self._rows(numbers)

    def _finish_round(self, metrics: list[dict[str, Any]], visited: Visited) -> None:
        """Take note of what a round gave."""
        self.env_steps += self.config.training.round_env_steps
        self.memory.append(visited)
        if self._pending:  # let the device be at most one round behind
            jax.block_until_ready(self._pending[-1][1])
        self._pending.append((self.env_steps, metrics))

    def evaluate(self) -> list[Row]:
        """Play evaluation episodes; their means, and those of what was measured since the last evaluation."""
        self.settle()
        train = {
            name: np.where(weight > 0, total / np.maximum(weight, 1), np.nan)
            for name, (total, weight) in sorted(self.sums.items())
        }
        self.sums = {}
        sums = self._play(self.config.training.eval_episodes)
        means = {name: total / weight for name, (total, weight) in sums.items()}
        self._require_finite(means, self.env_steps)
        return self._rows(train | means)

    def settle(self) -> None:
        """Add up the rounds' metrics, and make sure that every number so far is finite."""
        for step, parts in self._pending:
            numbers = {name: np.asarray(jnp.stack(mean), np.float64) for name, mean in join(parts).items()}
            self._require_finite({name: both[0] for name, both in numbers.items()}, step)
            for name, both in numbers.items():
                self.sums[name] = self.sums.get(name, 0.0) + both
        self._pending = []
        finite = join([jax.device_get(_finite_leaves(part)) for part in self.parts])
        for path, flags in jax.tree_util.tree_leaves_with_path(finite):
            self._require_finite({jax.tree_util.keystr(path): np.where(flags, 0.0, np.nan)}, self.env_steps)

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
            if not np.isnan(value)  # nothing to average yet
        ]

    def save(self, folder: Path, log: RunLog) -> None:
        """Write the complete state and the policies."""
        self.settle()
        runs = join(self.parts)
        arrays = checkpoint.flatten(replay.trimmed(runs), "runs")
        for seed, table in zip(self.config.seeds, self.tables, strict=True):
            arrays |= {f"table/{seed}/cells": table.cells, f"table/{seed}/pairs": table.pairs}
        arrays |= {f"memory/{name}": array for name, array in self.memory.to_arrays().items()}
        arrays |= {f"sums/{name}": array for name, array in self.sums.items()}
        arrays |= {f"own/{name}": array for name, array in self._own_arrays().items()}
        facts = {"env_steps": self.env_steps, "metrics_bytes": log.offset, "config": to_dict(self.config)}
        policies.save(folder, runs.agent, self.config)  # first: after a kill in between, the last save is done again
        checkpoint.save(folder / CHECKPOINT, "checkpoint", arrays, facts)

    def restore(self, path: Path) -> int:
        """Go back to a saved state; how many bytes of `metrics.csv` belong to it comes back. Raises `CheckpointError`."""
        arrays, facts = checkpoint.load(path, "checkpoint")
        checkpoint.require_same(from_dict(facts["config"]), self.config, path)
        like = join(self.parts)
        for leaf_path, leaf in jax.tree_util.tree_leaves_with_path(like):
            name = "runs" + jax.tree_util.keystr(leaf_path)
            if ".items" in name and name in arrays:
                arrays[name] = replay.padded(arrays[name], leaf)
        runs = checkpoint.unflatten(arrays, like, "runs", path)
        table = self.config.k, self.config.adjacency.cell_size, self.space.dimensions
        self.tables = [
            AdjacencyTable.restore(*table, arrays[f"table/{seed}/cells"], arrays[f"table/{seed}/pairs"])
            for seed in self.config.seeds
        ]
        self.parts = [jax.device_put(jax.tree.map(lambda leaf, p=part: leaf[p], runs)) for part in self._slices]
        self.memory = TrajectoryMemory()
        if "memory/done" in arrays:
            times = arrays["memory/done"].shape[1]
            shape = len(self.config.seeds), times, self.config.training.envs_per_run
            position = jax.ShapeDtypeStruct((*shape, self.space.dimensions), jnp.float32)
            form = {
                "memory/position": position,
                "memory/after": position,
                "memory/done": jax.ShapeDtypeStruct(shape, jnp.bool_),
            }
            checkpoint.require_alike(arrays, form, path)
            self.memory.append(Visited(*(arrays[f"memory/{name}"] for name in Visited._fields)))  # type: ignore[arg-type]
        self.sums = {name.removeprefix("sums/"): arrays[name] for name in arrays if name.startswith("sums/")}
        checkpoint.require_alike(arrays, {f"own/{name}": array for name, array in self._own_arrays().items()}, path)
        self._restore_own({name.removeprefix("own/"): arrays[name] for name in arrays if name.startswith("own/")})
        self.env_steps = int(facts["env_steps"])
        return int(facts["metrics_bytes"])


def join(parts: list[Tree]) -> Tree:
    """One pytree for all runs."""
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


@jax.jit
def _finite_leaves(runs: Tree) -> Tree:
    """For each array of the state, which runs' parts are all finite."""
    return jax.tree.map(lambda leaf: jnp.all(jnp.isfinite(leaf.reshape(leaf.shape[0], -1)), axis=1), runs)
