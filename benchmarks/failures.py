"""How ants fail: `python benchmarks/failures.py RUN [--episodes 100]`, on the episodes that `hrac eval` plays.

RUN is a run folder or a policy file.

No task ends an episode for an ant that has fallen on its back.
"""

import argparse
from pathlib import Path

import jax
import numpy as np
from numpy.typing import NDArray

import hrac
from hrac.api import RunFolderError, read_config
from hrac.envs.ant.batch import AntBatch
from hrac.training.policies import Policy
from hrac.worlds import host
from hrac.worlds.streams import Stream

Played = dict[str, NDArray[np.float64]]
"""What `host.evaluate` returns."""


class Kept:
    """A task that remembers the copies made of it. Those whose episode has ended are not moved any more."""

    def __init__(self, policy: Policy) -> None:
        self._task = policy.task.evaluation()
        self.ends_on_success = self._task.ends_on_success

    def batch(self, num_envs: int, threads: int | None = None) -> AntBatch:
        self.copies = self._task.batch(num_envs, threads)
        return self.copies

    def evaluation(self) -> "Kept":
        return self


def on_the_back(qpos: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether the torso's upward axis points down."""
    _, x, y, _ = qpos[:, 3:7].T
    return 1 - 2 * (x**2 + y**2) < 0


def arrived(played: Played, fallen: NDArray[np.bool_]) -> dict[str, str]:
    """How many ants reached the target, and what became of the others."""
    success = played["eval/success"][0, 0] > 0
    ways = {"success": success, "on its back at the end": ~success & fallen, "other failures": ~success & ~fallen}
    return {name: str(ants.sum()) for name, ants in ways.items()}


def gathered(played: Played, fallen: NDArray[np.bool_]) -> dict[str, str]:
    """What all ants collected, and what those did that were on their feet at the end."""
    returns = played["eval/return"][0, 0]
    standing = f"{returns[~fallen].mean():.2f}" if not fallen.all() else "-"
    return {"return": f"{returns.mean():.2f}", "on its back at the end": str(fallen.sum()), "return of the others": standing}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--random-seed", type=int, default=12345)
    options = parser.parse_args()
    if options.episodes < 1 or options.random_seed < 0:
        parser.error("--episodes must be at least 1, --random-seed at least 0")
    episodes = host.copy_seeds((options.random_seed,), options.episodes, Stream.EVAL)
    try:
        seeds = read_config(options.run).seeds if options.run.is_dir() else (None,)
        ants = [hrac.load(options.run, seed) for seed in seeds]
    except (RunFolderError, hrac.CheckpointError) as error:
        parser.error(str(error))
    if not ants[0].config.task.startswith("ant-"):
        parser.error(f"a run with ants is needed, {options.run} is of {ants[0].config.task}")
    for policy in ants:
        task = Kept(policy)
        row = arrived if task.ends_on_success else gathered
        actors = jax.tree.map(lambda leaf: leaf[None], policy.actors)
        played = host.evaluate(task, actors, episodes, policy.setup, None)
        cells = {"seed": str(policy.seed), "episodes": str(options.episodes)} | row(played, on_the_back(task.copies.qpos))
        if policy is ants[0]:
            print(f"| {' | '.join(cells)} |\n|{'---|' * len(cells)}")
        print(f"| {' | '.join(cells.values())} |")


if __name__ == "__main__":
    main()
