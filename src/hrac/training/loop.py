"""Training: the only loop. `train` reads like Algorithm 1; what it calls is the `Training` above it."""

import contextlib
import dataclasses
import enum
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from hrac.adjacency import learn as adjacency_learn
from hrac.adjacency.table import AdjacencyTable
from hrac.agents.subgoals import SubgoalSpace
from hrac.config import Config, TrainingConfig, to_dict
from hrac.envs.base import Environment, KnownDistances
from hrac.training import checkpoint, policies, rounds
from hrac.training.checkpoint import CheckpointError
from hrac.training.evaluate import Mean
from hrac.training.files import remove_leftovers
from hrac.training.guards import interruptible, locked
from hrac.training.log import METRICS, Row, RunLog
from hrac.training.log import read as read_log
from hrac.training.memory import TrajectoryMemory
from hrac.training.progress import Display, Status
from hrac.training.rounds import Visited

CHECKPOINT = "checkpoint.safetensors"
Tree = TypeVar("Tree")


class Stream(enum.IntEnum):
    """Separate random streams of a run, so that evaluating more does not change what is learned."""

    INIT = 0
    ACT = 1
    LEARN = 2
    EVAL = 3
    WANDER = 4
    PAIRS = 5


class DivergedError(RuntimeError):
    """A number stopped being finite; the message says which, where and when."""


class Outcome(NamedTuple):
    """How a training ended."""

    folder: Path
    env_steps: int
    finished: bool
    """False if it was interrupted."""
    last: dict[str, NDArray[np.floating]]
    """The last evaluation: a value a seed by metric."""


def subgoal_space(env: Environment, config: Config) -> SubgoalSpace:
    """The space of subgoals of an environment under a configuration."""
    relative = config.manager.subgoals == "relative"
    shown = config.controller.subgoals_shown_as == "displacement"
    return SubgoalSpace(relative, env.position_low, env.position_high, shown)


def _program(config: Config) -> Config:
    """The configuration less what is no part of a compiled program, so that changing that needs no new compilation."""
    rounds_only = {name: getattr(config.training, name) for name in ("round_env_steps", "envs_per_run")}
    training = TrainingConfig(total_env_steps=config.adjacency.pretrain_env_steps + 1, **rounds_only)
    return dataclasses.replace(config, task="", method="", seeds=(0,), training=training)


