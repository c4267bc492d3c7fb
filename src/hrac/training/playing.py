"""Evaluation on the host: whole episodes of many copies at once, without exploration noise."""

import numpy as np
from numpy.typing import NDArray

from hrac.config import Config
from hrac.envs.base import HostTask
from hrac.training.acting import Actors, Hierarchy, undivided
from hrac.training.collect import observed


@undivided
def play(
    task: HostTask, hierarchy: Hierarchy, actors: Actors, seeds: NDArray[np.int64], cfg: Config
) -> dict[str, NDArray[np.float64]]:
    """One episode for each seed, an equal number for each run; totals and weights (2, runs, episodes): see docs/metrics.md."""
    runs, copies = len(actors.manager.biases[0]), len(seeds)
    episodes = copies // runs
    env = task.batch(copies, cfg.training.env_threads)
    obs = observed(env, env.reset(seeds=seeds))
    by_run = lambda array: array.reshape(runs, episodes, *array.shape[1:])  # noqa: E731
    subgoal = np.zeros((copies, hierarchy.space.dimensions), np.float32)
    alive, success, ret, length = np.ones(copies, bool), np.zeros(copies, bool), np.zeros(copies), np.zeros(copies)
    judged, missed = np.zeros((2, copies)), np.zeros((2, copies))
    for time in range(env.time_limit):
        ids = np.flatnonzero(alive)
        if not ids.size:
            break
        if time % cfg.k == 0:
            subgoal = hierarchy.propose(actors, by_run(obs)).reshape(copies, -1)
            near = hierarchy.distance(actors, by_run(obs), by_run(subgoal)).reshape(copies) < cfg.adjacency.threshold
            judged += np.stack([near & alive, alive])
        action = hierarchy.act(actors, by_run(obs), by_run(subgoal)).reshape(copies, -1)
        after = env.step(action[ids], ids)
        next_obs = obs.copy()
        next_obs[ids] = observed(env, after.obs, ids)
        subgoal = hierarchy.carry_on(subgoal, obs, next_obs)
        obs = next_obs
        ret[ids] += after.reward
        length[ids] += 1
        success[ids] |= after.terminated
        alive[ids] = ~(after.terminated | after.truncated)
        if time % cfg.k == cfg.k - 1 or not alive[ids].all():
            ended = ids if time % cfg.k == cfg.k - 1 else ids[~alive[ids]]
            missed[0, ended] += np.linalg.norm(subgoal[ended], axis=1)  # what is left of it is how far it was missed
            missed[1, ended] += 1
    one = np.ones(copies)
    numbers = {
        "eval/return": np.stack([ret, one]),
        "eval/episode_length": np.stack([length, one]),
        "eval/subgoal_judged_adjacent": judged,
        "eval/subgoal_miss": missed,
    }
    if task.ends_on_success:
        numbers["eval/success"] = np.stack([success, one])
    return {name: both.reshape(2, runs, episodes).astype(np.float64) for name, both in numbers.items()}
