"""A random policy in each ant task, by Gymnasium's API alone: prints what came of it, and can draw it.

python examples/random_ants.py
python examples/random_ants.py --pictures docs/images      (top and following camera side by side; needs OpenGL)
"""

import argparse
import pathlib
import time

import gymnasium
import matplotlib.image
import numpy as np

import hrac  # noqa: F401  registers the environments

TASKS = {
    "ant-maze": ("hrac/AntMaze-v0", {"target": (0.0, 16.0)}),
    "ant-maze-sparse": ("hrac/AntMazeSparse-v0", {}),
    "ant-gather": ("hrac/AntGather-v0", {}),
}


def episode(name, options):
    env = gymnasium.make(name)
    env.action_space.seed(0)
    env.reset(seed=0, options=options)
    total, steps, done, start = 0.0, 0, False, time.perf_counter()
    while not done:
        _, reward, terminated, truncated, info = env.step(env.action_space.sample())
        total, steps, done = total + reward, steps + 1, terminated or truncated
    rate = steps / (time.perf_counter() - start)
    print(f"{name}: return {total:.1f} in {steps} steps, {info}, {rate:,.0f} steps/s")


def vector_steps(name, copies=64, steps=50):
    envs = gymnasium.make_vec(name, num_envs=copies)
    envs.action_space.seed(0)
    envs.reset(seed=0)
    start = time.perf_counter()
    for _ in range(steps):
        envs.step(envs.action_space.sample())
    print(f"{name}: {copies} ants together, {copies * steps / (time.perf_counter() - start):,.0f} steps/s")


def picture(name, options, path):
    views = []
    for camera in ("top", "follow"):
        env = gymnasium.make(name, render_mode="rgb_array", camera=camera)
        env.action_space.seed(1)
        obs, _ = env.reset(seed=7, options=options)
        for _ in range(20):
            obs, *_ = env.step(0.5 * env.action_space.sample())
        position = (obs["observation"] if isinstance(obs, dict) else obs)[:2]
        env.unwrapped.subgoal = position + np.array([2.0, 1.0])
        views.append(env.render())
        env.close()
    matplotlib.image.imsave(path, np.concatenate(views, axis=1))
    print(f"drawn: {path}")


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--pictures", type=pathlib.Path, help="a folder for pictures of the tasks")
folder = parser.parse_args().pictures
for task, (name, options) in TASKS.items():
    episode(name, options)
    vector_steps(name)
    if folder is not None:
        picture(name, options, folder / f"{task}.png")