class Training:
    """The complete state of a training of R runs, and the steps it is made of.

    Runs are held in parts, each one program. On an accelerator all runs are one part, mapped together. On a CPU each run is
    a part of its own: that is no slower, and makes a seed's numbers the same whatever other seeds are trained beside it.
    """

    def __init__(self, config: Config, env: Environment) -> None:
        self.config, self.env, self.space = config, env, subgoal_space(env, config)
        self._static = {"env": env, "space": self.space, "cfg": _program(config)}
        self._seeds = jax.vmap(jax.random.key)(jnp.asarray(config.seeds, jnp.uint32))
        self._round_keys = jnp.stack([self._keys(Stream.ACT), self._keys(Stream.LEARN)], axis=1)
        size = 1 if jax.default_backend() == "cpu" else len(config.seeds)
        self._slices = [slice(start, start + size) for start in range(0, len(config.seeds), size)]
        self.parts = self._each(rounds.init_runs, self._keys(Stream.INIT))
        self._learning = [False] * len(self.parts)
        self.tables = [AdjacencyTable(config.k, config.adjacency.cell_size, self.space.dimensions) for _ in config.seeds]
        self.memory = TrajectoryMemory()
        self.env_steps = 0
        self.sums: dict[str, NDArray[np.float64]] = {}
        """Totals and weights (2, runs) of the metrics since the last evaluation."""
        self._pending: list[tuple[int, dict[str, Mean]]] = []

    def _keys(self, stream: Stream) -> jax.Array:
        return jax.vmap(lambda key: jax.random.fold_in(key, int(stream)))(self._seeds)

    def _each(self, function: Callable[..., Any], keys: jax.Array, *arguments: Any) -> list[Any]:
        """Call a compiled function for each part with its runs' keys."""
        return [function(keys[part], *arguments, **self._static) for part in self._slices]

    def pretrain(self) -> list[Row]:
        """Random behaviour, then a first adjacency network."""
        cfg = self.config.adjacency
        limit = self.env.time_limit
        episodes = -(-cfg.pretrain_env_steps // limit)
        positions = _join(self._each(rounds.wander_runs, self._keys(Stream.WANDER), episodes))
        number = np.repeat(np.arange(episodes), limit + 1)
        for table, walk in zip(self.tables, np.asarray(positions), strict=True):
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
            "adjacency/loss": np.asarray(_join(losses)),
            "adjacency/cells": np.array([len(table.cells) for table in self.tables]),
            "adjacency/pairs": np.array([table.num_adjacent for table in self.tables]),
        }
        if isinstance(self.env, KnownDistances):
            cells = jnp.asarray(self.env.cells, jnp.float32)
            truth = jnp.asarray(self.env.cell_distances <= self.config.k)
            measured = [rounds.accuracy_runs(part.agent, cells, truth, threshold=cfg.threshold) for part in self.parts]
            numbers["adjacency/accuracy"] = np.asarray(_join(measured))
        return self._rows(numbers)

    def round(self) -> None:
        """Collect and learn for one round."""
        index = self.env_steps // self.config.training.round_env_steps
        results = [
            rounds.round_runs(self._round_keys[part], runs, jnp.asarray(index), self._is_learning(number), **self._static)
            for number, (part, runs) in enumerate(zip(self._slices, self.parts, strict=True))
        ]
        self.parts = [runs for runs, _, _ in results]
        metrics, visited = _join([(metrics, visited) for _, metrics, visited in results])
        self.env_steps += self.config.training.round_env_steps
        self.memory.append(visited)
        if self._pending:  # let the device be at most one round behind
            jax.block_until_ready(self._pending[-1][1])
        self._pending.append((self.env_steps, metrics))

    def _is_learning(self, part: int) -> bool:
        """Whether any run of a part has stored enough to learn from: a program without learning serves until then."""
        if not self._learning[part]:
            self._learning[part] = bool((self.parts[part].windows.size >= self.config.manager.start_windows).any())
        return self._learning[part]

    def evaluate(self) -> list[Row]:
        """Play evaluation episodes; their means, and those of what was measured since the last evaluation."""
        self.settle()
        train = {
            name: np.where(weight > 0, total / np.maximum(weight, 1), np.nan)
            for name, (total, weight) in sorted(self.sums.items())
        }
        self.sums = {}
        episodes = self.config.training.eval_episodes
        keys, index = self._keys(Stream.EVAL), jnp.asarray(self.env_steps)
        played = _join(
            [
                rounds.evaluate_runs(keys[part], runs.agent, index, episodes, **self._static)
                for part, runs in zip(self._slices, self.parts, strict=True)
            ]
        )
        sums = {name: np.asarray(jnp.stack(both), np.float64).sum(axis=-1) for name, both in played.items()}
        means = {name: total / weight for name, (total, weight) in sums.items()}
        self._require_finite(means, self.env_steps)
        return self._rows(train | means)

    def settle(self) -> None:
        """Add up the rounds' metrics, and make sure that every number so far is finite."""
        for step, metrics in self._pending:
            numbers = {name: np.asarray(jnp.stack(mean), np.float64) for name, mean in metrics.items()}
            self._require_finite({name: both[0] for name, both in numbers.items()}, step)
            for name, both in numbers.items():
                self.sums[name] = self.sums.get(name, 0.0) + both
        self._pending = []
        finite = _join([jax.device_get(_finite_leaves(part)) for part in self.parts])
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
        runs = _join(self.parts)
        arrays = checkpoint.flatten(runs, "runs")
        for seed, table in zip(self.config.seeds, self.tables, strict=True):
            arrays |= {f"table/{seed}/cells": table.cells, f"table/{seed}/pairs": table.pairs}
        arrays |= {f"memory/{name}": array for name, array in self.memory.to_arrays().items()}
        arrays |= {f"sums/{name}": array for name, array in self.sums.items()}
        facts = {"env_steps": self.env_steps, "metrics_bytes": log.offset, "config": to_dict(self.config)}
        policies.save(folder, runs.agent, self.config)  # first: after a kill in between, the last save is done again
        checkpoint.save(folder / CHECKPOINT, "checkpoint", arrays, facts)

    def restore(self, path: Path) -> int:
        """Go back to a saved state; how many bytes of `metrics.csv` belong to it comes back. Raises `CheckpointError`."""
        arrays, facts = checkpoint.load(path, "checkpoint")
        _require_same(facts["config"], to_dict(self.config), path)
        runs = checkpoint.unflatten(arrays, _join(self.parts), "runs", path)
        k, size = self.config.k, self.config.adjacency.cell_size
        self.tables = [
            AdjacencyTable.restore(k, size, arrays[f"table/{seed}/cells"], arrays[f"table/{seed}/pairs"])
            for seed in self.config.seeds
        ]
        self.parts = [jax.device_put(jax.tree.map(lambda leaf, p=part: leaf[p], runs)) for part in self._slices]
        self.memory = TrajectoryMemory()
        if "memory/done" in arrays:
            self.memory.append(Visited(*(arrays[f"memory/{name}"] for name in Visited._fields)))  # type: ignore[arg-type]
        self.sums = {name.removeprefix("sums/"): arrays[name] for name in arrays if name.startswith("sums/")}
        self.env_steps = int(facts["env_steps"])
        return int(facts["metrics_bytes"])


def _join(parts: list[Tree]) -> Tree:
    """One pytree for all runs."""
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


@jax.jit
def _finite_leaves(runs: rounds.RunState) -> rounds.RunState:
    """For each array of the state, which runs' parts are all finite."""
    return jax.tree.map(lambda leaf: jnp.all(jnp.isfinite(leaf.reshape(leaf.shape[0], -1)), axis=1), runs)


