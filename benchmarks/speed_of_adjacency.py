"""Speed and memory of adjacency learning with 100,000 explored cells:  python benchmarks/speed_of_adjacency.py"""

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from hrac.adjacency import learn, network
from hrac.adjacency.sources import Table
from hrac.envs.layout import MOVES
from hrac.experiments import bench
from hrac.settings import AdjacencyConfig


def adjacency(cells: int = 100_000, k: int = 10) -> Iterator[str]:
    """Lines about the table and its training with many explored cells in two dimensions."""
    yield bench.machine()
    cfg = AdjacencyConfig()
    source = Table(k, 2, cfg)
    table = source.table
    rng = np.random.default_rng(0)
    side = round(cells**0.5)
    episodes, steps = 100, 500
    number = np.repeat(np.arange(episodes), steps)
    seconds = 0.0
    while len(table.cells) < 0.998 * side * side:
        walk = np.concatenate([_random_walk(rng, side, steps) for _ in range(episodes)])
        seconds = timed(functools.partial(table.update, walk, number))
    size = (table.pairs.nbytes + table.cells.nbytes) / 1e6
    yield f"{len(table.cells):,} explored cells, {table.num_adjacent:,} adjacent pairs in {size:.0f} MB (k = {k})"
    yield f"update of the relation by {episodes * steps:,} steps: {seconds:.2f} s"
    state = jax.tree.map(lambda leaf: leaf[None], network.init(jax.random.key(0), 2, cfg))
    seconds = timed(lambda: learn.train(state, [source], [rng], 1, cfg))
    updates = learn.gradient_steps(source.epoch_pairs, 1, cfg)
    yield f"training of the network, {updates:,} gradient steps (capped), compilation included: {seconds:.1f} s"
    yield f"peak memory: {bench.peak_gigabytes():.2f} GB resident"


def _random_walk(rng: np.random.Generator, side: int, steps: int) -> np.ndarray:
    start = rng.integers(side, size=2)
    walk = np.clip(start + np.cumsum(MOVES[rng.integers(4, size=steps)], axis=0), 0, side - 1)
    return walk.astype(np.float64)


def timed(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - start


if __name__ == "__main__":
    for line in adjacency():
        print(line, flush=True)
