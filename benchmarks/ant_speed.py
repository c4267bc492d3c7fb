"""How far the trained ants in the package walk in ten steps: `python benchmarks/ant_speed.py`."""

import jax
import numpy as np

import hrac
from hrac.worlds import host

STEPS = 10


def main(episodes: int = 8) -> None:
    for task in ("ant-maze", "ant-maze-sparse", "ant-gather"):
        policy = hrac.load(hrac.pretrained(task))
        actors = jax.tree.map(lambda leaf: np.asarray(leaf)[None], policy.actors)
        played = host.play(policy.task.evaluation(), actors, np.arange(episodes), policy.setup, None)
        positions, alive = policy.setup.space.phi(played.obs)[0], played.alive[0]
        walked = np.linalg.norm(positions[STEPS:] - positions[:-STEPS], axis=-1)[alive[STEPS:]]
        half, most = np.percentile(walked, [50, 99])
        print(f"{task}: median {half:.2f}, 99 % below {most:.2f}, at most {walked.max():.2f} in {STEPS} steps")


if __name__ == "__main__":
    main()