def _require_same(saved: dict[str, object], wanted: dict[str, object], path: Path) -> None:
    """A checkpoint may be continued for longer, but not as something else."""
    for tree in (saved, wanted):
        tree["training"] = {**tree["training"], "total_env_steps": None}  # type: ignore[dict-item]
    if _jsonable(saved) != _jsonable(wanted):
        different = [name for name in wanted if _jsonable(saved.get(name)) != _jsonable(wanted[name])]
        raise CheckpointError(f"{path} is from another configuration: {', '.join(different)} differ")


def _jsonable(tree: object) -> object:
    return (
        [_jsonable(x) for x in tree]
        if isinstance(tree, list | tuple)
        else ({name: _jsonable(x) for name, x in tree.items()} if isinstance(tree, dict) else tree)
    )


def train(config: Config, env: Environment, folder: Path, display: Display, resume: bool = False) -> Outcome:
    """Train all seeds of a configuration in a run folder, from the start or from its checkpoint (Algorithm 1)."""
    with contextlib.closing(display), locked(folder), interruptible() as interrupted:
        remove_leftovers(folder)
        training = Training(config, env)
        log = _open_log(training, folder, resume)
        with contextlib.closing(log):
            watch = _Watch(training, log, display)
            try:
                if training.env_steps == 0:
                    display.say(
                        f"random behaviour for {config.adjacency.pretrain_env_steps:,} steps, first adjacency network ..."
                    )
                    watch.record(training.pretrain())
                    watch.record(training.evaluate())
                    training.save(folder, log)
                while training.env_steps < config.training.total_env_steps and not interrupted():
                    training.round()
                    if _due(training, config.adjacency.update_every_env_steps):
                        watch.record(training.update_adjacency())
                    if _due(training, config.training.eval_every_env_steps) or _ended(training):
                        watch.record(training.evaluate())
                    watch.tick()
                    if _due(training, config.training.checkpoint_every_env_steps) or _ended(training):
                        training.save(folder, log)
                if not _ended(training):
                    training.save(folder, log)
            except DivergedError as error:
                good = folder / CHECKPOINT
                where = f"The last good checkpoint is {good}" if good.exists() else "There is no checkpoint yet"
                raise DivergedError(f"{error}. {where}") from None
            last = {name: values for name, values in watch.last.items() if name.startswith("eval/")}
            return Outcome(folder, training.env_steps, _ended(training), last)


def steps_reached(folder: Path) -> int:
    """The step of a run folder's checkpoint, 0 if it has none; raises `CheckpointError`."""
    path = folder / CHECKPOINT
    return int(checkpoint.load(path, "checkpoint")[1]["env_steps"]) if path.exists() else 0


def _due(training: Training, every_env_steps: int) -> bool:
    """Whether the last round crossed a multiple of a number of steps."""
    before = training.env_steps - training.config.training.round_env_steps
    return training.env_steps // every_env_steps > before // every_env_steps


def _ended(training: Training) -> bool:
    return training.env_steps >= training.config.training.total_env_steps


def _open_log(training: Training, folder: Path, resume: bool) -> RunLog:
    if resume and (folder / CHECKPOINT).exists():
        keep = training.restore(folder / CHECKPOINT)
        return RunLog(folder, keep, training.env_steps)
    if resume and (folder / METRICS).exists():
        last = max((row.step for row in read_log(folder)), default=0)
        if last > training.config.adjacency.pretrain_env_steps:
            raise CheckpointError(f"{folder} has metrics up to step {last:,} but no {CHECKPOINT}: it cannot be resumed")
    return RunLog(folder)


class _Watch:
    """Passes rows on to the log and the display, with the time they took."""

    def __init__(self, training: Training, log: RunLog, display: Display) -> None:
        self._training, self._log, self._display = training, log, display
        self._began = self._mark = time.monotonic()
        self._mark_step = training.env_steps
        self._pace = float("nan")
        self.last: dict[str, NDArray[np.floating]] = {}

    def record(self, rows: list[Row]) -> None:
        self._log.write(rows)
        for name in {row.name for row in rows}:
            self.last[name] = np.array([row.value for row in rows if row.name == name])
        if any(row.name == "eval/return" for row in rows):
            now, step = time.monotonic(), self._training.env_steps
            self._pace = (step - self._mark_step) * len(self._training.config.seeds) / max(now - self._mark, 1e-9)
            self._mark, self._mark_step = now, step
            self._log.write_timing(step, now - self._began, self._pace)
            self._display.evaluation(self._status())

    def tick(self) -> None:
        self._display.round(self._status())

    def _status(self) -> Status:
        mean = lambda name: float(np.mean(self.last.get(name, np.nan)))  # noqa: E731
        step = self._training.env_steps
        return Status(step, self._pace, mean("eval/return"), mean("eval/success"), mean("adjacency/accuracy"))
