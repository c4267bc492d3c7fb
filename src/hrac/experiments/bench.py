"""Measures the speed and memory of training: `hrac bench TASK`. More measurements are in benchmarks/."""

import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax

from hrac.config import Config, replace
from hrac.experiments import tasks
from hrac.training.learn import RunState
from hrac.training.state import Training
from hrac.worlds.base import Collected

QUICK = {"adjacency.pretrain_env_steps": 10_000, "adjacency.pretrain_epochs": 1}
"""Short pre-training, which is not measured."""


def training(config: Config, measured_rounds: int) -> Iterator[str]:
    """Lines about the speed of training without compilation, with both levels learning."""
    yield machine()
    learning_soon = max(config.manager.batch_size, 200) / config.manager.buffer_windows
    config = replace(config, QUICK | {"manager.start_fraction": min(learning_soon, config.manager.start_fraction)})
    run = Training(config, tasks.make_env(config))
    steps, seeds, copies = config.training.round_env_steps, len(config.seeds), config.training.envs_per_run
    run.pretrain()
    for _ in range(config.manager.start_windows * config.k // steps + 5):
        run.round()
    run.evaluate()
    each = _seconds(lambda: _rounds(run, measured_rounds)) / measured_rounds
    overlap = ", collecting while learning" if config.training.overlap else ""
    yield f"rounds of {steps} steps, {seeds} seed(s) of {copies} copies{overlap}: {steps * seeds / each:,.0f} steps/s in all"
    collecting = _seconds(lambda: _collect(run, measured_rounds)) / measured_rounds
    collected = jax.block_until_ready(run.world.collect(run.actors(), run.ready(), 0))
    learning = _seconds(lambda: _learn(run, collected, measured_rounds)) / measured_rounds
    alone = f"collecting alone {1e3 * collecting:,.1f} ms, learning alone {1e3 * learning:,.1f} ms"
    yield f"a round takes {1e3 * each:,.1f} ms; {alone}"
    evaluation = _seconds(run.evaluate)
    run.update_adjacency()
    run.round()
    adjacency = _seconds(run.update_adjacency) if run.sources else 0.0
    often = config.training.eval_every_env_steps, config.adjacency.update_every_env_steps
    total = each / steps + evaluation / often[0] + adjacency / often[1]
    yield f"evaluation {evaluation:.2f} s every {often[0]:,} steps, adjacency {adjacency:.2f} s every {often[1]:,}"
    yield f"everything included: {seeds / total:,.0f} steps/s in all, with few cells in the adjacency table yet"
    yield f"peak memory: {peak_gigabytes():.2f} GB resident"


def _rounds(run: Training, count: int) -> None:
    for _ in range(count):
        run.round()
    run.settle()


def _collect(run: Training, count: int) -> None:
    """Rounds without learning. They change the state of the world, so this is for measuring only."""
    for index in range(count):
        jax.block_until_ready(run.world.collect(run.actors(), run.ready(), index))


def _learn(run: Training, collected: list[Collected], count: int) -> list[RunState]:
    """Learn from the same experience again and again, for measuring only."""
    for index in range(count):
        run.runs[:] = [runs for runs, _ in run.learned(run.runs, collected, run.ready(), index)]
    return run.runs


def _seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - start


def machine() -> str:
    """The machine and versions of a measurement."""
    return f"{jax.devices()[0].device_kind}, {os.cpu_count()} cores, Python {platform.python_version()}, JAX {jax.__version__}"


def peak_gigabytes() -> float:
    """The peak resident memory of this process; NaN on Windows, where it is not measured."""
    if sys.platform == "win32":
        return math.nan
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
