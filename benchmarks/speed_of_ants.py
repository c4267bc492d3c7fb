"""Speed and memory of the ant environments alone, stepped at random:  python benchmarks/speed_of_ants.py ant-maze"""

import os
import platform
import sys
import time
from collections.abc import Iterator

import mujoco
import numpy as np

from hrac.envs.ant import body
from hrac.envs.ant.batch import AntBatch, Definition
from hrac.envs.ant.gather import AntGather
from hrac.envs.ant.maze import SPARSE, AntMaze
from hrac.experiments.bench import peak_gigabytes

ANTS: dict[str, Definition] = {"ant-maze": AntMaze(), "ant-maze-sparse": SPARSE, "ant-gather": AntGather()}
COPIES = (1, 16, 256)
MANY = (256, 1024, 4096)


def environment(task: str, seconds: float = 4.0) -> Iterator[str]:
    """Lines about stepping a task's ants at random, beside the physics alone in the same seconds."""
    if task not in ANTS:
        sys.exit(f"there are no ants in {task!r}. Tasks with ants are: {', '.join(ANTS)}")
    definition, cores = ANTS[task], os.cpu_count() or 1
    yield f"{platform.machine()}, {cores} cores, Python {platform.python_version()}, MuJoCo {mujoco.__version__}"
    plain = _plain_rate(definition, seconds / 2)
    yield f"one ant in a loop of mj_step: {plain:,.0f} environment steps/s ({body.FRAME_SKIP} physics steps each)"
    yield "ants  threads  environment steps/s  physics alone  overhead"
    for threads in dict.fromkeys((1, cores)):
        for copies in COPIES:
            whole, physics = _rates(definition.batch(copies, threads), seconds)
            yield f"{copies:>4}  {threads:>7}  {whole:>19,.0f}  {physics:>13,.0f}  {physics / whole - 1:>8.1%}"
    yield "ants  seconds to build  peak memory of the process"
    for copies in MANY:
        start = time.perf_counter()
        batch = definition.batch(copies)
        batch.reset()
        built = time.perf_counter() - start
        batch.step(np.zeros((copies, body.MOTORS)))
        yield f"{copies:>4}  {built:>16.3f}  {peak_gigabytes():.3f} GB"


def _plain_rate(definition: Definition, seconds: float) -> float:
    """Environment steps a second of one ant, by the plainest loop there is."""
    model, rng = body.model(definition.walls), np.random.default_rng(0)
    data, steps, start = mujoco.MjData(model), 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < seconds:
        data.ctrl[:] = rng.uniform(-body.MAX_TORQUE, body.MAX_TORQUE, body.MOTORS)
        mujoco.mj_step(model, data, body.FRAME_SKIP)
        steps += 1
    return steps / spent


def _rates(batch: AntBatch, seconds: float) -> tuple[float, float]:
    """Steps a second with observations, rewards and resets, and of the physics alone, in turns with the same ants."""
    rng = np.random.default_rng(0)
    batch.reset()
    batch.steps[:] = rng.integers(batch.time_limit, size=batch.num_envs)  # so that resets come evenly, not all at once
    spent = {"whole": 0.0, "physics": 0.0}
    turns = -3  # to warm up
    while sum(spent.values()) < seconds or turns < 2:
        whole, physics = rng.uniform(-body.MAX_TORQUE, body.MAX_TORQUE, (2, batch.num_envs, body.MOTORS))
        start = time.perf_counter()
        after = batch.step(whole)
        if (ended := after.terminated | after.truncated).any():
            batch.reset(ended)
        middle = time.perf_counter()
        batch.physics.bind("ctrl")[:] = physics
        batch.physics.step(nstep=body.FRAME_SKIP)
        end = time.perf_counter()
        turns += 1
        if turns > 0:
            spent["whole"] += middle - start
            spent["physics"] += end - middle
    return turns * batch.num_envs / spent["whole"], turns * batch.num_envs / spent["physics"]


if __name__ == "__main__":
    for line in environment(sys.argv[1] if len(sys.argv) > 1 else "ant-maze"):
        print(line, flush=True)
