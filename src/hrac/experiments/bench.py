"""Speed and memory, measured: `hrac bench TASK` and `hrac bench adjacency`."""

import functools
import math
import os
import platform
import resource
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hrac.adjacency import learn as adjacency_learn
from hrac.adjacency import network
from hrac.adjacency.table import AdjacencyTable
from hrac.agents import hierarchy
from hrac.agents.a2c import ControllerStep
from hrac.agents.hierarchy import AgentState
from hrac.agents.td3 import Transition
from hrac.compiled import jit_learner
from hrac.config import Config, replace
from hrac.envs.base import HostTask
from hrac.envs.layout import MOVES
from hrac.experiments import tasks
from hrac.runs import over_runs
from hrac.settings import AdjacencyConfig
from hrac.training import replay
from hrac.training.device import DeviceTraining


def training(config: Config, measured_rounds: int) -> Iterator[str]:
    """Lines about the speed of training, compilation apart, with both levels learning."""
    yield machine()
    config, seeds = replace(config, {"manager.start_fraction": 0.02}), len(config.seeds)  # learn from the start
    env = tasks.make_env(config)
    assert not isinstance(env, HostTask)
    run = DeviceTraining(config, env)
    seconds, _ = timed(run.pretrain)
    yield f"pre-training of the adjacency network, compilation included: {seconds:.1f} s"
    steps = config.training.round_env_steps
    for _ in range(config.manager.start_windows * config.k // steps + 5):
        run.round()
    run.evaluate()

    def some_rounds() -> None:
        for _ in range(measured_rounds):
            run.round()
        run.settle()

    rounds_seconds, _ = timed(some_rounds)
    per_step = rounds_seconds / (measured_rounds * steps * seeds)
    yield f"rounds of {steps} steps, {seeds} seed(s): {1 / per_step:,.0f} environment steps/s in all"
    yield f"  controller updates/s {1 / per_step / steps:,.1f}   manager updates/s {1 / per_step / config.k:,.0f}"

    eval_seconds, _ = timed(run.evaluate)
    run.update_adjacency()
    run.round()
    adjacency_seconds, _ = timed(run.update_adjacency)
    everything = (
        per_step
        + eval_seconds / (config.training.eval_every_env_steps * seeds)
        + adjacency_seconds / (config.adjacency.update_every_env_steps * seeds)
    )
    yield f"evaluation {eval_seconds:.2f} s, adjacency update {adjacency_seconds:.2f} s"
    yield f"everything included: {1 / everything:,.0f} steps/s"
    yield from _learner(run)
    yield f"peak memory: {peak_gigabytes():.2f} GB resident"


def _learner(run: DeviceTraining) -> Iterator[str]:
    """How near the updates come to the machine's matrix-multiply rate."""
    config, part = run.config, run.parts[0]
    updates = config.training.round_env_steps // config.k
    keys = jax.random.split(jax.random.key(0), len(part.live.obs))
    draw = functools.partial(replay.sample, shape=(updates, config.manager.batch_size))
    batches = over_runs(lambda _, key, buffer: draw(key, buffer), keys, part.windows)
    runs, count = len(part.live.obs), config.training.round_env_steps + config.k * config.training.envs_per_run
    steps = ControllerStep(
        obs=jnp.zeros((runs, count, run.env.obs_dim)),
        subgoal=jnp.zeros((runs, count, run.space.dimensions)),
        action=jnp.zeros((runs, count), jnp.int32),
        ret=jnp.zeros((runs, count)),
        valid=jnp.ones((runs, count), bool),
    )

    @jax.jit
    def learn(agents: AgentState, steps: ControllerStep, batches: Transition) -> Any:
        return over_runs(
            lambda _, a, s, b: hierarchy.learn(jax.random.key(0), a, s, b, run.space, config), agents, steps, batches
        )

    seconds = best(lambda: learn(part.agent, steps, batches), 20)
    size = large_product()
    rate = matmul_rate(size, size)
    yield f"matrix products of {size} x {size}: {rate / 1e9:,.0f} GFLOP/s"
    work = flops(learn, part.agent, steps, batches)
    each = work / runs / 1e9
    yield f"learner: {work / seconds / 1e9:,.0f} GFLOP/s ({work / seconds / rate:.0%}), {each:.2f} GFLOP a round and run"


def flops(function: Callable[..., Any], *arguments: Any) -> float:
    """Floating-point operations of a function's matrix products, two for each multiplication."""
    return _count_flops(jax.make_jaxpr(function)(*arguments).jaxpr)


def _count_flops(jaxpr: Any) -> float:
    total = 0.0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            inner = math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
            total += 2 * inner * math.prod(equation.outvars[0].aval.shape)
        repeats = equation.params.get("length", 1) if equation.primitive.name == "scan" else 1
        total += repeats * sum(_count_flops(inner) for inner in _programs_in(equation.params))
    return total


def _programs_in(parameters: dict[str, Any]) -> Iterator[Any]:
    """The functions that an operation calls."""
    for value in parameters.values():
        for item in value if isinstance(value, list | tuple) else [value]:
            if hasattr(item, "eqns"):
                yield item
            elif hasattr(item, "jaxpr"):
                yield item.jaxpr


def large_product() -> int:
    """The size of a matrix product that makes full use of this machine."""
    return 1024 if jax.default_backend() == "cpu" else 8192


def matmul_rate(rows: int, size: int, runs: int = 1) -> float:
    """Operations a second of a product of `rows` x `size` with `size` x `size`, for each of some runs, one after the other."""
    count = max(1, 1024**3 // (rows * size**2))
    key_rows, key_weights = jax.random.split(jax.random.key(0))
    a = jax.random.normal(key_rows, (runs, rows, size))
    weights = jax.random.normal(key_weights, (runs, size, size)) / math.sqrt(size)

    def one(_: str | None, a: jax.Array, weights: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, count, lambda _, a: a @ weights, a)

    products = jit_learner(functools.partial(over_runs, one))
    return 2 * runs * count * rows * size**2 / best(lambda: products(a, weights), 20)


def adjacency(cells: int = 100_000, k: int = 10) -> Iterator[str]:
    """Lines about the table and its training with many explored cells in two dimensions."""
    yield machine()
    cfg = AdjacencyConfig()
    table = AdjacencyTable(k, cfg.cell_size, 2)
    rng = np.random.default_rng(0)
    side = round(cells**0.5)
    episodes, steps = 100, 500
    number = np.repeat(np.arange(episodes), steps)
    seconds = 0.0
    while len(table.cells) < 0.998 * side * side:
        walk = np.concatenate([_random_walk(rng, side, steps) for _ in range(episodes)])
        seconds, _ = timed(functools.partial(table.update, walk, number))
    size = (table.pairs.nbytes + table.cells.nbytes) / 1e6
    yield f"{len(table.cells):,} explored cells, {table.num_adjacent:,} adjacent pairs in {size:.0f} MB (k = {k})"
    yield f"update of the relation by {episodes * steps:,} steps: {seconds:.2f} s"
    state = jax.tree.map(lambda leaf: leaf[None], network.init(jax.random.key(0), 2, cfg))
    seconds, _ = timed(lambda: adjacency_learn.train(state, [table], [rng], 1, cfg))
    updates = adjacency_learn.gradient_steps(table, 1, cfg)
    yield f"training of the network, {updates:,} gradient steps (capped), compilation included: {seconds:.1f} s"
    yield f"peak memory: {peak_gigabytes():.2f} GB resident"


def _random_walk(rng: np.random.Generator, side: int, steps: int) -> np.ndarray:
    start = rng.integers(side, size=2)
    return np.clip(start + np.cumsum(MOVES[rng.integers(4, size=steps)], axis=0), 0, side - 1)


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call takes, and what it gives."""
    start = time.perf_counter()
    result = jax.block_until_ready(function())
    return time.perf_counter() - start, result


def best(function: Callable[[], Any], repeats: int) -> float:
    """Shortest of several times, the first call (compilation) apart."""
    function()
    return min(timed(function)[0] for _ in range(repeats))


def machine() -> str:
    """What this was measured on."""
    return f"{jax.devices()[0].device_kind}, {os.cpu_count()} cores, Python {platform.python_version()}, JAX {jax.__version__}"


def peak_gigabytes() -> float:
    """The most memory that this process has had resident."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
