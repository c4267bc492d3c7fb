"""Use a trained policy in a plain Gymnasium loop: `python examples/gymnasium_loop.py RUN`."""

import dataclasses
import sys

import gymnasium

import hrac


def main(run: str, episodes: int = 5) -> None:
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
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
