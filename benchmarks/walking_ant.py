"""Trains an ant that can walk already, in Ant Maze: `python benchmarks/walking_ant.py NAME`.

The controller is that of the package, and does not learn. What is left of `hrac-plus` are its manager and its adjacency
network, in the body and the maze of Ant Maze, at a cost that two cores can pay. The tables are printed by `time_limit.py`.
"""

import argparse
from pathlib import Path
from typing import Any

import averaging
import jax
import jax.numpy as jnp

import hrac
from hrac import config as configs
from hrac.config import Config
from hrac.experiments import tasks
from hrac.training.learn import RunState
from hrac.training.state import Training

SEEDS = tuple(range(100, 105))
STEPS = 200_000
SETTINGS: dict[str, Any] = {
    "controller.learning_rate": 1e-12,  # the least that is allowed: no weight moves by 1e-8
    "controller.critic_learning_rate": 1e-12,
    "controller.updates_per_env_step": 0.025,  # 10 in a round instead of 400
    "manager.updates_per_window": 120,  # counted by updates of the controller: 120 in a round, as always
    "manager.correction_candidates": 0,  # the controller is always the same
    "adjacency.pretrain_env_steps": 20_000,
    "adjacency.update_every_env_steps": 20_000,
    "adjacency.max_gradient_steps": 5_000,
    "training.envs_per_run": 40,
    "training.env_threads": 1,
    "training.eval_every_env_steps": 10_000,
    "training.eval_episodes": 20,
}
RUNS: dict[str, dict[str, Any]] = {
    "ends": {},
    "goes-on": {"manager.bootstrap_at_time_limit": True},
    "goes-on-0.98": {"manager.bootstrap_at_time_limit": True, "manager.discount": 0.98},
}
"""Settings beside those of `hrac-plus`."""


def config_of(name: str) -> Config:
    """The configuration of a run."""
    about = {"seeds": list(SEEDS), "training.total_env_steps": STEPS}
    return configs.replace(tasks.config_for("ant-maze", "hrac-plus"), about | SETTINGS | RUNS[name])


def give_legs(training: Training) -> None:
    """Let all runs have the controller of the package."""
    walker = hrac.load("ant-maze").actors.controller

    def with_walker(run: RunState) -> RunState:
        own = run.agent.controller
        actor = jax.tree.map(lambda mine, its: jnp.broadcast_to(jnp.asarray(its, mine.dtype), mine.shape), own.actor, walker)
        controller = own._replace(actor=actor, target_actor=jax.tree.map(jnp.copy, actor))
        return run._replace(agent=run.agent._replace(controller=controller))

    training.runs[:] = [with_walker(run) for run in training.runs]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=RUNS)
    parser.add_argument("--out", type=Path, help="folder for the results")
    options = parser.parse_args()
    out = options.out or Path("runs") / f"walking-ant-{options.name}"
    first = SETTINGS["adjacency.pretrain_env_steps"]
    averaging.train(config_of(options.name), out, lengths=(20_000,), first=first, prepare=give_legs)
