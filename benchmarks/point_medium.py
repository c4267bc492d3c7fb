"""How a manager fails on PointMaze_Medium-v3: `python benchmarks/point_medium.py RUN`, with the extra `robotics`.

Successes and their steps by the number of blocks between start and goal. Then, where episodes failed: the place, the goal, the
subgoal that the manager proposes there and what its critics expect of it, beside the best subgoal by the same critics.
"""

import argparse
import collections
from pathlib import Path

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from hrac import config as configs
from hrac.agents import td3
from hrac.agents.decide import SubgoalState, carry_on, decide
from hrac.experiments import references, tasks
from hrac.folder.files import CHECKPOINT
from hrac.runs import join
from hrac.training import state
from hrac.training.state import Training

PUSHED = (10, 25)
"""Steps of full acceleration."""


def blocks_between(env: gym.Env, start: np.ndarray, goal: np.ndarray) -> int:
    """How many blocks away a goal is, on the shortest way."""
    walls = np.array(env.unwrapped.maze.maze_map) == 1
    first, last = (tuple(env.unwrapped.maze.cell_xy_to_rowcol(point).tolist()) for point in (start, goal))
    distance, queue = {first: 0}, collections.deque([first])
    while queue:
        row, column = queue.popleft()
        for place in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
            if not walls[place] and place not in distance:
                distance[place] = distance[row, column] + 1
                queue.append(place)
    return distance[last]


class Player:
    """One seed of a run, in an environment of its own."""

    def __init__(self, folder: Path, place: int) -> None:
        config = configs.parse((folder / "config.json").read_bytes(), folder / "config.json")
        references.trust(config.task)
        task = tasks.make_env(config)
        training = Training(config, task)
        state.load(training, folder / CHECKPOINT)
        self.k, self.setup, self.view = config.k, training.setup, task.view
        self.agent = jax.tree.map(lambda leaf: leaf[place], join(training.runs).agent)
        self.actors = jax.tree.map(np.asarray, self.agent.actors)
        self.env = task.make()

    def seen(self, observation: dict[str, np.ndarray]) -> np.ndarray:
        return np.concatenate(self.view.read(observation)).astype(np.float32)

    def play(self, seed: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], int | None]:
        """First and last observation of an episode, and after how many steps it succeeded; None: not at all."""
        first, _ = observation, _ = self.env.reset(seed=seed)
        kept, obs = SubgoalState(np.zeros(2, np.float32), np.zeros((), np.int32)), self.seen(first)
        for step in range(1, self.env.spec.max_episode_steps + 1):
            subgoal, action = decide(self.actors, kept, obs, self.setup)
            observation, _, _, _, info = self.env.step(self.view.act(action, self.setup.actions))
            after = self.seen(observation)
            kept = carry_on(SubgoalState(subgoal, kept.clock), obs, after, np.bool_(step % self.k == 0), self.setup.space)
            obs = after
            if info["success"]:
                return first, observation, step
        return first, observation, None

    def stuck(self, observation: dict[str, np.ndarray]) -> str:
        """What the manager proposes at an observation, and what its critics expect."""
        obs, here, cell = jnp.asarray(self.seen(observation)), observation["achieved_goal"], np.array(self.view.cell)

        def expected(subgoals: np.ndarray) -> np.ndarray:
            values = [jax.vmap(lambda g, c=c: td3.value(c, obs, g))(jnp.asarray(subgoals)) for c in self.agent.manager.critics]
            return np.minimum(*map(np.asarray, values))

        proposed = np.asarray(td3.act(self.agent.manager.actor, obs, self.setup.space))
        low, high = self.setup.space.bounds(proposed)
        axes = np.linspace(low, high, 21).T
        tried = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2).astype(np.float32)
        values = expected(tried)
        best = tried[values.argmax()]
        at = lambda subgoal: f"({', '.join(f'{x:.2f}' for x in here + subgoal * cell)})"  # noqa: E731
        goal = ", ".join(f"{x:.2f}" for x in observation["desired_goal"])
        return (
            f"at {at(np.zeros(2))}, goal ({goal}): proposes {at(proposed)}, expects {expected(proposed[None])[0]:.1f}; "
            f"best {at(best)}, {values.max():.1f}; worst {values.min():.1f}"
        )

    def pushed(self) -> dict[int, float]:
        """How far full acceleration moves the point from rest: the furthest of 200 starts."""
        far: dict[int, float] = dict.fromkeys(PUSHED, 0.0)
        for seed in range(200):
            start = self.env.reset(seed=seed)[0]["achieved_goal"].copy()
            for step in range(1, max(PUSHED) + 1):
                moved = self.env.step(np.array([1.0, 0.0], np.float32))[0]["achieved_goal"][0] - start[0]
                if step in far:
                    far[step] = max(far[step], float(moved))
        return far


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--place", type=int, default=0, help="which of the run's seeds, counted from 0")
    parser.add_argument("--episodes", type=int, default=100)
    options = parser.parse_args()
    player = Player(options.run, options.place)
    steps, failures = collections.defaultdict(list), []
    for seed in range(1000, 1000 + options.episodes):
        first, last, taken = player.play(seed)
        steps[blocks_between(player.env, first["achieved_goal"], first["desired_goal"])].append(taken)
        if taken is None:
            failures.append(last)
    print("| blocks | successes | steps, median |\n|---|---|---|")
    for blocks, each in sorted(steps.items()):
        good = [taken for taken in each if taken is not None]
        print(f"| {blocks} | {len(good)} of {len(each)} | {f'{np.median(good):.0f}' if good else ''} |")
    for last in failures:
        print(player.stuck(last))
    print("full acceleration from rest:", ", ".join(f"{far:.2f} m in {step} steps" for step, far in player.pushed().items()))
