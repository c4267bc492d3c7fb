"""Why solved seeds of Maze fall: `python benchmarks/falls.py` prints the table, with a folder it trains and looks at each fall.

A fall is an evaluation below 5.0 of a seed that was at 5.0 before. Then parts of the agent are replaced, one at a time: the
manager by its own critics' choice among all cells that are judged adjacent, the controller by one that takes the shortest way
to the cell nearest to its subgoal. And where the agent is towards the end of its episodes, what its critics say of two subgoals
is compared with what these bring: the one that it proposes, and the one that its critics would choose.
"""

import argparse
import contextlib
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from averaging import ToTheEnd, config_of
from jaxtyping import Array, Float, Int, PRNGKeyArray
from numpy.typing import NDArray
from report import CHOICES, read

from hrac.agents import td3
from hrac.agents.agent import AgentState
from hrac.agents.decide import Actors, SubgoalState, decide
from hrac.agents.manager import too_far
from hrac.api import write_config
from hrac.config import ConfigError
from hrac.envs.grid import Maze
from hrac.envs.layout import MOVES
from hrac.experiments import tasks
from hrac.experiments.sweep import parse_vary
from hrac.folder.log import Row, RunLog
from hrac.folder.log import read as read_rows
from hrac.training import loop
from hrac.training.state import Training

SEEDS, STEPS = tuple(range(100, 110)), 500_000
SOLVED, LAST_CORNER = 5.0, 4.9
"""The way is worth 5.8. One that ends at the last corner, eight steps before the goal, is worth 5.0."""
EPISODES = 100
LATE = 0.75
"""From this share of an episode on an agent that has not arrived is taken for stuck."""
REPEATS = 30
RUNS = {name: f"maze-falls-{name}" for name in ("neither", "search", "both", "faster", "faster-again")}
COLUMNS = {
    "its return": "falls/return",
    "critics choose": "falls/critics_choose",
    "shortest ways": "falls/shortest_ways",
    "its subgoal: by critics": "falls/own_value",
    "in truth": "falls/own_truth",
    "critics' choice: by critics": "falls/choice_value",
    "in truth ": "falls/choice_truth",
}


class Table(NamedTuple):
    """In place of a network: outputs for each cell, or for each cell and each cell of a subgoal."""

    outputs: Float[Array, "rows columns ..."]

    def __call__(self, x: Float[Array, "n in"]) -> Float[Array, "n out"]:
        """The outputs for positions, or for positions and displacements to subgoals."""
        outputs, last = self.outputs, jnp.array(self.outputs.shape[:2]) - 1
        position = jnp.round(x[:, :2])
        index = [*position.astype(int).T]
        if outputs.ndim > 3:
            index += [*jnp.clip(jnp.round(position + x[:, 2:4]).astype(int), 0, last).T]
        return outputs[tuple(index)]


def shortest_ways(env: Maze) -> Table:
    """A controller that takes a shortest way to the cell nearest to its subgoal."""
    cells, distances, shape = env.cells, env.cell_distances, env.layout.walls.shape
    number = {tuple(cell): i for i, cell in enumerate(cells.tolist())}
    logits = np.zeros((*shape, *shape, len(MOVES)), np.float32)
    for target in np.ndindex(shape):
        there = np.argmin(((cells - target) ** 2).sum(axis=1))
        for here, cell in enumerate(cells):
            after = [number.get(tuple(cell + move), here) for move in np.array(MOVES)]
            left = distances[after, there]
            logits[(*cell, *target)] = 50.0 * (left == left.min())
    return Table(jnp.asarray(logits))


class Choices(NamedTuple):
    """For each free cell, subgoals and what both critics agree that they are worth (the lower value)."""

    own: Float[Array, "cells 2"]
    own_value: Float[Array, " cells"]
    best: Float[Array, "cells 2"]
    best_value: Float[Array, " cells"]


