"""Learn what is near what, for a walker, from where it has been: `python examples/reachability.py [FILE]`.

A point walks about a room of 10 by 10 metres with a wall in it. No environment and no agent of this library is needed: only
the positions that were visited, in order of time.
"""

import sys

import numpy as np

import hrac

STEP = 0.5  # metres
WALL_X, WALL_END_Y = 5.0, 7.0  # the wall goes from (5, 0) to (5, 7)


def walk(walkers: int = 500, steps: int = 200, seed: int = 0) -> np.ndarray:
    """Positions (walkers, time, 2). Each goes straight for a while, then turns."""
    rng = np.random.default_rng(seed)
    position, heading = rng.uniform(0, 10, (walkers, 2)), rng.uniform(0, 2 * np.pi, walkers)
    path = [position]
    for _ in range(steps):
        heading = np.where(rng.random(walkers) < 0.1, rng.uniform(0, 2 * np.pi, walkers), heading)
        wanted = position + STEP * np.stack([np.cos(heading), np.sin(heading)], axis=1)
        across = (position[:, 0] < WALL_X) != (wanted[:, 0] < WALL_X)
        stopped = (across & (wanted[:, 1] < WALL_END_Y)) | ((wanted < 0) | (wanted > 10)).any(axis=1)
        position = np.where(stopped[:, None], position, wanted)
        path.append(position)
    return np.stack(path, axis=1)


def main(file: str = "reachability.safetensors") -> None:
    model = hrac.reachability.fit(walk(), k=10, cell_size=0.5)  # ten steps are at most 5 metres
    model.save(file)
    model = hrac.reachability.load(file)
    here = (4.0, 2.0)
    questions = {"on the same side": (1.0, 2.0), "across the wall": (6.0, 2.0), "to the end of the wall": (4.0, 6.0)}
    for name, there in questions.items():
        metres, near = np.hypot(*np.subtract(there, here)), model.adjacent(here, there)
        print(f"{name}, {metres:.0f} metres away: {'within' if near else 'more than'} ten steps")


if __name__ == "__main__":
    main(*sys.argv[1:])
