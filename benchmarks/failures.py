"""How a run's ants fail: `python benchmarks/failures.py RUN [--episodes 100]`, on the episodes that `hrac eval` plays.

An ant that has fallen on its back hardly ever gets up again, and no task ends an episode for it.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import hrac
from hrac.api import read_config
from hrac.training.collect import copy_seeds, observed
from hrac.training.policies import HostPolicy
from hrac.training.streams import Stream

QUATERNION = slice(3, 7)
"""Where the torso's orientation is in an observation."""


def last_observations(policy: HostPolicy, episodes: int, random_seed: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The last observation of each episode, and which ones were a success."""
    env, hierarchy, actors = policy.task.evaluation().batch(episodes), policy.hierarchy, policy.actors
    obs = observed(env, env.reset(seeds=copy_seeds((random_seed,), episodes, Stream.EVAL)))
    subgoal, success, alive = np.zeros((episodes, 2), np.float32), np.zeros(episodes, bool), np.ones(episodes, bool)
    for time in range(env.time_limit):
        if time % policy.config.k == 0:
            subgoal = hierarchy.propose(actors, obs[None])[0]
        ids = np.flatnonzero(alive)
        after = env.step(hierarchy.act(actors, obs[None], subgoal[None])[0, ids], ids)
        next_obs = obs.copy()
        next_obs[ids] = observed(env, after.obs, ids)
        subgoal, obs = hierarchy.carry_on(subgoal, obs, next_obs), next_obs
        success[ids] |= after.terminated
        alive[ids] = ~(after.terminated | after.truncated)
        if not alive.any():
            break
    return obs, success


def on_the_back(obs: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Whether the torso's upward axis points down."""
    _, x, y, _ = np.moveaxis(obs[..., QUATERNION], -1, 0)
    return 1 - 2 * (x**2 + y**2) < 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--random-seed", type=int, default=12345)
    options = parser.parse_args()
    print("| seed | episodes | success | on its back at the end | other failures |")
    print("|---|---|---|---|---|")
    for seed in read_config(options.run).seeds:
        policy = hrac.load(options.run, seed)
        assert isinstance(policy, HostPolicy), "a run with ants is needed"
        obs, success = last_observations(policy, options.episodes, options.random_seed)
        fallen = on_the_back(obs) & ~success
        print(f"| {seed} | {len(success)} | {success.sum()} | {fallen.sum()} | {(~success & ~fallen).sum()} |")


if __name__ == "__main__":
    main()
