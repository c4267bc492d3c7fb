"""Use a trained policy in a plain Gymnasium loop: `python examples/gymnasium_loop.py RUN`, or with a policy file.

Without either, it is the ant that comes with the package. Episodes are those of an evaluation.
"""

import dataclasses
import sys
from pathlib import Path

import gymnasium

import hrac


def main(run: str | Path, episodes: int = 5) -> None:
    policy = hrac.load(run)
    names = {
        "maze": "hrac/Maze-v0",
        "key-chest": "hrac/KeyChest-v0",
        "ant-maze": "hrac/AntMaze-v0",
        "ant-maze-sparse": "hrac/AntMazeSparse-v0",
        "ant-gather": "hrac/AntGather-v0",
    }
    if policy.config.task not in names:
        sys.exit(f"{policy.config.task} is no Gymnasium environment")
    changes = {name: value for name, value in dataclasses.asdict(policy.config.env).items() if value is not None}
    if policy.config.task.startswith("ant-maze"):  # in Ant Maze's training the target is anywhere, and reaching it ends nothing
        maze = policy.task.evaluation()
        changes |= {"target": maze.target, "ends_on_success": maze.ends_on_success}
    env = gymnasium.make(names[policy.config.task], **changes)
    for episode in range(episodes):
        obs, info = env.reset(seed=episode)
        policy.reset(seed=episode)
        total, steps, done = 0.0, 0, False
        while not done:
            obs, reward, terminated, truncated, info = env.step(policy.act(obs))
            total, steps, done = total + float(reward), steps + 1, terminated or truncated
        print(f"episode {episode}: return {total:.1f} in {steps} steps, {info}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    main(sys.argv[1] if len(sys.argv) == 2 else hrac.pretrained("ant-maze"))