class Look:
    """Looks at agents of one training."""

    def __init__(self, training: Training, env: Maze) -> None:
        self.env, self.setup = env, training.setup
        self._controller = shortest_ways(env)
        self._play = jax.jit(self._rollouts)
        self._choices = jax.jit(self._choose)

    def __call__(self, agent: AgentState) -> dict[str, float]:
        """The numbers of a fall."""
        actors, choices = agent.actors, self._choices(agent)
        high = jnp.asarray(self.env.position_high)
        share = jnp.clip(choices.best / high, 1e-4, 1 - 1e-4)
        rows, columns = self.env.cells.T
        chosen = jnp.zeros((*self.env.layout.walls.shape, 2)).at[rows, columns].set(jnp.log(share / (1 - share)))
        start = np.tile(self.env.layout.marks["A"], (EPISODES, 1))
        rewards, places = self._from(actors, start)
        stuck, counts = np.unique(places[int(LATE * len(places)) :].reshape(-1), return_counts=True)
        weights = counts[stuck >= 0] / counts[stuck >= 0].sum()
        stuck = stuck[stuck >= 0]
        return {
            "falls/return": rewards.sum(axis=0).mean(),
            "falls/critics_choose": self._from(actors._replace(manager=Table(chosen)), start)[0].sum(axis=0).mean(),
            "falls/shortest_ways": self._from(actors._replace(controller=self._controller), start)[0].sum(axis=0).mean(),
            "falls/own_value": float(np.asarray(choices.own_value)[stuck] @ weights),
            "falls/own_truth": float(self._truth(actors, stuck, np.asarray(choices.own)[stuck]) @ weights),
            "falls/choice_value": float(np.asarray(choices.best_value)[stuck] @ weights),
            "falls/choice_truth": float(self._truth(actors, stuck, np.asarray(choices.best)[stuck]) @ weights),
        }

    def _choose(self, agent: AgentState) -> Choices:
        manager, adjacency = agent.manager, agent.adjacency
        assert manager is not None
        assert adjacency is not None
        excess = too_far(adjacency.embedding, self.setup)
        rows, columns = self.env.layout.walls.shape
        everywhere = jnp.asarray(list(np.ndindex(rows, columns)), jnp.float32)

        def at(obs: Array) -> Choices:
            worth = lambda subgoal: jnp.minimum(*td3.values(manager.critics, obs, subgoal))  # noqa: E731
            own = td3.act(manager.actor, obs, self.setup.space)
            values = jnp.where(jax.vmap(excess, (None, 0))(obs, everywhere) < 0, jax.vmap(worth)(everywhere), -jnp.inf)
            return Choices(own, worth(own), everywhere[jnp.argmax(values)], jnp.max(values))

        return jax.vmap(at)(jnp.asarray(self.env.cells, jnp.float32))

    def _truth(self, actors: Actors, stuck: NDArray[np.int64], subgoals: NDArray[np.floating]) -> NDArray[np.floating]:
        """The discounted reward after a first subgoal, on average over repeated episodes from each cell."""
        again = lambda array: np.repeat(array, REPEATS, axis=0)  # noqa: E731
        rewards, _ = self._from(actors, again(self.env.cells[stuck]), again(subgoals))
        windows = rewards.reshape(-1, self.setup.cfg.k, rewards.shape[1]).sum(axis=1)
        factors = self.setup.cfg.manager.discount ** np.arange(len(windows))
        return (factors @ windows).reshape(-1, REPEATS).mean(axis=1)

    def _from(
        self, actors: Actors, cells: NDArray[np.integer], subgoals: NDArray[np.floating] | None = None
    ) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
        """Rewards (time, episodes), and the numbers of the cells where the episodes are, -1 after their end."""
        rewards, places, alive = self._play(jax.random.key(0), actors, jnp.asarray(cells), subgoals)
        number = np.zeros(self.env.layout.walls.shape, np.int64)
        number[tuple(self.env.cells.T)] = np.arange(len(self.env.cells))
        return np.asarray(rewards), np.where(alive, number[tuple(np.moveaxis(np.asarray(places), -1, 0))], -1)

    def _rollouts(
        self, key: PRNGKeyArray, actors: Actors, cells: Int[Array, "n 2"], subgoals: Float[Array, "n 2"] | None
    ) -> tuple[Array, Array, Array]:
        """Evaluation episodes from cells, the first window with these subgoals if given."""
        count, k = len(cells), self.setup.cfg.k
        state, obs = jax.vmap(self.env.start)(cells)
        first = jnp.zeros((count, 2)) if subgoals is None else subgoals

        def one_step(carry: tuple, drawn: tuple[Array, PRNGKeyArray]) -> tuple[tuple, tuple[Array, Array, Array]]:
            (state, obs, subgoal, alive), (time, key) = carry, drawn
            key_act, key_env = jax.random.split(key)
            given = (time == 0) & (subgoals is not None)
            hierarchy = SubgoalState(subgoal, jnp.full(count, jnp.where(given, 1, time % k)))
            noise = jax.random.gumbel(key_act, (count, len(MOVES)))
            subgoal, action = decide(actors, hierarchy, obs, self.setup, noise)
            after = jax.vmap(self.env.move)(state, action, jax.random.uniform(key_env, (count,)))
            record = (jnp.where(alive, after.reward, 0.0), state.position, alive)
            return (after.state, after.obs, subgoal, alive & ~(after.terminated | after.truncated)), record

        drawn = (jnp.arange(self.env.time_limit), jax.random.split(key, self.env.time_limit))
        return jax.lax.scan(one_step, (state, obs, first, jnp.ones(count, bool)), drawn)[1]


