"""What the manager does on FrozenLake without slipping: `python benchmarks/frozen_lake.py`.

At each evaluation of each seed: its success, how many rewards and which ends are in the replay, and for some cells the subgoal
that the manager proposes there and its value, beside the cell that its own critic values most.
"""

import argparse
import collections
import json
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from hrac import config as configs
from hrac.agents import td3
from hrac.experiments import references, tasks
from hrac.folder.log import Row
from hrac.runs import join
from hrac.training import loop
from hrac.training.state import Training

TASK = 'gym:FrozenLake-v1?{"is_slippery": false}'
SIDE = 4
CENTRE = (SIDE - 1) / 2
"""Goal space is measured in cells from its centre."""
ASKED = ((0, 0), (2, 0), (2, 2), (3, 2))
"""The first cell, and three on the way."""


class Record:
    """Prints what is seen at each evaluation, and saves nothing."""

    def __init__(self, training: Training) -> None:
        self._training = training

    def rows(self, rows: list[Row]) -> None:
        success = {row.seed: row.value for row in rows if row.name == "eval/success"}
        for place, seed in enumerate(self._training.config.seeds if success else ()):
            seen = replayed(self._training, place)
            print(f"step {self._training.env_steps:,}, seed {seed}: success {success[seed]:.0%}; {seen}")
            for line in proposals(self._training, place):
                print(f"    {line}", flush=True)

    def round(self) -> None:
        pass

    def save(self) -> None:
        pass


class Never:
    def __call__(self) -> bool:
        return False

    def poll(self) -> None:
        pass


def replayed(training: Training, place: int) -> str:
    """Rewards and ends in the replay of a seed."""
    replay = jax.tree.map(lambda leaf: np.asarray(leaf[place]), join(training.runs).replay)
    steps = min(int(replay.step_count), len(replay.steps.reward))
    reward, ended, after = (
        part[:steps] for part in (replay.steps.reward, replay.steps.terminated, replay.steps.next_obs[:, :2])
    )
    cells = collections.Counter(tuple(cell) for cell in np.rint(after[ended] + CENTRE).astype(int).tolist())
    ends = ", ".join(f"{count} at {cell}" for cell, count in cells.most_common())
    return f"{int(reward.sum())} rewards in {steps:,} steps, ends: {ends or 'none'}"


def proposals(training: Training, place: int) -> Iterator[str]:
    """What the manager of a seed proposes in some cells, and what its critic likes best there."""
    manager = jax.tree.map(lambda leaf: leaf[place], join(training.runs).agent.manager)
    for row, column in ASKED:
        state = np.arange(SIDE * SIDE) == SIDE * row + column
        obs = jnp.asarray([row - CENTRE, column - CENTRE, *state], jnp.float32)
        subgoal = td3.act(manager.actor, obs, training.setup.space)
        cells = np.stack(np.divmod(np.arange(SIDE * SIDE), SIDE), axis=1)
        values = jax.vmap(lambda cell, obs=obs: td3.value(manager.critics[0], obs, cell))(
            jnp.asarray(cells - CENTRE, jnp.float32)
        )
        best = int(jnp.argmax(values))
        liked = tuple(cells[best].tolist())
        proposed = ", ".join(f"{number:.1f}" for number in np.asarray(subgoal) + CENTRE)
        worth = float(td3.value(manager.critics[0], obs, subgoal))
        yield f"at {row, column}: ({proposed}), value {worth:.3f}; most valued: {liked}, {values[best]:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--steps", type=int, default=80_000)
    parser.add_argument("--settings", type=json.loads, default={}, help="others, as JSON by their dotted names")
    options = parser.parse_args()
    changes = {"seeds": configs.seed_range(options.seeds, options.first_seed), "training.total_env_steps": options.steps}
    references.trust(TASK)
    config = tasks.resolve(configs.replace(tasks.config_for(TASK), changes | options.settings))
    training = Training(config, tasks.make_env(config))
    loop.train(training, Record(training), Never(), fresh=True)


if __name__ == "__main__":
    main()
