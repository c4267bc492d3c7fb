"""The ants in the package with less torque than they learned with: `python benchmarks/less_torque.py`.

They use torques up to 17.5 of 30, that of Ant Maze Sparse up to 20. Here what goes beyond a limit is cut off, over episodes
that no policy was chosen by.
"""

import numpy as np

import hrac
from hrac.envs.base import BatchEnvironment, HostTask
from hrac.worlds.episodes import Player

TASKS = ("ant-maze", "ant-maze-sparse", "ant-gather")
TORQUES = (20.0, 17.5, 15.0, 12.5, 10.0)
EPISODES = 200
RANDOM_SEED = 2


class Weaker:
    """A task whose copies cut torques off at a limit."""

    def __init__(self, task: HostTask, torque: float) -> None:
        own = {name: getattr(task, name) for name in dir(task) if not name.startswith("_") and not hasattr(Weaker, name)}
        vars(self).update(own)  # not by `__getattr__`, which a protocol's `isinstance` does not ask from Python 3.12 on
        self.task, self.torque = task, torque

    def evaluation(self) -> "Weaker":
        return Weaker(self.task.evaluation(), self.torque)

    def batch(self, num_envs: int, threads: int | None = None) -> BatchEnvironment:
        copies = self.task.batch(num_envs, threads)
        step, most = copies.step, self.torque
        copies.step = lambda actions, ids=None: step(np.clip(actions, -most, most), ids)
        return copies


def means(player: Player, torque: float, episodes: int) -> dict[str, float]:
    """Means over episodes, by metric."""
    sums = player._replace(task=Weaker(player.task, torque)).evaluate(episodes, RANDOM_SEED)
    return {name: float(total.sum() / weight.sum()) for name, (total, weight) in sums.items()}


def table(tasks: tuple[str, ...] = TASKS, torques: tuple[float, ...] = TORQUES, episodes: int = EPISODES) -> None:
    print("| task | torque | success, or return | on their backs | steps of an episode | way in a window |\n|" + "---|" * 6)
    for task in tasks:
        player = hrac.load(task).player
        for torque in torques:
            found = means(player, torque, episodes)
            score = f"{found['eval/success']:.1%}" if "eval/success" in found else f"{found['eval/return']:.2f}"
            fallen, steps, way = (found[f"eval/{name}"] for name in ("fallen", "episode_length", "window_displacement"))
            print(f"| {task} | {torque:g} | {score} | {fallen:.1%} | {steps:.0f} | {way:.2f} |", flush=True)


if __name__ == "__main__":
    table()