class Falls:
    """The record of a training: its metrics, and the numbers of each fall beside them."""

    def __init__(self, training: Training, look: Look, log: RunLog) -> None:
        self._training, self._look, self._log = training, look, log
        self._solved: set[int] = set()

    def rows(self, rows: list[Row]) -> None:
        """Keep them, and look at the seeds that have fallen."""
        self._log.write(rows)
        for row in rows:
            if row.name != "eval/return":
                continue
            if row.value >= SOLVED:
                self._solved.add(row.seed)
            elif row.seed in self._solved:
                index = self._training.config.seeds.index(row.seed)
                agent = jax.tree.map(lambda leaf: leaf[0], self._training.runs[index].agent)
                seen = self._look(agent)
                self._log.write([Row(row.seed, row.step, name, float(value)) for name, value in seen.items()])

    def round(self) -> None:
        """Nothing to do."""

    def save(self) -> None:
        """No checkpoint is written: a training that was ended early is made again."""


def train(out: Path, seeds: tuple[int, ...], steps: int, changes: list[str]) -> None:
    """Train `hrac-plus` on Maze with some settings changed."""
    chosen = {name: values[0] for name, values in parse_vary(changes).items()}
    config = tasks.resolve(config_of("maze", seeds, steps, chosen))
    if out.exists():
        raise SystemExit(f"{out} exists. Choose another folder")
    env = tasks.make_env(config)
    assert isinstance(env, Maze)
    training = Training(config, env)
    out.mkdir(parents=True)
    write_config(out, config)
    with contextlib.closing(RunLog(out)) as log:
        loop.train(training, Falls(training, Look(training, env), log), ToTheEnd(), fresh=True)


def table() -> None:
    """The committed trainings, a row each: how many evaluations are falls, and the means of what was seen at these."""
    print(
        "| settings | falls, of evaluations | at 4.9 or more | " + " | ".join(COLUMNS) + " |\n|" + "---|" * (len(COLUMNS) + 3)
    )
    for title, name in RUNS.items():
        returns = read(CHOICES / name, "eval/return").values
        solved = np.maximum.accumulate(returns >= SOLVED, axis=1)
        falls, rows = returns[solved & (returns < SOLVED)], read_rows(CHOICES / name)
        means = [np.mean([row.value for row in rows if row.name == metric]) for metric in COLUMNS.values()]
        numbers = " | ".join(f"{mean:.2f}" for mean in means)
        print(f"| {title} | {len(falls)} of {solved.sum()} | {(falls >= LAST_CORNER).sum()} | {numbers} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path, help="folder for a training; none: print the table")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--set", nargs="+", default=[], metavar="FIELD=VALUE", help="settings, as in hrac sweep")
    options = parser.parse_args()
    if options.out is None:
        table()
    else:
        try:
            train(options.out, tuple(options.seeds), options.steps, options.set)
        except ConfigError as error:
            parser.error(str(error))
